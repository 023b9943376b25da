//! Segments that are used again between two checkpoints.

use brindle_format::pool::SegmentClass;

use super::{Segment, Space, Use};

/// The use of a record of the table alone.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gains {
    /// There is something that it gives the log or makes free.
    pub(crate) now: bool,
    /// Segments that are used again by it, now or once nobody reads them any more.
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
}

impl Space {
    /// Segments with batches up to `sequence` alone whose blocks are all elsewhere, and that nobody reads.
    pub(crate) fn reusable(&self, sequence: u64) -> Vec<u32> {
        let is = |segment: &Segment| segment.pins == 0 && segment.is_emptied(sequence);
        (0..).zip(&self.segments).filter(|(_, segment)| is(segment)).map(|(n, _)| n).collect()
    }

    /// The use that a record of the table alone would have.
    pub(crate) fn gains(&self, sequence: u64) -> Gains {
        let mut gains = Gains::default();
        for segment in &self.segments {
            let is_emptied = segment.is_emptied(sequence);
            gains.emptied += usize::from(is_emptied);
            let is_page = segment.usage == Use::Closed && segment.record.class == SegmentClass::Pages;
            gains.now |= is_emptied && segment.pins == 0 || is_page && segment.record.live == 0;
        }
        // Free ones that pages do not need.
        gains.now |= (0..self.units.len())
            .any(|at| self.units[at].free.len() > self.units[at].for_pages(self.pages_of(at)));
        gains
    }

    /// These are used again: what the last checkpoint says of their blocks is of before.
    pub(crate) fn reuse(&mut self, segments: &[u32]) {
        for &n in segments {
            let segment = &mut self.segments[n as usize];
            (segment.record.live, segment.dying, segment.record.reused) = (0, 0, true);
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
            self.segments.iter_mut().for_each(|segment| segment.record.reused = false);
        }
    }
}
