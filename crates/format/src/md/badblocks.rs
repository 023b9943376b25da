//! Bad-block log of a 1.x member: a table of 64-bit entries, ended by all ones.
//!
//! Each entry is little-endian: 54 bits of address, 10 bits of length, both in units of `512 << shift` bytes, counted
//! from the start of the device, not of its data (`super_1_load` and `rdev_set_badblocks` in the kernel's `md.c`).
//! `docs/formats/bad-blocks.md` draws it.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::SECTOR;

/// Entry that ends the table; an empty log consists of these.
const END: u64 = u64::MAX;
const LENGTH_BITS: u32 = 10;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// Longest range that the kernel puts in one entry, in units.
pub const MAX_LENGTH: u64 = 512;

/// A range of a member that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BadRange {
    /// First bad byte, from the start of the device.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Reads the ranges of a log up to its end mark; `shift` is that of the superblock.
///
/// Ranges whose bytes do not fit 64 bits are given as reaching to the end of the address space; entries of length 0
/// are left out.
pub fn ranges(log: &[u8], shift: u8) -> impl Iterator<Item = BadRange> {
    let unit = 1u64.checked_shl(u32::from(shift)).and_then(|u| u.checked_mul(SECTOR)).unwrap_or(u64::MAX);
    entries(log).filter_map(move |entry| {
        let (address, length) = (entry >> LENGTH_BITS, entry & LENGTH_MASK);
        let range = BadRange { offset: address.saturating_mul(unit), len: length.saturating_mul(unit) };
        (length != 0).then_some(range)
    })
}

/// Whether a log names no range.
pub fn is_empty(log: &[u8]) -> bool {
    ranges(log, 0).next().is_none()
}

fn entries(log: &[u8]) -> impl Iterator<Item = u64> {
    log.chunks_exact(8)
        .filter_map(|bytes| U64::read_from_bytes(bytes).ok())
        .map(U64::get)
        .take_while(|entry| *entry != END)
}

/// Fills `log` with `bad` (shift 0) and end marks, cutting long ranges; false if they do not fit or are not aligned to
/// sectors, and then `log` is an empty log.
#[must_use]
pub fn write(log: &mut [u8], bad: &[BadRange]) -> bool {
    log.fill(0xff);
    let mut slots = log.chunks_exact_mut(8);
    for range in bad {
        let (mut at, mut left) = (range.offset / SECTOR, range.len / SECTOR);
        let aligned = range.offset.checked_rem(SECTOR) == Some(0) && range.len.checked_rem(SECTOR) == Some(0);
        while aligned && left > 0 && at < 1 << 54 {
            let Some(slot) = slots.next() else { break };
            let length = left.min(MAX_LENGTH);
            slot.copy_from_slice(U64::new((at << LENGTH_BITS) | length).as_bytes());
            at = at.saturating_add(length);
            left = left.saturating_sub(length);
        }
        if left > 0 || !aligned {
            log.fill(0xff);
            return false;
        }
    }
    true
}
