//! Superblock 0.90: 1024 words in the byte order of the host that wrote it.
//!
//! After `struct mdp_superblock_s` of the kernel's `md_p.h`; the checks are those of `super_90_load` in `md.c`.

use zerocopy::byteorder::{BigEndian, ByteOrder, LittleEndian, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::superblock::{RawBlock, Sum};
use super::units::{Encoder, check_reshape, fold_sum, kib, known_level, sectors};
use super::{
    DeviceFlags, DeviceRole, EncodeError, Endian, Features, MAGIC, MAX_DEVICES_0_90, Reshape,
    SUPERBLOCK_BYTES, Superblock, SuperblockError, Timestamp, Uuid, Version,
};

/// `mdp_disk_t`: 32 words about one device.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiskDescriptor<O: ByteOrder> {
    number: U32<O>,
    major: U32<O>,
    minor: U32<O>,
    raid_disk: U32<O>,
    state: U32<O>,
    reserved: [[u8; 4]; 27],
}

/// `mdp_super_t`. The event counts are two words whose order follows the byte order: one 64-bit number either way.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw<O: ByteOrder> {
    md_magic: U32<O>,
    major_version: U32<O>,
    minor_version: U32<O>,
    patch_version: U32<O>,
    gvalid_words: U32<O>,
    set_uuid0: U32<O>,
    ctime: U32<O>,
    level: U32<O>,
    size: U32<O>,
    nr_disks: U32<O>,
    raid_disks: U32<O>,
    md_minor: U32<O>,
    not_persistent: U32<O>,
    set_uuid1: U32<O>,
    set_uuid2: U32<O>,
    set_uuid3: U32<O>,
    gstate_creserved: [[u8; 4]; 16],

    utime: U32<O>,
    state: U32<O>,
    active_disks: U32<O>,
    working_disks: U32<O>,
    failed_disks: U32<O>,
    spare_disks: U32<O>,
    sb_csum: U32<O>,
    events: U64<O>,
    cp_events: U64<O>,
    recovery_cp: U32<O>,
    reshape_position: U64<O>,
    new_level: U32<O>,
    delta_disks: U32<O>,
    new_layout: U32<O>,
    new_chunk: U32<O>,
    gstate_sreserved: [[u8; 4]; 14],

    layout: U32<O>,
    chunk_size: U32<O>,
    root_pv: U32<O>,
    root_block: U32<O>,
    pstate_reserved: [[u8; 4]; 60],

    disks: [DiskDescriptor<O>; MAX_DEVICES_0_90],
    this_disk: DiskDescriptor<O>,
}

const _: () = assert!(size_of::<Raw<LittleEndian>>() == SUPERBLOCK_BYTES);

const STATE_CLEAN: u32 = 1;
const STATE_BITMAP_PRESENT: u32 = 1 << 8;

const DISK_FAULTY: u32 = 1;
const DISK_ACTIVE: u32 = 1 << 1;
const DISK_SYNC: u32 = 1 << 2;
const DISK_REMOVED: u32 = 1 << 3;
const DISK_WRITE_MOSTLY: u32 = 1 << 9;
const DISK_FAILFAST: u32 = 1 << 10;

/// Minor version while a reshape is under way, and else.
const MINOR_RESHAPE: u32 = 91;
const MINOR: u32 = 90;

/// A bitmap stands right behind the superblock.
const BITMAP_OFFSET: i64 = SUPERBLOCK_BYTES as i64;

/// Largest member that the 32-bit size in KiB can record for levels from 1 up: 4 TiB - 1 KiB.
const MAX_DATA: u64 = u32::MAX as u64 * 1024;

/// Reads and checks a superblock in the given byte order; see [`Superblock::parse`].
pub(super) fn parse(
    endian: Endian,
    bytes: &[u8],
    device_bytes: u64,
    sum: Sum,
) -> Result<Superblock, SuperblockError> {
    match endian {
        Endian::Little => parse_in::<LittleEndian>(endian, bytes, device_bytes, sum),
        Endian::Big => parse_in::<BigEndian>(endian, bytes, device_bytes, sum),
    }
}

