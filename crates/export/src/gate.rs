//! Whether doors without reservations may write to a volume: while an initiator holds it, they may not.

use core::cell::Cell;

/// Shared by the doors of one volume.
#[derive(Debug, Default)]
pub struct Gate {
    closed: Cell<bool>,
    /// It stays open, whoever holds the volume.
    shared: bool,
}

impl Gate {
    /// One that stays open: writers share the volume.
    pub fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// Others hold the volume, or nobody does any more.
    pub(crate) fn set(&self, closed: bool) {
        self.closed.set(closed && !self.shared);
    }

    /// Nothing may be written.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
