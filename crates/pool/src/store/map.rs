//! Where each block of each volume lies: changes in memory, over leaves that stand on the members.
//!
//! A look-up asks the changes first, then those that the checkpoint under way has not put into leaves yet, then the leaf. Each layer
//! has ranges of zeroes beneath its blocks.

mod due;
mod hidden;

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::Address;
use brindle_format::pool::{LeafEntry, LeafKind, Pointer, leaf_takes};

use crate::store::leaf::{Entries, Located};
use crate::store::owed::Owed;

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
    /// A leaf knows that has to be read first: the one that begins with this key.
    InLeaf(Key, Pointer),
}

/// The next block of which there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It may be this one.
    Block(u64),
    /// A leaf knows that has to be read first: the one that begins with this key.
    InLeaf(Key, Pointer),
    /// There is none.
    Nothing,
}

#[derive(Default)]
struct Layer {
    blocks: BTreeMap<Key, Located>,
    /// Where each begins, and its end.
    zeroes: BTreeMap<Key, u64>,
    /// Segments that were used again: what leaves name there is of their earlier use. This layer has another place for each of these
    /// blocks.
    reused: BTreeSet<u32>,
}

impl Layer {
    fn find(&self, key: Key) -> Option<Located> {
        if let Some(&found) = self.blocks.get(&key) {
            return Some(found);
        }
        self.is_zeroes(key).then_some(Located::Zeroes)
    }

    fn is_zeroes(&self, key: Key) -> bool {
        let before = self.zeroes.range(..=key).next_back();
        before.is_some_and(|(&(volume, _), &end)| volume == key.0 && key.1 < end)
    }

    /// All of a range is zeroes; gives what was there.
    fn clear(&mut self, volume: u32, from: u64, to: u64) -> Vec<Located> {
        let mut behind = self.blocks.split_off(&(volume, from));
        let mut rest = behind.split_off(&(volume, to));
        self.blocks.append(&mut rest);
        let (mut from, mut to) = (from, to);
        // Ranges that overlap or touch become one.
        while let Some((&(of, begin), &end)) = self.zeroes.range(..=(volume, to)).next_back() {
            if of != volume || end < from {
                break;
            }
            (from, to) = (from.min(begin), to.max(end));
            self.zeroes.remove(&(of, begin));
        }
        self.zeroes.insert((volume, from), to);
        behind.into_values().collect()
    }
}

/// A leaf.
pub(crate) struct Slot {
    /// The place of the leaf; `None` if it was never written.
    pub(crate) pointer: Option<Pointer>,
    pub(crate) count: u16,
    /// Its entries, if they are in memory.
    pub(crate) content: Option<Entries>,
    /// It is to be written.
    pub(crate) dirty: bool,
    /// It was asked for since memory was last looked for.
    pub(crate) used: bool,
    /// The freeze since which changes belong to it.
    due: u64,
}

impl Slot {
    /// One that stands on the members.
    pub(crate) fn stored(pointer: Pointer, count: u16) -> Self {
        Self { pointer: Some(pointer), count, content: None, dirty: false, used: false, due: 0 }
    }

    fn fresh(content: Vec<LeafEntry>) -> Self {
        Self { pointer: None, count: 0, content: Some(content.into()), dirty: true, used: true, due: 0 }
    }
}

/// A leaf that was given back as a whole: its blocks still count in their segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) at: Key,
    pub(crate) count: u16,
    pub(crate) pointer: Pointer,
    /// Its entries in segments that were used again do not count: they are of an earlier use.
    pub(crate) outlived: bool,
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
    /// Leaves may be dense.
    pub(crate) dense: bool,
    now: Layer,
    frozen: Layer,
    pub(crate) leaves: BTreeMap<Key, Slot>,
    /// Leaves in memory that may go.
    pub(crate) cached: usize,
    /// The first leaf to be looked at when some are to be forgotten.
    hand: Key,
    /// Leaves that were given back, and not gone through yet.
    pub(crate) dead: Vec<Dead>,
    /// Freezes so far; the pages that changes since the last one cost, and those of earlier changes that have not been written.
    freezes: u64,
    due: Owed,
    due_before: Owed,
    /// Volumes without leaves that were written to since the last freeze.
    leafless: BTreeSet<u32>,
    /// Blocks in leaves that the changes say are zeroes; and those that the checkpoint under way takes out.
    hidden_now: u64,
    hidden_before: u64,
}

impl Map {
    /// Changes that are in memory only.
    pub(crate) fn changes(&self) -> usize {
        self.now.blocks.len() + self.now.zeroes.len()
    }

    pub(crate) fn find(&mut self, key: Key) -> Found {
        let layers = self.now.find(key).or_else(|| self.frozen.find(key));
        if let Some(found) = layers {
            return Found::Here(found);
        }
        let Some((&at, slot)) = self.leaf_mut(key) else { return Found::Here(Located::Zeroes) };
        match (&slot.content, slot.pointer) {
            (Some(entries), _) => {
                slot.used = true;
                Found::Here(entries.located(key.1))
            }
            (None, Some(pointer)) => Found::InLeaf(at, pointer),
            (None, None) => Found::Here(Located::Zeroes),
        }
    }

