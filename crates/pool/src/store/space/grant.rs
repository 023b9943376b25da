//! Stripes of an open segment for a batch, and how large batches are.

use brindle_format::pool::place::{Address, Shape};

use super::{BATCH_BLOCKS, Open, Space};

/// The most rows that go down one member before the next has its turn: 64 KiB.
const CHUNK: u32 = 16;

/// Stripes to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) segment: u32,
    pub(crate) shape: Shape,
    pub(crate) stripe: u32,
    pub(crate) stripes: u32,
}

impl Grant {
    /// Data blocks of the stripes.
    pub(crate) fn blocks(&self) -> u32 {
        self.stripes * u32::from(self.shape.data())
    }

    /// Where the `n`th data block is; the summary is the first.
    pub(crate) fn address(&self, n: u32) -> Address {
        Address::new(self.segment, self.shape.data_place(self.stripe, n))
    }

    /// The number of that block in memory, where all blocks of a stripe are in the order of slots.
    pub(crate) fn in_memory(&self, n: u32) -> u32 {
        let data = u32::from(self.shape.data());
        n / data * u32::from(self.shape.stripe) + n % data
    }

    /// Where pages stand that fill it.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Address> {
        (1..self.blocks()).map(|n| self.address(n))
    }
}

impl Space {
    /// The rest of an open segment, up to what is wanted; none where that is too little for a summary and a block.
    pub(super) fn grant(&mut self, open: Open, blocks: u32) -> Option<Grant> {
        let record = &mut self.segments[open.segment as usize].record;
        let shape = record.shape();
        let data = u32::from(shape.data());
        let left = shape.stripes().saturating_sub(open.next);
        // More blocks than a summary has entries for would be a batch that can't be written.
        let most = (BATCH_BLOCKS / data).max(1);
        let wanted = blocks.div_ceil(data);
        let mut stripes = wanted.min(left).min(most);
        if wanted >= full_stripes(shape) {
            // Those behind it begin with a chunk, whatever came before.
            let end = (open.next + left.min(most)) / shape.high() * shape.high();
            stripes = end.checked_sub(open.next).filter(|&stripes| stripes > 0).unwrap_or(stripes);
        }
        if stripes * data < 2 {
            return None;
        }
        record.stripes = open.next + stripes;
        self.touched.mark(open.segment);
        Some(Grant { segment: open.segment, shape, stripe: open.next, stripes })
    }
}

/// Rows of a segment that go down one member before the next has its turn: no more than a batch has, and so many that each member has
/// its turn within a segment.
pub(super) fn chunk_of(rows: u32, width: u32, data: u32) -> u8 {
    let most = CHUNK.min(BATCH_BLOCKS / data.max(1)).min(rows / width.max(1));
    if most < 2 { 0 } else { 1 << most.ilog2() }
}

/// Stripes of the largest batch of a segment that ends where it began, at the end of a chunk.
pub(super) fn full_stripes(shape: Shape) -> u32 {
    full_of(shape.data().into(), shape.high())
}

/// The same by data blocks of a stripe, and the stripes of a chunk.
pub(super) fn full_of(data: u32, high: u32) -> u32 {
    let most = (BATCH_BLOCKS / data).max(1);
    let whole = most / high.max(1) * high.max(1);
    if whole > 0 { whole } else { most }
}
