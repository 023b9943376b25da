//! Doors: the servers by which clients reach the exports of a host, one of each protocol. The host knows them by [`Door`] alone.

mod fuse;
mod iscsi;
mod nbd;
mod report;

use std::rc::Rc;

use brindle_export::access::{AccessList, Proof};
use brindle_export::fuse::Server as MountServer;
use brindle_export::iscsi::TargetStats;
use brindle_export::nbd::Server;
use brindle_export::{ConnectionStats, Counters, Gate};
use brindle_io::Histogram;
use brindle_io::sync::join_all;

use crate::any::Any;
use crate::error::HostError;
use crate::offered::Offered;
use crate::status::ReactorStatus;
use crate::world::Pending;

pub use self::fuse::FuseDoor;
pub use iscsi::{IscsiDoor, MadeTarget, TargetMaker, TargetNames, TargetUris, VolumeTargets};
pub use nbd::{Addresses, NbdDoor, Reactors};
pub(crate) use report::DoorStats;
pub use report::by_protocol;

/// A server of one protocol. Exports have the names that they have in their host.
pub trait Door {
    /// The word for its protocol in reports: `nbd`.
    fn protocol(&self) -> &'static str;

    /// Does all that may fail of an offer behind a gate. The export is offered by calling what is returned.
    ///
    /// # Errors
    /// The door can't offer it: its name is none, or another export has it.
    fn prepare<'a>(&'a self, export: &Offered, gate: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError>;

    /// Ends the clients of an export in order, and offers it no more.
    fn withdraw(&self, export: &str) -> Pending<()>;

    /// Tells the clients of an export that it has another size, if the protocol has words for that. Others see it when they come again.
    fn resized(&self, _export: &str) {}

    /// Ends the clients of an export in order.
    fn dismiss(&self, export: &str) -> Pending<()>;

    /// Ends all clients in order.
    fn stop(&self) -> Pending<()>;

    /// Ends at once the clients for which `which`, and gives their number.
    fn disconnect(&self, which: &dyn Fn(&DoorClient) -> bool) -> usize {
        self.clients().into_iter().filter(|one| which(one)).map(|one| self.end(&one.connection)).sum()
    }

    /// Ends a connection at once, and gives the number of connections that this ended.
    fn end(&self, connection: &ConnectionStats) -> usize;

    /// The addresses by which clients find an export; by its name, if it is not the only one of its host.
    fn addresses(&self, export: &str, is_named: bool) -> Vec<String>;

    /// The use of each export.
    fn exports(&self) -> Vec<ExportUse>;

    /// All clients.
    fn clients(&self) -> Vec<DoorClient>;

    /// Clients that were refused.
    fn refused(&self) -> u64;

    /// The reactors among which its clients are divided, if there are several.
    fn reactors(&self) -> Vec<ReactorStatus> {
        Vec::new()
    }

    /// The server to which the kernel connects for its devices, if this is that door.
    fn for_devices(&self) -> Option<&Server<Any>> {
        None
    }

    /// The server of mounts, if this is that door.
    fn for_mounts(&self) -> Option<&MountServer<Any>> {
        None
    }

    /// Whether reports tell of the door also where nobody has come by it.
    fn is_always_told(&self) -> bool {
        true
    }
}

/// The use of an export by way of one door.
#[derive(Clone, Debug)]
pub struct ExportUse {
    /// Its name.
    pub export: String,
    /// Clients that use it now.
    pub clients: usize,
    /// Counters since it is offered.
    pub total: Counters,
    /// Latencies of some of its requests: reads, and others.
    pub latency: [Histogram; 2],
    /// The use of the disk that it is, where the door offers disks.
    pub target: Option<TargetStats>,
}

/// A client of a door.
#[derive(Clone, Debug)]
pub struct DoorClient {
    /// The export that it uses.
    pub export: Option<String>,
    /// It only learns of exports, and uses none.
    pub discovers: bool,
    /// The name of its port, if it is an initiator.
    pub initiator: Option<String>,
    /// Its connection.
    pub connection: ConnectionStats,
}

/// The addresses by which clients find an export.
#[derive(Clone, Debug)]
pub struct ExportPlace {
    /// Its name.
    pub export: String,
    /// Its addresses by each door, with the word for the protocol.
    pub by_door: Vec<(&'static str, Vec<String>)>,
}

impl ExportPlace {
    /// All addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &String> {
        self.by_door.iter().flat_map(|(_, addresses)| addresses)
    }
}

/// All doors of a host. The first is the one whose counters reports show where they show those of one.
#[derive(Clone)]
pub struct Doors(Rc<[Rc<dyn Door>]>);

