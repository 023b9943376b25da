//! Devices of roles on record: those that come or go, their flags, and how far they have been rebuilt. Nothing is
//! recorded once the array stops: the last record of a run says how far they came, and their devices may be taken away
//! after that.

use brindle_io::{MemberId, OpError};
use brindle_members::members::{Device, Flags, RoleState};
use brindle_volume::VolumeError;

use super::change::Changing;
use super::{Keeper, StateChange};
use crate::ledger::{AddError, Joined, Looked, NewDevice};

impl Keeper {
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
            // A device that has failed meanwhile keeps the flags in its own superblock.
            let known = keeper.ledger.describe().devices;
            Ok(known.iter().any(|known| known.id == device && known.failure.is_none()))
        })
        .await
    }

    pub(crate) fn is_recovering(&self, role: u16) -> bool {
        matches!(self.members.state(role), RoleState::Recovering(_))
    }

    /// Devices that have been rebuilt further than is on record, and how far.
    pub(crate) fn reached(&self) -> Vec<(MemberId, u64)> {
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
    pub(crate) fn note_reached(&self, reached: &[(MemberId, u64)]) {
        reached.iter().for_each(|&(id, upto)| self.ledger.recovered_to(id, upto));
    }
}
