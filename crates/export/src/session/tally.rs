//! What was done, counted.

use core::cell::Cell;

/// What was done on an export, or on a connection, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests replied to.
    pub requests: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
    /// Requests replied to with an error.
    pub errors: u64,
}

/// Counters that are added to while others look.
#[derive(Default)]
pub(crate) struct Tally(Cell<Counters>);

impl Tally {
    pub(crate) fn get(&self) -> Counters {
        self.0.get()
    }

    #[inline]
    pub(crate) fn add(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.get();
        change(&mut counters);
        self.0.set(counters);
    }
}
