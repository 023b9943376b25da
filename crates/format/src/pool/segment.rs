//! Records of segments: which members each lies on, how, and how much of it is in use.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PoolError;
use super::error::impossible;
use super::page::{BODY, PageKind, fill, parse};
use super::place::Shape;

/// Records of a page.
pub const SEGMENTS: usize = 84;
const RECORD: usize = 48;
const TAIL: usize = BODY - SEGMENTS * RECORD;

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// The segment holds nothing.
    Free,
    /// Batches may be written to it after this checkpoint: recovery looks here.
    Log,
    /// The segment holds blocks from before this checkpoint.
    Closed,
}

/// The kind of blocks that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentClass {
    /// No table yet.
    None,
    /// Written by users, in whole rows.
    Rows,
    /// Written by users, in stripes for few blocks.
    Short,
    /// Moved by cleaning.
    Cold,
    /// Pages.
    Pages,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSegment {
    state: u8,
    class: u8,
    stripe: u8,
    parity: u8,
    unit: u8,
    reused: u8,
    chunk: u8,
    turn: u8,
    members: U64,
    missing: U64,
    live: U32,
    stripes: U32,
    sequence: U64,
    copied: U64,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSegments {
    records: [RawSegment; SEGMENTS],
    tail: [u8; TAIL],
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// The segment's use.
    pub state: SegmentState,
    /// The segment's blocks.
    pub class: SegmentClass,
    /// Places of a stripe.
    pub stripe: u8,
    /// Parity blocks of a stripe.
    pub parity: u8,
    /// Bytes of a unit, as a power of two.
    pub unit: u8,
    /// Rows that go down one member before the next has its turn, a power of two; 0 of one row.
    pub chunk: u8,
    /// Slots by which its first stripe is shifted: see [`Shape::turn`].
    pub turn: u8,
    /// Members of its vdev that it lies on, a bit each.
    pub members: u64,
    /// Of these, the ones that lack what was written to it, or have something older: they are not read.
    pub missing: u64,
    /// Roles of these whose successors have a copy of what was written to it.
    pub copied: u64,
    /// Blocks in it that the map or a root names.
    pub live: u32,
    /// Stripes that have been written.
    pub stripes: u32,
    /// Sequence number of the last batch in the segment.
    pub sequence: u64,
    /// It was used again since the checkpoint: leaves of that one still name what it held before, and younger batches all of these
    /// blocks. As long as there are leaves that were outlived, it stays set.
    pub reused: bool,
}

impl SegmentRecord {
    /// Where its blocks lie.
    pub fn shape(&self) -> Shape {
        self.into()
    }

    fn raw(&self) -> RawSegment {
        RawSegment {
            state: match self.state {
                SegmentState::Free => 0,
                SegmentState::Log => 1,
                SegmentState::Closed => 2,
            },
            class: match self.class {
                SegmentClass::None => 0,
                SegmentClass::Rows => 1,
                SegmentClass::Short => 2,
                SegmentClass::Cold => 3,
                SegmentClass::Pages => 4,
            },
            stripe: self.stripe,
            parity: self.parity,
            unit: self.unit,
            reused: self.reused.into(),
            chunk: self.chunk,
            turn: self.turn,
            members: self.members.into(),
            missing: self.missing.into(),
            live: self.live.into(),
            stripes: self.stripes.into(),
            sequence: self.sequence.into(),
            copied: self.copied.into(),
        }
    }

    fn of(raw: &RawSegment) -> Result<Self, PoolError> {
        let record = Self {
            state: match raw.state {
                0 => SegmentState::Free,
                1 => SegmentState::Log,
                2 => SegmentState::Closed,
                other => return Err(impossible("segment", "state", other)),
            },
            class: match raw.class {
                0 => SegmentClass::None,
                1 => SegmentClass::Rows,
                2 => SegmentClass::Short,
                3 => SegmentClass::Cold,
                4 => SegmentClass::Pages,
                other => return Err(impossible("segment", "class", other)),
            },
            stripe: raw.stripe,
            parity: raw.parity,
            unit: raw.unit,
            chunk: raw.chunk,
            turn: raw.turn,
            members: raw.members.get(),
            missing: raw.missing.get(),
            copied: raw.copied.get(),
            live: raw.live.get(),
            stripes: raw.stripes.get(),
            sequence: raw.sequence.get(),
            reused: match raw.reused {
                0 => false,
                1 => true,
                other => return Err(impossible("segment", "reused", other)),
            },
        };
        let shape = record.shape().check()?;
        if record.missing & !record.members != 0 {
            return Err(impossible("segment", "missing", record.missing));
        }
        if record.copied & !record.members != 0 {
            return Err(impossible("segment", "copied", record.copied));
        }
        if record.stripes > shape.stripes() {
            return Err(impossible("segment", "stripes", record.stripes));
        }
        Ok(record)
    }
}

/// A page of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments(pub Vec<SegmentRecord>);

impl Segments {
    /// The page's bytes.
    ///
    /// # Errors
    /// [`PoolError::TooMany`].
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, PoolError> {
        let mut raw = RawSegments::new_zeroed();
        for (place, record) in raw.records.iter_mut().zip(&self.0) {
            *place = record.raw();
        }
        fill(PageKind::Segments, number, self.0.len(), SEGMENTS, raw.as_bytes())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// [`PoolError`] if it is none, not that one, or holds what can't be.
    pub fn parse(bytes: &[u8], number: u64) -> Result<Self, PoolError> {
        let (count, body) = parse(bytes, PageKind::Segments, number, SEGMENTS)?;
        let raw = RawSegments::ref_from_bytes(body).map_err(|_| PoolError::Magic { what: "page" })?;
        raw.records.iter().take(count).map(SegmentRecord::of).collect::<Result<_, _>>().map(Self)
    }
}

impl From<&SegmentRecord> for Shape {
    fn from(record: &SegmentRecord) -> Self {
        let rows = 1u32.checked_shl(u32::from(record.unit)).unwrap_or(0) >> 12;
        let SegmentRecord { members, stripe, parity, chunk, turn, .. } = *record;
        Self { members, rows, stripe, parity, chunk, turn }
    }
}
