//! The exports of a door: under which names it offers volumes, who may use them, and what has been done with them by way of that door.

use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use brindle_io::{Histogram, Instant, Io};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions};

use super::account::Account;
use super::course::AccountCourse;
use super::sessions::Sessions;
use super::tally::{Counters, CountersAway, Latencies, SharedCounters};
use crate::access::{Client, Right};
use crate::gate::Gate;
use crate::pieces::{self, Unfinished};

/// An offer of a volume, which stands beside it: [`Export`], or what else a door makes of it.
pub struct Offered {
    /// Counts up from 0 with each export of the door. A number is never used again, so that one is not taken for another when some end.
    pub number: usize,
    /// The name by which clients choose it.
    pub name: String,
    /// The way in for clients, by whichever door.
    pub gate: Rc<Gate>,
    pub(crate) tally: SharedCounters,
    pub(crate) latencies: Latencies,
    /// Where another reactor sees the counters, if this one has clients of its export.
    shown: OnceCell<Arc<CountersAway>>,
    clients: Cell<usize>,
    ended: Cell<bool>,
}

/// Counters of the work on an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportStats {
    /// Its name.
    pub name: String,
    /// Clients that use it now.
    pub connections: usize,
    /// Counters since the export was added.
    pub total: Counters,
    /// Latencies of some of its requests: reads, and others.
    pub latency: [Histogram; 2],
}

/// The bytes of a request that succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Bytes that the client reads.
    pub read: u64,
    /// Bytes that it writes.
    pub written: u64,
    /// It is no read.
    pub changes: bool,
}

impl Offered {
    pub(crate) fn new(number: usize, name: &str, gate: Rc<Gate>) -> Self {
        Self {
            number,
            name: name.to_owned(),
            gate,
            tally: SharedCounters::default(),
            latencies: Latencies::default(),
            shown: OnceCell::new(),
            clients: Cell::new(0),
            ended: Cell::new(false),
        }
    }

    /// Has another reactor see the counters.
    pub(crate) fn show(&self, to: &Arc<CountersAway>) {
        let _ = self.shown.set(Arc::clone(to));
    }

    /// Tells another reactor what was counted, if one is to see it: with each batch of replies, not with each request.
    pub(crate) fn tell(&self) {
        if let Some(shown) = self.shown.get() {
            shown.tell(self.tally.get(), &self.latencies);
        }
    }

    /// The export is offered no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// One more client uses it.
    pub fn enters(&self) {
        self.clients.set(self.clients.get() + 1);
    }

    /// A client uses it no more.
    pub fn leaves(&self) {
        self.clients.set(self.clients.get() - 1);
    }

    /// Clients that use it now.
    pub fn clients(&self) -> usize {
        self.clients.get()
    }

    /// Carries a request of a client out, counts it, and times some. The work is moved to get here, a copy of some kilobytes: where a
    /// request is to be cheap, `begins`, `ends` and `count` do the same around it.
    ///
    /// # Errors
    /// The error of the work.
    #[inline]
    pub async fn carry_out<T, E>(
        &self,
        account: &Account,
        moves: Moves,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let begun = self.begins(&account.io);
        let result = work.await;
        self.ends(&account.io, begun, moves.changes);
        self.count(account, moves, result.is_err());
        result
    }

    /// The moment at which a request begins, if it is to be timed.
    #[inline]
    pub(crate) fn begins(&self, io: &Io) -> Option<Instant> {
        Latencies::begin(io, &self.tally)
    }

    /// A request that began then has been carried out.
    #[inline]
    pub(crate) fn ends(&self, io: &Io, begun: Option<Instant>, changes: bool) {
        if let Some(begun) = begun {
            self.latencies.end(io, begun, changes);
        }
    }

    /// Counts a request of a client.
    #[inline]
    pub(crate) fn count(&self, account: &Account, moves: Moves, failed: bool) {
        let (read, written) = if failed { (0, 0) } else { (moves.read, moves.written) };
        for tally in [&self.tally, &account.tally] {
            tally.add(|counters| {
                counters.requests += 1;
                counters.read_bytes += read;
                counters.written_bytes += written;
                counters.errors += u64::from(failed);
            });
        }
    }

    /// The use of the export.
    pub fn stats(&self) -> ExportStats {
        ExportStats {
            name: self.name.clone(),
            connections: self.clients.get(),
            total: self.tally.get(),
            latency: self.latencies.get(),
        }
    }
}

/// An export that is its volume, and no more.
pub struct Export<V> {
    offered: Offered,
    /// The volume in words, for clients that ask for a list.
    pub description: String,
    /// The volume.
    pub volume: Rc<V>,
}

impl<V> Deref for Export<V> {
    type Target = Offered;

