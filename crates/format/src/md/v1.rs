//! Superblock 1.x: one little-endian form at three places.
//!
//! After `struct mdp_superblock_1` of the kernel's `md_p.h`; the checks are those of `super_1_load` in `md.c`.

use zerocopy::little_endian::{I16, I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::superblock::{RawBlock, Sum};
use super::units::{Encoder, check_reshape, fold_sum, known_level, sectors, signed_sectors};
use super::{
    BadBlockLog, DeviceFlags, DeviceRole, EncodeError, Features, MAGIC, MAX_DEVICES_1, Ppl, Reshape,
    SUPERBLOCK_BYTES, Superblock, SuperblockError, Timestamp, Uuid, Version,
};

/// `struct mdp_superblock_1`: 256 bytes, then two bytes per device.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    major_version: U32,
    feature_map: U32,
    pad0: U32,
    set_uuid: [u8; 16],
    set_name: [u8; NAME_BYTES],
    ctime: U64,
    level: I32,
    layout: U32,
    size: U64,
    chunksize: U32,
    raid_disks: U32,
    /// Signed sectors, or `ppl`: offset (signed) and size in 16 bits each.
    bitmap_offset: [u8; 4],
    new_level: I32,
    reshape_position: U64,
    delta_disks: I32,
    new_layout: U32,
    new_chunk: U32,
    new_offset: I32,
    data_offset: U64,
    data_size: U64,
    super_offset: U64,
    /// `recovery_offset`, or `journal_tail` on a journal device.
    recovery_offset: U64,
    dev_number: U32,
    cnt_corrected_read: U32,
    device_uuid: [u8; 16],
    devflags: u8,
    bblog_shift: u8,
    bblog_size: U16,
    bblog_offset: I32,
    utime: U64,
    events: U64,
    resync_offset: U64,
    sb_csum: U32,
    max_dev: U32,
    logical_block_size: U32,
    pad3: [u8; 28],
}

/// Offset and size of the PPL where a bitmap would have its offset.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPpl {
    offset: I16,
    size: U16,
}

const HEAD: usize = size_of::<Raw>();
const NAME_BYTES: usize = 32;
/// Either kind of partial parity log; a superblock has at most one.
const ANY_PPL: Features = Features(Features::PPL.0 | Features::MULTIPLE_PPLS.0);
const WRITE_MOSTLY: u8 = 1;
const FAIL_FAST: u8 = 2;
/// `resync_offset` of a clean array: no sector is in doubt.
const MAX_SECTOR: u64 = u64::MAX;
/// Low 40 bits of a time: seconds. The rest: microseconds.
const SECONDS_MASK: u64 = (1 << 40) - 1;

/// Reads and checks a superblock; see [`Superblock::parse`].
pub(super) fn parse(
    version: Version,
    bytes: &[u8],
    device_bytes: u64,
    sum: Sum,
) -> Result<Superblock, SuperblockError> {
    let short = |need| SuperblockError::Short { have: bytes.len(), need };
    let (head, table) = Raw::ref_from_prefix(bytes).map_err(|_| short(HEAD))?;
    if head.magic.get() != MAGIC {
        return Err(SuperblockError::NoMagic);
    }
    if head.major_version.get() != 1 {
        return Err(SuperblockError::WrongVersion { major: head.major_version.get(), minor: 0 });
    }
    let max_dev = head.max_dev.get() as usize;
    if max_dev > MAX_DEVICES_1 {
        return Err(impossible("max_dev", head.max_dev.get()));
    }
    let (table, _) =
        <[U16]>::ref_from_prefix_with_elems(table, max_dev).map_err(|_| short(checksummed(max_dev)))?;
    let expected = checksum(head, table);
    if sum == Sum::Checked && head.sb_csum.get() != expected {
        return Err(SuperblockError::Checksum { found: head.sb_csum.get(), expected });
    }
    let roles = table.iter().map(|code| DeviceRole::from_code(code.get())).collect();
    let sb = decode(version, head, roles, RawBlock::from(bytes))?;
    check(&sb, head, device_bytes)?;
    Ok(sb)
}

fn impossible(field: &'static str, value: impl Into<u64>) -> SuperblockError {
    SuperblockError::Impossible { field, value: value.into() }
}

