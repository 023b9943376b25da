//! Devices that could come to an array or a pool.

use serde::{Deserialize, Serialize};

use super::drive::DriveStatus;

/// A device among which members are looked for, and that is no member here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskStatus {
    /// The name by which it can be added.
    pub path: String,
    /// Bytes; none if it can't be opened.
    pub size: Option<u64>,
    /// The drive; none of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// There are only zeroes wherever something could stand.
    pub blank: bool,
    /// Its content, in words.
    pub holds: Vec<String>,
    /// The reason why it can't come as it is: it is in use, is part of a disk that is, or can't be read.
    pub refused: Option<String>,
}
