//! The NBD and iSCSI servers of a host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;

use brindle_export::access::{AccessList, Client, Proof};
use brindle_export::iscsi::{TargetSpec, TargetStats};
use brindle_export::nbd::ExportStats;
use brindle_export::{ConnectionStats, Gate};
use brindle_export::{iscsi, nbd};
use brindle_io::sync::join_all;

use crate::any::Any;
use crate::error::HostError;
use crate::offered::Offered;

/// NBD URIs of an export; `None` is the only export of a server.
pub type Addresses = Rc<dyn Fn(Option<&str>) -> Vec<String>>;

/// The addresses by which clients find an export.
#[derive(Clone, Debug)]
pub struct ExportPlace {
    /// Its name.
    pub export: String,
    /// NBD URIs.
    pub nbd: Vec<String>,
    /// iSCSI URIs.
    pub iscsi: Vec<String>,
}

/// The way in which volumes become iSCSI targets.
#[derive(Clone)]
pub struct VolumeTargets {
    /// The name of a target, by its export and UUID.
    pub name: TargetNames,
    /// The target of a volume, or the reason why it can't be one.
    pub spec: TargetMaker,
    /// URIs of a target, by its name.
    pub uris: Rc<dyn Fn(&str) -> Vec<String>>,
}

/// Makes a target of an export, by its UUID.
pub type TargetMaker = Rc<dyn Fn(&str, [u8; 16], Rc<Any>, Rc<Gate>) -> MadeTarget>;

/// The name of an export's target, by its UUID.
pub type TargetNames = Rc<dyn Fn(&str, [u8; 16]) -> String>;

/// A target, or the reason why there is none.
pub type MadeTarget = Result<TargetSpec<Any>, String>;

/// A server of each protocol.
#[derive(Clone)]
pub struct Doors {
    /// The NBD server, which has every volume as an export.
    pub nbd: nbd::Server<Any>,
    /// The iSCSI server, of which every volume is a target.
    pub iscsi: Option<iscsi::Server<Any>>,
    addresses: Addresses,
    ways: Option<VolumeTargets>,
    /// Names of iSCSI targets, by export.
    targets: Rc<RefCell<BTreeMap<String, String>>>,
}

/// How each server is used.
pub(crate) struct DoorStats {
    pub(crate) nbd: Vec<ExportStats>,
    pub(crate) iscsi: Vec<TargetStats>,
    /// Every connection, with the name of its protocol.
    pub(crate) connections: Vec<(&'static str, ConnectionStats)>,
    /// Clients that were refused.
    pub(crate) refused: u64,
}

impl Doors {
    /// An NBD server that is reached by these addresses.
    pub fn new(nbd: nbd::Server<Any>, addresses: Addresses) -> Self {
        Self { nbd, iscsi: None, addresses, ways: None, targets: Rc::default() }
    }

    /// The same with an iSCSI server, and the way in which volumes become its targets.
    pub fn with_iscsi(self, server: iscsi::Server<Any>, ways: VolumeTargets) -> Self {
        Self { iscsi: Some(server), ways: Some(ways), ..self }
    }

    /// Offers a volume to the clients of all servers: to those of none if one refuses it.
    pub(crate) fn offer(&self, offered: Offered, gate: Rc<Gate>) -> Result<(), HostError> {
        let Offered { name, description, uuid, volume, .. } = offered;
        let target = match (&self.ways, &self.iscsi) {
            (Some(ways), Some(server)) => {
                let spec = (ways.spec)(&name, uuid, Rc::clone(&volume), Rc::clone(&gate));
                let spec = spec.map_err(|why| HostError::Refused { name: name.clone(), why })?;
                Some((spec, (ways.name)(&name, uuid), server))
            }
            _ => None,
        };
        self.nbd.add_guarded(&name, &description, volume, gate)?;
        if let Some((spec, target, server)) = target {
            server.add_target(spec);
            self.targets.borrow_mut().insert(name, target);
        }
        Ok(())
    }

    /// The addresses of an export, which is to be chosen by its name or is the only one of its server.
    pub(crate) fn place(&self, export: String, is_named: bool) -> ExportPlace {
        let nbd = (self.addresses)(is_named.then_some(&*export));
        ExportPlace { nbd, iscsi: self.uris(&export), export }
    }

    /// The name of the iSCSI target that an export is.
    pub(crate) fn target(&self, export: &str) -> Option<String> {
        self.targets.borrow().get(export).cloned()
    }

    /// iSCSI URIs of an export.
    pub(crate) fn uris(&self, export: &str) -> Vec<String> {
        let uris = |(target, ways): (String, &VolumeTargets)| (ways.uris)(&target);
        self.target(export).zip(self.ways.as_ref()).map(uris).unwrap_or_default()
    }

