//! The door of iSCSI: every volume is a target of its server, under a name that the standard allows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_export::iscsi::{DISCOVERY, Server, TargetSpec, TargetStats};
use brindle_export::{ConnectionStats, Gate};

use super::{Door, DoorClient, ExportUse};
use crate::any::Any;
use crate::error::HostError;
use crate::offered::Offered;
use crate::world::Pending;

/// The way in which volumes become targets.
#[derive(Clone)]
pub struct VolumeTargets {
    /// The name of a target, by its export and UUID.
    pub name: TargetNames,
    /// The target of a volume, or the reason why it can't be one.
    pub spec: TargetMaker,
    /// URIs of a target, by its name.
    pub uris: TargetUris,
}

/// Makes a target of an export, by its UUID.
pub type TargetMaker = Rc<dyn Fn(&str, [u8; 16], Rc<Any>, Rc<Gate>) -> MadeTarget>;

/// The name of an export's target, by its UUID.
pub type TargetNames = Rc<dyn Fn(&str, [u8; 16]) -> String>;

/// URIs of a target, by its name.
pub type TargetUris = Rc<dyn Fn(&str) -> Vec<String>>;

/// A target, or the reason why there is none.
pub type MadeTarget = Result<TargetSpec<Any>, String>;

/// An iSCSI server, and how volumes become its targets.
pub struct IscsiDoor {
    server: Server<Any>,
    ways: VolumeTargets,
    /// Names of targets, by export.
    targets: Rc<RefCell<BTreeMap<String, String>>>,
}

impl IscsiDoor {
    /// A server without targets.
    pub fn new(server: Server<Any>, ways: VolumeTargets) -> Self {
        Self { server, ways, targets: Rc::default() }
    }

    /// The name of the target that an export is.
    fn target(&self, export: &str) -> Option<String> {
        self.targets.borrow().get(export).cloned()
    }

    /// The export that a target is.
    fn export(&self, target: &str) -> Option<String> {
        self.targets.borrow().iter().find(|(_, own)| *own == target).map(|(export, _)| export.clone())
    }
}

impl Door for IscsiDoor {
    fn protocol(&self) -> &'static str {
        "iscsi"
    }

    fn prepare<'a>(&'a self, export: &Offered, gate: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError> {
        let Offered { name, uuid, volume, .. } = export.clone();
        let spec = (self.ways.spec)(&name, uuid, volume, Rc::clone(gate));
        let spec = spec.map_err(|why| HostError::Refused { name: name.clone(), why })?;
        Ok(Box::new(move || {
            let target = (self.ways.name)(&name, uuid);
            self.server.add_target(spec);
            self.targets.borrow_mut().insert(name, target);
        }))
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        let (server, targets, export) = (self.server.clone(), Rc::clone(&self.targets), export.to_owned());
        Box::pin(async move {
            let target = targets.borrow().get(&export).cloned();
            if let Some(target) = target {
                server.remove_target(&target).await;
                targets.borrow_mut().remove(&export);
            }
        })
    }

    fn resized(&self, export: &str) {
        if let Some(target) = self.target(export) {
            self.server.resized(&target);
        }
    }

    fn dismiss(&self, export: &str) -> Pending<()> {
        let (server, target) = (self.server.clone(), self.target(export));
        Box::pin(async move {
            if let Some(target) = target {
                server.dismiss(&target).await;
            }
        })
    }

    fn stop(&self) -> Pending<()> {
        let server = self.server.clone();
        Box::pin(async move { server.stop().await })
    }

    fn end(&self, connection: &ConnectionStats) -> usize {
        let target = connection.export.as_deref().unwrap_or_default();
        self.server.disconnect(target, |number, _| number == connection.id)
    }

    fn addresses(&self, export: &str, _: bool) -> Vec<String> {
        self.target(export).map(|target| (self.ways.uris)(&target)).unwrap_or_default()
    }

    fn exports(&self) -> Vec<ExportUse> {
        let used = |stats: TargetStats| {
            Some(ExportUse {
                export: self.export(&stats.name)?,
                clients: stats.initiators.len(),
                total: stats.total,
                latency: stats.latency.clone(),
                target: Some(stats),
            })
        };
        self.server.target_stats().into_iter().filter_map(used).collect()
    }

    fn clients(&self) -> Vec<DoorClient> {
        let targets = self.server.target_stats();
        let client = |connection: ConnectionStats| {
            let mut ports = targets.iter().flat_map(|target| &target.initiators);
            let port = ports.find(|(id, _)| *id == connection.id);
            DoorClient {
                export: connection.export.as_ref().and_then(|target| self.export(target)),
                discovers: connection.export.as_deref() == Some(DISCOVERY),
                initiator: port.map(|(_, port)| port.clone()),
                connection,
            }
        };
        self.server.connection_stats().into_iter().map(client).collect()
    }

    fn refused(&self) -> u64 {
        self.server.refused()
    }
}
