//! Pages that changes of the map will cost the next checkpoint.

use brindle_format::pool::Subtree;

use super::tree::{AtKey, Branch, LAST};
use super::{Key, Map, Page, Slot};
use crate::store::leaf::{Entries, Located};
use crate::store::owed::{Coming, Debt, Owed, SPLIT, Size};

/// Blocks in a row that are in two leaves at most: leaves that were cut hold more.
const RUN: u64 = SPLIT as u64;
/// Blocks that change below a closed branch after which it is read.
const MANY: u32 = 128;
/// Blocks that change of a leaf that is not in memory which are counted one by one; and of one that has been read.
const IN_A_LEAF: usize = 512;
const IN_A_READ_LEAF: usize = 4096;
/// Changes of blocks that a leaf has after which it does not grow any more: it is parted into seven pages by then, which have room for all of
/// its blocks wherever they lie.
const CUTS: u32 = 5 * SPLIT as u32;
/// Pages beside those of changes: where there is no map yet, and a new top.
const BESIDE: usize = 3;

impl Map {
    /// The most pages of the map that the next checkpoint may take, and the one under way, once changes that come have been made.
    pub(crate) fn debt(&self, coming: Coming) -> Debt {
        let due = Owed { leafless: self.leafless(), ..self.due };
        self.debt_of(self.due_before, due, self.now.zeroes.len(), coming)
    }

    /// The same, if all that has changed so far were frozen now.
    pub(crate) fn debt_frozen(&self, coming: Coming) -> Debt {
        self.debt_of(self.due_frozen(), Owed::default(), 0, coming)
    }

    /// Pages of what is due before a freeze, and after it.
    fn debt_of(&self, before: Owed, now: Owed, zeroes: usize, coming: Coming) -> Debt {
        let mut size = self.size();
        let before = before.debt(0, Coming::default(), &mut size);
        let now = now.debt(zeroes, coming, &mut size);
        // Ranges that are frozen, or are about to be.
        let frozen = self.frozen.zeroes.len() + self.now.zeroes.len() - zeroes;
        let dead = now.dead + if frozen > 0 { size.pages() } else { 0 };
        Debt { pages: now.pages + before.pages + BESIDE, dead: dead.min(size.pages()) }
    }

    /// Volumes that have no leaf, or may have none.
    fn leafless(&self) -> usize {
        self.leafless.len() + self.unsure.len()
    }

    /// The most pages that the map has of each level, as far as is known.
    pub(crate) fn size(&self) -> Size {
        let tree = &self.tree;
        let (mut branches, mut closed) = (Size::default().branches, 0usize);
        for (level, all) in tree.branches.iter().enumerate().rev() {
            if let Some(own) = branches.get_mut(level) {
                *own = all.len() + closed;
            }
            // A closed branch of this level has pages of all levels below.
            closed += tree.closed.get(level).map_or(0, |pages| *pages as usize);
        }
        let known: usize = tree.branches.iter().map(std::collections::BTreeMap::len).sum();
        Size { leaves: (tree.totals().0 as usize).saturating_sub(known), branches, height: tree.height() }
    }

    /// All that changes have made due. They are in no more pages than there are now: blocks that are new make those that come.
    pub(super) fn due_frozen(&self) -> Owed {
        let (ends, size) = (2 * self.now.zeroes.len(), self.size());
        let above: usize = size.branches[..size.height].iter().map(|&all| ends.min(all)).sum();
        let (leaves, branches) = (self.due.leaves + ends, self.due.branches + above);
        let fresh = self.due.fresh + self.now.zeroes.len();
        let all =
            self.due_before.and(Owed { leaves, branches, fresh, leafless: self.leafless(), ..self.due });
        let most = size.pages() - size.leaves;
        Owed { leaves: all.leaves.min(size.leaves), branches: all.branches.min(most), ..all }
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
        if self.forms.runs {
            // Until they have been made, others may make leaves of runs of what they are in.
            let is_unread = |key: &Key| matches!(self.tree.place(*key), Some((_, AtKey::Closed(_))));
            return blocks.fold(Coming::default(), |all, key| {
                all.and(Coming { leaves: 1, fresh: 1, unread: usize::from(is_unread(&key)) })
            });
        }
        let (mut coming, mut full) = (Coming::default(), (0, 0)..(0, 0));
        for key in blocks {
            coming.leaves += 1;
            if full.contains(&key) {
                continue;
            }
            match self.tree.place(key) {
                Some((_, AtKey::Closed(_))) => {
                    (coming.fresh, coming.unread) = (coming.fresh + 1, coming.unread + 1);
                }
                Some((at, AtKey::Leaf(slot))) if at.0 == key.0 => match &slot.content {
                    _ if self.is_full(at, slot) => full = at..self.next_leaf(at),
                    Some(entries) if entries.find(key.1).is_some() => {}
                    _ => coming.fresh += 1,
                },
                _ => coming.fresh += 1,
            }
        }
        coming
    }

