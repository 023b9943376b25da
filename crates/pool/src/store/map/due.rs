//! Pages that changes of the map will cost the next checkpoint.

use super::{Key, Map, Slot};
use crate::store::leaf::{Entries, Located};
use crate::store::owed::{Coming, Debt, Owed, SPLIT};

/// Blocks in a row that are in two leaves at most: leaves that were cut hold more.
const RUN: u64 = SPLIT as u64;

impl Map {
    /// The most pages that leaves of the next checkpoint may take, and of the one under way, once those that come have changed the map.
    pub(crate) fn debt(&self, coming: Coming) -> Debt {
        let due = Owed { leafless: self.leafless.len(), ..self.due };
        self.debt_of(self.due_before, due, self.now.zeroes.len(), coming)
    }

    /// The same, if all that has changed so far were frozen now.
    pub(crate) fn debt_frozen(&self, coming: Coming) -> Debt {
        self.debt_of(self.due_frozen(), Owed::default(), 0, coming)
    }

    /// Pages of what is due before a freeze, and after it.
    fn debt_of(&self, before: Owed, now: Owed, zeroes: usize, coming: Coming) -> Debt {
        let all = self.leaves.len();
        let before = before.debt(0, Coming::default(), all);
        let now = now.debt(zeroes, coming, all + before.more);
        Debt { pages: now.pages + before.pages + 2, more: now.more + before.more }
    }

    /// All that changes have made due. They are in no more leaves than there are now: blocks that are new make the leaves that come.
    pub(super) fn due_frozen(&self) -> Owed {
        let leaves = self.due.leaves + 2 * self.now.zeroes.len();
        let all = self.due_before.and(Owed { leaves, leafless: self.leafless.len(), ..self.due });
        Owed { leaves: all.leaves.min(self.leaves.len()), ..all }
    }

    /// A checkpoint has taken room for all that was frozen: it is no debt any more. Gives what was, for one that does not come to its end.
    pub(crate) fn pay_debt(&mut self) -> Owed {
        core::mem::take(&mut self.due_before)
    }

    /// A checkpoint gave its room back.
    pub(crate) fn owe(&mut self, due: Owed) {
        self.due_before = self.due_before.and(due);
    }

    /// The cost of changes of these blocks.
    pub(crate) fn coming(&self, blocks: impl Iterator<Item = Key>) -> Coming {
        let (mut coming, mut full) = (Coming::default(), (0, 0)..(0, 0));
        for key in blocks {
            coming.leaves += 1;
            if full.contains(&key) {
                continue;
            }
            match self.leaves.range(..=key).next_back().filter(|(at, _)| at.0 == key.0) {
                Some((&at, slot)) if self.is_full(at, slot) => full = at..self.next_leaf(at),
                Some((_, Slot { content: Some(entries), .. })) if entries.find(key.1).is_some() => {}
                _ => coming.fresh += 1,
            }
        }
        coming
    }

    /// Where the leaf behind this one begins.
    fn next_leaf(&self, at: Key) -> Key {
        self.leaves.range((at.0, at.1 + 1)..).next().map_or((u32::MAX, u64::MAX), |(&next, _)| next)
    }

    /// A leaf has all blocks that it can have.
    fn is_full(&self, at: Key, slot: &Slot) -> bool {
        let (count, end) =
            (slot.content.as_ref().map_or(slot.count.into(), Entries::len), self.next_leaf(at));
        end.0 == at.0 && end.1 - at.1 == count as u64
    }

    /// Whether a block that changes may be in a leaf of its own: frozen changes are about to go into its leaf, and may make several of it.
    /// Blocks in a row share one. Two of them may be on either side of a cut, and those that follow are on a side of the next cut.
    fn may_part(&self, key: Key) -> bool {
        if self.frozen.blocks.is_empty() {
            return false;
        }
        let changes = |block: Option<u64>| block.is_some_and(|n| self.now.blocks.contains_key(&(key.0, n)));
        let goes_on = (changes(key.1.checked_sub(1)) && changes(key.1.checked_sub(2)))
            || (changes(key.1.checked_add(1)) && changes(key.1.checked_add(2)));
        if goes_on && !key.1.is_multiple_of(RUN) {
            return false;
        }
        let leaf = self.leaves.range(..=key).next_back().filter(|(at, _)| at.0 == key.0);
        let from = leaf.map_or((key.0, 0), |(&at, _)| at);
        let to = self.next_leaf(key).min((key.0.saturating_add(1), 0));
        self.frozen.blocks.range(from..to).next().is_some()
    }

    /// The next checkpoint changes the leaf of a block; gives where the block is by it, if it is in memory.
    pub(super) fn touch_for(&mut self, key: Key, freezes: u64, is_first: bool) -> Option<Located> {
        let parts = is_first && self.may_part(key);
        self.due.leaves += usize::from(parts);
        let Some((&at, slot)) = self.leaves.range_mut(..=key).next_back().filter(|(at, _)| at.0 == key.0)
        else {
            self.leafless.insert(key.0);
            self.due.fresh += usize::from(is_first);
            return None;
        };
        let is_new = !parts && core::mem::replace(&mut slot.due, freezes) != freezes;
        self.due.leaves += usize::from(is_new);
        let below = slot.content.as_ref().map(|entries| entries.located(key.1));
        let is_there = match below {
            Some(below) => below != Located::Zeroes,
            None => self.leaves.get(&at).is_some_and(|slot| self.is_full(at, slot)),
        };
        self.due.fresh += usize::from(is_first && !is_there);
        below
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::place::Address;

    use super::*;

    fn at(n: u64) -> Located {
        Located::At(Address(n), n as u32)
    }

    /// Puts frozen changes into leaves, and takes these for written.
    fn write(map: &mut Map) -> usize {
        while let Some(key) = map.frozen_block() {
            let (leaf, _) = map.leaf_for(key);
            let _before = map.merge(leaf, 1);
        }
        map.thawed();
        let dirty = map.leaves.values().filter(|slot| slot.dirty).count();
        map.leaves.values_mut().for_each(|slot| slot.dirty = false);
        let _paid = map.pay_debt();
        dirty
    }

    /// Changes blocks of the volume 1.
    fn set(map: &mut Map, blocks: impl Iterator<Item = u64>) {
        for block in blocks {
            let _before = map.set((1, block), at(block));
        }
    }

    #[test]
    fn changes_that_come_while_a_leaf_is_parted_are_counted_for_each_part() {
        for first in [0, 1] {
            let mut map = Map { dense: true, ..Map::default() };
            // A volume that has one small leaf, and one that has none.
            set(&mut map, 0..first);
            map.freeze();
            write(&mut map);
            set(&mut map, (0..8000).map(|n| 3 * n));
            map.freeze();
            set(&mut map, (0..27).map(|n| 889 * n));
            set(&mut map, 7000..7400);
            write(&mut map);
            set(&mut map, (0..9).map(|n| 2500 * n));
            let owed = map.debt(Coming::default()).pages;
            map.freeze();
            assert!(map.debt(Coming::default()).pages >= owed - 2, "to freeze changes is to owe as much");
            let dirty = write(&mut map);
            // The run of 400 is in few leaves.
            assert!(dirty > 20 && dirty <= owed && owed < 100, "{dirty} leaves, and {owed} owed");
        }
    }
}
