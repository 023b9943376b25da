//! The ranges in which redundancy is known to be in sync.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeMap;

use brindle_layout::{Family, Geometry};

use crate::sync_len::sync_len;

/// True ranges that are remembered at most: some 16 MiB of memory.
const MOST: usize = 1 << 19;

/// The ranges whose redundancy is known to agree with the data: all below a position, and ranges beyond it that a
/// resync or a write has brought in sync. Counted in bytes of the members' data areas; for mirrors, in bytes of the array.
/// Kept in memory; the superblocks record the position only.
pub(crate) struct SyncMap {
    /// `u64::MAX` when all is in sync.
    upto: Cell<u64>,
    /// Starts and ends; none touches another, nor `upto`.
    beyond: RefCell<BTreeMap<u64, u64>>,
    /// Where redundancy ends: when all below is in sync, all is.
    end: u64,
    /// Positions are given in multiples of this.
    unit: u64,
    most: usize,
    /// Places are of two geometries: either all is in sync, or nothing is known to be.
    is_of_two: bool,
}

impl SyncMap {
    /// The map of an array that is in sync below `from` (`None`: everywhere).
    pub(crate) fn of(geometry: &Geometry, from: Option<u64>) -> Self {
        Self::new(from, sync_len(geometry), sync_unit(geometry))
    }

    /// The map of an array that is being reshaped. A place of it is told by either geometry, and so says nothing of the other.
    pub(crate) fn of_two(in_doubt: bool) -> Self {
        Self { is_of_two: true, ..Self::new(in_doubt.then_some(0), u64::MAX, 1) }
    }

    /// True below `from` (`None`: everywhere) of `end` bytes. Positions are given in multiples of `unit`.
    fn new(from: Option<u64>, end: u64, unit: u64) -> Self {
        let upto = Cell::new(from.filter(|&from| from < end).unwrap_or(u64::MAX));
        Self { upto, beyond: RefCell::default(), end, unit: unit.max(1), most: MOST, is_of_two: false }
    }

    /// Redundancy is in sync below this position; `u64::MAX` when all is in sync.
    #[inline]
    pub(crate) fn upto(&self) -> u64 {
        self.upto.get()
    }

    /// The position from which redundancy is not known to be in sync, if there is one.
    pub(crate) fn position(&self) -> Option<u64> {
        Some(self.upto.get()).filter(|&upto| upto != u64::MAX).map(|upto| upto - upto % self.unit)
    }

    /// Forgets that a range is in sync.
    pub(crate) fn doubt_range(&self, range: Range<u64>) {
        let (start, end) = (range.start, range.end.min(self.end));
        if start >= end {
            return;
        }
        if self.is_of_two {
            self.upto.set(0);
            return;
        }
        let mut beyond = self.beyond.borrow_mut();
        while let Some((&first, &last)) = beyond.range(..end).next_back().filter(|&(_, &last)| last > start) {
            beyond.remove(&first);
            if last > end {
                beyond.insert(end, last);
            }
            if first < start {
                beyond.insert(first, start);
            }
        }
        let upto = self.upto.get().min(self.end);
        if upto <= start {
            return;
        }
        self.upto.set(start);
        // All that was true beyond is one range more; where there is no room for it, it is in doubt, too.
        if upto > end && beyond.len() < self.most {
            beyond.insert(end, upto);
        }
    }

    /// Whether the whole range is in sync.
    #[inline]
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        range.end <= self.upto.get() || self.run(range) == (true, range.end)
    }

    /// Whether the range begins true, and where within it that changes: its end, if it does not.
    pub(crate) fn run(&self, range: &Range<u64>) -> (bool, u64) {
        if range.start < self.upto.get() {
            return (true, self.upto.get().min(range.end));
        }
        let beyond = self.beyond.borrow();
        match beyond.range(..=range.start).next_back() {
            Some((_, &end)) if end > range.start => (true, end.min(range.end)),
            _ => (false, beyond.range(range.clone()).next().map_or(range.end, |(&start, _)| start)),
        }
    }

    /// Remembers a range as true if there is room. Of that, half is kept for what is `needed`: ranges in which lost
    /// blocks can be read only as long as this is remembered.
    pub(crate) fn add(&self, range: Range<u64>, needed: bool) {
        if range.end <= self.upto.get() || range.is_empty() || self.is_of_two {
            return;
        }
        let mut beyond = self.beyond.borrow_mut();
        let (mut start, mut end) = (range.start, range.end);
        let before = beyond.len();
        while let Some((&first, &last)) = beyond.range(..=end).next_back().filter(|&(_, &last)| last >= start)
        {
            (start, end) = (start.min(first), end.max(last));
            beyond.remove(&first);
        }
        if start <= self.upto.get() {
            self.upto.set(if end >= self.end { u64::MAX } else { end });
        } else if beyond.len() < before || before < if needed { self.most } else { self.most / 2 } {
            beyond.insert(start, end);
        }
    }
}

/// Positions of a resync are multiples of this: whole rows.
fn sync_unit(geometry: &Geometry) -> u64 {
    match geometry.family() {
        Family::Striped(_) | Family::Mirrored(_) => 1,
        Family::Parity(map) => map.chunk(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_knows_what_a_bitmap_would(
            from in 0u64..70,
            steps in prop::collection::vec((0u64..60, 1u64..12, any::<bool>()), 0..30),
        ) {
            let sync_map = SyncMap::new(Some(from), 60, 1);
            let mut bits: Vec<bool> = (0..60).map(|at| at < from || from >= 60).collect();
            for (start, len, known) in steps {
                let end = (start + len).min(60);
                if known {
                    sync_map.add(start..end, true);
                } else {
                    sync_map.doubt_range(start..start + len);
                }
                bits[start as usize..end as usize].fill(known);
                let position = bits.iter().position(|bit| !bit).map(|at| at as u64);
                prop_assert_eq!(sync_map.position(), position);
                for start in 0..60 {
                    let rest = &bits[start..];
                    let run = rest.iter().position(|bit| *bit != rest[0]).unwrap_or(rest.len());
                    prop_assert_eq!(sync_map.run(&(start as u64..60)), (rest[0], (start + run) as u64));
                    prop_assert!(sync_map.holds(&(start as u64..(start + run) as u64)) == rest[0]);
                    prop_assert!(run == rest.len() || !sync_map.holds(&(start as u64..60)));
                }
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_half_of_it_kept_for_what_is_needed() {
        let sync_map = SyncMap { most: 4, ..SyncMap::new(Some(0), 1000, 10) };
        let holds = |at: u64| sync_map.holds(&(at..at + 5));
        (10..80).step_by(10).for_each(|at| sync_map.add(at..at + 5, false));
        assert!(holds(20) && !holds(30));
        (30..80).step_by(10).for_each(|at| sync_map.add(at..at + 5, true));
        assert!(holds(40) && !holds(50));
        sync_map.add(45..52, false);
        assert!(sync_map.holds(&(40..45)), "what was known is not forgotten");
        sync_map.add(0..11, false);
        assert!(sync_map.upto() == 15 && sync_map.position() == Some(10) && holds(40));
        sync_map.add(0..1000, false);
        assert_eq!((sync_map.position(), sync_map.upto()), (None, u64::MAX));
    }
}
