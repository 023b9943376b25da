//! The connections of a server: who is let in, and the end.

use core::cell::{Cell, RefCell};
use core::future::Future;
use std::rc::Rc;

use brindle_io::sync::race;
use brindle_io::{Buf, Duration, Io, OpError, Pool, Slice, SocketId, Task};

use super::account::{Account, Wire};
use super::common::MemoryShare;
use super::config::{Config, VISITS};
use super::inbox::{INBOX, Inbox};
use super::link::Link;
use super::memory::Memory;
use super::overflow::Overflow;
use super::refusals::Refusals;
use super::roster::{Roster, Visits};
use super::seat::Seat;
use super::secure;
use super::tally::Counters;
use crate::access::Client;

/// Bytes of the buffer of each connection for what is sent beside data: handshakes and the headers of replies.
const OUTBOX: usize = 8 * 1024;

/// Time that a listener rests that can't accept (too many open files).
const REST: Duration = Duration::from_millis(100);

/// The protocol that a server speaks.
pub(crate) trait Protocol: 'static {
    /// A client for which there is no place is told so.
    const EXPLAINS: bool = false;
    /// Talks with a client to the end of the connection. When it returns, no task of the connection is left and its
    /// requests hold nothing any more.
    fn converse(self: Rc<Self>, resources: ConnectionResources) -> impl Future<Output = ()>;

    /// Tells a client that there is no place for it, in answer to what it says first. May be dropped at any moment.
    fn decline(self: Rc<Self>, _: &Link, _: &mut Inbox, _: &Slice) -> impl Future<Output = ()> {
        async {}
    }
}

/// The resources that a connection has for itself.
pub(crate) struct ConnectionResources {
    /// Counts up from 0 with each connection.
    pub(crate) id: u64,
    pub(crate) link: Rc<Link>,
    /// Where its requests get their tickets.
    pub(crate) memory: Rc<Memory>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Buf,
    /// Where it is noted if the client is refused.
    pub(crate) refusals: Rc<Refusals>,
    /// For the buffers of TLS.
    pub(crate) secure_buffers: Pool,
    /// The places of clients that only want to learn of exports.
    pub(crate) visits: Visits,
}

/// One connection at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Counts up from 0 with each connection.
    pub id: u64,
    /// The export's name; `None` during the handshake.
    pub export: Option<String>,
    /// The client, as far as it is known.
    pub client: Client,
    /// The client speaks TLS.
    pub secure: bool,
    /// Time since the connection was accepted.
    pub age: Duration,
    /// Requests whose replies have not been sent.
    pub outstanding: usize,
    /// Bytes of the memory common to all connections that they hold.
    pub held_bytes: usize,
    /// Counters since the connection was accepted.
    pub total: Counters,
}

/// The clients of a server, of whatever protocol.
pub struct Sessions {
    io: Io,
    roster: Rc<Roster>,
    /// Inboxes and outboxes.
    buffers: Pool,
    listeners: RefCell<Vec<(SocketId, Task<()>)>>,
    stopping: Cell<bool>,
    refusals: Rc<Refusals>,
    /// Buffers of connections that speak TLS.
    secure_buffers: Pool,
    /// Clients for which there is no place.
    overflow: Rc<Overflow>,
    /// More clients come than there are places for: that has been said.
    crowded: Cell<bool>,
    /// Clients that wait for a place.
    waiting: Cell<usize>,
}

impl Sessions {
    /// Has memory of `io`, once it needs it: up to `config.memory` bytes for requests, and for each connection 264 KiB
    /// and a reserve of 128 KiB; with TLS 128 KiB more.
    pub fn new(io: &Io, config: Config) -> Rc<Self> {
        Self::with(io, config, None)
    }

    /// Clients of one of several reactors that have the memory for requests together, as much as `config.memory` says.
    pub fn sharing(io: &Io, config: Config, share: MemoryShare) -> Rc<Self> {
        Self::with(io, config, Some(share))
    }

    fn with(io: &Io, config: Config, share: Option<MemoryShare>) -> Rc<Self> {
        Self::over(io, Roster::new(io, config, Rc::new(Memory::new(io, &config, share))))
    }

    /// Clients of another protocol whose requests have their memory from the same budget as those of `other`. It counts for no
    /// connections but those that come by it.
    pub fn beside(other: &Self, connections: usize) -> Rc<Self> {
        let config = Config { connections, ..other.roster.config };
        let memory = Rc::clone(&other.roster.memory);
        Self::over(&other.io, Roster::new(&other.io, config, memory))
    }

    fn over(io: &Io, roster: Rc<Roster>) -> Rc<Self> {
        let config = roster.config;
        Rc::new(Self {
            io: io.clone(),
            roster,
            buffers: io.pool((config.connections + VISITS) * (INBOX + OUTBOX)),
            listeners: RefCell::default(),
            stopping: Cell::new(false),
            refusals: Rc::default(),
            secure_buffers: io.pool(config.connections * secure::BUFFERS),
            overflow: Overflow::new(io),
            crowded: Cell::new(false),
            waiting: Cell::new(0),
        })
    }

