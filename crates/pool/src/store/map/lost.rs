//! Pages that are lost, and that changes are to go into. Leaves that say of all blocks of their range that they are lost take their place: changes
//! would be lost with them otherwise, and no checkpoint would come to its end.

use brindle_format::pool::{LeafForms, RUN_ENTRIES, VolumeRecord};

use super::tree::{Branch, LAST, Slot};
use super::{Key, Map, Page, Tree};
use crate::store::leaf::Entries;
use crate::store::owed::Owed;

/// A range of a volume whose blocks are lost, no longer than one leaf takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LostRange {
    at: Key,
    node: u32,
    count: u64,
}

/// The most lost blocks that one leaf takes.
fn most_of(forms: LeafForms) -> u64 {
    if forms.runs { RUN_ENTRIES as u64 } else { forms.entries() as u64 }
}

/// Blocks of volumes from a key on, up to another one: each volume's beginning, end and node.
fn ranges(volumes: &[VolumeRecord], at: Key, behind: Key) -> Vec<(Key, u64, u32)> {
    let mut ranges: Vec<(Key, u64, u32)> = Vec::new();
    for volume in volumes.iter().filter(|volume| volume.id >= at.0 && volume.id <= behind.0) {
        let first = if volume.id == at.0 { at.1 } else { 0 };
        let end = volume.size.div_ceil(brindle_format::pool::BLOCK as u64);
        let end = if volume.id == behind.0 { end.min(behind.1) } else { end };
        if first < end {
            ranges.push(((volume.id, first), end, volume.node));
        }
    }
    ranges.sort_unstable();
    // A page is known by its key, whoever has the block.
    if ranges.first().is_none_or(|first| first.0 != at) {
        ranges.insert(0, (at, at.1 + 1, 0));
    }
    ranges
}

impl Map {
    /// Has leaves that say so of each block take the place of a page that is lost, if these are no more than `most`. What the lost one names counts still, so
    /// it is dead from now on. Gives how many more pages that are to be written by this; nothing if the page stays.
    pub(crate) fn renew_lost(&mut self, page: Page, volumes: &[VolumeRecord], most: u64) -> Option<u64> {
        let (own, next) = self.tree.subtree(page)?;
        let level = usize::from(page.level);
        // Without its top there is no tree.
        if level > 0 && level >= self.tree.height() {
            return None;
        }
        let ranges = ranges(volumes, page.at, next.unwrap_or(LAST));
        let each = most_of(self.forms);
        let blocks: u64 = ranges.iter().map(|(at, end, _)| end - at.1).sum();
        let leaves: u64 = ranges.iter().map(|(at, end, _)| (end - at.1).div_ceil(each)).sum();
        if leaves > most || own.blocks > blocks {
            return None;
        }
        let pieces = ranges.into_iter().flat_map(|(at, end, node)| {
            let firsts = (at.1..end).step_by(each as usize);
            firsts.map(move |first| LostRange { at: (at.0, first), node, count: each.min(end - first) })
        });
        // As much of its range is hidden as before.
        let hidden = self.hidden_before;
        self.has_died(own);
        self.hidden_before = hidden;
        for piece in pieces {
            let content = Entries::lost(piece.at.1, piece.node, piece.count as usize);
            match level {
                _ if piece.at != page.at => self.tree.insert(piece.at, Slot::fresh(content)),
                0 => self.tree.renew(piece.at, content),
                _ => self.tree.hollow(level, piece.at, Slot::fresh(content)),
            }
        }
        // One leaf was due, or more, for the changes that are to go there.
        let branches = if leaves > 1 { leaves as usize / 32 + 1 } else { 0 } + 2 * level;
        let more = Owed { leaves: leaves as usize - 1, branches, ..Owed::default() };
        self.due_before = self.due_before.and(more);
        Some((more.leaves + more.branches) as u64)
    }
}

impl Tree {
    /// A leaf that is not in memory has these entries from now on. What stood on the members is of others.
    fn renew(&mut self, at: Key, entries: Entries) {
        let bytes = entries.bytes();
        let Some(slot) = self.slot_mut(at) else { return };
        (slot.pointer, slot.content) = (None, Some(entries));
        self.cached += bytes;
        self.held += 1;
        self.soil_leaf(at);
        self.recount(at);
    }

    /// A closed branch names nothing from now on but what leads to this leaf, with which it begins. What stood on the members is of others.
    fn hollow(&mut self, level: usize, at: Key, first: Slot) {
        let Some(own) = self.branches[level - 1].get_mut(&at).filter(|own| !own.is_open) else { return };
        let (pages, blocks) = (own.pages, own.blocks);
        let due = own.due;
        self.closed[level - 1] -= u64::from(pages);
        self.places.remove(&at);
        for below in 1..=level {
            let branch = Branch {
                pointer: None,
                names: u32::from(below > 1),
                pages: below as u32,
                blocks: 0,
                is_open: true,
                dirty: true,
                due: if below == level { due } else { 0 },
                changed: 0,
                fresh: 0,
            };
            self.branches[below - 1].insert(at, branch);
            self.mark(below, at);
        }
        self.adjust(level + 1, at, -(blocks as i64), level as i64 - i64::from(pages));
        self.soil(level + 1, at);
        self.opened.push_back(at);
        self.insert(at, first);
    }
}
