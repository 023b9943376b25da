//! The bits of a bitmap in memory, and which of its pages stand on all members.

use core::ops::Range;
use std::collections::BTreeSet;

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};

/// Bytes that are written at a time.
pub(super) const PAGE: usize = 4096;

/// A bitmap as it must be on each member: superblock and bits, in whole blocks.
pub(super) struct Image {
    superblock: BitmapSuper,
    bytes: Vec<u8>,
    /// Bits that stand on all members, at the same places.
    stable: Vec<u8>,
    /// Pages that may differ on some member.
    dirty: BTreeSet<usize>,
    /// Bits that mean something.
    bits: u64,
}

impl Image {
    /// `bytes` as they were read; `everywhere` says that all members have them.
    pub(super) fn new(superblock: BitmapSuper, bits: u64, bytes: Vec<u8>, everywhere: bool) -> Self {
        let (stable, dirty) = if everywhere {
            (bytes.clone(), BTreeSet::new())
        } else {
            (vec![0; bytes.len()], (0..bytes.len().div_ceil(PAGE)).collect())
        };
        Self { superblock, bytes, stable, dirty, bits }
    }

    pub(super) fn superblock(&self) -> &BitmapSuper {
        &self.superblock
    }

    /// Changes the superblock, and marks it to be written.
    pub(super) fn change(&mut self, edit: impl FnOnce(&mut BitmapSuper)) {
        edit(&mut self.superblock);
        self.dirty.insert(0);
    }

    /// The bit is set, on all members.
    #[inline]
    pub(super) fn is_stable(&self, chunk: u64) -> bool {
        let (byte, mask) = place(chunk);
        self.stable[byte] & mask != 0
    }

    /// The bit is set, or to be.
    pub(super) fn is_set(&self, chunk: u64) -> bool {
        let (byte, mask) = place(chunk);
        self.bytes[byte] & mask != 0
    }

    /// Sets the bits of chunks: to be written.
    pub(super) fn set(&mut self, chunks: Range<u64>) {
        for chunk in chunks {
            let (byte, mask) = place(chunk);
            if self.bytes[byte] & mask == 0 {
                self.bytes[byte] |= mask;
                self.dirty.insert(byte / PAGE);
            }
        }
    }

    /// Clears a bit: to be written some time.
    pub(super) fn clear(&mut self, chunk: u64) {
        let (byte, mask) = place(chunk);
        self.bytes[byte] &= !mask;
        self.stable[byte] &= !mask;
        self.dirty.insert(byte / PAGE);
    }

    /// The chunks whose bit is set, in their order.
    pub(super) fn set_chunks(&self) -> impl Iterator<Item = u64> {
        let bytes = &self.bytes[BITMAP_SUPER_BYTES..];
        let set = |(n, &byte): (usize, &u8)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| n as u64 * 8 + bit)
        };
        let some = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        some.flat_map(set).take_while(|&chunk| chunk < self.bits)
    }

    /// Marks all of it to be written, since some member has nothing of it yet. The stable parts on the others stay
    /// so.
    pub(super) fn write_anew(&mut self) {
        self.dirty.extend(0..self.bytes.len().div_ceil(PAGE));
    }

    /// Bytes of the image.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the pages that are to be written.
    pub(super) fn take_dirty(&mut self) -> Vec<usize> {
        core::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// Pages could not be written to all members.
    pub(super) fn put_back(&mut self, pages: &[usize]) {
        self.dirty.extend(pages);
    }

    /// The present content of a page.
    pub(super) fn page(&mut self, page: usize) -> &[u8] {
        if page == 0
            && let Some(head) = self.superblock.encode()
        {
            self.bytes[..BITMAP_SUPER_BYTES].copy_from_slice(&head);
        }
        let start = page * PAGE;
        &self.bytes[start..self.bytes.len().min(start + PAGE)]
    }

    /// `written` stands on all members as the content of a page. What was cleared meanwhile does not count.
    pub(super) fn landed(&mut self, page: usize, written: &[u8]) {
        let start = page * PAGE;
        for ((stable, &now), &written) in
            self.stable[start..].iter_mut().zip(&self.bytes[start..]).zip(written)
        {
            *stable = now & written;
        }
    }
}

/// Byte and bit of a chunk.
#[inline]
fn place(chunk: u64) -> (usize, u8) {
    (BITMAP_SUPER_BYTES + (chunk / 8) as usize, 1 << (chunk % 8))
}