    /// Where what is behind this leaf begins.
    fn next_leaf(&self, at: Key) -> Key {
        self.tree.next(at).unwrap_or(LAST)
    }

    /// A leaf has all blocks that it can have.
    fn is_full(&self, at: Key, slot: &Slot) -> bool {
        let count = slot.content.as_ref().map_or(slot.count as usize, Entries::len);
        let end = self.next_leaf(at);
        end.0 == at.0 && end.1 - at.1 == count as u64
    }

    /// A leaf may have to grow even for changes of blocks that it has, or is about to have: more blocks than other leaves take lie in runs.
    fn may_grow(&self, slot: &Slot) -> bool {
        let about = if slot.due >= self.freezes { slot.fresh as usize } else { 0 };
        self.forms.runs && slot.count as usize + about > self.forms.entries()
    }

    /// Frozen changes are about to go into the leaf of a block.
    fn is_changing(&self, key: Key) -> bool {
        if self.frozen.blocks.is_empty() {
            return false;
        }
        let from = self.tree.place(key).map_or((key.0, 0), |(at, _)| at.max((key.0, 0)));
        let to = self.next_leaf(key).min((key.0.saturating_add(1), 0));
        self.frozen.blocks.range(from..to).next().is_some()
    }

    /// Whether a block that changes may be in a leaf of its own: frozen changes are about to go into its leaf, and may make several of it.
    /// Blocks in a row share one. Two of them may be on either side of a cut, and those that follow are on a side of the next cut.
    fn may_part(&self, key: Key) -> bool {
        let changes = |block: Option<u64>| block.is_some_and(|n| self.now.blocks.contains_key(&(key.0, n)));
        let goes_on = (changes(key.1.checked_sub(1)) && changes(key.1.checked_sub(2)))
            || (changes(key.1.checked_add(1)) && changes(key.1.checked_add(2)));
        !goes_on || key.1.is_multiple_of(RUN)
    }

    /// The next checkpoint changes the leaf of a block; gives where the block is by it, if it is in memory.
    pub(super) fn touch_for(&mut self, key: Key, freezes: u64, is_first: bool) -> Option<Located> {
        let changing = is_first && self.is_changing(key);
        let parts = changing && self.may_part(key);
        if parts {
            self.due.leaves += 1;
            self.due.branches += self.tree.height();
            self.due.upper += self.tree.height().saturating_sub(1);
        }
        let is_zeroes = self.frozen.is_zeroes(key);
        match self.tree.places.range_mut(..=key).next_back() {
            Some((&at, AtKey::Leaf(slot))) if at.0 == key.0 => {
                let is_new = !parts && core::mem::replace(&mut slot.due, freezes) != freezes;
                let below = slot.content.as_ref().map(|entries| entries.located(key.1));
                if is_new {
                    (slot.fresh, slot.cuts) = (0, 0);
                    self.due.leaves += 1;
                    self.soil_due(at, freezes);
                }
                let is_there = match below {
                    Some(below) => below != Located::Zeroes,
                    None => self.tree.slot(at).is_some_and(|slot| self.is_full(at, slot)),
                };
                let cuts = changing || self.tree.slot(at).is_some_and(|slot| self.may_grow(slot));
                if is_first && (!is_there || is_zeroes) {
                    self.due.fresh += 1;
                    if let Some(slot) = self.tree.slot_mut(at) {
                        slot.fresh += 1;
                    }
                } else if is_first && cuts && self.forms.runs {
                    self.cuts_run(at, changing);
                }
                below
            }
            Some((&at, &mut AtKey::Closed(level))) => {
                if at.0 != key.0 {
                    self.unsure.insert(key.0);
                }
                if is_first {
                    self.soil_closed(level.into(), at, freezes);
                }
                None
            }
            _ => {
                self.leafless.insert(key.0);
                self.due.fresh += usize::from(is_first);
                self.soil_due(key, freezes);
                None
            }
        }
    }

