//! The ranges whose writes found no space, until they are in sync again.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeSet;

/// The most ranges that are kept apart; further ones are joined with the gaps between.
const MOST: usize = 1024;

/// The ranges to be brought in sync again once there is space.
#[derive(Default)]
pub(crate) struct AwaitingSpace {
    pub(super) ranges: Ranges,
    pub(super) roles: RefCell<BTreeSet<u16>>,
    pub(super) retried: Cell<bool>,
}

/// Ranges, with gaps between them where there are too many.
#[derive(Default)]
pub(crate) struct Ranges {
    /// Sorted; none touches another.
    pub(super) all: RefCell<Vec<Range<u64>>>,
}

impl Ranges {
    /// Whether some of it is in a range.
    pub(crate) fn touch(&self, range: &Range<u64>) -> bool {
        let ranges = self.all.borrow();
        let first = ranges.partition_point(|known| known.end <= range.start);
        ranges.get(first).is_some_and(|known| known.start < range.end)
    }

    pub(crate) fn add(&self, range: Range<u64>) {
        let mut ranges = self.all.borrow_mut();
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
        let ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 25), (35, 50), (0, 1)] {
            ranges.add(start..end);
        }
        assert_eq!(*ranges.all.borrow(), [0..1, 10..25, 30..60]);
        assert!(ranges.touch(&(0..30)) && ranges.touch(&(24..30)) && !ranges.touch(&(25..30)));
        assert!(!ranges.touch(&(1..10)) && !ranges.touch(&(60..70)));
        ranges.add(0..100);
        ranges.add(200..300);
        assert_eq!(*ranges.all.borrow(), [0..100, 200..300]);
        (0..2 * MOST as u64).for_each(|n| ranges.add(1000 + 10 * n..1005 + 10 * n));
        assert!(ranges.all.borrow().len() <= MOST, "memory is bounded");
    }
}
