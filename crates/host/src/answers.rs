//! Answers to requests: typed, and at the socket a line.

use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::control::Answer;
use crate::error::HostError;
use crate::status::{
    ExportStatus, GrowthStatus, HistoryReport, JoinedStatus, PoolStatus, RefusedStatus, Report,
};

/// The status of all that is served: one array, none where that has been stopped, or a list where there were several.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Volumes {
    /// The status of a server that was started with one array.
    One(Option<Report>),
    /// The status of a server of several arrays, or of a pool.
    List(Vec<Report>),
}

impl Default for Volumes {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Volumes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = match Value::deserialize(from)? {
            Value::Null => return Ok(Self::One(None)),
            all @ Value::Array(_) => serde_json::from_value(all).map(Self::List),
            one => serde_json::from_value(one).map(|one| Self::One(Some(one))),
        };
        read.map_err(D::Error::custom)
    }
}

impl Volumes {
    /// The reports of all volumes.
    pub fn all(&self) -> &[Report] {
        match self {
            Self::One(one) => one.as_ref().map(std::slice::from_ref).unwrap_or_default(),
            Self::List(all) => all,
        }
    }

    /// The reports of all volumes.
    pub fn into_all(self) -> Vec<Report> {
        match self {
            Self::One(one) => one.into_iter().collect(),
            Self::List(all) => all,
        }
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Report] {
        match self {
            Self::One(one) => one.as_mut().map(std::slice::from_mut).unwrap_or_default(),
            Self::List(all) => all,
        }
    }
}

/// The status that was made last, as `look` tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Looked {
    /// Its number: another, and a greater one, once the status is another. Numbers of a server that starts anew go on.
    pub number: u64,
    /// Seconds since it was made. While nothing runs it is made anew each nine seconds.
    pub age: f64,
    /// The status of all, as `status` tells it; none for those who know this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Value>,
}

/// The status of an array, and the devices that have come and gone by the request that it answers.
#[derive(Clone, Debug, Serialize)]
pub struct Served {
    /// The array.
    #[serde(flatten)]
    pub status: ExportStatus,
    /// Names of devices that have come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<Vec<String>>,
    /// Devices that were added, each with its new part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<Vec<JoinedStatus>>,
    /// Former members that can't be re-added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Vec<RefusedStatus>>,
    /// Names of devices that have gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<String>>,
    /// Connections that were ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected: Option<usize>,
    /// The change of its shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthStatus>,
}

/// The effects of an order, beside the status of the content that has carried it out.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Devices that were added, each with its new part.
    pub joined: Option<Vec<JoinedStatus>>,
    /// Former members that can't be re-added.
    pub refused: Option<Vec<RefusedStatus>>,
    /// Names of devices that have gone.
    pub removed: Option<Vec<String>>,
    /// Connections that were ended.
    pub disconnected: Option<usize>,
    /// Sentences about what calls it by the name that it had.
    pub still_called: Vec<String>,
    /// The change of its shape.
    pub growth: Option<GrowthStatus>,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum RequestOutcome {
    /// To the question for a status.
    Volumes(Volumes),
    /// The status of the array in question.
    Served(Box<Served>),
    /// The status of the pool in question.
    Pool(Box<PoolStatus>),
    /// A device of the kernel has been made.
    Attached {
        /// The array, or POOL/VOLUME.
        name: String,
        /// `/dev/nbd0`.
        device: String,
        /// The name that udev has given to it; none if it has given none.
        link: Option<String>,
        /// The reason why it has none, though udev runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        remark: Option<String>,
    },
    /// A mount is served.
    Mounted {
        /// The array, or POOL/VOLUME.
        name: String,
        /// Where it is mounted.
        mounted: PathBuf,
        /// Its files can be written to.
        writable: bool,
    },
    /// The history of a pool.
    History(Box<HistoryReport>),
    /// It has been ended.
    Detached {
        /// The array, or POOL/VOLUME.
        name: String,
        /// `/dev/nbd0`.
        device: String,
        /// Always true: it tells this answer from others.
        detached: bool,
    },
    /// The array or the server stops.
    Stopped {
        /// The array or the server.
        name: String,
        /// Always true: it tells this answer from others.
        stopped: bool,
    },
}

impl RequestOutcome {
    /// The answer that an order was carried out.
    pub(crate) fn of(report: Report, effects: Effects) -> Self {
        let Effects { joined, refused, removed, disconnected, still_called, growth } = effects;
        match report {
            Report::Array(status) => {
                let added = joined.as_deref().map(JoinedStatus::paths);
                Self::Served(Box::new(Served {
                    status: *status,
                    added,
                    joined,
                    refused,
                    removed,
                    disconnected,
                    growth,
                }))
            }
            Report::Pool(status) => {
                Self::Pool(Box::new(PoolStatus { disconnected, still_called, ..*status }))
            }
            report @ (Report::Absent(_) | Report::Other(_)) => Self::Volumes(Volumes::One(Some(report))),
        }
    }

    pub(crate) fn stopped(name: &str) -> Self {
        Self::Stopped { name: name.to_owned(), stopped: true }
    }
}

/// A device of the kernel that has been made or ended, as the answers to `attach` and `detach` tell it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KernelDevice {
    /// The array, or POOL/VOLUME.
    pub name: String,
    /// `/dev/nbd0`.
    pub device: String,
    /// The name that udev has given to it; none if it has given none.
    pub link: Option<String>,
    /// The reason why it has none, though udev runs.
    pub remark: Option<String>,
}

/// A mount that is served, as the answer to `mount` tells it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MountedVolume {
    /// The array, or POOL/VOLUME.
    pub name: String,
    /// Where it is mounted.
    pub mounted: PathBuf,
    /// Its files can be written to.
    pub writable: bool,
}

/// The outcome of an order to an array or a pool, as the answers to all of these tell it beside the status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Done {
    /// The array or pool.
    pub name: String,
    /// Names of devices that have come.
    pub added: Vec<String>,
    /// Devices that were added, each with its new part.
    pub joined: Vec<JoinedStatus>,
    /// Former members that can't be re-added.
    #[serde(deserialize_with = "refused_members")]
    pub refused: Vec<RefusedStatus>,
    /// Names of devices that have gone.
    pub removed: Vec<String>,
    /// Connections that were ended.
    pub disconnected: usize,
    /// The change of its shape.
    pub growth: Option<GrowthStatus>,
}

/// Members stand where a status has its count of clients that were refused.
fn refused_members<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RefusedStatus>, D::Error> {
    match Value::deserialize(from)? {
        members @ Value::Array(_) => serde_json::from_value(members).map_err(D::Error::custom),
        _ => Ok(Vec::new()),
    }
}

/// Sentences about what has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// For people.
    pub changed: Vec<String>,
}

/// The protocol of the control socket, as a server speaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// See [`crate::control::VERSION`].
    pub version: u32,
}

/// An answer as it goes over the socket.
pub(crate) fn answer<T: Serialize>(result: Result<T, HostError>) -> Answer {
    match result {
        Ok(reported) => Answer::Ok(serde_json::to_value(reported).unwrap_or_default()),
        Err(why) => Answer::Error(why.to_string()),
    }
}
