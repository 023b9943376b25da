//! Doors by which exports are used. NBD and iSCSI have fields of their own; other doors are a list.

use serde::{Deserialize, Serialize};

use super::ReportWord;

/// The use of exports by way of one door.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DoorStatus {
    /// The word for its protocol.
    pub protocol: ReportWord,
    /// Addresses by which clients find the exports.
    pub addresses: Vec<String>,
    /// Clients.
    pub connections: usize,
    /// Requests of all clients that there were.
    pub requests: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latencies of some reads, by powers of two, from a microsecond.
    pub read_latency: Vec<u64>,
    /// Latencies of writes and other requests, in the same way.
    pub write_latency: Vec<u64>,
    /// The disk that an export is, where the door offers disks.
    #[serde(skip)]
    pub(crate) target: Option<TargetStatus>,
    /// The reactors among which its clients are divided, if there are several.
    #[serde(skip)]
    pub(crate) reactors: Vec<ReactorStatus>,
}

/// The doors of an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportDoors {
    /// NBD URIs.
    pub nbd: Vec<String>,
    /// The array as an iSCSI target, if it is one.
    pub iscsi: Option<TargetStatus>,
    /// Other doors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<DoorStatus>,
    /// The reactors of the server, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reactors: Vec<ReactorStatus>,
    /// The use of the array by way of each door.
    #[serde(skip)]
    pub(crate) uses: Vec<DoorStatus>,
}

/// The doors of a pool's volumes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolDoors {
    /// NBD URIs of all of its exports.
    pub nbd: Vec<String>,
    /// iSCSI URIs of all of its exports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iscsi: Vec<String>,
    /// Other doors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<DoorStatus>,
    /// The reactors of the server, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reactors: Vec<ReactorStatus>,
}

/// A reactor of a server that has several: a thread that has sessions of clients. The first one, home, also has all arrays and pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReactorStatus {
    /// The core to which it is pinned, if it is.
    pub core: Option<u16>,
    /// Its share of the processor time that it could have had in the last second, of 1.
    pub busy: f64,
    /// Turns since it began.
    pub turns: u64,
    /// NBD sessions that it has from home now; none at home itself.
    pub sessions: usize,
    /// Requests that it has handed to home so far.
    pub forwarded: u64,
    /// Requests that it has carried out itself so far, of arrays.
    pub carried_out: u64,
    /// Seconds for which it has taken nothing that home sent it, though it could: a debugger holds it, say. What relies on its answers waits.
    pub held_for: u64,
}

/// An array as an iSCSI target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetStatus {
    /// Its IQN.
    pub target: String,
    /// iSCSI URIs.
    pub addresses: Vec<String>,
    /// The number of the unit.
    pub unit: u64,
    /// The names of the initiators that are logged in.
    pub initiators: Vec<String>,
    /// Nexuses that have registered for reservations.
    pub registrants: usize,
    /// A reservation is held.
    pub reserved: bool,
    /// Commands since it is served.
    pub requests: u64,
    /// Bytes that initiators have read.
    pub bytes_read: u64,
    /// Bytes that initiators have written.
    pub bytes_written: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Latencies of some of its reads, by powers of two, from a microsecond.
    pub read_latency: Vec<u64>,
    /// Latencies of writes and other requests, in the same way.
    pub write_latency: Vec<u64>,
}
