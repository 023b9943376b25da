//! Sessions that go to another reactor before their requests flow, and the requests that come back from there with memory that is
//! lent: volumes, gates and reports are this reactor's alone.
//!
//! A session keeps its account and its place here. Whatever ends it here is posted to the reactor that has it, and it is over when
//! that one says so.

use core::cell::{Cell, RefCell};
use core::iter;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use brindle_io::sync::{Either, Notify, race};
use brindle_io::{HandedSocket, Io, Loan};
use brindle_volume::forwarded::word;
use brindle_volume::{Forward, Ticket, Volume, VolumeError};

use super::proto::Terms;
use crate::session::{ConnectionResources, ConnectionStats, Counters, CountersAway, End, Export, Link};

/// The first byte of the question by which a reactor says that a session is over. No request begins so.
pub(super) const LEFT: u64 = 0xff;

/// A session on its way to another reactor.
pub struct Departing {
    pub(super) number: u32,
    pub(super) socket: HandedSocket,
    pub(super) export: String,
    pub(super) terms: Terms,
    /// A ticket that the other reactor needs to carry out some requests by itself.
    pub(super) ticket: Option<Ticket>,
    pub(super) paced: Arc<AtomicBool>,
    pub(super) closed: Arc<AtomicBool>,
    /// Bytes that have come from the client behind its choice.
    pub(super) waiting: Vec<u8>,
    pub(super) told: Arc<CountersAway>,
}

/// An order to a reactor about the sessions that it has.
pub enum Posting {
    /// Take this one.
    Take(Box<Departing>),
    /// Let this one ask for nothing more.
    Stop(u32),
    /// Close this one.
    Close(u32),
    /// Stop all.
    End,
}

/// Tells one reactor something.
pub type Post = Box<dyn Fn(Posting)>;

/// A session that has no reactor yet.
#[derive(Clone, Copy, Debug)]
pub struct Unplaced<'a> {
    /// Any reactor carries out what it can by itself; else home carries all of it out.
    pub anywhere: bool,
    /// The sessions of each reactor now, home first.
    pub sessions: &'a [usize],
}

/// Chooses the reactor for a session by its number in the crew; `None`: it stays.
pub type Choose = Box<dyn Fn(Unplaced<'_>) -> Option<usize>>;

/// The sessions that other reactors have.
pub struct Away<V> {
    io: Io,
    choose: Choose,
    /// By the numbers of the reactors in the crew, the first of which is 1.
    posts: Vec<Post>,
    sessions: RefCell<BTreeMap<u32, Rc<AwaySession<V>>>>,
    next: Cell<u32>,
    /// By the numbers of the reactors, as `posts`.
    uses: Vec<Cell<AwayUse>>,
    /// Sessions that have stayed.
    staying: Cell<usize>,
    /// Tasks that wait for a request.
    idle: Cell<usize>,
}

/// A reactor's part in a server's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwayUse {
    /// Sessions now.
    pub sessions: usize,
    /// Requests that came from it so far.
    pub requests: u64,
}

/// A session that has stayed.
pub(super) struct Staying<'a>(&'a Cell<usize>);

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A session that another reactor has.
struct AwaySession<V> {
    /// The place of that one in the list.
    at: usize,
    /// Of its connection here.
    connection: u64,
    link: Rc<Link>,
    export: Rc<Export<V>>,
    told: Arc<CountersAway>,
    /// The counters that are in the reports already.
    absorbed: Cell<Counters>,
    /// Requests that are being carried out.
    under_way: Cell<usize>,
    over: Cell<bool>,
    changed: Notify,
}

