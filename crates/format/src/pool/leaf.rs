//! Leaves of the map: they say where blocks of volumes lie.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PoolError;
use super::error::impossible;
use super::page::{BODY, PageKind, fill, parse};
use super::place::Address;

/// Entries of a leaf.
pub const LEAF_ENTRIES: usize = 169;
/// Entries of a dense leaf.
pub const DENSE_ENTRIES: usize = 337;
/// Blocks that a dense leaf may span.
pub const DENSE_SPAN: u64 = 1 << 16;
/// The most entries of any leaf.
pub(super) const MOST_ENTRIES: usize = DENSE_ENTRIES;
const LEAF_TAIL: usize = BODY - LEAF_ENTRIES * 24;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// The block is stored as it is.
    Plain,
    /// The block is lost: no member has it any more.
    Lost,
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// The block of the volume, in blocks.
    pub block: u64,
    /// The node under which it was written.
    pub node: u32,
    /// Its state.
    pub kind: LeafKind,
    /// The address of the block.
    pub address: Address,
    /// Its checksum.
    pub checksum: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeafEntry {
    block: [u8; 6],
    kind: u8,
    reserved: u8,
    node: U32,
    address: U64,
    checksum: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeaf {
    entries: [RawLeafEntry; LEAF_ENTRIES],
    tail: [u8; LEAF_TAIL],
}

/// An entry of a dense leaf.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDenseEntry {
    block: U16,
    address: [u8; 6],
    checksum: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDense {
    first: U64,
    node: U32,
    reserved: U64,
    entries: [RawDenseEntry; DENSE_ENTRIES],
}

const _: () = assert!(size_of::<RawDense>() == BODY);

impl LeafEntry {
    /// The entry of a dense leaf that begins with block `first`.
    fn dense(&self, first: u64) -> RawDenseEntry {
        let [a, b, c, d, e, f, ..] = self.address.0.to_le_bytes();
        RawDenseEntry {
            block: (self.block.wrapping_sub(first) as u16).into(),
            address: [a, b, c, d, e, f],
            checksum: self.checksum.into(),
        }
    }

    fn of_dense(raw: &RawDenseEntry, first: u64, node: u32) -> Self {
        let [a, b, c, d, e, f] = raw.address;
        let address = Address(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        let kind = if address == Address::NONE { LeafKind::Lost } else { LeafKind::Plain };
        let block = first.saturating_add(raw.block.get().into());
        Self { block, node, kind, address, checksum: raw.checksum.get() }
    }

    fn raw(&self) -> RawLeafEntry {
        let [a, b, c, d, e, f, ..] = self.block.to_le_bytes();
        RawLeafEntry {
            block: [a, b, c, d, e, f],
            kind: match self.kind {
                LeafKind::Plain => 0,
                LeafKind::Lost => 1,
            },
            reserved: 0,
            node: self.node.into(),
            address: self.address.0.into(),
            checksum: self.checksum.into(),
        }
    }

    fn of(raw: &RawLeafEntry) -> Result<Self, PoolError> {
        let [a, b, c, d, e, f] = raw.block;
        let kind = match raw.kind {
            0 => LeafKind::Plain,
            1 => LeafKind::Lost,
            // 2 is kept for packed blocks, 3 for encrypted ones.
            other => return Err(impossible("leaf", "kind", other)),
        };
        let address = Address(raw.address.get());
        if address.0 > Address::NONE.0 || (kind == LeafKind::Lost) != (address == Address::NONE) {
            return Err(impossible("leaf", "address", address.0));
        }
        Ok(Self {
            block: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            node: raw.node.get(),
            kind,
            address,
            checksum: raw.checksum.get(),
        })
    }
}

/// A leaf: entries of one volume, in the order of block and node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf(pub Vec<LeafEntry>);

/// How many of the first of some entries one page takes: dense ones are of one node, and span few blocks.
pub fn leaf_takes(entries: &[LeafEntry], dense: bool) -> usize {
    let loose = entries.len().min(LEAF_ENTRIES);
    let Some(first) = entries.first().filter(|_| dense) else { return loose };
    loose.max(entries.iter().take(DENSE_ENTRIES).take_while(|entry| is_near(first, entry)).count())
}

fn is_near(first: &LeafEntry, entry: &LeafEntry) -> bool {
    entry.node == first.node && entry.block.saturating_sub(first.block) < DENSE_SPAN
}

/// One dense leaf takes these, which are in the order of their blocks: there are some, of one node, within few blocks.
pub fn is_dense(entries: &[LeafEntry]) -> bool {
    let all_near = |first: &LeafEntry| entries.iter().all(|entry| is_near(first, entry));
    entries.len() <= DENSE_ENTRIES && entries.first().is_some_and(all_near)
}

impl Leaf {
    /// The page's bytes: dense if it may be, and can.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, volume: u32, dense: bool) -> Result<Vec<u8>, PoolError> {
        if dense && is_dense(&self.0) {
            return self.encode_dense(volume);
        }
        let mut raw = RawLeaf::new_zeroed();
        for (place, entry) in raw.entries.iter_mut().zip(&self.0) {
            *place = entry.raw();
        }
        fill(PageKind::Leaf, volume.into(), self.0.len(), LEAF_ENTRIES, raw.as_bytes())
    }

    fn encode_dense(&self, volume: u32) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawDense::new_zeroed();
        let first = self.0.first().map_or(0, |entry| entry.block);
        raw.first = first.into();
        raw.node = self.0.first().map_or(0, |entry| entry.node).into();
        for (place, entry) in raw.entries.iter_mut().zip(&self.0) {
            *place = entry.dense(first);
        }
        fill(PageKind::DenseLeaf, volume.into(), self.0.len(), DENSE_ENTRIES, raw.as_bytes())
    }

    fn parse_dense(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::DenseLeaf, volume.into(), DENSE_ENTRIES)?;
        let raw = RawDense::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let (first, node) = (raw.first.get(), raw.node.get());
        if first >= (1 << 48) - DENSE_SPAN {
            return Err(impossible("leaf", "first", first));
        }
        let of = |raw| LeafEntry::of_dense(raw, first, node);
        Ok(Self(raw.entries.iter().take(count).map(of).collect()))
    }

    /// Reads a page, dense or not.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not of that volume, or holds what can't be.
    pub fn parse(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let leaf = if PageKind::DenseLeaf.is_of(bytes) {
            Self::parse_dense(bytes, volume)?
        } else {
            Self::parse_loose(bytes, volume)?
        };
        let key = |entry: &LeafEntry| (entry.block, entry.node);
        if let Some(pair) = leaf.0.windows(2).find(|pair| pair.iter().map(key).is_sorted_by(|a, b| a >= b)) {
            return Err(impossible("leaf", "block", pair.last().map_or(0, |entry| entry.block)));
        }
        Ok(leaf)
    }

    fn parse_loose(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Leaf, volume.into(), LEAF_ENTRIES)?;
        let raw = RawLeaf::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        raw.entries.iter().take(count).map(LeafEntry::of).collect::<Result<_, _>>().map(Self)
    }
}
