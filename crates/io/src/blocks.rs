//! Free blocks of pages, by size: a buddy system that joins neighbours only when it has to.

use crate::arena::PAGE;

/// log2 of the largest block in pages: 32 MiB.
pub(crate) const MAX_ORDER: usize = 13;
/// The largest buffer, in bytes: 32 MiB, the largest request of an NBD client.
pub const MAX_BUF: usize = PAGE << MAX_ORDER;

/// First pages of free blocks, by order: a block has 2^order pages, and begins at a multiple of that.
#[derive(Default)]
pub(crate) struct Blocks([Vec<u32>; MAX_ORDER + 1]);

impl Blocks {
    /// Adds the free pages from `page` on up to `end`, as the largest blocks that they make.
    pub(crate) fn add(&mut self, mut page: usize, end: usize) {
        while page < end {
            // The largest block that is aligned here and fits.
            let order = (end - page).ilog2().min(alignment_order(page)) as usize;
            self.give(page as u32, order);
            page += 1 << order;
        }
    }

    /// Adds a free block.
    #[inline]
    pub(crate) fn give(&mut self, page: u32, order: usize) {
        self.0[order].push(page);
    }

    /// A block of exactly this order that was free as such.
    #[inline]
    pub(crate) fn take(&mut self, order: usize) -> Option<u32> {
        self.0[order].pop()
    }

    /// Cuts a block of `order` from a larger one; joins free neighbours first if no larger one is left.
    #[cold]
    pub(crate) fn split(&mut self, order: usize) -> Option<u32> {
        let larger = |blocks: &Self| (order..=MAX_ORDER).find(|&o| !blocks.0[o].is_empty());
        let from = match larger(self) {
            Some(from) => from,
            None => {
                self.join();
                larger(self)?
            }
        };
        let page = self.take(from)?;
        for o in (order..from).rev() {
            self.give(page + (1 << o), o);
        }
        Some(page)
    }

    /// Joins free buddies into larger blocks. Left undone on every free, since most blocks are used again as they are.
    pub(crate) fn join(&mut self) {
        for order in 0..MAX_ORDER {
            let mut pages = core::mem::take(&mut self.0[order]);
            pages.sort_unstable_by(|a, b| b.cmp(a));
            while let Some(page) = pages.pop() {
                let buddies = page & (1 << order) == 0 && pages.last() == Some(&(page + (1 << order)));
                if buddies {
                    pages.pop();
                    self.give(page, order + 1);
                } else {
                    self.give(page, order);
                }
            }
            self.0[order].reverse(); // low addresses first: `take` takes from the end
        }
    }

    /// Takes the free blocks away that lie in stretches of `1 << stretch` pages which are `gone`.
    pub(crate) fn remove(&mut self, stretch: usize, gone: &[bool]) {
        for order in (stretch + 1..=MAX_ORDER).rev() {
            for page in core::mem::take(&mut self.0[order]) {
                self.give(page + (1 << (order - 1)), order - 1);
                self.give(page, order - 1);
            }
        }
        for blocks in &mut self.0[..=stretch] {
            blocks.retain(|&page| !gone[page as usize >> stretch]);
        }
    }

    /// Free pages in each stretch of `1 << stretch` pages.
    pub(crate) fn count(&self, stretch: usize, stretches: usize) -> Vec<usize> {
        let mut pages = vec![0; stretches];
        for (order, blocks) in self.0.iter().enumerate() {
            for &page in blocks {
                // A large block fills whole stretches, a small one lies within one.
                let first = page as usize >> stretch;
                let filled = 1 << order.saturating_sub(stretch);
                for count in pages.iter_mut().skip(first).take(filled) {
                    *count += 1 << order.min(stretch);
                }
            }
        }
        pages
    }
}

/// log2 of the alignment of a page number in pages; page 0 is aligned to everything.
fn alignment_order(page: usize) -> u32 {
    if page == 0 { MAX_ORDER as u32 } else { page.trailing_zeros().min(MAX_ORDER as u32) }
}
