//! Pages that became too large are parted, and small neighbours become one.

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BRANCH_REFS, DENSE_SPAN, LeafEntry, LeafKind, MAX_LEVELS, Pointer, Subtree, SubtreeState, leaf_takes,
};

use super::tree::{AtKey, Branch};
use super::{Key, Map, Page, Slot, Tree};
use crate::store::leaf::{Entries, Located, part};

/// Changes that go into a leaf at a time: into some tens of leaves no other task has a turn.
const AT_ONCE: usize = 1024;
/// Bytes that a page takes beside its header, less some room for changes to come.
const JOINED: usize = 3500;

/// A page that was written, and where it stands now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) level: usize,
    pub(crate) at: Key,
    pub(crate) pointer: Pointer,
}

/// A neighbour that a page might become one with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// This page has to be read first.
    Unread(Page),
    /// These two became one, which begins with the former.
    Joined(Key),
    /// It stays as it is.
    Stays,
    /// It is the top, names too many pages, and a tree has no more levels.
    TooHigh,
}

impl Map {
    /// Puts frozen blocks that belong to a leaf into it, which is in memory; gives where they were, according to it. A leaf that becomes too
    /// large becomes several. Of many blocks some are left for the next time.
    pub(crate) fn merge(&mut self, at: Key, node: u32) -> Vec<Located> {
        let end = self.tree.next(at).filter(|next| next.0 == at.0).unwrap_or((at.0, u64::MAX));
        let mut mine = Vec::new();
        while mine.len() < AT_ONCE
            && let Some(first) =
                self.frozen.blocks.first_entry().filter(|first| (at..end).contains(first.key()))
        {
            mine.push(first.remove_entry());
        }
        self.tree.soil_leaf(at);
        let Some(slot) = self.tree.slot_mut(at) else { return Vec::new() };
        let Some(entries) = slot.content.as_mut() else { return Vec::new() };
        let goes_on = mine.windows(2).all(|pair| pair[1].0.1 == pair[0].0.1 + 1);
        let in_order = goes_on && mine.last().is_some_and(|(key, _)| entries.last() < Some(key.1));
        let (mut before, mut new, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for ((_, block), to) in mine {
            let place = entries.find(block);
            before.extend(place.map(|at| entries.at(at)));
            let (kind, address, checksum) = match to {
                Located::Zeroes => {
                    gone.extend(place.map(|_| block));
                    continue;
                }
                Located::At(address, checksum) => (LeafKind::Plain, address, checksum),
                Located::Lost => (LeafKind::Lost, Address::NONE, 0),
            };
            let entry = LeafEntry { block, node, kind, address, checksum };
            // Most changes are of blocks that the leaf has.
            if !place.is_some_and(|at| entries.replace(at, entry)) {
                gone.extend(place.map(|_| block));
                new.push(entry);
            }
        }
        if !gone.is_empty() || !new.is_empty() {
            let mut all = entries.to_vec();
            all.retain(|entry| gone.binary_search(&entry.block).is_err());
            all.append(&mut new);
            all.sort_by_key(|entry| entry.block);
            self.fill(at, all);
        }
        self.split(at, in_order);
        self.note_bytes();
        before
    }

    /// Makes of a leaf that is too large several. Of one that was written in order all but the last are full, else all are between half full and
    /// full.
    pub(super) fn split(&mut self, at: Key, in_order: bool) {
        let forms = self.forms;
        let Some(entries) = self.tree.slot(at).and_then(|slot| slot.content.as_ref()) else { return };
        if !entries.is_too_large(forms) {
            return;
        }
        let all = entries.to_vec();
        let in_order = in_order && all.windows(2).all(|pair| pair[1].block == pair[0].block + 1);
        let mut pieces = part(all, forms, in_order).into_iter();
        self.fill(at, pieces.next().unwrap_or_default());
        for content in pieces {
            self.tree.insert((at.0, content[0].block), Slot::fresh(content));
        }
    }

    /// Two leaves may be one: together they leave some room. Of one that is not in memory it is known that it is less than half full if it
    /// has few entries.
    fn may_join(&self, own: &Slot, other: &Slot) -> bool {
        let is_small = |slot: &Slot| (slot.count as usize) < self.forms.entries() / 2;
        if is_small(own) && is_small(other) {
            return true;
        }
        let bytes = |slot: &Slot| Some(slot.content.as_ref()?.bytes_of_page(self.forms));
        bytes(own).zip(bytes(other)).is_some_and(|(own, other)| own + other <= JOINED)
    }

    /// Leaves that are to be written, from a key on.
    pub(crate) fn dirty_leaves(&self, from: Key, most: usize) -> Vec<Key> {
        self.tree.dirty_of(0, from, most)
    }

    /// Has a leaf that is to be written become one with a neighbour below the same branch, if both have room in one page.
    pub(crate) fn join_leaf(&mut self, at: Key) -> Join {
        let Some((above, _)) = self.tree.above(1, at) else { return Join::Stays };
        let end = self.tree.end(1, above);
        let before = self.tree.places.range(above..at).next_back().map(|(&key, _)| (key, at));
        let behind = self.tree.next(at).filter(|next| *next < end).map(|next| (at, next));
        for (left, right) in before.into_iter().chain(behind) {
            let other = if left == at { right } else { left };
            let (Some(own), Some(slot)) = (self.tree.slot(at), self.tree.slot(other)) else { continue };
            if left.0 != right.0 || !self.may_join(own, slot) {
                continue;
            }
            if let Some(pointer) = slot.pointer.filter(|_| slot.content.is_none()) {
                // Entries far from each other would not fit, and are not read for that.
                if right.1 - left.1 < DENSE_SPAN || !self.forms.dense {
                    return Join::Unread(Page { level: 0, at: other, pointer });
                }
                continue;
            }
            let content =
                |key| self.tree.slot(key).and_then(|slot| slot.content.as_ref()).map(Entries::to_vec);
            let (Some(mut all), Some(mut more)) = (content(left), content(right)) else { continue };
            all.append(&mut more);
            // Changes since were counted by what they may make of each.
            let is_due = |key| self.tree.slot(key).is_some_and(|slot| slot.due > self.freezes);
            let may_grow = all.len() > self.forms.entries() && (is_due(left) || is_due(right));
            if may_grow || leaf_takes(&all, self.forms) < all.len() {
                continue;
            }
            self.tree.soil_leaf(left);
            self.tree.soil_leaf(right);
            let due = self.tree.remove(right).map_or(0, |slot| slot.due);
            self.fill(left, all);
            if let Some(slot) = self.tree.slot_mut(left) {
                slot.due = slot.due.max(due);
            }
            return Join::Joined(left);
        }
        Join::Stays
    }

    /// Parts a branch that is to be written if it names too many pages, or has it become one with a neighbour.
    pub(crate) fn fit_branch(&mut self, level: usize, at: Key) -> Join {
        let freezes = self.freezes + 1;
        let Some(branch) = self.tree.branch(level, at) else { return Join::Stays };
        let (names, due) = (branch.names as usize, branch.due == freezes);
        if names > BRANCH_REFS && level == self.tree.height() && level == usize::from(MAX_LEVELS) {
            // Only somebody else makes so high a tree of so few pages.
            return Join::TooHigh;
        }
        if names > BRANCH_REFS {
            let pieces = self.tree.part(level, at);
            // Changes since may be of each.
            self.due.branches += if due { pieces } else { 0 };
            self.due.upper += if due && level > 1 { pieces } else { 0 };
            return Join::Stays;
        }
        if names >= BRANCH_REFS / 2 { Join::Stays } else { self.tree.join_branch(level, at) }
    }

    /// All of it was written: pages stand elsewhere from now on. These are the next ones of all.
    pub(crate) fn stand(&mut self, moved: &[Moved]) {
        for own in moved {
            self.tree.stands(own);
        }
    }
}

impl Tree {
    /// Pages of a level that are to be written, from a key on.
    pub(crate) fn dirty_of(&self, level: usize, from: Key, most: usize) -> Vec<Key> {
        self.dirty.get(level).into_iter().flat_map(|dirty| dirty.range(from..).take(most)).copied().collect()
    }

