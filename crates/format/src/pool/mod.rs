//! The format of pools: labels, uberblocks, batches, pages of the map, segments, volumes.
//!
//! `docs/formats/pool.md` draws every structure byte by byte; `tests/format/pool_documents.rs` holds it to this code. All integers are
//! little-endian, and everything stands in aligned blocks of 4 KiB. Where a block lies is a function of its address and its
//! segment's record alone: see [`place`].

mod batch;
mod error;
mod history;
mod label;
mod leaf;
mod page;
pub mod place;
mod scrub;
mod segment;
mod tree;
mod uberblock;
mod vdev;
mod volume;

pub use batch::{Batch, ENTRIES, Entry, EntryKind};
pub use error::PoolError;
pub use history::{HISTORY_PAGES, HISTORY_TEXT, HistoryKind, HistoryPage, HistoryRecord};
pub use label::{
    COMPATIBLE, ConfigName, DENSE_LEAVES, Features, INCOMPATIBLE, Label, MAX_GENERATION, MAX_MEMBERS,
    MAX_NAME, MAX_RUNS, MAX_VDEVS, READ_ONLY, REUSE, RUN_LEAVES, unit_of,
};
pub use leaf::{
    DENSE_ENTRIES, DENSE_SPAN, LEAF_ENTRIES, Leaf, LeafEntry, LeafForms, LeafKind, RUN_ENTRIES, leaf_takes,
    near, runs, runs_of,
};
pub use page::{POINTERS, PageKind, Pointer, Pointers, Root};
pub use scrub::{ScrubRecord, ScrubState};
pub use segment::{SEGMENTS, SegmentClass, SegmentRecord, SegmentState, Segments};
pub use tree::{BRANCH_REFS, Branch, DeadPages, MAX_LEVELS, Subtree, SubtreeState};
pub use uberblock::{Host, LINEAGE, OVERRULED, ROOTED, Rooted, Uberblock};
pub use vdev::{MemberRecord, MemberState, Run, Vdev, VdevKind};
pub use volume::{NODES, Node, Nodes, VOLUMES, VolumeRecord, Volumes};

/// Bytes of a block: of all that is read and written.
pub const BLOCK: usize = 4096;
/// Bytes at the start and at the end of a member that the pool leaves alone: boot sectors, partition tables.
pub const LEFT_ALONE: u64 = 32 << 10;
/// First byte of the first label.
pub const LABEL: u64 = LEFT_ALONE;
/// Bytes of a label: two places for a config, and a ring of uberblocks.
pub const LABEL_BYTES: u64 = 224 << 10;
/// Bytes of a config.
pub const CONFIG_BYTES: usize = 12 << 10;
/// Where configs stand in a label: the first place is the one in which a config rests, a change goes to the one that does not hold the config that counts.
pub const CONFIGS: [u64; 2] = [0, CONFIG_BYTES as u64];
/// The version of the format.
pub const VERSION: u32 = 2;
/// The greatest number of an uberblock, a checkpoint or a batch: each grows by one, and what would wrap was written by nobody.
pub const MAX_NUMBER: u64 = 1 << 62;
/// First byte of the ring within a label.
pub const RING: u64 = 32 << 10;
/// Uberblocks of a ring. That with record number `n` stands in slot `n % RING_SLOTS`.
pub const RING_SLOTS: u64 = 48;
/// First byte of the units of a member.
pub const DATA_START: u64 = 1 << 20;
/// Least bytes that are left behind the units, for the second label and a replacement that is smaller.
pub const TAIL: u64 = 1 << 20;

/// First byte of the second label of a member of that size.
pub const fn second_label(size: u64) -> u64 {
    const BEHIND: u64 = LABEL_BYTES + LEFT_ALONE;
    (size & !0xfff).saturating_sub(BEHIND)
}

/// Units of a member of that size: all that fit and leave a thousandth, at least 1 MiB, free.
pub fn units_of(size: u64, unit: u64) -> u32 {
    let left = (size / 1000).max(TAIL);
    let room = size.saturating_sub(DATA_START).saturating_sub(left);
    u32::try_from(room.checked_div(unit).unwrap_or(0)).unwrap_or(u32::MAX)
}

/// Only this version is read. Version 1 was never released.
fn check_version(what: &'static str, version: u32) -> Result<(), PoolError> {
    match version {
        VERSION => Ok(()),
        0..VERSION => Err(PoolError::Older { what, version }),
        _ => Err(PoolError::Version { what, version }),
    }
}

/// A number that grows by one, and has room to go on growing.
fn check_number(what: &'static str, field: &'static str, number: u64) -> Result<(), PoolError> {
    if number > MAX_NUMBER { Err(error::impossible(what, field, number)) } else { Ok(()) }
}

/// The checksum of everything: CRC-32C.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The checksum of a structure whose own checksum is four bytes at `at`: they count as zero.
fn own_checksum(bytes: &[u8], at: usize) -> u32 {
    let (before, rest) = bytes.split_at(at.min(bytes.len()));
    let (_, after) = rest.split_at(4.min(rest.len()));
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]), after)
}

/// The name in a field, if it is text without control characters.
fn name_of(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let (name, rest) = field.split_at(end);
    let name = core::str::from_utf8(name).ok()?;
    let sound = !name.chars().any(char::is_control) && rest.iter().all(|&byte| byte == 0);
    sound.then(|| name.to_owned())
}

/// A name as a field.
fn name_field<const N: usize>(name: &str) -> Result<[u8; N], PoolError> {
    let mut field = [0; N];
    let place = field.get_mut(..name.len()).ok_or(PoolError::TooMany {
        what: "bytes of a name",
        count: name.len() as u64,
        most: N as u64,
    })?;
    place.copy_from_slice(name.as_bytes());
    Ok(field)
}
