//! Writes that found no room where a member lives: refused, and made true once there is room.

use core::ops::Range;

use brindle_io::OpError;
use brindle_volume::VolumeError;

use crate::config::OnFull;
use crate::core::Core;
use crate::door::Done;
use crate::events::Cause;

impl Core {
    /// [`Core::settle_writes`] of a change of `range`, which is counted as a resync counts and held by the caller: what
    /// found no room is refused with that error, and the range is in doubt from now on.
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
        let cramped = outcome.refused().iter().filter(|refused| self.is_kept(refused.role, refused.error));
        let cramped: Vec<(u16, Cause)> = cramped.map(|refused| (refused.role, refused.into())).collect();
        if !cramped.is_empty() {
            self.no_room(range, &cramped);
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    /// The member stays in use although it did not take a write.
    pub(crate) fn is_kept(&self, role: u16, error: OpError) -> bool {
        let silent = error == OpError::TimedOut && self.ties.redundant;
        self.waits_for_room(error) || silent && self.members.writable(role).is_some()
    }

    /// A member that gives this error stays in use.
    pub(crate) fn waits_for_room(&self, error: OpError) -> bool {
        let waits = self.config.on_full == OnFull::Wait;
        error == OpError::NoSpace && waits && self.ties.redundant
    }

    /// Members had no room for a part of what was to be written to a range, which the caller holds.
    pub(crate) fn no_room(&self, range: Range<u64>, members: &[(u16, Cause)]) {
        if self.keeper.no_room(range, members) {
            self.when_cramped.get().into_iter().for_each(|begin| begin());
        }
    }

    /// Tells that members had no room, where nothing is left to be made true.
    pub(crate) fn tell_full(&self, outcome: &Done) {
        outcome.refused().iter().for_each(|refused| self.keeper.tell_full(refused.role, refused.into()));
    }
}