    /// All pages that are to be written.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.iter().map(std::collections::BTreeSet::len).sum()
    }

    /// Keys of pages that an open branch names.
    fn named(&self, level: usize, at: Key) -> Vec<Key> {
        let end = self.end(level, at);
        match level {
            1 => self.places.range(at..end).map(|(&key, _)| key).collect(),
            _ => self.branches[level - 2].range(at..end).map(|(&key, _)| key).collect(),
        }
    }

    /// A page by its level and key: whether it stands on the members, its pages, its entries.
    fn counts(&self, level: usize, at: Key) -> (bool, u32, u64) {
        match level {
            0 => self.slot(at).map_or((true, 0, 0), |slot| (slot.pointer.is_some(), 1, slot.count.into())),
            _ => self
                .branch(level, at)
                .map_or((true, 0, 0), |own| (own.pointer.is_some(), own.pages, own.blocks)),
        }
    }

    /// Parts a branch that names too many pages; gives how many there are more.
    fn part(&mut self, level: usize, at: Key) -> usize {
        let named = self.named(level, at);
        // Where all that is too much was never written it was written in order: then all but the last are full.
        let in_order = named[BRANCH_REFS..].iter().all(|&key| !self.counts(level - 1, key).0);
        let pieces = if in_order {
            named.len().div_ceil(BRANCH_REFS)
        } else {
            named.len().div_ceil(BRANCH_REFS * 3 / 4)
        };
        let each = if in_order { BRANCH_REFS } else { named.len().div_ceil(pieces) };
        let due = self.branch(level, at).map_or(0, |own| own.due);
        let mut more = 0;
        for some in named.chunks(each) {
            let of = some.iter().map(|&key| self.counts(level - 1, key));
            let (pages, blocks) = of.fold((1, 0), |(pages, blocks), own| (pages + own.1, blocks + own.2));
            if some[0] == at {
                if let Some(own) = self.branches[level - 1].get_mut(&at) {
                    (own.names, own.pages, own.blocks) = (some.len() as u32, pages, blocks);
                }
                continue;
            }
            let (names, is_open, dirty) = (some.len() as u32, true, true);
            let own =
                Branch { pointer: None, names, pages, blocks, is_open, dirty, due, changed: 0, fresh: 0 };
            self.branches[level - 1].insert(some[0], own);
            self.mark(level, some[0]);
            if level == 1 {
                self.opened.push_back(some[0]);
            }
            more += 1;
        }
        if level == self.height() {
            let all = self.branches[level - 1].values();
            let (pages, blocks) = all.fold((1, 0), |(p, b), own| (p + own.pages, b + own.blocks));
            let names = more as u32 + 1;
            let top = Branch {
                pointer: None,
                names,
                pages,
                blocks,
                is_open: true,
                dirty: true,
                due,
                changed: 0,
                fresh: 0,
            };
            self.branches.push([(at, top)].into());
            self.mark(level + 1, at);
        } else {
            self.soil(level + 1, at);
            if let Some((_, above)) = self.above_mut(level + 1, at) {
                above.names += more as u32;
            }
            self.adjust(level + 1, at, 0, more as i64);
        }
        more
    }