/// Writes a superblock in the given byte order; see [`Superblock::encode`].
pub(super) fn encode(sb: &Superblock, endian: Endian) -> Result<[u8; SUPERBLOCK_BYTES], EncodeError> {
    match endian {
        Endian::Little => encode_in::<LittleEndian>(sb),
        Endian::Big => encode_in::<BigEndian>(sb),
    }
}

fn impossible(field: &'static str, value: u32) -> SuperblockError {
    SuperblockError::Impossible { field, value: u64::from(value) }
}

fn parse_in<O: ByteOrder>(
    endian: Endian,
    bytes: &[u8],
    device_bytes: u64,
    sum: Sum,
) -> Result<Superblock, SuperblockError> {
    let (raw, _) = Raw::<O>::ref_from_prefix(bytes)
        .map_err(|_| SuperblockError::Short { have: bytes.len(), need: SUPERBLOCK_BYTES })?;
    if raw.md_magic.get() != MAGIC {
        return Err(SuperblockError::NoMagic);
    }
    let (major, minor) = (raw.major_version.get(), raw.minor_version.get());
    if major != 0 || !(MINOR..=MINOR_RESHAPE).contains(&minor) {
        return Err(SuperblockError::WrongVersion { major, minor });
    }
    let expected = checksum(raw);
    // Folded to 16 bits as the kernel compares them: Alpha hosts stored only the fold.
    if sum == Sum::Checked && fold16(raw.sb_csum.get()) != fold16(expected) {
        return Err(SuperblockError::Checksum { found: raw.sb_csum.get(), expected });
    }
    let version = Version::V0_90(endian);
    let super_offset = version.superblock_offset(device_bytes).ok_or(SuperblockError::BeyondDevice {
        area: "superblock",
        end: SUPERBLOCK_BYTES as u64,
        device_bytes,
    })?;
    let sb = decode(version, raw, super_offset)?;
    check(&sb, raw, device_bytes)?;
    Ok(sb)
}

/// Sum of all words, the checksum itself taken as 0.
fn checksum<O: ByteOrder>(raw: &Raw<O>) -> u32 {
    let mut raw = raw.clone();
    raw.sb_csum.set(0);
    let word = |bytes: &[u8]| U32::<O>::read_from_bytes(bytes).map_or(0, U32::get);
    fold_sum(raw.as_bytes().chunks_exact(4).map(word))
}

fn fold16(sum: u32) -> u32 {
    let once = (sum & 0xffff).wrapping_add(sum >> 16);
    (once & 0xffff).wrapping_add(once >> 16)
}

fn decode<O: ByteOrder>(
    version: Version,
    raw: &Raw<O>,
    super_offset: u64,
) -> Result<Superblock, SuperblockError> {
    let level = raw.level.get() as i32;
    let bitmap = raw.state.get() & STATE_BITMAP_PRESENT != 0;
    let reshape = reshape(raw)?;
    let state = raw.disks.get(raw.this_disk.number.get() as usize).map_or(0, |disk| disk.state.get());
    Ok(Superblock {
        version,
        set_uuid: uuid(raw),
        name: String::new(),
        created: Timestamp { seconds: u64::from(raw.ctime.get()), micros: 0 },
        updated: Timestamp { seconds: u64::from(raw.utime.get()), micros: 0 },
        level,
        layout: raw.layout.get(),
        chunk: u64::from(raw.chunk_size.get()),
        raid_disks: raw.raid_disks.get(),
        component_size: kib("size", raw.size.get())?,
        data_offset: 0,
        data_size: if level >= 1 { super_offset.min(MAX_DATA) } else { super_offset },
        super_offset,
        events: raw.events.get(),
        device_uuid: Uuid::nil(),
        device_number: raw.this_disk.number.get(),
        roles: roles(raw),
        resync_offset: resync_offset(raw),
        recovery_offset: None,
        features: Features::NONE
            .with(Features::BITMAP_OFFSET, bitmap)
            .with(Features::RESHAPE_ACTIVE, reshape.is_some()),
        bitmap_offset: bitmap.then_some(BITMAP_OFFSET),
        bad_block_log: None,
        ppl: None,
        journal_tail: None,
        reshape,
        flags: device_flags(state),
        corrected_reads: 0,
        logical_block_size: 0,
        raw: RawBlock::from(raw.as_bytes()),
    })
}

