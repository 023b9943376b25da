//! Segments that are used again between two checkpoints.

use brindle_format::pool::{SEGMENTS, SegmentClass};

use super::{Segment, Space, Use};

/// The use of a record of the table alone.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gains {
    /// The log gets segments by it. Pages that are no longer named gain nothing: each such record leaves some, and takes as many.
    pub(crate) now: bool,
    /// Segments that are used again by it, now or once no task reads them any more.
    pub(crate) emptied: usize,
}

impl Segment {
    /// All of its blocks are elsewhere by changes, as is known for sure.
    fn is_emptied(&self, sequence: u64) -> bool {
        let record = &self.record;
        let is_data = !matches!(record.class, SegmentClass::Pages | SegmentClass::None);
        let is_empty = record.live > 0 && record.live == self.dying && self.young == 0;
        self.usage == Use::Closed && is_data && is_empty && record.sequence <= sequence
    }

    /// Nothing of it is named any more.
    fn is_dead(&self, sequence: u64) -> bool {
        let record = &self.record;
        let is_data = record.class != SegmentClass::Pages;
        self.usage == Use::Closed && is_data && record.live == 0 && record.sequence <= sequence
    }
}

impl Space {
    /// Segments with batches up to `sequence` alone whose blocks are all elsewhere, and that no task reads; in their order.
    pub(crate) fn reusable(&self, sequence: u64) -> Vec<u32> {
        let is = |n: &u32| {
            let segment = &self.segments[*n as usize];
            segment.pins == 0 && segment.is_emptied(sequence)
        };
        let waiting = self.units.iter().flat_map(|unit| &unit.waiting).copied();
        let mut reusable: Vec<u32> = waiting.filter(is).collect();
        reusable.sort_unstable();
        reusable
    }

    /// The use that a record of the table alone would have, which takes so many pages.
    pub(crate) fn gains(&self, sequence: u64, pages: u64) -> Gains {
        let mut gains = Gains::default();
        for (at, unit) in self.units.iter().enumerate() {
            let mut ready = 0;
            for &n in &unit.waiting {
                let segment = &self.segments[n as usize];
                let is_emptied = segment.is_emptied(sequence);
                gains.emptied += usize::from(is_emptied);
                ready += usize::from((is_emptied || segment.is_dead(sequence)) && segment.pins == 0);
            }
            gains.now |= self.for_log(at, ready, pages) > 0;
        }
        gains
    }

    /// These are used again: what the last checkpoint says of their blocks is of their earlier use.
    pub(crate) fn reuse(&mut self, segments: &[u32]) {
        for &n in segments {
            let segment = &mut self.segments[n as usize];
            (segment.record.live, segment.dying, segment.record.reused) = (0, 0, true);
            self.touched.mark(n);
            self.sort(n);
        }
    }

    /// A segment was used again since the last checkpoint, or since leaves were outlived that still are to be gone through.
    pub(crate) fn is_reused(&self, segment: u32) -> bool {
        self.get(segment).is_some_and(|segment| segment.record.reused)
    }

    /// All of these.
    pub(crate) fn reused_again(&self) -> Vec<u32> {
        (0..).zip(&self.segments).filter(|(_, segment)| segment.record.reused).map(|(n, _)| n).collect()
    }

    /// A checkpoint stands; unless leaves are still outlived nothing names what was before.
    pub(crate) fn forget_reuse(&mut self, outlived: bool) {
        if !outlived {
            for page in self.touched.pages() {
                let some = self.segments.chunks_mut(SEGMENTS).nth(page).into_iter().flatten();
                some.for_each(|segment| segment.record.reused = false);
            }
        }
    }
}
