//! Whether redundancy was ever made true, told from samples.
//!
//! Which member is wrong can be known only where all was right once. Of an array that was made with `--assume-clean` md's format
//! says that, whatever its members held: nothing on them tells it from one that was synced. But it shows: where P and Q, or copies,
//! never were made from the data, they disagree nearly everywhere, and tell of no one member; or, where members held one and the same
//! byte all over, of the same one everywhere. Bytes that rot, and places that somebody wrote over, are few beside that.

use brindle_layout::Family as Map;
use brindle_volume::VolumeError;

use super::ALIGNMENT;
use crate::array::Array;
use crate::bitmap::sync_len;
use crate::data::report::{SyncMode, SyncReport};

/// Places that are looked at, spread over the array.
const SAMPLES: u64 = 64;
/// Of fewer sectors nothing can be told.
const LEAST: u64 = 1024;
const SECTOR: u64 = 512;

impl Array {
    /// Whether redundancy disagrees with the data in so much of the array that it hardly ever was true: then nothing tells which
    /// member is wrong, and what [`SyncMode::Locate`] would write is anything. Compares 64 places, each of 64 KiB or a chunk, whichever
    /// is more. Of an array that is too small for that, or has no redundancy, it says no.
    ///
    /// # Errors
    /// As [`Array::sync_window`].
    pub async fn seems_never_synced(&self) -> Result<bool, VolumeError> {
        let unit = match self.0.geometry.family() {
            Map::Parity(map) => map.chunk().max(ALIGNMENT),
            _ => ALIGNMENT,
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
        Ok(sectors >= LEAST && is_never_synced(&report, sectors))
    }
}

/// Of so many sectors more than an eighth tell of no one member, or less than an eighth agree.
fn is_never_synced(report: &SyncReport, sectors: u64) -> bool {
    report.unlocated > sectors / 8 || report.unlocated + report.located > sectors - sectors / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disagrees_nearly_everywhere_or_tells_of_nobody_was_never_true() {
        let seen = |unlocated, located| {
            is_never_synced(&SyncReport { unlocated, located, ..SyncReport::default() }, 1024)
        };
        assert!(!seen(0, 0) && !seen(128, 0) && seen(129, 0), "a few may have rotted in two members");
        assert!(
            !seen(0, 896) && seen(0, 897) && seen(1, 896),
            "one that was written over has most of its places still"
        );
    }
}