    /// A change of a block that a leaf has may cut one of its runs. If changes are about to make several leaves of it, each of them may grow.
    fn cuts_run(&mut self, at: Key, changing: bool) {
        if let Some(slot) = self.tree.slot_mut(at)
            && (changing || slot.cuts < CUTS)
        {
            slot.cuts += 1;
            self.due.fresh += 1;
        }
    }

    /// Branches above a key are to be written by the next checkpoint.
    fn soil_due(&mut self, key: Key, freezes: u64) {
        for level in 1..=self.tree.height() {
            let Some((_, branch)) = self.tree.above_mut(level, key) else { return };
            if core::mem::replace(&mut branch.due, freezes) == freezes {
                return;
            }
            self.due.branches += 1;
            self.due.upper += usize::from(level > 1);
        }
    }

    /// One more block changes below a branch that is closed: it may be of one more leaf.
    fn soil_closed(&mut self, level: usize, at: Key, freezes: u64) {
        let Some(branch) = self.tree.branches[level - 1].get_mut(&at) else { return };
        if core::mem::replace(&mut branch.due, freezes) != freezes {
            (branch.changed, branch.fresh) = (0, 0);
            self.due.branches += 1;
            self.due.upper += usize::from(level > 1);
            for level in level + 1..=self.tree.height() {
                let Some((_, above)) = self.tree.above_mut(level, at) else { break };
                if core::mem::replace(&mut above.due, freezes) == freezes {
                    break;
                }
                self.due.branches += 1;
                self.due.upper += 1;
            }
        }
        let Some(branch) = self.tree.branches[level - 1].get_mut(&at) else { return };
        branch.fresh += 1;
        self.due.fresh += 1;
        if branch.fresh.is_multiple_of(MANY) {
            self.many = Some((level as u8, at));
        }
        if branch.changed + 1 < branch.pages {
            branch.changed += 1;
            self.due.leaves += 1;
            self.due.branches += level - 1;
            self.due.upper += level.saturating_sub(2);
        }
    }

    /// The next branch that is closed, and below which more may be due than changes, after another one: higher levels come first.
    pub(crate) fn unsure(&self, before: Option<Page>) -> Option<Page> {
        let (top, behind) = before
            .map_or((self.tree.height(), (0, 0)), |page| (page.level.into(), (page.at.0, page.at.1 + 1)));
        let is_unsure = |own: &Branch| !own.is_open && own.due == self.freezes + 1 && own.fresh > 0;
        (1..=top.min(self.tree.height())).rev().find_map(|level| {
            let from = if level == top { behind } else { (0, 0) };
            let (&at, _) = self.tree.branches[level - 1].range(from..).find(|(_, own)| is_unsure(own))?;
            self.tree.closed_page(level as u8, at)
        })
    }

    /// A branch that is closed, and below which many blocks have changed lately: it is to be read, so that it is known what they cost.
    pub(crate) fn take_many(&mut self) -> Option<Page> {
        let (level, at) = self.many.take()?;
        self.tree.branch(level.into(), at).filter(|own| !own.is_open)?;
        self.tree.closed_page(level, at)
    }

