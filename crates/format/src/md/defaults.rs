//! Where mdadm puts things when it creates an array, so that ours stand where its users expect.
//!
//! The formulas are those of mdadm 4.2 and later: `validate_geometry1`, `choose_bm_space`, `write_init_super1` and
//! `add_internal_bitmap1` in `super1.c`, `validate_geometry0` in `super0.c`, the rounding to chunks in `Create.c`.

pub use super::bitmap::BITMAP_DAEMON_SLEEP;
use super::bitmap::BITMAP_SUPER_BYTES;
use super::{BadBlockLog, MAX_DEVICES_1, Ppl, SUPERBLOCK_BYTES, Superblock, Version};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Chunk of levels 0, 4, 5, 6 and 10 unless told otherwise.
pub const CHUNK: u64 = 512 * KIB;

/// Bytes reserved for the bad-block log of a member.
pub const BAD_BLOCK_LOG_BYTES: u64 = 4 * KIB;

/// Bytes that all partial parity logs of a member take together.
pub const PPL_AREA_BYTES: u64 = MIB;

/// Smallest bitmap chunk that mdadm picks by itself.
pub const BITMAP_CHUNK: u64 = 64 * MIB;

/// Chunks of a bitmap in a file that mdadm makes by itself, at most.
const BITMAP_FILE_CHUNKS: u64 = 1 << 20;

/// Bytes behind a 0.90 superblock, which a bitmap may take.
const BITMAP_ROOM_0_90: u64 = 60 * KIB;

/// Largest member of a 0.90 array of level 1 or more: its size is 32 bits of KiB.
pub const MAX_COMPONENT_0_90: u64 = u32::MAX as u64 * KIB;

/// The means by which an array keeps track of writes under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Nothing: a crash leads to a full resync. Space for a later bitmap is reserved.
    #[default]
    Resync,
    /// A write-intent bitmap of this many bytes beside each superblock (see [`bitmap_plan`]).
    Bitmap {
        /// Bytes of the bitmap with its superblock; a multiple of 4 KiB is kept for it.
        bytes: u64,
    },
    /// A partial parity log on each member (RAID 5).
    Ppl,
}

/// Where everything stands on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Byte of the superblock.
    pub super_offset: u64,
    /// First byte of the data.
    pub data_offset: u64,
    /// Bytes usable for data.
    pub data_size: u64,
    /// Space for the list of bad blocks (1.x, if there is room).
    pub bad_block_log: Option<BadBlockLog>,
    /// Bytes from the superblock to the bitmap, if there is one.
    pub bitmap_offset: Option<i64>,
    /// Partial parity log, if there is one.
    pub ppl: Option<Ppl>,
}

impl Placement {
    /// Copies the placement into a superblock.
    pub fn apply(&self, sb: &mut Superblock) {
        sb.super_offset = self.super_offset;
        sb.data_offset = self.data_offset;
        sb.data_size = self.data_size;
        sb.bad_block_log = self.bad_block_log;
        sb.bitmap_offset = self.bitmap_offset;
        sb.ppl = self.ppl;
    }
}

/// Entries of the role table of a new 1.x superblock for `devices` (members and spares): the table is filled up so
/// that the superblock ends on a sector. `None` if there are too many.
pub fn max_dev(devices: usize) -> Option<usize> {
    let bytes = devices.checked_mul(2)?.checked_add(256)?.checked_next_multiple_of(512)?;
    let entries = bytes.checked_sub(256)? / 2;
    (devices <= MAX_DEVICES_1).then_some(entries.min(MAX_DEVICES_1))
}

/// Bytes that mdadm keeps free for a bitmap on a device (or for a component) of `bytes`.
pub fn bitmap_space(bytes: u64) -> u64 {
    match bytes {
        b if b < 64 * KIB => 0,
        b if b.saturating_sub(64 * KIB) >= 200 * GIB => 128 * KIB,
        b if b.saturating_sub(4 * KIB) > 8 * GIB => 64 * KIB,
        _ => 4 * KIB,
    }
}

