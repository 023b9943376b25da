//! Where each block of each volume lies: changes in memory, over leaves that stand on the members.
//!
//! A look-up asks the changes first, then those that the checkpoint under way has not put into leaves yet, then the leaf. Each layer
//! has ranges of zeroes beneath its blocks.

mod due;
mod give;
mod grow;
mod hidden;
#[cfg(test)]
mod large;
mod layer;
mod lost;
mod memory;
mod tree;
mod walk;

use std::collections::BTreeSet;

use brindle_format::pool::place::Address;
use brindle_format::pool::{LeafEntry, LeafForms, Subtree, SubtreeState};

use crate::store::leaf::{Entries, Located};
use crate::store::owed::Owed;

pub(crate) use give::GiveStep;
pub(crate) use grow::{Join, Moved};
use layer::Layer;
use memory::Seen;
use tree::AtKey;
pub(crate) use tree::{Known, LAST, Page, Slot, Tree};

/// A block of a volume: the volume's number, and which block.
pub(crate) type Key = (u32, u64);

/// The place of a block among locks: a volume has fewer than `1 << 44` blocks.
pub(crate) fn lock_of(key: Key) -> u64 {
    u64::from(key.0) << 44 | key.1
}

/// The answer of what is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The block is there.
    Here(Located),
    /// This page has to be read first.
    Unread(Page),
}

/// The next block of which there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It may be this one.
    Block(u64),
    /// This page has to be read first.
    Unread(Page),
    /// There is none.
    Nothing,
}

/// A page that was given back with all below it: blocks of its leaves still count in their segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead(pub(crate) Subtree);

impl Dead {
    /// Its entries in segments that were used again do not count: they are of an earlier use.
    pub(crate) fn is_outlived(self) -> bool {
        self.0.state == SubtreeState::Outlived
    }

    /// A page that it names.
    pub(crate) fn below(self, own: Subtree) -> Self {
        Self(Subtree { state: self.0.state, ..own })
    }
}

/// The end of a leaf: of a range without one, of all that a volume can have.
pub(crate) const ENDLESS: u64 = 1 << 48;

/// Where a block was that is elsewhere from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Among the changes.
    Change(Located),
    /// In what the next checkpoint brings up to date; told only if that is in memory.
    Below(Located),
    /// Nowhere, or that is not known yet.
    Nothing,
}

/// The map.
#[derive(Default)]
pub(crate) struct Map {
    /// Kinds of leaves that there may be.
    pub(crate) forms: LeafForms,
    now: Layer,
    frozen: Layer,
    pub(crate) tree: Tree,
    /// Pages that were given back, and not gone through yet.
    pub(crate) dead: Vec<Dead>,
    /// Freezes so far; the pages that changes since the last one cost, and those of earlier changes that have not been written.
    freezes: u64,
    due: Owed,
    due_before: Owed,
    /// Volumes without leaves that were written to since the last freeze.
    leafless: BTreeSet<u32>,
    /// The same of volumes that may have some: branches above these have not been read.
    unsure: BTreeSet<u32>,
    /// A branch below which many blocks have changed, and that is closed: its level and key.
    many: Option<(u8, Key)>,
    /// How much of it was in memory, and was found there.
    seen: Seen,
    /// Blocks in leaves that the changes say are zeroes; and those that the checkpoint under way takes out.
    hidden_now: u64,
    hidden_before: u64,
}

impl Map {
    /// One of which the pages below the top are read when they are asked for.
    pub(crate) fn found(forms: LeafForms, dead: Vec<Dead>) -> Self {
        Self { forms, dead, ..Self::default() }
    }

    /// Changes that are in memory only.
    pub(crate) fn changes(&self) -> usize {
        self.now.blocks.len() + self.now.zeroes.len()
    }