impl<V: Volume + 'static> Away<V> {
    /// Sessions of `io`, the first of its crew, go to others as `choose` says.
    pub fn new(io: &Io, posts: Vec<Post>, choose: Choose) -> Rc<Self> {
        let sessions = RefCell::default();
        let (next, idle) = (Cell::new(0), Cell::new(0));
        let uses = posts.iter().map(|_| Cell::default()).collect();
        let staying = Cell::new(0);
        let away = Rc::new(Self { io: io.clone(), choose, posts, sessions, next, uses, staying, idle });
        drop(io.spawn(Rc::clone(&away).answer_all()));
        away
    }

    /// Has all other reactors end their sessions, and end.
    pub fn end(&self) {
        self.posts.iter().for_each(|post| post(Posting::End));
    }

    /// The part of each of the other reactors, by its number in the crew, from 1.
    pub fn uses(&self) -> Vec<AwayUse> {
        self.uses.iter().map(Cell::get).collect()
    }

    fn count(&self, at: usize, change: impl FnOnce(&mut AwayUse)) {
        let mut uses = self.uses[at].get();
        change(&mut uses);
        self.uses[at].set(uses);
    }

    /// Answers requests. There is always a task more than there are requests.
    async fn answer_all(self: Rc<Self>) {
        loop {
            self.idle.set(self.idle.get() + 1);
            let loan = self.io.next_loan().await;
            self.idle.set(self.idle.get() - 1);
            if self.idle.get() == 0 {
                drop(self.io.spawn(Rc::clone(&self).answer_next()));
            }
            self.answer(loan).await;
        }
    }

    /// A future without a type that contains itself.
    fn answer_next(self: Rc<Self>) -> core::pin::Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.answer_all())
    }

    async fn answer(&self, loan: Loan) {
        let question = loan.question();
        if question[0] & 0xff == LEFT {
            self.has_left((question[0] >> 32) as u32);
            return loan.answer(0);
        }
        let forward = Forward::of(question);
        let found = forward.and_then(|forward| self.sessions.borrow().get(&forward.volume).cloned());
        let (Some(forward), Some(session)) = (forward, found) else {
            return loan.answer(word(Err(VolumeError::Stopping)));
        };
        self.io.set_class(loan.class());
        self.count(session.at, |uses| uses.requests += 1);
        session.under_way.set(session.under_way.get() + 1);
        let answer = session.carry_out(&forward, &loan).await;
        session.under_way.set(session.under_way.get() - 1);
        loan.answer(answer);
    }

    fn has_left(&self, number: u32) {
        let session = self.sessions.borrow_mut().remove(&number);
        if let Some(session) = session {
            session.absorb();
            self.count(session.at, |uses| uses.sessions -= 1);
            session.over.set(true);
            session.changed.notify();
        }
    }

    /// Gives a session to another reactor, if one is chosen, and serves it to its end. Else gives the resources back.
    pub(super) async fn serve(
        &self,
        resources: ConnectionResources,
        export: &Rc<Export<V>>,
        terms: Terms,
    ) -> Option<ConnectionResources> {
        let link = &resources.link;
        // The state of TLS can't be handed over.
        let may_leave = !link.is_secure() && link.interrupted().is_none();
        let chosen = may_leave.then(|| self.place(&export.volume)).flatten();
        let Some((at, ticket)) = chosen else { return Some(resources) };
        let Some(socket) = link.hand_over() else { return Some(resources) };
        link.settle(&export.name);
        export.enters();
        let post = &self.posts[at];
        self.count(at, |uses| uses.sessions += 1);
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let session = Rc::new(AwaySession {
            at,
            connection: resources.id,
            link: Rc::clone(link),
            export: Rc::clone(export),
            told: Arc::default(),
            absorbed: Cell::default(),
            under_way: Cell::new(0),
            over: Cell::new(false),
            changed: Notify::new(&self.io),
        });
        self.sessions.borrow_mut().insert(number, Rc::clone(&session));
        let waiting = resources.inbox.bytes().to_vec();
        let (name, told) = (export.name.clone(), Arc::clone(&session.told));
        let (paced, closed) = (export.gate.paced(), export.gate.closed());
        let departing =
            Departing { number, socket, export: name, terms, ticket, paced, closed, waiting, told };
        post(Posting::Take(Box::new(departing)));
        // Its memory is for others meanwhile.
        drop((resources.inbox, resources.outbox));
        let end = session.ended(post, number).await;
        export.leaves();
        tracing::debug!(connection = resources.id, export = export.name, ?end, "closed");
        None
    }

    /// The reactor for a session, by its place in the list, with the ticket by which it carries out by itself what it can; `None`: this one.
    fn place(&self, volume: &V) -> Option<(usize, Option<Ticket>)> {
        let others = self.uses.iter().map(|uses| uses.get().sessions);
        let sessions: Vec<usize> = iter::once(self.staying.get()).chain(others).collect();
        let choose = |anywhere| {
            let chosen = (self.choose)(Unplaced { anywhere, sessions: &sessions });
            chosen.and_then(|to| to.checked_sub(1)).filter(|at| *at < self.posts.len())
        };
        let at = choose(true)?;
        match volume.ticket(at + 1) {
            Some(ticket) => Some((at, Some(ticket))),
            None => Some((choose(false)?, None)),
        }
    }

    /// A session stays here, as long as the guard lives.
    pub(super) fn stays(&self) -> Staying<'_> {
        self.staying.set(self.staying.get() + 1);
        Staying(&self.staying)
    }

    /// Has reports be true of sessions that others have.
    pub(super) fn absorb(&self) {
        self.sessions.borrow().values().for_each(|session| session.absorb());
    }

    /// Completes the reports of connections.
    pub(super) fn complete(&self, stats: &mut [ConnectionStats]) {
        for session in self.sessions.borrow().values() {
            if let Some(one) = stats.iter_mut().find(|one| one.id == session.connection) {
                one.outstanding += session.under_way.get();
            }
        }
    }
}

impl<V: Volume> AwaySession<V> {
    /// The gate is asked where it stands: who holds the volume holds it at once against all.
    async fn carry_out(&self, forward: &Forward, loan: &Loan) -> u64 {
        let gate = &self.export.gate;
        if gate.is_paced() && self.link.due(gate, forward.moves()).await.is_err() {
            return word(Err(VolumeError::Stopping));
        }
        if forward.changes() && gate.is_closed() {
            return word(Err(VolumeError::ReadOnly));
        }
        forward.carry_out(&*self.export.volume, loan).await
    }

    /// Adds to the reports here what the other reactor has counted since.
    fn absorb(&self) {
        let (now, before) = (self.told.get(), self.absorbed.get());
        self.absorbed.set(now);
        for tally in [&self.export.tally, &self.link.tally] {
            tally.add(|counters| {
                counters.requests += now.requests - before.requests;
                counters.read_bytes += now.read_bytes - before.read_bytes;
                counters.written_bytes += now.written_bytes - before.written_bytes;
                counters.errors += now.errors - before.errors;
            });
        }
        self.told.take_latencies(&self.export.latencies);
    }

    /// Waits until the other reactor has ended the session, and has it do so if it is to end here.
    async fn ended(&self, post: &Post, number: u32) -> End {
        let over = || self.changed.until(|| self.over.get().then_some(()));
        let end = match race(over(), self.link.interruption()).await {
            Either::First(()) => return End::Orderly,
            Either::Second(end) => end,
        };
        if end == End::Orderly {
            post(Posting::Stop(number));
            if let Either::First(()) = race(over(), self.link.is_gone()).await {
                return end;
            }
        }
        post(Posting::Close(number));
        over().await;
        End::Broken
    }
}
