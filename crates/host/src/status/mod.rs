//! The state of what a host serves, typed. Code in this process reads fields. Sockets and reports get the same as
//! JSON, by serde. docs/cli-json.md describes the fields.

mod clients;
mod devices;
mod disks;
mod doors;
mod drive;
mod events;
mod facts;
mod findings;
mod growth;
mod history;
mod other;
mod pools;
mod scan;
mod step;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use brindle_array::Joined;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::limits::RateLimits;

pub use clients::ClientStatus;
pub use devices::{BadBlocks, BadPlaces, DeviceStatus, FailureStatus, IoStatus};
pub use disks::DiskStatus;
pub use doors::{DoorStatus, ExportDoors, PoolDoors, ReactorStatus, TargetStatus};
pub use drive::DriveStatus;
pub use events::EventStatus;
pub use facts::{ArrayFacts, ReshapeFacts, flags, homehost, left_out};
pub use findings::{Bad, Bounds, Findings, FoundPlace, Outcome, mode_of_locating};
pub use growth::GrowthStatus;
pub use history::{HistoryEntry, HistoryReport};
pub use other::OtherStatus;
pub use pools::{
    DamagedStatus, HolderStatus, MapStatus, PoolDevice, PoolFacts, ResilverStatus, VolumeFacts, WrittenStatus,
};
pub use scan::{ScanState, ScanStatus};
pub use step::{NextStep, shell};

/// A word of a report: this process has most of them as constants, and reads those of other servers' reports.
pub type ReportWord = Cow<'static, str>;

/// A running array at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayStatus {
    /// Fields that stay as they were when it was put together.
    #[serde(flatten)]
    pub facts: ArrayFacts,
    /// In words: `clean`, `degraded` and so on.
    pub state: Vec<ReportWord>,
    /// `bitmap`, `resync` and so on, as the kernel calls it.
    pub consistency_policy: ReportWord,
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

impl ArrayStatus {
    /// Whether its state has this word.
    pub fn is(&self, word: &str) -> bool {
        self.state.iter().any(|state| state == word)
    }
}

/// A write-intent bitmap that is kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// The group of arrays and pools with which it shares spares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_group: Option<String>,
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
    /// Sentences about what calls the pool by the name that the request took from it which this answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub still_called: Vec<String>,
}

/// An array or a pool that the settings of a server mean, and that it does not serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbsentStatus {
    /// Its name; its UUID where the settings tell no name.
    pub name: String,
    /// `array` or `pool`.
    pub kind: ReportWord,
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
    /// A content of another kind.
    Other(Box<OtherStatus>),
}

impl<'de> Deserialize<'de> for Report {
    /// A report is of the kind of which it has the part: an array's or a pool's facts, or the reason why it is not served.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let has = |part: &str| value.get(part).is_some_and(|part| !part.is_null());
        let read = match (has("not_served"), has("pool"), has("array")) {
            (true, ..) => serde_json::from_value(value).map(Self::Absent),
            (_, true, _) => serde_json::from_value(value).map(Self::Pool),
            (_, _, true) => serde_json::from_value(value).map(Self::Array),
            _ if has("kind") => serde_json::from_value(value).map(Self::Other),
            _ => return Err(D::Error::custom("a report of neither an array nor a pool")),
        };
        read.map_err(D::Error::custom)
    }
}

