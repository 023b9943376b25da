//! The doors of a server, as its settings have them. They listen before contents are opened, and answer clients once all exports are there.

use std::net::SocketAddr;
use std::rc::Rc;

use brindle_export::{Config, iscsi, nbd};
use brindle_host::{Any, Door, Doors, IscsiDoor, NbdDoor};
use brindle_io::uring::{SocketRights, Uring};
use brindle_io::{Io, SocketId};

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

    /// The doors, which have so many bytes of memory for requests and take so many clients each.
    pub(super) fn open(self, io: &Io, memory: u64, connections: u32) -> OpenDoors {
        let Self { sockets, portals, plan } = self;
        // Each has its share.
        let share = memory >> u32::from(plan.is_some());
        let config =
            Config { memory: share as usize, connections: connections as usize, ..Config::default() };
        let nbd = nbd::Server::new(io, config);
        let addresses: Vec<Address> = sockets.iter().map(|(_, address)| address.clone()).collect();
        let uris = move |export: Option<&str>| addresses.iter().map(|address| address.uri(export)).collect();
        let mut doors: Vec<Rc<dyn Door>> = vec![Rc::new(NbdDoor::new(nbd.clone(), Rc::new(uris)))];
        let started = plan.map(|plan| plan.start(io, &portals, config));
        if let Some(started) = &started {
            doors.push(Rc::new(IscsiDoor::new(started.server.clone(), started.volumes(io))));
        }
        let initiators = started.map(|started| started.server);
        OpenDoors { nbd, sockets, initiators, portals, doors: Doors::new(doors) }
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
