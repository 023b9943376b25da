//! The record of members that are being rebuilt. Nothing is recorded once the array stops: the last record of a run
//! says how far they came, and their devices may be taken away after that.

use brindle_io::{MemberId, OpError};
use brindle_members::events::Cause;
use brindle_members::members::{Device, Flags, RoleState, Second};
use brindle_volume::VolumeError;

use super::change::Changing;
use super::{Keeper, StateChange};
use crate::ledger::{AddError, Joined, Looked, NewDevice};

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
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
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
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
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
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
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
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
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

    /// A device becomes a spare, or the member again that it was, by what was seen of it when it was
    /// `looked` at: it is when this returns, on record. A member takes every change from the moment on at which that is decided.
    ///
    /// # Errors
    /// Why it does not; the device is none of the array's then, unless it was one that was lost.
    pub(crate) async fn add(&self, device: NewDevice, looked: Looked) -> Result<Joined, AddError> {
        let (id, label) = (device.id, device.label.clone());
        let Looked { data_offset, bad } = looked;
        let added = self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            if keeper.members.is_change_pending() || !keeper.ledger.is_settled() {
                // Members lost before it are recorded first.
                keeper.commit().await?;
            }
            let joined = match keeper.ledger.add(device, &|role| keeper.is_free(role)) {
                Ok(joined) => joined,
                Err(why) => return Ok(Some(Err(why))),
            };
            if let Joined::Member { role } = joined {
                let known = keeper.ledger.describe().devices.into_iter();
                let flags = known.filter(|known| known.id == id).map(|known| known.flags).next();
                keeper.members.set_device(role, Device { id, data_offset }, RoleState::Recovering(0));
                keeper.members.set_flags(role, flags.unwrap_or_default());
                keeper.members.set_bad(role, bad);
            }
            keeper.commit().await?;
            let known = keeper.ledger.describe().devices;
            let failure = known.iter().find(|known| known.id == id).and_then(|known| known.failure);
            let Some(failure) = failure else { return Ok(Some(Ok(joined))) };
            keeper.ledger.remove(id);
            if let Joined::Member { role } = joined {
                keeper.members.vacate(role);
            }
            keeper.commit().await?;
            Ok(Some(Err(AddError::Device { label, error: failure.cause.error.unwrap_or(OpError::Gone) })))
        });
        let joined = added.await?.unwrap_or(Ok(Joined::Spare { why: None }))?;
        self.members.changed().notify();
        Ok(joined)
    }

    /// Whether each of these devices could come back as the member that it was, by the present record.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; if who was lost before could not be recorded.
    pub(crate) async fn judge(
        &self,
        devices: Vec<NewDevice>,
    ) -> Result<Vec<Result<(), AddError>>, VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            if keeper.members.is_change_pending() || !keeper.ledger.is_settled() {
                keeper.commit().await?;
            }
            let judge = |device| keeper.ledger.judge(device, &|role| keeper.is_free(role));
            Ok(devices.iter().map(judge).collect())
        })
        .await
    }

    /// No device fills the role.
    fn is_free(&self, role: u16) -> bool {
        let vacant = matches!(self.members.state(role), RoleState::Missing | RoleState::Failed);
        role < self.members.len() && vacant
    }

    /// Removes devices that are not in use from the array. The removal is on record when this returns. Gives the
    /// devices that were removed.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; if it could not be recorded.
    pub(crate) async fn remove(&self, devices: Vec<MemberId>) -> Result<Vec<MemberId>, VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            let mut removed = devices;
            removed.retain(|&id| keeper.role_in_use(id).is_none() && keeper.ledger.remove(id));
            for role in removed.iter().filter_map(|&id| keeper.members.role_of(id)) {
                keeper.members.vacate(role);
            }
            if !removed.is_empty() {
                keeper.commit().await?;
            }
            Ok(removed)
        })
        .await
    }

    /// A device has these flags: that is on record when this returns true. False if the ledger can't say it, or the device has
    /// failed meanwhile.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] once the array stops; if it could not be recorded.
    pub(crate) async fn set_flags(&self, device: MemberId, flags: Flags) -> Result<bool, VolumeError> {
        self.change(async move |keeper| {
            keeper.refuse_if_closed()?;
            if !keeper.ledger.set_flags(device, flags) {
                return Ok(false);
            }
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            if !keeper.ledger.is_settled() {
                keeper.commit().await?;
            }
            // Not of one that has failed meanwhile: it comes back with those that stand on it.
            let known = keeper.ledger.describe().devices;
            Ok(known.iter().any(|known| known.id == device && known.failure.is_none()))
        })
        .await
    }

    pub(super) fn is_recovering(&self, role: u16) -> bool {
        matches!(self.members.state(role), RoleState::Recovering(_))
    }

    /// Devices that have been rebuilt further than is on record, and how far.
    pub(super) fn reached(&self) -> Vec<(MemberId, u64)> {
        let reached = |role| {
            let RoleState::Recovering(upto) = self.members.state(role) else { return None };
            let id = self.members.device(role)?.id;
            self.ledger.recovery_offset(id).filter(|&held| held < upto).map(|_| (id, upto))
        };
        let copied = |role| {
            let second = self.members.second(role)?;
            self.ledger.recovery_offset(second.device.id).filter(|&held| held < second.good)?;
            Some((second.device.id, second.good))
        };
        let roles = 0..self.members.len();
        roles.clone().filter_map(reached).chain(roles.filter_map(copied)).collect()
    }

    /// The positions of recoveries that had been [reached](Keeper::reached) before the last flush: the next record
    /// holds them.
    pub(super) fn note_reached(&self, reached: &[(MemberId, u64)]) {
        reached.iter().for_each(|&(id, upto)| self.ledger.recovered_to(id, upto));
    }

    /// Puts a rebuilt member on record, and relies on it from then on. The caller has the turn.
    async fn take_in(&self, role: u16, joined: u32) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        let _changing = Changing::begin(&self.changing, StateChange::Recovery);
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