    /// A branch has been read: which of the pages that it names change is known from now on.
    pub(super) fn divide_due(&mut self, level: u8, at: Key, refs: &[Subtree]) {
        let (level, freezes) = (usize::from(level), self.freezes + 1);
        let Some(branch) = self.tree.branches[level - 1].get_mut(&at) else { return };
        let changed = core::mem::take(&mut branch.changed) as usize;
        let fresh = core::mem::take(&mut branch.fresh) as usize;
        if branch.due != freezes || changed + fresh == 0 {
            return;
        }
        self.due.leaves = self.due.leaves.saturating_sub(changed);
        self.due.branches = self.due.branches.saturating_sub(changed * (level - 1));
        self.due.upper = self.due.upper.saturating_sub(changed * level.saturating_sub(2));
        self.due.fresh = self.due.fresh.saturating_sub(fresh);
        // Together leaves lack no more blocks than were counted before.
        let mut left = fresh;
        for (n, own) in refs.iter().enumerate() {
            let end = refs.get(n + 1).map_or_else(|| self.tree.end(level, at), Subtree::key);
            let few = if level == 1 { IN_A_LEAF } else { usize::MAX };
            let changes = self.now.blocks.range(own.key()..end).take(few).count();
            if changes == 0 {
                continue;
            }
            if level == 1 {
                let (mut is_full, mut may_grow) = (false, false);
                if let Some(slot) = self.tree.slot(own.key()) {
                    (is_full, may_grow) = (self.is_full(own.key(), slot), self.may_grow(slot));
                }
                let may_lack = if changes < few { changes.min(left) } else { left };
                let fresh = match (is_full, may_grow) {
                    (true, false) => 0,
                    (true, true) => may_lack.min(CUTS as usize),
                    (false, _) => may_lack,
                };
                left -= fresh;
                self.due.leaves += 1;
                self.due.fresh += fresh;
                if let Some(slot) = self.tree.slot_mut(own.key()) {
                    (slot.due, slot.fresh, slot.cuts) = (freezes, fresh as u32, 0);
                }
            } else if let Some(below) = self.tree.branches[level - 2].get_mut(&own.key()) {
                let most = changes.min(own.pages as usize - 1);
                (below.due, below.changed, below.fresh) = (freezes, most as u32, changes as u32);
                self.due.leaves += most;
                self.due.branches += 1 + most * (level - 2);
                self.due.upper += usize::from(level > 2) + most * level.saturating_sub(3);
                self.due.fresh += changes;
            }
        }
        let tree = &self.tree;
        let has_leaf = |volume: u32| {
            let own = tree.places.range((volume, 0)..=(volume, u64::MAX));
            own.into_iter().any(|(_, place)| matches!(place, AtKey::Leaf(_)))
        };
        self.unsure.retain(|&volume| !has_leaf(volume));
    }

    /// A leaf has been read: it is known from now on which of the blocks that change it lacks. Until then all were counted that it might lack.
    pub(super) fn count_fresh(&mut self, at: Key) {
        let end = self.next_leaf(at).min((at.0.saturating_add(1), 0));
        let is_unsure = |slot: &&Slot| slot.due == self.freezes + 1 && slot.fresh > 0;
        let Some(slot) = self.tree.slot(at).filter(is_unsure) else { return };
        let Some(entries) = &slot.content else { return };
        let lacks =
            |key: &Key| entries.find(key.1).is_none() || self.frozen.find(*key) == Some(Located::Zeroes);
        let (mut changes, mut fresh) = (0, 0);
        for key in self.now.blocks.range(at..end).map(|(key, _)| key).take(IN_A_READ_LEAF) {
            (changes, fresh) = (changes + 1, fresh + u32::from(lacks(key)));
        }
        // In a leaf that may grow, changes of blocks that it has count, too, since they may cut its runs.
        if self.forms.runs && slot.count as usize + fresh as usize > self.forms.entries() {
            return;
        }
        let fewer = slot.fresh.saturating_sub(fresh);
        // Of more than those a small part can be blocks that it has.
        if changes < IN_A_READ_LEAF && fewer > 0 {
            self.due.fresh = self.due.fresh.saturating_sub(fewer as usize);
            if let Some(slot) = self.tree.slot_mut(at) {
                slot.fresh -= fewer;
            }
        }
    }

