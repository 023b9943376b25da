//! The right to put a change of the state on record; one at a time.

use core::cell::Cell;

use brindle_io::Io;
use brindle_io::sync::Event;

/// Who may change what is on record.
pub struct Turns {
    busy: Cell<bool>,
    freed: Event,
}

/// A turn lasts as long as this does.
#[must_use]
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.freed.notify();
    }
}

impl Turns {
    /// Nobody has the turn.
    pub fn new(io: &Io) -> Self {
        Self { busy: Cell::new(false), freed: Event::new(io) }
    }

    /// Waits for it.
    pub async fn turn(&self) -> Turn<'_> {
        self.freed.until(|| (!self.busy.replace(true)).then_some(())).await;
        Turn(self)
    }

    /// Somebody has it.
    pub fn is_taken(&self) -> bool {
        self.busy.get()
    }
}