    #[inline]
    fn deref(&self) -> &Offered {
        &self.offered
    }
}

impl<V: Volume> Export<V> {
    /// An offer, with its volume.
    pub fn new(offered: Offered, description: &str, volume: Rc<V>) -> Self {
        Self { offered, description: description.to_owned(), volume }
    }

    /// The limits of the volume for a client; `None` if the client may not use the export.
    pub fn terms(&self, client: &Client) -> Option<Limits> {
        let right = self.gate.right(client).filter(|_| !self.has_ended())?;
        let mut limits = self.volume.limits();
        limits.read_only |= right == Right::Read;
        Some(limits)
    }

    fn checked(&self, (offset, len): (u64, u64)) -> Result<(), VolumeError> {
        let limits = self.volume.limits();
        limits.check_change()?;
        limits.check(offset, len)
    }

    /// Makes a range read as zeroes, in pieces that end early if the client does.
    ///
    /// # Errors
    /// The reason why it was not done to its end.
    pub async fn write_zeroes(
        &self,
        range: (u64, u64),
        options: ZeroOptions,
        account: &Account,
    ) -> Result<(), Unfinished> {
        self.checked(range)?;
        pieces::write_zeroes(&*self.volume, range, options, &AccountCourse::of(account, &self.gate)).await
    }

    /// Discards a range, in pieces that end early if the client does.
    ///
    /// # Errors
    /// As [`Export::write_zeroes`].
    pub async fn discard(&self, range: (u64, u64), account: &Account) -> Result<(), Unfinished> {
        self.checked(range)?;
        pieces::discard(&*self.volume, range, &AccountCourse::of(account, &self.gate)).await
    }
}

impl<V: Volume> Exports<Export<V>> {
    /// Offers a volume under a name that no other has, behind a gate.
    pub fn offer(&self, name: &str, description: &str, volume: Rc<V>, gate: Rc<Gate>) {
        self.add(name, gate, |offered| Export::new(offered, description, volume));
    }
}

/// The exports of a door, in the order in which they were added. Each `T` is an [`Offered`] with its volume.
pub struct Exports<T> {
    list: RefCell<Vec<Rc<T>>>,
    /// Exports that were ever added.
    added: Cell<usize>,
}

impl<T> Default for Exports<T> {
    fn default() -> Self {
        Self { list: RefCell::default(), added: Cell::new(0) }
    }
}

impl<T: Deref<Target = Offered>> Exports<T> {
    /// Adds the export that `make` makes of an offer, under a name that no other has.
    pub fn add(&self, name: &str, gate: Rc<Gate>, make: impl FnOnce(Offered) -> T) {
        let number = self.added.get();
        self.added.set(number + 1);
        let made = make(Offered::new(number, name, gate));
        self.list.borrow_mut().push(Rc::new(made));
    }

    /// The number of exports that were ever added.
    pub(crate) fn added(&self) -> usize {
        self.added.get()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Rc<T>> {
        self.list.borrow().clone()
    }

    /// The first for which `is_it`.
    pub(crate) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<Rc<T>> {
        self.list.borrow().iter().find(|one| is_it(one)).cloned()
    }

    /// The export of that name.
    pub fn named(&self, name: &str) -> Option<Rc<T>> {
        self.find(|one| one.name == name)
    }

    /// The export of that number, if it is still there.
    pub(crate) fn numbered(&self, number: usize) -> Option<Rc<T>> {
        self.find(|one| one.number == number)
    }

    /// Offers an export no longer, and ends its clients as [`Sessions::stop`] ends all. When it returns the volume has
    /// been let go. If there is no export of that name, nothing is done.
    pub async fn remove(&self, name: &str, sessions: &Sessions) {
        let removed = {
            let mut list = self.list.borrow_mut();
            let at = list.iter().position(|one| one.name == name);
            at.map(|at| list.remove(at))
        };
        let Some(removed) = removed else { return };
        removed.ended.set(true);
        sessions.stop_those_of(name, || removed.clients() == 0).await;
    }

    /// Ends all clients of an export as [`Sessions::stop`] does, and offers it on. When it returns they are gone.
    pub async fn dismiss(&self, name: &str, sessions: &Sessions) {
        let Some(found) = self.named(name) else { return };
        sessions.stop_those_of(name, || found.clients() == 0).await;
    }

    /// Ends all clients, and lets all volumes go.
    pub async fn stop(&self, sessions: &Sessions) {
        sessions.stop().await;
        self.list.borrow_mut().clear();
    }

    /// The use of each.
    pub fn stats(&self) -> Vec<ExportStats> {
        self.list.borrow().iter().map(|one| one.stats()).collect()
    }
}