/// Bytes that the checksum covers.
fn checksummed(max_dev: usize) -> usize {
    max_dev.saturating_mul(2).saturating_add(HEAD)
}

/// Sum of the words of header and role table, the checksum field taken as 0; an odd last entry counts as a word.
fn checksum(head: &Raw, table: &[U16]) -> u32 {
    let mut head = head.clone();
    head.sb_csum = U32::ZERO;
    let words = head.as_bytes().chunks_exact(4).map(word);
    fold_sum(words.chain(table.as_bytes().chunks(4).map(word)))
}

/// A little-endian word of up to four bytes.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

/// Turns raw fields into bytes and enums; refuses what overflows.
fn decode(
    version: Version,
    head: &Raw,
    roles: Vec<DeviceRole>,
    raw: RawBlock,
) -> Result<Superblock, SuperblockError> {
    let features = Features(head.feature_map.get());
    let mut sb = Superblock {
        version,
        set_uuid: Uuid::from_bytes(head.set_uuid),
        name: name(&head.set_name),
        created: timestamp(head.ctime.get()),
        updated: timestamp(head.utime.get()),
        level: head.level.get(),
        layout: head.layout.get(),
        chunk: sectors("chunksize", u64::from(head.chunksize.get()))?,
        raid_disks: head.raid_disks.get(),
        component_size: sectors("size", head.size.get())?,
        data_offset: sectors("data_offset", head.data_offset.get())?,
        data_size: sectors("data_size", head.data_size.get())?,
        super_offset: sectors("super_offset", head.super_offset.get())?,
        events: head.events.get(),
        device_uuid: Uuid::from_bytes(head.device_uuid),
        device_number: head.dev_number.get(),
        roles,
        resync_offset: match head.resync_offset.get() {
            MAX_SECTOR => None,
            offset => Some(sectors("resync_offset", offset)?),
        },
        recovery_offset: None,
        features,
        bitmap_offset: features
            .contains(Features::BITMAP_OFFSET)
            .then(|| signed_sectors(i32::from_le_bytes(head.bitmap_offset))),
        bad_block_log: bad_block_log(head),
        ppl: features.intersects(ANY_PPL).then(|| ppl(head)),
        journal_tail: None,
        reshape: reshape(head, features)?,
        flags: DeviceFlags {
            write_mostly: head.devflags & WRITE_MOSTLY != 0,
            failfast: head.devflags & FAIL_FAST != 0,
        },
        corrected_reads: head.cnt_corrected_read.get(),
        logical_block_size: head.logical_block_size.get(),
        raw,
    };
    // One field, two meanings: the role decides.
    if sb.role() == DeviceRole::Journal {
        sb.journal_tail = Some(sectors("journal_tail", head.recovery_offset.get())?);
    } else if features.contains(Features::RECOVERY_OFFSET) {
        sb.recovery_offset = Some(sectors("recovery_offset", head.recovery_offset.get())?);
    }
    Ok(sb)
}

/// The place of a superblock by its own field, and the end of the data; `None` without a superblock.
pub(super) fn places(bytes: &[u8]) -> Option<(u64, u64)> {
    let (head, _) = Raw::ref_from_prefix(bytes).ok()?;
    let start = sectors("data_offset", head.data_offset.get()).ok()?;
    let len = sectors("data_size", head.data_size.get()).ok()?;
    Some((sectors("super_offset", head.super_offset.get()).ok()?, start.checked_add(len)?))
}

fn name(bytes: &[u8; NAME_BYTES]) -> String {
    let used = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(used).into_owned()
}

fn timestamp(raw: u64) -> Timestamp {
    Timestamp { seconds: raw & SECONDS_MASK, micros: (raw >> 40) as u32 }
}

fn bad_block_log(head: &Raw) -> Option<BadBlockLog> {
    let (offset, size) = (head.bblog_offset.get(), head.bblog_size.get());
    (offset != 0 && size != 0).then(|| BadBlockLog {
        offset: signed_sectors(offset),
        size: u64::from(size).saturating_mul(crate::SECTOR),
        shift: head.bblog_shift,
    })
}

