//! Admitted requests, and the slots that carry them out.

use core::cell::Cell;

use brindle_io::sync::Notify;

use crate::nbd::proto::Command;
use crate::session::Ticket;

/// An admitted request; the ticket has the memory for it.
pub(super) struct Admitted {
    pub(super) cookie: u64,
    pub(super) command: Command,
    pub(super) ticket: Ticket,
}

/// Where a slot's task finds its next job.
pub(super) struct Slot {
    pub(super) job: Cell<Option<Admitted>>,
    pub(super) wake: Notify,
}
