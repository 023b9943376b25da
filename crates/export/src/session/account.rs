//! The account of a client: what its requests hold, what it has done, whether it moves, why and when it ends. It needs no socket: a [`Wire`]
//! is whatever brings the requests.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Either, Hurry, Notify, race};
use brindle_io::{Duration, Instant, Io};
use brindle_volume::VolumeError;

use crate::access::{Client, Proof};
use crate::gate::Gate;
use crate::pieces::Charge;

use super::client_progress::Motion;
use super::tally::SharedCounters;
use super::unread_replies::Unread;

/// Why no further request is taken from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client took its leave, or closed its side, or the server stops: replies are still sent.
    Orderly,
    /// The client sent something that is not a request: the bytes behind it can't be understood.
    Garbage,
    /// The connection is closed or broken.
    Broken,
}

/// A client of which no request is taken has a volume that stops.
impl From<End> for VolumeError {
    fn from(_: End) -> Self {
        Self::Stopping
    }
}

/// The way by which a client's requests come and its replies go, as far as its account needs it.
pub trait Wire: 'static {
    /// The account is closed: nothing comes or goes any more. Called once.
    fn close(&self) {}

    /// Bytes of replies that the client has not taken; `None` if nothing tells.
    fn untaken(&self) -> Option<u64> {
        None
    }
}

/// Calls in memory: nothing is on its way.
impl Wire for () {}

/// The account of one client.
pub struct Account {
    pub(crate) io: Io,
    wire: Box<dyn Wire>,
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
    /// The wire is enciphered.
    secure: Cell<bool>,
    closed: Cell<bool>,
    stopping: Cell<bool>,
    hung_up: Cell<bool>,
    pub(super) outstanding: Cell<usize>,
    /// Bytes of the common memory that its requests hold.
    pub(super) held: Cell<usize>,
    /// Blocks of the reserve that its requests hold.
    pub(super) reserved: Cell<usize>,
    /// Requests are waited for, as no more are taken.
    hurry: RefCell<Option<Hurry>>,
    /// A task waits for tickets to be given back.
    watched: Cell<bool>,
    changed: Notify,
}

impl Account {
    pub(super) fn new(io: &Io, client: Client, wire: impl Wire) -> Rc<Self> {
        Rc::new(Self {
            io: io.clone(),
            wire: Box::new(wire),
            tally: SharedCounters::default(),
            taking: Motion::default(),
            giving: Motion::default(),
            unread: Unread::default(),
            since: io.now(),
            heard: Cell::new(io.now()),
            undecided: Cell::new(0),
            visits: Cell::new(false),
            export: RefCell::default(),
            client: RefCell::new(client),
            secure: Cell::new(false),
            closed: Cell::new(false),
            stopping: Cell::new(false),
            hung_up: Cell::new(false),
            outstanding: Cell::new(0),
            held: Cell::new(0),
            reserved: Cell::new(0),
            hurry: RefCell::default(),
            watched: Cell::new(false),
            changed: Notify::new(io),
        })
    }

    /// The client, as far as it is known.
    pub fn client(&self) -> Client {
        self.client.borrow().clone()
    }

    /// The client has proved a name.
    pub(crate) fn proved(&self, proof: Option<Proof>) {
        self.client.borrow_mut().proved = proof;
    }

    /// The wire is enciphered from now on.
    pub(super) fn is_enciphered(&self) {
        self.secure.set(true);
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure.get()
    }

    /// Closes the wire, once.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.wire.close();
            self.ends();
        }
    }

    /// Whether the wire is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// No further request is to be taken.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.ends();
    }

    /// Why requests are no longer to be taken, if they are not.
    pub fn interrupted(&self) -> Option<End> {
        if self.closed.get() {
            return Some(End::Broken);
        }
        self.stopping.get().then_some(End::Orderly)
    }

    /// The client has closed its side without taking its leave.
    pub fn hangs_up(&self) {
        self.hung_up.set(true);
        self.ends();
    }

    /// No request is taken any more. Those under way are waited for, and are not to wait for others.
    pub(crate) fn ends(&self) {
        self.changed.notify();
        if self.outstanding.get() > 0 {
            self.hurry.borrow_mut().get_or_insert_with(|| self.io.hurrying());
        }
    }

    /// Whether requests that take long are to end: none are taken any more, or nobody waits for this one.
    pub fn is_over(&self) -> bool {
        self.interrupted().is_some() || self.hung_up.get()
    }

    /// Waits until requests that take long are to end.
    pub async fn over(&self) {
        self.changed.until(|| self.is_over().then_some(())).await;
    }

    /// Waits until requests are no longer to be taken.
    pub async fn interruption(&self) -> End {
        self.changed.until(|| self.interrupted()).await
    }

    /// Waits until a request that moves so many bytes is due by the limits of an export. Limits apply before the request has memory, so that
    /// no other request waits for that memory.
    ///
    /// # Errors
    /// The end of the account, if that comes first.
    pub async fn due(&self, gate: &Gate, bytes: u64) -> Result<(), End> {
        match race(gate.pace(Charge::request(bytes)), self.interruption()).await {
            Either::First(()) => Ok(()),
            Either::Second(end) => Err(end),
        }
    }

    /// The client, which has not chosen an export yet, has said something.
    pub(crate) fn heard(&self) {
        self.heard.set(self.io.now());
        if self.visits.get() {
            self.undecided.set(0);
        }
    }

    /// The client wants to learn of exports only. It has a place among its like from now on, and may not be silent for long.
    pub(super) fn visits(&self) {
        self.visits.set(true);
        self.undecided.set(0);
    }

    /// Whether the client only wants to learn of exports.
    pub(super) fn is_visit(&self) -> bool {
        self.visits.get()
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.heard.get()
    }

    /// The client has chosen: from now on it may be idle for as long as it likes.
    pub fn settle(&self, export: &str) {
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
            self.unread.look(&self.taking, self.wire.untaken());
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
    pub async fn drained(&self) {
        self.watch(|| (self.outstanding.get() == 0).then_some(())).await;
    }

    /// Waits until the wire is closed.
    pub async fn is_gone(&self) {
        self.changed.until(|| self.closed.get().then_some(())).await;
    }

    /// The server stops, `at_rest` says that nothing is being carried out for this client, and the client has had its time to take what it
    /// was answered.
    pub(super) async fn out_of_patience(&self, at_rest: impl Fn() -> bool, grace: Duration) {
        self.changed.until(|| (self.stopping.get() && at_rest()).then_some(())).await;
        self.io.sleep(grace).await;
    }

    /// A request has been carried out: the last one may be waited for.
    #[inline]
    pub(super) fn carried_out(&self) {
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
        if self.outstanding.get() == 0 && self.hurry.borrow().is_some() {
            self.hurry.replace(None);
        }
    }
}