/// First byte of the data on the members of a new array, from the size of its first member.
///
/// 1.1 and 1.2 leave room for superblock, bitmap and bad-block log, and for a later reshape to move the data: 0.1 % of
/// the device, at most 128 MiB, in whole MiB. `chunk` is 0 for levels that have none.
pub fn data_offset(version: Version, device_bytes: u64, chunk: u64, consistency: Consistency) -> u64 {
    if matches!(version, Version::V0_90(_) | Version::V1_0) {
        return 0;
    }
    let space = match consistency {
        Consistency::Ppl => PPL_AREA_BYTES,
        _ => bitmap_space(device_bytes),
    };
    let mut headroom = 128 * MIB;
    while headroom.saturating_mul(1024) > device_bytes
        && (chunk == 0 || headroom / 2 >= chunk.saturating_mul(2))
        && headroom > 0
    {
        headroom /= 2;
    }
    let least = (12 * KIB).saturating_add(space).saturating_add(headroom);
    least.checked_next_multiple_of(MIB).unwrap_or(least)
}

/// Bytes that a new member of `device_bytes` offers for data, before rounding to chunks; `None` if it is too small.
pub fn available(
    version: Version,
    device_bytes: u64,
    data_offset: u64,
    consistency: Consistency,
) -> Option<u64> {
    let room = match version {
        Version::V0_90(_) => version.superblock_offset(device_bytes)?,
        Version::V1_0 => {
            let space = match consistency {
                Consistency::Ppl => PPL_AREA_BYTES,
                _ => bitmap_space(device_bytes),
            };
            let overhead = (12 * KIB).checked_add(space)?.checked_add(data_offset)?;
            (device_bytes & !(4 * KIB).wrapping_sub(1)).checked_sub(overhead)?
        }
        Version::V1_1 | Version::V1_2 => {
            (device_bytes / crate::SECTOR).saturating_mul(crate::SECTOR).checked_sub(data_offset)?
        }
    };
    (room > 0).then_some(room)
}

/// Bytes that the array uses of each member, if the smallest offers `available`. Whole chunks, or units of 64 KiB for
/// RAID 1, which has no chunks but may get them in a reshape. `None` if nothing is left or 0.90 cannot record it.
///
/// RAID 10 with far or offset copies uses whole chunks for each copy: the kernel rounds further down by itself.
pub fn component_size(version: Version, available: u64, chunk: u64) -> Option<u64> {
    let recordable = version.is_v1() || available <= MAX_COMPONENT_0_90;
    let unit = if chunk == 0 { 64 * KIB } else { chunk };
    let size = available.checked_sub(available.checked_rem(unit)?)?;
    (size > 0 && recordable).then_some(size)
}

/// Where everything stands on a member of `device_bytes`; `None` if it does not fit.
///
/// `component_size` is what the superblock will record: 0 for linear and RAID 0.
pub fn place(
    version: Version,
    device_bytes: u64,
    data_offset: u64,
    component_size: u64,
    consistency: Consistency,
) -> Option<Placement> {
    let super_offset = version.superblock_offset(device_bytes)?;
    let consistency = match consistency {
        // A bitmap that was read from a device may have any number of bytes.
        Consistency::Bitmap { bytes } => {
            Consistency::Bitmap { bytes: bytes.checked_next_multiple_of(4 * KIB)? }
        }
        other => other,
    };
    let placement = match version {
        Version::V0_90(_) => place_0_90(super_offset, consistency)?,
        Version::V1_0 => place_after(super_offset, data_offset, component_size, consistency)?,
        Version::V1_1 | Version::V1_2 => {
            place_before(super_offset, device_bytes, data_offset, component_size, consistency)?
        }
    };
    let enough = placement.data_size > 0 && placement.data_size >= component_size;
    (enough && data_offset == placement.data_offset).then_some(placement)
}

/// The layout of a device of `device_bytes` that joins an array, where `like` is a member's superblock: as on the
/// members that the array was created with. `None` if it does not fit.
///
/// A bitmap of `bitmap` bytes stands where all members have it, since md knows one place only (`super_1_sync`). The
/// log of bad blocks stands behind it, or behind the space kept free for one, as `write_init_super1` has it.
pub fn place_joining(like: &Superblock, device_bytes: u64, bitmap: Option<u64>) -> Option<Placement> {
    let usual =
        |consistency| place(like.version, device_bytes, like.data_offset, like.component_size, consistency);
    let Some(bytes) = bitmap else { return usual(Consistency::Resync) };
    let created = usual(Consistency::Bitmap { bytes });
    if let Some(created) = created.filter(|created| created.bitmap_offset == like.bitmap_offset) {
        return Some(created);
    }
    let placement = around(like.version, usual(Consistency::Resync)?, like.bitmap_offset?, bytes)?;
    (placement.data_size >= like.component_size).then_some(placement)
}

