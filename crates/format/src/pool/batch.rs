//! Batches: what is written at a time, and the summary in the first data block that says what that is.

use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::impossible;
use super::place::Address;
use super::{BLOCK, PoolError, check_number, own_checksum};

/// Entries of a summary.
pub const ENTRIES: usize = 168;
const MAGIC: [u8; 8] = *b"BRNDBTCH";
const CHECKSUM_AT: usize = 8;

/// The meaning of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A block of a volume, in the next data block of the batch.
    Data,
    /// A page, in the next data block of the batch.
    Page,
    /// Blocks that read as zeroes from now on.
    Zeroes,
    /// A lost block: no member has it any more.
    Lost,
    /// The volume is gone, with all its blocks.
    Destroyed,
}

impl EntryKind {
    /// The entry has a data block in the batch.
    pub const fn has_block(self) -> bool {
        matches!(self, Self::Data | Self::Page)
    }
}

/// An entry of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's meaning.
    pub kind: EntryKind,
    /// The volume.
    pub volume: u32,
    /// The node under which it was written.
    pub node: u32,
    /// The first block.
    pub block: u64,
    /// Blocks: 1, but of zeroes.
    pub count: u32,
    /// The block's checksum; 0 where there is no block.
    pub checksum: u32,
}

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The pool.
    pub pool: Uuid,
    /// The opening that wrote it.
    pub opening: u64,
    /// Grows with each batch, of all streams.
    pub sequence: u64,
    /// All batches up to this one are on stable storage.
    pub durable: u64,
    /// Where the summary stands.
    pub address: Address,
    /// Stripes of the batch.
    pub stripes: u16,
    /// The batch's entries.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBatchEntry {
    volume: U32,
    node: U32,
    block: [u8; 6],
    kind: u8,
    reserved: u8,
    count: U32,
    checksum: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBatch {
    magic: [u8; 8],
    checksum: U32,
    stripes: U16,
    count: U16,
    pool: [u8; 16],
    opening: U64,
    sequence: U64,
    durable: U64,
    address: U64,
    entries: [RawBatchEntry; ENTRIES],
}

const _: () = assert!(size_of::<RawBatch>() == BLOCK);

impl Entry {
    fn raw(&self) -> RawBatchEntry {
        let [a, b, c, d, e, f, ..] = self.block.to_le_bytes();
        RawBatchEntry {
            volume: self.volume.into(),
            node: self.node.into(),
            block: [a, b, c, d, e, f],
            kind: match self.kind {
                EntryKind::Data => 0,
                EntryKind::Page => 1,
                EntryKind::Zeroes => 4,
                EntryKind::Lost => 5,
                EntryKind::Destroyed => 6,
            },
            reserved: 0,
            count: self.count.into(),
            checksum: self.checksum.into(),
        }
    }

    fn of(raw: &RawBatchEntry) -> Result<Self, PoolError> {
        let [a, b, c, d, e, f] = raw.block;
        let kind = match raw.kind {
            0 => EntryKind::Data,
            1 => EntryKind::Page,
            4 => EntryKind::Zeroes,
            5 => EntryKind::Lost,
            6 => EntryKind::Destroyed,
            // 2 is kept for packed blocks, 3 for encrypted ones.
            other => return Err(impossible("batch", "kind", other)),
        };
        let count = raw.count.get();
        if count == 0 || kind != EntryKind::Zeroes && count != 1 {
            return Err(impossible("batch", "count", count));
        }
        Ok(Self {
            kind,
            volume: raw.volume.get(),
            node: raw.node.get(),
            block: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            count,
            checksum: raw.checksum.get(),
        })
    }
}

impl Batch {
    /// Data blocks of the batch, its summary among them.
    pub fn blocks(&self) -> u32 {
        let blocks = self.entries.iter().filter(|entry| entry.kind.has_block()).count();
        (blocks as u32).saturating_add(1)
    }

    /// The summary's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, PoolError> {
        let mut block = vec![0; BLOCK];
        self.encode_into(&mut block)?;
        Ok(block)
    }

    /// Puts the summary's bytes into a block.
    ///
    /// # Errors
    /// [`PoolError::TooMany`], or [`PoolError::Short`] if it is less than a block.
    pub fn encode_into(&self, block: &mut [u8]) -> Result<(), PoolError> {
        if self.entries.len() > ENTRIES {
            let (count, most) = (self.entries.len() as u64, ENTRIES as u64);
            return Err(PoolError::TooMany { what: "entries of a batch", count, most });
        }
        let short = PoolError::Short { what: "batch", have: block.len(), need: BLOCK };
        let (raw, _) = RawBatch::mut_from_prefix(block).map_err(|_| short)?;
        raw.as_mut_bytes().fill(0);
        raw.magic = MAGIC;
        raw.stripes = self.stripes.into();
        raw.count = (self.entries.len() as u16).into();
        raw.pool = *self.pool.as_bytes();
        raw.opening = self.opening.into();
        raw.sequence = self.sequence.into();
        raw.durable = self.durable.into();
        raw.address = self.address.0.into();
        for (place, entry) in raw.entries.iter_mut().zip(&self.entries) {
            *place = entry.raw();
        }
        raw.checksum = own_checksum(raw.as_bytes(), CHECKSUM_AT).into();
        Ok(())
    }

    /// Reads a summary of that pool that stands there.
    ///
    /// # Errors
    /// [`PoolError`] if there is none, it is of another pool or place, torn, or holds what can't be.
    pub fn parse(bytes: &[u8], pool: Uuid, address: Address) -> Result<Self, PoolError> {
        let what = "batch";
        let short = PoolError::Short { what, have: bytes.len(), need: BLOCK };
        let (raw, _) = RawBatch::ref_from_prefix(bytes).map_err(|_| short)?;
        if raw.magic != MAGIC {
            return Err(PoolError::Magic { what });
        }
        let (found, expected) = (raw.checksum.get(), own_checksum(raw.as_bytes(), CHECKSUM_AT));
        if found != expected {
            return Err(PoolError::Checksum { what, found, expected });
        }
        if raw.pool != *pool.as_bytes() || raw.address.get() != address.0 {
            return Err(PoolError::Foreign { what });
        }
        // Readers count up to these.
        check_number(what, "sequence", raw.sequence.get())?;
        check_number(what, "durable", raw.durable.get())?;
        let count = raw.count.get();
        let entries = raw.entries.get(..usize::from(count)).ok_or(impossible(what, "count", count))?;
        if raw.stripes.get() == 0 {
            return Err(impossible(what, "stripes", 0u8));
        }
        Ok(Self {
            pool,
            opening: raw.opening.get(),
            sequence: raw.sequence.get(),
            durable: raw.durable.get(),
            address,
            stripes: raw.stripes.get(),
            entries: entries.iter().map(Entry::of).collect::<Result<_, _>>()?,
        })
    }
}
