//! The things that a channel tells home: one for each time that home listens.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

use brindle_io::sync::Notify;
use brindle_io::{Io, Loan};

use crate::channels::shared::Tell;

/// Things to tell, in their order.
pub(super) struct Telling {
    waiting: RefCell<VecDeque<Tell>>,
    /// Home listens, and there was nothing to tell.
    loan: RefCell<Option<Loan>>,
    told: Cell<u64>,
    /// As many have been taken.
    taken: Cell<u64>,
    changed: Notify,
}

impl Telling {
    pub(super) fn new(io: &Io) -> Self {
        let (waiting, loan) = (RefCell::default(), RefCell::default());
        Self { waiting, loan, told: Cell::new(0), taken: Cell::new(0), changed: Notify::new(io) }
    }

    /// Home listens: it has taken all that it was told.
    pub(super) fn asked(&self, loan: Loan) {
        self.taken.set(self.told.get());
        self.changed.notify();
        match self.waiting.borrow_mut().pop_front() {
            Some(tell) => self.answer(loan, tell),
            None => *self.loan.borrow_mut() = Some(loan),
        }
    }

    fn answer(&self, loan: Loan, tell: Tell) {
        self.told.set(self.told.get() + 1);
        loan.answer(tell.word());
    }

    /// Tells home something. The number is that of [`Telling::taken`].
    pub(super) fn tell(&self, tell: Tell) -> u64 {
        if let Some(loan) = self.take_loan() {
            self.answer(loan, tell);
            return self.told.get();
        }
        let mut waiting = self.waiting.borrow_mut();
        waiting.push_back(tell);
        self.told.get() + waiting.len() as u64
    }

    /// Waits until home has taken what was told under that number.
    pub(super) async fn taken(&self, number: u64) {
        self.changed.until(|| (self.taken.get() >= number).then_some(())).await;
    }

    pub(super) fn take_loan(&self) -> Option<Loan> {
        self.loan.borrow_mut().take()
    }
}
