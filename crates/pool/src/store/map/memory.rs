//! The map's part in memory: what is let go, what is read ahead, and how often something had to be read.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{AtKey, Branch, is_read};
use super::{Key, Map, Page, Tree};
use crate::store::leaf::Entries;

impl Map {
    /// A block was looked up; whether a page had to be read for that.
    pub(crate) fn was_asked(&mut self, missed: bool) {
        self.asked += 1;
        self.missed += u64::from(missed);
    }

    /// Look-ups since it was opened, and those for which a page had to be read.
    pub(crate) fn asked(&self) -> (u64, u64) {
        (self.asked, self.missed)
    }
}

impl Tree {
    /// Forgets pages until no more than so many bytes of memory are taken, or so many of the lowest branches have been looked at. Leaves
    /// go that were not asked for since they were looked at last, and branches of which no leaf is in memory. True if that is enough.
    pub(crate) fn shrink(&mut self, most: usize, looks: usize) -> bool {
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
            if !self.close(1, at, false) {
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