/// A member whose bitmap stands elsewhere than in a new array: the log of bad blocks, and the end of the data, give way to it.
fn around(version: Version, without: Placement, offset: i64, bytes: u64) -> Option<Placement> {
    let log = BAD_BLOCK_LOG_BYTES;
    let bytes = bytes.checked_next_multiple_of(4 * KIB)?;
    let start = without.super_offset.checked_add_signed(offset)?;
    let end = start.checked_add(bytes)?;
    let (mut place, mut data_size) = (None, without.data_size);
    match version {
        Version::V0_90(_) => {}
        Version::V1_0 => {
            let last = without.super_offset.checked_sub(log)?;
            let at = if end <= last { last } else { start.checked_sub(log)? };
            let before = at.min(start).checked_sub(without.data_offset)?;
            (place, data_size) = (without.bad_block_log.map(|_| at), data_size.min(before));
        }
        Version::V1_1 | Version::V1_2 => {
            let fits = end.checked_add(log)? <= without.data_offset;
            place = fits.then_some(end);
        }
    }
    let offset_of = |at: u64| i64::try_from(at).ok()?.checked_sub_unsigned(without.super_offset);
    let bad_block_log = place.and_then(offset_of).map(|offset| BadBlockLog { offset, size: log, shift: 0 });
    Some(Placement { data_size, bad_block_log, bitmap_offset: Some(offset), ..without })
}

/// The superblock of a device of `device_bytes` with the log of bad blocks, and the end of the data, where they stand on one
/// of an array that was created without a bitmap: so that there is room for one. The log keeps its content, and moves. `None`
/// if nothing would be gained by that, or something has no place there.
pub fn with_room_for_bitmap(sb: &Superblock, device_bytes: u64) -> Option<Superblock> {
    let usual = place(sb.version, device_bytes, sb.data_offset, sb.component_size, Consistency::Resync)?;
    if sb.ppl.is_some() || usual.super_offset != sb.super_offset {
        return None;
    }
    let mut new = sb.clone();
    new.data_size = new.data_size.min(usual.data_size);
    if let Some(old) = sb.bad_block_log {
        let log = usual.bad_block_log.filter(|log| log.size == old.size)?;
        new.bad_block_log = Some(BadBlockLog { shift: old.shift, ..log });
    }
    (bitmap_room_beside(&new) > bitmap_room_beside(sb)).then_some(new)
}

/// The place that mdadm gives to a log of bad blocks of a superblock that has none (`--update=bbl`): behind bitmap or PPL and
/// close to the data, or, of 1.0, before the superblock. `bitmap`: its bytes, if they are known. `None` if there is no room.
pub fn bad_block_log_beside(sb: &Superblock, bitmap: Option<u64>) -> Option<BadBlockLog> {
    let size = BAD_BLOCK_LOG_BYTES;
    let (own, log) = match (sb.bitmap_offset, sb.ppl) {
        (Some(offset), _) => (sb.super_offset.checked_add_signed(offset)?, bitmap?),
        (None, Some(ppl)) => (sb.super_offset.checked_add_signed(ppl.offset)?, ppl.size),
        (None, None) => (sb.super_offset, 0),
    };
    let behind = own.checked_add(log)?.checked_next_multiple_of(size)?;
    let at = match sb.version {
        Version::V0_90(_) => return None,
        Version::V1_0 => {
            let at = sb.super_offset.checked_sub(size)?;
            let free =
                at >= sb.data_offset.checked_add(sb.data_size)? && (log == 0 || behind <= at || own > at);
            Some(at).filter(|_| free)?
        }
        Version::V1_1 | Version::V1_2 => {
            let first = behind.max(sb.super_offset.checked_add(SUPERBLOCK_BYTES as u64)?);
            // Room for a bitmap stays, where there is any.
            let roomy = sb.super_offset.checked_add(SUPERBLOCK_BYTES as u64)?.checked_add(32 * KIB)?;
            let last = sb.data_offset.checked_sub(size)?;
            let last = last.checked_sub(last.checked_rem(size)?)?;
            Some(first.max(roomy.min(last))).filter(|at| *at <= last)?
        }
    };
    let offset = i64::try_from(at).ok()?.checked_sub_unsigned(sb.super_offset)?;
    Some(BadBlockLog { offset, size, shift: 0 })
}