    pub(crate) fn find(&mut self, key: Key) -> Found {
        let layers = self.now.find(key).or_else(|| self.frozen.find(key));
        if let Some(found) = layers {
            return Found::Here(found);
        }
        match self.tree.places.range_mut(..=key).next_back() {
            Some((&at, AtKey::Closed(level))) => {
                let level = *level;
                self.tree.closed_page(level, at).map_or(Found::Here(Located::Zeroes), Found::Unread)
            }
            Some((&at, AtKey::Leaf(slot))) if at.0 == key.0 => match (&slot.content, slot.pointer) {
                (Some(entries), _) => {
                    slot.used = true;
                    Found::Here(entries.located(key.1))
                }
                (None, Some(pointer)) => Found::Unread(Page { level: 0, at, pointer }),
                (None, None) => Found::Here(Located::Zeroes),
            },
            _ => Found::Here(Located::Zeroes),
        }
    }

    /// A block is elsewhere from now on; gives where it was: among the changes, or according to what else is in memory.
    pub(crate) fn set(&mut self, key: Key, to: Located) -> Before {
        let (now, freezes) = (self.now.blocks.insert(key, to), self.freezes + 1);
        let zeroes = now.is_none() && self.now.is_zeroes(key);
        // Recovery alone finds one in a segment that was used again: else the layer has the block.
        let below = self
            .touch_for(key, freezes, now.is_none())
            .filter(|below| below.segment().is_none_or(|n| !self.now.reused.contains(&n)));
        match now {
            Some(now) => Before::Change(now),
            None if zeroes => Before::Nothing,
            None => self.frozen.find(key).or(below).map_or(Before::Nothing, Before::Below),
        }
    }

    /// Blocks are zeroes from now on; gives where they were among the changes.
    pub(crate) fn clear(&mut self, volume: u32, from: u64, to: u64) -> Vec<Located> {
        self.hide(volume, from, to);
        self.now.clear(volume, from, to)
    }

    /// All changes go into leaves from now on; later ones are kept apart. What was frozen before is in leaves already.
    pub(crate) fn freeze(&mut self) {
        debug_assert!(self.is_thawed());
        self.note_bytes();
        self.due_before = self.due_frozen();
        self.due = Owed::default();
        self.leafless.clear();
        self.unsure.clear();
        self.frozen = core::mem::take(&mut self.now);
        self.freezes += 1;
        self.hidden_is_frozen();
    }

    /// Leaves have all that was frozen.
    pub(crate) fn is_thawed(&self) -> bool {
        let frozen = &self.frozen;
        frozen.blocks.is_empty() && frozen.zeroes.is_empty() && frozen.reused.is_empty()
    }

    /// All that was frozen is in leaves: these name nothing of an earlier use any more.
    pub(crate) fn thawed(&mut self) {
        debug_assert!(self.frozen.blocks.is_empty() && self.frozen.zeroes.is_empty());
        self.frozen.reused.clear();
        self.hidden_before = 0;
    }

    /// There are leaves that were given back, and name blocks of an earlier use.
    pub(crate) fn has_outlived(&self) -> bool {
        self.dead.iter().any(|dead| dead.is_outlived())
    }

    /// Segments are used again, of whose blocks the changes have all elsewhere.
    pub(crate) fn reuse(&mut self, segments: impl IntoIterator<Item = u32>) {
        debug_assert!(self.is_thawed());
        self.now.reused.extend(segments);
    }

    /// An address that a leaf named is in a segment that was used again since: the block counts there no more.
    pub(crate) fn is_of_before(&self, address: Address) -> bool {
        self.frozen.reused.contains(&address.segment())
    }

    /// A range of zeroes that leaves do not know yet.
    pub(crate) fn frozen_zeroes(&self) -> Option<(Key, u64)> {
        self.frozen.zeroes.first_key_value().map(|(&key, &end)| (key, end))
    }

    /// Leaves know it.
    pub(crate) fn thaw_zeroes(&mut self, key: Key) {
        self.frozen.zeroes.remove(&key);
    }

    /// Pages that have to be read before the next blocks can go into leaves: no more than so many.
    pub(crate) fn frozen_pages(&self, most: usize) -> Vec<Page> {
        let (mut found, mut from) = (Vec::new(), (0, 0));
        for _ in 0..most {
            let Some((&key, _)) = self.frozen.blocks.range(from..).next() else { break };
            found.extend(self.unread(key));
            let Some(next) = self.tree.next(key) else { break };
            from = next;
        }
        found
    }

