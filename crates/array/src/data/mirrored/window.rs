//! A window on a mirrored array, cut into the blocks that are compared.

use brindle_io::{Buf, PAGE, Slice};
use brindle_layout::Mirrored;

/// Bytes that are compared as one, as md does; less where a chunk ends.
const BLOCK: u64 = 64 << 10;

/// Bytes for all copies of a block. The number of copies is what a superblock says, and most may be missing.
const ALL_COPIES: u64 = 4 << 20;

/// [`BLOCK`], or less where there are very many copies.
pub(super) fn block(map: &Mirrored) -> u64 {
    let fits = (ALL_COPIES / u64::from(map.copies())).max(PAGE as u64);
    BLOCK.min(1 << fits.ilog2())
}

/// Some bytes of the array with all their copies in memory.
pub(super) struct CopyWindow {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) buf: Buf,
}

impl CopyWindow {
    pub(super) fn slice(&self, copy: u16, offset: u64, len: u64) -> Slice {
        let start = (u64::from(copy) * self.len + offset - self.offset) as usize;
        self.buf.slice(start..start + len as usize)
    }

    /// Offsets and lengths of the blocks that are compared.
    pub(super) fn blocks<'a>(&'a self, map: &'a Mirrored) -> impl Iterator<Item = (u64, u64)> + 'a {
        let (mut at, block) = (self.offset, block(map));
        core::iter::from_fn(move || {
            let left = self.offset + self.len - at;
            let len = left.min(block - at % block).min(map.locate(at.min(self.offset + self.len - 1), 0).len);
            at += len;
            (len > 0).then_some((at - len, len))
        })
    }
}
