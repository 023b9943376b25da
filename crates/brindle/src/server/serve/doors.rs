//! The doors of a server, as its settings have them. They listen before contents are opened, and answer clients once all exports are there.

use std::net::SocketAddr;
use std::rc::Rc;

use brindle_export::{Config, MemoryShare, fuse, iscsi, nbd};
use brindle_host::opening::Opening;
use brindle_host::{Any, Door, Doors, FuseDoor, IscsiDoor, NbdDoor};
use brindle_io::uring::{SocketRights, Uring};
use brindle_io::{Io, SocketId};

use super::crew::Crew;
use super::iscsi::{IscsiPlan, serve as serve_initiators};
use super::places::{self, Address, ListenPlace};
use super::tls::Certificates;
use crate::base::failure::Failure;

/// Sockets on which clients wait until the doors answer.
pub(super) struct Entrances {
    sockets: Vec<(SocketId, Address)>,
    portals: Vec<(SocketId, SocketAddr)>,
    plan: Option<IscsiPlan>,
}

/// Doors whose clients are not answered yet.
pub(super) struct OpenDoors {
    nbd: nbd::Server<Any>,
    sockets: Vec<(SocketId, Address)>,
    initiators: Option<iscsi::Server<Any>>,
    portals: Vec<(SocketId, SocketAddr)>,
    /// All of them.
    pub(super) doors: Doors,
    /// The reactors that have sessions beside this one.
    pub(super) crew: Option<Crew>,
}

impl Entrances {
    /// Listens at all places.
    pub(super) fn begin(
        uring: &Uring,
        places: &[ListenPlace],
        (rights, is_secure): (SocketRights, bool),
        plan: Option<IscsiPlan>,
    ) -> Result<Self, Failure> {
        let mut sockets = Vec::new();
        for place in places {
            sockets.extend(place.listen(uring, rights, is_secure)?);
        }
        let portals = plan.as_ref().map_or(Ok(Vec::new()), |plan| plan.listen(uring))?;
        Ok(Self { sockets, portals, plan })
    }

    /// Clients may write to a volume that an initiator has reserved.
    pub(super) fn has_shared_writers(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.shared_writers)
    }

    /// The doors, which share the memory for requests.
    pub(super) fn open(self, io: &Io, opening: &Opening) -> Result<OpenDoors, Failure> {
        let (memory, connections) = (opening.tuning.for_requests(), opening.exports.max_connections);
        let Self { sockets, portals, plan } = self;
        // Each has its share.
        let share = memory >> u32::from(plan.is_some());
        let config =
            Config { memory: share as usize, connections: connections as usize, ..Config::default() };
        // Reactors have it together. With one there is nothing to share.
        let mut shares = MemoryShare::of(config.memory, opening.cores.count()).into_iter();
        let nbd = match shares.next().filter(|_| opening.cores.count() > 1) {
            Some(share) => nbd::Server::sharing(io, config, share),
            None => nbd::Server::new(io, config),
        };
        let crew = Crew::begin(io, &opening.cores, config, shares)?;
        crew.iter().for_each(|crew| nbd.send_away(Rc::clone(&crew.away)));
        let reactors = crew.as_ref().map(|crew| Rc::clone(&crew.reactors));
        let addresses: Vec<Address> = sockets.iter().map(|(_, address)| address.clone()).collect();
        let uris = move |export: Option<&str>| addresses.iter().map(|address| address.uri(export)).collect();
        let mounts = fuse::Server::beside(io, nbd.sessions());
        let mut doors: Vec<Rc<dyn Door>> = vec![
            Rc::new(NbdDoor::new(nbd.clone(), Rc::new(uris)).with_reactors(reactors)),
            Rc::new(FuseDoor::new(mounts)),
        ];
        let started = plan.map(|plan| plan.start(io, &portals, config));
        if let Some(started) = &started {
            doors.push(Rc::new(IscsiDoor::new(started.server.clone(), started.volumes(io))));
        }
        let initiators = started.map(|started| started.server);
        Ok(OpenDoors { nbd, sockets, initiators, portals, doors: Doors::new(doors), crew })
    }
}

impl OpenDoors {
    /// The server to which initiators come, whose secrets may be read anew.
    pub(super) fn initiators(&self) -> Option<iscsi::Server<Any>> {
        self.initiators.clone()
    }

    /// Answers clients.
    pub(super) fn answer(self, certificates: Option<&Certificates>) {
        places::serve(&self.nbd, self.sockets, certificates);
        if let Some(initiators) = &self.initiators {
            serve_initiators(initiators, self.portals);
        }
    }
}
