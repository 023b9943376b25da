//! Clears bits of the write-intent bitmap some time after the writes for which they were set: md's
//! `bitmap_daemon_work`.
//!
//! A chunk in which nothing was written for a round is cleared in the next. Before that all members are flushed, so
//! that writes there are stable on each; the rules stand at the head of [`crate::bitmap`].

use std::rc::{Rc, Weak};

use brindle_io::{Duration, Io};

use super::IntentBitmap;
use crate::array::{Array, Running};
use crate::core::Core;
use crate::keeper::StateChange;
use crate::lineage::WeakLineage;
use crate::row_log::LogHost;

impl Array {
    /// Begins to clear bits of the bitmap where no write is under way.
    pub(crate) fn cleared_lazily(self) -> Self {
        if let Some(bitmap) = self.0.core.intent.bitmap() {
            let recorded = Duration::from_secs(bitmap.daemon_sleep().into());
            let pause = self.0.core.config.daemon_sleep.unwrap_or(recorded);
            let io = &self.0.core.io;
            drop(io.spawn(rounds(self.0.downgrade(), Rc::downgrade(&bitmap), io.clone(), pause)));
        }
        self
    }
}

/// Ends with the array, or with the bitmap.
async fn rounds(array: WeakLineage<Running>, bitmap: Weak<dyn IntentBitmap>, io: Io, pause: Duration) {
    loop {
        io.sleep(pause).await;
        let (Some(array), Some(bitmap)) = (array.upgrade(), bitmap.upgrade()) else { return };
        let is_it = array.core.intent.bitmap().is_some_and(|now| Rc::ptr_eq(&now, &bitmap));
        if !is_it {
            return;
        }
        // Stopping the array waits for the end of this round. A broken array keeps its bits.
        let Ok(_guard) = array.core.keeper.sync_begins() else { return };
        round(&array.core, &bitmap).await;
    }
}

/// Clears the bits of chunks in which nothing was written since the round before.
async fn round(core: &Core, bitmap: &Rc<dyn IntentBitmap>) {
    let mut idle = bitmap.next_round();
    let may = |chunk: &u64| bitmap.is_idle(*chunk) && core.keeper.is_in_sync(&bitmap.covers(*chunk));
    idle.retain(may);
    if idle.is_empty() || !core.may_clear() {
        return;
    }
    bitmap.will_clear();
    if !landed(core, bitmap).await || core.flush_members().await.is_err() || !core.may_clear() {
        return;
    }
    // A chunk written to since then may hold data that is not stable yet.
    idle.retain(may);
    idle.into_iter().for_each(|chunk| bitmap.clear(chunk));
    landed(core, bitmap).await;
}

/// The array has stopped, and no other round is under way: all bits are cleared that may be. What goes wrong leaves bits too many, which does no harm.
pub(crate) async fn at_end(core: &Core) {
    if let Some(bitmap) = core.intent.bitmap() {
        bitmap.next_round();
        round(core, &bitmap).await;
    }
}

/// All that is to be written stands on all members in use.
async fn landed(core: &Core, bitmap: &Rc<dyn IntentBitmap>) -> bool {
    let refused = bitmap.fly().await;
    core.keeper.refused(&refused).await.is_ok() && refused.is_empty()
}

impl Core {
    /// No member is missing, or being rebuilt, or may yet get writes that were given up: what was written has reached all. And
    /// all have superblocks of the present event count, as `events_cleared` will say. No write is under way that the bitmap
    /// does not count.
    fn may_clear(&self) -> bool {
        let failing = self.keeper.state_change() == Some(StateChange::Failure);
        self.members.all_in_sync()
            && self.members.first_with_orphans().is_none()
            && self.keeper.ledger().outdated().is_empty()
            && !failing
            && !self.intent.has_earlier_changes()
            && !self.keeper.is_broken()
    }
}
