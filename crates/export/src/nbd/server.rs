//! The server: listeners, exports, the memory that all connections share, and the end.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_array::Volume;
use brindle_io::sync::{Either, Event, race};
use brindle_io::{Buf, Duration, Io, OpError, Pool, SocketId, Task};

use super::config::Config;
use super::connection::{End, Link, OUTBOX, Session};
use super::export::{AddExportError, Counters, Export};
use super::handshake::Handshake;
use super::inbox::{INBOX, Inbox};

/// How long a listener rests that can't accept (too many open files).
const REST: Duration = Duration::from_millis(100);

/// The buffers of requests, and who holds them.
pub(crate) struct Memory {
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    links: RefCell<BTreeMap<u64, Rc<Link>>>,
}

impl Memory {
    /// Waits for a buffer, and meanwhile shows the door to connections that hold theirs without need.
    pub(crate) async fn wait(&self, len: usize, link: &Link) -> Result<Buf, End> {
        let mut turn = core::pin::pin!(self.pool.alloc(len));
        loop {
            let tick = link.io.sleep(self.config.stall / 4);
            match race(race(turn.as_mut(), tick), link.interruption()).await {
                Either::First(Either::First(buf)) => return Ok(buf),
                Either::First(Either::Second(())) => self.close_stalled(link),
                Either::Second(end) => return Err(end),
            }
        }
    }

    /// Closes who holds memory that `waiting` wants and does not move, unless `waiting` does not move either.
    fn close_stalled(&self, waiting: &Link) {
        let now = waiting.io.now();
        if waiting.stalled_for(now, self.config.stall) {
            return;
        }
        for (id, link) in &*self.links.borrow() {
            if link.load().1 > 0 && link.stalled_for(now, self.config.stall) {
                tracing::warn!(
                    connection = id,
                    "closed: it holds memory that others wait for and does not move"
                );
                link.close();
            }
        }
    }
}

struct Shared<V> {
    io: Io,
    memory: Rc<Memory>,
    /// Inboxes and outboxes.
    small: Pool,
    exports: RefCell<Vec<Rc<Export<V>>>>,
    listeners: RefCell<Vec<(SocketId, Task<()>)>>,
    next_id: Cell<u64>,
    stopping: Cell<bool>,
    gone: Event,
}

/// An NBD server on an executor. A handle: cloning gives the same server.
pub struct Server<V>(Rc<Shared<V>>);

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// What has been done on an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportStats {
    /// Its name.
    pub name: String,
    /// Connections that use it now.
    pub connections: usize,
    /// Since it was added.
    pub total: Counters,
}

/// One connection at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Counts up from 0 with each connection.
    pub id: u64,
    /// The export's name; `None` during the handshake.
    pub export: Option<String>,
    /// Time since it was accepted.
    pub age: Duration,
    /// Requests whose replies have not been sent.
    pub outstanding: usize,
    /// Bytes of buffers that they hold.
    pub held_bytes: usize,
    /// Since it was accepted.
    pub total: Counters,
}

