//! The state of the record: the last uberblock, and whether it says all that it has to.

use core::cell::{Cell, RefCell};

use brindle_format::pool::{RING_SLOTS, Uberblock};
use brindle_io::Io;
use brindle_members::turn::Turns;

/// The relation of the record to what is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It says which members are out of use.
    Current,
    /// A member is out of use, and the record does not say so yet.
    Pending,
    /// More is lost than the pool can do without: there is no record any more.
    Broken,
}

/// The record of a pool.
pub(crate) struct Record {
    /// The uberblock that was written last.
    pub(crate) last: RefCell<Uberblock>,
    /// The turn to write the next one.
    pub(crate) turns: Turns,
    standing: Cell<Standing>,
    /// Slots of uberblocks that held neither one nor zeroes when the pool was opened, a bit each.
    torn: u64,
}

impl Record {
    /// The record as it was found.
    pub(crate) fn new(io: &Io, last: Uberblock, torn: u64) -> Self {
        let (last, standing) = (RefCell::new(last), Cell::new(Standing::Current));
        Self { last, turns: Turns::new(io), standing, torn }
    }

    /// A crash has torn the slot of an uberblock.
    pub(crate) fn is_torn(&self, number: u64) -> bool {
        self.torn >> (number % RING_SLOTS) & 1 == 1
    }

    /// The record says who is out of use.
    pub(crate) fn is_current(&self) -> bool {
        self.standing.get() == Standing::Current
    }

    /// A member is out of use, and the record does not say so yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.standing.get() == Standing::Pending
    }

    /// A member is out of use from now on.
    pub(crate) fn changes(&self) {
        debug_assert!(!self.is_broken(), "no member of a broken pool is done without");
        self.standing.set(Standing::Pending);
    }

    /// The record says who is out of use, or never has to.
    pub(crate) fn made(&self) {
        if self.is_pending() {
            self.standing.set(Standing::Current);
        }
    }

    /// More is lost than the pool can do without.
    pub(crate) fn is_broken(&self) -> bool {
        self.standing.get() == Standing::Broken
    }

    /// The pool is broken from now on.
    pub(crate) fn breaks(&self) {
        self.standing.set(Standing::Broken);
    }
}