    /// Exports, each with the name of the iSCSI target that it is.
    pub(crate) fn targeted(&self, exports: &[String]) -> Vec<(String, Option<String>)> {
        exports.iter().map(|export| (export.clone(), self.target(export))).collect()
    }

    pub(crate) fn stats(&self) -> DoorStats {
        let mut connections: Vec<_> =
            self.nbd.connection_stats().into_iter().map(|one| ("nbd", one)).collect();
        let mut refused = self.nbd.refused();
        if let Some(server) = &self.iscsi {
            connections.extend(server.connection_stats().into_iter().map(|one| ("iscsi", one)));
            refused += server.refused();
        }
        let iscsi = self.iscsi.as_ref().map(iscsi::Server::target_stats).unwrap_or_default();
        DoorStats { nbd: self.nbd.export_stats(), iscsi, connections, refused }
    }

    /// Ends all connections.
    pub(crate) async fn stop(&self) {
        let iscsi = async {
            if let Some(iscsi) = &self.iscsi {
                iscsi.stop().await;
            }
        };
        // Side by side: a client that comes while others leave would find no export.
        let both: [Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(iscsi), Box::pin(self.nbd.stop())];
        join_all(both).await;
    }

    /// Ends the connections to an export, and offers it no more.
    pub(crate) async fn withdraw(&self, export: &str) {
        let target = self.target(export);
        self.nbd.remove_export(export).await;
        if let (Some(iscsi), Some(target)) = (&self.iscsi, target) {
            iscsi.remove_target(&target).await;
        }
        self.targets.borrow_mut().remove(export);
    }

    /// Ends the connections to an export.
    pub(crate) async fn dismiss(&self, export: &str) {
        self.nbd.dismiss(export).await;
        if let (Some(iscsi), Some(target)) = (&self.iscsi, self.target(export)) {
            iscsi.dismiss(&target).await;
        }
    }

    /// Lets clients in to the exports of one gate by another list from now on. Ends the connections of those who had another right
    /// before, and tells how many.
    pub(crate) fn admit(&self, exports: &[String], gate: &Gate, access: AccessList) -> usize {
        let is_another = gate.set_access(access);
        let of_one = |export: &String| {
            let ended = self.nbd.disconnect(export, |_, client| is_another(client));
            let (Some(iscsi), Some(target)) = (&self.iscsi, self.target(export)) else { return ended };
            ended + iscsi.disconnect(&target, |_, client| is_another(client))
        };
        exports.iter().map(of_one).sum()
    }

    /// Ends the connections of one client, or of all, to exports at once, and the connections by which the client learns of targets;
    /// gives their number.
    pub(crate) fn disconnect(&self, exports: &[String], client: Option<&str>) -> usize {
        let is_meant = |of: &Client| client.is_none_or(|client| is_called(of, client));
        let nbd = exports.iter().map(|name| self.nbd.disconnect(name, |_, of| is_meant(of)));
        let ended: usize = nbd.sum();
        let targets: Vec<String> = exports.iter().filter_map(|export| self.target(export)).collect();
        let Some(iscsi) = self.iscsi.as_ref().filter(|_| !targets.is_empty()) else { return ended };
        let stats = iscsi.target_stats();
        let named = |target: &str, number: u64| {
            let own = stats.iter().filter(|stats| stats.name == target);
            let mut ports = own.flat_map(|stats| &stats.initiators).filter(|(id, _)| *id == number);
            ports.any(|(_, port)| port.split(',').next() == client)
        };
        let of_target =
            |target: &String| iscsi.disconnect(target, |number, of| is_meant(of) || named(target, number));
        let discovering = iscsi.disconnect(iscsi::DISCOVERY, |_, of| is_meant(of));
        ended + discovering + targets.iter().map(of_target).sum::<usize>()
    }

    /// Clients that have an export open.
    pub(crate) fn users_of(&self, export: &str) -> usize {
        let (stats, target) = (self.stats(), self.target(export));
        let nbd = stats.nbd.iter().filter(|stats| stats.name == export).map(|stats| stats.connections);
        let is_its = |name: &str| target.as_deref() == Some(name);
        let iscsi =
            stats.iscsi.iter().filter(|stats| is_its(&stats.name)).map(|stats| stats.initiators.len());
        nbd.chain(iscsi).sum()
    }
}

/// Whether a client has this address, or has proved this name.
fn is_called(client: &Client, called: &str) -> bool {
    let proved = match &client.proved {
        Some(Proof::Certificate(names)) => names.iter().any(|name| name == called),
        Some(Proof::Chap(name)) => name == called,
        None => false,
    };
    let address = client.address.map_or_else(|| "local".to_owned(), |address| address.to_string());
    proved || address == called
}

impl From<nbd::Server<Any>> for Doors {
    fn from(nbd: nbd::Server<Any>) -> Self {
        Self::new(nbd, Rc::new(|_| Vec::new()))
    }
}
