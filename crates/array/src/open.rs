//! Opening an assembled array, and ending its run.

use std::rc::Rc;

use brindle_format::md::SUPERBLOCK_BYTES;
use brindle_io::{Io, MemberId, OpClass, OpError, Pool};
use brindle_layout::Geometry;
use brindle_members::members::{Device, Members};
use brindle_members::patience::Patience;
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::assembly::{AssembledDevice, Assembly, Found, Limitation, read_bad_log};
use crate::bitmap::Bits;
use crate::clear;
use crate::config::{Access, OpenConfig};
use crate::intent_bitmap::IntentBitmap;
use crate::keeper::StateChange;
use crate::ledger::{Ledger, Superblocks};
use crate::refusal::OpenError;
use crate::reshape;

impl Array {
    /// An array over these members whose state `ledger` keeps. `devices` are in the order of roles; `None` is a missing
    /// member, the others are in sync.
    pub fn kept(
        io: &Io,
        geometry: Geometry,
        devices: Vec<Option<Device>>,
        ledger: Box<dyn Ledger>,
        config: &OpenConfig,
    ) -> Self {
        let io = &io.owned();
        let members = Rc::new(Members::new(io, devices));
        Self::over(io, geometry, None, members, ledger, None, config).tried_again().watched().recovered()
    }

    /// Opens an assembled array. `devices` are the reactor's numbers of the assembly's devices, in their order.
    ///
    /// Each device's superblock is read again first: nothing is written, now or later, to a device that is not what
    /// it was assembled as. Nothing is written before the first change in any case.
    ///
    /// # Errors
    /// - [`OpenError::Count`]: of devices; [`OpenError::ReadOnly`]: what was assembled can't be written to.
    /// - [`OpenError::Read`], [`OpenError::Changed`], [`OpenError::Misaligned`]: of a device.
    /// - [`OpenError::BadBlocks`]: a member's log of bad blocks can't be read.
    /// - [`OpenError::Journal`]: as of [`Assembly::look_into_journal`].
    /// - [`OpenError::Bitmap`]: of the file that was given for the bitmap. It is not looked at where nothing is to be written.
    /// - [`OpenError::Encode`]: a superblock can't be encoded.
    pub async fn open(
        io: &Io,
        mut assembly: Assembly,
        devices: &[MemberId],
        config: OpenConfig,
    ) -> Result<Self, OpenError> {
        if devices.len() != assembly.devices.len() {
            return Err(OpenError::Count { given: devices.len(), expected: assembly.devices.len() });
        }
        // Other users of the devices go on waiting for them as they like.
        let io = &io.owned();
        let writable = config.access == Access::ReadWrite;
        if writable && !assembly.writable() {
            return Err(OpenError::ReadOnly { limits: assembly.limits });
        }
        let pool = io.pool(SUPERBLOCK_BYTES);
        let is_assumed = assembly.limits.contains(&Limitation::Assumed);
        for (device, &id) in assembly.devices.iter().zip(devices) {
            if !is_assumed {
                check_identity(io, &pool, device, id).await?;
            }
            check_alignment(io, device, id)?;
        }
        read_bad_logs(io, &mut assembly, devices).await?;
        assembly.look_into_journal(io, devices).await?;
        let bitmap = if writable { bits(io, &assembly, devices).await? } else { None };
        let (geometry, members, border) = reshape::sides(io, &assembly, devices);
        let bitmap = bitmap.map(|bits| bits.keep(io, &geometry, config.patience));
        let superblocks = Superblocks::new(io, assembly, devices, bitmap.clone(), &config);
        superblocks.check().map_err(|(label, why)| OpenError::Encode { label, why })?;
        let (members, ledger) = (Rc::new(members), Box::new(superblocks));
        let bitmap = bitmap.map(|bitmap| bitmap as Rc<dyn IntentBitmap>);
        let array = Self::over(io, geometry, border, members, ledger, bitmap, &config);
        array.0.core.keeper.tell_if_exposed();
        Ok(array.tried_again().watched().recovered().cleared_lazily())
    }

