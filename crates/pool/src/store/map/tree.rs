//! The tree of pages, as far as it is in memory: it holds leaves and branches that were read, and names those that were not.
//!
//! A branch is *open* if what it names is known, else *closed*. All branches above a known page are open. The key of a branch is always that of
//! its first page, so that a look-up goes down by keys alone. Above a page that is to be written all are to be written, too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use brindle_format::pool::place::Address;
use brindle_format::pool::{LeafEntry, MAX_LEVELS, Pointer, Subtree, SubtreeState};

use super::Key;
use crate::store::leaf::Entries;

/// Bytes of memory that a page takes which a branch in memory names.
pub(super) const NAMED: usize = 160;

/// A leaf that a branch in memory names.
pub(crate) struct Slot {
    /// The place of the leaf; `None` if it was never written.
    pub(crate) pointer: Option<Pointer>,
    pub(crate) count: u32,
    /// Its entries, if they are in memory.
    pub(crate) content: Option<Entries>,
    /// It is to be written.
    pub(crate) dirty: bool,
    /// It was asked for since memory was last looked for.
    pub(super) used: bool,
    /// The freeze since which changes belong to it; and blocks of these that it may not have, as they were counted.
    pub(super) due: u64,
    pub(super) fresh: u32,
    /// Blocks of these that it has, whose changes cut its runs.
    pub(super) cuts: u32,
}

impl Slot {
    /// One that stands on the members.
    fn stored(pointer: Pointer, count: u32) -> Self {
        Self {
            pointer: Some(pointer),
            count,
            content: None,
            dirty: false,
            used: false,
            due: 0,
            fresh: 0,
            cuts: 0,
        }
    }

    /// One that is to be written for the first time.
    pub(super) fn fresh(content: impl Into<Entries>) -> Self {
        let content: Entries = content.into();
        Self {
            pointer: None,
            count: content.len() as u32,
            content: Some(content),
            dirty: true,
            used: true,
            due: 0,
            fresh: 0,
            cuts: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Entries::bytes)
    }
}

/// A key of the map, as far down as is known what is there.
pub(super) enum AtKey {
    Leaf(Slot),
    /// A branch of this level that is closed.
    Closed(u8),
}

/// It is a leaf that is in memory.
pub(super) fn is_read(place: &AtKey) -> bool {
    matches!(place, AtKey::Leaf(slot) if slot.content.is_some())
}

/// A branch.
pub(super) struct Branch {
    pub(super) pointer: Option<Pointer>,
    /// Pages that it names, if it is open.
    pub(super) names: u32,
    /// Pages of it and below it, and entries of all leaves below.
    pub(super) pages: u32,
    pub(super) blocks: u64,
    pub(super) is_open: bool,
    pub(super) dirty: bool,
    /// The freeze since which changes belong to it; and how many leaves below it these change at most, if it is closed.
    pub(super) due: u64,
    pub(super) changed: u32,
    /// Blocks that change and that its leaves may not have, if it is closed.
    pub(super) fresh: u32,
}

/// A page that stands on the members and is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) level: u8,
    pub(crate) at: Key,
    pub(crate) pointer: Pointer,
}

/// The facts about a page, by level and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A branch above it has to be read first.
    Unread(Page),
    /// It stands there; whether its content is in memory, and whether it is to be written anew anyway.
    There { pointer: Pointer, in_memory: bool, dirty: bool },
    /// There is none.
    Gone,
}

/// The tree.
#[derive(Default)]
pub(crate) struct Tree {
    /// Leaves and closed branches, side by side: each key belongs to the last of them that is not behind it.
    pub(super) places: BTreeMap<Key, AtKey>,
    /// All branches that are known, by their levels from the first on. The last level has one.
    pub(super) branches: Vec<BTreeMap<Key, Branch>>,
    /// Pages that are to be written, by their levels from the leaves on.
    pub(super) dirty: Vec<BTreeSet<Key>>,
    /// Places of pages that no checkpoint names any more which is to come, and the last one does.
    pub(crate) replaced: Vec<Address>,
    /// Pages of closed branches, by their levels from the first on.
    pub(super) closed: [u64; MAX_LEVELS as usize + 1],
    /// Bytes of memory of what may go, and of leaves that are to be written.
    pub(crate) cached: usize,
    pub(super) unwritten: usize,
    /// Leaves in memory that are not to be written.
    pub(super) held: usize,
    /// Branches of the lowest level in the order in which they are to be looked at for memory. Some may be closed by now, or gone.
    pub(super) opened: VecDeque<Key>,
}

