//! Conversions between md's units on disk and bytes, none of which can overflow.

use super::{EncodeError, Superblock, SuperblockError, Version};
use crate::SECTOR;

/// Largest byte count accepted from disk: offsets must fit `i64`, as every file offset does.
const MAX_BYTES: u64 = i64::MAX as u64;

/// Bytes of `count` units, or the field is impossible.
fn scale(field: &'static str, count: u64, unit: u64) -> Result<u64, SuperblockError> {
    count
        .checked_mul(unit)
        .filter(|&b| b <= MAX_BYTES)
        .ok_or(SuperblockError::Impossible { field, value: count })
}

/// Bytes of a count of 512-byte sectors read from disk.
pub(super) fn sectors(field: &'static str, count: u64) -> Result<u64, SuperblockError> {
    scale(field, count, SECTOR)
}

/// Bytes of a count of KiB read from disk (0.90).
pub(super) fn kib(field: &'static str, count: u32) -> Result<u64, SuperblockError> {
    scale(field, u64::from(count), 1024)
}

/// Bytes of a signed count of sectors read from disk.
pub(super) fn signed_sectors(count: i32) -> i64 {
    i64::from(count).saturating_mul(SECTOR as i64)
}

/// Turns bytes into the units of one version, naming the field that does not fit.
pub(super) struct Encoder(pub(super) Version);

impl Encoder {
    /// The error for a value that this version cannot hold.
    pub(super) fn misfit(&self, field: &'static str, value: impl Into<i128>) -> EncodeError {
        EncodeError::Unrepresentable { version: self.0, field, value: value.into() }
    }

    /// `bytes` in whole units of `unit` bytes, which must fit `T`.
    pub(super) fn units<T: TryFrom<u64>>(
        &self,
        field: &'static str,
        bytes: u64,
        unit: u64,
    ) -> Result<T, EncodeError> {
        let exact = bytes.checked_rem(unit) == Some(0);
        let count = bytes.checked_div(unit).filter(|_| exact).and_then(|n| T::try_from(n).ok());
        count.ok_or_else(|| self.misfit(field, bytes))
    }

    /// `bytes` in whole sectors, which must fit `T`.
    pub(super) fn sectors<T: TryFrom<u64>>(&self, field: &'static str, bytes: u64) -> Result<T, EncodeError> {
        self.units(field, bytes, SECTOR)
    }

    /// Signed `bytes` in whole sectors, which must fit `T`.
    pub(super) fn signed<T: TryFrom<i64>>(&self, field: &'static str, bytes: i64) -> Result<T, EncodeError> {
        let exact = bytes.checked_rem(SECTOR as i64) == Some(0);
        let count = bytes.checked_div(SECTOR as i64).filter(|_| exact).and_then(|n| T::try_from(n).ok());
        count.ok_or_else(|| self.misfit(field, bytes))
    }
}

/// The sum of 32-bit words that both superblocks carry: words added in 64 bits, carry folded in once.
pub(super) fn fold_sum(words: impl Iterator<Item = u32>) -> u32 {
    let sum = words.fold(0u64, |sum, word| sum.wrapping_add(u64::from(word)));
    let (low, high) = (sum as u32, (sum >> 32) as u32);
    low.wrapping_add(high)
}

/// Whether md knows the level: faulty, multipath, linear, 0, 1, 4, 5, 6 and 10.
pub(super) fn known_level(level: i32) -> bool {
    matches!(level, -5 | -4 | -1 | 0 | 1 | 4 | 5 | 6 | 10)
}

/// Refuses a reshape that had no member on its old side, or more than the version has room for, or that leads to a
/// level that md does not know.
pub(super) fn check_reshape(sb: &Superblock, most: usize) -> Result<(), SuperblockError> {
    let Some(reshape) = &sb.reshape else { return Ok(()) };
    let impossible =
        |field, value: i32| SuperblockError::Impossible { field, value: u64::from(value as u32) };
    let old = i64::from(sb.raid_disks).saturating_sub(reshape.delta_disks.into());
    if old < 1 || old > most as i64 {
        return Err(impossible("delta_disks", reshape.delta_disks));
    }
    if !known_level(reshape.new_level) {
        return Err(impossible("new_level", reshape.new_level));
    }
    Ok(())
}
