//! The servers by which volumes are reached.

use brindle_export::iscsi::TargetStats;
use brindle_export::nbd::ExportStats;
use brindle_export::{iscsi, nbd};

use crate::any::Any;

/// A server of each protocol.
#[derive(Clone)]
pub struct Doors {
    /// Every volume is an export of it.
    pub nbd: nbd::Server<Any>,
    /// Volumes that were there at the start are targets of it.
    pub iscsi: Option<iscsi::Server<Any>>,
}

/// How each server is used.
pub(crate) struct DoorStats {
    pub(crate) nbd: Vec<ExportStats>,
    pub(crate) iscsi: Vec<TargetStats>,
}

impl Doors {
    pub(crate) fn stats(&self) -> DoorStats {
        let iscsi = self.iscsi.as_ref().map(iscsi::Server::target_stats).unwrap_or_default();
        DoorStats { nbd: self.nbd.export_stats(), iscsi }
    }

    /// Ends all connections.
    pub(crate) async fn stop(&self) {
        if let Some(iscsi) = &self.iscsi {
            iscsi.stop().await;
        }
        self.nbd.stop().await;
    }

    /// Ends the connections to a volume.
    pub(crate) async fn remove(&self, name: &str, target: Option<&str>) {
        self.nbd.remove_export(name).await;
        if let (Some(iscsi), Some(target)) = (&self.iscsi, target) {
            iscsi.remove_target(target).await;
        }
    }
}

impl From<nbd::Server<Any>> for Doors {
    fn from(nbd: nbd::Server<Any>) -> Self {
        Self { nbd, iscsi: None }
    }
}
