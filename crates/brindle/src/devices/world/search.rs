//! Members that end before their device does, such as those that were copied onto a larger disk, or whose partition is in no table any
//! more: looked for at all places where a superblock could stand.

use std::path::{Path, PathBuf};

use brindle_format::md::{SUPERBLOCK_BYTES, Uuid, displaced, probe_offsets};
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::members::{LeftOut, Seen, Set};
use super::{Named, World, assumed, place};
use crate::base::failure::Failure;
use crate::base::look::{self, Patient};
use crate::base::progress;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Bytes of a device that takes no long time to look through: that is done unasked where nothing else is found.
const QUICK: u64 = 1 << 30;

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
    place::open(name, DeviceAccess::Examine).map_or_else(|_| Vec::new(), |device| on(name, &device))
}

fn on(name: &Path, device: &OpenDevice) -> Vec<PathBuf> {
    let size = device.info().size;
    let usual: Vec<u64> = probe_offsets(size).map(|probe| probe.offset).collect();
    let bar = progress::bar("searching", size);
    // A place that can't be read has no superblock.
    let mut patient = Patient::new(look::reader(device));
    let mut found = Vec::new();
    for at in (0..size).step_by(PIECE as usize) {
        bar.set_position(at);
        let len = PIECE.min(size - at);
        if device.is_hole(at, len).unwrap_or(false) {
            continue;
        }
        let bytes = patient.read(at, len as usize);
        for (place, block) in
            (at..).step_by(displaced::STEP as usize).zip(bytes.chunks_exact(SUPERBLOCK_BYTES))
        {
            let Some(member) = displaced::member(place, block) else { continue };
            let is_whole = member.start == 0 && usual.contains(&place);
            if !is_whole && found.len() < MOST {
                found.push(place::between(name, &(member.start..member.end.min(size))));
            }
        }
    }
    bar.finish_and_clear();
    found
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
        Ok(on(name, &seen.device))
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
