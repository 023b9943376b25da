//! The map: leaves that say where blocks of volumes lie, and the list of leaves.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PoolError;
use super::error::impossible;
use super::page::{BODY, PageKind, Pointer, fill, parse};
use super::place::Address;

/// Entries of a leaf.
pub const LEAF_ENTRIES: usize = 169;
/// Leaves that a page names.
pub const LEAF_REFS: usize = 127;
const LEAF_TAIL: usize = BODY - LEAF_ENTRIES * 24;
const REFS_TAIL: usize = BODY - LEAF_REFS * 32;

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

impl LeafEntry {
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

impl Leaf {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, volume: u32) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawLeaf::new_zeroed();
        for (place, entry) in raw.entries.iter_mut().zip(&self.0) {
            *place = entry.raw();
        }
        fill(PageKind::Leaf, volume.into(), self.0.len(), LEAF_ENTRIES, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not of that volume, or holds what can't be.
    pub fn parse(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Leaf, volume.into(), LEAF_ENTRIES)?;
        let raw = RawLeaf::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let leaf: Vec<_> = raw.entries.iter().take(count).map(LeafEntry::of).collect::<Result<_, _>>()?;
        let key = |entry: &LeafEntry| (entry.block, entry.node);
        if let Some(pair) = leaf.windows(2).find(|pair| pair.iter().map(key).is_sorted_by(|a, b| a >= b)) {
            return Err(impossible("leaf", "block", pair.last().map_or(0, |entry| entry.block)));
        }
        Ok(Self(leaf))
    }
}

/// A leaf as the list of leaves has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRef {
    /// The volume.
    pub volume: u32,
    /// The first block that it may hold: it holds those up to the next leaf's first.
    pub first: u64,
    /// Its entries.
    pub count: u16,
    /// Its entries are zeroes by now, and still count in their segments.
    pub dead: bool,
    /// The place of the leaf.
    pub pointer: Pointer,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeafRef {
    volume: U32,
    count: U16,
    dead: U16,
    first: U64,
    address: U64,
    checksum: U32,
    reserved2: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeaves {
    leaves: [RawLeafRef; LEAF_REFS],
    tail: [u8; REFS_TAIL],
}

/// A page of the list of leaves, in the order of volume and first block; those that are dead stand behind all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaves(pub Vec<LeafRef>);

impl Leaves {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawLeaves::new_zeroed();
        for (place, leaf) in raw.leaves.iter_mut().zip(&self.0) {
            *place = RawLeafRef {
                volume: leaf.volume.into(),
                count: leaf.count.into(),
                dead: u16::from(leaf.dead).into(),
                first: leaf.first.into(),
                address: leaf.pointer.address.0.into(),
                checksum: leaf.pointer.checksum.into(),
                reserved2: 0.into(),
            };
        }
        fill(PageKind::Leaves, number, self.0.len(), LEAF_REFS, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Leaves, number, LEAF_REFS)?;
        let raw = RawLeaves::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let of = |raw: &RawLeafRef| {
            let address = Address(raw.address.get());
            if address.0 >= Address::NONE.0 {
                return Err(impossible("list of leaves", "address", address.0));
            }
            let pointer = Pointer { address, checksum: raw.checksum.get() };
            let dead = match raw.dead.get() {
                0 => false,
                1 => true,
                other => return Err(impossible("list of leaves", "dead", other)),
            };
            let (volume, first, count) = (raw.volume.get(), raw.first.get(), raw.count.get());
            Ok(LeafRef { volume, first, count, dead, pointer })
        };
        raw.leaves.iter().take(count).map(of).collect::<Result<_, _>>().map(Self)
    }
}
