//! The writes in progress, which tell whether others are likely to follow.

use core::cell::Cell;

/// Writes in a row that must be alone before the next is taken to stay alone.
const ALONE: u32 = 8;

/// The writes in progress, and whether they tend to come together.
#[derive(Default)]
pub(super) struct Writers {
    now: Cell<u32>,
    /// Above 0 if a write had company lately.
    company: Cell<u32>,
}

/// A write's stay among those in progress.
pub(super) struct Counted<'a>(&'a Writers);

impl Writers {
    #[inline]
    pub(super) fn enter(&self) -> Counted<'_> {
        self.now.set(self.now.get() + 1);
        let alone = self.now.get() == 1;
        self.company.set(if alone { self.company.get().saturating_sub(1) } else { ALONE });
        Counted(self)
    }

    /// True if further writes are likely to follow at once.
    #[inline]
    pub(super) fn expects_company(&self) -> bool {
        self.company.get() > 0
    }
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.now.set(self.0.now.get() - 1);
    }
}
