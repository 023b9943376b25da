//! Clients that use an array, or volumes of a pool.

use serde::{Deserialize, Serialize};

use super::ReportWord;

/// A connection that uses an array, or a volume of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// The word for the protocol of its door.
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
