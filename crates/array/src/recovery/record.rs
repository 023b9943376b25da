//! The record of a recovery and of a replacement: that it has begun, how far it came, and that it has ended. Nothing is
//! recorded once the array stops.

use brindle_io::OpError;
use brindle_members::events::Cause;
use brindle_members::members::Second;
use brindle_volume::VolumeError;

use crate::keeper::{Keeper, StateChange};

impl Keeper {
    /// The device of a role is being rebuilt: that is on record when this returns, if the ledger can say it.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; if it could not be recorded.
    pub(crate) async fn recovery_begins(&self, role: u16) -> Result<(), VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            let device = keeper.members.device(role).map(|device| device.id);
            let Some(id) = device
                .filter(|&id| keeper.is_recovering(role) && keeper.ledger.recovery_offset(id).is_none())
            else {
                return Ok(());
            };
            let _changing = keeper.begin_change(StateChange::Recovery);
            // Members lost before it are recorded first, and with them anything that the device missed as a spare.
            keeper.commit().await?;
            keeper.ledger.begin_recovery(role, id);
            if keeper.ledger.is_settled() { Ok(()) } else { keeper.commit().await }
        })
        .await
    }

    /// A role has a second device that is to replace its member: that is on record when this returns.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; [`VolumeError::Unsupported`] if the ledger can't say it;
    /// [`VolumeError::Member`] if the second device has failed meanwhile; if it could not be recorded.
    pub(crate) async fn replacement_begins(&self, role: u16) -> Result<(), VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            let gone = VolumeError::Member { role: Some(role), error: OpError::Gone };
            let _changing = keeper.begin_change(StateChange::Recovery);
            keeper.commit().await?;
            let second = keeper.members.second(role).ok_or(gone)?;
            if !keeper.ledger.begin_replacement(role, second.device.id) {
                return Err(VolumeError::Unsupported);
            }
            keeper.commit().await?;
            keeper.members.second(role).map(drop).ok_or(gone)
        })
        .await
    }

    /// A role's second device holds all that its member holds: it is the member, and the other has left, once that is on
    /// record. Nothing must be under way on the role's rows.
    ///
    /// # Errors
    /// As [`Keeper::replacement_begins`].
    pub(crate) async fn replaced(&self, role: u16) -> Result<(), VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            let _changing = keeper.begin_change(StateChange::Recovery);
            // Its content must be stable before it counts as the member.
            keeper.flush().await?;
            let gone = VolumeError::Member { role: Some(role), error: OpError::Gone };
            let second = keeper.members.second(role).ok_or(gone)?;
            // This is recorded before the member is lost: a run that finds the member lost finds this device whole.
            keeper.ledger.recovered_to(second.device.id, u64::MAX);
            keeper.commit().await?;
            let second = keeper.members.second(role).ok_or(gone)?;
            keeper.members.set_second(role, Second { good: u64::MAX, ..second });
            if !keeper.has_successor(role) {
                return Err(gone);
            }
            keeper.lose(&[(role, Cause::REPLACED)])?;
            keeper.commit().await
        })
        .await
    }

    /// Records how far members have been rebuilt, once that is stable.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; if it could not be recorded.
    pub(crate) async fn save_recovery(&self) -> Result<(), VolumeError> {
        self.change(async |keeper| {
            keeper.refuse_if_closed()?;
            let reached = keeper.reached();
            if reached.is_empty() {
                return Ok(());
            }
            let _changing = keeper.begin_change(StateChange::Recovery);
            keeper.flush().await?;
            keeper.note_reached(&reached);
            if keeper.ledger.is_settled() { Ok(()) } else { keeper.commit().await }
        })
        .await
    }

    /// A recovering member is in sync once that is on record, if the ledger can say so. `joined` is the number of
    /// devices that had [come](brindle_members::members::Members::joined) into its role when it was rebuilt.
    ///
    /// # Errors
    /// If that could not be recorded; [`VolumeError::Member`] if it has failed meanwhile.
    pub(crate) async fn rebuilt(&self, role: u16, joined: u32) -> Result<(), VolumeError> {
        self.change(async move |keeper| keeper.take_in(role, joined).await).await
    }

    /// Puts a rebuilt member on record, and relies on it from then on. The caller has the turn.
    async fn take_in(&self, role: u16, joined: u32) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        let _changing = self.begin_change(StateChange::Recovery);
        // Its content must be stable before it counts as a member in sync.
        self.flush().await?;
        let is_same = self.is_recovering(role) && self.members.joined(role) == joined;
        let device = self.members.device(role).filter(|_| is_same);
        let gone = VolumeError::Member { role: Some(role), error: OpError::Gone };
        let Some(device) = device else { return Err(gone) };
        if self.ledger.take_in(role, device.id) {
            self.commit().await?;
            if !self.is_recovering(role) {
                return Err(gone);
            }
            self.members.rebuilt(role);
            self.note_if_exposed();
        }
        Ok(())
    }
}