    /// Ends the run: refuses new requests, waits for the writes under way, flushes the members and marks the array
    /// clean. Nothing is written to a member any more when this returns, also not for a read that is under way still; but for
    /// what was given up, and may still land.
    ///
    /// # Errors
    /// The run has ended all the same, and the next one finds the array dirty; unless it is stopped anew, with more success.
    /// - [`VolumeError::TooManyLost`] if the array is broken, or breaks while it stops: its superblocks stay as they
    ///   are.
    /// - [`VolumeError::Member`] if a member that the array can't do without does not make stable what it was given; with
    ///   `TimedOut` if writes to one that were given up may still land, so that its superblock can't be written.
    pub async fn stop(&self) -> Result<(), VolumeError> {
        if let Some(process) = self.process() {
            process.release();
        }
        let stopped = self.0.core.keeper.stop().await;
        if stopped.is_ok() {
            clear::at_end(&self.0.core).await;
        }
        self.0.core.keeper.end().await;
        self.0.core.ended.set(true);
        self.0.core.members.changed().notify();
        stopped
    }

    /// Takes the member of a role out of use, as if it had failed; returns when that is recorded.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`], [`VolumeError::Stopping`], [`VolumeError::OutOfRange`] if there is no such role, and
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing changes.
    ///
    /// An error also if a member is out of use but that could not be recorded. [`VolumeError::TooManyLost`] if
    /// members failed meanwhile that the array can't do without; [`VolumeError::Member`] with `TimedOut` if writes to
    /// one that were given up may still land. [`VolumeError::Stopping`] if the array was stopped first.
    pub async fn fail(&self, role: u16) -> Result<(), VolumeError> {
        if role >= self.0.core.members.len() {
            return Err(VolumeError::OutOfRange);
        }
        if self.0.core.config.is_read_only() {
            return Err(VolumeError::ReadOnly);
        }
        if self.0.core.keeper.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        self.0.core.keeper.fail(role).await
    }

    /// The change of the state on disk that is being written, if one is.
    pub fn state_change(&self) -> Option<StateChange> {
        self.0.core.keeper.state_change()
    }

    /// Redundancy is not known true everywhere: a resync makes it so.
    pub fn needs_resync(&self) -> bool {
        self.0.core.keeper.resync_offset().is_some()
    }
}

/// The members' copies of the array's bitmap, if it has one.
async fn bits(io: &Io, assembly: &Assembly, devices: &[MemberId]) -> Result<Option<Bits>, OpenError> {
    if let Some(file) = &assembly.bitmap_file {
        let unusable = |why| OpenError::Bitmap { label: file.label.clone(), why };
        return Bits::read_file(io, assembly, file).await.map(Some).map_err(unusable);
    }
    Bits::read(io, assembly, devices).await.map_err(|limit| OpenError::ReadOnly { limits: vec![limit] })
}

/// Reads the logs of bad blocks of members that have something in theirs, and whose bad blocks others make up for.
async fn read_bad_logs(io: &Io, assembly: &mut Assembly, devices: &[MemberId]) -> Result<(), OpenError> {
    let redundant = assembly.level().is_redundant();
    for (device, &id) in assembly.devices.iter_mut().zip(devices) {
        if redundant {
            let read = read_bad_log(io, id, &device.superblock).await;
            device.bad_log =
                read.map_err(|error| OpenError::BadBlocks { label: device.label.clone(), error })?;
        }
    }
    Ok(())
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
    let mut group = io.group_of(OpClass::Metadata);
    group.read(id, device.super_offset, &buf.all());
    group.submit_by(io.now().after(Patience::default().answer)).await.ok().map_err(read_error)?;
    let found = Found::parse(device.superblock.version, device.super_offset, &buf.bytes(), info.size);
    if info.size != device.bytes || found.superblock.as_ref() != Ok(&device.superblock) {
        return Err(OpenError::Changed { label: label() });
    }
    Ok(())
}

/// Data begin at a whole block of the device.
fn check_alignment(io: &Io, device: &AssembledDevice, id: MemberId) -> Result<(), OpenError> {
    let label = || device.label.clone();
    let gone = || OpenError::Read { label: label(), error: OpError::Gone };
    let block = io.member_info(id).ok_or_else(gone)?.logical_block;
    for offset in [device.superblock.data_offset, device.superblock.new_data_offset()] {
        if !offset.is_multiple_of(block.into()) {
            return Err(OpenError::Misaligned { label: label(), offset, block });
        }
    }
    Ok(())
}
