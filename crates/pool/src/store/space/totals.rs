//! Totals over all segments, as the status tells them. One pass finds all of them: a pool may have millions of segments.

use brindle_format::pool::SegmentClass;

use super::{Segment, Space, Unit, Use};

/// Totals over all segments.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Blocks that are named, of volumes,
    pub(crate) live: u64,
    /// and blocks in segments with less parity than their vdev has, or on members that are out.
    pub(crate) thin: u64,
    /// Segments that are free, of the log, open or closed.
    pub(crate) usage: [usize; 3],
    /// Segments that tasks read,
    pub(crate) pinned: usize,
    /// that are open and have held something else since the pool was opened,
    pub(crate) reused: usize,
    /// and that hold something which a member lacks.
    pub(crate) lacking: usize,
    /// By members: segments with something live that it lacks.
    pub(crate) lacks: Vec<usize>,
}

impl Totals {
    fn count(&mut self, unit: &Unit, segment: &Segment) {
        let record = &segment.record;
        let live = u64::from(record.live);
        self.live += if record.class == SegmentClass::Pages { 0 } else { live };
        self.pinned += usize::from(segment.pins > 0);
        self.reused += usize::from(segment.usage == Use::Open && segment.reuses > 0);
        match segment.usage {
            Use::Free | Use::Freeing => self.usage[0] += 1,
            Use::Log => self.usage[1] += 1,
            Use::Open | Use::Closed => self.usage[2] += 1,
            Use::Gap => {}
        }
        if live > 0 {
            self.count_lacks(unit, segment);
        }
    }

    fn count_lacks(&mut self, unit: &Unit, segment: &Segment) {
        let record = &segment.record;
        self.thin += if unit.parity_of(segment) < unit.parity() { u64::from(record.live) } else { 0 };
        let away = record.members & (!unit.present | record.missing) & !unit.vacant;
        self.lacking += usize::from(record.stripes > 0 && away != 0);
        if record.missing != 0 {
            for (index, &member) in unit.members.iter().enumerate() {
                self.lacks[usize::from(member)] += usize::from(record.missing >> index & 1 == 1);
            }
        }
    }
}

impl Space {
    /// Totals over all segments, for so many members.
    pub(crate) fn totals(&self, members: usize) -> Totals {
        let mut totals = Totals { lacks: vec![0; members], ..Totals::default() };
        for unit in &self.units {
            self.own(unit).for_each(|(_, segment)| totals.count(unit, segment));
        }
        totals
    }
}