fn device_flags(state: u32) -> DeviceFlags {
    DeviceFlags { write_mostly: state & DISK_WRITE_MOSTLY != 0, failfast: state & DISK_FAILFAST != 0 }
}

fn uuid<O: ByteOrder>(raw: &Raw<O>) -> Uuid {
    let words = [raw.set_uuid0, raw.set_uuid1, raw.set_uuid2, raw.set_uuid3];
    Uuid::from_u128(words.iter().fold(0, |id, word| (id << 32) | u128::from(word.get())))
}

/// Roles of the devices up to the last one that the table mentions.
fn roles<O: ByteOrder>(raw: &Raw<O>) -> Vec<DeviceRole> {
    let used = raw.disks.iter().rposition(|disk| disk.as_bytes().iter().any(|b| *b != 0));
    let len = used.map_or(0, |last| last.saturating_add(1)).max(raw.raid_disks.get() as usize);
    let reshaping = raw.minor_version.get() >= MINOR_RESHAPE;
    let of_role = |number| number < raw.raid_disks.get();
    (0u32..).zip(raw.disks.iter().take(len)).map(|(n, disk)| role(disk, of_role(n), reshaping)).collect()
}

/// Follows the kernel: a device that is active but not in sync has a role only during a reshape. `of_role`: the
/// number of the entry is that of a role.
fn role<O: ByteOrder>(disk: &DiskDescriptor<O>, of_role: bool, reshaping: bool) -> DeviceRole {
    let state = disk.state.get();
    let placed = state & DISK_SYNC != 0 || (reshaping && state & DISK_ACTIVE != 0);
    match u16::try_from(disk.raid_disk.get()) {
        _ if of_role && state & DISK_REMOVED != 0 => DeviceRole::Vacant,
        _ if !of_role && state == 0 && disk.number.get() == 0 => DeviceRole::Vacant,
        _ if state & (DISK_FAULTY | DISK_REMOVED) != 0 => DeviceRole::Faulty,
        Ok(role) if placed && usize::from(role) < MAX_DEVICES_0_90 => DeviceRole::Active(role),
        _ => DeviceRole::Spare,
    }
}

fn resync_offset<O: ByteOrder>(raw: &Raw<O>) -> Option<u64> {
    if raw.state.get() & STATE_CLEAN != 0 {
        return None;
    }
    // The checkpoint counts only if it was written together with this state.
    let checkpoint = if raw.cp_events == raw.events { raw.recovery_cp.get() } else { 0 };
    Some(u64::from(checkpoint).saturating_mul(crate::SECTOR))
}

fn reshape<O: ByteOrder>(raw: &Raw<O>) -> Result<Option<Reshape>, SuperblockError> {
    if raw.minor_version.get() < MINOR_RESHAPE {
        return Ok(None);
    }
    Ok(Some(Reshape {
        position: sectors("reshape_position", raw.reshape_position.get())?,
        new_level: raw.new_level.get() as i32,
        new_layout: raw.new_layout.get(),
        new_chunk: u64::from(raw.new_chunk.get()),
        delta_disks: raw.delta_disks.get() as i32,
        new_offset: None,
    }))
}

fn check<O: ByteOrder>(sb: &Superblock, raw: &Raw<O>, device_bytes: u64) -> Result<(), SuperblockError> {
    if !known_level(sb.level) {
        return Err(impossible("level", raw.level.get()));
    }
    if sb.raid_disks == 0 || sb.raid_disks as usize > MAX_DEVICES_0_90 {
        return Err(impossible("raid_disks", sb.raid_disks));
    }
    if sb.device_number as usize >= MAX_DEVICES_0_90 {
        return Err(impossible("this_disk.number", sb.device_number));
    }
    check_reshape(sb, MAX_DEVICES_0_90)?;
    if sb.role().active().is_some_and(|role| u32::from(role) >= sb.all_raid_disks()) {
        return Err(impossible("disks.raid_disk", u32::from(sb.role().code())));
    }
    if sb.level >= 1 && sb.component_size > sb.data_size {
        return Err(SuperblockError::BeyondDevice { area: "data", end: sb.component_size, device_bytes });
    }
    Ok(())
}