    /// The page that has to be read before a block can go into its leaf.
    fn unread(&self, key: Key) -> Option<Page> {
        match self.tree.place(key)? {
            (at, AtKey::Closed(level)) => self.tree.closed_page(*level, at),
            (at, AtKey::Leaf(slot)) if at.0 == key.0 && slot.content.is_none() => {
                Some(Page { level: 0, at, pointer: slot.pointer? })
            }
            _ => None,
        }
    }

    /// The first block that no leaf on the members has yet.
    pub(crate) fn frozen_block(&self) -> Option<Key> {
        self.frozen.blocks.keys().next().copied()
    }

    /// The next block of a volume from one on that anything is said of: of zeroes nothing has to be.
    pub(crate) fn next_of(&self, volume: u32, from: u64) -> Next {
        let in_layer = |layer: &Layer| {
            let (key, _) = layer.blocks.range((volume, from)..(volume, ENDLESS)).next()?;
            Some(key.1)
        };
        let change = [&self.now, &self.frozen].into_iter().filter_map(in_layer).min();
        let first = self.tree.places.range(..=(volume, from)).next_back();
        let rest = self.tree.places.range((volume, from + 1)..(volume, ENDLESS));
        for (&at, place) in first.into_iter().chain(rest) {
            if at.0 == volume && change.is_some_and(|change| change < at.1) {
                break;
            }
            match place {
                AtKey::Closed(level) => {
                    let page = self.tree.closed_page(*level, at);
                    return page.map_or(Next::Nothing, Next::Unread);
                }
                AtKey::Leaf(slot) if at.0 == volume => match (&slot.content, slot.pointer) {
                    (Some(entries), _) => {
                        if let Some(block) = entries.block(entries.before(from)) {
                            return Next::Block(change.map_or(block, |change| change.min(block)));
                        }
                    }
                    (None, Some(pointer)) => return Next::Unread(Page { level: 0, at, pointer }),
                    (None, None) => {}
                },
                AtKey::Leaf(_) => {}
            }
        }
        change.map_or(Next::Nothing, Next::Block)
    }

    /// Takes a leaf or a closed branch out that holds nothing any more; gives where its blocks were, if it is in memory. Else it is dead
    /// from now on.
    pub(crate) fn give_up(&mut self, at: Key) -> Vec<Located> {
        match self.tree.places.get(&at) {
            Some(&AtKey::Closed(level)) => {
                let own = self.tree.closed_page(level, at).and_then(|page| self.tree.subtree(page));
                if let Some((own, _)) = own {
                    self.tree.remove_closed(level, at);
                    self.has_died(own);
                }
                Vec::new()
            }
            Some(AtKey::Leaf(_)) => self.give_up_leaf(at),
            None => Vec::new(),
        }
    }

    fn give_up_leaf(&mut self, at: Key) -> Vec<Located> {
        let page = |slot: &Slot| slot.pointer.map(|pointer| Page { level: 0, at, pointer });
        let own = self.tree.slot(at).and_then(page).and_then(|page| self.tree.subtree(page));
        if let Some((own, _)) = own {
            self.tree.remove(at);
            self.has_died(own);
            return Vec::new();
        }
        let Some(slot) = self.tree.remove(at) else { return Vec::new() };
        if let Some(pointer) = slot.pointer.filter(|_| !slot.dirty) {
            self.tree.replaced.push(pointer.address);
        }
        let gone: Vec<Located> = slot.content.iter().flat_map(Entries::all).collect();
        self.hidden_before = self.hidden_before.saturating_sub(gone.len() as u64);
        gone
    }

    fn has_died(&mut self, own: Subtree) {
        let outlived = !self.frozen.reused.is_empty() || !self.now.reused.is_empty();
        self.hidden_before = self.hidden_before.saturating_sub(own.blocks);
        let state = if outlived { SubtreeState::Outlived } else { SubtreeState::Dead };
        self.dead.push(Dead(Subtree { state, ..own }));
    }

