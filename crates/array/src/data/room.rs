//! Writes that found no room where a member lives: refused, and made true once there is room.

use core::ops::Range;
use std::rc::Weak;

use brindle_io::{Duration, Io, OpError};
use brindle_layout::Family;

use super::sync::SyncMode;
use crate::array::{Array, Inner, OnFull};
use crate::door::Done;
use crate::events::Cause;
use crate::volume::VolumeError;

/// How long to wait before what found no room is tried again; doubled each time, up to the most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Bytes that are made true at a time, or the chunk where that is more; whole windows as a resync takes them.
const WINDOW: u64 = 4 << 20;
/// Windows begin at multiples of this, if not of the chunk.
const ALIGNMENT: u64 = 64 << 10;

impl Inner {
    /// [`Inner::settle_writes`] of a change of `range`, which is counted as a resync counts and held by the caller: what
    /// found no room is refused with that error, and the range is in doubt from now on.
    #[inline]
    pub(crate) async fn settle_range(
        &self,
        outcome: &Done,
        for_good: bool,
        range: Range<u64>,
    ) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_in_sync() {
            return Ok(());
        }
        let cramped = outcome.refused().iter().filter(|refused| self.is_kept(refused.role, refused.error));
        let cramped: Vec<(u16, Cause)> = cramped.map(|refused| (refused.role, refused.into())).collect();
        if !cramped.is_empty() {
            self.no_room(range, &cramped);
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    /// The member stays in use although it did not take a write.
    pub(crate) fn is_kept(&self, role: u16, error: OpError) -> bool {
        let silent = error == OpError::TimedOut && self.geometry.level().is_redundant();
        self.waits_for_room(error) || silent && self.members.writable(role).is_some()
    }

    /// A member that gives this error stays in use.
    pub(crate) fn waits_for_room(&self, error: OpError) -> bool {
        let waits = self.config.on_full == OnFull::Wait;
        error == OpError::NoSpace && waits && self.geometry.level().is_redundant()
    }

    /// Members had no room for a part of what was to be written to a range, which the caller holds.
    pub(crate) fn no_room(&self, range: Range<u64>, members: &[(u16, Cause)]) {
        let begin = self.keeper.no_room(range, members);
        if let Some(me) = self.me.get().filter(|_| begin) {
            drop(self.io.spawn(make_true(me.clone(), self.io.clone())));
        }
    }

    /// Tells that members had no room, where nothing is left to be made true.
    pub(crate) fn tell_full(&self, outcome: &Done) {
        outcome.refused().iter().for_each(|refused| self.keeper.tell_full(refused.role, refused.into()));
    }

    /// Makes true what found no room. False if there is something left of it.
    async fn try_for_room(self: &std::rc::Rc<Self>) -> Result<bool, VolumeError> {
        let unit = match self.geometry.family() {
            Family::Parity(map) => map.chunk().max(ALIGNMENT),
            _ => ALIGNMENT,
        };
        let (array, window) = (Array(std::rc::Rc::clone(self)), WINDOW.max(unit));
        for range in self.keeper.cramped() {
            let mut at = range.start - range.start % unit;
            while at < range.end {
                let len = window.min(range.end.next_multiple_of(unit) - at).min(array.sync_len() - at);
                let _syncing = self.keeper.sync_begins()?;
                array.sync_window(at, len, SyncMode::Repair).await?;
                if !self.keeper.is_true(&(at.max(range.start)..(at + len).min(range.end))) {
                    return Ok(false);
                }
                at += len;
            }
        }
        Ok(self.keeper.cramped().is_empty())
    }
}

/// Tries now and then to make true what found no room, until all of it is or the array ends.
async fn make_true(array: Weak<Inner>, io: Io) {
    let mut pause = FIRST_PAUSE;
    loop {
        io.sleep(pause).await;
        let Some(inner) = array.upgrade() else { return };
        match inner.try_for_room().await {
            Ok(true) => {
                inner.keeper.room_ends(true);
                let _recorded = inner.keeper.save_position().await;
                return;
            }
            Err(VolumeError::Stopping | VolumeError::TooManyLost) => return inner.keeper.room_ends(false),
            // No room yet, or something that the next attempt may not meet.
            Ok(false) | Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}
