//! Where the metadata stand: counted from the end of the disk, in its sectors.

use core::ops::Range;

/// Bytes of metadata that are read, at most: more than any container has.
pub const MAX_MPB_BYTES: usize = 256 << 10;

/// The sector that has the first part of the metadata: the last but one.
pub fn anchor(disk: u64, sector: u64) -> Option<Range<u64>> {
    let start = (disk.checked_sub(disk.checked_rem(sector)?)?).checked_sub(sector.checked_mul(2)?)?;
    Some(start..start.checked_add(sector)?)
}

/// The sectors that have the rest of metadata of `len` bytes, in order: those before the anchor. Empty if the anchor has all.
pub fn extended(disk: u64, sector: u64, len: usize) -> Option<Range<u64>> {
    let end = anchor(disk, sector)?.start;
    let more = u64::try_from(len).ok()?.checked_next_multiple_of(sector)?.saturating_sub(sector);
    Some(end.checked_sub(more)?..end)
}

/// The sector that has the record of a change that moves bytes: the last.
pub fn migration_record(disk: u64, sector: u64) -> Option<Range<u64>> {
    let start = anchor(disk, sector)?.end;
    Some(start..start.checked_add(sector)?)
}
