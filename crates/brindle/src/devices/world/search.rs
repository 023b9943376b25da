//! Members that end before their device does, such as those that were copied onto a larger disk, or whose partition is in no table any
//! more: looked for at all places where a superblock could stand.

use std::ops::Range;
use std::path::{Path, PathBuf};

use brindle_format::imsm;
use brindle_format::md::displaced::{self, Displaced};
use brindle_format::md::{SUPERBLOCK_BYTES, Uuid, probe_offsets};
use brindle_format::signature::Signature;
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::beginning::AREA_0_90;
use super::members::{LeftOut, Seen, Set};
use super::notes::note;
use super::{Named, World, assumed, place};
use crate::base::failure::Failure;
use crate::base::look::{self, Patient};
use crate::base::progress;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Bytes of a device that takes no long time to look through: that is done unasked where nothing else is found.
const QUICK: u64 = 1 << 30;

/// Bytes before the first partition of a disk, as a rule.
const BEFORE_FIRST: u64 = 1 << 20;

/// The most members that are listed for one device.
const MOST: usize = 64;

/// When a device that is not a member as a whole is looked through for members that end before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Partitions are not looked for: the whole device counts.
    Never,
    /// Partitions are looked for on small devices without other content.
    Quick,
    /// Devices of any size.
    All,
}

impl Through {
    /// The wish of the flag `--search`.
    pub(crate) fn of(asked: bool) -> Self {
        if asked { Self::All } else { Self::Quick }
    }
}

/// Whether a device of this size is looked through without being asked.
pub(crate) fn is_quick(size: u64) -> bool {
    size <= QUICK
}

/// Names of the members that are found on a device beside the one that it may be as a whole.
pub(crate) fn members(name: &Path) -> Vec<PathBuf> {
    if place::is_part(name) {
        return Vec::new();
    }
    place::open(name, DeviceAccess::Examine).map_or_else(|_| Vec::new(), |device| on(name, &device, true))
}

/// A disk of a container of Intel's that was copied onto a larger one, and has its anchor at byte `place`: the metadata know its size.
fn container(device: &OpenDevice, place: u64) -> Option<Range<u64>> {
    let is_whole = |sector: &u64| {
        let end = place.checked_add(sector * 2)?;
        let read = |range: Range<u64>| device.read_at(range.start, (range.end - range.start) as usize).ok();
        let mut bytes = read(imsm::anchor(end, *sector)?)?;
        let len = imsm::Container::bytes(&bytes).ok()?;
        bytes.extend(read(imsm::extended(end, *sector, len)?).unwrap_or_default());
        let metadata = imsm::Container::parse(&bytes, *sector).ok()?;
        metadata.disks.iter().any(|disk| disk.size == end).then_some(0..end)
    };
    [512, 4096].iter().find_map(is_whole)
}

/// `containers`: disks of such are looked for, too.
fn on(name: &Path, device: &OpenDevice, containers: bool) -> Vec<PathBuf> {
    let size = device.info().size;
    let usual: Vec<u64> = probe_offsets(size).map(|probe| probe.offset).collect();
    let bar = progress::bar("searching", size);
    // A place that can't be read has no superblock.
    let mut patient = Patient::new(look::reader(device));
    let mut found = Vec::new();
    for at in (0..size).step_by(PIECE as usize) {
        bar.set_position(at);
        // A superblock may begin in one piece and end in the next.
        let len = (PIECE + SUPERBLOCK_BYTES as u64).min(size - at);
        if device.is_hole(at, len).unwrap_or(false) {
            continue;
        }
        let bytes = patient.read(at, len as usize);
        for first in (0..len.min(PIECE)).step_by(displaced::STEP as usize) {
            let Some(block) = bytes[first as usize..].get(..SUPERBLOCK_BYTES) else { break };
            let place = at + first;
            if containers
                && block.starts_with(imsm::SIGNATURE)
                && let Some(disk) = container(device, place).filter(|disk| disk.end < size)
                && found.len() < MOST
            {
                found.push(place::between(name, &disk));
            }
            let Some(member) = displaced::member(place, block) else { continue };
            let Some(member) = likely(name, device, place, member) else { continue };
            let is_whole = member.start == 0 && usual.contains(&place);
            if !is_whole && found.len() < MOST {
                found.push(place::between(name, &(member.start..member.end.min(size))));
            }
        }
    }
    bar.finish_and_clear();
    found
}

