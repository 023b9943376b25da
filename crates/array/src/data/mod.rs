//! The data path: what happens to a request between the volume above and the members below.

pub(crate) mod lock;
pub(crate) mod mirrored;
pub(crate) mod parity;
mod spans;
mod striped;
pub(crate) mod sync;

use brindle_io::{MemberId, OpError, OpKind, Outcome};

use crate::array::Inner;
use crate::keeper::Keeper;
use crate::members::RoleState;
use crate::volume::VolumeError;

/// A change of the array in progress; the keeper waits for its end before it calls the array clean.
pub(crate) struct Writing<'a>(&'a Keeper);

impl<'a> Writing<'a> {
    /// Returns once members may be changed.
    #[inline]
    pub(crate) async fn begin(keeper: &'a Keeper) -> Result<Self, VolumeError> {
        keeper.write_begins().await?;
        Ok(Self(keeper))
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.write_ends();
    }
}

impl Inner {
    /// The role that a member plays.
    pub(crate) fn role_of(&self, member: MemberId) -> Option<u16> {
        (0..self.members.len()).find(|&role| self.members.device(role).is_some_and(|d| d.id == member))
    }

    /// Fails a member that is in use: recorded before anything relies on its absence.
    ///
    /// # Errors
    /// If the array can't live without it. It is then taken out of use all the same where `for_good`: its bytes are
    /// not what they should be, and without its redundancy an answer from it could be one that was never written.
    pub(crate) async fn fail_member(
        &self,
        role: u16,
        why: OpError,
        for_good: bool,
    ) -> Result<(), VolumeError> {
        if matches!(self.members.state(role), RoleState::Failed | RoleState::Missing) {
            return self.keeper.failures_recorded().await;
        }
        let recorded = self.keeper.member_failed(role, why).await;
        if recorded.is_err() && for_good {
            self.members.set_state(role, RoleState::Failed);
        }
        recorded
    }

    /// Fails every member that refused a write of this group; with none, costs nothing. Returns once a success may
    /// be acknowledged.
    #[inline]
    pub(crate) async fn settle_writes(&self, outcome: &Outcome, for_good: bool) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_in_sync() {
            return Ok(());
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    #[cold]
    async fn settle_failed_writes(&self, outcome: &Outcome, for_good: bool) -> Result<(), VolumeError> {
        let mut result = self.keeper.failures_recorded().await;
        for failure in outcome.failures() {
            let Some(role) = failure.kind.member().and_then(|member| self.role_of(member)) else { continue };
            let failed = self.fail_member(role, failure.error, for_good).await;
            result = result.and(failed);
        }
        result
    }
}

/// Where a write-zeroes or discard went, to be done again in another way.
pub(crate) fn range_of(kind: OpKind) -> Option<(MemberId, u64, u64)> {
    match kind {
        OpKind::WriteZeroes { member, offset, len, .. } | OpKind::Discard { member, offset, len } => {
            Some((member, offset, len))
        }
        _ => None,
    }
}
