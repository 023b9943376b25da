//! The work that goes over all of a pool: scrubs, and resilvers of members.

use serde::{Deserialize, Serialize};

/// The last work of this kind, or that which runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanStatus {
    /// Its kind.
    pub kind: ScanKind,
    /// How far it is.
    #[serde(flatten)]
    pub state: ScanState,
}

/// Kinds of work that goes over all of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanKind {
    /// All is read, and compared.
    Scrub,
    /// A member is given what it lacks.
    Resilver,
}

/// How far such work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum ScanState {
    /// There was none.
    None,
    /// It runs.
    Running {
        /// Bytes that are done, and
        done: u64,
        /// bytes in all.
        total: u64,
        /// Bytes a second now.
        speed: Option<u64>,
        /// Seconds left, estimated.
        seconds_left: Option<u64>,
    },
    /// It came to its end.
    Finished {
        /// Seconds since 1970.
        at: u64,
        /// Blocks that no member has any more.
        errors: u64,
        /// Blocks that were rebuilt in place.
        healed: u64,
    },
}

impl ScanStatus {
    /// Whether it is a scrub that found all of the pool whole.
    pub fn says_whole(&self) -> bool {
        self.kind == ScanKind::Scrub && matches!(self.state, ScanState::Finished { errors: 0, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_it_is_written_and_read() {
        let (done, total) = (1, 2);
        for state in [
            ScanState::None,
            ScanState::Running { done, total, speed: Some(3), seconds_left: None },
            ScanState::Finished { at: 7, errors: 0, healed: 2 },
        ] {
            let scan = ScanStatus { kind: ScanKind::Scrub, state };
            let text = serde_json::to_string(&scan).unwrap();
            assert_eq!(serde_json::from_str::<ScanStatus>(&text).unwrap(), scan, "{text}");
        }
    }
}
