//! Adds devices to a running array, and removes them.

use crate::events::EventKind;
use brindle_io::{MemberId, OpError, PathTarget};
use brindle_members::members::Flags;
use brindle_volume::VolumeError;
use uuid::Uuid;

use crate::array::Array;
use crate::data::mirrored::Mirror;
use crate::detail::{DeviceDetail, DeviceState};
use crate::ledger::{AddError, Joined, LeftOut, Looked, NewDevice, NotTaken};

/// The devices to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The device of this number on the reactor.
    Device(MemberId),
    /// All that have failed: in this run, or before, so that the array was opened without them.
    Failed,
    /// All that are not in use, and do not exist any more.
    Detached,
}

/// Why a device does not go: nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The device is in use.
    #[error("{label} is in use: fail it first")]
    InUse {
        /// The device.
        label: String,
    },
    /// The device is not one of the array's, or the ledger can't record that it is removed.
    #[error("it is not a device of the array that can be removed")]
    Unknown,
    /// The array could not record the change.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Array {
    /// Adds a device. A former member becomes that member again, and is given the writes that it missed, if the
    /// write-intent bitmap covers all of them. Any other device becomes a spare: it waits to replace a member, and
    /// its content is lost. Either begins at once, where lost members are rebuilt by
    /// [themselves](crate::Recovery::Automatic). `uuid` is to be the identity of a spare, random. `force` takes one
    /// that belongs to another array, too. Returns when it is on record what has become of the device.
    ///
    /// # Errors
    /// Each names the device and the cause. Nothing has been written after [`AddError::Known`], [`AddError::NoRedundancy`],
    /// [`AddError::Blocks`], [`AddError::Foreign`] (without `force`), [`AddError::Small`], [`AddError::Full`],
    /// [`AddError::Unrecorded`], [`AddError::Encode`]. [`AddError::Device`] if it does not take what is written to it;
    /// [`AddError::Volume`] where the array can't be written to, stops, or could not put it on record.
    pub async fn add(&self, id: MemberId, label: &str, uuid: Uuid, force: bool) -> Result<Joined, AddError> {
        let known = self.0.core.keeper.ledger().describe();
        if known.devices.iter().any(|device| device.id == id) {
            return Err(AddError::Known { label: label.to_owned() });
        }
        self.take_in(id, label, uuid, force, true).await
    }

    /// Takes in a device that was a member as that member again, as [`Array::add`] does, and no other; also one that has failed
    /// in this run, or that the array was opened without, and that is not in use. Gives its role.
    ///
    /// # Errors
    /// As [`Array::add`]; [`AddError::NotTaken`] with the reason. A device that could not be written to is none of the array's any
    /// more; after other errors nothing has changed.
    pub async fn add_again(&self, id: MemberId, label: &str) -> Result<u16, AddError> {
        self.refuse_known(id, label)?;
        let why = match self.take_in(id, label, Uuid::nil(), false, false).await {
            Ok(Joined::Member { role }) => return Ok(role),
            Ok(Joined::Spare { why }) => {
                AddError::NotTaken { label: label.to_owned(), why: why.unwrap_or(NotTaken::Stranger) }
            }
            Err(why) => why,
        };
        // The device must not be used by mistake.
        self.0.core.io.forsake(id);
        Err(why)
    }

    /// Whether devices could come back by [`Array::add_again`], each judged by the record before the first of them
    /// does, since each return changes the record. Nothing changes, and the devices are not used.
    ///
    /// # Errors
    /// For each device as [`Array::add_again`].
    pub async fn judge_together(&self, devices: &[(MemberId, String)]) -> Vec<Result<(), AddError>> {
        let mut verdicts = Vec::with_capacity(devices.len());
        let (mut meant, mut places) = (Vec::new(), Vec::new());
        for (id, label) in devices {
            let newcomer = match self.refuse_known(*id, label) {
                Ok(()) => self.newcomer(*id, label, Uuid::nil(), false, false).await,
                Err(why) => Err(why),
            };
            match newcomer {
                Ok((device, ..)) => {
                    places.push(verdicts.len());
                    meant.push(device);
                    verdicts.push(Ok(()));
                }
                Err(why) => verdicts.push(Err(why)),
            }
        }
        let judged = self.0.core.keeper.judge(meant).await;
        for (at, place) in places.into_iter().enumerate() {
            verdicts[place] = match &judged {
                Ok(judged) => judged[at].clone(),
                Err(why) => Err(AddError::Volume(*why)),
            };
        }
        // The devices must not be used by mistake.
        let unused = devices.iter().filter(|(id, label)| self.refuse_known(*id, label).is_ok());
        unused.for_each(|(id, _)| self.0.core.io.forsake(*id));
        verdicts
    }

    /// A device that the array uses can't come back.
    fn refuse_known(&self, id: MemberId, label: &str) -> Result<(), AddError> {
        let is_out = |state| matches!(state, DeviceState::Failed | DeviceState::LeftOut(_));
        let devices = self.detail().devices;
        if devices.iter().any(|device| device.id == id && !is_out(device.state)) {
            return Err(AddError::Known { label: label.to_owned() });
        }
        Ok(())
    }

    async fn take_in(
        &self,
        id: MemberId,
        label: &str,
        uuid: Uuid,
        force: bool,
        or_spare: bool,
    ) -> Result<Joined, AddError> {
        let core = &self.0.core;
        let (device, looked) = self.newcomer(id, label, uuid, force, or_spare).await?;
        let joined = core.keeper.add(device, looked).await?;
        if let Joined::Member { role } = joined {
            self.0.placement.mirrors().for_each(|mirror| mirror.forget_pace(role));
            self.0.placement.mirrors().for_each(Mirror::look_at_flags);
            core.keeper.note_member(role, EventKind::Readded, None, None);
        }
        Ok(joined)
    }

    /// The device to come, and what is seen of it.
    async fn newcomer(
        &self,
        id: MemberId,
        label: &str,
        uuid: Uuid,
        force: bool,
        or_spare: bool,
    ) -> Result<(NewDevice, Looked), AddError> {
        let core = &self.0.core;
        self.check_devices_may_change()?;
        let label = label.to_owned();
        if !core.dependence().redundant {
            return Err(AddError::NoRedundancy { label });
        }
        let device_error = |error| AddError::Device { label: label.clone(), error };
        let info = core.io.member_info(id).ok_or(OpError::Gone).map_err(device_error)?;
        if core.keeper.channels.leases.has_orphans(id) || !core.io.take_back(id) {
            // Writes that were given up may still land on it.
            return Err(device_error(OpError::TimedOut));
        }
        if info.logical_block > core.limits.block {
            return Err(AddError::Blocks { label, block: info.logical_block, least: core.limits.block });
        }
        let device = NewDevice { label, id, bytes: info.size, uuid, or_spare };
        let looked = core.keeper.ledger().look_at(&device, force).await?;
        Ok((device, looked))
    }

    /// Devices are none of the array's any more: that is on record when this returns. Gives which. The devices themselves keep
    /// what is on them.
    ///
    /// # Errors
    /// [`RemoveError::InUse`] and [`RemoveError::Unknown`] of [`Removal::Device`] only, since the others may find none;
    /// [`RemoveError::Volume`] where the array can't be written to, stops, or could not put it on record.
    pub async fn remove(&self, which: Removal) -> Result<Vec<MemberId>, RemoveError> {
        self.check_devices_may_change()?;
        let devices = self.detail().devices;
        let wanted = match which {
            Removal::Device(id) => {
                let device = devices.iter().find(|device| device.id == id).ok_or(RemoveError::Unknown)?;
                if is_in_use(device) {
                    return Err(RemoveError::InUse { label: device.label.clone() });
                }
                vec![id]
            }
            Removal::Failed => {
                let failed = devices.iter().filter(|device| has_failed(device.state));
                failed.map(|device| device.id).collect()
            }
            Removal::Detached => self.detached().await,
        };
        let removed = self.0.core.keeper.remove(wanted).await?;
        if removed.is_empty() && matches!(which, Removal::Device(_)) {
            return Err(RemoveError::Unknown);
        }
        Ok(removed)
    }

    /// Devices that are not in use and do not exist any more, or whose names lead to other devices. Asks each of
    /// them, but for those that owe answers still.
    pub async fn detached(&self) -> Vec<MemberId> {
        let core = &self.0.core;
        let mut gone = Vec::new();
        for device in self.detail().devices.iter().filter(|device| !is_in_use(device)) {
            if core.io.orphans_of_all(device.id) > 0 {
                continue;
            }
            let until = core.io.now().after(core.config.patience.answer);
            match core.io.probe(device.id, until).await {
                Ok(probe) if probe.place == PathTarget::There => {}
                Err(OpError::TimedOut) => {}
                _ => gone.push(device.id),
            }
        }
        gone
    }

    /// Gives a device of the array other flags; returns when they are on record. They are honoured from then on.
    ///
    /// # Errors
    /// [`RemoveError::Unknown`] if it is not a device of the array, has failed, or what keeps the array's state has no place for
    /// flags; else as [`Array::remove`].
    pub async fn set_flags(&self, id: MemberId, flags: Flags) -> Result<(), RemoveError> {
        self.check_devices_may_change()?;
        let core = &self.0.core;
        if !core.keeper.set_flags(id, flags).await? {
            return Err(RemoveError::Unknown);
        }
        if let Some(role) = core.members.role_of(id) {
            core.members.set_flags(role, flags);
            self.0.placement.mirrors().for_each(Mirror::look_at_flags);
        }
        Ok(())
    }

    fn check_devices_may_change(&self) -> Result<(), VolumeError> {
        let core = &self.0.core;
        self.0.placement.one()?;
        match () {
            () if core.config.is_read_only() => Err(VolumeError::ReadOnly),
            () if core.keeper.is_stopping() => Err(VolumeError::Stopping),
            () if core.keeper.is_broken() => Err(VolumeError::TooManyLost),
            () => Ok(()),
        }
    }
}

/// Whether the device failed, in this run or before: then the others have gone on without it.
fn has_failed(state: DeviceState) -> bool {
    matches!(state, DeviceState::Failed | DeviceState::LeftOut(LeftOut::Stale { .. } | LeftOut::Faulty))
}

fn is_in_use(device: &DeviceDetail) -> bool {
    use DeviceState::{InSync, Journal, Recovering, Replacement};
    matches!(device.state, InSync | Recovering { .. } | Replacement { .. } | Journal)
}