fn encode_in<O: ByteOrder>(sb: &Superblock) -> Result<[u8; SUPERBLOCK_BYTES], EncodeError> {
    refuse_foreign(sb)?;
    let mut raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
    let new = raw.md_magic.get() != MAGIC;
    let encoder = Encoder(sb.version);
    set_disks(sb, &mut raw, new);
    set_state(sb, &mut raw, new);
    set_array(sb, &mut raw, &encoder)?;
    set_reshape(sb, &mut raw, &encoder)?;
    raw.sb_csum.set(checksum(&raw));
    Ok(zerocopy::transmute!(raw))
}

/// Refuses what only 1.x can record, instead of losing it silently.
fn refuse_foreign(sb: &Superblock) -> Result<(), EncodeError> {
    let version = sb.version;
    if !sb.name.is_empty() {
        return Err(EncodeError::Name { version, len: sb.name.len(), max: 0 });
    }
    if sb.roles.len() > MAX_DEVICES_0_90 || sb.device_number as usize >= MAX_DEVICES_0_90 {
        let devices = sb.roles.len().max((sb.device_number as usize).saturating_add(1));
        return Err(EncodeError::TooManyDevices { version, devices, max: MAX_DEVICES_0_90 });
    }
    let too_high = |role: &DeviceRole| role.active().filter(|&place| usize::from(place) >= MAX_DEVICES_0_90);
    if let Some(place) = sb.roles.iter().find_map(too_high) {
        return Err(Encoder(version).misfit("raid_disk", place));
    }
    let absent = [
        (sb.recovery_offset.is_some(), "a recovery offset"),
        (sb.bad_block_log.is_some(), "a bad-block log"),
        (sb.ppl.is_some(), "a PPL"),
        (sb.journal_tail.is_some() || sb.roles.contains(&DeviceRole::Journal), "a journal"),
        (sb.data_offset != 0, "a data offset"),
        (
            sb.bitmap_offset.is_some_and(|o| o != BITMAP_OFFSET),
            "a bitmap elsewhere than behind the superblock",
        ),
        (!sb.features.without(Features::BITMAP_OFFSET | Features::RESHAPE_ACTIVE).is_empty(), "feature bits"),
        (sb.logical_block_size != 0, "a logical block size"),
        (sb.reshape.is_some_and(|r| r.new_offset.is_some()), "a reshape that moves the data"),
    ];
    match absent.into_iter().find(|(used, _)| *used) {
        Some((_, what)) => Err(EncodeError::Unsupported { version, what }),
        None => Ok(()),
    }
}

fn set_array<O: ByteOrder>(sb: &Superblock, raw: &mut Raw<O>, encoder: &Encoder) -> Result<(), EncodeError> {
    let seconds = |field, time: Timestamp| {
        u32::try_from(time.seconds)
            .ok()
            .filter(|_| time.micros == 0)
            .ok_or_else(|| encoder.misfit(field, time.seconds))
    };
    raw.md_magic.set(MAGIC);
    raw.major_version.set(0);
    raw.minor_version.set(if sb.reshape.is_some() { MINOR_RESHAPE } else { MINOR });
    let id = sb.set_uuid.as_u128();
    raw.set_uuid0.set((id >> 96) as u32);
    raw.set_uuid1.set((id >> 64) as u32);
    raw.set_uuid2.set((id >> 32) as u32);
    raw.set_uuid3.set(id as u32);
    raw.ctime.set(seconds("ctime", sb.created)?);
    raw.utime.set(seconds("utime", sb.updated)?);
    raw.level.set(sb.level as u32);
    raw.layout.set(sb.layout);
    raw.chunk_size.set(encoder.units("chunk_size", sb.chunk, 1)?);
    raw.size.set(encoder.units("size", sb.component_size, 1024)?);
    raw.raid_disks.set(sb.raid_disks);
    Ok(())
}

