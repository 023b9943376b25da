//! Counts over all segments: how much is free, live, worth to be cleaned, and can be lost.

use std::collections::BTreeSet;

use brindle_format::pool::SegmentClass;

use super::grant::full_stripes;
use super::{BATCH_BLOCKS, FOR_CLEANING, Segment, Space, Stream, Unit, Use};
use crate::role::mask_of;

/// Segments beyond those of pages below which a vdev is cleaned.
const LEAST_LEFT: u64 = 8;
/// The same of a vdev of many units whose segments are used again between checkpoints.
const ROUNDS_LEFT: u64 = 32;

/// Blocks of a batch of pages, as large as one can be, where so many of a stripe carry data.
pub(super) fn batch_blocks(data: u64) -> u64 {
    (u64::from(BATCH_BLOCKS) / data.max(1)).max(1) * data.max(1)
}

impl Segment {
    /// Blocks that are live as far as is known.
    pub(crate) fn lives(&self) -> u32 {
        self.record.live.saturating_sub(self.dying)
    }
}

impl Unit {
    /// Members that a segment may still lose.
    pub(super) fn parity_of(&self, segment: &Segment) -> u8 {
        let gone = (segment.record.members & (!self.present | segment.record.missing)).count_ones() as u8;
        segment.record.parity.saturating_sub(gone)
    }

    /// A segment has less parity than that, and nothing but a move gives it more: what a member lacks that is there is resilvered, and
    /// what lies on one that is out stays unless it is raised.
    pub(super) fn is_weak(&self, segment: &Segment, parity: u8) -> bool {
        let Segment { record, gave_up, .. } = segment;
        let lacks = record.members & (!self.present | record.missing);
        let resilvered = if *gave_up { 0 } else { self.present & record.missing };
        let waits = resilvered | !self.present & !self.raised;
        record.parity.saturating_sub((lacks & !waits).count_ones() as u8) < parity
    }
}

impl Space {
    pub(super) fn is_movable(&self, segment: &Segment, sequence: u64) -> bool {
        let record = &segment.record;
        let is_data = !matches!(record.class, SegmentClass::Pages | SegmentClass::None);
        segment.usage == Use::Closed && is_data && segment.lives() > 0 && record.sequence <= sequence
    }

    /// Data blocks of whole rows of a segment that is written now.
    pub(super) fn blocks_now(&self, at: usize) -> u32 {
        let shape = self.units[at].shape(false, self.parity_now(at));
        u32::from(shape.data()) * shape.stripes()
    }

    /// Blocks that a victim has in all.
    pub(crate) fn blocks_of(&self, segment: u32) -> u32 {
        self.get(segment).map_or(0, |segment| {
            let shape = segment.record.shape();
            u32::from(shape.data()) * shape.stripes()
        })
    }

    /// Data blocks of the largest batch of whole rows that the vdev takes which is next.
    pub(crate) fn full_batch(&self) -> usize {
        let shape = self.units[self.turn].shape(false, self.parity_now(self.turn));
        ((full_stripes(shape) * u32::from(shape.data())) as usize).max(2)
    }

    /// Blocks that go into open segments of a stream before full batches do.
    pub(crate) fn open_rest(&self, stream: Stream) -> usize {
        let rest = |unit: &Unit| {
            let open = unit.open[stream as usize]?;
            let shape = self.segments[open.segment as usize].record.shape();
            let left = (shape.stripes() - open.next) % full_stripes(shape) * u32::from(shape.data());
            left.checked_sub(1)
        };
        self.units.iter().filter_map(rest).map(|blocks| blocks as usize).sum()
    }

