//! The map's part in memory: what is let go, what is read ahead, and how often something had to be read.

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::{BRANCH_REFS, PoolError};

use super::tree::{AtKey, Branch, NAMED, is_read};
use super::{Key, Map, Page, Tree};
use crate::store::leaf::Entries;
use crate::store::owed::Coming;

/// Bytes of memory of a change,
const CHANGE: usize = 96;
/// of a leaf that changes, and of each block that it may get,
const LEAF: usize = 4096;
const ENTRY: usize = 32;
/// of what a branch names that has to be read for one,
const NAMES: usize = BRANCH_REFS * NAMED;
/// and of a branch itself, and its place while it is closed.
const BRANCH: usize = 2 * NAMED;

/// How much was in memory, and was found there, since it was opened.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    asked: u64,
    missed: u64,
    most: usize,
}

impl Map {
    /// A block was looked up; whether a page had to be read for that.
    pub(crate) fn was_asked(&mut self, missed: bool) {
        self.seen.asked += 1;
        self.seen.missed += u64::from(missed);
    }

    /// Look-ups since it was opened, and those for which a page had to be read.
    pub(crate) fn asked(&self) -> (u64, u64) {
        (self.seen.asked, self.seen.missed)
    }

    /// Bytes of memory that it takes, and the most that it took since it was opened.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.cached + self.bytes_that_stay()
    }

    pub(crate) fn most_bytes(&self) -> usize {
        self.seen.most
    }

    /// Of these, bytes that no look for memory gives back: changes, leaves that are to be written, and all branches that are known.
    pub(crate) fn bytes_that_stay(&self) -> usize {
        let layers = [&self.now, &self.frozen].into_iter();
        let changes: usize = layers.map(|layer| layer.blocks.len() + layer.zeroes.len()).sum();
        changes * CHANGE + self.tree.unwritten + self.bytes_of_branches()
    }

    fn bytes_of_branches(&self) -> usize {
        self.tree.branches.iter().map(BTreeMap::len).sum::<usize>() * BRANCH
    }

    /// The part of `all` bytes that are for pages that may go: what others leave, and a fourth at least, without which none would stay for long
    /// enough to be of use. A little is left over: pages are read before others go where those that are looked at are all to be written.
    pub(crate) fn for_pages(&self, all: usize) -> usize {
        (all - all / 64).saturating_sub(self.bytes_that_stay()).max(all / 4)
    }

    /// The part of `dirty` bytes that is for changes, where branches take much of all memory.
    pub(crate) fn for_changes(&self, dirty: usize) -> usize {
        dirty.saturating_sub(self.bytes_of_branches() / 4).max(dirty / 4)
    }

    /// Some of it was read, or has changed.
    pub(super) fn note_bytes(&mut self) {
        self.seen.most = self.seen.most.max(self.bytes());
    }

    /// The most bytes that the next checkpoint takes: changes that wait for it and others that come, and pages that it has to have in memory
    /// to change them.
    pub(crate) fn waiting(&self, coming: Coming) -> usize {
        let (changes, zeroes) = (self.changes() + coming.leaves, 2 * self.now.zeroes.len());
        let lowest = self.due.branches.saturating_sub(self.due.upper);
        let (leaves, branches) = (self.due.leaves + coming.leaves + zeroes, lowest + coming.unread + zeroes);
        changes * CHANGE + leaves * LEAF + branches * NAMES + (self.due.fresh + coming.fresh) * ENTRY
    }

    /// The page has been read, and is held against what names it; one that is not asked for any more is let go.
    ///
    /// # Errors
    /// [`PoolError`] if it can't be that page.
    pub(crate) fn loaded(&mut self, page: Page, bytes: &[u8]) -> Result<(), PoolError> {
        let Some((own, end)) = self.tree.subtree(page) else { return Ok(()) };
        if page.level > 0 {
            let refs = own.branch(bytes, end)?;
            self.tree.open(page.level, page.at, &refs);
            self.divide_due(page.level, page.at, &refs);
            self.note_bytes();
            return Ok(());
        }
        self.tree.keep_leaf(page.at, own.leaf(bytes, end)?.0.into());
        self.count_fresh(page.at);
        self.note_bytes();
        Ok(())
    }

    /// Bytes of pages that are to be written, and what branches among them name.
    pub(crate) fn dirty_bytes(&self) -> usize {
        let branches = self.tree.dirty.get(1).map_or(0, BTreeSet::len);
        self.tree.unwritten + branches * NAMES
    }
}

