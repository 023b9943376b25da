//! Whether a client does what it is waited for, counted in rounds.

use core::cell::Cell;

/// Whether a client does what is waited for.
#[derive(Default)]
pub(crate) struct Motion {
    awaited: Cell<bool>,
    moved: Cell<bool>,
    rounds: Cell<u32>,
    begun: Cell<u32>,
}

impl Motion {
    /// Starts to wait for the client.
    #[inline]
    pub(crate) fn begins(&self) {
        self.awaited.set(true);
        self.begun.set(self.begun.get().wrapping_add(1));
        self.moved();
    }

    /// The client is waited for.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.get()
    }

    /// How often the server has waited for the client so far.
    pub(super) fn begun(&self) -> u32 {
        self.begun.get()
    }

    /// Notes that the client has made good progress.
    #[inline]
    pub(crate) fn moved(&self) {
        self.moved.set(true);
        self.rounds.set(0);
    }

    /// Ends the wait: the client has done its part.
    #[inline]
    pub(crate) fn ends(&self) {
        self.awaited.set(false);
        self.rounds.set(0);
    }

    /// A round is over.
    pub(super) fn look(&self) {
        if self.awaited.get() && !self.moved.replace(false) {
            self.rounds.set(self.rounds.get().saturating_add(1));
        }
    }

    /// Whole rounds in which the client has not moved though it should.
    pub(super) fn still(&self) -> u32 {
        self.rounds.get()
    }
}
