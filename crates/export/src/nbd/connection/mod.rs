//! A connection in the transmission phase: one task receives and sorts out requests, some carry them out, one sends.
//!
//! Every request holds a [`Ticket`](crate::session::Ticket) until its reply is sent. Tickets bound what a client can
//! make us hold, and by counting them the end of a connection knows that nothing is left.

mod admitted;
mod course;
mod receive;
mod send;
mod slot;

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::race;
use brindle_io::{Buf, Duration, Task};
use brindle_volume::Volume;

use super::export::Export;
use super::proto::Terms;
use crate::session::{End, Inbox, Link, Memory, SharedCounters};
use admitted::Slot;
use send::Replies;

/// All that the tasks of one connection share.
pub(crate) struct Transmission<V> {
    link: Rc<Link>,
    memory: Rc<Memory>,
    export: Rc<Export<V>>,
    terms: Terms,
    grace: Duration,
    replies: Replies,
    idle: RefCell<Vec<Rc<Slot>>>,
    tasks: RefCell<Vec<Task<()>>>,
    /// No request will come any more, and none is left.
    finished: Cell<bool>,
}

impl<V: Volume + 'static> Transmission<V> {
    /// `grace`: how long the client of a stopping server may take to read its last replies.
    pub(crate) fn new(
        link: Rc<Link>,
        memory: Rc<Memory>,
        export: Rc<Export<V>>,
        terms: Terms,
        grace: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            replies: Replies::new(&link.io),
            link,
            memory,
            export,
            terms,
            grace,
            idle: RefCell::default(),
            tasks: RefCell::default(),
            finished: Cell::new(false),
        })
    }

    /// Serves the connection to its end: when this returns its socket is closed, its tasks have ended and its
    /// requests have let go of their memory.
    pub(crate) async fn run(self: &Rc<Self>, inbox: Inbox, outbox: Buf) -> End {
        let link = &self.link;
        let sender = link.io.spawn(send::run(Rc::clone(self), outbox));
        let end = self.receive(inbox).await;
        if end == End::Orderly {
            // The client waits for these replies. One that does not take them is a matter for the patrol, and a server
            // that stops does not wait for it.
            race(link.drained_or_closed(), self.out_of_patience()).await;
            link.take_leave(self.grace).await;
        }
        link.close();
        link.drained().await;
        self.finished.set(true);
        self.replies.finish();
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

    /// The server stops, and the client has had its time to read what the volume has answered.
    async fn out_of_patience(&self) {
        self.link.stopped(|| self.idle.borrow().len() == self.tasks.borrow().len()).await;
        self.link.io.sleep(self.grace).await;
    }

    fn tallies(&self) -> [&SharedCounters; 2] {
        [&self.export.tally, &self.link.tally]
    }
}