impl<V: Volume + 'static> Server<V> {
    /// A server without exports. Takes its memory, in full, from `io` now: `config.memory` bytes for requests, and
    /// 136 KiB for each possible connection.
    pub fn new(io: &Io, config: Config) -> Self {
        let memory = Memory { config, pool: io.pool(config.memory), links: RefCell::default() };
        Self(Rc::new(Shared {
            io: io.clone(),
            memory: Rc::new(memory),
            small: io.pool(config.connections * (INBOX + OUTBOX)),
            exports: RefCell::default(),
            listeners: RefCell::default(),
            next_id: Cell::new(0),
            stopping: Cell::new(false),
            gone: Event::new(io),
        }))
    }

    /// Offers `volume` under a name. Clients that name none get the first export.
    ///
    /// # Errors
    /// The name is taken, or it or the description has more than 4096 bytes.
    pub fn add_export(&self, name: &str, description: &str, volume: Rc<V>) -> Result<(), AddExportError> {
        let mut exports = self.0.exports.borrow_mut();
        if exports.iter().any(|export| export.name == name) {
            return Err(AddExportError::Duplicate(name.to_owned()));
        }
        exports.push(Rc::new(Export::new(name, description, volume)?));
        Ok(())
    }

    /// Accepts connections on a listening socket until the server stops. The socket is the server's to close.
    pub fn serve(&self, listener: SocketId) {
        let task = self.0.io.spawn(accept(Rc::clone(&self.0), listener));
        self.0.listeners.borrow_mut().push((listener, task));
    }

    /// Closes the listeners, takes no further requests, waits until the replies to those under way have been sent
    /// (or [`Config::grace`] is over) and closes the connections. When it returns no task of the server is left and
    /// the volumes have been let go; requests to the volumes are waited for however long they take.
    pub async fn stop(&self) {
        let shared = &self.0;
        shared.stopping.set(true);
        let listeners = shared.listeners.take();
        for (listener, _) in &listeners {
            shared.io.close(*listener);
        }
        for (_, task) in listeners {
            task.await;
        }
        for link in shared.memory.links.borrow().values() {
            link.stop();
        }
        let links = &shared.memory.links;
        shared.gone.until(|| links.borrow().is_empty().then_some(())).await;
        shared.exports.borrow_mut().clear();
    }

    /// Every export, in the order in which they were added.
    pub fn export_stats(&self) -> Vec<ExportStats> {
        let stats = |export: &Rc<Export<V>>| ExportStats {
            name: export.name.clone(),
            connections: export.connections.get(),
            total: export.tally.get(),
        };
        self.0.exports.borrow().iter().map(stats).collect()
    }

    /// Every connection, oldest first.
    pub fn connection_stats(&self) -> Vec<ConnectionStats> {
        let now = self.0.io.now();
        let stats = |(&id, link): (&u64, &Rc<Link>)| {
            let (outstanding, held_bytes) = link.load();
            ConnectionStats {
                id,
                export: link.export.borrow().clone(),
                age: now.since(link.since),
                outstanding,
                held_bytes,
                total: link.tally.get(),
            }
        };
        self.0.memory.links.borrow().iter().map(stats).collect()
    }

    /// The pool of the requests' buffers: all of it is free when no request is under way.
    pub fn pool(&self) -> &Pool {
        &self.0.memory.pool
    }
}

async fn accept<V: Volume + 'static>(shared: Rc<Shared<V>>, listener: SocketId) {
    loop {
        match shared.io.accept(listener).await {
            Ok(socket) => shared.admit(socket),
            Err(_) if shared.stopping.get() => return,
            Err(OpError::Disconnected) => {} // it left before it was accepted
            Err(OpError::Cancelled | OpError::Gone) => return,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                shared.io.sleep(REST).await;
            }
        }
    }
}

impl<V: Volume + 'static> Shared<V> {
    /// Begins a connection, or closes it if there are too many.
    fn admit(self: &Rc<Self>, socket: SocketId) {
        let full = self.memory.links.borrow().len() >= self.memory.config.connections;
        let buffers = self.small.try_alloc(INBOX).zip(self.small.try_alloc(OUTBOX));
        let Some((inbox, outbox)) = buffers.filter(|_| !full && !self.stopping.get()) else {
            tracing::warn!("refused a connection: there are as many as are allowed");
            self.io.close(socket);
            return;
        };
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let link = Link::new(&self.io, socket);
        self.memory.links.borrow_mut().insert(id, Rc::clone(&link));
        let shared = Rc::clone(self);
        self.io.spawn(async move {
            shared.connection(id, &link, Inbox::new(inbox), outbox).await;
            link.close();
            shared.memory.links.borrow_mut().remove(&id);
            shared.gone.notify();
        });
    }

    async fn connection(self: &Rc<Self>, id: u64, link: &Rc<Link>, mut inbox: Inbox, outbox: Buf) {
        let config = &self.memory.config;
        let offers = || self.exports.borrow().iter().map(|export| export.offer()).collect();
        let mut handshake = Handshake { io: &self.io, socket: link.socket, inbox: &mut inbox, out: &outbox };
        let haggling = handshake.run(config.max_payload(), offers);
        let timeout = self.io.sleep(config.handshake);
        let chosen = match race(haggling, race(timeout, link.interruption())).await {
            Either::First(Ok(chosen)) => chosen,
            Either::First(Err(error)) => {
                tracing::debug!(connection = id, %error, "no export chosen");
                return;
            }
            Either::Second(_) => {
                tracing::debug!(connection = id, "no export chosen in time");
                return;
            }
        };
        let Some(export) = self.exports.borrow().get(chosen.offer).map(Rc::clone) else { return };
        *link.export.borrow_mut() = Some(export.name.clone());
        export.connections.set(export.connections.get() + 1);
        let session =
            Session::new(Rc::clone(link), Rc::clone(&export), chosen.terms, Rc::clone(&self.memory));
        let end = session.run(inbox, outbox).await;
        export.connections.set(export.connections.get() - 1);
        tracing::debug!(connection = id, export = export.name, ?end, "closed");
    }
}
