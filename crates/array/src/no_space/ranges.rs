//! The ranges whose writes found no space, until they are in sync again.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeSet;

/// The most ranges that are kept apart; further ones are joined with the gaps between.
const MOST: usize = 1024;

/// The ranges to be brought in sync again once there is space.
#[derive(Default)]
pub(crate) struct AwaitingSpace {
    /// Sorted; none touches another.
    pub(super) ranges: RefCell<Vec<Range<u64>>>,
    pub(super) roles: RefCell<BTreeSet<u16>>,
    pub(super) retried: Cell<bool>,
}

impl AwaitingSpace {
    pub(super) fn add(&self, range: Range<u64>) {
        let mut ranges = self.ranges.borrow_mut();
        let first = ranges.partition_point(|known| known.end < range.start);
        let last = ranges.partition_point(|known| known.start <= range.end);
        let joined = ranges[first..last]
            .iter()
            .fold(range, |joined, known| joined.start.min(known.start)..joined.end.max(known.end));
        ranges.splice(first..last, [joined]);
        if let (true, Some(first), Some(last)) = (ranges.len() > MOST, ranges.first(), ranges.last()) {
            let all = first.start..last.end;
            ranges.clear();
            ranges.push(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_touch() {
        let awaiting_space = AwaitingSpace::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 25), (35, 50), (0, 1)] {
            awaiting_space.add(start..end);
        }
        assert_eq!(*awaiting_space.ranges.borrow(), [0..1, 10..25, 30..60]);
        awaiting_space.add(0..100);
        awaiting_space.add(200..300);
        assert_eq!(*awaiting_space.ranges.borrow(), [0..100, 200..300]);
        (0..2 * MOST as u64).for_each(|n| awaiting_space.add(1000 + 10 * n..1005 + 10 * n));
        assert!(awaiting_space.ranges.borrow().len() <= MOST, "memory is bounded");
    }
}
