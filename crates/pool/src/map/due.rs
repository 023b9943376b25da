//! Pages that changes of the map will cost the next checkpoint.

use super::{Key, Map, Slot};
use crate::leaf::{Entries, Located};
use crate::owed::{Coming, Debt, Owed};

impl Map {
    /// The most pages that leaves of the next checkpoint may take, and of the one under way, once those that come have changed the map.
    pub(crate) fn debt(&self, coming: Coming) -> Debt {
        let all = self.leaves.len();
        let due = Owed { leafless: self.leafless.len(), ..self.due };
        let now = due.debt(self.now.zeroes.len(), coming, all);
        let before = self.due_before.debt(0, Coming::default(), all);
        Debt { pages: now.pages + before.pages + 2, more: now.more + before.more }
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

    /// The next checkpoint changes the leaf of a block; gives where the block is by it, if it is in memory.
    pub(super) fn touch_for(&mut self, key: Key, freezes: u64, is_first: bool) -> Option<Located> {
        let Some((&at, slot)) = self.leaves.range_mut(..=key).next_back().filter(|(at, _)| at.0 == key.0)
        else {
            self.leafless.insert(key.0);
            self.due.fresh += usize::from(is_first);
            return None;
        };
        self.due.leaves += usize::from(core::mem::replace(&mut slot.due, freezes) != freezes);
        let below = slot.content.as_ref().map(|entries| entries.located(key.1));
        let is_there = match below {
            Some(below) => below != Located::Zeroes,
            None => self.leaves.get(&at).is_some_and(|slot| self.is_full(at, slot)),
        };
        self.due.fresh += usize::from(is_first && !is_there);
        below
    }
}