    /// Has a branch become one with a neighbour below the same branch, if each is less than half full. One that is the top and names one
    /// branch alone goes.
    fn join_branch(&mut self, level: usize, at: Key) -> Join {
        if level == self.height() {
            while self.height() > 1 && self.branch(self.height(), at).is_some_and(|top| top.names == 1) {
                self.unmark(self.height(), at);
                let top = self.branches.pop();
                let stood = top.into_iter().flatten().filter(|(_, top)| !top.dirty);
                self.replaced.extend(stood.filter_map(|(_, top)| Some(top.pointer?.address)));
            }
            return Join::Stays;
        }
        let Some((above, _)) = self.above(level + 1, at) else { return Join::Stays };
        let end = self.end(level + 1, above);
        let own = &self.branches[level - 1];
        let before = own.range(above..at).next_back().map(|(&key, _)| (key, at));
        let behind = own.range((at.0, at.1 + 1)..end).next().map(|(&key, _)| (at, key));
        for (left, right) in before.into_iter().chain(behind) {
            let other = if left == at { right } else { left };
            let Some(branch) = self.branch(level, other) else { continue };
            let half = BRANCH_REFS as u32 / 2;
            if !branch.is_open {
                // Of the lowest ones the count of pages tells how many they name.
                let may = level > 1 || branch.pages <= half;
                match self.closed_page(level as u8, other).filter(|_| may) {
                    Some(page) => return Join::Unread(page),
                    None => continue,
                }
            }
            if branch.names >= half {
                continue;
            }
            self.soil(level, left);
            self.soil(level, right);
            let Some(gone) = self.branches[level - 1].remove(&right) else { continue };
            self.unmark(level, right);
            if let Some(own) = self.branches[level - 1].get_mut(&left) {
                own.names += gone.names;
                own.pages += gone.pages - 1;
                own.blocks += gone.blocks;
                own.due = own.due.max(gone.due);
            }
            if let Some((_, above)) = self.above_mut(level + 1, left) {
                above.names -= 1;
            }
            self.adjust(level + 1, left, 0, -1);
            return Join::Joined(left);
        }
        Join::Stays
    }