    /// Accepts connections on a listening socket, which is from now on this server's to close, until it stops.
    pub(crate) fn listen<P: Protocol>(self: &Rc<Self>, listener: SocketId, protocol: Rc<P>) {
        let task = self.io.spawn(Rc::clone(self).accept(listener, protocol));
        self.listeners.borrow_mut().push((listener, task));
    }

    /// Takes a connection that came by no listener.
    pub(crate) fn take<P: Protocol>(self: &Rc<Self>, socket: SocketId, protocol: &Rc<P>) {
        self.begin(socket, protocol);
    }

    /// Its bounds.
    pub(crate) fn config(&self) -> Config {
        self.roster.config
    }

    /// Closes the listeners, lets no client ask for more, and waits until all have ended.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.overflow.close();
        let listeners = self.listeners.take();
        for (listener, _) in &listeners {
            self.io.close(*listener);
        }
        for account in self.roster.accounts.borrow().values() {
            account.stop();
        }
        self.roster.gone.notify(); // who waits for a place shall not
        for (_, task) in listeners {
            task.await;
        }
        self.roster.gone.until(|| (self.waiting.get() == 0).then_some(())).await;
        self.roster.emptied().await;
        self.overflow.emptied().await;
    }

    /// Lets no client of an export ask for more, and waits until `ended` says that all of them have left.
    pub async fn stop_those_of(&self, export: &str, ended: impl Fn() -> bool) {
        for account in self.roster.accounts.borrow().values() {
            if account.export().as_deref() == Some(export) {
                account.stop();
            }
        }
        self.roster.gone.until(|| ended().then_some(())).await;
    }

    /// Ends the connections to an export for which `which`, at once; tells how many.
    pub fn disconnect(&self, export: &str, which: impl Fn(u64, &Client) -> bool) -> usize {
        let accounts = self.roster.accounts.borrow();
        let meant = accounts.iter().filter(|(id, account)| {
            !account.is_closed()
                && account.export().as_deref() == Some(export)
                && which(**id, &account.client())
        });
        meant.inspect(|(_, account)| account.close()).count()
    }

    /// Ends the connections of clients for which `which`, at once; tells how many.
    pub(crate) fn end_those(&self, which: impl Fn(&Client) -> bool) -> usize {
        let accounts = self.roster.accounts.borrow();
        let meant = accounts.values().filter(|account| !account.is_closed() && which(&account.client()));
        meant.inspect(|account| account.close()).count()
    }

    /// Every connection, oldest first.
    pub fn stats(&self) -> Vec<ConnectionStats> {
        let now = self.io.now();
        let stats = |(&id, account): (&u64, &Rc<Account>)| ConnectionStats {
            id,
            export: account.export(),
            client: account.client(),
            secure: account.is_secure(),
            age: now.since(account.since),
            outstanding: account.outstanding.get(),
            held_bytes: account.held.get(),
            total: account.tally.get(),
        };
        self.roster.accounts.borrow().iter().map(stats).collect()
    }

    /// Clients that were refused so far.
    pub fn refused(&self) -> u64 {
        self.refusals.count()
    }

    /// Bytes of memory that requests hold.
    pub fn memory_in_use(&self) -> usize {
        self.roster.memory.in_use()
    }

    async fn accept<P: Protocol>(self: Rc<Self>, listener: SocketId, protocol: Rc<P>) {
        loop {
            // Further clients wait in the kernel, and are not refused: a client that was accepted finds a place soon, or is declined.
            self.roster.gone.until(|| self.may_accept().then_some(())).await;
            match self.io.accept(listener).await {
                Ok(socket) => self.admit(socket, &protocol),
                Err(_) if self.stopping.get() => return,
                Err(OpError::Disconnected) => {} // it left before it was accepted
                Err(OpError::Cancelled | OpError::Gone) => return,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection");
                    self.io.sleep(REST).await;
                }
            }
        }
    }

    /// Whether fewer clients wait for a place than there are places. Without any place each client is accepted, and declined.
    fn may_accept(&self) -> bool {
        self.stopping.get() || self.waiting.get() < self.roster.config.connections.max(1)
    }

    /// Closes the connection of a client for which there is no place, and tells it so where its protocol has words for that.
    fn decline<P: Protocol>(&self, socket: SocketId, protocol: &Rc<P>) {
        if !P::EXPLAINS {
            return self.io.close(socket);
        }
        let protocol = Rc::clone(protocol);
        let tell = async move |link: &Link, inbox: &mut Inbox, out: &Slice| {
            protocol.decline(link, inbox, out).await;
        };
        self.overflow.decline(&self.io, socket, tell);
    }

    /// Begins a connection if there is a place. Else it waits for one in a task of its own: the next is accepted meanwhile.
    fn admit<P: Protocol>(self: &Rc<Self>, socket: SocketId, protocol: &Rc<P>) {
        if self.waiting.get() == 0 && self.roster.has_place() && !self.stopping.get() {
            self.crowded.set(false);
            return self.begin(socket, protocol);
        }
        let (waits, protocol) = (Waits::among(self), Rc::clone(protocol));
        self.io.spawn(async move {
            let sessions = &waits.0;
            if sessions.finds_place().await {
                sessions.begin(socket, &protocol);
            } else {
                sessions.decline(socket, &protocol);
            }
        });
    }

    /// Lets a client in that comes without a socket, once there is a place for it; `None` if there comes to be none, or the server stops.
    pub async fn enter(self: &Rc<Self>, client: Client, wire: impl Wire) -> Option<Seat> {
        if self.waiting.get() == 0 && self.roster.has_place() {
            self.crowded.set(false);
        }
        let _waits = Waits::among(self);
        // The account begins with the place: a client that has waited for one has not been silent.
        self.finds_place().await.then(|| Seat::take(&self.roster, Account::new(&self.io, client, wire)))
    }

    /// Whether there comes to be a place for one more connection. If need be, one leaves: the one that has been silent longest of
    /// those that have not chosen an export, else the one that has read nothing of its replies for longest.
    async fn finds_place(&self) -> bool {
        let free = || self.roster.has_place();
        if !free() && !self.crowded.replace(true) {
            tracing::warn!(
                connections = self.roster.config.connections,
                "as many connections as are allowed: those that choose no export, or read no replies, make room; others are refused; serve --max-connections says how many there may be"
            );
        }
        let place_or_end = || (free() || self.stopping.get()).then_some(());
        while !free() && !self.stopping.get() {
            if self.evict_undecided() {
                // Another that waits may take the place of the one that leaves.
                let over = || place_or_end().or_else(|| (!self.one_leaves()).then_some(()));
                self.roster.gone.until(over).await;
            } else if self.evict_deaf() {
                // It leaves when its last request has been carried out, which may take as long as a member likes.
                race(self.roster.gone.until(place_or_end), self.io.sleep(self.roster.config.round())).await;
                break;
            } else {
                break;
            }
        }
        free() && !self.stopping.get()
    }

    /// Whether a client that has not chosen an export is leaving.
    fn one_leaves(&self) -> bool {
        self.roster.accounts.borrow().values().any(|account| !account.is_settled() && account.is_closed())
    }

    /// Makes a client leave that has not chosen an export; `false` if all have.
    fn evict_undecided(&self) -> bool {
        if self.one_leaves() {
            return true;
        }
        let accounts = self.roster.accounts.borrow();
        let silent = accounts
            .values()
            .filter(|account| !account.is_settled())
            .min_by_key(|account| account.last_heard());
        silent.inspect(|account| account.close()).is_some()
    }

    /// Makes the client leave that has taken no byte of its replies for longest; `false` if there is none.
    fn evict_deaf(&self) -> bool {
        let accounts = self.roster.accounts.borrow();
        if accounts.values().any(|account| account.is_closed()) {
            return true; // one is leaving already
        }
        let patience = self.roster.config.rounds(self.roster.config.stall);
        let deaf = accounts.iter().filter(|(_, account)| account.unread() >= patience);
        // The oldest of equal ones is closed.
        let Some((id, account)) = deaf.rev().max_by_key(|(_, account)| account.unread()) else {
            return false;
        };
        tracing::warn!(connection = id, "closed: it reads none of its replies, and others want its place");
        account.close();
        true
    }

    fn begin<P: Protocol>(self: &Rc<Self>, socket: SocketId, protocol: &Rc<P>) {
        let link = Link::new(&self.io, socket);
        let seat = Seat::take(&self.roster, Rc::clone(&link.account));
        let (sessions, protocol) = (Rc::clone(self), Rc::clone(protocol));
        self.io.spawn(async move {
            // At once, or as soon as the kernel has let go of the buffers of one that has just left.
            let inbox = Inbox::new(sessions.buffers.alloc(INBOX).await);
            let outbox = sessions.buffers.alloc(OUTBOX).await;
            let memory = Rc::clone(&sessions.roster.memory);
            if !link.is_closed() {
                let (refusals, secure_buffers) =
                    (Rc::clone(&sessions.refusals), sessions.secure_buffers.clone());
                let link = Rc::clone(&link);
                protocol
                    .converse(ConnectionResources {
                        id: seat.id(),
                        link,
                        memory,
                        inbox,
                        outbox,
                        refusals,
                        secure_buffers,
                        visits: Visits(Rc::clone(&sessions.roster)),
                    })
                    .await;
            }
            link.close();
            drop(seat);
        });
    }
}

/// A client that waits for a place.
struct Waits(Rc<Sessions>);

impl Waits {
    fn among(sessions: &Rc<Sessions>) -> Self {
        sessions.waiting.set(sessions.waiting.get() + 1);
        Self(Rc::clone(sessions))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.roster.gone.notify();
    }
}