fn ppl(head: &Raw) -> Ppl {
    let raw: RawPpl = zerocopy::transmute!(head.bitmap_offset);
    Ppl {
        offset: signed_sectors(i32::from(raw.offset.get())),
        size: u64::from(raw.size.get()).saturating_mul(crate::SECTOR),
    }
}

fn reshape(head: &Raw, features: Features) -> Result<Option<Reshape>, SuperblockError> {
    if !features.contains(Features::RESHAPE_ACTIVE) {
        return Ok(None);
    }
    Ok(Some(Reshape {
        position: sectors("reshape_position", head.reshape_position.get())?,
        new_level: head.new_level.get(),
        new_layout: head.new_layout.get(),
        new_chunk: sectors("new_chunk", u64::from(head.new_chunk.get()))?,
        delta_disks: head.delta_disks.get(),
        new_offset: features.contains(Features::NEW_OFFSET).then(|| signed_sectors(head.new_offset.get())),
    }))
}

/// Refuses values that are impossible in an array or beyond the device.
fn check(sb: &Superblock, head: &Raw, device_bytes: u64) -> Result<(), SuperblockError> {
    let actual = sb.version.superblock_offset(device_bytes).ok_or(SuperblockError::BeyondDevice {
        area: "superblock",
        end: sb.super_offset.saturating_add(SUPERBLOCK_BYTES as u64),
        device_bytes,
    })?;
    if sb.super_offset != actual {
        return Err(SuperblockError::Misplaced { recorded: sb.super_offset, actual });
    }
    if !known_level(sb.level) {
        return Err(impossible("level", head.level.get() as u32));
    }
    if sb.raid_disks == 0 || sb.raid_disks as usize > MAX_DEVICES_1 {
        return Err(impossible("raid_disks", sb.raid_disks));
    }
    check_reshape(sb, MAX_DEVICES_1)?;
    if sb.role().active().is_some_and(|role| u32::from(role) >= sb.all_raid_disks()) {
        return Err(impossible("dev_roles", sb.role().code()));
    }
    if !features_agree(sb) {
        return Err(impossible("feature_map", sb.features.0));
    }
    if head.bblog_shift >= 64 {
        return Err(impossible("bblog_shift", head.bblog_shift));
    }
    check_areas(sb, actual, device_bytes)
}

/// Features that the kernel does not accept together, or with this level or role.
fn features_agree(sb: &Superblock) -> bool {
    let has = |features| sb.features.intersects(features);
    let raid0 = !has(Features::RAID0_LAYOUT) || sb.level == 0;
    let ppl = !has(ANY_PPL) || !has(Features::BITMAP_OFFSET | Features::JOURNAL);
    let one_ppl = !sb.features.contains(ANY_PPL);
    let journal = sb.role() != DeviceRole::Journal || has(Features::JOURNAL);
    // Features that only an array in a reshape can have.
    let reshape = !has(Features::RESHAPE_BACKWARDS | Features::NEW_OFFSET) || has(Features::RESHAPE_ACTIVE);
    raid0 && ppl && one_ppl && journal && reshape
}

/// Data must lie within the device and clear of the superblock.
fn check_areas(sb: &Superblock, super_offset: u64, device_bytes: u64) -> Result<(), SuperblockError> {
    // Kernel: data_size of fewer than 10 sectors is refused.
    if sb.data_size < 10 * crate::SECTOR {
        return Err(impossible("data_size", sb.data_size / crate::SECTOR));
    }
    // mdadm --data-offset leaves `data_size` of a 1.0 member as large as without: only what is used counts there.
    let after = sb.version == Version::V1_0;
    let used = if after && sb.level > 0 && sb.role() != DeviceRole::Journal {
        sb.component_size
    } else {
        sb.data_size
    };
    let limit = if after { super_offset } else { device_bytes };
    let end = sb.data_offset.saturating_add(used);
    if end > device_bytes {
        return Err(SuperblockError::BeyondDevice { area: "data", end, device_bytes });
    }
    // All 4 KiB, although the kernel is content with the part in use: they are written as one.
    let before = super_offset.saturating_add(SUPERBLOCK_BYTES as u64);
    if end.max(sb.data_size) > limit || (!after && sb.data_offset < before) {
        return Err(SuperblockError::Overlap { area: "data" });
    }
    // A reshape may move the data, but neither onto the superblock nor off the device.
    if let Some(shift) = sb.reshape.and_then(|r| r.new_offset) {
        let moved = sb.data_offset.checked_add_signed(shift);
        let least = if after { 0 } else { before };
        let fits = |offset: u64| offset >= least && offset.saturating_add(sb.component_size) <= limit;
        if !moved.is_some_and(fits) {
            return Err(SuperblockError::Overlap { area: "data after the reshape" });
        }
    }
    if sb.level > 0 && sb.role().active().is_some() && sb.component_size > sb.data_size {
        return Err(impossible("size", sb.component_size / crate::SECTOR));
    }
    Ok(())
}