    /// The pages that an open branch of a level names, with pages at their new places; these are in the order of their keys, and of the level below.
    pub(crate) fn refs(&self, level: usize, at: Key, moved: &[Moved]) -> Vec<Subtree> {
        let first = moved.partition_point(|own| own.at < at);
        let mut moved = moved[first..].iter().peekable();
        let mut refs = Vec::new();
        for key in self.named(level, at) {
            while moved.peek().is_some_and(|own| own.at < key) {
                moved.next();
            }
            let now = moved.peek().filter(|own| own.at == key).map(|own| own.pointer);
            let stood = match level {
                1 => self.slot(key).and_then(|slot| slot.pointer),
                _ => self.branch(level - 1, key).and_then(|own| own.pointer),
            };
            let Some(pointer) = now.or(stood) else { continue };
            refs.push(self.subtree_of(level - 1, key, pointer));
        }
        refs
    }

    /// A page that stands there, as what names it has it.
    pub(crate) fn subtree_of(&self, level: usize, at: Key, pointer: Pointer) -> Subtree {
        let (_, pages, blocks) = self.counts(level, at);
        let ((volume, first), state) = (at, SubtreeState::Live);
        Subtree { volume, first, level: level as u8, state, blocks, pages, pointer }
    }

    /// The top, and where it stands if it was not written just now.
    pub(crate) fn top(&self) -> Option<(Key, Option<Pointer>)> {
        self.branches.last()?.iter().next().map(|(&at, top)| (at, top.pointer))
    }

    /// A page was written.
    fn stands(&mut self, own: &Moved) {
        self.unmark(own.level, own.at);
        if own.level > 0 {
            if let Some(branch) = self.branches[own.level - 1].get_mut(&own.at) {
                (branch.pointer, branch.dirty) = (Some(own.pointer), false);
            }
        } else if let Some(AtKey::Leaf(slot)) = self.places.get_mut(&own.at) {
            (slot.pointer, slot.dirty) = (Some(own.pointer), false);
            self.unwritten = self.unwritten.saturating_sub(slot.bytes());
            self.cached += slot.bytes();
            self.held += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::LeafForms;

    use super::*;

    /// The pages of a level that the first branch above it names: as many as fit.
    fn full(level: u8) -> Vec<Subtree> {
        let (pages, blocks, state) = (u32::from(level) + 1, 1, SubtreeState::Live);
        let own = |n: u64| {
            let (first, pointer) = (n << (7 * level + 7), Pointer { address: Address(n), checksum: 0 });
            Subtree { volume: 1, first, level, state, blocks, pages, pointer }
        };
        (0..BRANCH_REFS as u64).map(own).collect()
    }

    #[test]
    fn a_tree_of_all_levels_gets_no_more() {
        let top = Subtree { level: MAX_LEVELS, ..full(0)[0] };
        let mut map = Map { forms: LeafForms::ALL, tree: Tree::found(top), ..Map::default() };
        for level in (1..=MAX_LEVELS).rev() {
            map.tree.open(level, (1, 0), &full(level - 1));
        }
        let (kind, address) = (LeafKind::Plain, Address(7));
        let entry = LeafEntry { block: 5, node: 1, kind, address, checksum: 0 };
        map.tree.insert((1, 5), Slot::fresh(vec![entry]));
        for level in 1..usize::from(MAX_LEVELS) {
            assert_eq!(map.fit_branch(level, (1, 0)), Join::Stays, "level {level} is parted");
        }
        assert_eq!(map.fit_branch(MAX_LEVELS.into(), (1, 0)), Join::TooHigh);
        assert_eq!(map.tree.height(), usize::from(MAX_LEVELS));
    }
}
