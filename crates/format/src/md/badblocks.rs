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

/// A log as it is on a device, entry by entry, and the steps that change it so that a cut in between loses no range.
/// Entries that stay keep their places; the place of a removed entry holds another entry once more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries(Vec<u64>);

impl Entries {
    /// The bad blocks of a log up to its end mark; `shift` is that of the superblock. `None` if they are not counted in sectors: then
    /// the log can't be changed here.
    pub fn parse(log: &[u8], shift: u8) -> Option<Self> {
        (shift == 0).then(|| Self(entries(log).collect()))
    }

    /// The log names no range.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that they take of a log; the end mark follows.
    pub fn bytes(&self) -> u64 {
        (self.0.len() as u64).saturating_mul(8)
    }

    /// The logs to be written one after the other, each made stable before the next. The last one names just the
    /// ranges of `bad`. Each names all ranges that the one before it and the last one have in common, even if only
    /// some of its sectors were written. `None` if a log of `bytes` bytes has no room for that, or a range is not
    /// aligned to sectors.
    pub fn change(&self, bad: &[BadRange], bytes: usize) -> Option<[Self; 2]> {
        let mut wanted = Vec::new();
        for range in bad {
            push(&mut wanted, range)?;
        }
        let mut with_new = self.0.clone();
        let mut doubles: Vec<usize> = (0..self.0.len()).filter(|&at| is_double(&self.0, at)).collect();
        for &entry in wanted.iter().filter(|entry| !self.0.contains(entry)) {
            match doubles.pop().and_then(|at| with_new.get_mut(at)) {
                Some(slot) => *slot = entry,
                None => with_new.push(entry),
            }
        }
        let mut last = Vec::new();
        if let Some(&kept) = wanted.first() {
            last = with_new.iter().map(|entry| if wanted.contains(entry) { *entry } else { kept }).collect();
        }
        (with_new.len() <= bytes / 8).then_some([Self(with_new), Self(last)])
    }

    /// Fills `log` with the entries, and end marks; the rest of too many entries is left out.
    pub fn encode(&self, log: &mut [u8]) {
        log.fill(0xff);
        for (slot, entry) in log.chunks_exact_mut(8).zip(&self.0) {
            slot.copy_from_slice(U64::new(*entry).as_bytes());
        }
    }
}

/// The same entry stands before this one.
fn is_double(entries: &[u64], at: usize) -> bool {
    entries.get(..at).zip(entries.get(at)).is_some_and(|(before, entry)| before.contains(entry))
}

/// Cuts a range into entries; `None` if it is not aligned to sectors, or too far out.
fn push(entries: &mut Vec<u64>, range: &BadRange) -> Option<()> {
    let (mut at, mut left) = (range.offset / SECTOR, range.len / SECTOR);
    if range.offset.checked_rem(SECTOR) != Some(0) || range.len.checked_rem(SECTOR) != Some(0) {
        return None;
    }
    while left > 0 {
        let length = left.min(MAX_LENGTH);
        entries.push(Some((at << LENGTH_BITS) | length).filter(|_| at < 1 << 53)?);
        at = at.checked_add(length)?;
        left = left.saturating_sub(length);
    }
    Some(())
}