impl Doors {
    /// These doors.
    pub fn new(doors: Vec<Rc<dyn Door>>) -> Self {
        Self(doors.into())
    }

    /// Offers an export to the clients of all doors: to those of none if one refuses it.
    pub(crate) fn offer(&self, offered: &Offered, gate: &Rc<Gate>) -> Result<(), HostError> {
        let prepared = self.0.iter().map(|door| door.prepare(offered, gate));
        let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
        prepared.into_iter().for_each(|offer| offer());
        Ok(())
    }

    /// The addresses of an export, which is to be chosen by its name or is the only one of its server.
    pub(crate) fn place(&self, export: String, is_named: bool) -> ExportPlace {
        let of = |door: &Rc<dyn Door>| (door.protocol(), door.addresses(&export, is_named));
        let told = self.0.iter().filter(|door| door.is_always_told());
        ExportPlace { by_door: told.map(of).collect(), export }
    }

    /// Ends all connections.
    pub(crate) async fn stop(&self) {
        // Side by side: a client that comes while others leave would find no export.
        join_all(self.0.iter().map(|door| door.stop())).await;
    }

    /// Ends the connections to an export, and offers it no more.
    pub(crate) async fn withdraw(&self, export: &str) {
        // Side by side: whoever waits no longer finds it offered by none.
        join_all(self.0.iter().map(|door| door.withdraw(export))).await;
    }

    /// Tells the clients of an export that it has another size.
    pub(crate) fn resized(&self, export: &str) {
        self.0.iter().for_each(|door| door.resized(export));
    }

    /// Ends the connections to an export.
    pub(crate) async fn dismiss(&self, export: &str) {
        for door in &*self.0 {
            door.dismiss(export).await;
        }
    }

    /// Lets clients in to the exports of one gate by another list from now on. Ends the connections of those who had another right
    /// before, and tells how many.
    pub(crate) fn admit(&self, exports: &[String], gate: &Gate, access: AccessList) -> usize {
        let is_another = gate.set_access(access);
        let which = |one: &DoorClient| one.uses_one_of(exports) && is_another(&one.connection.client);
        self.0.iter().map(|door| door.disconnect(&which)).sum()
    }

    /// Ends the connections of one client, or of all, to exports at once, and the connections by which the client learns of them;
    /// gives their number.
    pub(crate) fn disconnect(&self, exports: &[String], client: Option<&str>) -> usize {
        let of = |door: &Rc<dyn Door>| {
            let offers = door.exports().iter().any(|one| exports.contains(&one.export));
            door.disconnect(&|one: &DoorClient| {
                let is_meant = client.is_none_or(|client| one.is_called(client));
                is_meant && (one.uses_one_of(exports) || one.discovers && offers)
            })
        };
        self.0.iter().map(of).sum()
    }

    /// Clients that have an export open.
    pub(crate) fn users_of(&self, export: &str) -> usize {
        let uses = self.0.iter().flat_map(|door| door.exports());
        uses.filter(|one| one.export == export).map(|one| one.clients).sum()
    }

    /// The server of mounts.
    pub(crate) fn for_mounts(&self) -> Option<&MountServer<Any>> {
        self.0.iter().find_map(|door| door.for_mounts())
    }

    /// The server to which the kernel connects for its devices.
    pub(crate) fn for_devices(&self) -> Option<&Server<Any>> {
        self.0.iter().find_map(|door| door.for_devices())
    }
}

impl DoorClient {
    fn uses_one_of(&self, exports: &[String]) -> bool {
        self.export.as_ref().is_some_and(|export| exports.contains(export))
    }

    /// Whether it has this address, or this name, or has proved this name.
    fn is_called(&self, called: &str) -> bool {
        let proved = match &self.connection.client.proved {
            Some(Proof::Certificate(names)) => names.iter().any(|name| name == called),
            Some(Proof::Chap(name)) => name == called,
            None => false,
        };
        let is_initiator = self.initiator.as_ref().and_then(|port| port.split(',').next()) == Some(called);
        proved || is_initiator || self.address() == called
    }

    /// Its address, as reports have it.
    fn address(&self) -> String {
        self.connection.client.address.map_or_else(|| "local".to_owned(), |address| address.to_string())
    }
}

/// A client of a door whose connections name exports as the host does.
impl From<ConnectionStats> for DoorClient {
    fn from(connection: ConnectionStats) -> Self {
        Self { export: connection.export.clone(), discovers: false, initiator: None, connection }
    }
}

impl From<Server<Any>> for Doors {
    fn from(server: Server<Any>) -> Self {
        Self::new(vec![Rc::new(NbdDoor::new(server, Rc::new(|_| Vec::new())))])
    }
}
