//! Blocks that leaves name and that are zeroes by now: they count in their segments until a checkpoint takes them out of the leaves.

use core::ops::Range;

use super::tree::LAST;
use super::{ENDLESS, Key, Map, Slot, Tree};

impl Map {
    /// Blocks that leaves name, and that are zeroes. Where a part of a leaf that is not in memory is meant, as many as in its other parts.
    pub(crate) fn hidden(&self) -> u64 {
        let dead: u64 = self.dead.iter().map(|dead| dead.0.blocks).sum();
        self.hidden_now + self.hidden_before + dead
    }

    /// A range is about to become zeroes: what leaves name there is hidden from now on.
    pub(super) fn hide(&mut self, volume: u32, from: u64, to: u64) {
        for (from, to) in self.now.uncovered(volume, from, to) {
            for (from, to) in self.frozen.uncovered(volume, from, to) {
                self.hidden_now += self.tree.blocks_in(volume, from, to);
            }
        }
    }

    /// All that is hidden is to be taken out of leaves.
    pub(super) fn hidden_is_frozen(&mut self) {
        self.hidden_before += core::mem::take(&mut self.hidden_now);
    }
}

impl Tree {
    /// Blocks that leaves name in a range of a volume.
    pub(super) fn blocks_in(&self, volume: u32, from: u64, to: u64) -> u64 {
        let top = self.branches.last().and_then(|tops| tops.keys().next());
        let range = (volume, from)..(volume, to.max(from));
        top.map_or(0, |&top| self.blocks_below(self.height(), top, LAST, &range))
    }

    /// The same of a branch, which ends before a key. What is wholly within the range is not gone through.
    fn blocks_below(&self, level: usize, at: Key, end: Key, range: &Range<Key>) -> u64 {
        let Some(branch) = self.branch(level, at) else { return 0 };
        if end <= range.start || range.end <= at {
            return 0;
        }
        if range.start <= at && end <= range.end {
            return branch.blocks;
        }
        if !branch.is_open {
            return of_part(branch.blocks, at, end, range);
        }
        let below = self.below(level, at.max(range.start), at, end.min(range.end));
        below
            .into_iter()
            .map(|key| {
                let next = self.next_below(level, key).unwrap_or(end).min(end);
                match self.slot(key).filter(|_| level == 1) {
                    Some(slot) if key.0 == range.start.0 => {
                        let last = if next.0 == key.0 { next.1 } else { ENDLESS };
                        slot.named(key.1..last, range.start.1.max(key.1)..range.end.1.min(last))
                    }
                    Some(_) => 0,
                    None => self.blocks_below(level - 1, key, next, range),
                }
            })
            .sum()
    }

    /// Keys of pages that an open branch names, from the one that holds a key up to another.
    fn below(&self, level: usize, from: Key, at: Key, to: Key) -> Vec<Key> {
        let keys: &mut dyn Iterator<Item = Key> = match level {
            1 => {
                let first = self.places.range(at..=from).next_back().map_or(at, |(&key, _)| key);
                &mut self.places.range(first..to.max(first)).map(|(&key, _)| key)
            }
            _ => {
                let own = &self.branches[level - 2];
                let first = own.range(at..=from).next_back().map_or(at, |(&key, _)| key);
                &mut own.range(first..to.max(first)).map(|(&key, _)| key)
            }
        };
        keys.collect()
    }

    /// The key of the page behind one that a branch of a level names.
    fn next_below(&self, level: usize, key: Key) -> Option<Key> {
        let behind = (key.0, key.1 + 1);
        match level {
            1 => self.places.range(behind..).next().map(|(&next, _)| next),
            _ => self.branches[level - 2].range(behind..).next().map(|(&next, _)| next),
        }
    }
}

