//! The state of what a host serves, typed. Code in this process reads fields. Sockets and reports get the same as
//! JSON, by serde. docs/cli-json.md describes the fields.

mod clients;
mod devices;
mod doors;
mod drive;
mod events;
mod facts;
mod findings;
mod pools;

use std::path::PathBuf;

use brindle_array::{Joined, NotTaken};
use serde::Serialize;

use crate::limits::RateLimits;

pub use clients::ClientStatus;
pub use devices::{BadBlocks, BadPlaces, DeviceStatus, FailureStatus, IoStatus};
pub use doors::{DoorStatus, ExportDoors, PoolDoors, TargetStatus};
pub use drive::DriveStatus;
pub use events::EventStatus;
pub use facts::{ArrayFacts, ReshapeFacts, consistency, flags, homehost, left_out};
pub use findings::{Bad, Bounds, Findings, FoundPlace, Outcome, mode_of_locating};
pub use pools::{DamagedStatus, PoolDevice, PoolFacts, VolumeFacts, WrittenStatus};

/// A running array at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayStatus {
    /// Fields that stay as they were when it was put together.
    #[serde(flatten)]
    pub facts: ArrayFacts,
    /// In words: `clean`, `degraded` and so on.
    pub state: Vec<&'static str>,
    /// `bitmap`, `resync` and so on, as the kernel calls it.
    pub consistency_policy: &'static str,
    /// Its write-intent bitmap, if it keeps one.
    pub bitmap: Option<BitmapStatus>,
    /// The event count of its superblocks.
    pub events: u64,
    /// Where redundancy stops being known to be in sync.
    pub resync_offset: Option<u64>,
    /// Roles without a member that works.
    pub missing: Vec<u16>,
    /// Members that may still be lost without loss of data, whichever they are; none if data are lost. 0 where redundancy is in doubt.
    pub redundancy_left: Option<u16>,
    /// Its devices.
    pub devices: Vec<DeviceStatus>,
    /// A crash in mid-write would leave blocks of lost members in doubt.
    pub exposed: bool,
    /// The process over the array that runs now.
    pub sync: Option<SyncStatus>,
    /// Bytes a second of processes that begin.
    pub max_speed: Option<u64>,
    /// The speed below which background work is not slowed, bytes a second.
    pub min_speed: Option<u64>,
    /// The name that was given, if it is a member: `a+b+c`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A write-intent bitmap that is kept.
#[derive(Clone, Debug, Serialize)]
pub struct BitmapStatus {
    /// The file that has it; none if it stands beside each superblock.
    pub file: Option<String>,
    /// The file is out of use.
    pub failed: bool,
    /// Bytes to a bit.
    pub chunk: u64,
    /// Bits in all.
    pub bits: u64,
    /// Bits that are set.
    pub dirty: u64,
    /// Pages written in this run.
    pub writes: u64,
    /// Writes that may lag behind.
    pub write_behind: u32,
    /// Writes that lag behind now.
    pub lagging: u32,
    /// The most that did at once.
    pub most_lagging: u32,
}

/// A process of an array: a check, repair, resync or recovery.
#[derive(Clone, Debug, Serialize)]
pub struct SyncStatus {
    /// `resync`, `check` and so on.
    pub action: String,
    /// The position of the process, in bytes.
    pub position: u64,
    /// Bytes in all.
    pub total: u64,
    /// The share of that.
    pub percent: f64,
    /// The process is paused.
    pub paused: bool,
    /// Bytes a second at most.
    pub pace: Option<u64>,
    /// Bytes a second at least.
    pub floor: Option<u64>,
    /// Bytes a second now.
    pub speed: Option<u64>,
    /// Seconds left, estimated.
    pub seconds_left: Option<u64>,
}

