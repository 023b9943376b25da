//! A connection in the transmission phase: one task receives and sorts out requests, some carry them out, one sends.
//!
//! Every request holds a [`Ticket`](crate::session::Ticket) until its reply is sent. Tickets bound what a client can
//! make us hold, and by counting them the end of a connection knows that nothing is left.

mod receive;
mod send;
mod slot;

use std::rc::Rc;

use brindle_io::{Buf, Duration};
use brindle_volume::Volume;

use super::proto::Terms;
use crate::session::{End, Export, Inbox, Link, Memory, Replies, Slots};
use send::Answer;
use slot::Admitted;

/// All that the tasks of one connection share.
pub(crate) struct Transmission<V> {
    link: Rc<Link>,
    memory: Rc<Memory>,
    export: Rc<Export<V>>,
    terms: Terms,
    grace: Duration,
    replies: Replies<Answer>,
    slots: Slots<Admitted>,
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
            slots: Slots::default(),
        })
    }

    /// Serves the connection to its end: when this returns its socket is closed, its tasks have ended and its
    /// requests have let go of their memory.
    pub(crate) async fn run(self: &Rc<Self>, inbox: Inbox, outbox: Buf) -> End {
        let link = &self.link;
        let sender = link.io.spawn(send::run(Rc::clone(self), outbox));
        let end = self.receive(inbox).await;
        link.account.ends();
        if end == End::Orderly {
            self.slots.answer_the_last(link, link.drained(), self.grace).await;
            link.take_leave(self.grace).await;
        }
        link.close();
        link.drained().await;
        self.slots.end().await;
        self.replies.finish();
        sender.await;
        end
    }
}
