//! Consequences of failed operations on members, before success is acknowledged.

use brindle_io::{OpError, Slice};
use brindle_volume::VolumeError;

use crate::door::{Done, Door, Moved};
use crate::set::MemberSet;

impl MemberSet {
    /// The way to the members. `moved` has other data offsets than the members' own, if the caller needs some.
    #[inline]
    pub fn door<'a>(&'a self, moved: Option<&'a Moved>) -> Door<'a> {
        Door::new(self, moved)
    }

    /// The error for a reader whose memory a member that was given up may still write to; `None` if none does.
    pub fn error_if_pinned(&self, into: impl AsRef<[Slice]>, done: &Done) -> Option<VolumeError> {
        if !into.as_ref().iter().any(Slice::is_pinned) {
            return None;
        }
        let avoided = |role: u16| {
            self.members.is_slow(role) || self.members.writable(role).is_none() || self.is_served(role)
        };
        // A silent member that is in use still would be asked again.
        let silent = done.refused().iter().find(|r| r.error == OpError::TimedOut && !avoided(r.role));
        Some(silent.map_or(VolumeError::Again, |silent| VolumeError::of_member(silent.role, silent.error)))
    }

    /// Fails every member that refused a write of this group; with none, costs nothing. Returns once a success may
    /// be acknowledged.
    ///
    /// # Errors
    /// If the owner can't do without one of them, or it could not be recorded that it does.
    #[inline]
    pub async fn settle_writes(&self, outcome: &Done, for_good: bool) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_settled() {
            return Ok(());
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    /// [`MemberSet::settle_writes`] where not all is well.
    ///
    /// # Errors
    /// As of [`MemberSet::settle_writes`].
    #[cold]
    pub async fn settle_failed_writes(&self, outcome: &Done, for_good: bool) -> Result<(), VolumeError> {
        let mut result = self.recorded().await;
        for refused in outcome.refused().iter().filter(|refused| refused.is_of(&self.members)) {
            let failed = if self.waits_for_space(refused.error) {
                Err(VolumeError::of_member(refused.role, refused.error))
            } else {
                self.fail_member(refused.role, refused, for_good).await
            };
            result = result.and(failed);
        }
        result
    }
}
