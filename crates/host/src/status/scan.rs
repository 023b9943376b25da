//! The work that goes over all of a pool: scrubs, and resilvers of members.

use brindle_pool::{Pool, PoolStatus, Scrub, Scrubbed};
use serde::{Deserialize, Serialize};

use super::SyncStatus;

/// A scan of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "scan", rename_all = "kebab-case")]
pub enum ScanStatus {
    /// All that is stored is gone over.
    Scrub(ScanState),
    /// Members get what they miss.
    Resilver(ScanState),
}

/// How far a scan is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ScanState {
    /// It is under way.
    Running {
        /// `repair`, or `check` if a scrub writes nothing; `resilver`.
        action: String,
        /// Bytes of members that are done,
        done: u64,
        /// and all of them.
        total: u64,
        /// It stands still until it is told to go on.
        paused: bool,
        /// Bytes a second, if that is known,
        speed: Option<u64>,
        /// and seconds that it will take at that speed.
        eta: Option<u64>,
    },
    /// It has ended.
    Finished {
        /// As above.
        action: String,
        /// Seconds since 1970 when it began,
        began: u64,
        /// and ended.
        at: u64,
        /// Blocks that are wrong still, lost ones among them.
        errors: u64,
        /// Of these, blocks of volumes that are lost.
        lost: u64,
        /// Blocks that were written anew.
        healed: u64,
        /// Blocks that were not looked at, since their members are missing or did not answer.
        unverified: u64,
        /// The reason why it did not come to its end.
        stopped: Option<String>,
    },
}

impl ScanStatus {
    /// The scan of a pool.
    pub(super) fn of(pool: &Pool) -> Option<Self> {
        let running = pool.scrub().map(|scrub| Self::Scrub(ScanState::running(&scrub)));
        let resilver = || ScanState::resilvering(&pool.status()).map(Self::Resilver);
        let last = || pool.scrubbed().map(|scrubbed| Self::Scrub(ScanState::finished(&scrubbed)));
        running.or_else(resilver).or_else(last)
    }

    /// Whether it is a scrub that looked at all of the pool and found it whole.
    pub fn says_whole(&self) -> bool {
        let Self::Scrub(ScanState::Finished { errors, unverified, stopped, .. }) = self else { return false };
        *errors == 0 && *unverified == 0 && stopped.is_none()
    }

    /// The word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Scrub(_) => "scrub",
            Self::Resilver(_) => "resilver",
        }
    }

    /// How far it is.
    pub fn state(&self) -> &ScanState {
        match self {
            Self::Scrub(state) | Self::Resilver(state) => state,
        }
    }

    /// Its progress, as that of an array's process; none if it has ended.
    pub fn sync(&self) -> Option<SyncStatus> {
        let ScanState::Running { action, done, total, paused, speed, eta } = self.state() else {
            return None;
        };
        Some(SyncStatus {
            action: action.clone(),
            position: *done,
            total: *total,
            percent: (*done).min(*total) as f64 * 100.0 / (*total).max(1) as f64,
            paused: *paused,
            speed: *speed,
            seconds_left: *eta,
            ..SyncStatus::default()
        })
    }
}

impl ScanState {
    fn resilvering(status: &PoolStatus) -> Option<Self> {
        let at = status.resilver.as_ref().filter(|_| status.busy.resilvering)?;
        Some(Self::Running {
            action: "resilver".to_owned(),
            done: at.position,
            total: at.total,
            paused: false,
            speed: at.speed,
            eta: at.left.map(|left| left.as_secs()),
        })
    }

    fn running(scrub: &Scrub) -> Self {
        let detail = scrub.detail();
        Self::Running {
            action: detail.kind.to_string(),
            done: detail.progress.position,
            total: detail.progress.total,
            paused: detail.paused,
            speed: detail.speed,
            eta: detail.left().map(|left| left.as_secs()),
        }
    }

    fn finished(scrubbed: &Scrubbed) -> Self {
        let found = &scrubbed.found;
        Self::Finished {
            action: scrubbed.kind.to_string(),
            began: scrubbed.began,
            at: scrubbed.ended,
            errors: scrubbed.errors(),
            lost: found.lost,
            healed: found.healed,
            unverified: found.unverified.max(found.missing),
            stopped: scrubbed.error.map(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_it_is_written_and_read() {
        let action = "repair".to_owned();
        let running = ScanState::Running {
            action: action.clone(),
            done: 1,
            total: 2,
            paused: false,
            speed: Some(3),
            eta: None,
        };
        let finished = |errors, unverified| ScanState::Finished {
            action: action.clone(),
            began: 1,
            at: 7,
            errors,
            lost: 0,
            healed: 2,
            unverified,
            stopped: None,
        };
        for scan in [ScanStatus::Scrub(running), ScanStatus::Resilver(finished(0, 0))] {
            let text = serde_json::to_string(&scan).unwrap();
            assert_eq!(serde_json::from_str::<ScanStatus>(&text).unwrap(), scan, "{text}");
            assert!(!scan.says_whole());
        }
        let says_whole = |errors, unverified| ScanStatus::Scrub(finished(errors, unverified)).says_whole();
        assert_eq!([says_whole(0, 0), says_whole(1, 0), says_whole(0, 1)], [true, false, false]);
    }
}