/// Event count, clean flag, checkpoint and bitmap flag.
fn set_state<O: ByteOrder>(sb: &Superblock, raw: &mut Raw<O>, new: bool) {
    if new || sb.events != raw.events.get() || sb.resync_offset != resync_offset(raw) {
        raw.events.set(sb.events);
        raw.cp_events.set(sb.events);
        // A checkpoint beyond 2 TiB does not fit: starting over is safe.
        let checkpoint = sb.resync_offset.map(|bytes| u32::try_from(bytes / crate::SECTOR).unwrap_or(0));
        raw.recovery_cp.set(checkpoint.unwrap_or(u32::MAX));
    }
    let mut state = raw.state.get() & !(STATE_CLEAN | STATE_BITMAP_PRESENT);
    if sb.is_clean() {
        state |= STATE_CLEAN;
    }
    if sb.bitmap_offset.is_some() {
        state |= STATE_BITMAP_PRESENT;
    }
    raw.state.set(state);
}

/// Writes the descriptors whose role or flags changed, then the counts that follow from them.
fn set_disks<O: ByteOrder>(sb: &Superblock, raw: &mut Raw<O>, new: bool) {
    let reshaping = raw.minor_version.get() >= MINOR_RESHAPE;
    let mut changed = new;
    let raid_disks = raw.raid_disks.get();
    for ((number, disk), wanted) in (0u32..).zip(&mut raw.disks).zip(&sb.roles) {
        if new || role(disk, number < raid_disks, reshaping) != *wanted {
            changed = true;
            describe(disk, number, *wanted, sb.raid_disks);
        }
    }
    // A table that became shorter: forget what stands behind it.
    for disk in raw.disks.iter_mut().skip(sb.roles.len()) {
        if disk.state.get() != 0 || disk.number.get() != 0 {
            changed = true;
            *disk = DiskDescriptor::new_zeroed();
        }
    }
    if let Some(own) = raw.disks.get_mut(sb.device_number as usize) {
        let flags = [(DISK_WRITE_MOSTLY, sb.flags.write_mostly), (DISK_FAILFAST, sb.flags.failfast)];
        let bits =
            flags.into_iter().fold(own.state.get(), |s, (bit, on)| if on { s | bit } else { s & !bit });
        changed |= bits != own.state.get() || sb.device_number != raw.this_disk.number.get();
        own.state.set(bits);
        if changed {
            raw.this_disk = *own;
        }
    }
    if changed {
        count_disks(raw, sb.raid_disks);
    }
}

/// Whether a superblock's own device is described the same in both places, whatever its flags.
pub(super) fn copy_agrees(sb: &Superblock) -> bool {
    fn read<O: ByteOrder>(sb: &Superblock) -> bool {
        let raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
        let facts = |disk: &DiskDescriptor<O>| {
            let state = disk.state.get() & !(DISK_WRITE_MOSTLY | DISK_FAILFAST);
            (disk.number.get(), disk.raid_disk.get(), state)
        };
        raw.disks.get(sb.device_number as usize).is_some_and(|own| facts(own) == facts(&raw.this_disk))
    }
    match sb.version {
        Version::V0_90(Endian::Big) => read::<BigEndian>(sb),
        _ => read::<LittleEndian>(sb),
    }
}

/// The role of a superblock's own device in its copy of the descriptor.
pub(super) fn copied_role(sb: &Superblock) -> Option<u16> {
    fn read<O: ByteOrder>(sb: &Superblock) -> Option<u16> {
        let raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
        role(&raw.this_disk, false, sb.reshape.is_some()).active()
    }
    match sb.version {
        Version::V0_90(Endian::Big) => read::<BigEndian>(sb),
        _ => read::<LittleEndian>(sb),
    }
}

/// The flags of a superblock's own device as they stand in its copy of the descriptor.
pub(super) fn copied_flags(sb: &Superblock) -> DeviceFlags {
    fn read<O: ByteOrder>(sb: &Superblock) -> DeviceFlags {
        let raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
        device_flags(raw.this_disk.state.get())
    }
    match sb.version {
        Version::V0_90(Endian::Big) => read::<BigEndian>(sb),
        _ => read::<LittleEndian>(sb),
    }
}