    /// Segments that the next checkpoint gives back, as far as that is known, and those that are not full, but for those of pages.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let waiting: usize = self.units.iter().map(|unit| unit.waiting.len()).sum();
        let of = |at: usize| {
            let unit = &self.units[at];
            let all = unit.free.len() + unit.log() + unit.freeing.len() + unit.adding.len();
            all.saturating_sub(unit.for_pages(self.pages_of(at)))
        };
        (waiting, waiting + (0..self.units.len()).map(of).sum::<usize>())
    }

    /// Data blocks of the unused segments of the log.
    pub(crate) fn room_of_log(&self) -> u64 {
        let all = self.units.iter().flat_map(|unit| unit.rows.iter().chain(&unit.short));
        let blocks = |&n: &u32| {
            let shape = self.segments[n as usize].record.shape();
            u64::from(shape.data()) * u64::from(shape.stripes())
        };
        all.map(blocks).sum()
    }

    /// The log is about to end: a checkpoint is due.
    pub(crate) fn is_scarce(&self) -> bool {
        self.units.iter().all(|unit| unit.log() <= FOR_CLEANING + 2)
    }

    /// Data blocks of a segment that is written now, of the vdev that has fewest.
    pub(crate) fn least_blocks(&self) -> u64 {
        (0..self.units.len()).map(|at| u64::from(self.blocks_now(at))).min().unwrap_or(0)
    }

    /// Segments of a vdev that could be written once a checkpoint has passed; segments that were `tried` are empty.
    fn left(&self, at: usize, tried: &BTreeSet<u32>) -> usize {
        let unit = &self.units[at];
        let is_own = |n: &&u32| {
            let segment = &self.segments[**n as usize];
            segment.usage == Use::Closed && segment.lives() > 0 && self.vdev_of(**n) == Some(at)
        };
        let waiting = unit.waiting.len() + tried.iter().filter(is_own).count();
        unit.free.len() + unit.log() + unit.freeing.len() + unit.adding.len() + waiting
    }

    /// How many segments there are beyond those that are kept for pages, in parts of 1024 of what there should be at least: of all vdevs,
    /// since each takes what others have no room for.
    pub(crate) fn reserve(&self, tried: &BTreeSet<u32>) -> u64 {
        let of = |at: usize| {
            let unit = &self.units[at];
            let have = self.left(at, tried).saturating_sub(unit.for_pages(self.pages_of(at)));
            [have as u64, self.wanted(at)]
        };
        let [have, wanted] = (0..self.units.len()).map(of).fold([0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
        have * 1024 / wanted.max(1)
    }

    /// The log of a vdev is about to end: others go first.
    pub(super) fn is_low(&self, at: usize) -> bool {
        self.units[at].log() as u64 <= self.wanted(at) / 2
    }

    /// Segments beyond those of pages that a vdev should have. Users and cleaning go at one pace at half of that, which is to last from
    /// one checkpoint to the next: each writes most of the map where changes are at random. More of them would cost more moves than
    /// that spares pages. Where segments are used again between checkpoints, it has to last for some rounds of cleaning.
    fn wanted(&self, at: usize) -> u64 {
        let units = u64::from(self.units[at].vdev.units);
        let blocks = u64::from(self.blocks_now(at)).max(1);
        let lasts = |changes: u64| 2 * (changes.div_ceil(blocks) / self.units.len() as u64) + LEAST_LEFT;
        self.changes.map_or(ROUNDS_LEFT, lasts).min(units / 16).max(units / 128).max(LEAST_LEFT)
    }

    /// Whether all that stands on the pool can do without a member: by the record of each segment, as far as these have been read.
    pub(crate) fn can_lose(&self, is_lost: impl Fn(u16) -> bool) -> bool {
        let is_unread = self.segments.is_empty();
        self.units.iter().all(|unit| {
            let lost = mask_of(&unit.members, &is_lost);
            // Blocks that were moved to those that are left since others failed have parity of their own.
            lost == 0
                || (lost.count_ones() < u32::from(unit.vdev.members)
                    && (is_unread
                        || unit.range().all(|n| {
                            let segment = &self.segments[n as usize];
                            // No recovery reads pages that nothing names.
                            let is_past =
                                segment.usage == Use::Closed && segment.record.class == SegmentClass::Pages;
                            let is_unused = is_past || matches!(segment.usage, Use::Free | Use::Log);
                            let idle = is_unused && segment.record.live == 0;
                            let lacks = segment.record.missing | segment.owed;
                            let gone = (segment.record.members & (lost | lacks)).count_ones();
                            idle || gone <= u32::from(segment.record.parity)
                        })))
        })
    }

    /// Segments of a vdev with their numbers; none before the table of segments has been read.
    pub(super) fn own(&self, unit: &Unit) -> impl Iterator<Item = (u32, &Segment)> + use<'_> {
        unit.range().filter_map(|n| Some((n, self.segments.get(n as usize)?)))
    }

    /// Something live is to have more parity than it has.
    pub(crate) fn has_weak(&self) -> bool {
        self.units.iter().enumerate().any(|(at, unit)| {
            let parity = self.parity_now(at);
            self.own(unit).any(|(_, segment)| segment.record.live > 0 && unit.is_weak(segment, parity))
        })
    }
}