impl Page {
    /// Bytes of memory that it takes once it is read.
    pub(crate) fn bytes(self) -> usize {
        match self.level {
            0 => LEAF,
            1 => NAMES,
            _ => BRANCH_REFS * BRANCH,
        }
    }
}

impl Tree {
    /// Forgets pages until no more than so many bytes of memory are taken, or so many of the lowest branches have been looked at. Leaves
    /// go that were not asked for since they were looked at last, and branches of which no leaf is in memory. The branch above a key that is
    /// being read stays: else two readers with little memory would take it from each other for ever. True if that is enough.
    pub(crate) fn shrink(&mut self, most: usize, looks: usize, but: Option<Key>) -> bool {
        let stays = but.and_then(|key| self.above(1, key)).map(|(at, _)| at);
        for _ in 0..looks {
            let is_enough = self.cached <= most;
            // Of those that were closed or gone otherwise the queue would become longer and longer.
            if is_enough && self.opened.len() <= self.branches.first().map_or(0, BTreeMap::len) {
                return true;
            }
            let Some(at) = self.opened.pop_front() else { return true };
            if self.branch(1, at).is_none_or(|branch| !branch.is_open) {
                continue;
            }
            if is_enough {
                self.opened.push_back(at);
                continue;
            }
            self.forget_leaves(at);
            if stays == Some(at) || !self.close(1, at, false) {
                self.opened.push_back(at);
            }
        }
        self.cached <= most
    }

    /// Pages in memory: leaves, and branches that are open.
    pub(crate) fn pages_in_memory(&self) -> usize {
        let open = |all: &BTreeMap<Key, Branch>| all.values().filter(|branch| branch.is_open).count();
        let dirty = self.dirty.first().map_or(0, BTreeSet::len);
        self.held + dirty + self.branches.iter().map(open).sum::<usize>()
    }

    /// Pages behind a leaf that was read just now, if the one before it is in memory, too: somebody goes over them in order.
    pub(crate) fn ahead_of(&self, at: Key, most: usize) -> Vec<Page> {
        let before = self.places.range(..at).next_back();
        let in_order = before.is_some_and(|(key, place)| key.0 == at.0 && is_read(place));
        if in_order { self.unread_behind(at, most) } else { Vec::new() }
    }

    /// Branches of the lowest level that may be open.
    pub(crate) fn may_be_open(&self) -> usize {
        self.opened.len()
    }

    /// A leaf has been read.
    pub(super) fn keep_leaf(&mut self, at: Key, entries: Entries) {
        let bytes = entries.bytes();
        if let Some(slot) = self.slot_mut(at) {
            (slot.content, slot.used) = (Some(entries), true);
            self.cached += bytes;
            self.held += 1;
        }
    }

    /// A leaf that is not to be written goes from memory.
    pub(crate) fn forget_leaf(&mut self, at: Key) {
        if let Some(slot) = self.slot_mut(at).filter(|slot| !slot.dirty)
            && let Some(content) = slot.content.take()
        {
            self.cached -= content.bytes();
            self.held -= 1;
        }
    }

    fn forget_leaves(&mut self, at: Key) {
        let end = self.end(1, at);
        for (_, place) in self.places.range_mut(at..end) {
            if let AtKey::Leaf(slot) = place
                && slot.content.is_some()
                && !slot.dirty
                && !core::mem::take(&mut slot.used)
            {
                self.cached -= slot.bytes();
                self.held -= 1;
                slot.content = None;
            }
        }
    }
}