impl Report {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Array(array) => &array.name,
            Self::Pool(pool) => &pool.name,
            Self::Absent(absent) => &absent.name,
            Self::Other(other) => &other.name,
        }
    }

    /// Its UUID.
    pub fn uuid(&self) -> &str {
        match self {
            Self::Array(array) => &array.array.facts.uuid,
            Self::Pool(pool) => &pool.pool.uuid,
            Self::Absent(absent) => absent.uuid.as_deref().unwrap_or_default(),
            Self::Other(other) => &other.uuid,
        }
    }

    /// Its UUID, if it is served.
    pub fn served_uuid(&self) -> Option<&str> {
        Some(self.uuid()).filter(|_| !self.is_absent())
    }

    /// The array, if it is one that is served.
    pub fn array(&self) -> Option<&ExportStatus> {
        match self {
            Self::Array(array) => Some(array),
            Self::Pool(_) | Self::Absent(_) | Self::Other(_) => None,
        }
    }

    /// The pool, if it is one that is served.
    pub fn pool(&self) -> Option<&PoolStatus> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Array(_) | Self::Absent(_) | Self::Other(_) => None,
        }
    }

    /// The number of its server's process.
    pub fn pid(&self) -> u32 {
        match self {
            Self::Array(array) => array.pid,
            Self::Pool(pool) => pool.pid,
            Self::Absent(absent) => absent.pid,
            Self::Other(other) => other.pid,
        }
    }

    /// The name of its server.
    pub fn server(&self) -> &str {
        match self {
            Self::Array(array) => array.server.as_ref().unwrap_or(&array.name),
            Self::Pool(pool) => &pool.server,
            Self::Absent(absent) => &absent.server,
            Self::Other(other) => &other.server,
        }
    }

    /// The folder in which names of its devices are meant, if it is known.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Array(array) => array.folder.as_deref(),
            Self::Pool(pool) => pool.folder.as_deref(),
            Self::Other(other) => other.folder.as_deref(),
            Self::Absent(_) => None,
        }
    }

    /// Devices that were named and are done without.
    pub fn left_out(&self) -> &[LeftOut] {
        match self {
            Self::Array(array) => &array.left_out,
            Self::Pool(pool) => &pool.left_out,
            Self::Absent(_) | Self::Other(_) => &[],
        }
    }

    /// NBD URIs of its exports.
    pub fn nbd(&self) -> &[String] {
        match self {
            Self::Array(array) => &array.doors.nbd,
            Self::Pool(pool) => &pool.doors.nbd,
            Self::Other(other) => &other.doors.nbd,
            Self::Absent(_) => &[],
        }
    }

    /// iSCSI URIs of its exports.
    pub fn iscsi(&self) -> &[String] {
        match self {
            Self::Array(array) => array.doors.iscsi.as_ref().map_or(&[], |target| &target.addresses),
            Self::Pool(pool) => &pool.doors.iscsi,
            Self::Other(other) => &other.doors.iscsi,
            Self::Absent(_) => &[],
        }
    }

    /// Its devices in the kernel, or those of its volumes.
    pub fn kernels_devices(&self) -> Vec<&str> {
        match self {
            Self::Array(array) => array.device.as_deref().into_iter().collect(),
            Self::Pool(pool) => pool.devices.iter().map(|(_, device)| &**device).collect(),
            Self::Absent(_) | Self::Other(_) => Vec::new(),
        }
    }

    /// Limits of its clients, if there are any.
    pub fn limits(&self) -> Option<RateLimits> {
        match self {
            Self::Array(array) => array.limits,
            Self::Pool(pool) => pool.limits,
            Self::Absent(_) | Self::Other(_) => None,
        }
    }

    /// The last events, oldest first.
    pub fn events(&self) -> &[EventStatus] {
        match self {
            Self::Array(array) => &array.events,
            Self::Pool(pool) => &pool.events,
            Self::Absent(_) | Self::Other(_) => &[],
        }
    }

    /// Seconds since its status was true; none if it is now.
    pub fn stale_for(&self) -> Option<f64> {
        match self {
            Self::Array(array) => array.stale_for,
            Self::Pool(pool) => pool.stale_for,
            Self::Other(other) => other.stale_for,
            Self::Absent(_) => None,
        }
    }

    /// Whether one of its devices was named so.
    pub fn has_device(&self, name: &str) -> bool {
        self.devices().iter().any(|(path, _)| *path == name)
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
            Self::Other(other) => other.devices.iter().map(|path| (&**path, 0)).collect(),
            Self::Absent(_) => Vec::new(),
        }
    }

    /// Notes which drives SMART calls failing, by the names of their devices.
    pub(crate) fn note_failing(&mut self, of: impl Fn(&str) -> Option<String>) {
        match self {
            Self::Array(array) => {
                let all = array.arrays.iter_mut().chain([&mut array.array]);
                all.flat_map(|array| &mut array.devices).for_each(|device| device.failing = of(&device.path));
            }
            Self::Pool(pool) => {
                let devices = &mut pool.pool.devices;
                devices.iter_mut().for_each(|device| device.failing = device.path.as_deref().and_then(&of));
            }
            Self::Absent(_) | Self::Other(_) => {}
        }
    }

    /// Marks the status as this many seconds old.
    pub fn set_stale(&mut self, seconds: f64) {
        match self {
            Self::Array(array) => array.stale_for = Some(seconds),
            Self::Pool(pool) => pool.stale_for = Some(seconds),
            Self::Other(other) => other.stale_for = Some(seconds),
            Self::Absent(_) => {}
        }
    }
}

/// A device that was named and is done without.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// The name that was given.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// A device that has come to an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JoinedStatus {
    /// The name that was given.
    pub path: String,
    /// The role that it has again; none if it is a spare.
    pub role: Option<u16>,
    /// Why it is a spare and not the member that it was, in a word.
    pub reason: Option<ReportWord>,
    /// The reason in words.
    pub why: Option<String>,
}

/// A former member that can't be re-added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
        let (reason, why) = (why.map(|why| why.word().into()), why.map(ToString::to_string));
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
