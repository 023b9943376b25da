//! The entries of a leaf in memory: twelve bytes each, where they are of one node and close to each other.

use brindle_format::pool::place::Address;
use brindle_format::pool::{LEAF_ENTRIES, LeafEntry, LeafKind, is_dense, leaf_takes};

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Located {
    /// It was never written, or is zeroes.
    Zeroes,
    /// There, and it sums to that.
    At(Address, u32),
    /// The block is lost.
    Lost,
}

impl Located {
    /// Its segment, if it has one.
    pub(crate) fn segment(self) -> Option<u32> {
        match self {
            Self::At(address, _) => Some(address.segment()),
            Self::Zeroes | Self::Lost => None,
        }
    }
}

/// An entry, by how far it is behind the first block. One that is lost has no address.
#[derive(Clone, Copy)]
struct Near {
    block: u16,
    high: u16,
    low: u32,
    checksum: u32,
}

const _: () = assert!(size_of::<Near>() == 12);

impl Near {
    fn new(first: u64, entry: &LeafEntry) -> Self {
        let (address, block) = (entry.address.0, entry.block.wrapping_sub(first) as u16);
        Self { block, high: (address >> 32) as u16, low: address as u32, checksum: entry.checksum }
    }

    fn address(self) -> Address {
        Address(u64::from(self.high) << 32 | u64::from(self.low))
    }

    fn entry(self, first: u64, node: u32) -> LeafEntry {
        let address = self.address();
        let kind = if address == Address::NONE { LeafKind::Lost } else { LeafKind::Plain };
        LeafEntry { block: first + u64::from(self.block), node, kind, address, checksum: self.checksum }
    }
}

/// All entries of a leaf.
#[derive(Clone)]
enum Held {
    /// They are of one node, and the blocks within some of the first.
    Near(u64, u32, Vec<Near>),
    Loose(Vec<LeafEntry>),
}

/// The entries of a leaf in the order of their blocks.
#[derive(Clone)]
pub(crate) struct Entries(Held);

impl From<Vec<LeafEntry>> for Entries {
    fn from(entries: Vec<LeafEntry>) -> Self {
        let Some(&LeafEntry { block: first, node, .. }) = entries.first().filter(|_| is_dense(&entries))
        else {
            return Self(Held::Loose(entries));
        };
        Self(Held::Near(first, node, entries.iter().map(|entry| Near::new(first, entry)).collect()))
    }
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Held::Near(_, _, entries) => entries.len(),
            Held::Loose(entries) => entries.len(),
        }
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Held::Near(_, _, entries) => entries.len() * size_of::<Near>(),
            Held::Loose(entries) => entries.len() * size_of::<LeafEntry>(),
        }
    }

    /// More than one page takes.
    pub(crate) fn is_too_large(&self, dense: bool) -> bool {
        match &self.0 {
            Held::Near(_, _, entries) => !dense && entries.len() > LEAF_ENTRIES,
            Held::Loose(entries) => leaf_takes(entries, dense) < entries.len(),
        }
    }

    /// How many entries are of blocks before this one.
    pub(crate) fn before(&self, block: u64) -> usize {
        match &self.0 {
            Held::Near(first, _, entries) => {
                entries.partition_point(|entry| first + u64::from(entry.block) < block)
            }
            Held::Loose(entries) => entries.partition_point(|entry| entry.block < block),
        }
    }

    /// The entry of a block.
    pub(crate) fn find(&self, block: u64) -> Option<usize> {
        match &self.0 {
            Held::Near(first, _, entries) => {
                let block = u16::try_from(block.checked_sub(*first)?).ok()?;
                // Most leaves have all blocks.
                if entries.get(usize::from(block)).is_some_and(|entry| entry.block == block) {
                    return Some(block.into());
                }
                entries.binary_search_by_key(&block, |entry| entry.block).ok()
            }
            Held::Loose(entries) => entries.binary_search_by_key(&block, |entry| entry.block).ok(),
        }
    }

    /// The block of an entry.
    pub(crate) fn block(&self, at: usize) -> Option<u64> {
        match &self.0 {
            Held::Near(first, _, entries) => entries.get(at).map(|entry| first + u64::from(entry.block)),
            Held::Loose(entries) => entries.get(at).map(|entry| entry.block),
        }
    }

    /// Where a block is.
    pub(crate) fn located(&self, block: u64) -> Located {
        self.find(block).map_or(Located::Zeroes, |at| self.at(at))
    }

    /// Where the block of an entry is.
    pub(crate) fn at(&self, at: usize) -> Located {
        let (address, checksum) = match &self.0 {
            Held::Near(_, _, entries) => (entries[at].address(), entries[at].checksum),
            Held::Loose(entries) => (entries[at].address, entries[at].checksum),
        };
        if address == Address::NONE { Located::Lost } else { Located::At(address, checksum) }
    }

    /// Where all blocks are.
    pub(crate) fn all(&self) -> impl Iterator<Item = Located> {
        (0..self.len()).map(|at| self.at(at))
    }

    /// Puts an entry in the place of another of the same block; false where that can't be.
    pub(crate) fn replace(&mut self, at: usize, entry: LeafEntry) -> bool {
        match &mut self.0 {
            Held::Near(first, node, entries) if *node == entry.node => {
                entries[at] = Near::new(*first, &entry);
                true
            }
            Held::Near(..) => false,
            Held::Loose(entries) => {
                entries[at] = entry;
                true
            }
        }
    }

    /// All of them as a page has them.
    pub(crate) fn to_vec(&self) -> Vec<LeafEntry> {
        match &self.0 {
            Held::Near(first, node, entries) => entries.iter().map(|e| e.entry(*first, *node)).collect(),
            Held::Loose(entries) => entries.clone(),
        }
    }
}
