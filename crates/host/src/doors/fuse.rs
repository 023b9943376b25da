//! The door of mounts: every volume can be one, by a descriptor that a client hands over.

use std::rc::Rc;

use brindle_export::fuse::Server;
use brindle_export::{ConnectionStats, Gate};

use super::{Door, DoorClient, ExportUse};
use crate::any::Any;
use crate::error::HostError;
use crate::offered::Offered;
use crate::world::Pending;

/// A server of mounts. It listens nowhere.
pub struct FuseDoor(Server<Any>);

impl FuseDoor {
    /// The door of this server.
    pub fn new(server: Server<Any>) -> Self {
        Self(server)
    }
}

impl Door for FuseDoor {
    fn protocol(&self) -> &'static str {
        "fuse"
    }

    fn prepare<'a>(&'a self, export: &Offered, gate: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError> {
        let (export, gate) = (export.clone(), Rc::clone(gate));
        Ok(Box::new(move || self.0.add_guarded(&export.name, &export.description, export.volume, gate)))
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        let (server, export) = (self.0.clone(), export.to_owned());
        Box::pin(async move { server.remove_export(&export).await })
    }

    fn dismiss(&self, export: &str) -> Pending<()> {
        let (server, export) = (self.0.clone(), export.to_owned());
        Box::pin(async move { server.dismiss(&export).await })
    }

    fn stop(&self) -> Pending<()> {
        let server = self.0.clone();
        Box::pin(async move { server.stop().await })
    }

    fn end(&self, connection: &ConnectionStats) -> usize {
        let export = connection.export.as_deref().unwrap_or_default();
        self.0.disconnect(export, |number, _| number == connection.id)
    }

    fn addresses(&self, _export: &str, _is_named: bool) -> Vec<String> {
        Vec::new()
    }

    fn exports(&self) -> Vec<ExportUse> {
        self.0.export_stats().into_iter().map(ExportUse::from).collect()
    }

    fn clients(&self) -> Vec<DoorClient> {
        self.0.connection_stats().into_iter().map(DoorClient::from).collect()
    }

    fn refused(&self) -> u64 {
        0
    }

    fn for_mounts(&self) -> Option<&Server<Any>> {
        Some(&self.0)
    }

    fn is_always_told(&self) -> bool {
        false
    }
}