/// The part of blocks between two keys that is in a range, if they lie there evenly.
fn of_part(blocks: u64, at: Key, end: Key, range: &Range<Key>) -> u64 {
    let from = if at.0 == range.start.0 { at.1.max(range.start.1) } else { range.start.1 };
    // Of the last pages of a volume no end is known: their blocks lie side by side, as if written in order.
    let (begin, last) = match (at.0 == range.start.0, end.0 == range.start.0) {
        (true, true) => (at.1, end.1),
        (true, false) => (at.1, at.1 + blocks),
        (false, true) => (0, end.1),
        (false, false) => (0, blocks),
    };
    let part = range.end.1.min(last).saturating_sub(from.max(begin));
    (u128::from(blocks) * u128::from(part) / u128::from((last - begin).max(1))) as u64
}

impl Slot {
    /// Blocks in a range, of a leaf of `all` blocks.
    fn named(&self, all: Range<u64>, range: Range<u64>) -> u64 {
        let count = u64::from(self.count);
        match &self.content {
            _ if range.is_empty() => 0,
            Some(entries) => (entries.before(range.end) - entries.before(range.start)) as u64,
            None if range == all => count,
            None => {
                // The last leaf of a volume has no end that is known: its blocks lie side by side, as if written in order.
                let blocks = if all.end == ENDLESS { count.max(1) } else { all.end - all.start };
                let (begin, stop) = (range.start - all.start, (range.end - all.start).min(blocks));
                count * stop.saturating_sub(begin) / blocks.max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::place::Address;
    use brindle_format::pool::{Leaf, LeafEntry, LeafForms, LeafKind, Pointer};

    use super::super::grow::Moved;
    use super::super::{GiveStep, Page};
    use super::*;

    const STOOD: Pointer = Pointer { address: Address(9), checksum: 0 };

    fn entries(blocks: core::ops::Range<u64>) -> Vec<LeafEntry> {
        let entry =
            |block| LeafEntry { block, node: 1, kind: LeafKind::Plain, address: Address(block), checksum: 0 };
        blocks.map(entry).collect()
    }

    /// Leaves of volume 1 with blocks 0 to 100 and 100 to 300, of which the former is in memory.
    fn map() -> Map {
        let mut map = Map { forms: LeafForms::ALL, ..Map::default() };
        map.tree.insert((1, 0), Slot::fresh(entries(0..100)));
        map.tree.insert((1, 100), Slot::fresh(entries(100..300)));
        map.stand(&[Moved { level: 0, at: (1, 100), pointer: STOOD }]);
        map.tree.slot_mut((1, 100)).expect("it is there").content = None;
        map
    }

    #[test]
    fn blocks_that_were_discarded_are_hidden_once() {
        let mut map = map();
        for (from, to, hidden) in [(10, 20, 10), (15, 30, 20), (0, 50, 50), (90, 110, 70), (250, 400, 120)] {
            let _changes = map.clear(1, from, to);
            assert_eq!(map.hidden(), hidden, "{from} to {to}");
        }
        let _changes = map.clear(2, 0, ENDLESS);
        assert_eq!(map.hidden(), 120, "of another volume");
        map.freeze();
        let _changes = map.clear(1, 0, ENDLESS);
        assert_eq!(map.hidden(), 300, "all, some of it while it is taken out of the leaves");
    }

    #[test]
    fn blocks_that_left_their_leaves_are_hidden_no_more() {
        let mut map = map();
        let _changes = map.clear(1, 0, 150);
        map.freeze();
        assert_eq!(map.step_of((1, 0), (1, 150)), GiveStep::GiveUp { at: (1, 0), next: 100 });
        assert_eq!((map.hidden(), map.give_up((1, 0)).len()), (150, 100));
        let page = Page { level: 0, at: (1, 100), pointer: STOOD };
        assert_eq!(map.step_of((1, 100), (1, 150)), GiveStep::Unread(page));
        map.loaded(page, &Leaf(entries(100..300)).encode(1, LeafForms::ALL).expect("it fits"))
            .expect("it is that leaf");
        assert_eq!((map.hidden(), map.cut((1, 100), 0, 150).len(), map.hidden()), (50, 50, 0));
        map.thaw_zeroes((1, 0));
        map.thawed();
        let _changes = map.clear(1, 150, 200);
        assert_eq!(map.hidden(), 50);
    }
}
