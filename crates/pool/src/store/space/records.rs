//! Records of segments as the next table of them is to have them.

use brindle_format::pool::place::Shape;
use brindle_format::pool::{SEGMENTS, SegmentClass, SegmentRecord, SegmentState};

use super::{Segment, Space, Use};

impl Segment {
    /// Its record: batches up to `sequence` are in the map. What was used again stays known where `keep`.
    fn record_now(&self, sequence: u64, keep: bool) -> SegmentRecord {
        let state = match self.usage {
            Use::Free | Use::Freeing | Use::Gap => SegmentState::Free,
            Use::Open if self.record.class == SegmentClass::Pages => SegmentState::Closed,
            Use::Log | Use::Open => SegmentState::Log,
            // Batches in it may be younger than the checkpoint.
            Use::Closed if self.record.sequence > sequence => SegmentState::Log,
            Use::Closed => SegmentState::Closed,
        };
        let live = self.record.live.saturating_sub(self.young);
        let reused = keep && self.record.reused;
        let mut record = SegmentRecord { state, live, reused, ..self.record };
        if state == SegmentState::Free {
            (record.live, record.stripes, record.sequence) = (0, 0, 0);
            (record.class, record.missing, record.copied) = (SegmentClass::None, 0, 0);
        }
        record
    }
}

impl Space {
    /// Segments of a page of the table.
    fn of_page(&self, page: usize) -> &[Segment] {
        self.segments.chunks(SEGMENTS).nth(page).unwrap_or(&[])
    }

    /// The records of a page of the table: batches up to `sequence` are in the map. What was used again stays known where `keep`.
    pub(crate) fn records_of(
        &self,
        page: usize,
        sequence: u64,
        keep: bool,
    ) -> impl Iterator<Item = SegmentRecord> {
        self.of_page(page).iter().map(move |segment| segment.record_now(sequence, keep))
    }

    /// A record of the page is another by the next checkpoint, though nothing changes the segment.
    pub(crate) fn is_unsettled(&self, page: usize, sequence: u64) -> bool {
        self.of_page(page).iter().any(|segment| {
            let is_log = segment.usage == Use::Closed && segment.record.sequence > sequence;
            is_log || segment.young > 0 || segment.record.reused
        })
    }

    /// A segment is free, or is to be: nothing may stand in it any more.
    pub(crate) fn is_going(&self, segment: u32) -> bool {
        self.get(segment).is_none_or(|segment| matches!(segment.usage, Use::Free | Use::Freeing | Use::Gap))
    }

    /// A segment is to have more parity than it has.
    pub(crate) fn is_thin(&self, segment: u32) -> bool {
        let (Some(at), Some(of)) = (self.vdev_of(segment), self.get(segment)) else { return false };
        self.units[at].is_weak(of, self.parity_now(at))
    }

    /// Segments that pages are written to.
    pub(crate) fn open_pages(&self) -> impl Iterator<Item = u32> {
        self.units.iter().filter_map(|unit| Some(unit.pages?.segment))
    }
}

/// A segment is to be used in another shape.
pub(super) fn reshape(record: &mut SegmentRecord, shape: Shape) {
    (record.members, record.stripe, record.parity) = (shape.members, shape.stripe, shape.parity);
    (record.chunk, record.turn) = (shape.chunk, shape.turn);
    (record.missing, record.copied) = (0, 0);
    // The table that was read says nothing of it any more.
    record.state = SegmentState::Closed;
    (record.stripes, record.sequence) = (0, 0);
}