/// A served array, with its export and events.
#[derive(Clone, Debug, Serialize)]
pub struct ExportStatus {
    /// The name of the array and its export.
    pub name: String,
    /// The number of the process.
    pub pid: u32,
    /// The working folder of the process: relative names begin here.
    pub folder: Option<PathBuf>,
    /// Its doors.
    #[serde(flatten)]
    pub doors: ExportDoors,
    /// The array.
    pub array: ArrayStatus,
    /// Arrays that are members of it.
    pub arrays: Vec<ArrayStatus>,
    /// Devices that were named and are done without.
    pub left_out: Vec<LeftOut>,
    /// The group of arrays with which it shares spares.
    pub spare_group: Option<String>,
    /// Clients of the first door.
    pub connections: usize,
    /// Requests of all of its clients that there were.
    pub requests: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latencies of some of their reads, by powers of two, from a microsecond.
    pub read_latency: Vec<u64>,
    /// Latencies of writes and other requests, in the same way.
    pub write_latency: Vec<u64>,
    /// It is offered to clients.
    pub exported: bool,
    /// Its device in the kernel: `/dev/nbd0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Limits of its clients, if there are any.
    pub limits: Option<RateLimits>,
    /// Clients that use it.
    pub clients: Vec<ClientStatus>,
    /// Clients that the server has refused, whichever array they wanted.
    pub refused: u64,
    /// The last events, oldest first.
    pub events: Vec<EventStatus>,
    /// The last process that ended.
    pub last_action: Option<Outcome>,
    /// Seconds since all of this was true; none if it is now.
    pub stale_for: Option<f64>,
    /// The name of the server, if that was started with several arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A served pool, with its exports and events.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStatus {
    /// The pool's name, which is the first part of its exports' names.
    pub name: String,
    /// The number of the process.
    pub pid: u32,
    /// The working folder of the process: relative names begin here.
    pub folder: Option<PathBuf>,
    /// Its doors.
    #[serde(flatten)]
    pub doors: PoolDoors,
    /// The pool.
    pub pool: PoolFacts,
    /// Its volumes: each is the export POOL/NAME.
    pub volumes: Vec<VolumeFacts>,
    /// Volumes that are devices of the kernel, each with its device: `tank/vm1`, `/dev/nbd0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<(String, String)>,
    /// Devices that were named and are done without.
    pub left_out: Vec<LeftOut>,
    /// Members that were in use and are missing, as `VDEV.ROLE`: it is for reading alone until they are here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Clients.
    pub connections: usize,
    /// Clients that use its volumes, and clients of the server that only ask which targets there are.
    pub clients: Vec<ClientStatus>,
    /// Clients that this server refused.
    pub refused: u64,
    /// Requests of all clients that there were.
    pub requests: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Requests that failed.
    pub errors: u64,
    /// It is offered to clients.
    pub exported: bool,
    /// Limits of its clients, if there are any.
    pub limits: Option<RateLimits>,
    /// The last events, oldest first.
    pub events: Vec<EventStatus>,
    /// Seconds since all of this was true; none if it is now.
    pub stale_for: Option<f64>,
    /// The name of the server.
    pub server: String,
    /// Connections that were ended by the request that this answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected: Option<usize>,
}

/// An array or a pool that the settings of a server mean, and that it does not serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsentStatus {
    /// Its name; its UUID where the settings tell no name.
    pub name: String,
    /// `array` or `pool`.
    pub kind: &'static str,
    /// Its UUID, if that is known.
    pub uuid: Option<String>,
    /// The reason.
    pub not_served: String,
    /// Roles without a device, of a pool `VDEV.ROLE`; none if no part of it was found.
    pub missing: Option<Vec<String>>,
    /// The command that goes on from here.
    pub next: Option<String>,
    /// The number of the process.
    pub pid: u32,
    /// The name of the server.
    pub server: String,
}

/// Something that is served, or should be.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// An array.
    Array(Box<ExportStatus>),
    /// A pool.
    Pool(Box<PoolStatus>),
    /// Either of them, which is not served.
    Absent(Box<AbsentStatus>),
}

impl Report {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Array(array) => &array.name,
            Self::Pool(pool) => &pool.name,
            Self::Absent(absent) => &absent.name,
        }
    }

    /// Its UUID.
    pub fn uuid(&self) -> &str {
        match self {
            Self::Array(array) => &array.array.facts.uuid,
            Self::Pool(pool) => &pool.pool.uuid,
            Self::Absent(absent) => absent.uuid.as_deref().unwrap_or_default(),
        }
    }

    /// Whether it is not served, though it should be.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// Its devices, as they were named, each with its unanswered operations.
    pub fn devices(&self) -> Vec<(&str, usize)> {
        match self {
            Self::Array(array) => {
                array.devices().map(|device| (&*device.path, device.io.in_flight)).collect()
            }
            Self::Pool(pool) => {
                let devices = pool.pool.devices.iter();
                let of = |device: &'_ PoolDevice| device.io.as_ref().map_or(0, |io| io.in_flight);
                devices.filter_map(|device| Some((device.path.as_deref()?, of(device)))).collect()
            }
            Self::Absent(_) => Vec::new(),
        }
    }

    /// Marks the status as this many seconds old.
    pub(crate) fn set_stale(&mut self, seconds: f64) {
        match self {
            Self::Array(array) => array.stale_for = Some(seconds),
            Self::Pool(pool) => pool.stale_for = Some(seconds),
            Self::Absent(_) => {}
        }
    }
}

/// A device that was named and is done without.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The name that was given.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// A device that has come to an array.
#[derive(Clone, Debug, Serialize)]
pub struct JoinedStatus {
    /// The name that was given.
    pub path: String,
    /// The role that it has again; none if it is a spare.
    pub role: Option<u16>,
    /// Why it is a spare and not the member that it was, in a word.
    pub reason: Option<&'static str>,
    /// The reason in words.
    pub why: Option<String>,
}

/// A former member that can't be re-added.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedStatus {
    /// The name that was given.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl JoinedStatus {
    /// The status of a device with its name.
    pub fn of(label: &str, joined: &Joined) -> Self {
        let (role, why) = match joined {
            Joined::Member { role } => (Some(*role), None),
            Joined::Spare { why } => (None, why.as_ref()),
        };
        let (reason, why) = (why.map(NotTaken::word), why.map(ToString::to_string));
        Self { path: label.to_owned(), role, reason, why }
    }

    /// The names of some.
    pub(crate) fn paths(all: &[Self]) -> Vec<String> {
        all.iter().map(|joined| joined.path.clone()).collect()
    }
}

impl ExportStatus {
    /// The devices of the arrays that are its members, then its own.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceStatus> {
        self.arrays.iter().chain([&self.array]).flat_map(|array| &array.devices)
    }
}
