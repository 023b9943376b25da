//! Opening an assembled array, and ending its run.

use std::rc::Rc;

use brindle_format::md::{EncodeError, SUPERBLOCK_BYTES, Superblock};
use brindle_io::{Duration, Io, MemberId, OpError, Pool};

use crate::array::{Array, Config, OnFull, ReadPolicy};
use crate::assembly::{AssembledDevice, Assembly, DeviceUse, Found, Limitation};
use crate::keeper::{Keeper, Keeping, Record, StateChange, Truth};
use crate::members::{Device, Members, RoleState};
use crate::patience::Patience;
use crate::reshape::{self, Side};
use crate::volume::VolumeError;

/// What may be done to the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not one byte of any member is changed.
    #[default]
    ReadOnly,
    /// Everything.
    ReadWrite,
}

/// How an array is opened.
#[derive(Clone)]
pub struct OpenConfig {
    /// What may be done to the members.
    pub access: Access,
    /// Memory for parity and reconstruction, in bytes.
    pub scratch_bytes: usize,
    /// Which copy of a mirrored array answers a read.
    pub read_policy: ReadPolicy,
    /// How long members may take.
    pub patience: Patience,
    /// Time without writes after which the array is marked clean; md waits 200 ms.
    pub idle: Duration,
    /// What becomes of a member that has no room where it lives.
    pub on_full: OnFull,
    /// Seconds since 1970, for the superblocks: the engine reads no clock.
    pub wall_clock: Rc<dyn Fn() -> u64>,
}

impl OpenConfig {
    /// The defaults, with a clock that shows seconds since 1970.
    pub fn new(access: Access, wall_clock: impl Fn() -> u64 + 'static) -> Self {
        let Config { scratch_bytes, read_policy, on_full, patience, .. } = Config::default();
        Self {
            access,
            scratch_bytes,
            read_policy,
            patience,
            idle: Duration::from_millis(200),
            on_full,
            wall_clock: Rc::new(wall_clock),
        }
    }
}

/// Why an assembled array can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The array uses what this release can't honour while writing.
    #[error("the array can't be written to: {}; open it read-only", reasons(limits))]
    ReadOnly {
        /// The reasons.
        limits: Vec<Limitation>,
    },
    /// The devices given are not those that were assembled.
    #[error("{given} devices were opened, but {expected} assembled")]
    Count {
        /// Devices given.
        given: usize,
        /// Devices of the assembly.
        expected: usize,
    },
    /// A device's superblock can't be read any more.
    #[error("{label}: the superblock can't be read: {error}")]
    Read {
        /// The device.
        label: String,
        /// Why.
        error: OpError,
    },
    /// A device has changed since it was looked at.
    #[error("{label} has changed since its superblock was read: is somebody else using it?")]
    Changed {
        /// The device.
        label: String,
    },
    /// The device has larger sectors than the one on which the member was made.
    #[error(
        "{label}: its data begin at byte {offset}, which is within a sector of {block} bytes: the member was made on smaller sectors; copy it to such a device, or to a file"
    )]
    Misaligned {
        /// The device.
        label: String,
        /// Where its data begin.
        offset: u64,
        /// Its logical block.
        block: u32,
    },
    /// The journal holds writes that have not reached the members, or can't be read or understood.
    #[error(
        "{label}: the journal holds writes that have not reached the members (feature journal), which this release can't replay; let mdadm assemble the array once, or use --force to read it without them"
    )]
    Journal {
        /// The journal device.
        label: String,
    },
    /// A superblock could not be written back.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// Why.
        why: EncodeError,
    },
}