    /// Takes a range out of a leaf whose content is in memory; gives where its blocks were.
    pub(crate) fn cut(&mut self, at: Key, from: u64, to: u64) -> Vec<Located> {
        let Some(entries) = self.tree.slot(at).and_then(|slot| slot.content.as_ref()) else {
            return Vec::new();
        };
        let cut = entries.before(from)..entries.before(to);
        let gone: Vec<Located> = cut.clone().map(|at| entries.at(at)).collect();
        self.hidden_before = self.hidden_before.saturating_sub(gone.len() as u64);
        if !gone.is_empty() {
            let mut all = entries.to_vec();
            all.drain(cut);
            self.fill(at, all);
            // Of one run two may be left.
            self.split(at, false);
        }
        gone
    }

    /// A leaf has these entries from now on; one without any is gone.
    fn fill(&mut self, at: Key, entries: Vec<LeafEntry>) {
        self.tree.soil_leaf(at);
        if entries.is_empty() {
            self.tree.remove(at);
            return;
        }
        let (mut before, mut now) = (0, 0);
        if let Some(slot) = self.tree.slot_mut(at) {
            before = slot.bytes();
            slot.content = Some(entries.into());
            now = slot.bytes();
        }
        self.tree.unwritten = (self.tree.unwritten + now).saturating_sub(before);
        self.tree.recount(at);
    }

