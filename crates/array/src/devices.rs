//! Devices that come to a running array, and go.

use brindle_format::md::{DeviceFlags, SUPERBLOCK_BYTES, Uuid};
use brindle_io::{MemberId, OpError, Place};
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::assembly::Candidate;
use crate::data::mirrored::Mirror;
use crate::detail::{DeviceDetail, DeviceState};
use crate::ledger::{AddError, NewDevice};

/// Which devices are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// This one, by the reactor's number.
    Device(MemberId),
    /// All that have failed.
    Failed,
    /// All that are not in use, and do not exist any more.
    Detached,
}

/// Why a device does not go: nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// It is in use.
    #[error("{label} is in use: fail it first")]
    InUse {
        /// The device.
        label: String,
    },
    /// It is none of the array's, or what keeps the array's state can't say that it went.
    #[error("it is no device of the array that can be removed")]
    Unknown,
    /// The array could not record it.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Array {
    /// Makes a device a spare: it waits to replace a member, or begins to at once, where lost members are rebuilt by
    /// [themselves](crate::Recovery::Automatic). What it holds is lost. `uuid` is to be its identity, random. `force` takes
    /// one that belongs to another array, too. Returns when that is on record.
    ///
    /// # Errors
    /// An [`AddError`] that names the device and the cause.
    pub async fn add(&self, id: MemberId, label: &str, uuid: Uuid, force: bool) -> Result<(), AddError> {
        let core = &self.0.core;
        self.check_devices_may_change()?;
        let label = label.to_owned();
        if !core.ties.redundant {
            return Err(AddError::NoRedundancy { label });
        }
        let known = core.keeper.ledger().describe();
        if known.devices.iter().any(|device| device.id == id) {
            return Err(AddError::Known { label });
        }
        let device_error = |error| AddError::Device { label: label.clone(), error };
        let info = core.io.member_info(id).ok_or(OpError::Gone).map_err(device_error)?;
        if info.logical_block > core.limits.block {
            return Err(AddError::Blocks { label, block: info.logical_block, least: core.limits.block });
        }
        let pool = core.io.pool(SUPERBLOCK_BYTES);
        let candidate = Candidate::read(&core.io, &pool, id, label.as_str()).await.map_err(device_error)?;
        if let Ok((superblock, _)) = candidate.superblock()
            && superblock.set_uuid != known.uuid
            && !force
        {
            let (array, name) = (superblock.set_uuid, superblock.name.clone());
            return Err(AddError::Foreign { label, array, name });
        }
        let old_superblocks = candidate.found.iter().map(|found| found.offset).collect();
        core.keeper.add(NewDevice { label, id, bytes: info.size, uuid, old_superblocks }).await
    }

    /// Devices are none of the array's any more: that is on record when this returns. Gives which. The devices themselves keep
    /// what is on them.
    ///
    /// # Errors
    /// A [`RemoveError`]; of [`Removal::Failed`] and [`Removal::Detached`], which may find none, only where it could not be
    /// recorded.
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
                let failed = devices.iter().filter(|device| device.state == DeviceState::Failed);
                failed.map(|device| device.id).collect()
            }
            Removal::Detached => self.detached(devices.iter().filter(|device| !is_in_use(device))).await,
        };
        let removed = self.0.core.keeper.remove(wanted).await?;
        if removed.is_empty() && matches!(which, Removal::Device(_)) {
            return Err(RemoveError::Unknown);
        }
        Ok(removed)
    }

    /// Those that do not exist any more, or lead elsewhere by their names.
    async fn detached(&self, devices: impl Iterator<Item = &DeviceDetail>) -> Vec<MemberId> {
        let core = &self.0.core;
        let mut gone = Vec::new();
        for device in devices {
            let until = core.io.now().after(core.config.patience.answer);
            match core.io.probe(device.id, until).await {
                Ok(probe) if probe.place == Place::There => {}
                Err(OpError::TimedOut) => {}
                _ => gone.push(device.id),
            }
        }
        gone
    }

    /// Gives a device of the array other flags; returns when they are on record. They are honoured from then on.
    ///
    /// # Errors
    /// [`RemoveError::Unknown`] if it is no device of the array, has failed, or what keeps the array's state has no place for
    /// flags; else as [`Array::remove`].
    pub async fn set_flags(&self, id: MemberId, flags: DeviceFlags) -> Result<(), RemoveError> {
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

fn is_in_use(device: &DeviceDetail) -> bool {
    use DeviceState::{InSync, Journal, Recovering, Replacement};
    matches!(device.state, InSync | Recovering { .. } | Replacement { .. } | Journal)
}
