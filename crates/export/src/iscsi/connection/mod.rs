//! A connection in full feature phase: one task receives and sorts out PDUs, some carry out commands, one sends.
//!
//! Memory for what an initiator sends is there before it is asked for (R2T), and is never waited for by the receiver while
//! it has still data to receive, so that a connection's commands can't wait for one another.

mod carry;
mod course;
mod data;
mod manage;
mod receive;
mod send;
pub(super) mod task;

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::Buf;
use brindle_volume::Volume;

use super::login::{Agreed, LoggedIn};
use super::nexuses::SessionEntry;
use super::shared::{Seen, Shared};
use super::target::Target;
use crate::session::{End, Inbox, Link, Memory, Slots};
use send::Outgoing;
use task::Work;

/// All that the tasks of one connection share.
pub(super) struct Connection<V> {
    shared: Rc<Shared<V>>,
    entry: Rc<SessionEntry<V>>,
    link: Rc<Link>,
    memory: Rc<Memory>,
    agreed: Agreed,
    replies: Outgoing,
    /// The number of the next command.
    next_command: Cell<u32>,
    /// Commands that may be open at a time, and those that are.
    window: u32,
    open: Rc<Cell<u32>>,
    /// Functions of task management that wait for the end of commands.
    managing: Rc<Cell<u32>>,
    /// Commands that wait for data.
    awaiting: Cell<usize>,
    next_tag: Cell<u32>,
    /// Text of which the rest is to be asked for.
    rest: RefCell<Vec<u8>>,
    slots: Slots<Work>,
    /// No PDU will come any more.
    ending: Rc<Cell<bool>>,
}

impl<V: Volume + 'static> Connection<V> {
    pub(super) fn new(
        shared: &Rc<Shared<V>>,
        entry: &Rc<SessionEntry<V>>,
        memory: Rc<Memory>,
        logged_in: &LoggedIn,
    ) -> Rc<Self> {
        let link = Rc::clone(&entry.link);
        Rc::new(Self {
            shared: Rc::clone(shared),
            entry: Rc::clone(entry),
            replies: Outgoing::new(&link.io, logged_in.status),
            link,
            memory,
            agreed: logged_in.agreed,
            next_command: Cell::new(logged_in.command),
            window: shared.config.session.requests.clamp(1, 1 << 15) as u32,
            open: Rc::default(),
            managing: Rc::default(),
            awaiting: Cell::new(0),
            next_tag: Cell::new(0),
            rest: RefCell::default(),
            slots: Slots::default(),
            ending: Rc::default(),
        })
    }

    /// Serves the connection to its end: when this returns its socket is closed, its tasks have ended and its commands
    /// have let go of their memory.
    pub(super) async fn run(self: &Rc<Self>, inbox: Inbox, outbox: Buf) -> End {
        let link = &self.link;
        let sender = link.io.spawn(send::run(Rc::clone(self), outbox));
        let end = self.receive(inbox).await;
        self.ends();
        // These commands can get no more data.
        let commands: Vec<_> = self.entry.commands.borrow().clone();
        for command in commands.iter().filter(|command| command.awaits_data()) {
            command.abort(task::Abort::Silently);
        }
        if end == End::Orderly {
            let grace = self.shared.config.session.grace;
            self.slots.answer_the_last(link, self.answered(), grace).await;
        }
        link.close();
        // These commands can get no more data, and nobody will read their answers.
        for command in self.entry.commands.borrow().iter() {
            command.abort(task::Abort::Silently);
        }
        self.slots.end().await;
        self.replies.queue.changed.until(|| (self.managing.get() == 0).then_some(())).await;
        self.replies.queue.finish();
        sender.await;
        link.drained().await;
        end
    }

    /// Waits until all commands have been answered.
    async fn answered(&self) {
        let answered = || self.entry.commands.borrow().is_empty() && self.replies.is_quiet();
        self.replies.queue.changed.until(|| answered().then_some(())).await;
    }

    /// The units that the initiator may use.
    fn seen(&self) -> Seen<'_, V> {
        Seen { shared: &self.shared, entry: &self.entry }
    }

    fn target(&self) -> Option<&Rc<Target<V>>> {
        self.entry.target.as_ref()
    }
}

impl<V> Connection<V> {
    /// ExpCmdSN and MaxCmdSN.
    fn numbers(&self) -> (u32, u32) {
        let expected = self.next_command.get();
        let free = self.window.saturating_sub(self.open.get());
        (expected, expected.wrapping_add(free).wrapping_sub(1))
    }
}
