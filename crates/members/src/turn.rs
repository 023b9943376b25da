//! The turn to record a change of state: one task has it at a time.

use core::cell::Cell;

use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Io, Task};

/// The turns of tasks that change the record.
pub struct Turns {
    busy: Cell<bool>,
    freed: Notify,
}

/// A guard: the turn ends when it is dropped.
#[must_use]
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.freed.notify();
    }
}

impl Turns {
    /// A turn that is free.
    pub fn new(io: &Io) -> Self {
        Self { busy: Cell::new(false), freed: Notify::new(io) }
    }

    /// Waits for the turn.
    pub async fn turn(&self) -> Turn<'_> {
        self.freed.until(|| (!self.busy.replace(true)).then_some(())).await;
        Turn(self)
    }

    /// Whether a task has it.
    pub fn is_taken(&self) -> bool {
        self.busy.get()
    }
}

/// Does something with an owner's turn, in a task of its own: once begun it comes to its end, whatever becomes of who waits. Until
/// then devices own the record's buffers, and a later change must not overtake it.
pub fn in_turn<O: 'static, T: 'static>(
    io: &Io,
    owner: Rc<O>,
    turns: impl Fn(&O) -> &Turns + 'static,
    work: impl AsyncFnOnce(&O) -> T + 'static,
) -> Task<T> {
    io.spawn(async move {
        let _turn = turns(&owner).turn().await;
        work(&owner).await
    })
}
