//! Content of an array, and the command that goes on with it.

use brindle_array::Array;
use brindle_format::signature::{Found, Signature};
use brindle_volume::{Volume, read_again};

use crate::base::failure::Failure;
use crate::base::look::{self, Patient};
use crate::base::report::{ArrayReport, ContentReport};
use crate::base::text;
use crate::base::units::Bytes;
use crate::devices::world::{Assembled, Set, World, place};

/// The last of the commands for volumes of LVM.
const ACTIVATE: &str = "vgchange --activate y; lvs";

/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;

/// The way by which an array becomes a device, beside those of other arrays.
pub(super) struct Way {
    /// The members as words of a command line.
    members: String,
    /// The commands.
    serve: String,
    /// The device.
    device: String,
}

impl Way {
    /// The way of the array that comes so manieth of those that were named; `several`: it is not the only one.
    pub(super) fn of(assembled: &Assembled, set: &Set, at: usize, several: bool) -> Self {
        // Names are quoted, since the command is pasted into a shell.
        let members: Vec<String> = set.members.iter().map(|named| text::shell(&named.label)).collect();
        let members = members.join(" ");
        let force = if assembled.is_forced() { "--force " } else { "" };
        let socket = if several { format!("rescue{at}.sock") } else { "rescue.sock".to_owned() };
        let device = format!("/dev/nbd{at}");
        let serve = format!(
            "brindle serve --read-only {force}{members} --nbd unix:{socket} --background; nbd-client -readonly -unix {socket} {device}"
        );
        Self { members, serve, device }
    }
}

impl Way {
    /// The way of a volume of a container.
    pub(super) fn of_volume(number: usize, members: &[String]) -> Self {
        let members: Vec<String> = members.iter().map(|label| text::shell(label)).collect();
        let members = format!("--volume {number} {}", members.join(" "));
        let device = format!("/dev/loop{number}");
        let serve = format!(
            "brindle cat -o volume{number}.img {members}; losetup --read-only {device} volume{number}.img"
        );
        Self { members, serve, device }
    }
}

/// Gives volumes of LVM that lie on several arrays one list of commands: they are activated once all of their parts are there.
pub(super) fn together(all: &mut [(&mut ArrayReport, &Way)]) {
    let is_part = |report: &ArrayReport| report.holds().any(|held| held.kind == Signature::LvmPv.to_string());
    let parts: Vec<&str> =
        all.iter().filter(|(report, _)| is_part(report)).map(|(_, way)| way.serve.as_str()).collect();
    if parts.len() < 2 {
        return;
    }
    let next = format!("{}; {ACTIVATE}", parts.join("; "));
    for (report, _) in all {
        let of_lvm = |held: &&mut ContentReport| held.kind == Signature::LvmPv.to_string();
        report.holds_mut().filter(of_lvm).for_each(|held| held.next = Some(next.clone()));
    }
}

/// Looks at an array without changing anything; `None` if it can't be read.
pub(super) fn holds(world: &World, array: &Array, way: &Way) -> Option<Vec<ContentReport>> {
    let size = array.limits().size;
    let mut patient = Patient::new(|offset, len| read(world, array, offset, len));
    let looked = look::look(size, |offset, len| Ok(patient.read(offset, len))).ok()?;
    let is_guid = looked.found.iter().any(|found| found.signature == Signature::Gpt);
    // The table before a GUID table only protects it, and a second copy tells nothing new.
    let mut seen = Vec::new();
    let mut tells = |found: &Found| {
        let again = seen.contains(&found.signature);
        seen.push(found.signature);
        !(again || is_guid && found.signature == Signature::Mbr)
    };
    let held = looked.found.into_iter().filter(|found| tells(found)).map(|found| ContentReport {
        next: next(world, array, found.signature, way),
        kind: found.signature.to_string(),
        offset: found.offset,
        label: found.label,
        uuid: found.uuid,
    });
    Some(held.collect())
}

/// Reads some bytes of an array, at any alignment.
fn read(world: &World, array: &Array, offset: u64, len: usize) -> Result<Vec<u8>, Failure> {
    let limits = array.limits();
    let block = u64::from(limits.block);
    let (first, end) = (offset / block * block, (offset + len as u64).next_multiple_of(block));
    let mut bytes = Vec::with_capacity((end - first) as usize);
    for at in (first..end).step_by(PIECE) {
        let part = (end - at).min(PIECE as u64) as usize;
        let asked = read_again(array, at, async || world.metadata.alloc(part).await.all());
        let slice = world.io.block_on(asked);
        let slice = slice.map_err(|source| Failure::Volume { doing: "reading the array", source })?;
        bytes.extend_from_slice(&slice.bytes());
    }
    let skip = (offset - first) as usize;
    Ok(bytes[skip..skip + len].to_vec())
}

/// The command to type next, to read what is there and to change nothing.
fn next(world: &World, array: &Array, found: Signature, way: &Way) -> Option<String> {
    let Way { members, serve, device } = way;
    Some(match found {
        Signature::Swap | Signature::MdRaid => return None,
        Signature::Gpt | Signature::Mbr => {
            let size = array.limits().size;
            let all = place::of_bytes(size, 512, |offset, len| read(world, array, offset, len)).ok()?;
            let first = all.iter().max_by_key(|one| one.end - one.start)?;
            let each: Vec<String> =
                all.iter().map(|one| format!("{} ({})", one.number, Bytes(one.end - one.start))).collect();
            let (number, each) = (first.number, each.join(", "));
            format!("partitions {each}: brindle cat --partition {number} -o part{number}.img {members}")
        }
        Signature::LvmPv => format!("{serve}; {ACTIVATE}"),
        Signature::Luks => format!("{serve}; cryptsetup open --readonly {device} rescued"),
        Signature::BitLocker => format!("{serve}; cryptsetup bitlkOpen --readonly {device} rescued"),
        Signature::Zfs => format!("{serve}; zpool import -o readonly=on -d {device}"),
        Signature::Xfs => format!("{serve}; mount -o ro,norecovery {device} /mnt"),
        Signature::Ext => format!("{serve}; mount -o ro,noload {device} /mnt"),
        _ if found.name().ends_with("file system") => format!("{serve}; mount -o ro {device} /mnt"),
        _ => serve.clone(),
    })
}
