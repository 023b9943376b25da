//! Segments that are asked for again and again are kept apart: nothing goes through all segments to find these.

use brindle_format::pool::SegmentClass;

use super::{Segment, Space, Unit, Use};

/// The use that somebody has for a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Nothing of it is live, as far as is known.
    Waiting,
    /// It holds pages that something names.
    Pages,
    /// It is not closed, or holds blocks.
    Other,
}

impl Segment {
    fn sort_now(&self) -> Sort {
        match self.usage {
            Use::Closed if self.lives() == 0 => Sort::Waiting,
            Use::Closed if self.record.class == SegmentClass::Pages => Sort::Pages,
            _ => Sort::Other,
        }
    }
}

impl Unit {
    fn put(&mut self, n: u32, sort: Sort, is: bool) {
        let set = match sort {
            Sort::Waiting => &mut self.waiting,
            Sort::Pages => &mut self.of_pages,
            Sort::Other => return,
        };
        let _was = if is { set.insert(n) } else { set.remove(&n) };
    }
}

impl Space {
    /// The use of a segment is another from now on.
    pub(super) fn becomes(&mut self, n: u32, usage: Use) {
        self.segments[n as usize].usage = usage;
        self.touched.mark(n);
        self.sort(n);
    }

    /// The use of a segment has changed, or the count of its live blocks.
    pub(super) fn sort(&mut self, n: u32) {
        let segment = &mut self.segments[n as usize];
        let (before, now) = (segment.sort, segment.sort_now());
        if before == now {
            return;
        }
        segment.sort = now;
        if let Some(at) = self.vdev_of(n) {
            self.units[at].put(n, before, false);
            self.units[at].put(n, now, true);
        }
    }

    /// Holds that segments were sorted whenever they changed.
    pub(super) fn audit(&self) {
        if cfg!(debug_assertions) {
            for unit in &self.units {
                let of = |sort| move |&n: &u32| self.segments[n as usize].sort_now() == sort;
                assert!(unit.range().filter(of(Sort::Waiting)).eq(unit.waiting.iter().copied()), "waiting");
                assert!(unit.range().filter(of(Sort::Pages)).eq(unit.of_pages.iter().copied()), "of pages");
            }
        }
    }
}
