//! Flushes of all members in use.

use brindle_io::OpError;
use brindle_volume::VolumeError;

use crate::door::Refused;
use crate::set::{MemberSet, Recording};

impl MemberSet {
    /// Makes stable what every member in use was given. A flush shares the fate of those that are under way when it
    /// returns.
    ///
    /// # Errors
    /// If a member failed it that the array can't do without; from then on, every flush does.
    pub async fn flush_members(&self) -> Result<(), VolumeError> {
        if let Some(role) = self.members.first_with_orphans() {
            // Nothing was sent: this says nothing of flushes to come.
            return Err(VolumeError::of_member(role, OpError::TimedOut));
        }
        let flushes = &self.flushes;
        let flight = flushes.begin();
        let mut group = self.door(None).ask();
        for role in 0..self.members.len() {
            if let Some(device) = self.members.writable(role) {
                group.flush(device);
            }
        }
        let mut sent = group.submit();
        let mut recordings = Vec::new();
        // A member that fails a flush may have lost bytes: it is not used from that moment on, however long the
        // others take.
        while let Some(refused) = sent.next_refused().await {
            recordings.extend(self.flush_failed(&refused));
        }
        drop(flight);
        for recording in recordings {
            let _recorded = recording.await;
        }
        flushes.others_landed().await?;
        self.recorded().await
    }

    /// Takes a member that failed a flush out of use; the future is done when that is recorded.
    fn flush_failed(&self, refused: &Refused) -> Option<Recording> {
        // A member that knows no flush has nothing to make stable: no reason to do without it.
        if refused.error == OpError::Unsupported {
            return None;
        }
        if !self.dependence().redundant {
            self.flushes.fail(VolumeError::of_member(refused.role, refused.error));
            return None;
        }
        match self.begin_failing(refused.role, refused.into(), self.dependence().coupled) {
            Ok(recording) => Some(recording),
            Err(error) => {
                self.flushes.fail(error);
                None
            }
        }
    }
}
