//! The kinds of vdevs that a request may add to a pool.

use serde::{Deserialize, Serialize};

/// Kinds of vdevs that a pool may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are words of zpool's")]
pub enum NewVdev {
    Raidz1,
    Raidz2,
    Raidz3,
    Mirror,
    /// A device that stands for itself.
    Plain,
    /// Devices that wait for the role of a member that is lost.
    Spare,
}

impl NewVdev {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raidz1 => "raidz1",
            Self::Raidz2 => "raidz2",
            Self::Raidz3 => "raidz3",
            Self::Mirror => "mirror",
            Self::Plain => "plain",
            Self::Spare => "spare",
        }
    }
}
