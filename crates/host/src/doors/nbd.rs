//! The door of NBD: every volume is an export of its server.

use std::rc::Rc;

use brindle_export::nbd::Server;
use brindle_export::{ConnectionStats, Gate};

use super::{Door, DoorClient, ExportUse};
use crate::any::Any;
use crate::error::HostError;
use crate::offered::Offered;
use crate::status::ReactorStatus;
use crate::world::Pending;

/// URIs of an export; `None` is the only export of a server.
pub type Addresses = Rc<dyn Fn(Option<&str>) -> Vec<String>>;

/// The reactors among which clients are divided, as they are now.
pub type Reactors = Rc<dyn Fn() -> Vec<ReactorStatus>>;

/// An NBD server, and how clients find it.
pub struct NbdDoor {
    server: Server<Any>,
    addresses: Addresses,
    reactors: Option<Reactors>,
}

impl NbdDoor {
    /// A server that is reached by these addresses.
    pub fn new(server: Server<Any>, addresses: Addresses) -> Self {
        Self { server, addresses, reactors: None }
    }

    /// The same, of a server whose clients are divided among several reactors.
    pub fn with_reactors(self, reactors: Option<Reactors>) -> Self {
        Self { reactors, ..self }
    }
}

impl Door for NbdDoor {
    fn protocol(&self) -> &'static str {
        "nbd"
    }

    fn prepare<'a>(&'a self, export: &Offered, gate: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError> {
        let (export, gate) = (export.clone(), Rc::clone(gate));
        self.server.may_add(&export.name, &export.description)?;
        Ok(Box::new(move || {
            let added = self.server.add_guarded(&export.name, &export.description, export.volume, gate);
            debug_assert_eq!(added, Ok(()), "it was asked for just now");
        }))
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        let (server, export) = (self.server.clone(), export.to_owned());
        Box::pin(async move { server.remove_export(&export).await })
    }

    fn dismiss(&self, export: &str) -> Pending<()> {
        let (server, export) = (self.server.clone(), export.to_owned());
        Box::pin(async move { server.dismiss(&export).await })
    }

    fn stop(&self) -> Pending<()> {
        let server = self.server.clone();
        Box::pin(async move { server.stop().await })
    }

    fn end(&self, connection: &ConnectionStats) -> usize {
        let export = connection.export.as_deref().unwrap_or_default();
        self.server.disconnect(export, |number, _| number == connection.id)
    }

    fn addresses(&self, export: &str, is_named: bool) -> Vec<String> {
        (self.addresses)(is_named.then_some(export))
    }

    fn exports(&self) -> Vec<ExportUse> {
        self.server.export_stats().into_iter().map(ExportUse::from).collect()
    }

    fn clients(&self) -> Vec<DoorClient> {
        self.server.connection_stats().into_iter().map(DoorClient::from).collect()
    }

    fn refused(&self) -> u64 {
        self.server.refused()
    }

    fn reactors(&self) -> Vec<ReactorStatus> {
        self.reactors.as_ref().map(|reactors| reactors()).unwrap_or_default()
    }

    fn for_devices(&self) -> Option<&Server<Any>> {
        Some(&self.server)
    }
}
