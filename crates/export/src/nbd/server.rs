//! The server: its exports, and what it does with each connection.

use std::cell::OnceCell;
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{Io, SocketId};
use brindle_volume::Volume;

use super::away::Away;
use super::connection::Transmission;
use super::export::{AddExportError, check, offer};
use super::handshake::{Handshake, HandshakeError};
use super::proto::Terms;
use crate::access::{Client, Right};
use crate::gate::Gate;
use crate::session::{
    Config, ConnectionResources, ConnectionStats, Export, ExportStats, Exports, MemoryShare, Protocol,
    Security, Sessions,
};

/// An NBD server on an executor. A handle: cloning gives the same server.
pub struct Server<V> {
    sessions: Rc<Sessions>,
    shared: Rc<Shared<V>>,
}

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { sessions: Rc::clone(&self.sessions), shared: Rc::clone(&self.shared) }
    }
}

/// The exports that clients may choose from.
struct Shared<V> {
    exports: Exports<Export<V>>,
    config: Config,
    /// Where sessions may go.
    away: OnceCell<Rc<Away<V>>>,
}

impl<V: Volume + 'static> Server<V> {
    /// A server without exports. Takes its memory, in full, from `io` now: `config.memory` bytes for requests, and
    /// 264 KiB for each possible connection.
    pub fn new(io: &Io, config: Config) -> Self {
        Self::with(Sessions::new(io, config), config)
    }

    /// A server without exports, which has the memory for requests together with other reactors.
    pub fn sharing(io: &Io, config: Config, share: MemoryShare) -> Self {
        Self::with(Sessions::sharing(io, config, share), config)
    }

    fn with(sessions: Rc<Sessions>, config: Config) -> Self {
        let shared = Shared { exports: Exports::default(), config, away: OnceCell::new() };
        Self { sessions, shared: Rc::new(shared) }
    }

    /// Its clients, for a server whose requests have the same memory.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Lets sessions go to other reactors before their requests flow. Said once.
    pub fn send_away(&self, away: Rc<Away<V>>) {
        let _ = self.shared.away.set(away);
    }

    /// Offers `volume` under a name. Clients that name none get the export of a server that has had only one; where there
    /// were several they have to choose, even if all but one have ended.
    ///
    /// # Errors
    /// [`AddExportError::Duplicate`] if the name is taken; [`AddExportError::TooLong`] if it or the description has more than 4096 bytes.
    pub fn add_export(&self, name: &str, description: &str, volume: Rc<V>) -> Result<(), AddExportError> {
        self.add_guarded(name, description, volume, Rc::default())
    }

    /// Adds an export behind a gate: while another client has the volume for itself, changes are refused (EPERM).
    ///
    /// # Errors
    /// As [`Server::add_export`].
    pub fn add_guarded(
        &self,
        name: &str,
        description: &str,
        volume: Rc<V>,
        gate: Rc<Gate>,
    ) -> Result<(), AddExportError> {
        self.may_add(name, description)?;
        self.shared.exports.offer(name, description, volume, gate);
        Ok(())
    }

    /// Whether an export can be added.
    ///
    /// # Errors
    /// As [`Server::add_export`].
    pub fn may_add(&self, name: &str, description: &str) -> Result<(), AddExportError> {
        if self.shared.exports.named(name).is_some() {
            return Err(AddExportError::Duplicate(name.to_owned()));
        }
        check(name, description)
    }

    /// Offers an export no longer, and ends its connections as [`Server::stop`] ends all. When it returns the volume has
    /// been let go. If there is no export of that name, nothing is done.
    pub async fn remove_export(&self, name: &str) {
        self.shared.exports.remove(name, &self.sessions).await;
    }

    /// Ends the connections to an export for which `which`, by number and client, at once; tells how many.
    pub fn disconnect(&self, export: &str, which: impl Fn(u64, &Client) -> bool) -> usize {
        self.sessions.disconnect(export, which)
    }

    /// Ends all connections to an export as [`Server::stop`] does, and offers it on. When it returns they are gone.
    pub async fn dismiss(&self, name: &str) {
        self.shared.exports.dismiss(name, &self.sessions).await;
    }

    /// Accepts connections on a listening socket until the server stops. The socket is the server's to close.
    pub fn serve(&self, listener: SocketId) {
        self.serve_securely(listener, None);
    }

    /// Serves a listener with TLS: offered, or demanded before the server reveals anything.
    pub fn serve_securely(&self, listener: SocketId, security: Option<Security>) {
        let shared = Rc::clone(&self.shared);
        self.sessions.listen(listener, Rc::new(Entrance { shared, security }));
    }

    /// The agreement with a client of this machine that has not asked for structured replies; `None` if it may not use the export, or there
    /// is none of that name.
    pub fn terms(&self, export: &str) -> Option<Terms> {
        self.shared.terms(export, &Client::default()).map(|(_, terms)| terms)
    }

    /// Serves a connection whose client, on this machine, knows the export's terms already: there is no handshake. The kernel's NBD
    /// driver is such a client.
    pub fn serve_chosen(&self, export: &str, socket: SocketId) {
        let chosen = Chosen { shared: Rc::clone(&self.shared), name: export.to_owned() };
        self.sessions.take(socket, &Rc::new(chosen));
    }

    /// Connections that use an export now.
    pub fn connections_of(&self, export: &str) -> usize {
        self.shared.exports.named(export).map_or(0, |one| one.clients())
    }

    /// Closes the listeners, takes no further requests, gives the clients [`Config::grace`] to read the replies to
    /// those under way and closes the connections. When it returns no task of the server is left and the volumes have
    /// been let go; requests to the volumes are waited for however long they take. Whoever can't wait drops the future:
    /// [`Io::shutdown`] ends what is left then.
    pub async fn stop(&self) {
        self.shared.exports.stop(&self.sessions).await;
    }

    /// Every export, in the order in which they were added.
    pub fn export_stats(&self) -> Vec<ExportStats> {
        self.shared.away.get().inspect(|away| away.absorb());
        self.shared.exports.stats()
    }

    /// Every connection, oldest first.
    pub fn connection_stats(&self) -> Vec<ConnectionStats> {
        let away = self.shared.away.get().inspect(|away| away.absorb());
        let mut stats = self.sessions.stats();
        away.inspect(|away| away.complete(&mut stats));
        stats
    }

    /// Clients that were refused so far.
    pub fn refused(&self) -> u64 {
        self.sessions.refused()
    }

    /// Bytes of memory that requests hold: 0 when none is under way.
    pub fn memory_in_use(&self) -> usize {
        self.sessions.memory_in_use()
    }
}

