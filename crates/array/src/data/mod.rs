//! The data path: what happens to a request between the volume above and the members below.

mod flush;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod mend;
pub(crate) mod mirrored;
pub(crate) mod parity;
pub(crate) mod report;
mod room;
pub(crate) mod spans;
pub(crate) mod straight;
pub(crate) mod striped;

use brindle_io::{OpError, Slice};
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::door::Done;
use crate::events::Cause;
use crate::members::Device;

/// A member that gave this error has lost what it held: there is nothing to mend.
pub(crate) fn is_lost(error: OpError) -> bool {
    matches!(error, OpError::Gone | OpError::Truncated)
}

impl Core {
    /// Fails a member that is in use: recorded before anything relies on its absence.
    ///
    /// # Errors
    /// If the array can't live without it. It is then taken out of use all the same where `for_good`: its bytes are
    /// not what they should be, and without its redundancy an answer from it could be one that was never written.
    pub(crate) async fn fail_member(
        &self,
        role: u16,
        why: impl Into<Cause>,
        for_good: bool,
    ) -> Result<(), VolumeError> {
        let why = why.into();
        // Who does not answer is judged by `patience`, together with all others.
        if why.error == Some(OpError::TimedOut)
            && !self.is_served(role)
            && self.members.writable(role).is_some()
        {
            return Err(VolumeError::of_member(role, OpError::TimedOut));
        }
        self.begin_failing(role, why, for_good)?.await
    }

    /// As [`Core::fail_member`]: from now on nothing is asked of the member; the future is done when that is recorded,
    /// and need not be awaited for it.
    pub(crate) fn begin_failing(
        &self,
        role: u16,
        why: Cause,
        for_good: bool,
    ) -> Result<impl Future<Output = Result<(), VolumeError>> + use<>, VolumeError> {
        let recording = self.keeper.begin_failing(role, why);
        if recording.is_err() && for_good {
            self.members.fail(role);
        }
        recording
    }

    /// The role's member is an array of this process.
    fn is_served(&self, role: u16) -> bool {
        self.members.device(role).is_some_and(|device| device.id.is_served())
    }

    /// What to tell the reader whose memory a member that was given up may still write to; `None` if none does.
    pub(crate) fn lent(&self, into: impl AsRef<[Slice]>, done: &Done) -> Option<VolumeError> {
        if !into.as_ref().iter().any(Slice::is_lent) {
            return None;
        }
        let avoided = |role: u16| {
            self.members.is_slow(role) || self.members.writable(role).is_none() || self.is_served(role)
        };
        // Who is in use still, and silent, would be asked again.
        let silent = done.refused().iter().find(|r| r.error == OpError::TimedOut && !avoided(r.role));
        Some(silent.map_or(VolumeError::Again, |silent| VolumeError::of_member(silent.role, silent.error)))
    }

    /// Waits until a slow member has answered, or is out of use; or is asked by everybody again, since what answering for
    /// it may cost is spent.
    ///
    /// # Errors
    /// If the array can't do without it, however long it takes.
    pub(crate) async fn answered(&self, role: u16) -> Result<(), VolumeError> {
        let waits = |device: Device| self.io.orphans(device.id) > 0;
        while self.members.writable(role).is_some_and(waits) {
            if !self.members.is_slow(role) {
                let given_up = Err(VolumeError::of_member(role, OpError::TimedOut));
                return if self.ration.is_left() { given_up } else { Ok(()) };
            }
            self.io.sleep(self.config.patience.read / 4).await;
        }
        Ok(())
    }

    /// Fails every member that refused a write of this group; with none, costs nothing. Returns once a success may
    /// be acknowledged.
    #[inline]
    pub(crate) async fn settle_writes(&self, outcome: &Done, for_good: bool) -> Result<(), VolumeError> {
        if outcome.is_ok() && self.members.all_settled() {
            return Ok(());
        }
        self.settle_failed_writes(outcome, for_good).await
    }

    #[cold]
    async fn settle_failed_writes(&self, outcome: &Done, for_good: bool) -> Result<(), VolumeError> {
        let mut result = self.keeper.failures_recorded().await;
        for refused in outcome.refused().iter().filter(|refused| refused.is_of(&self.members)) {
            let failed = if self.waits_for_room(refused.error) {
                Err(VolumeError::of_member(refused.role, refused.error))
            } else {
                self.fail_member(refused.role, refused, for_good).await
            };
            result = result.and(failed);
        }
        result
    }
}