/// 0.90: data from 0 to the superblock; a bitmap has the 60 KiB behind it.
fn place_0_90(super_offset: u64, consistency: Consistency) -> Option<Placement> {
    let bitmap_offset = match consistency {
        Consistency::Resync => None,
        Consistency::Bitmap { bytes } if bytes <= BITMAP_ROOM_0_90 => Some(SUPERBLOCK_BYTES as i64),
        _ => return None,
    };
    let (data_offset, data_size) = (0, super_offset);
    Some(Placement { super_offset, data_offset, data_size, bad_block_log: None, bitmap_offset, ppl: None })
}

/// 1.0: data, then bitmap or PPL, then bad-block log, then superblock.
fn place_after(
    super_offset: u64,
    data_offset: u64,
    component_size: u64,
    consistency: Consistency,
) -> Option<Placement> {
    let log = BAD_BLOCK_LOG_BYTES;
    let (space, bitmap_offset, ppl) = match consistency {
        Consistency::Resync => (bitmap_space(component_size), None, None),
        Consistency::Bitmap { bytes } => (bytes, Some(back(bytes.checked_add(log)?)?), None),
        Consistency::Ppl => {
            let offset = back(PPL_AREA_BYTES.checked_add(log)?)?;
            (PPL_AREA_BYTES, None, Some(Ppl { offset, size: PPL_AREA_BYTES }))
        }
    };
    let room = super_offset.checked_sub(data_offset)?.checked_sub(component_size)?;
    let wanted = space.checked_add(log)?;
    // Reserved space gives way to the data, but what is used does not.
    if room < wanted && consistency != Consistency::Resync {
        return None;
    }
    let space = wanted.min(room);
    let data_size = super_offset.checked_sub(data_offset)?.checked_sub(space)?;
    let bad_block_log = (space >= log).then_some(BadBlockLog { offset: back(log)?, size: log, shift: 0 });
    Some(Placement { super_offset, data_offset, data_size, bad_block_log, bitmap_offset, ppl })
}

/// 1.1 and 1.2: superblock, then bitmap or PPL, then bad-block log, then data.
fn place_before(
    super_offset: u64,
    device_bytes: u64,
    data_offset: u64,
    component_size: u64,
    consistency: Consistency,
) -> Option<Placement> {
    let log = BAD_BLOCK_LOG_BYTES;
    let first = SUPERBLOCK_BYTES as u64;
    let (space, bitmap_offset, ppl) = match consistency {
        Consistency::Resync => (bitmap_space(component_size), None, None),
        Consistency::Bitmap { bytes } => (bytes, Some(i64::try_from(first).ok()?), None),
        Consistency::Ppl => {
            let offset = i64::try_from(first).ok()?;
            (PPL_AREA_BYTES, None, Some(Ppl { offset, size: PPL_AREA_BYTES }))
        }
    };
    let after = first.checked_add(space)?;
    let room = data_offset.checked_sub(super_offset)?;
    if room < first || (room < after && consistency != Consistency::Resync) {
        return None;
    }
    let log_offset = if room >= after.checked_add(log)? {
        Some(after)
    } else {
        // Close before the data, where a bitmap would have gone.
        room.checked_sub(log).filter(|&o| o >= first && consistency == Consistency::Resync)
    };
    let bad_block_log = match log_offset {
        Some(offset) => Some(BadBlockLog { offset: i64::try_from(offset).ok()?, size: log, shift: 0 }),
        None => None,
    };
    let whole = (device_bytes / crate::SECTOR).saturating_mul(crate::SECTOR);
    let data_size = whole.checked_sub(data_offset)?;
    Some(Placement { super_offset, data_offset, data_size, bad_block_log, bitmap_offset, ppl })
}

/// The offset `bytes` before the superblock.
fn back(bytes: u64) -> Option<i64> {
    i64::try_from(bytes).ok()?.checked_neg()
}

/// Chunk and size of a new bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitmapPlan {
    /// Bytes of data that one bit stands for.
    pub chunk: u64,
    /// Bytes of the bitmap with its superblock, rounded up to 4 KiB.
    pub bytes: u64,
}

/// Most writes that md lets lag behind on write-mostly members (`COUNTER_MAX` of its bitmap, which has 14 bits for them).
pub const MAX_WRITE_BEHIND: u32 = 16_383;

/// Component from whose size on mdadm gives a redundant array a bitmap if it is not told otherwise: more than 100 GiB.
pub const BITMAP_FROM: u64 = 100 * GIB + 1;