impl<V: Volume> Shared<V> {
    /// The export of that name, and the terms of a client that takes no structured replies.
    fn terms(&self, name: &str, client: &Client) -> Option<(Rc<Export<V>>, Terms)> {
        let export = self.exports.named(name)?;
        let limits = export.terms(client)?;
        let max_payload = self.config.largest_request() as u32;
        Some((export, Terms { limits, max_payload, structured: false, status: false }))
    }

    /// Serves a client that has chosen to the end of its connection.
    async fn transmit(&self, resources: ConnectionResources, export: &Rc<Export<V>>, terms: Terms)
    where
        V: 'static,
    {
        let ConnectionResources { id, link, memory, inbox, outbox, .. } = resources;
        link.settle(&export.name);
        export.enters();
        let transmission = Transmission::new(link, memory, Rc::clone(export), terms, self.config.grace);
        let end = transmission.run(inbox, outbox).await;
        export.leaves();
        tracing::debug!(connection = id, export = export.name, ?end, "closed");
    }
}

/// Clients that have chosen an export before they came.
struct Chosen<V> {
    shared: Rc<Shared<V>>,
    name: String,
}

impl<V: Volume + 'static> Protocol for Chosen<V> {
    async fn converse(self: Rc<Self>, resources: ConnectionResources) {
        let Some((export, terms)) = self.shared.terms(&self.name, &resources.link.client()) else { return };
        self.shared.transmit(resources, &export, terms).await;
    }
}

/// A listener, with the security that its clients need.
struct Entrance<V> {
    shared: Rc<Shared<V>>,
    security: Option<Security>,
}

impl<V: Volume + 'static> Protocol for Entrance<V> {
    async fn converse(self: Rc<Self>, resources: ConnectionResources) {
        let ConnectionResources { id, link, memory, mut inbox, outbox, refusals, secure_buffers, visits } =
            resources;
        let Shared { exports, config, .. } = &*self.shared;
        let offers = || {
            let (is_default, client) = (exports.added() == 1, link.client());
            exports.all().iter().filter_map(|export| offer(export, is_default, &client)).collect()
        };
        // The answer is the same for exports that don't exist and for those that the client may not see.
        let in_vain = || {
            let client = link.client();
            let is_kept_from_it =
                |export: &Export<V>| export.gate.right(&client).is_none() && !export.gate.is_withdrawn();
            if exports.find(is_kept_from_it).is_some() {
                refusals.refused(&client, "it asked for an export that is not for it, or not there");
            }
        };
        let security = self.security.as_ref().map(|security| (security, &secure_buffers));
        let mut handshake =
            Handshake { link: &link, inbox: &mut inbox, out: &outbox, in_vain: &in_vain, security };
        let haggling = handshake.run(config.largest_request() as u32, offers);
        let chosen = match race(haggling, link.interruption()).await {
            Either::First(Ok(chosen)) => chosen,
            Either::First(Err(error)) => {
                if matches!(error, HandshakeError::Secure(_)) {
                    refusals.refused(&link.client(), &error.to_string());
                }
                tracing::debug!(connection = id, %error, "no export chosen");
                if matches!(error, HandshakeError::Ended) {
                    link.take_leave(config.grace).await;
                }
                return;
            }
            Either::Second(_) => return,
        };
        // The export may have ended while the client was getting its reply.
        let Some(export) = exports.numbered(chosen.number) else { return };
        let right = export.gate.right(&link.client());
        if right.is_none() || right == Some(Right::Read) && !chosen.terms.limits.read_only {
            return; // it has been withdrawn meanwhile, or its right has
        }
        let resources =
            ConnectionResources { id, link, memory, inbox, outbox, refusals, secure_buffers, visits };
        // On the heap, and apart: what is polled for each request of a session that stays is no deeper than without it.
        let away = self.shared.away.get();
        let resources = match away {
            Some(away) => Box::pin(away.serve(resources, &export, chosen.terms)).await,
            None => Some(resources),
        };
        if let Some(resources) = resources {
            let _stays = away.map(|away| away.stays());
            self.shared.transmit(resources, &export, chosen.terms).await;
        }
    }
}
