//! Writes that failed on members which stay in use, for lack of space or because they did not answer.
//!
//! A full file system is no failure of a member: it can be read, and takes writes in place. The write that found no
//! room is refused with that error. It may have reached some members and not others, or in part. So the redundancy of
//! its range is unknown until all of it has been brought in sync again. Until then mirrors are read there from their
//! first copy, parity is not used, and the array is not marked clean beyond the range's start. Where parity stands for
//! lost blocks, that would lose them: `data/parity/no_space` takes such a write back.
//!
//! This file has the task that brings such ranges in sync again; `settle` finds the writes, `record` tells the keeper,
//! `ranges` holds what is left to do.

pub(crate) mod ranges;
mod record;
mod settle;

use brindle_io::{Duration, Io};
use brindle_layout::Family;
use brindle_volume::VolumeError;

use crate::array::{Array, Running};
use crate::data::report::SyncMode;
use crate::lineage::WeakLineage;
use crate::sync_len::sync_len;

/// Pause before writes that found no space are tried again; doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Bytes that are corrected at a time, or a chunk where that is more: whole windows of a resync.
const WINDOW: u64 = 4 << 20;
/// Windows begin at multiples of this, if not of the chunk.
const ALIGNMENT: u64 = 64 << 10;

impl Array {
    /// Has ranges that found no space brought in sync again.
    pub(crate) fn tried_again(self) -> Self {
        let (me, io) = (self.0.downgrade(), self.0.core.io.clone());
        let begin = move || drop(io.spawn(bring_in_sync(me.clone(), io.clone())));
        self.0.core.on_no_space.get_or_init(|| Box::new(begin));
        self
    }
}

impl Running {
    /// Brings ranges in sync that found no space. False if some are left.
    async fn retry(&self) -> Result<bool, VolumeError> {
        let unit = match self.geometry.family() {
            Family::Parity(map) => map.chunk().max(ALIGNMENT),
            _ => ALIGNMENT,
        };
        let (keeper, window, end) = (&self.core.keeper, WINDOW.max(unit), sync_len(&self.geometry));
        for range in keeper.awaiting_space() {
            let mut at = range.start - range.start % unit;
            while at < range.end {
                let len = window.min(range.end.next_multiple_of(unit) - at).min(end - at);
                let _syncing = keeper.sync_begins()?;
                self.placement.sync_window(at, len, SyncMode::Repair).await?;
                if !keeper.is_in_sync(&(at.max(range.start)..(at + len).min(range.end))) {
                    return Ok(false);
                }
                at += len;
            }
        }
        Ok(keeper.awaiting_space().is_empty())
    }
}

/// Tries now and then to bring ranges in sync that found no space, until all of them are or the array ends.
async fn bring_in_sync(array: WeakLineage<Running>, io: Io) {
    let mut pause = FIRST_PAUSE;
    loop {
        io.sleep(pause).await;
        let Some(array) = array.upgrade() else { return };
        match array.retry().await {
            Ok(true) => {
                array.core.keeper.retry_ends(true);
                let _recorded = array.core.keeper.save_position().await;
                return;
            }
            Err(VolumeError::Stopping | VolumeError::TooManyLost) => {
                return array.core.keeper.retry_ends(false);
            }
            // No space yet, or an error that the next attempt may not meet.
            Ok(false) | Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}
