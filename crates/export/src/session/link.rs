//! A connection: its socket, why and when it ends, and the account of what its requests hold.

use core::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Notify, race};
use brindle_io::{Duration, Instant, Io, OpError, Pool, Slice, SocketId};

use crate::access::{Client, Proof};
use crate::tls::Tls;

use super::client_progress::Motion;
use super::secure::{Secure, SecureError};
use super::tally::SharedCounters;
use super::unread_replies::Unread;

/// Why no further request is taken from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client took its leave, or closed its side, or the server stops: replies are still sent.
    Orderly,
    /// The client sent something that is not a request: the bytes behind it can't be understood.
    Garbage,
    /// The socket is closed or broken.
    Broken,
}

pub(crate) struct Link {
    pub(crate) io: Io,
    pub(crate) socket: SocketId,
    pub(crate) tally: SharedCounters,
    /// Whether the client takes its replies.
    pub(crate) taking: Motion,
    /// Whether the client sends the data that it has announced.
    pub(crate) giving: Motion,
    /// Whether the client takes anything at all of its replies.
    unread: Unread,
    pub(super) since: Instant,
    /// When something last came from a client that has not chosen an export.
    heard: Cell<Instant>,
    /// Rounds of the patrol in which the client had not chosen an export, or has said nothing though it only wants to learn of exports.
    pub(super) undecided: Cell<u32>,
    /// The client wants to learn of exports, and uses none.
    visits: Cell<bool>,
    export: RefCell<Option<String>>,
    client: RefCell<Client>,
    /// TLS, once it is spoken.
    secure: OnceCell<Box<Secure>>,
    /// The reactor may give a closed socket's number to another connection: after this is set, `socket` is not used.
    closed: Cell<bool>,
    stopping: Cell<bool>,
    hung_up: Cell<bool>,
    pub(super) outstanding: Cell<usize>,
    /// Bytes of the common memory that its requests hold.
    pub(super) held: Cell<usize>,
    /// Blocks of the reserve that its requests hold.
    pub(super) reserved: Cell<usize>,
    /// A task waits for tickets to be given back.
    watched: Cell<bool>,
    changed: Notify,
}

impl Link {
    pub(super) fn new(io: &Io, socket: SocketId) -> Rc<Self> {
        Rc::new(Self {
            io: io.clone(),
            socket,
            tally: SharedCounters::default(),
            taking: Motion::default(),
            giving: Motion::default(),
            unread: Unread::default(),
            since: io.now(),
            heard: Cell::new(io.now()),
            undecided: Cell::new(0),
            visits: Cell::new(false),
            export: RefCell::default(),
            secure: OnceCell::new(),
            client: RefCell::new(Client { address: io.peer(socket), proved: None }),
            closed: Cell::new(false),
            stopping: Cell::new(false),
            hung_up: Cell::new(false),
            outstanding: Cell::new(0),
            held: Cell::new(0),
            reserved: Cell::new(0),
            watched: Cell::new(false),
            changed: Notify::new(io),
        })
    }

    /// The client, as far as it is known.
    pub(crate) fn client(&self) -> Client {
        self.client.borrow().clone()
    }

    /// The client has proved a name.
    pub(crate) fn proved(&self, proof: Option<Proof>) {
        self.client.borrow_mut().proved = proof;
    }

    /// Speaks TLS from now on.
    pub(crate) async fn secure(&self, tls: &Tls, buffers: &Pool) -> Result<(), SecureError> {
        let (secure, proof) = Secure::begin(&self.io, self.socket, tls, buffers).await?;
        self.proved(proof);
        // TLS begins once: callers check that before.
        let _ = self.secure.set(Box::new(secure));
        Ok(())
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure.get().is_some()
    }

    /// Receives what has come, at most the slice's length; 0 at the end of the stream.
    pub(crate) async fn recv(&self, into: &Slice) -> Result<usize, OpError> {
        match self.secure.get() {
            None => self.io.recv(self.socket, into).await,
            Some(secure) => secure.recv(&self.io, self.socket, into).await,
        }
    }

    /// Sends all bytes of all slices, in order. Two sends must not overlap.
    pub(crate) async fn send(&self, from: &[Slice]) -> Result<(), OpError> {
        match self.secure.get() {
            None => self.io.send(self.socket, from).await,
            Some(secure) => secure.send(&self.io, self.socket, from).await,
        }
    }

