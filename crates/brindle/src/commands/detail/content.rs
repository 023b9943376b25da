//! Content of an array, and the command that goes on with it.

use brindle_array::Array;
use brindle_format::signature::{Found, Signature};
use brindle_volume::{Volume, read_again};

use crate::base::failure::Failure;
use crate::base::look::{self, Patient};
use crate::base::report::ContentReport;
use crate::base::text;
use crate::base::units::Bytes;
use crate::devices::world::{Assembled, Set, World, place};

/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;

/// Looks at an array without changing anything; `None` if it can't be read.
pub(super) fn holds(world: &World, assembled: &Assembled, set: &Set) -> Option<Vec<ContentReport>> {
    let array = world.start(assembled, &set.members).ok()?;
    let size = array.limits().size;
    let mut patient = Patient::new(|offset, len| read(world, &array, offset, len));
    let looked = look::look(size, |offset, len| Ok(patient.read(offset, len))).ok()?;
    // Names are quoted, since the command is pasted into a shell.
    let members: Vec<String> = set.members.iter().map(|named| text::shell(&named.label)).collect();
    let members = members.join(" ");
    let is_guid = looked.found.iter().any(|found| found.signature == Signature::Gpt);
    // The table before a GUID table only protects it, and a second copy tells nothing new.
    let mut seen = Vec::new();
    let mut tells = |found: &Found| {
        let again = seen.contains(&found.signature);
        seen.push(found.signature);
        !(again || is_guid && found.signature == Signature::Mbr)
    };
    let held = looked.found.into_iter().filter(|found| tells(found)).map(|found| ContentReport {
        next: next(world, &array, found.signature, &members),
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
fn next(world: &World, array: &Array, found: Signature, members: &str) -> Option<String> {
    let device = format!(
        "brindle serve --read-only {members} --nbd unix:rescue.sock --background; nbd-client -readonly -unix rescue.sock /dev/nbd0"
    );
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
        Signature::LvmPv => format!("{device}; vgchange --activate y; lvs"),
        Signature::Luks => format!("{device}; cryptsetup open --readonly /dev/nbd0 rescued"),
        Signature::BitLocker => format!("{device}; cryptsetup bitlkOpen --readonly /dev/nbd0 rescued"),
        Signature::Zfs => format!("{device}; zpool import -o readonly=on -d /dev/nbd0"),
        Signature::Xfs => format!("{device}; mount -o ro,norecovery /dev/nbd0 /mnt"),
        Signature::Ext => format!("{device}; mount -o ro,noload /dev/nbd0 /mnt"),
        _ if found.name().ends_with("file system") => format!("{device}; mount -o ro /dev/nbd0 /mnt"),
        _ => device,
    })
}
