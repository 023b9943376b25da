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
/// Entries of a leaf of runs, if all of them are one run.
pub const RUN_ENTRIES: usize = (BODY - RUNS_HEAD - RUN_BYTES) / SUM_BYTES;
/// Blocks that a dense leaf may span, or a leaf of runs.
pub const DENSE_SPAN: u64 = 1 << 16;
/// The most entries of any leaf.
pub(super) const MOST_ENTRIES: usize = RUN_ENTRIES;
const LEAF_TAIL: usize = BODY - LEAF_ENTRIES * 24;
/// Bytes of a leaf of runs before the first one, of a run, and of a checksum.
const RUNS_HEAD: usize = 16;
const RUN_BYTES: usize = 10;
const SUM_BYTES: usize = 4;
/// Bytes of an entry of a dense leaf, and what stands before the first one.
const DENSE_BYTES: usize = 12;
const DENSE_HEAD: usize = 20;
const LOOSE_BYTES: usize = 24;

/// The kinds of leaves that a pool may have beside plain ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafForms {
    /// Dense ones.
    pub dense: bool,
    /// Leaves of runs.
    pub runs: bool,
}

/// The kind of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeafForm {
    Plain,
    Dense,
    Runs,
}

/// Bytes of records behind some others.
fn bytes_of(head: usize, records: [(usize, usize); 2]) -> usize {
    records.into_iter().fold(head, |all, (count, bytes)| all.saturating_add(count.saturating_mul(bytes)))
}

impl LeafForms {
    /// All kinds that there are.
    pub const ALL: Self = Self { dense: true, runs: true };

    /// So many entries are in one leaf, however they lie, if one leaf had them before.
    pub const fn entries(self) -> usize {
        if self.dense { DENSE_ENTRIES } else { LEAF_ENTRIES }
    }

    /// The kind that takes the fewest bytes, and how many; `near` has how many runs the entries are of, if these are of one node and within
    /// few blocks.
    fn least(self, entries: usize, near: Option<usize>) -> (usize, LeafForm) {
        let mut least = (entries.saturating_mul(LOOSE_BYTES), LeafForm::Plain);
        let Some(runs) = near else { return least };
        let tried = [
            (self.dense, bytes_of(DENSE_HEAD, [(entries, DENSE_BYTES), (0, 0)]), LeafForm::Dense),
            (self.runs, bytes_of(RUNS_HEAD, [(runs, RUN_BYTES), (entries, SUM_BYTES)]), LeafForm::Runs),
        ];
        for (_, bytes, form) in tried.into_iter().filter(|(may, ..)| *may) {
            // Of two that take as many the plainer one.
            if bytes < least.0 {
                least = (bytes, form);
            }
        }
        least
    }

    /// Bytes that entries take of a leaf: see [`runs_of`].
    pub fn bytes(self, entries: usize, near: Option<usize>) -> usize {
        self.least(entries, near).0
    }

    /// One leaf takes so many entries: see [`runs_of`].
    pub fn fit(self, entries: usize, near: Option<usize>) -> bool {
        self.bytes(entries, near) <= BODY
    }
}

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

/// A run of a leaf: blocks one behind the other, at places one behind the other.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeafRun {
    block: U16,
    blocks: U16,
    address: [u8; 6],
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRunLeaf {
    first: U64,
    node: U32,
    runs: U16,
    reserved: U16,
    body: [u8; BODY - RUNS_HEAD],
}

const _: () = assert!(size_of::<RawRunLeaf>() == BODY && size_of::<RawLeafRun>() == RUN_BYTES);

impl LeafEntry {
    /// It is of the same run as the one before it: the next block, at the next place of the segment, or lost as well.
    fn follows(&self, before: &Self) -> bool {
        let places = match (before.kind, self.kind) {
            (LeafKind::Plain, LeafKind::Plain) => before.address.behind(1) == Some(self.address),
            (LeafKind::Lost, LeafKind::Lost) => true,
            (LeafKind::Plain, LeafKind::Lost) | (LeafKind::Lost, LeafKind::Plain) => false,
        };
        places && before.block.checked_add(1) == Some(self.block)
    }

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

/// How many of the first of some entries one page takes.
pub fn leaf_takes(entries: &[LeafEntry], forms: LeafForms) -> usize {
    let (mut most, mut runs) = (entries.len().min(LEAF_ENTRIES), 0usize);
    let before = core::iter::once(None).chain(entries.iter().map(Some));
    for ((n, entry), before) in (1..).zip(entries.iter().take(near(entries))).zip(before) {
        runs = runs.saturating_add(before.is_none_or(|before| !entry.follows(before)).into());
        if !forms.fit(n, Some(runs)) {
            break;
        }
        most = most.max(n);
    }
    most
}

/// How many of the first of some entries are of one node, and within few blocks: so they have to be in a leaf that is not plain.
pub fn near(entries: &[LeafEntry]) -> usize {
    entries.first().map_or(0, |first| entries.iter().take_while(|entry| is_near(first, entry)).count())
}

fn is_near(first: &LeafEntry, entry: &LeafEntry) -> bool {
    entry.node == first.node && entry.block.saturating_sub(first.block) < DENSE_SPAN
}

/// Runs that entries in the order of their blocks are of: the first of each, and how many it has.
pub fn runs(entries: &[LeafEntry]) -> impl Iterator<Item = &[LeafEntry]> {
    entries.chunk_by(|before, entry| entry.follows(before))
}

/// How many runs entries are of, if there are some, of one node and within few blocks: others are in plain leaves alone.
pub fn runs_of(entries: &[LeafEntry]) -> Option<usize> {
    (!entries.is_empty() && near(entries) == entries.len()).then(|| runs(entries).count())
}

impl Leaf {
    /// The page's bytes, of the kind that takes the fewest of them among those that may be.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, volume: u32, forms: LeafForms) -> Result<Vec<u8>, PoolError> {
        match forms.least(self.0.len(), runs_of(&self.0)).1 {
            LeafForm::Plain => self.encode_loose(volume),
            LeafForm::Dense => self.encode_dense(volume),
            LeafForm::Runs => self.encode_runs(volume),
        }
    }