    /// Tells a client that speaks TLS that nothing more will come, so that it knows that nobody on the way has cut the rest off. Does
    /// nothing while replies are under way; gives up after `patience`.
    pub(crate) async fn take_leave(&self, patience: Duration) {
        let Some(secure) = self.secure.get().filter(|_| !self.is_closed() && self.outstanding.get() == 0)
        else {
            return;
        };
        race(secure.take_leave(&self.io, self.socket), self.io.sleep(patience)).await;
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
    pub(super) fn stop(&self) {
        self.stopping.set(true);
        self.changed.notify();
    }

    /// Why requests are no longer to be taken, if they are not.
    fn interrupted(&self) -> Option<End> {
        if self.closed.get() {
            return Some(End::Broken);
        }
        self.stopping.get().then_some(End::Orderly)
    }

    /// The client has closed its side without taking its leave.
    pub(crate) fn hangs_up(&self) {
        self.hung_up.set(true);
        self.changed.notify();
    }

    /// Whether requests that take long are to end: none are taken any more, or nobody waits for this one.
    pub(crate) fn is_over(&self) -> bool {
        self.interrupted().is_some() || self.hung_up.get()
    }

    /// Waits until requests that take long are to end.
    pub(crate) async fn over(&self) {
        self.changed.until(|| self.is_over().then_some(())).await;
    }

    /// Waits until requests are no longer to be taken.
    pub(crate) async fn interruption(&self) -> End {
        self.changed.until(|| self.interrupted()).await
    }

    /// The client, which has not chosen an export yet, has said something.
    pub(crate) fn heard(&self) {
        self.heard.set(self.io.now());
        if self.visits.get() {
            self.undecided.set(0);
        }
    }

    /// The client wants to learn of exports only. It has a place among its like from now on, and may not be silent for long.
    pub(crate) fn visits(&self) {
        self.visits.set(true);
        self.undecided.set(0);
    }

    /// Whether the client only wants to learn of exports.
    pub(crate) fn is_visit(&self) -> bool {
        self.visits.get()
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.heard.get()
    }

    /// The client has chosen: from now on it may be idle for as long as it likes.
    pub(crate) fn settle(&self, export: &str) {
        *self.export.borrow_mut() = Some(export.to_owned());
    }

    pub(super) fn is_settled(&self) -> bool {
        self.export.borrow().is_some()
    }

    pub(super) fn export(&self) -> Option<String> {
        self.export.borrow().clone()
    }

    /// A round of the patrol is over.
    pub(super) fn look(&self) {
        self.taking.look();
        self.giving.look();
        if !self.is_closed() {
            self.unread.look(&self.taking, self.io.untaken(self.socket));
        }
        if !self.is_settled() || self.is_visit() {
            self.undecided.set(self.undecided.get() + 1);
        }
    }

    /// Whole rounds in which the client has not moved though it should.
    pub(super) fn still(&self) -> u32 {
        self.taking.still().max(self.giving.still())
    }

    /// Whole rounds in which the client has taken no byte of replies that are there for it; 0 for one that is idle.
    pub(super) fn unread(&self) -> u32 {
        self.unread.rounds()
    }

    /// Whole rounds in which the client has done nothing of what the server waits for. One that reads is alive,
    /// however slowly it does.
    pub(super) fn dead(&self) -> u32 {
        self.giving.still().max(self.taking.still().min(self.unread()))
    }

    /// The client has not moved for a round.
    pub(super) fn is_stuck(&self) -> bool {
        self.still() > 0
    }

    /// Waits until fewer than `most` requests are under way.
    pub(super) async fn has_fewer(&self, most: usize) -> Result<(), End> {
        let fits = || self.outstanding.get() < most;
        if fits() {
            return Ok(());
        }
        self.watch(|| self.interrupted().map(Err).or_else(|| fits().then_some(Ok(())))).await
    }

    /// Waits until every request's reply is sent or dropped.
    pub(crate) async fn drained(&self) {
        self.watch(|| (self.outstanding.get() == 0).then_some(())).await;
    }

    /// Waits until every request's reply is sent, or none can be sent any more.
    pub(crate) async fn drained_or_closed(&self) {
        self.watch(|| (self.outstanding.get() == 0 || self.closed.get()).then_some(())).await;
    }

    /// Waits until the socket is closed.
    pub(crate) async fn is_gone(&self) {
        self.changed.until(|| self.closed.get().then_some(())).await;
    }

    /// Waits until the server stops and `at_rest` says that nothing is being carried out for this client.
    pub(crate) async fn stopped(&self, at_rest: impl Fn() -> bool) {
        self.changed.until(|| (self.stopping.get() && at_rest()).then_some(())).await;
    }

    /// A request has been carried out: who waits for the last one looks again.
    #[inline]
    pub(crate) fn carried_out(&self) {
        if self.stopping.get() {
            self.changed.notify();
        }
    }

    /// Waits for `look`, which depends on tickets.
    async fn watch<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        self.watched.set(true);
        let found = self.changed.until(look).await;
        self.watched.set(false);
        found
    }

    /// A ticket has been given back.
    #[inline]
    pub(super) fn given_back(&self) {
        if self.watched.get() {
            self.changed.notify();
        }
    }
}
