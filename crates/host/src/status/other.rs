//! Contents of kinds that have no report of their own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ClientStatus, PoolDoors, ReportWord};

/// A served content of any kind, as far as all kinds are the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherStatus {
    /// Its name.
    pub name: String,
    /// The word for its kind.
    pub kind: ReportWord,
    /// Its UUID.
    pub uuid: String,
    /// In words, as its kind has them; `broken` and `degraded` mean the same of all kinds.
    pub state: Vec<ReportWord>,
    /// The number of the process.
    pub pid: u32,
    /// The working folder of the process: relative names begin here.
    pub folder: Option<PathBuf>,
    /// Its doors.
    #[serde(flatten)]
    pub doors: PoolDoors,
    /// Its devices, as they were named.
    pub devices: Vec<String>,
    /// Clients that use it.
    pub clients: Vec<ClientStatus>,
    /// Seconds since all of this was true; none if it is now.
    pub stale_for: Option<f64>,
    /// The name of the server.
    pub server: String,
}
