//! Goes through pages of the map that were given back, whose blocks count as live until then: from the last one on, branch by branch.
//!
//! A branch is named no more once those that it names are, in its place. So each step is as small as a page, however much was given back,
//! and the list of dead pages says where it is to go on.

use std::rc::Rc;

use brindle_format::pool::{BRANCH_REFS, LeafKind, Subtree};
use brindle_io::sync::join_all;

use crate::core::Core;
use crate::read::Pin;
use crate::store::map::Dead;
use crate::store::owed::Coming;
use crate::upkeep::cleaner::DeadContent;

/// Pages that are gone through at a time, and branches among them: each makes the list of dead pages longer by what it names.
const REAPED: usize = 64;
const BRANCHES: usize = 4;

impl Core {
    /// Has pages gone through that were given back.
    pub(crate) fn begin_reaping(&self) {
        let has_dead = !self.map.borrow().dead.is_empty() && !self.run.is_opening();
        if has_dead && let Some(core) = self.kept().filter(|core| core.cleaner.begins_reaping()) {
            drop(self.set.io.spawn(async move {
                core.reap().await;
                core.cleaner.ends_reaping();
                core.room.notify();
            }));
        }
    }

    async fn reap(self: &Rc<Self>) {
        let mut left = self.map.borrow().dead.len();
        while left > 0 && !self.run.is_stopping() && !self.record.is_broken() {
            let some = self.next_dead(left);
            if some.is_empty() {
                // Behind the next checkpoint there is room for a longer list.
                break;
            }
            let read = join_all(some.iter().map(|&dead| self.dead_page(dead))).await;
            let named = |content: &Option<DeadContent>| match content {
                Some(DeadContent::Branch(refs)) => refs.len(),
                Some(DeadContent::Leaf(_)) | None => 0,
            };
            left = left.saturating_sub(some.len()) + read.iter().map(named).sum::<usize>();
            self.cleaner.has_read(some.into_iter().zip(read).collect());
            // Counts and the list of dead pages that a checkpoint writes belong together: one that is under way comes first, and the next
            // takes these before all else.
            let may = || (!self.checkpoints.is_taken() || !self.cleaner.has_uncounted()).then_some(());
            self.room.until(may).await;
            self.count_reaped();
        }
    }

    /// The next pages that are gone through, of so many. Room for what their branches name is kept in the debt from now on; where there is none,
    /// leaves alone are gone through, which makes the list shorter.
    fn next_dead(&self, most: usize) -> Vec<Dead> {
        let (map, mut branches) = (self.map.borrow(), 0);
        let is_branch = |dead: &Dead| dead.0.level > 0;
        // Pages that can't be read come last.
        let last = || map.dead.iter().rev().take(most).copied();
        let few = |dead: &Dead| {
            branches += usize::from(is_branch(dead));
            branches <= BRANCHES
        };
        let some: Vec<Dead> = last().take(REAPED).take_while(few).collect();
        self.cleaner.unfolds(some.iter().filter(|dead| is_branch(dead)).count() * BRANCH_REFS);
        if self.page_debt(Coming::default()) <= self.space.borrow().room_for_pages() {
            return some;
        }
        self.cleaner.unfolds(0);
        last().filter(|dead| !is_branch(dead)).take(REAPED).collect()
    }

    /// Blocks of leaves that were gone through are dead, and the leaves are named no more; of branches what they name takes the place.
    pub(crate) fn count_reaped(&self) {
        let read = self.cleaner.take_read();
        if !read.is_empty() {
            // Pages that branches name are in the list from now on.
            self.cleaner.unfolds(0);
        }
        for (dead, content) in read {
            let mut map = self.map.borrow_mut();
            let Some(at) = map.dead.iter().rposition(|other| *other == dead) else { continue };
            let _gone = map.dead.swap_remove(at);
            // A page that the tree names as well is not dead: the list is damaged.
            let is_live = map.tree.names(dead.0.level, dead.0.key(), dead.0.pointer);
            let content = content.filter(|_| !is_live);
            self.cleaner.went_through(dead.0.pointer.address, content.is_none());
            let Some(content) = content else {
                map.dead.insert(0, dead);
                continue;
            };
            map.tree.replaced.push(dead.0.pointer.address);
            match content {
                DeadContent::Branch(refs) => map.dead.extend(refs.into_iter().map(|own| dead.below(own))),
                DeadContent::Leaf(leaf) => {
                    let mut space = self.space.borrow_mut();
                    for entry in leaf.0.iter().filter(|entry| entry.kind == LeafKind::Plain) {
                        if !(dead.is_outlived() && space.is_reused(entry.address.segment())) {
                            space.reaped(entry.address);
                        }
                    }
                }
            }
        }
    }

    async fn dead_page(&self, dead: Dead) -> Option<DeadContent> {
        let own: Subtree = dead.0;
        let _pin = Pin::new(&self.space, own.pointer.address.segment());
        let bytes = self.block(own.pointer.address, own.pointer.checksum, None).await.ok()?;
        // The key behind it is not known any more.
        match own.level {
            0 => own.leaf(&bytes, None).ok().map(DeadContent::Leaf),
            _ => own.branch(&bytes, None).ok().map(DeadContent::Branch),
        }
    }
}
