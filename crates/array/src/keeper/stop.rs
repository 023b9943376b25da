//! Ends a run: waits for work in progress, and writes the last record. After that nothing is written to a member any
//! more, since its device may be taken away: another program may assemble the array at once.

use brindle_io::OpError;
use brindle_volume::VolumeError;

use super::{Closed, Keeper};

/// Progress of the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopPhase {
    /// The stop has not begun.
    #[default]
    No,
    /// No request begins any more; those under way are waited for, and so is maintenance.
    Begun,
    /// All processes have ended, and no maintenance begins any more. The last record is written.
    Quiet,
    /// Nothing is recorded any more.
    Over,
}

/// Members are being given what no request asks for: stopping waits for its end.
pub(crate) struct MaintenanceGuard<'a>(&'a Keeper);

impl Drop for MaintenanceGuard<'_> {
    fn drop(&mut self) {
        self.0.maintenance.set(self.0.maintenance.get() - 1);
        self.0.drained.notify();
    }
}

impl Keeper {
    /// A window of a resync begins, or a round that clears bits.
    ///
    /// # Errors
    /// If the array is stopping or broken.
    pub(crate) fn sync_begins(&self) -> Result<MaintenanceGuard<'_>, VolumeError> {
        self.refuse_if_closed()?;
        self.maintenance_begins()
    }

    /// Members are about to get what they should hold already: for a request that began before the array was stopped, too.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once maintenance is not waited for any more.
    pub(crate) fn maintenance_begins(&self) -> Result<MaintenanceGuard<'_>, VolumeError> {
        if self.stop_phase.get() >= StopPhase::Quiet {
            return Err(VolumeError::Stopping);
        }
        self.maintenance.set(self.maintenance.get() + 1);
        Ok(MaintenanceGuard(self))
    }

    /// Refuses new writes, waits for those under way, and marks the array clean. [`Keeper::end`] follows. What could not be
    /// recorded may be when it is called anew: until its end then.
    pub(crate) async fn stop(&self) -> Result<(), VolumeError> {
        self.stop_phase.set(self.stop_phase.get().max(StopPhase::Begun));
        if self.closed.get() == Closed::No {
            self.closed.set(Closed::Stopping);
        }
        self.ready.set(false);
        let empty = || self.writes.get() == 0 && self.maintenance.get() == 0;
        self.drained.until(|| empty().then_some(())).await;
        self.stop_phase.set(StopPhase::Quiet);
        if self.config.is_read_only() {
            return Ok(());
        }
        if self.recorded && self.change(async |keeper| keeper.end_record().await).await? {
            return Ok(());
        }
        let flight = self.flushes.begin();
        let done = self.send_flushes().await;
        drop(flight);
        let others = self.flushes.others_landed().await;
        if self.is_broken() {
            return Err(VolumeError::TooManyLost);
        }
        let failed = done.failures().iter().find(|failure| failure.error != OpError::Unsupported);
        failed.map_or(others, |failure| {
            let role = failure.kind.member().and_then(|id| self.members.role_of(id));
            Err(VolumeError::Member { role, error: failure.error })
        })
    }

    /// The run has ended when this returns: a change of the record that is under way has come to its end, and none begins
    /// any more. The record is true of the members' content now, even if one fails after this.
    pub(crate) async fn end(&self) {
        let _turn = self.turns.turn().await;
        self.stop_phase.set(StopPhase::Over);
    }

    /// The run goes on in another shape, with a keeper of that: this one records nothing any more. The caller has the turn.
    pub(crate) fn hand_over(&self) {
        self.closed.set(Closed::Stopping);
        self.ready.set(false);
        self.stop_phase.set(StopPhase::Over);
    }

    pub(super) fn refuse_if_over(&self) -> Result<(), VolumeError> {
        if self.stop_phase.get() == StopPhase::Over { Err(VolumeError::Stopping) } else { Ok(()) }
    }

    /// The array is stopping.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_phase.get() != StopPhase::No
    }
}