    /// The key at which the leaf begins that is to hold a block; a new one if its volume has none before.
    ///
    /// # Errors
    /// A page that has to be read first.
    pub(crate) fn leaf_for(&mut self, key: Key) -> Result<Key, Page> {
        if let Some(page) = self.unread(key) {
            return Err(page);
        }
        if let Some((at, _)) = self.tree.leaf(key) {
            return Ok(at);
        }
        // Before all others: the branches above those name it.
        let at = (key.0, 0);
        if self.tree.place(at).is_none()
            && let Some((&first, AtKey::Closed(level))) = self.tree.places.first_key_value()
            && let Some(page) = self.tree.closed_page(*level, first)
        {
            return Err(page);
        }
        self.tree.insert(at, Slot::fresh(Vec::new()));
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use brindle_format::pool::Pointer;

    use super::*;

    fn at(n: u64) -> Located {
        Located::At(Address(n), n as u32)
    }

    /// All that is to be written stands somewhere; gives how many pages that are.
    pub(super) fn write(map: &mut Map) -> usize {
        let mut from = (0, 0);
        while let Some(&at) = map.dirty_leaves(from, 1).first() {
            let _joined = map.join_leaf(at);
            from = (at.0, at.1 + 1);
        }
        let mut level = 1;
        while level <= map.tree.height() {
            for at in map.tree.dirty_of(level, (0, 0), usize::MAX) {
                let _ = map.fit_branch(level, at);
            }
            level += 1;
        }
        let mut pages = 0;
        for level in 0..=map.tree.height() {
            let moved = map.tree.dirty_of(level, (0, 0), usize::MAX).into_iter().map(|at| {
                pages += 1;
                let pointer = Pointer { address: Address(pages as u64), checksum: 0 };
                Moved { level, at, pointer }
            });
            let moved: Vec<Moved> = moved.collect();
            map.stand(&moved);
        }
        map.tree.replaced.clear();
        assert_eq!(map.tree.dirty_pages(), 0);
        is_sound(map);
        pages
    }

    /// Branches name what there is, and count it.
    fn is_sound(map: &Map) {
        let tree = &map.tree;
        assert!(tree.branches.last().is_none_or(|top| top.len() == 1), "one top");
        for level in 1..=tree.height() {
            for (&at, branch) in tree.branches[level - 1].iter().filter(|(_, own)| own.is_open) {
                let refs = tree.refs(level, at, &[]);
                assert!(!refs.is_empty() && refs.len() <= brindle_format::pool::BRANCH_REFS);
                assert_eq!((refs[0].key(), refs.len()), (at, branch.names as usize), "level {level}");
                let blocks: u64 = refs.iter().map(|own| own.blocks).sum();
                let pages: u32 = refs.iter().map(|own| own.pages).sum();
                assert_eq!((blocks, pages + 1), (branch.blocks, branch.pages), "level {level} at {at:?}");
            }
        }
    }

    /// Puts all changes into leaves; pages are read by this.
    pub(super) fn merge_with(map: &mut Map, read: &mut dyn FnMut(&mut Map, Page)) {
        map.freeze();
        drain_with(map, read);
    }

    /// The same of changes that are frozen.
    pub(super) fn drain_with(map: &mut Map, read: &mut dyn FnMut(&mut Map, Page)) {
        while let Some((key, end)) = map.frozen_zeroes() {
            let mut from = key.1;
            while from < end {
                match map.step_of((key.0, from), map.stop_of(key.0, end)) {
                    GiveStep::Nothing => break,
                    GiveStep::Fold { level, at } => {
                        let _closed = map.fold(level, at);
                    }
                    GiveStep::GiveUp { at, next } => {
                        let _gone = map.give_up(at);
                        from = next;
                    }
                    GiveStep::Cut { at, next } => {
                        let _gone = map.cut(at, key.1, end);
                        from = next;
                    }
                    GiveStep::Unread(page) => read(map, page),
                }
            }
            map.thaw_zeroes(key);
        }
        while let Some(key) = map.frozen_block() {
            match map.leaf_for(key) {
                Ok(leaf) => {
                    let _before = map.merge(leaf, 1);
                }
                Err(page) => read(map, page),
            }
        }
        map.thawed();
    }

    fn merge_all(map: &mut Map) {
        merge_with(map, &mut |_, page| panic!("all of it is in memory, but for {page:?}"));
        if map.freezes.is_multiple_of(3) {
            write(map);
        }
    }

    #[test]
    fn what_was_set_last_is_found_whichever_layer_it_is_in() {
        let dense = LeafForms { dense: true, runs: false };
        for (forms, most, least) in
            [(LeafForms::default(), 169, 5), (dense, 337, 2), (LeafForms::ALL, 1009, 2)]
        {
            what_was_set_last_is_found(Map { forms, ..Map::default() }, most, least);
        }
    }

    fn what_was_set_last_is_found(mut map: Map, most: usize, least: usize) {
        let mut model: BTreeMap<Key, Located> = BTreeMap::new();
        let mut state = 7u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for step in 0..20_000u64 {
            let key = (1 + next(2) as u32, next(1500));
            match next(40) {
                0 => {
                    let end = key.1 + 1 + next(300);
                    let _ = map.clear(key.0, key.1, end);
                    model.retain(|at, _| at.0 != key.0 || !(key.1..end).contains(&at.1));
                }
                1 if step % 3 == 0 => merge_all(&mut map),
                _ => {
                    let _ = map.set(key, at(step));
                    model.insert(key, at(step));
                }
            }
            let from = (1 + (step % 2) as u32, step * 7 % 1500);
            let there = model.range(from..(from.0, ENDLESS)).next().map(|(key, _)| key.1);
            let mut at = from.1;
            // Blocks that are zeroes by now may be named once more, and none is left out.
            while let Next::Block(block) = map.next_of(from.0, at)
                && there != Some(block)
            {
                assert_eq!(map.find((from.0, block)), Found::Here(Located::Zeroes), "{block} at {step}");
                at = block + 1;
            }
            let named = map.next_of(from.0, at);
            assert_eq!(named, there.map_or(Next::Nothing, Next::Block), "{from:?} at {step}");
            let look = (1 + next(2) as u32, next(1500));
            let expected = model.get(&look).copied().unwrap_or(Located::Zeroes);
            assert_eq!(map.find(look), Found::Here(expected), "{look:?} at {step}");
        }
        let leaves: Vec<usize> = map
            .tree
            .places
            .values()
            .filter_map(|place| match place {
                AtKey::Leaf(slot) => slot.content.as_ref().map(Entries::len),
                AtKey::Closed(_) => None,
            })
            .collect();
        assert!(leaves.len() > least && leaves.iter().all(|len| *len <= most), "{leaves:?}");
    }
}
