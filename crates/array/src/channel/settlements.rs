//! Writes of a channel that home settles, and its answers.

use core::cell::{Cell, RefCell};

use brindle_io::Io;
use brindle_io::sync::Notify;

use crate::channels::shared::SETTLE_NUMBERS;

/// Writes of which home has been told, and its answers.
pub(super) struct Settlements {
    next: Cell<u32>,
    answers: RefCell<Vec<(u32, bool)>>,
    changed: Notify,
}

impl Settlements {
    pub(super) fn new(io: &Io) -> Self {
        Self { next: Cell::new(0), answers: RefCell::default(), changed: Notify::new(io) }
    }

    pub(super) fn number(&self) -> u32 {
        self.next.replace((self.next.get() + 1) % SETTLE_NUMBERS)
    }

    fn take(&self, number: u32) -> Option<bool> {
        let mut answers = self.answers.borrow_mut();
        let at = answers.iter().position(|&(settled, _)| settled == number)?;
        Some(answers.swap_remove(at).1)
    }
    /// Home has settled a write.
    pub(super) fn settled(&self, number: u32, is_well: bool) {
        self.answers.borrow_mut().push((number, is_well));
        self.changed.notify();
    }

    /// Waits until home has: whether the write may be acknowledged.
    pub(super) async fn answer(&self, number: u32) -> bool {
        self.changed.until(|| self.take(number)).await
    }
}
