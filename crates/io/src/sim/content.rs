//! The bytes that a drive holds, by sector, in extents that are made when they are first written to.

use super::rng::mix;
use crate::op::Segment;

pub(super) const SECTOR: usize = 512;
/// As many sectors as a word has bits.
const EXTENT: usize = 64 * SECTOR;

/// A stretch of the drive, and which of its sectors were written and which discarded since.
struct ContentExtent {
    written: u64,
    discarded: u64,
    bytes: Box<[u8]>,
}

impl ContentExtent {
    fn new() -> Self {
        Self { written: 0, discarded: 0, bytes: vec![0; EXTENT].into_boxed_slice() }
    }
}

/// The bits of the sectors that `len` bytes at `within` touch.
fn mask(within: usize, len: usize) -> u64 {
    let (first, last) = (within / SECTOR, (within + len - 1) / SECTOR);
    (u64::MAX >> (63 - (last - first))) << first
}

/// The content of sectors that were never written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwritten {
    Zeroes,
    /// Noise of this seed, the same at every look.
    Noise(u64),
}

/// A drive's bytes as a reader sees them.
pub(super) struct DiskContent {
    extents: Vec<Option<Box<ContentExtent>>>,
    unwritten: Unwritten,
    /// Counts reads, so that a discarded sector reads differently each time.
    looks: u64,
}

impl DiskContent {
    pub(super) fn new(size: u64, unwritten: Unwritten) -> Self {
        let extents = (0..size.div_ceil(EXTENT as u64)).map(|_| None).collect();
        Self { extents, unwritten, looks: 0 }
    }

    /// The range is read to the memory, which may be longer.
    pub(super) fn read(&mut self, offset: u64, len: u64, segments: &[Segment]) {
        self.looks += 1;
        let (mut at, end) = (offset, offset + len);
        for segment in segments {
            let count = (end - at).min(segment.len as u64);
            // SAFETY: the op table keeps the segment valid, and nobody else looks at it until the completion; the
            // arena was zeroed when it was made.
            let into = unsafe { core::slice::from_raw_parts_mut(segment.base, count as usize) };
            self.look(at, into, self.looks);
            at += count;
        }
    }

    /// Copies what a reader would see; discarded sectors are shown as they were.
    pub(super) fn peek(&self, offset: u64, into: &mut [u8]) {
        self.look(offset, into, 0);
    }

    fn look(&self, offset: u64, into: &mut [u8], looks: u64) {
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let within = (at % EXTENT as u64) as usize;
            let count = rest.len().min(EXTENT - within);
            let (piece, next) = rest.split_at_mut(count);
            let touched = mask(within, count);
            match self.extents.get((at / EXTENT as u64) as usize).and_then(Option::as_deref) {
                Some(extent) if extent.written & !extent.discarded & touched == touched => {
                    piece.copy_from_slice(&extent.bytes[within..within + count]);
                }
                None if self.unwritten == Unwritten::Zeroes => piece.fill(0),
                extent => self.look_by_sector(extent, at, piece, looks),
            }
            at += count as u64;
            rest = next;
        }
    }

    fn look_by_sector(&self, extent: Option<&ContentExtent>, offset: u64, into: &mut [u8], looks: u64) {
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let within = (at % SECTOR as u64) as usize;
            let count = rest.len().min(SECTOR - within);
            let (piece, next) = rest.split_at_mut(count);
            let bytes = self.sector(extent, at / SECTOR as u64, looks);
            piece.copy_from_slice(&bytes[within..within + count]);
            at += count as u64;
            rest = next;
        }
    }

    fn sector(&self, extent: Option<&ContentExtent>, sector: u64, looks: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let within = (sector % 64) as usize;
        let has = |bits: fn(&ContentExtent) -> u64| extent.is_some_and(|e| bits(e) >> within & 1 == 1);
        if has(|e| e.discarded) && looks > 0 {
            // Old bytes, zeroes or noise, at every look anew.
            let chance = mix(sector ^ looks.rotate_left(32));
            match chance % 3 {
                0 => {}
                1 => return bytes,
                _ => {
                    noise(chance, sector, &mut bytes);
                    return bytes;
                }
            }
        }
        match (extent, self.unwritten) {
            (Some(extent), _) if extent.written >> within & 1 == 1 => {
                bytes.copy_from_slice(&extent.bytes[within * SECTOR..(within + 1) * SECTOR]);
            }
            (_, Unwritten::Noise(seed)) => noise(seed, sector, &mut bytes),
            (_, Unwritten::Zeroes) => {}
        }
        bytes
    }

    fn extent(&mut self, offset: u64) -> &mut ContentExtent {
        self.extents[(offset / EXTENT as u64) as usize].get_or_insert_with(|| Box::new(ContentExtent::new()))
    }

    /// Goes through the extents of a range: `change` is given each, where in it the piece begins, and the piece's bytes.
    fn pieces(&mut self, offset: u64, len: usize, mut change: impl FnMut(&mut ContentExtent, usize, usize)) {
        let (mut at, mut left) = (offset, len);
        while left > 0 {
            let within = (at % EXTENT as u64) as usize;
            let count = left.min(EXTENT - within);
            change(self.extent(at), within, count);
            at += count as u64;
            left -= count;
        }
    }

    /// Whole sectors are written.
    pub(super) fn put(&mut self, offset: u64, from: &[u8]) {
        let mut done = 0;
        self.pieces(offset, from.len(), |extent, within, count| {
            extent.bytes[within..within + count].copy_from_slice(&from[done..done + count]);
            extent.written |= mask(within, count);
            extent.discarded &= !mask(within, count);
            done += count;
        });
    }

    /// Whole sectors are zeroed.
    pub(super) fn zero(&mut self, offset: u64, len: usize) {
        self.pieces(offset, len, |extent, within, count| {
            extent.bytes[within..within + count].fill(0);
            extent.written |= mask(within, count);
            extent.discarded &= !mask(within, count);
        });
    }

    /// Whole sectors are of no use to anybody any more.
    pub(super) fn discard(&mut self, offset: u64, len: usize) {
        self.pieces(offset, len, |extent, within, count| extent.discarded |= mask(within, count));
    }

    /// The first byte in the range of a sector that was never written: one that a thin drive has given no room yet.
    pub(super) fn first_unwritten(&self, offset: u64, len: u64) -> Option<u64> {
        (offset / SECTOR as u64..(offset + len).div_ceil(SECTOR as u64))
            .find(|sector| {
                let extent = self.extents.get((sector / 64) as usize).and_then(Option::as_deref);
                extent.is_none_or(|extent| extent.written >> (sector % 64) & 1 == 0)
            })
            .map(|sector| sector * SECTOR as u64)
    }
}

/// Bytes that are no one's: of a seed and a sector always the same.
pub(super) fn noise(seed: u64, sector: u64, into: &mut [u8]) {
    let mut state = mix(seed ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for word in into.chunks_mut(8) {
        state = state.wrapping_mul(0xd129_0f4c_2b5a_e3a5).rotate_left(29) ^ 0x5851_f42d_4c95_7f2d;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}
