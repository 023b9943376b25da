//! A connection in the transmission phase: one task receives and sorts out requests, some carry them out, one sends.
//!
//! Every request holds a [`Ticket`] until its reply is sent. Tickets bound what a client can make us hold, and by
//! counting them the end of a connection knows that nothing is left.

mod link;
mod receive;
mod send;
mod slot;

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::Volume;
use brindle_io::sync::race;
use brindle_io::{Buf, Task};

use super::export::{Export, Tally};
use super::inbox::Inbox;
use super::proto::Terms;
use super::server::Memory;
pub(crate) use link::{End, Link, Ticket};
pub(crate) use send::OUTBOX;
use slot::Slot;

/// All that the tasks of one connection share.
pub(crate) struct Session<V> {
    pub(crate) link: Rc<Link>,
    pub(crate) export: Rc<Export<V>>,
    pub(crate) terms: Terms,
    pub(crate) memory: Rc<Memory>,
    idle: RefCell<Vec<Rc<Slot>>>,
    tasks: RefCell<Vec<Task<()>>>,
    /// No request will come any more, and none is left.
    finished: Cell<bool>,
}

impl<V: Volume + 'static> Session<V> {
    pub(crate) fn new(link: Rc<Link>, export: Rc<Export<V>>, terms: Terms, memory: Rc<Memory>) -> Rc<Self> {
        Rc::new(Self {
            link,
            export,
            terms,
            memory,
            idle: RefCell::default(),
            tasks: RefCell::default(),
            finished: Cell::new(false),
        })
    }

    /// Serves the connection to its end: when this returns its socket is closed, its tasks have ended and its
    /// requests have let go of their memory.
    pub(crate) async fn run(self: &Rc<Self>, inbox: Inbox, outbox: Buf) -> End {
        let link = &self.link;
        let io = link.io.clone();
        let sender = io.spawn(send::run(Rc::clone(link), outbox, self.terms.structured));
        let end = self.receive(inbox).await;
        if end == End::Orderly {
            // The client, or whoever stops the server, waits for these replies, but not without end.
            let _ = race(link.drained_or_closed(), io.sleep(self.memory.config.grace)).await;
        }
        link.close();
        link.drained().await;
        self.finished.set(true);
        link.finish_sender();
        for slot in self.idle.borrow().iter() {
            slot.wake.notify();
        }
        sender.await;
        for task in self.tasks.take() {
            task.await;
        }
        self.idle.borrow_mut().clear();
        end
    }

    fn tallies(&self) -> [&Tally; 2] {
        [&self.export.tally, &self.link.tally]
    }
}
