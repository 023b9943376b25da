//! Answers to requests: typed, and at the socket a line.

use serde::Serialize;

use crate::control::Answer;
use crate::error::HostError;
use crate::status::{ExportStatus, JoinedStatus, PoolStatus, RefusedStatus, Report};

/// The status of all that is served: one array, none where that has been stopped, or a list where there were several.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Volumes {
    /// The status of a server that was started with one array.
    One(Option<Report>),
    /// The status of a server of several arrays, or of a pool.
    List(Vec<Report>),
}

impl Volumes {
    /// The reports of all volumes.
    pub fn all(&self) -> &[Report] {
        match self {
            Self::One(one) => one.as_ref().map(std::slice::from_ref).unwrap_or_default(),
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
}

/// The outcome of an order, beside the status of the content that has carried it out.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Devices that were added, each with its new part.
    pub joined: Option<Vec<JoinedStatus>>,
    /// Former members that can't be re-added.
    pub refused: Option<Vec<RefusedStatus>>,
    /// Names of devices that have gone.
    pub removed: Option<Vec<String>>,
    /// Connections that were ended.
    pub disconnected: Option<usize>,
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
    pub(crate) fn of(report: Report, done: Done) -> Self {
        let Done { joined, refused, removed, disconnected } = done;
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
                }))
            }
            Report::Pool(status) => Self::Pool(Box::new(PoolStatus { disconnected, ..*status })),
            report @ Report::Absent(_) => Self::Volumes(Volumes::One(Some(report))),
        }
    }

    pub(crate) fn stopped(name: &str) -> Self {
        Self::Stopped { name: name.to_owned(), stopped: true }
    }
}

/// An answer as it goes over the socket.
pub(crate) fn answer<T: Serialize>(result: Result<T, HostError>) -> Answer {
    match result {
        Ok(reported) => Answer::Ok(serde_json::to_value(reported).unwrap_or_default()),
        Err(why) => Answer::Error(why.to_string()),
    }
}