    fn encode_loose(&self, volume: u32) -> Result<Vec<u8>, PoolError> {
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

    fn encode_runs(&self, volume: u32) -> Result<Vec<u8>, PoolError> {
        let Some(first) = self.0.first() else { return self.encode_loose(volume) };
        let mut raw = RawRunLeaf::new_zeroed();
        (raw.first, raw.node) = (first.block.into(), first.node.into());
        let (mut count, mut bytes) = (0u16, Vec::with_capacity(BODY));
        for run in runs(&self.0) {
            let Some(RawDenseEntry { block, address, .. }) = run.first().map(|own| own.dense(first.block))
            else {
                continue;
            };
            let run = RawLeafRun { block, blocks: (run.len() as u16).into(), address };
            bytes.extend_from_slice(run.as_bytes());
            count = count.saturating_add(1);
        }
        raw.runs = count.into();
        for entry in &self.0 {
            bytes.extend_from_slice(&entry.checksum.to_le_bytes());
        }
        let (have, most) = (bytes.len() as u64, raw.body.len() as u64);
        let too_many = PoolError::TooMany { what: "bytes of a leaf of runs", count: have, most };
        raw.body.get_mut(..bytes.len()).ok_or(too_many)?.copy_from_slice(&bytes);
        fill(PageKind::RunLeaf, volume.into(), self.0.len(), RUN_ENTRIES, raw.as_bytes())
    }

    fn parse_runs(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::RunLeaf, volume.into(), RUN_ENTRIES)?;
        let raw = RawRunLeaf::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        let (first, node) = (raw.first.get(), raw.node.get());
        if first >= (1 << 48) - DENSE_SPAN {
            return Err(impossible("leaf", "first", first));
        }
        let beyond = || impossible("leaf", "runs", raw.runs.get());
        let all = usize::from(raw.runs.get()).saturating_mul(RUN_BYTES);
        let (heads, sums) = raw.body.split_at_checked(all).ok_or_else(beyond)?;
        let heads = <[RawLeafRun]>::ref_from_bytes(heads).map_err(|_| beyond())?;
        let (sums, _) = <[U32]>::ref_from_prefix_with_elems(sums, count).map_err(|_| beyond())?;
        let (mut entries, mut sums, mut end) = (Vec::with_capacity(count), sums.iter(), 0);
        for run in heads {
            let (block, blocks) = (u64::from(run.block.get()), u64::from(run.blocks.get()));
            if block < end || block.saturating_add(blocks) > DENSE_SPAN {
                return Err(impossible("leaf", "block", run.block.get()));
            }
            end = block.saturating_add(blocks);
            let [a, b, c, d, e, f] = run.address;
            let begin = Address(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
            let is_lost = begin == Address::NONE;
            // A run stays within its segment.
            if blocks == 0 || !is_lost && begin.behind(run.blocks.get().saturating_sub(1).into()).is_none() {
                return Err(impossible("leaf", "blocks", run.blocks.get()));
            }
            for n in 0..run.blocks.get().into() {
                let address = if is_lost { begin } else { begin.behind(n).unwrap_or(begin) };
                let kind = if is_lost { LeafKind::Lost } else { LeafKind::Plain };
                let more = impossible("leaf", "count", count as u64);
                let checksum = sums.next().ok_or(more)?.get();
                let block = first.saturating_add(block).saturating_add(n.into());
                entries.push(LeafEntry { block, node, kind, address, checksum });
            }
        }
        if entries.len() == count {
            Ok(Self(entries))
        } else {
            Err(impossible("leaf", "count", count as u64))
        }
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

    /// Reads a page of any kind of leaf.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not of that volume, or holds what can't be.
    pub fn parse(bytes: &[u8], volume: u32) -> Result<Self, PoolError> {
        let leaf = if PageKind::RunLeaf.is_of(bytes) {
            Self::parse_runs(bytes, volume)?
        } else if PageKind::DenseLeaf.is_of(bytes) {
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
