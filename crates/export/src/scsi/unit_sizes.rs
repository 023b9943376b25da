//! Sizes of a unit.

use brindle_volume::Limits;

use super::cdb::Blocks;
use super::sense::Sense;

/// Sizes of a unit. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the unit.
    pub size: u64,
    /// A logical block.
    pub block: u32,
    /// The preferred granularity of transfers.
    pub preferred: u32,
    /// The optimal granularity of transfers; 0 for none.
    pub optimal: u64,
    /// The most that a transfer may have.
    pub most: u64,
    /// The unit is write-protected.
    pub read_only: bool,
    /// UNMAP reaches members.
    pub unmaps: bool,
    /// The medium may rotate: false only if it is known not to.
    pub rotates: bool,
}

/// The largest physical block that is reported; a chunk does not count as one.
const PHYSICAL: u32 = 4096;

impl Shape {
    /// The shape of a volume, of which a transfer may have `most` bytes.
    pub fn of(limits: &Limits, most: usize) -> Self {
        Self {
            size: limits.size,
            block: limits.block,
            preferred: limits.preferred,
            optimal: if limits.optimal <= most as u64 { limits.optimal } else { 0 },
            most: most as u64,
            read_only: limits.read_only,
            unmaps: limits.discard && !limits.read_only,
            rotates: true,
        }
    }

    /// Logical blocks of the unit.
    pub const fn blocks(&self) -> u64 {
        self.size / self.block as u64
    }

    /// Logical blocks per physical block, as a power of two.
    pub(super) fn exponent(&self) -> u32 {
        (self.preferred.min(PHYSICAL) / self.block).max(1).ilog2()
    }

    /// Where a range of blocks lies: offset and bytes.
    ///
    /// # Errors
    /// It does not lie within the unit.
    pub(super) fn range(&self, blocks: &Blocks) -> Result<(u64, u64), Sense> {
        match blocks.lba.checked_add(blocks.count) {
            Some(end) if end <= self.blocks() => {
                Ok((blocks.lba * u64::from(self.block), blocks.count * u64::from(self.block)))
            }
            _ => Err(Sense::OUT_OF_RANGE),
        }
    }

    /// Checks a range that is transferred in one piece; gives its place and length in bytes.
    ///
    /// # Errors
    /// The range is longer than a transfer may be. `byte` is where the CDB has the length.
    pub(super) fn transfer(&self, blocks: &Blocks, byte: u16) -> Result<(u64, u64), Sense> {
        let (offset, len) = self.range(blocks)?;
        if len > self.most { Err(Sense::cdb(byte)) } else { Ok((offset, len)) }
    }
}
