//! Blocks that leaves name and that are zeroes by now: they count in their segments until a checkpoint takes them out of the leaves.

use core::ops::Range;

use super::{ENDLESS, Key, Layer, Map, Slot};

impl Layer {
    /// The parts of a range that are not among the ranges of zeroes.
    fn uncovered(&self, volume: u32, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut rest = Vec::new();
        let mut at = from;
        let before = self.zeroes.range(..=(volume, from)).next_back();
        let inside =
            self.zeroes.range((volume, from.saturating_add(1))..(volume, to.max(from.saturating_add(1))));
        for (&(of, begin), &end) in before.into_iter().chain(inside) {
            if of != volume || end <= at {
                continue;
            }
            if begin > at {
                rest.push((at, begin.min(to)));
            }
            at = at.max(end);
        }
        if at < to {
            rest.push((at, to));
        }
        rest
    }
}

impl Map {
    /// The block behind the last that belongs to a leaf.
    pub(crate) fn end_of(&self, at: Key) -> u64 {
        let next = self.leaves.range((at.0, at.1 + 1)..).next().map(|(&next, _)| next);
        next.filter(|next| next.0 == at.0).map_or(ENDLESS, |next| next.1)
    }

    /// Blocks that leaves name, and that are zeroes. Where a part of a leaf that is not in memory is meant, as many as in its other parts.
    pub(crate) fn hidden(&self) -> u64 {
        let dead: u64 = self.dead.iter().map(|dead| u64::from(dead.count)).sum();
        self.hidden_now + self.hidden_before + dead
    }

    /// A range is about to become zeroes: what leaves name there is hidden from now on.
    pub(super) fn hide(&mut self, volume: u32, from: u64, to: u64) {
        for (from, to) in self.now.uncovered(volume, from, to) {
            for (from, to) in self.frozen.uncovered(volume, from, to) {
                self.hidden_now += self.named(volume, from, to);
            }
        }
    }

    /// All that is hidden is to be taken out of leaves.
    pub(super) fn hidden_is_frozen(&mut self) {
        self.hidden_before += core::mem::take(&mut self.hidden_now);
    }

    /// Blocks that leaves name in a range.
    fn named(&self, volume: u32, from: u64, to: u64) -> u64 {
        let behind = from.saturating_add(1);
        let first = self.leaves.range(..=(volume, from)).next_back().filter(|(at, _)| at.0 == volume);
        let rest = self.leaves.range((volume, behind)..(volume, to.max(behind)));
        let mut leaves = first.into_iter().chain(rest).peekable();
        let mut all = 0;
        while let Some((&at, slot)) = leaves.next() {
            let end = leaves.peek().map_or_else(|| self.end_of(at), |(next, _)| next.1);
            all += slot.named(at.1..end, from.max(at.1)..to.min(end));
        }
        all
    }
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
    use brindle_format::pool::{LeafEntry, LeafKind, Pointer};

    use super::*;

    const STOOD: Pointer = Pointer { address: Address(9), checksum: 0 };

    fn entries(blocks: core::ops::Range<u64>) -> Vec<LeafEntry> {
        let entry =
            |block| LeafEntry { block, node: 1, kind: LeafKind::Plain, address: Address(block), checksum: 0 };
        blocks.map(entry).collect()
    }

    /// Leaves of volume 1 with blocks 0 to 100 and 100 to 300, of which the former is in memory.
    fn map() -> Map {
        let mut map = Map::default();
        map.leaves.insert((1, 0), Slot::fresh(entries(0..100)));
        map.leaves.insert((1, 100), Slot::stored(STOOD, 200));
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
        assert_eq!((map.hidden(), map.give_up((1, 0)).0.len()), (150, 100));
        map.loaded((1, 100), STOOD, entries(100..300));
        assert_eq!((map.hidden(), map.cut((1, 100), 0, 150).len(), map.hidden()), (50, 50, 0));
        map.thaw_zeroes((1, 0));
        map.thawed();
        let _changes = map.clear(1, 150, 200);
        assert_eq!(map.hidden(), 50);
    }
}