fn reasons(limits: &[Limitation]) -> String {
    let forbidding = limits.iter().filter(|limit| limit.forbids_writes());
    forbidding.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Array {
    /// Opens an assembled array. `devices` are the reactor's numbers of the assembly's devices, in their order.
    ///
    /// Each device's superblock is read again first: nothing is written, now or later, to a device that is not what
    /// it was assembled as. Nothing is written before the first change in any case.
    ///
    /// # Errors
    /// An [`OpenError`] that names the device or the reason.
    pub async fn open(
        io: &Io,
        mut assembly: Assembly,
        devices: &[MemberId],
        config: OpenConfig,
    ) -> Result<Self, OpenError> {
        if devices.len() != assembly.devices.len() {
            return Err(OpenError::Count { given: devices.len(), expected: assembly.devices.len() });
        }
        let writable = config.access == Access::ReadWrite;
        if writable && !assembly.writable() {
            return Err(OpenError::ReadOnly { limits: assembly.limits });
        }
        let pool = io.pool(SUPERBLOCK_BYTES);
        for (device, &id) in assembly.devices.iter().zip(devices) {
            check_identity(io, &pool, device, id).await?;
        }
        assembly.look_into_journal(io, devices).await?;
        let (Side { geometry, members }, beyond) = reshape::sides(io, &assembly, devices);
        let members = Rc::new(members);
        let (wall_clock, idle, patience) = (config.wall_clock, config.idle, config.patience);
        let keeping = Keeping { wall_clock, idle, writable, patience, on_full: config.on_full };
        let in_doubt = assembly.in_doubt();
        let record = Record::new(io, assembly, devices, keeping);
        record.check().map_err(|(label, why)| OpenError::Encode { label, why })?;
        let map = geometry.clone();
        let can_lose = Box::new(move |lost: &[u16]| map.can_lose(lost));
        let redundant = geometry.level().is_redundant();
        let truth = Truth::of(&geometry, in_doubt);
        let keeper = Keeper::recorded(io, Rc::clone(&members), can_lose, redundant, record, truth);
        let config = Config {
            scratch_bytes: config.scratch_bytes,
            read_policy: config.read_policy,
            read_only: !writable,
            on_full: config.on_full,
            patience: config.patience,
        };
        let array = Self::new(io, geometry, members, keeper, config);
        let array = match beyond {
            Some(beyond) => array.with_border(beyond),
            None => array,
        };
        Ok(array.known().watched())
    }

    /// Ends the run: refuses new requests, waits for the writes under way, flushes the members and marks the array
    /// clean.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array is broken: its superblocks are left as they are.
    pub async fn stop(&self) -> Result<(), VolumeError> {
        let stopped = self.0.keeper.stop().await;
        self.0.ended.set(true);
        stopped
    }

    /// Takes the member of a role out of use, as if it had failed; returns when that is recorded.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing changes;
    /// [`VolumeError::ReadOnly`], [`VolumeError::Stopping`]; [`VolumeError::OutOfRange`] if there is no such role.
    pub async fn fail(&self, role: u16) -> Result<(), VolumeError> {
        if role >= self.0.members.len() {
            return Err(VolumeError::OutOfRange);
        }
        if self.0.config.read_only {
            return Err(VolumeError::ReadOnly);
        }
        if self.0.keeper.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        self.0.keeper.fail(role).await
    }

    /// The change of the state on disk that is being written, if one is.
    pub fn state_change(&self) -> Option<StateChange> {
        self.0.keeper.state_change()
    }

    /// Redundancy is not known true everywhere: a resync makes it so.
    pub fn needs_resync(&self) -> bool {
        self.0.keeper.resync_offset().is_some()
    }
}

/// A device must still carry, to the byte, the superblock that it was assembled by.
async fn check_identity(
    io: &Io,
    pool: &Pool,
    device: &AssembledDevice,
    id: MemberId,
) -> Result<(), OpenError> {
    let label = || device.label.clone();
    let read_error = |error| OpenError::Read { label: label(), error };
    let info = io.member_info(id).ok_or_else(|| read_error(OpError::Gone))?;
    let buf = pool.alloc(SUPERBLOCK_BYTES).await;
    let mut group = io.group();
    group.read(id, device.super_offset, &buf.all());
    group.submit_by(io.now().after(Patience::default().answer)).await.ok().map_err(read_error)?;
    let found = Found::parse(device.superblock.version, device.super_offset, &buf.bytes(), info.size);
    if info.size != device.bytes || found.superblock.as_ref() != Ok(&device.superblock) {
        return Err(OpenError::Changed { label: label() });
    }
    let block = info.logical_block;
    for offset in [device.superblock.data_offset, device.superblock.new_data_offset()] {
        if !offset.is_multiple_of(block.into()) {
            return Err(OpenError::Misaligned { label: label(), offset, block });
        }
    }
    Ok(())
}

/// The members by role.
pub(crate) fn members(io: &Io, assembly: &Assembly, ids: &[MemberId]) -> Members {
    members_at(io, assembly, ids, assembly.geometry.members(), |sb| sb.data_offset)
}

/// The members of the first `count` roles, with their data where `data_offset` says.
pub(crate) fn members_at(
    io: &Io,
    assembly: &Assembly,
    ids: &[MemberId],
    count: u16,
    data_offset: impl Fn(&Superblock) -> u64,
) -> Members {
    let device = |at: &Option<usize>| {
        let at = (*at)?;
        Some(Device { id: *ids.get(at)?, data_offset: data_offset(&assembly.devices.get(at)?.superblock) })
    };
    let members = Members::new(io, assembly.roles.iter().take(count.into()).map(device));
    for device in &assembly.devices {
        if let DeviceUse::Recovering { role, upto } = device.usage
            && role < count
        {
            // In the middle of a reshape nothing tells by which geometry that is counted.
            let upto = if assembly.reshaping.is_some() { 0 } else { upto };
            members.set_state(role, RoleState::Recovering(upto));
        }
    }
    members
}
