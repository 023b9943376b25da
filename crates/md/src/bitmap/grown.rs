//! The bitmap of an array that gets another shape, in the place of the present one. Of another size: with larger chunks if its room is short.
//! While data are moved, all bits are set.
//!
//! Nothing is in doubt in the array when it is written, and no member is away: bits of the present size say nothing that counts. So it
//! does not matter which of the two sizes a cut leaves on a member: each reads bits that may be set or not.

use std::rc::Rc;

use brindle_format::md::Superblock;
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, bytes_needed};
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Level};

use super::chunks::Chunks;
use super::read::{Bits, MOST};
use super::space::is_free;
use super::{Bitmap, Target};
use brindle_array::sync_len::sync_len;

/// The largest chunk of a bitmap.
const LARGEST: u64 = 1 << 31;

/// A device that has a bitmap, and where.
#[derive(Clone, Copy)]
pub(crate) struct BitmapHome<'a> {
    pub(crate) id: MemberId,
    /// Its superblock in the array's next shape.
    pub(crate) superblock: &'a Superblock,
    /// Byte at which the bitmap's own superblock stands.
    pub(crate) offset: u64,
}

/// The least chunk, from `least` on, with which a bitmap for this geometry has room on all devices, and the bytes that it takes; else
/// the index of a device without room.
pub(crate) fn next_chunk(
    io: &Io,
    geometry: &Geometry,
    homes: &[BitmapHome<'_>],
    least: u64,
) -> Result<(u64, usize), usize> {
    let block = |home: &BitmapHome<'_>| io.member_info(home.id).map_or(512, |info| info.logical_block);
    let block = u64::from(homes.iter().map(block).max().unwrap_or(512));
    let (mut chunk, mut full) = (least, 0);
    while chunk <= LARGEST {
        let len = bytes_needed(sync_len(geometry), chunk).map(|len| len.next_multiple_of(block));
        let Some(len) = len.filter(|&len| len <= MOST) else {
            chunk *= 2;
            continue;
        };
        let bytes = |home: &BitmapHome<'_>| io.member_info(home.id).map_or(0, |info| info.size);
        let is_full = |home: &BitmapHome<'_>| !is_free(home.superblock, home.offset, len, bytes(home));
        match homes.iter().position(is_full) {
            None => return Ok((chunk, len as usize)),
            Some(at) => full = at,
        }
        chunk *= 2;
    }
    Err(full)
}

impl Bitmap {
    /// Bytes to a bit.
    pub(crate) fn chunk(&self) -> u64 {
        self.state.borrow().image.superblock().chunk
    }

    /// The bitmap that takes the place of this one when the array has another size: bits are set from `in_doubt` on, and others are
    /// clear. Nothing of it is written yet.
    pub(crate) fn grown(
        &self,
        geometry: &Geometry,
        homes: &[BitmapHome<'_>],
        (chunk, len): (u64, usize),
        in_doubt: Option<u64>,
    ) -> Rc<Self> {
        let mut head = self.state.borrow().image.superblock().clone();
        (head.chunk, head.sync_bytes) = (chunk, sync_len(geometry));
        // That of the record which is about to name it: members that left before lack more than its bits tell.
        head.events_cleared = head.events.saturating_add(1);
        if geometry.level() != Level::Raid1 {
            head.write_behind = 0;
        }
        let chunks = Chunks::new(geometry, chunk);
        let mut bytes = vec![0; len];
        for bit in in_doubt.map_or(chunks.count(), |from| chunks.at(from))..chunks.count() {
            bytes[BITMAP_SUPER_BYTES + (bit / 8) as usize] |= 1 << (bit % 8);
        }
        self.in_its_place(Bits::of(head, bytes, targets(homes)), geometry)
    }

    /// The bitmap that takes the place of this one while data are moved into this geometry: all bits are set, and stay so. Nothing of it
    /// is written yet.
    pub(crate) fn all_set(&self, geometry: &Geometry, homes: &[BitmapHome<'_>]) -> Rc<Self> {
        let (head, len) = {
            let image = &self.state.borrow().image;
            (image.superblock().clone(), image.len())
        };
        self.in_its_place(Bits::of(head, vec![0xff; len], targets(homes)).all_set(), geometry)
    }

    /// Whether nothing else stands where it does, or is about to, on a device whose superblock is as given.
    pub(crate) fn has_room(&self, home: &BitmapHome<'_>) -> bool {
        let bytes = self.io.member_info(home.id).map_or(0, |info| info.size);
        is_free(home.superblock, home.offset, self.bytes(), bytes)
    }

    fn in_its_place(&self, bits: Bits, geometry: &Geometry) -> Rc<Self> {
        let next = bits.keep(&self.io, geometry, self.patience);
        next.flush_first(self.flushes_first.get());
        next
    }
}

fn targets(homes: &[BitmapHome<'_>]) -> Vec<Target> {
    homes.iter().map(|home| Target { id: home.id, offset: home.offset }).collect()
}