/// The key behind all others.
pub(crate) const LAST: Key = (u32::MAX, u64::MAX);

impl Tree {
    /// Levels of branches.
    pub(crate) fn height(&self) -> usize {
        self.branches.len()
    }

    /// A tree of which the top alone is known.
    pub(crate) fn found(top: Subtree) -> Self {
        let mut tree = Self::default();
        let level = usize::from(top.level);
        tree.branches.resize_with(level, BTreeMap::new);
        tree.add_closed(&top);
        tree
    }

    /// Pages of the whole tree, and entries of its leaves.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let tops = self.branches.last().into_iter().flat_map(BTreeMap::values);
        tops.fold((0, 0), |(pages, blocks), top| (pages + u64::from(top.pages), blocks + top.blocks))
    }

    /// The last place that is not behind a key.
    pub(super) fn place(&self, key: Key) -> Option<(Key, &AtKey)> {
        self.places.range(..=key).next_back().map(|(&at, place)| (at, place))
    }

    /// The leaf that would hold a block, if it is known.
    pub(super) fn leaf(&self, key: Key) -> Option<(Key, &Slot)> {
        match self.place(key) {
            Some((at, AtKey::Leaf(slot))) if at.0 == key.0 => Some((at, slot)),
            _ => None,
        }
    }

    pub(super) fn slot(&self, at: Key) -> Option<&Slot> {
        match self.places.get(&at) {
            Some(AtKey::Leaf(slot)) => Some(slot),
            _ => None,
        }
    }

    /// The entries of a leaf, if they are in memory.
    pub(crate) fn entries(&self, at: Key) -> Vec<LeafEntry> {
        self.slot(at).and_then(|slot| slot.content.as_ref()).map(Entries::to_vec).unwrap_or_default()
    }

    pub(super) fn slot_mut(&mut self, at: Key) -> Option<&mut Slot> {
        match self.places.get_mut(&at) {
            Some(AtKey::Leaf(slot)) => Some(slot),
            _ => None,
        }
    }

    /// The key behind the range of a place.
    pub(super) fn next(&self, at: Key) -> Option<Key> {
        self.places.range((at.0, at.1 + 1)..).next().map(|(&next, _)| next)
    }

    /// The same, or one behind all.
    pub(crate) fn behind(&self, at: Key) -> Key {
        self.next(at).unwrap_or(LAST)
    }

    /// The branch of a level that a key belongs to.
    pub(super) fn above(&self, level: usize, key: Key) -> Option<(Key, &Branch)> {
        self.branches.get(level - 1)?.range(..=key).next_back().map(|(&at, branch)| (at, branch))
    }

    pub(super) fn above_mut(&mut self, level: usize, key: Key) -> Option<(Key, &mut Branch)> {
        self.branches.get_mut(level - 1)?.range_mut(..=key).next_back().map(|(&at, branch)| (at, branch))
    }

    pub(super) fn branch(&self, level: usize, at: Key) -> Option<&Branch> {
        self.branches.get(level.checked_sub(1)?)?.get(&at)
    }

    /// The key behind a branch of a level, as far as is known.
    pub(super) fn end(&self, level: usize, at: Key) -> Key {
        // A branch behind it of its own level begins where one of any level above begins.
        let next = self.branches.get(level - 1).and_then(|own| own.range((at.0, at.1 + 1)..).next());
        let own = next.map_or(LAST, |(&next, _)| next);
        // Its own level is not known below a branch that is closed.
        let closed = self.branches.iter().skip(level).filter_map(|all| {
            let next = all.range((at.0, at.1 + 1)..).next();
            next.map(|(&next, _)| next)
        });
        closed.fold(own, Key::min)
    }

    /// The closed branch at a key, as what it is to be read as.
    pub(super) fn closed_page(&self, level: u8, at: Key) -> Option<Page> {
        let pointer = self.branch(level.into(), at)?.pointer?;
        Some(Page { level, at, pointer })
    }

    /// A page as the branch above it names it, and the key behind it; nothing if it is not there any more.
    pub(super) fn subtree(&self, page: Page) -> Option<(Subtree, Option<Key>)> {
        let (pages, blocks, pointer) = match self.places.get(&page.at)? {
            AtKey::Leaf(slot) if page.level == 0 && slot.content.is_none() => {
                (1, u64::from(slot.count), slot.pointer)
            }
            AtKey::Closed(level) if *level == page.level => {
                let branch = self.branch(usize::from(*level), page.at)?;
                (branch.pages, branch.blocks, branch.pointer)
            }
            _ => return None,
        };
        if pointer != Some(page.pointer) {
            return None;
        }
        let (volume, first) = page.at;
        let (level, state, pointer) = (page.level, SubtreeState::Live, page.pointer);
        Some((Subtree { volume, first, level, state, blocks, pages, pointer }, self.next(page.at)))
    }

    fn add_closed(&mut self, own: &Subtree) {
        let level = usize::from(own.level);
        let (pointer, pages, blocks) = (Some(own.pointer), own.pages, own.blocks);
        let (is_open, dirty) = (false, false);
        let branch =
            Branch { pointer, names: 0, pages, blocks, is_open, dirty, due: 0, changed: 0, fresh: 0 };
        self.branches[level - 1].insert(own.key(), branch);
        self.places.insert(own.key(), AtKey::Closed(own.level));
        self.closed[level - 1] += u64::from(pages);
    }

    /// A branch has been read, and names these.
    pub(super) fn open(&mut self, level: u8, at: Key, refs: &[Subtree]) {
        let Some(branch) = self.branches[usize::from(level) - 1].get_mut(&at) else { return };
        (branch.is_open, branch.names) = (true, refs.len() as u32);
        let pages = u64::from(branch.pages);
        self.closed[usize::from(level) - 1] -= pages;
        self.places.remove(&at);
        // Those above stay.
        if level == 1 {
            self.cached += refs.len() * NAMED;
            self.opened.push_back(at);
        }
        for own in refs {
            if own.level == 0 {
                let slot = Slot::stored(own.pointer, own.blocks as u32);
                self.places.insert(own.key(), AtKey::Leaf(slot));
            } else {
                self.add_closed(own);
            }
        }
    }

    /// Forgets what a branch names, if nothing of that is to be written, nor open; whether it has.
    pub(super) fn close(&mut self, level: usize, at: Key, even_content: bool) -> bool {
        let Some(branch) = self.branch(level, at) else { return false };
        if !branch.is_open || branch.dirty || branch.pointer.is_none() {
            return false;
        }
        let (pages, names, end) = (branch.pages, branch.names, self.end(level, at));
        let may_go = |place: &AtKey| match place {
            AtKey::Leaf(slot) => even_content || slot.content.is_none(),
            AtKey::Closed(below) => usize::from(*below) == level - 1,
        };
        let inside: Vec<Key> =
            self.places.range(at..end).take(names as usize + 1).map(|(&key, _)| key).collect();
        // Those of a level below that are open have more places.
        if inside.len() != names as usize || !inside.iter().all(|key| may_go(&self.places[key])) {
            return false;
        }
        if level > 1 && inside.iter().any(|key| self.branch(level - 1, *key).is_none_or(|own| own.is_open)) {
            return false;
        }
        let (mut changed, mut above, mut fresh) = (0, 0, 0);
        let due = self.branch(level, at).map_or(0, |branch| branch.due);
        let is_due = |own: u64| due > 0 && own == due;
        for key in inside {
            match self.places.remove(&key) {
                Some(AtKey::Leaf(slot)) => {
                    self.cached -= slot.bytes();
                    self.held -= usize::from(slot.content.is_some());
                    if is_due(slot.due) {
                        (changed, fresh) = (changed + 1, fresh + slot.fresh + slot.cuts);
                    }
                }
                Some(AtKey::Closed(_)) => {
                    if let Some(own) = self.branches[level - 2].remove(&key) {
                        self.closed[level - 2] -= u64::from(own.pages);
                        if is_due(own.due) {
                            (changed, fresh) = (changed + own.changed, fresh + own.fresh);
                            above += 1 + own.changed * (level as u32 - 2);
                        }
                    }
                }
                None => {}
            }
        }
        if level == 1 {
            self.cached = self.cached.saturating_sub(names as usize * NAMED);
        }
        // All that is counted of it goes once it is read again: no more than that was counted of what it named, leaves or branches above them.
        let changed = if level > 1 { changed.min(above / (level as u32 - 1)) } else { changed };
        if let Some(branch) = self.branches[level - 1].get_mut(&at) {
            (branch.is_open, branch.names) = (false, 0);
            (branch.changed, branch.fresh) = (changed, fresh);
        }
        self.closed[level - 1] += u64::from(pages);
        self.places.insert(at, AtKey::Closed(level as u8));
        true
    }

    /// Closes some of what is open below a branch, which is not to be written, and then that; true once it is closed.
    pub(super) fn fold(&mut self, level: usize, at: Key) -> bool {
        let end = self.end(level, at);
        for below in 1..=level {
            let open = self.branches[below - 1].range(at..end).find(|(_, branch)| branch.is_open);
            if let Some((&key, _)) = open {
                let closed = self.close(below, key, true);
                debug_assert!(closed, "what is below is closed, and nothing of it is to be written");
                return below == level || !closed;
            }
        }
        true
    }

    /// Branches above a key, from a level on, are to be written.
    pub(super) fn soil(&mut self, from: usize, key: Key) {
        for level in from.max(1)..=self.height() {
            let Some((at, branch)) = self.above_mut(level, key) else { return };
            if core::mem::replace(&mut branch.dirty, true) {
                return;
            }
            let stood = branch.pointer.map(|pointer| pointer.address);
            self.replaced.extend(stood);
            self.mark(level, at);
        }
    }

    pub(super) fn mark(&mut self, level: usize, at: Key) {
        if self.dirty.len() <= level {
            self.dirty.resize_with(level + 1, BTreeSet::new);
        }
        self.dirty[level].insert(at);
    }

    pub(super) fn unmark(&mut self, level: usize, at: Key) {
        if let Some(dirty) = self.dirty.get_mut(level) {
            dirty.remove(&at);
        }
    }

    /// A leaf whose content is in memory is to be written.
    pub(super) fn soil_leaf(&mut self, at: Key) {
        let Some(AtKey::Leaf(slot)) = self.places.get_mut(&at) else { return };
        slot.used = true;
        if core::mem::replace(&mut slot.dirty, true) {
            return;
        }
        let (bytes, stood) = (slot.bytes(), slot.pointer.map(|pointer| pointer.address));
        self.cached = self.cached.saturating_sub(bytes);
        self.unwritten += bytes;
        self.held = self.held.saturating_sub(1);
        self.replaced.extend(stood);
        self.mark(0, at);
        self.soil(1, at);
    }

    /// Branches above a key, from a level on, have so many more blocks and pages below.
    pub(super) fn adjust(&mut self, from: usize, key: Key, blocks: i64, pages: i64) {
        for level in from.max(1)..=self.height() {
            if let Some((_, branch)) = self.above_mut(level, key) {
                branch.blocks = branch.blocks.saturating_add_signed(blocks);
                branch.pages = (i64::from(branch.pages) + pages).max(0) as u32;
            }
        }
    }

    /// A leaf that is to be written has other entries than it had.
    pub(super) fn recount(&mut self, at: Key) {
        let Some(slot) = self.slot_mut(at) else { return };
        let count = slot.content.as_ref().map_or(0, Entries::len) as u32;
        let before = core::mem::replace(&mut slot.count, count);
        if before != count {
            self.adjust(1, at, i64::from(count) - i64::from(before), 0);
        }
    }

    /// One more leaf, which is to be written; branches above its key are open.
    pub(super) fn insert(&mut self, at: Key, slot: Slot) {
        if self.branches.is_empty() {
            let branch = Branch {
                pointer: None,
                names: 0,
                pages: 1,
                blocks: 0,
                is_open: true,
                dirty: true,
                due: 0,
                changed: 0,
                fresh: 0,
            };
            self.branches.push(BTreeMap::from([(at, branch)]));
            self.mark(1, at);
            self.opened.push_back(at);
        }
        let first = self.branches[0].keys().next().copied().filter(|first| at < *first);
        if let Some(first) = first {
            self.soil(1, first);
            self.rekey(1, first, at);
        }
        let blocks = i64::from(slot.count);
        self.unwritten += slot.bytes();
        self.places.insert(at, AtKey::Leaf(slot));
        self.mark(0, at);
        self.cached += NAMED;
        if let Some((_, branch)) = self.above_mut(1, at) {
            branch.names += 1;
        }
        self.adjust(1, at, blocks, 1);
        self.soil(1, at);
    }

    /// A branch has another first page, and those that it is the first page of.
    fn rekey(&mut self, from: usize, old: Key, new: Key) {
        for level in from..=self.height() {
            let Some(branch) = self.branches[level - 1].remove(&old) else { return };
            debug_assert!(branch.dirty, "a branch that names something else is to be written");
            self.branches[level - 1].insert(new, branch);
            self.unmark(level, old);
            self.mark(level, new);
            if level == 1 {
                self.opened.push_back(new);
            }
        }
    }

    /// Takes a leaf out.
    pub(super) fn remove(&mut self, at: Key) -> Option<Slot> {
        self.slot(at)?;
        let Some(AtKey::Leaf(slot)) = self.places.remove(&at) else { return None };
        if slot.dirty {
            self.unwritten = self.unwritten.saturating_sub(slot.bytes());
            self.unmark(0, at);
        } else {
            self.cached -= slot.bytes();
            self.held -= usize::from(slot.content.is_some());
        }
        self.cached = self.cached.saturating_sub(NAMED);
        self.adjust(1, at, -i64::from(slot.count), -1);
        self.is_without(1, at);
        Some(slot)
    }

    /// Entries of all leaves of a page that is not in memory.
    pub(crate) fn blocks_of(&self, page: Page) -> u64 {
        self.subtree(page).map_or(0, |(own, _)| own.blocks)
    }

    /// Pages behind one that are not in memory either.
    pub(crate) fn unread_behind(&self, at: Key, most: usize) -> Vec<Page> {
        let behind = self.places.range((at.0, at.1 + 1)..).take(most);
        behind.filter_map(|(&at, place)| self.page_at(at, place).filter(|_| !is_read(place))).collect()
    }

    pub(super) fn page_at(&self, at: Key, place: &AtKey) -> Option<Page> {
        match place {
            AtKey::Leaf(slot) => Some(Page { level: 0, at, pointer: slot.pointer? }),
            AtKey::Closed(level) => self.closed_page(*level, at),
        }
    }

    /// Takes a closed branch out.
    pub(super) fn remove_closed(&mut self, level: u8, at: Key) -> Option<Branch> {
        let level = usize::from(level);
        self.branch(level, at).filter(|branch| !branch.is_open)?;
        let branch = self.branches[level - 1].remove(&at)?;
        self.places.remove(&at);
        self.closed[level - 1] -= u64::from(branch.pages);
        if level == self.height() {
            self.branches.clear();
        } else {
            self.adjust(level + 1, at, -(branch.blocks as i64), -i64::from(branch.pages));
            self.is_without(level + 1, at);
        }
        Some(branch)
    }

    /// A page is gone that a branch of this level named.
    fn is_without(&mut self, level: usize, at: Key) {
        self.soil(level, at);
        let Some((key, branch)) = self.above_mut(level, at) else { return };
        branch.names -= 1;
        if branch.names == 0 {
            self.branches[level - 1].remove(&key);
            self.unmark(level, key);
            if level == self.height() {
                self.branches.clear();
            } else {
                self.adjust(level + 1, at, 0, -1);
                self.is_without(level + 1, key);
            }
        } else if key == at {
            let next = if level == 1 {
                self.places.range(at..).next().map(|(&next, _)| next)
            } else {
                self.branches[level - 2].range(at..).next().map(|(&next, _)| next)
            };
            if let Some(next) = next {
                self.rekey(level, at, next);
            }
        }
    }

    /// The facts about the page of a level at a key.
    pub(crate) fn known(&self, level: u8, at: Key) -> Known {
        for above in (usize::from(level) + 1..=self.height()).rev() {
            match self.above(above, at) {
                Some((key, branch)) if !branch.is_open => {
                    return self.closed_page(above as u8, key).map_or(Known::Gone, Known::Unread);
                }
                Some(_) => {}
                None => return Known::Gone,
            }
        }
        let found = match level {
            0 => self.slot(at).map(|slot| (slot.pointer, slot.content.is_some(), slot.dirty)),
            _ => self.branch(level.into(), at).map(|branch| (branch.pointer, branch.is_open, branch.dirty)),
        };
        match found {
            Some((Some(pointer), in_memory, dirty)) => Known::There { pointer, in_memory, dirty },
            _ => Known::Gone,
        }
    }
}
