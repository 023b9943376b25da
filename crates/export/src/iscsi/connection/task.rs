//! A command from its coming to its answer.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};

use crate::iscsi::pdu::Header;
use crate::scsi::{Action, Sense};
use crate::session::Ticket;

/// How a command ends that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum Abort {
    /// Its initiator has asked for it, and gets no status.
    Silently,
    /// Somebody else has: TASK ABORTED.
    WithStatus,
}

/// Stands for a command that has not been answered; dropped when it has.
pub(super) struct Open(Rc<Cell<u32>>);

impl Open {
    pub(super) fn new(count: &Rc<Cell<u32>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The work of one command.
pub(in crate::iscsi) struct Work {
    pub(super) command: Rc<Command>,
    pub(super) open: Open,
}

/// A burst of data that was asked for. Bytes of the command's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Burst {
    /// Where the next data are to begin.
    pub(super) next: usize,
    /// Where the burst ends.
    pub(super) end: usize,
    /// The number of the next PDU.
    pub(super) number: u32,
}

/// A command.
pub(in crate::iscsi) struct Command {
    pub(super) header: Header,
    pub(super) action: RefCell<Action>,
    /// Where data go that are sent.
    pub(super) memory: RefCell<Option<Slice>>,
    /// The ticket came with the command.
    pub(super) ticket: Cell<Option<Ticket>>,
    /// The tag by which data are asked for.
    pub(super) tag: u32,
    pub(super) burst: Cell<Burst>,
    /// The error in data that has come otherwise than it was asked for.
    pub(super) spoiled: Cell<Option<Sense>>,
    /// The residual of its answer, where it is not done for that.
    pub(super) residual: Cell<Option<(u8, u32)>>,
    aborted: Cell<Option<Abort>>,
    ended: Cell<bool>,
    io: Io,
    /// Data have come, it is aborted, or it has ended.
    pub(super) changed: Notify,
}

impl Command {
    pub(super) fn new(io: &Io, header: Header, action: Action, tag: u32) -> Self {
        Self {
            header,
            action: RefCell::new(action),
            memory: RefCell::default(),
            ticket: Cell::default(),
            tag,
            burst: Cell::default(),
            spoiled: Cell::new(None),
            residual: Cell::new(None),
            aborted: Cell::new(None),
            ended: Cell::new(false),
            io: io.clone(),
            changed: Notify::new(io),
        }
    }

    pub(super) fn tag_of_task(&self) -> u32 {
        self.header.task()
    }

    /// EXPECTED DATA TRANSFER LENGTH.
    pub(super) fn expected(&self) -> usize {
        self.header.word(20) as usize
    }

    /// The initiator will send data.
    pub(super) fn writes(&self) -> bool {
        self.header.flags() & 0x20 != 0
    }

    pub(in crate::iscsi) fn abort(&self, how: Abort) {
        if self.aborted.get().is_none() {
            self.aborted.set(Some(how));
        }
        self.io.hurry();
        self.changed.notify();
    }

    /// Data have been asked for and have not come.
    pub(super) fn awaits_data(&self) -> bool {
        let Burst { next, end, .. } = self.burst.get();
        next < end
    }

    pub(super) fn aborted(&self) -> Option<Abort> {
        self.aborted.get()
    }

    pub(super) fn end(&self) {
        self.ended.set(true);
        *self.memory.borrow_mut() = None;
        self.ticket.set(None);
        self.changed.notify();
    }

    /// Waits until the command is no longer being carried out.
    pub(in crate::iscsi) async fn has_ended(&self) {
        self.changed.until(|| self.ended.get().then_some(())).await;
    }
}