/// A member of 0.90 in a partition that ended with its disk, and is in no table any more. Its superblock stands where that of the whole disk
/// would; but its size says that it begins later, nothing stands before that, and something there.
fn moved(name: &Path, seen: &Seen) -> Option<PathBuf> {
    let (superblock, at) = seen.candidate.superblock().ok()?;
    let start = at.checked_sub(superblock.component_size)?;
    if superblock.version.is_v1()
        || superblock.component_size == 0
        || place::is_part(name)
        || start < AREA_0_90
    {
        return None;
    }
    let block = seen.device.read_at(at, SUPERBLOCK_BYTES).ok()?;
    let Displaced::BySize(bytes) = displaced::member(at, &block)? else { return None };
    let is_blank = |range: Range<u64>| {
        let bytes = seen.device.read_at(range.start, (range.end - range.start) as usize);
        bytes.is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    };
    let before = is_blank(0..bytes.start.min(BEFORE_FIRST));
    let there = bytes.start..at.min(bytes.start + BEFORE_FIRST);
    (before && !is_blank(there))
        .then(|| place::between(name, &(bytes.start..bytes.end.min(seen.device.info().size))))
}

/// The bytes of a member whose superblock stands at `place`, as far as its beginning is known or likely; tells of one where it is not.
fn likely(name: &Path, device: &OpenDevice, place: u64, member: Displaced) -> Option<Range<u64>> {
    match member {
        Displaced::Known(bytes) | Displaced::BySize(bytes) => Some(bytes),
        Displaced::Unlikely(bytes) if has_content(device, bytes.start..place) => Some(bytes),
        Displaced::Unlikely(Range { end, .. }) | Displaced::Unknown(end) => {
            let name = name.display();
            note(format!(
                "{name}: where the member begins whose superblock (metadata 0.90) stands at byte {place} is not known: if you know it, name \
                 {name}@BEGINNING..{end}"
            ));
            None
        }
    }
}

/// Whether something that is known begins where these bytes of a device do.
fn has_content(device: &OpenDevice, bytes: Range<u64>) -> bool {
    let mut patient = Patient::new(look::reader(device));
    let read = |offset: u64, len: usize| Ok(patient.read(bytes.start + offset, len));
    let looked = look::look(bytes.end - bytes.start, read);
    looked.is_ok_and(|looked| looked.found.iter().any(|found| found.signature != Signature::MdRaid))
}

impl World {
    /// The device itself, if it is a member as a whole or has no members inside.
    ///
    /// # Errors
    /// It is no member and has members inside: the message names them.
    pub(super) fn search(&self, name: &Path, seen: Seen) -> Result<Seen, Failure> {
        match self.inside(name, &seen)? {
            inside if inside.is_empty() => Ok(seen),
            inside => Err(Failure::Partitioned { path: seen.candidate.label, inside }),
        }
    }

    fn inside(&self, name: &Path, seen: &Seen) -> Result<Vec<PathBuf>, Failure> {
        let search = self.options.search;
        if search != Through::Never
            && let Some(moved) = moved(name, seen)
        {
            return Ok(vec![moved]);
        }
        let is_none = seen.candidate.found.is_empty() && assumed::given().is_none();
        if search == Through::Never || !is_none || place::is_part(name) {
            return Ok(Vec::new());
        }
        let size = seen.device.info().size;
        if search == Through::Quick {
            if !is_quick(size) {
                return Ok(Vec::new());
            }
            let look = look::look(size, look::reader(&seen.device))?;
            if look.blank || !look.found.is_empty() {
                return Ok(Vec::new());
            }
        }
        Ok(on(name, &seen.device, false))
    }

    /// Lets go of members that were found on devices, if they are of other arrays than the devices that are members as a whole: any file
    /// may have the image of a member in it.
    pub(super) fn let_go_of_others(&self, set: &mut Set, names: &[PathBuf]) {
        let is_named = |named: &Named| names.contains(&PathBuf::from(&named.label));
        let wanted: Vec<Uuid> =
            set.members.iter().filter(|named| is_named(named)).filter_map(Named::array).collect();
        if wanted.is_empty() {
            return;
        }
        let is_other = |named: &Named| {
            let is_found = named.label.contains("..") && !is_named(named);
            is_found && named.array().is_none_or(|array| !wanted.contains(&array))
        };
        let (others, stay) = core::mem::take(&mut set.members).into_iter().partition(is_other);
        set.members = stay;
        let others: Vec<Named> = others;
        let ids: Vec<_> = others.iter().map(|named| named.id).collect();
        self.locks.unlock_those(&self.close_devices(&ids));
        for named in others {
            let (label, of) = (named.label.clone(), named.array());
            let why = format!("{label}: it is a member of another array than the others");
            set.left_out.push(LeftOut { label, why, claim: None, of, bare: None });
        }
    }
}
