//! A walk over the pages of the tree, which goes on while they are written elsewhere: some at a time, by their keys.

use brindle_format::pool::Pointer;

use super::tree::{AtKey, Branch};
use super::{Key, Known, Page, Tree};

impl Tree {
    /// Branches of a level that are open and stand on the members: those among the next so many from a key on; and where to go on.
    pub(crate) fn open_pages(&self, level: u8, from: Key, most: usize) -> (Vec<Page>, Option<Key>) {
        let all = usize::from(level).checked_sub(1).and_then(|n| self.branches.get(n));
        let mut some = all.into_iter().flat_map(|all| all.range(from..));
        let page = |(&at, own): (&Key, &Branch)| {
            let stands = own.is_open && !own.dirty;
            stands.then_some(Page { level, at, pointer: own.pointer? })
        };
        let open = some.by_ref().take(most).filter_map(page).collect();
        (open, some.next().map(|(&at, _)| at))
    }

    /// The page is named, and not in memory.
    pub(crate) fn is_unread(&self, page: Page) -> bool {
        self.subtree(page).is_some()
    }

    /// It is known that the page stands there.
    pub(crate) fn names(&self, level: u8, at: Key, stands: Pointer) -> bool {
        matches!(self.known(level, at), Known::There { pointer, .. } if pointer == stands)
    }

    /// The page may be named still.
    pub(crate) fn may_name(&self, page: Page) -> bool {
        match self.known(page.level, page.at) {
            Known::There { pointer, .. } => pointer == page.pointer,
            Known::Unread(_) => true,
            Known::Gone => false,
        }
    }

    /// The next leaves from a key on that stand on the members, up to a branch that is closed, which comes after these; and where to go on.
    pub(crate) fn walk(&self, from: Key, most: usize) -> (Vec<Page>, Option<Page>, Option<Key>) {
        let mut leaves = Vec::new();
        for (&at, place) in self.places.range(from..) {
            if leaves.len() == most {
                return (leaves, None, Some(at));
            }
            match place {
                AtKey::Closed(_) => return (leaves, self.page_at(at, place), self.next(at)),
                AtKey::Leaf(slot) if slot.dirty => {}
                AtKey::Leaf(_) => leaves.extend(self.page_at(at, place)),
            }
        }
        (leaves, None, None)
    }
}
