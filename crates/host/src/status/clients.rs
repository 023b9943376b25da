//! Clients that use an array, or volumes of a pool.

use brindle_export::ConnectionStats;
use brindle_export::access::Proof;
use brindle_export::iscsi::{DISCOVERY, TargetStats};
use serde::{Deserialize, Serialize};

use super::ReportWord;

/// A connection that uses an array, or a volume of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// `nbd` or `iscsi`.
    pub protocol: ReportWord,
    /// `POOL/VOLUME`, if it uses a volume of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The client's address; `local` where it came by a Unix socket.
    pub address: String,
    /// The connection is encrypted.
    pub tls: bool,
    /// Names that were proved.
    pub proved: Vec<String>,
    /// It only asks which targets there are, and uses none of them: it is one of each target's server.
    pub discovery: bool,
    /// The name of its port, if it is an initiator.
    pub initiator: Option<String>,
    /// Seconds since it came.
    pub seconds: f64,
    /// Requests under way.
    pub outstanding: usize,
    /// Requests since it came.
    pub requests: u64,
    /// Bytes that it has read.
    pub bytes_read: u64,
    /// Bytes that it has written.
    pub bytes_written: u64,
    /// Requests that failed.
    pub errors: u64,
}

impl ClientStatus {
    /// The clients of exports, each of which is given with its target. If one of the exports is a target, clients that only ask which targets
    /// there are count, too.
    pub(crate) fn of_exports(
        connections: &[(&'static str, ConnectionStats)],
        targets: &[TargetStats],
        exports: &[(String, Option<String>)],
    ) -> Vec<Self> {
        let is_target = exports.iter().any(|(_, target)| target.is_some());
        let export_of = |protocol: &str, called: &str| {
            exports.iter().find(|(name, target)| match protocol {
                "nbd" => name == called,
                _ => target.as_deref() == Some(called),
            })
        };
        let of_one = |(protocol, one): &(&'static str, ConnectionStats)| {
            let export = export_of(protocol, one.export.as_deref()?);
            let meant = export.is_some() || is_target && Self::discovers(protocol, one);
            let volume = export.map(|(name, _)| name).filter(|name| name.contains('/'));
            meant.then(|| Self { volume: volume.cloned(), ..Self::of(protocol, one, targets) })
        };
        connections.iter().filter_map(of_one).collect()
    }

    /// Whether a connection only asks which targets there are.
    fn discovers(protocol: &str, one: &ConnectionStats) -> bool {
        protocol == "iscsi" && one.export.as_deref() == Some(DISCOVERY)
    }

    fn of(protocol: &'static str, one: &ConnectionStats, targets: &[TargetStats]) -> Self {
        let proved = match &one.client.proved {
            Some(Proof::Certificate(names)) => names.clone(),
            Some(Proof::Chap(name)) => vec![name.clone()],
            None => Vec::new(),
        };
        let mut ports = targets.iter().flat_map(|target| &target.initiators);
        let port = ports.find(|(id, _)| protocol == "iscsi" && *id == one.id);
        Self {
            protocol: protocol.into(),
            volume: None,
            address: one.client.address.map_or_else(|| "local".to_owned(), |address| address.to_string()),
            tls: one.secure,
            proved,
            discovery: Self::discovers(protocol, one),
            initiator: port.map(|(_, port)| port.clone()),
            seconds: one.age.as_secs_f64(),
            outstanding: one.outstanding,
            requests: one.total.requests,
            bytes_read: one.total.read_bytes,
            bytes_written: one.total.written_bytes,
            errors: one.total.errors,
        }
    }
}
