//! Writes that failed because a member's file system has no space: refused, and the place made consistent once there
//! is space.

use core::ops::Range;

use brindle_members::door::Done;
use brindle_members::events::Cause;
use brindle_members::set::Owner as _;
use brindle_volume::VolumeError;

use crate::core::Core;

impl Core {
    /// [`settle_writes`](brindle_members::set::MemberSet::settle_writes) of a change of `range`, which is counted as a resync counts and held by the caller:
    /// writes that found no space are refused with that error, and the range is in doubt from now on.
    #[inline]
    pub(crate) async fn settle_range(
        &self,
        outcome: &Done,
        for_good: bool,
        range: Range<u64>,
    ) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_settled() {
            return Ok(());
        }
        if let Some(home) = self.home() {
            return home.settle(outcome, range).await;
        }
        let without_space =
            outcome.refused().iter().filter(|refused| self.is_kept(refused.role, refused.error));
        let without_space: Vec<(u16, Cause)> =
            without_space.map(|refused| (refused.role, refused.into())).collect();
        if !without_space.is_empty() {
            self.note_no_space(range, &without_space);
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    /// Has a range brought in sync once members have room that had none for a correction of it.
    pub(crate) fn await_space(&self, range: Range<u64>, outcome: &Done) {
        let without_space: Vec<(u16, Cause)> =
            outcome.refused().iter().map(|refused| (refused.role, refused.into())).collect();
        if self.keeper.await_space(range, &without_space) {
            self.on_no_space.get().into_iter().for_each(|begin| begin());
        }
    }

    /// Tells that members had no room, where nothing is left to be brought in sync.
    pub(crate) fn report_full(&self, outcome: &Done) {
        outcome.refused().iter().for_each(|refused| self.keeper.report_full(refused.role, refused.into()));
    }
}