    /// The leaf that would hold a block.
    fn leaf_mut(&mut self, key: Key) -> Option<(&Key, &mut Slot)> {
        self.leaves.range_mut(..=key).next_back().filter(|(at, _)| at.0 == key.0)
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
        self.due_before = self.due_frozen();
        self.due = Owed::default();
        self.leafless.clear();
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
        self.dead.iter().any(|dead| dead.outlived)
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

    /// The leaves of the next blocks that no leaf on the members has yet.
    pub(crate) fn frozen_leaves(&self, most: usize) -> Vec<Key> {
        let (mut found, mut from) = (Vec::new(), (0, 0));
        while found.len() < most
            && let Some((&key, _)) = self.frozen.blocks.range(from..).next()
        {
            let at = self.leaves.range(..=key).next_back().map(|(&at, _)| at);
            found.extend(at.filter(|at| at.0 == key.0));
            let next = self.leaves.range((key.0, key.1 + 1)..).next().map(|(&next, _)| next);
            let Some(next) = next else { break };
            from = next;
        }
        found
    }

    /// The first block that no leaf on the members has yet.
    pub(crate) fn frozen_block(&self) -> Option<Key> {
        self.frozen.blocks.keys().next().copied()
    }

    /// The first leaf that holds blocks of a range, and whether it holds no others.
    pub(crate) fn leaf_of(&self, volume: u32, from: u64, to: u64) -> Option<(Key, u64, bool)> {
        let first = self.leaves.range(..=(volume, from)).next_back().filter(|(at, _)| at.0 == volume);
        let at = match first {
            Some((&at, _)) => at,
            None => *self.leaves.range((volume, from)..(volume, to)).next()?.0,
        };
        let next = self.leaves.range((at.0, at.1 + 1)..).next().map(|(&next, _)| next);
        let end = next.filter(|next| next.0 == volume).map_or(ENDLESS, |next| next.1);
        Some((at, end, from <= at.1 && end <= to))
    }

    /// The next block of a volume from one on that anything is said of: of zeroes nothing has to be.
    pub(crate) fn next_of(&self, volume: u32, from: u64) -> Next {
        let in_layer = |layer: &Layer| {
            let (key, _) = layer.blocks.range((volume, from)..(volume, ENDLESS)).next()?;
            Some(key.1)
        };
        let change = [&self.now, &self.frozen].into_iter().filter_map(in_layer).min();
        let first = self.leaves.range(..=(volume, from)).next_back().filter(|(at, _)| at.0 == volume);
        let rest = self.leaves.range((volume, from + 1)..(volume, ENDLESS));
        for (&at, slot) in first.into_iter().chain(rest) {
            if change.is_some_and(|change| change < at.1) {
                break;
            }
            match (&slot.content, slot.pointer) {
                (Some(entries), _) => {
                    if let Some(block) = entries.block(entries.before(from)) {
                        return Next::Block(change.map_or(block, |change| change.min(block)));
                    }
                }
                (None, Some(pointer)) => return Next::InLeaf(at, pointer),
                (None, None) => {}
            }
        }
        change.map_or(Next::Nothing, Next::Block)
    }

    /// Takes a leaf out that holds nothing any more; gives where its blocks were, if it is in memory, and where it stood then. Else it
    /// is dead from now on.
    pub(crate) fn give_up(&mut self, at: Key) -> (Vec<Located>, Option<Address>) {
        let Some(slot) = self.leaves.remove(&at) else { return (Vec::new(), None) };
        match (slot.content, slot.pointer) {
            (Some(entries), pointer) => {
                self.cached = self.cached.saturating_sub(usize::from(!slot.dirty));
                self.hidden_before = self.hidden_before.saturating_sub(entries.len() as u64);
                (entries.all().collect(), pointer.map(|pointer| pointer.address))
            }
            (None, Some(pointer)) => {
                let outlived = !self.frozen.reused.is_empty() || !self.now.reused.is_empty();
                self.hidden_before = self.hidden_before.saturating_sub(u64::from(slot.count));
                self.dead.push(Dead { at, count: slot.count, pointer, outlived });
                (Vec::new(), None)
            }
            (None, None) => (Vec::new(), None),
        }
    }

    /// All leaves of volumes that are none are dead.
    pub(crate) fn give_up_others(&mut self, is_volume: impl Fn(u32) -> bool) {
        let gone: Vec<Key> = self.leaves.keys().copied().filter(|at| !is_volume(at.0)).collect();
        for at in gone {
            let _in_memory = self.give_up(at);
        }
    }

    /// Takes a range out of a leaf whose content is in memory; gives where its blocks were.
    pub(crate) fn cut(&mut self, at: Key, from: u64, to: u64) -> Vec<Located> {
        let Some(slot) = self.leaves.get_mut(&at) else { return Vec::new() };
        let Some(entries) = slot.content.as_mut() else { return Vec::new() };
        let cut = entries.before(from)..entries.before(to);
        let gone: Vec<Located> = cut.clone().map(|at| entries.at(at)).collect();
        self.hidden_before = self.hidden_before.saturating_sub(gone.len() as u64);
        if !gone.is_empty() {
            let mut all = entries.to_vec();
            all.drain(cut);
            *entries = all.into();
            mark(slot, &mut self.cached);
        }
        gone
    }

    /// The key at which the leaf begins that is to hold a block; a new one if its volume has none before.
    pub(crate) fn leaf_for(&mut self, key: Key) -> (Key, Option<Pointer>) {
        if let Some((&at, slot)) = self.leaf_mut(key) {
            return (at, slot.pointer.filter(|_| slot.content.is_none()));
        }
        self.leaves.insert((key.0, 0), Slot::fresh(Vec::new()));
        ((key.0, 0), None)
    }

    /// Puts the frozen blocks that belong to a leaf into it, which is in memory; gives where they were, according to it. A leaf
    /// that becomes too large becomes several.
    pub(crate) fn merge(&mut self, at: Key, node: u32) -> Vec<Located> {
        let next = self.leaves.range((at.0, at.1 + 1)..).next().map(|(&next, _)| next);
        let end = next.filter(|next| next.0 == at.0).unwrap_or((at.0, u64::MAX));
        let mut mine = self.frozen.blocks.split_off(&at);
        let mut rest = mine.split_off(&end);
        self.frozen.blocks.append(&mut rest);
        let Some(slot) = self.leaves.get_mut(&at) else { return Vec::new() };
        let Some(entries) = slot.content.as_mut() else { return Vec::new() };
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
            *entries = all.into();
        }
        mark(slot, &mut self.cached);
        self.split(at);
        before
    }