/// The block from which a superblock was read, with a changed entry in its table. The entry has no flags, and `sum`
/// more in the numbers of its host and its flags. Only the sum of these is known, which is all that a checksum needs.
pub(super) fn with_lost(sb: &Superblock, number: usize, sum: u32) -> RawBlock {
    fn set<O: ByteOrder>(sb: &Superblock, number: usize, sum: u32) -> RawBlock {
        let mut raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
        if let Some(disk) = raw.disks.get_mut(number) {
            disk.state.set(disk.state.get() & !(DISK_WRITE_MOSTLY | DISK_FAILFAST));
            disk.minor.set(disk.minor.get().wrapping_add(sum));
        }
        RawBlock(Box::new(zerocopy::transmute!(raw)))
    }
    match sb.version {
        Version::V0_90(Endian::Big) => set::<BigEndian>(sb, number, sum),
        _ => set::<LittleEndian>(sb, number, sum),
    }
}

/// The block from which a superblock was read, but that the flags of its own device are the same in both places where they
/// stand: a cut may have left one of them old.
pub(super) fn with_flags_agreed(sb: &Superblock) -> RawBlock {
    match sb.version {
        Version::V0_90(Endian::Big) => agree::<BigEndian>(sb),
        _ => agree::<LittleEndian>(sb),
    }
}

fn agree<O: ByteOrder>(sb: &Superblock) -> RawBlock {
    let mut raw: Raw<O> = zerocopy::transmute!(*sb.raw.0);
    if let Some(own) = raw.disks.get(sb.device_number as usize) {
        let flags = own.state.get() & (DISK_WRITE_MOSTLY | DISK_FAILFAST);
        let others = raw.this_disk.state.get() & !(DISK_WRITE_MOSTLY | DISK_FAILFAST);
        raw.this_disk.state.set(others | flags);
    }
    RawBlock(Box::new(zerocopy::transmute!(raw)))
}

/// Fills a descriptor. The device's numbers in its host (`major`, `minor`) and its flags stay as long as some device has it.
fn describe<O: ByteOrder>(disk: &mut DiskDescriptor<O>, number: u32, role: DeviceRole, raid_disks: u32) {
    if role == DeviceRole::Vacant {
        *disk = DiskDescriptor::new_zeroed();
        if number >= raid_disks {
            return;
        }
    }
    disk.number.set(number);
    let (place, state) = match role {
        DeviceRole::Active(role) => (u32::from(role), DISK_ACTIVE | DISK_SYNC),
        DeviceRole::Vacant => (number, DISK_FAULTY | DISK_REMOVED),
        DeviceRole::Faulty => (number, DISK_FAULTY),
        DeviceRole::Spare | DeviceRole::Journal => (number, 0),
    };
    let flags = disk.state.get() & (DISK_WRITE_MOSTLY | DISK_FAILFAST);
    disk.raid_disk.set(place);
    disk.state.set(state | flags);
}

/// The five counts of devices, as the kernel counts them.
fn count_disks<O: ByteOrder>(raw: &mut Raw<O>, raid_disks: u32) {
    let (mut active, mut spare, mut faulty, mut removed) = (0u32, 0u32, 0u32, 0u32);
    for (number, disk) in (0u32..).zip(&raw.disks) {
        let state = disk.state.get();
        let count = match () {
            () if state & DISK_REMOVED != 0 => &mut removed,
            () if state & DISK_FAULTY != 0 => &mut faulty,
            () if state & DISK_ACTIVE != 0 => &mut active,
            // Unused descriptors are all zero; so is a spare's state, but it has a number.
            () if disk.number.get() == number && number >= raid_disks && number != 0 => &mut spare,
            () => continue,
        };
        *count = count.saturating_add(1);
    }
    let working = active.saturating_add(spare);
    raw.active_disks.set(active);
    raw.spare_disks.set(spare);
    raw.working_disks.set(working);
    raw.failed_disks.set(faulty.saturating_add(removed));
    raw.nr_disks.set(working.saturating_add(faulty));
}

fn set_reshape<O: ByteOrder>(
    sb: &Superblock,
    raw: &mut Raw<O>,
    encoder: &Encoder,
) -> Result<(), EncodeError> {
    let Some(reshape) = sb.reshape else { return Ok(()) };
    raw.reshape_position.set(encoder.sectors("reshape_position", reshape.position)?);
    raw.new_level.set(reshape.new_level as u32);
    raw.delta_disks.set(reshape.delta_disks as u32);
    raw.new_layout.set(reshape.new_layout);
    raw.new_chunk.set(encoder.units("new_chunk", reshape.new_chunk, 1)?);
    Ok(())
}
