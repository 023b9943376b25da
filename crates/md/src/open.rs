//! Opening an assembled array.

use brindle_format::md::SUPERBLOCK_BYTES;
use brindle_io::{Io, MemberId, OpClass, OpError, Pool};
use brindle_members::patience::Patience;

use crate::assembly::{AssembledDevice, Assembly, Found, Limitation, read_bad_log};
use crate::bitmap::Bits;
use crate::ledger::Superblocks;
use crate::refusal::OpenError;
use crate::reshape_sides::sides;
use brindle_array::{Access, OpenConfig};
use brindle_array::{Array, Opening};

/// Opens an assembled array. `devices` are the reactor's numbers of the assembly's devices, in their order.
///
/// Each device's superblock is read again first: nothing is written, now or later, to a device that is not what
/// it was assembled as. Nothing is written before the first change in any case.
///
/// # Errors
/// - [`OpenError::Count`]: of devices; [`OpenError::ReadOnly`]: what was assembled can't be written to.
/// - [`OpenError::Read`], [`OpenError::Changed`], [`OpenError::Misaligned`]: of a device.
/// - [`OpenError::BadBlocks`]: a member's log of bad blocks can't be read.
/// - [`OpenError::Journal`], [`OpenError::Ppl`]: as of [`Assembly::look_into_logs`].
/// - [`OpenError::Bitmap`]: of the file that was given for the bitmap. It is not looked at where nothing is to be written.
/// - [`OpenError::Encode`]: a superblock can't be encoded.
pub async fn open(
    io: &Io,
    mut assembly: Assembly,
    devices: &[MemberId],
    config: OpenConfig,
) -> Result<Array, OpenError> {
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
    assembly.look_into_logs(io, devices).await?;
    let bitmap = if writable { bits(io, &assembly, devices).await? } else { None };
    let (geometry, members, border) = sides(io, &assembly, devices);
    let bitmap = bitmap.map(|bits| bits.keep(io, &geometry, config.patience));
    bitmap.iter().for_each(|bitmap| bitmap.flush_first(config.flush_before_bitmap));
    let superblocks = Superblocks::new(io, assembly, devices, bitmap, &config);
    superblocks.check().map_err(|(label, why)| OpenError::Encode { label, why })?;
    let opening = Opening { geometry, border, members, ledger: Box::new(superblocks) };
    Ok(Array::begin(io, opening, &config))
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
    if info.size != device.bytes || found.superblock.as_ref() != Ok(device.found()) {
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