/// The bitmap of a new array as mdadm plans it beside a component of that size, over `sync_bytes` (the component, or for
/// RAID 10 the whole array); `None` if there is no room for one.
pub fn default_bitmap(version: Version, component_size: u64, sync_bytes: u64) -> Option<BitmapPlan> {
    bitmap_plan(sync_bytes, bitmap_room(version, component_size), None)
}

/// Bytes that a new bitmap may take beside a component of that size.
pub fn bitmap_room(version: Version, component_size: u64) -> u64 {
    if version.is_v1() { bitmap_space(component_size) } else { BITMAP_ROOM_0_90 }
}

/// Plans a bitmap over `sync_bytes` (the component, or for RAID 10 the whole array) in at most `room` bytes, with
/// mdadm's chunk unless one is given. `None` if it does not fit or the chunk is not a power of two.
pub fn bitmap_plan(sync_bytes: u64, room: u64, chunk: Option<u64>) -> Option<BitmapPlan> {
    let room = if chunk.is_none() { room.min(128 * KIB) } else { room };
    let most = room.checked_sub(BITMAP_SUPER_BYTES as u64).filter(|&b| b > 0)?.checked_mul(8)?;
    let mut least = 4 * KIB;
    let mut bits = sync_bytes.checked_div(least)?.saturating_add(1);
    while bits > most {
        least = least.checked_mul(2)?;
        bits = bits.saturating_add(1) / 2;
    }
    let chunk = match chunk {
        None => least.max(BITMAP_CHUNK),
        Some(chunk) if chunk >= least && chunk.is_power_of_two() => chunk,
        Some(_) => return None,
    };
    // The kernel keeps the chunk in 32 bits.
    u32::try_from(chunk).ok()?;
    let bytes = super::bitmap::bytes_needed(sync_bytes, chunk)?.checked_next_multiple_of(4 * KIB)?;
    Some(BitmapPlan { chunk, bytes })
}

/// Plans a bitmap in a file over `sync_bytes`, as [`bitmap_plan`] does: mdadm takes the smallest chunk from 4 KiB on with which there
/// are no more than 2^20 (`CreateBitmap` in `bitmap.c`). `None` if the chunk is not a power of two, below 512 bytes, or does not fit its
/// field.
pub fn bitmap_file_plan(sync_bytes: u64, chunk: Option<u64>) -> Option<BitmapPlan> {
    let usual = || sync_bytes.div_ceil(BITMAP_FILE_CHUNKS).max(4 * KIB).checked_next_power_of_two();
    let chunk = chunk.or_else(usual).filter(|chunk| chunk.is_power_of_two() && *chunk >= crate::SECTOR)?;
    u32::try_from(chunk).ok()?;
    let bytes = super::bitmap::bytes_needed(sync_bytes, chunk)?.checked_next_multiple_of(4 * KIB)?;
    Some(BitmapPlan { chunk, bytes })
}

/// Bytes that are free for a bitmap beside a superblock that has none, where mdadm would put one (`add_internal_bitmap1`,
/// `add_internal_bitmap0`): at most what it keeps free for one.
pub fn bitmap_room_beside(sb: &Superblock) -> u64 {
    let log = sb.bad_block_log.map(|log| log.offset);
    let free = match sb.version {
        Version::V0_90(_) => BITMAP_ROOM_0_90,
        Version::V1_0 => {
            let end = sb.super_offset.saturating_sub(log.map_or(0, |log| log.min(0).unsigned_abs()));
            end.saturating_sub(sb.data_offset.saturating_add(sb.data_size))
        }
        Version::V1_1 | Version::V1_2 => {
            let data = sb.data_offset.saturating_sub(sb.super_offset);
            let end = log.and_then(|log| u64::try_from(log).ok()).map_or(data, |log| data.min(log));
            end.saturating_sub(SUPERBLOCK_BYTES as u64)
        }
    };
    free.min(bitmap_room(sb.version, sb.component_size))
}

/// The place at which mdadm would put a bitmap of `bytes` for a superblock without one: bytes from the superblock.
pub fn bitmap_place_beside(sb: &Superblock, bytes: u64) -> Option<i64> {
    match sb.version {
        Version::V1_0 => {
            let log = sb.bad_block_log.map_or(0, |log| log.offset.min(0).unsigned_abs());
            back(bytes.checked_add(log)?)
        }
        _ => i64::try_from(SUPERBLOCK_BYTES).ok(),
    }
}
