//! The socket of a connection, the replies that wait for it, and the account of what they hold.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use brindle_io::sync::Event;
use brindle_io::{Duration, Instant, Io, SocketId};

use super::send::Answer;
use crate::nbd::export::Tally;

/// Why no further request is taken from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client took its leave, or closed its side, or the server stops: replies are still sent.
    Orderly,
    /// What came was no request: nothing that follows can be understood.
    Garbage,
    /// The socket is closed or broken.
    Broken,
}

pub(crate) struct Link {
    pub(crate) io: Io,
    pub(crate) socket: SocketId,
    pub(crate) since: Instant,
    pub(crate) tally: Tally,
    pub(crate) export: RefCell<Option<String>>,
    /// The reactor may give a closed socket's number to another connection: after this is set, `socket` is not used.
    closed: Cell<bool>,
    stopping: Cell<bool>,
    sender_finished: Cell<bool>,
    outstanding: Cell<usize>,
    held: Cell<usize>,
    /// A task waits for tickets to be given back.
    starved: Cell<bool>,
    /// Since when the client has not taken a reply.
    pub(super) sending_since: Cell<Option<Instant>>,
    /// Since when the client has not sent the data that it announced.
    pub(super) payload_since: Cell<Option<Instant>>,
    answers: RefCell<VecDeque<Answer>>,
    changed: Event,
    to_sender: Event,
}

impl Link {
    pub(crate) fn new(io: &Io, socket: SocketId) -> Rc<Self> {
        Rc::new(Self {
            io: io.clone(),
            socket,
            since: io.now(),
            tally: Tally::default(),
            export: RefCell::default(),
            closed: Cell::new(false),
            stopping: Cell::new(false),
            sender_finished: Cell::new(false),
            outstanding: Cell::new(0),
            held: Cell::new(0),
            starved: Cell::new(false),
            sending_since: Cell::new(None),
            payload_since: Cell::new(None),
            answers: RefCell::default(),
            changed: Event::new(io),
            to_sender: Event::new(io),
        })
    }

    /// Closes the socket, once.
    pub(crate) fn close(&self) {
        if !self.closed.replace(true) {
            self.io.close(self.socket);
            self.changed.notify();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// No further request is to be taken.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.changed.notify();
    }

    fn interrupted(&self) -> Option<End> {
        if self.closed.get() {
            return Some(End::Broken);
        }
        self.stopping.get().then_some(End::Orderly)
    }

    /// Waits until requests are no longer to be taken.
    pub(crate) async fn interruption(&self) -> End {
        self.changed.until(|| self.interrupted()).await
    }

    /// The client has held up its connection for at least `span`.
    pub(crate) fn stalled_for(&self, now: Instant, span: Duration) -> bool {
        let long = |since: &Cell<Option<Instant>>| since.get().is_some_and(|at| now.since(at) >= span);
        long(&self.sending_since) || long(&self.payload_since)
    }

    /// Waits until a request that holds `bytes` of buffers may begin, of at most `requests` that hold `most` bytes.
    pub(crate) async fn admit(
        self: &Rc<Self>,
        bytes: usize,
        requests: usize,
        most: usize,
    ) -> Result<Ticket, End> {
        let fits = || {
            let held = self.held.get();
            self.outstanding.get() < requests && (held == 0 || held + bytes <= most)
        };
        if !fits() {
            self.starved.set(true);
            let wait = || self.interrupted().map(Err).or_else(|| fits().then_some(Ok(())));
            self.changed.until(wait).await?;
            self.starved.set(false);
        }
        self.outstanding.set(self.outstanding.get() + 1);
        self.held.set(self.held.get() + bytes);
        Ok(Ticket { link: Rc::clone(self), bytes })
    }

    /// Requests whose replies are not sent, and bytes of buffers that they hold.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.outstanding.get(), self.held.get())
    }

    /// Waits until every request's reply is sent or dropped.
    pub(crate) async fn drained(&self) {
        self.starved.set(true);
        self.changed.until(|| (self.outstanding.get() == 0).then_some(())).await;
    }

    pub(crate) async fn drained_or_closed(&self) {
        self.starved.set(true);
        self.changed.until(|| (self.outstanding.get() == 0 || self.closed.get()).then_some(())).await;
    }

    /// Hands a reply to the sender.
    #[inline]
    pub(super) fn answer(&self, answer: Answer) {
        self.answers.borrow_mut().push_back(answer);
        self.to_sender.notify();
    }

    pub(super) fn next_answer(&self) -> Option<Answer> {
        self.answers.borrow_mut().pop_front()
    }

    /// Waits for a reply to send; `false` if there will be none any more.
    pub(super) async fn work_for_sender(&self) -> bool {
        let look = || {
            if self.answers.borrow().is_empty() {
                self.sender_finished.get().then_some(false)
            } else {
                Some(true)
            }
        };
        self.to_sender.until(look).await
    }

    pub(super) fn finish_sender(&self) {
        self.sender_finished.set(true);
        self.to_sender.notify();
    }
}

/// A request's place in its connection's account; given back when the reply is sent or dropped.
pub(crate) struct Ticket {
    link: Rc<Link>,
    bytes: usize,
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        let link = &self.link;
        link.outstanding.set(link.outstanding.get() - 1);
        link.held.set(link.held.get() - self.bytes);
        if link.starved.get() {
            link.changed.notify();
        }
    }
}