/// Writes a superblock over the block it came from; see [`Superblock::encode`].
pub(super) fn encode(sb: &Superblock) -> Result<[u8; SUPERBLOCK_BYTES], EncodeError> {
    let mut out = *sb.raw.0;
    let misfit = EncodeError::Buffer { have: SUPERBLOCK_BYTES, need: checksummed(sb.roles.len()) };
    let (head, table) = Raw::mut_from_prefix(&mut out).map_err(|_| misfit.clone())?;
    let devices = sb.roles.len();
    let (table, _) = <[U16]>::mut_from_prefix_with_elems(table, devices)
        .map_err(|_| EncodeError::TooManyDevices { version: sb.version, devices, max: MAX_DEVICES_1 })?;
    for (entry, role) in table.iter_mut().zip(&sb.roles) {
        entry.set(role.code());
    }
    let encoder = Encoder(sb.version);
    let old = Features(head.feature_map.get());
    set_array(sb, head, &encoder)?;
    set_device(sb, head, &encoder, old)?;
    set_areas(sb, head, &encoder)?;
    set_reshape(sb, head, &encoder)?;
    head.feature_map.set(feature_map(sb).0);
    head.sb_csum.set(checksum(head, table));
    Ok(out)
}

/// Features with the bits that an `Option` of the struct decides.
fn feature_map(sb: &Superblock) -> Features {
    let mut features = sb
        .features
        .with(Features::BITMAP_OFFSET, sb.bitmap_offset.is_some())
        .with(Features::RESHAPE_ACTIVE, sb.reshape.is_some());
    // A journal has its tail where others have the recovery offset: the bit says nothing there.
    if sb.journal_tail.is_none() {
        features = features.with(Features::RECOVERY_OFFSET, sb.recovery_offset.is_some());
    }
    let moves = sb.reshape.is_some_and(|reshape| reshape.new_offset.is_some());
    features = features.with(Features::NEW_OFFSET, moves);
    if sb.reshape.is_none() {
        features = features.without(Features::RESHAPE_BACKWARDS);
    }
    match sb.ppl {
        None => features.without(ANY_PPL),
        Some(_) if features.intersects(ANY_PPL) => features,
        Some(_) => features | Features::PPL,
    }
}

fn set_array(sb: &Superblock, head: &mut Raw, encoder: &Encoder) -> Result<(), EncodeError> {
    head.magic.set(MAGIC);
    head.major_version.set(1);
    head.set_uuid = sb.set_uuid.into_bytes();
    // Only a changed name is written: one that is not UTF-8 would not survive.
    if sb.name != name(&head.set_name) {
        head.set_name = encode_name(sb)?;
    }
    head.ctime.set(encode_time(sb.created, "ctime", encoder)?);
    head.utime.set(encode_time(sb.updated, "utime", encoder)?);
    head.level.set(sb.level);
    head.layout.set(sb.layout);
    head.size.set(encoder.sectors("size", sb.component_size)?);
    head.chunksize.set(encoder.sectors("chunksize", sb.chunk)?);
    head.raid_disks.set(sb.raid_disks);
    head.events.set(sb.events);
    head.resync_offset.set(match sb.resync_offset {
        None => MAX_SECTOR,
        Some(offset) => encoder.sectors("resync_offset", offset)?,
    });
    head.logical_block_size.set(sb.logical_block_size);
    Ok(())
}