    /// Makes of a leaf that is too large several that are three quarters full; of one written in order, all but the last are full.
    fn split(&mut self, at: Key) {
        let dense = self.dense;
        let Some(slot) = self.leaves.get_mut(&at) else { return };
        let Some(entries) = slot.content.as_mut().filter(|entries| entries.is_too_large(dense)) else {
            return;
        };
        let mut rest = entries.to_vec();
        let in_order = rest.windows(2).all(|pair| pair[1].block == pair[0].block + 1);
        let cut = |rest: &mut Vec<LeafEntry>| {
            let takes = leaf_takes(rest, dense);
            let takes = if in_order || takes == rest.len() { takes } else { (takes * 3 / 4).max(1) };
            let behind = rest.split_off(takes);
            core::mem::replace(rest, behind)
        };
        *entries = cut(&mut rest).into();
        while !rest.is_empty() {
            let content = cut(&mut rest);
            self.leaves.insert((at.0, content[0].block), Slot::fresh(content));
        }
    }

    /// The leaf has been read.
    pub(crate) fn loaded(&mut self, at: Key, pointer: Pointer, entries: Vec<LeafEntry>) {
        if let Some(slot) = self.leaves.get_mut(&at)
            && slot.content.is_none()
            && slot.pointer == Some(pointer)
        {
            slot.content = Some(entries.into());
            slot.used = true;
            self.cached += 1;
        }
    }

    /// A leaf is to be rewritten.
    pub(crate) fn touch(&mut self, at: Key) {
        if let Some(slot) = self.leaves.get_mut(&at).filter(|slot| slot.content.is_some()) {
            self.due_before.leaves += usize::from(!slot.dirty);
            mark(slot, &mut self.cached);
        }
    }

    /// Forgets leaves that stand on the members, until no more than `most` are in memory: goes on behind those that it looked at last.
    pub(crate) fn shrink(&mut self, most: usize) {
        for _round in 0..3 {
            for (&at, slot) in self.leaves.range_mut(core::mem::take(&mut self.hand)..) {
                if self.cached <= most {
                    self.hand = at;
                    return;
                }
                if slot.content.is_some() && !slot.dirty && !core::mem::take(&mut slot.used) {
                    slot.content = None;
                    self.cached -= 1;
                }
            }
        }
    }
}

fn mark(slot: &mut Slot, cached: &mut usize) {
    slot.used = true;
    if !core::mem::replace(&mut slot.dirty, true) {
        *cached = cached.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Located {
        Located::At(Address(n), n as u32)
    }

    fn merge_all(map: &mut Map) {
        map.freeze();
        while let Some((key, end)) = map.frozen_zeroes() {
            let mut from = key.1;
            while let Some((leaf, next, whole)) = map.leaf_of(key.0, from, end) {
                let _ = if whole { map.give_up(leaf).0 } else { map.cut(leaf, key.1, end) };
                from = next;
                if from >= end {
                    break;
                }
            }
            map.thaw_zeroes(key);
        }
        while let Some(key) = map.frozen_block() {
            let (leaf, _) = map.leaf_for(key);
            let _ = map.merge(leaf, 1);
        }
        map.thawed();
    }

    #[test]
    fn what_was_set_last_is_found_whichever_layer_it_is_in() {
        for (dense, most, least) in [(false, 169, 10), (true, 337, 4)] {
            what_was_set_last_is_found(Map { dense, ..Map::default() }, most, least);
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
        assert!(map.leaves.len() > least);
        assert!(map.leaves.values().all(|slot| slot.content.as_ref().is_some_and(|c| c.len() <= most)));
    }
}
