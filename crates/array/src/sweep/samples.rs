//! Decides from samples whether redundancy was ever in sync.
//!
//! The wrong member can be known only where all members agreed once. md's format calls an array that was made with
//! `--assume-clean` in sync, whatever its members held. But samples show it: where P and Q, or copies, never were
//! made from the data, they disagree nearly everywhere, and name no single member. Bytes that rot, and places that
//! another program wrote over, are few in comparison. Where samples name the same member everywhere, either that
//! member held one byte all over when the array was made, or it was written all over since. A resync would then make
//! wrong data permanent.

use brindle_layout::Family as Map;
use brindle_volume::VolumeError;

use super::ALIGNMENT;
use crate::array::Array;
use crate::data::report::{SyncMode, SyncReport};
use crate::sync_len::sync_len;

/// Places that are looked at, spread over the array.
const SAMPLES: u64 = 64;
/// The fewest sectors that allow a verdict.
const LEAST: u64 = 1024;
const SECTOR: u64 = 512;

/// The verdict of samples from all over an array: whether its redundancy was ever true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Redundancy agrees in most places, or there are too few samples to tell.
    Made,
    /// Redundancy was never in sync, as after `--assume-clean`: no single member explains the mismatches, though all
    /// are present and an overwritten one would be recognised. Two that were written over look the same: a resync
    /// would lose their content.
    NeverMade,
    /// Redundancy disagrees nearly everywhere, maybe because one member was overwritten: a resync would lose its
    /// content.
    InDoubt,
}

impl Array {
    /// Whether redundancy disagrees with the data in so much of the array that it hardly ever was true: then the
    /// wrong member is unknown, and [`SyncMode::Locate`] would write at random. Compares 64 places, each of 64 KiB or
    /// a chunk, whichever is more. Of an array that is too small for that, or has no redundancy, it says
    /// [`Redundancy::Made`].
    ///
    /// # Errors
    /// As [`Array::sync_window`].
    pub async fn sample_redundancy(&self) -> Result<Redundancy, VolumeError> {
        let (unit, locates) = match self.0.geometry.family() {
            Map::Parity(map) => (map.chunk().max(ALIGNMENT), map.parity_members() > 1),
            Map::Mirrored(map) => (ALIGNMENT, map.copies() > 2),
            Map::Striped(_) => return Ok(Redundancy::Made),
        };
        let total = sync_len(&self.0.geometry);
        let units = total.div_ceil(unit);
        let samples = units.min(SAMPLES);
        let (mut report, mut sectors) = (SyncReport::default(), 0);
        for sample in 0..samples {
            let pos = units * sample / samples * unit;
            let len = unit.min(total - pos);
            let _syncing = self.0.core.keeper.sync_begins()?;
            report.add(&self.sync_window(pos, len, SyncMode::Check).await?);
            sectors += len / SECTOR;
        }
        let all = locates && self.0.core.members.lost() == 0;
        Ok(if sectors < LEAST { Redundancy::Made } else { verdict(&report, sectors, all) })
    }
}

/// The verdict on `sectors` samples: not in sync if more than an eighth of them name no single member, or less than
/// an eighth agree. `all`: a wrong member would be known.
fn verdict(report: &SyncReport, sectors: u64, all: bool) -> Redundancy {
    let is_odd = report.unlocated + report.located > sectors - sectors / 8;
    match report.unlocated > sectors / 8 {
        true if all => Redundancy::NeverMade,
        false if !is_odd => Redundancy::Made,
        _ => Redundancy::InDoubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disagrees_nearly_everywhere_or_tells_of_nobody_was_never_in_sync() {
        use Redundancy::{InDoubt, Made, NeverMade};
        let seen = |unlocated, located, all| {
            verdict(&SyncReport { unlocated, located, ..SyncReport::default() }, 1024, all)
        };
        // A few may have rotted in two members.
        assert_eq!([0, 128, 129].map(|sectors| seen(sectors, 0, true)), [Made, Made, NeverMade]);
        assert_eq!([0, 128, 129].map(|sectors| seen(sectors, 0, false)), [Made, Made, InDoubt]);
        // A member that was overwritten in part still agrees in most places.
        let reported = [(0, 896), (0, 897), (1, 896)].map(|(nobody, one)| seen(nobody, one, true));
        assert_eq!(reported, [Made, InDoubt, InDoubt]);
    }
}