fn encode_name(sb: &Superblock) -> Result<[u8; NAME_BYTES], EncodeError> {
    let text = sb.name.as_bytes();
    let mut out = [0; NAME_BYTES];
    let place = out.get_mut(..text.len()).filter(|_| !text.contains(&0)).ok_or(EncodeError::Name {
        version: sb.version,
        len: text.len(),
        max: NAME_BYTES,
    })?;
    place.copy_from_slice(text);
    Ok(out)
}

fn encode_time(time: Timestamp, field: &'static str, encoder: &Encoder) -> Result<u64, EncodeError> {
    if time.seconds > SECONDS_MASK || time.micros >= 1 << 24 {
        return Err(encoder.misfit(field, time.seconds));
    }
    Ok(time.seconds | (u64::from(time.micros) << 40))
}

fn set_device(sb: &Superblock, head: &mut Raw, encoder: &Encoder, old: Features) -> Result<(), EncodeError> {
    head.data_offset.set(encoder.sectors("data_offset", sb.data_offset)?);
    head.data_size.set(encoder.sectors("data_size", sb.data_size)?);
    head.super_offset.set(encoder.sectors("super_offset", sb.super_offset)?);
    head.dev_number.set(sb.device_number);
    head.cnt_corrected_read.set(sb.corrected_reads);
    head.device_uuid = sb.device_uuid.into_bytes();
    let set = |flags: u8, bit: u8, on: bool| if on { flags | bit } else { flags & !bit };
    head.devflags = set(head.devflags, WRITE_MOSTLY, sb.flags.write_mostly);
    head.devflags = set(head.devflags, FAIL_FAST, sb.flags.failfast);
    match (sb.journal_tail, sb.recovery_offset) {
        (Some(_), Some(_)) => {
            let what = "both a journal tail and a recovery offset";
            return Err(EncodeError::Unsupported { version: sb.version, what });
        }
        (Some(tail), None) => head.recovery_offset.set(encoder.sectors("journal_tail", tail)?),
        (None, Some(offset)) => head.recovery_offset.set(encoder.sectors("recovery_offset", offset)?),
        (None, None) if old.contains(Features::RECOVERY_OFFSET) => head.recovery_offset.set(0),
        (None, None) => {}
    }
    let max_dev =
        u32::try_from(sb.roles.len()).map_err(|_| encoder.misfit("max_dev", sb.roles.len() as u64))?;
    head.max_dev.set(max_dev);
    Ok(())
}

/// Bitmap or PPL, and bad-block log.
fn set_areas(sb: &Superblock, head: &mut Raw, encoder: &Encoder) -> Result<(), EncodeError> {
    match (sb.bitmap_offset, sb.ppl) {
        (Some(_), Some(_)) => {
            return Err(EncodeError::Unsupported { version: sb.version, what: "both a bitmap and a PPL" });
        }
        (Some(offset), None) => {
            head.bitmap_offset = encoder.signed::<i32>("bitmap_offset", offset)?.to_le_bytes();
        }
        (None, Some(ppl)) => {
            let offset = I16::new(encoder.signed("ppl.offset", ppl.offset)?);
            let size = U16::new(encoder.sectors("ppl.size", ppl.size)?);
            head.bitmap_offset = zerocopy::transmute!(RawPpl { offset, size });
        }
        (None, None) => {}
    }
    match sb.bad_block_log {
        Some(log) => {
            head.bblog_offset.set(encoder.signed("bblog_offset", log.offset)?);
            head.bblog_size.set(encoder.sectors("bblog_size", log.size)?);
            head.bblog_shift = log.shift;
        }
        None if bad_block_log(head).is_some() => {
            head.bblog_offset.set(0);
            head.bblog_size.set(0);
        }
        None => {}
    }
    Ok(())
}

fn set_reshape(sb: &Superblock, head: &mut Raw, encoder: &Encoder) -> Result<(), EncodeError> {
    let Some(reshape) = sb.reshape else { return Ok(()) };
    head.reshape_position.set(encoder.sectors("reshape_position", reshape.position)?);
    head.new_level.set(reshape.new_level);
    head.new_layout.set(reshape.new_layout);
    head.new_chunk.set(encoder.sectors("new_chunk", reshape.new_chunk)?);
    head.delta_disks.set(reshape.delta_disks);
    if let Some(offset) = reshape.new_offset {
        head.new_offset.set(encoder.signed("new_offset", offset)?);
    }
    Ok(())
}
