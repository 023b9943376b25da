//! Members that end before their device does, such as those that were copied onto a larger disk, or whose partition is in no table any
//! more: looked for at all places where a superblock could stand.

use std::path::{Path, PathBuf};

use brindle_format::md::{SUPERBLOCK_BYTES, displaced, probe_offsets};
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::MemberReport;
use crate::look::{self, Patient};
use crate::progress;
use crate::world::place;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Bytes of a device that takes no long time to look through: that is done unasked where nothing else is found.
const QUICK: u64 = 1 << 30;

/// Members that are told of, of one device.
const MOST: usize = 64;

/// Whether a device is so small that nobody minds a look through all of it.
pub(super) fn is_quick(report: &MemberReport) -> bool {
    report.size.is_some_and(|size| size <= QUICK)
}

/// Names of the members that are found on a device beside the one that it may be as a whole.
pub(super) fn members(name: &Path) -> Vec<PathBuf> {
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