    /// Leaves that are not in memory, and lack fewer of the blocks that change than are counted, maybe: of so many leaves that change, from a
    /// key on. And the key at which the next ones begin.
    pub(crate) fn unsure_leaves(&self, mut from: Key, most: usize) -> (Vec<Page>, Option<Key>) {
        let mut found = Vec::new();
        let is_unsure =
            |slot: &Slot| slot.content.is_none() && slot.due == self.freezes + 1 && slot.fresh > 0;
        for _ in 0..most {
            let Some((&key, _)) = self.now.blocks.range(from..).next() else { return (found, None) };
            let leaf = self.tree.leaf(key).filter(|(_, slot)| is_unsure(slot));
            found.extend(leaf.and_then(|(at, slot)| Some(Page { level: 0, at, pointer: slot.pointer? })));
            let Some(next) = self.tree.next(key) else { return (found, None) };
            from = next;
        }
        (found, Some(from))
    }

    /// A page is to be written elsewhere; its content is in memory.
    pub(crate) fn touch(&mut self, level: u8, at: Key) {
        let before = self.tree.dirty_pages();
        match level {
            0 => self.tree.soil_leaf(at),
            _ => self.tree.soil(level.into(), at),
        }
        let more = self.tree.dirty_pages() - before;
        self.due_before.leaves += usize::from(level == 0 && more > 0);
        self.due_before.branches += more.saturating_sub(usize::from(level == 0));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use brindle_format::pool::LeafForms;
    use brindle_format::pool::place::Address;

    use super::super::Tree;
    use super::super::tests::drain_with;
    use super::*;

    fn at(n: u64) -> Located {
        Located::At(Address(n), n as u32)
    }

    /// Puts frozen changes into leaves, and takes these for written.
    fn write(map: &mut Map) -> usize {
        while let Some(key) = map.frozen_block() {
            let leaf = map.leaf_for(key).expect("all of it is in memory");
            let _before = map.merge(leaf, 1);
        }
        map.thawed();
        let dirty = super::super::tests::write(map);
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
    fn what_is_due_stays_as_it_is_while_branches_are_forgotten_and_read_again() {
        let mut map = Map { forms: LeafForms::ALL, ..Map::default() };
        set(&mut map, (0..8000).map(|n| 3 * n));
        map.freeze();
        write(&mut map);
        // Blocks that leaves have, and some that they don't.
        set(&mut map, (0..900).map(|n| 24 * n));
        set(&mut map, (0..30).map(|n| 600 * n + 1));
        let (due, owed) = (map.due, map.debt(Coming::default()).pages);
        assert_eq!(due.fresh, 30);
        let top = map.tree.branches[0].keys().next().copied().expect("one branch");
        for round in 0..4 {
            let refs = map.tree.refs(1, top, &[]);
            for _ in 0..3 {
                let _enough = map.tree.shrink(0, 1, None);
            }
            assert!(map.tree.branches[0].values().all(|branch| !branch.is_open));
            assert_eq!((map.due, map.debt(Coming::default()).pages), (due, owed), "closed, round {round}");
            map.tree.open(1, top, &refs);
            map.divide_due(1, top, &refs);
            assert_eq!((map.due, map.debt(Coming::default()).pages), (due, owed), "read, round {round}");
        }
        // One more, in a leaf of which others change.
        set(&mut map, 602..603);
        assert_eq!(map.due.leaves, due.leaves);
    }

    /// Blocks that were written anew at random, in leaves with holes: a run had these in memory, and recovery has not.
    #[test]
    fn what_recovery_finds_due_is_what_the_run_did_once_leaves_have_been_read() {
        let mut run = Map { forms: LeafForms::ALL, ..Map::default() };
        set(&mut run, (0..8000).map(|n| 3 * n));
        run.freeze();
        write(&mut run);
        let (top, stood) = run.tree.top().expect("it has a top");
        let (refs, top) =
            (run.tree.refs(1, top, &[]), run.tree.subtree_of(1, top, stood.expect("it stands")));
        let pages = refs.iter().map(|own| {
            let entries = run.tree.entries(own.key());
            (own.key(), brindle_format::pool::Leaf(entries).encode(1, LeafForms::ALL).expect("it fits"))
        });
        let pages: BTreeMap<Key, Vec<u8>> = pages.collect();
        let mut found = Map { tree: Tree::found(top), ..Map::found(LeafForms::ALL, Vec::new()) };
        found.tree.open(1, top.key(), &refs);
        for map in [&mut run, &mut found] {
            set(map, (0..1000).map(|n| 24 * n));
            set(map, (0..10).map(|n| 2400 * n + 1));
        }
        let owed = |map: &Map| map.debt(Coming::default()).pages;
        assert!(owed(&found) > owed(&run) + 20, "{} owed, {} by recovery", owed(&run), owed(&found));
        let mut from = Some((0, 0));
        while let Some(begin) = from {
            let (some, next) = found.unsure_leaves(begin, 3);
            assert!(some.len() <= 3);
            for page in some {
                found.loaded(page, &pages[&page.at]).expect("it is that leaf");
                found.tree.forget_leaf(page.at);
            }
            from = next;
        }
        assert_eq!((found.due, owed(&found)), (run.due, owed(&run)));
        assert_eq!(
            found.unsure_leaves((0, 0), 100).0.len(),
            10,
            "these lack blocks for sure, and may be read again"
        );
    }

    #[test]
    fn changes_that_come_while_a_leaf_is_parted_are_counted_for_each_part() {
        for first in [0, 1] {
            let mut map = Map { forms: LeafForms::ALL, ..Map::default() };
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

    /// Data in order, overwritten at random and cut by discards: whatever happens, also while leaves are changed, is counted before.
    #[test]
    fn a_checkpoint_takes_no_more_pages_than_were_owed() {
        let dense = LeafForms { dense: true, runs: false };
        for (forms, seed) in [dense, LeafForms::ALL].into_iter().cycle().zip(1..60u64) {
            let mut state = seed;
            let mut next = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let (mut map, mut place) = (Map { forms, ..Map::default() }, 0);
            let mut change = |map: &mut Map, rounds: u64| {
                for _ in 0..next(rounds) {
                    let (from, count) = (next(12_000), 1 + next(300));
                    match next(6) {
                        0 => {
                            let _changes = map.clear(1, from, from + count);
                        }
                        1 | 2 => {
                            for block in from..from + 8 * count {
                                place += 1;
                                let _before = map.set((1, block), at(place));
                            }
                        }
                        n => {
                            let wide = if n == 3 { 900 } else { 12_000 };
                            for _ in 0..count {
                                place += 3;
                                let _before = map.set((1, from + next(wide)), at(place));
                            }
                        }
                    }
                }
            };
            for round in 0..30 {
                change(&mut map, 5);
                let owed = map.debt(Coming::default()).pages;
                map.freeze();
                change(&mut map, 3);
                drain_with(&mut map, &mut |_, page| panic!("{page:?} is in memory"));
                let written = super::super::tests::write(&mut map);
                assert!(written <= owed, "{written} written, {owed} owed: seed {seed}, round {round}");
                let _paid = map.pay_debt();
            }
        }
    }

    #[test]
    fn a_leaf_of_runs_that_is_overwritten_owes_what_it_may_become() {
        let mut map = Map { forms: LeafForms::ALL, ..Map::default() };
        set(&mut map, 0..40_000);
        map.freeze();
        assert_eq!(write(&mut map), 41, "one run, and a branch above the leaves");
        let beside = map.debt(Coming::default()).pages;
        for n in [1, 8, 100, 1000, 20_000u64] {
            for n in 0..n {
                let _before = map.set((1, n * 7919 % 40_000), at(1 << 30 | n << 2));
            }
            let owed = map.debt(Coming::default()).pages - beside;
            assert!(owed <= 9 * n as usize && owed < 450, "{n} changes: {owed} owed");
            map.freeze();
            let written = write(&mut map);
            assert!(written <= owed, "{n} changes: {written} written, {owed} owed");
        }
        // No more than leaves of other kinds would take that are three quarters full.
        assert!(map.tree.totals().0 < 40_000 / 230, "{} pages", map.tree.totals().0);
    }
}
