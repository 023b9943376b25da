//! The NBD and iSCSI servers of a host.

use std::pin::Pin;

use brindle_export::access::{AccessList, Client, Proof};
use brindle_export::iscsi::TargetStats;
use brindle_export::nbd::ExportStats;
use brindle_export::{ConnectionStats, Gate};
use brindle_export::{iscsi, nbd};
use brindle_io::sync::join_all;

use crate::any::Any;

/// A server of each protocol.
#[derive(Clone)]
pub struct Doors {
    /// The NBD server, which has every volume as an export.
    pub nbd: nbd::Server<Any>,
    /// The iSCSI server, of which every volume is a target.
    pub iscsi: Option<iscsi::Server<Any>>,
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

    /// Ends the connections to a volume, and offers it no more.
    pub(crate) async fn remove(&self, name: &str, target: Option<&str>) {
        self.nbd.remove_export(name).await;
        if let (Some(iscsi), Some(target)) = (&self.iscsi, target) {
            iscsi.remove_target(target).await;
        }
    }

    /// Ends the connections to a volume.
    pub(crate) async fn dismiss(&self, name: &str, target: Option<&str>) {
        self.nbd.dismiss(name).await;
        if let (Some(iscsi), Some(target)) = (&self.iscsi, target) {
            iscsi.dismiss(target).await;
        }
    }

    /// Lets clients in to the exports of one gate, each with its target, by another list from now on. Ends the connections of those who
    /// had another right before, and tells how many.
    pub(crate) fn admit(
        &self,
        exports: &[(String, Option<String>)],
        gate: &Gate,
        access: AccessList,
    ) -> usize {
        let is_another = gate.set_access(access);
        let of_one = |(name, target): &(String, Option<String>)| {
            let ended = self.nbd.disconnect(name, |_, client| is_another(client));
            let (Some(iscsi), Some(target)) = (&self.iscsi, target) else { return ended };
            ended + iscsi.disconnect(target, |_, client| is_another(client))
        };
        exports.iter().map(of_one).sum()
    }

    /// Ends the connections of one client, or of all, to exports at once, each of which is given with its target, and the connections by which
    /// the client learns of targets; gives their number.
    pub(crate) fn disconnect(&self, exports: &[(String, Option<String>)], client: Option<&str>) -> usize {
        let is_meant = |of: &Client| client.is_none_or(|client| is_called(of, client));
        let nbd = exports.iter().map(|(name, _)| self.nbd.disconnect(name, |_, of| is_meant(of)));
        let ended: usize = nbd.sum();
        let targets = || exports.iter().filter_map(|(_, target)| target.as_deref());
        let Some(iscsi) = self.iscsi.as_ref().filter(|_| targets().next().is_some()) else { return ended };
        let stats = iscsi.target_stats();
        let named = |target: &str, number: u64| {
            let own = stats.iter().filter(|stats| stats.name == target);
            let mut ports = own.flat_map(|stats| &stats.initiators).filter(|(id, _)| *id == number);
            ports.any(|(_, port)| port.split(',').next() == client)
        };
        let of_target = |target| iscsi.disconnect(target, |number, of| is_meant(of) || named(target, number));
        let discovering = iscsi.disconnect(iscsi::DISCOVERY, |_, of| is_meant(of));
        ended + discovering + targets().map(of_target).sum::<usize>()
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
        Self { nbd, iscsi: None }
    }
}
