//! Batches as their summaries tell them: what stands at each slot of their stripes, and what it sums to.

use brindle_format::pool::place::Shape;
use brindle_format::pool::{BLOCK, Batch, Entry, checksum};

/// The content of a data slot, by a summary.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotContent<'a> {
    /// The summary itself.
    Summary,
    /// The block of an entry.
    Entry(&'a Entry),
    /// Zeroes, which fill the last stripe up.
    Filling,
}

/// A batch that its summary tells.
pub(in crate::upkeep) struct Told {
    pub(super) first: u32,
    pub(super) stripes: u32,
    pub(super) sequence: u64,
    /// The sum of the summary, and that of a block of zeroes.
    sum: u32,
    filling: u32,
    /// It is known to be what was written last: nothing is written by another.
    pub(super) is_trusted: bool,
    /// Whether something of it is live, once that was asked.
    pub(super) lives: Option<bool>,
    /// Those that have a block.
    entries: Vec<Entry>,
}

impl Told {
    /// The batch that begins with a stripe. `block` is its summary, if that stands there.
    pub(in crate::upkeep) fn new(mut batch: Batch, first: u32, block: Option<&[u8]>) -> Option<Self> {
        let sum = match block {
            Some(block) => checksum(block),
            None => checksum(&batch.encode().ok()?),
        };
        batch.entries.retain(|entry| entry.kind.has_block());
        let (stripes, sequence, entries) = (batch.stripes.into(), batch.sequence, batch.entries);
        let (filling, is_trusted, lives) = (checksum(&[0; BLOCK]), false, None);
        Some(Self { first, stripes, sequence, sum, filling, is_trusted, lives, entries })
    }

    /// The stripe behind its last one.
    pub(in crate::upkeep) fn end(&self) -> u32 {
        self.first + self.stripes
    }

    /// The content of a data slot of one of its stripes.
    pub(super) fn content(&self, shape: Shape, stripe: u32, slot: u8) -> SlotContent<'_> {
        let n = (stripe - self.first) as usize * usize::from(shape.data()) + usize::from(slot);
        match n.checked_sub(1) {
            None => SlotContent::Summary,
            Some(n) => self.entries.get(n).map_or(SlotContent::Filling, SlotContent::Entry),
        }
    }

    /// The sum of that.
    pub(in crate::upkeep) fn sum(&self, shape: Shape, stripe: u32, slot: u8) -> u32 {
        match self.content(shape, stripe, slot) {
            SlotContent::Summary => self.sum,
            SlotContent::Entry(entry) => entry.checksum,
            SlotContent::Filling => self.filling,
        }
    }
}
