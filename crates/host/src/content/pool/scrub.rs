//! The scrub of a pool that is served, by the words of an array's processes.

use std::num::NonZeroU64;

use brindle_pool::{Scrub, ScrubError, ScrubKind};

use super::ServedPool;
use crate::content::Content;
use crate::control::Word;
use crate::error::HostError;

/// Bytes a second; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speeds {
    /// The maximum speed.
    pub(super) max: Option<u64>,
    /// The minimum speed, also beside clients.
    pub(super) min: Option<u64>,
}

impl Speeds {
    /// Sets the speeds that are given.
    fn set(self, scrub: &Scrub) {
        if let Some(speed) = self.max {
            scrub.set_pace(NonZeroU64::new(speed));
        }
        if let Some(speed) = self.min {
            scrub.set_floor(NonZeroU64::new(speed));
        }
    }
}

impl ServedPool {
    /// Has the scrub go on that was under way when the pool was served last. One that can't is told by what is wrong with the pool.
    pub(super) fn resume(&self) {
        let _scrub = self.pool().resume_scrub();
    }

    /// Begins, halts or ends a scrub. A checksum always tells which member is wrong: to locate that and to repair is the same.
    pub(super) fn act(&self, word: Word, speeds: Speeds) -> Result<(), HostError> {
        let refused = |why: String| HostError::Refused { name: self.name().to_owned(), why };
        let kind = match word {
            Word::Check => ScrubKind::Check,
            Word::Repair | Word::Locate => ScrubKind::Repair,
            Word::Speed => {
                let known = self.speeds.get();
                let kept = Speeds { max: speeds.max.or(known.max), min: speeds.min.or(known.min) };
                self.speeds.set(kept);
                if let Some(scrub) = self.pool().scrub() {
                    speeds.set(&scrub);
                }
                return Ok(());
            }
            Word::Pause | Word::Resume | Word::Idle => {
                let scrub = self.pool().scrub();
                let scrub = scrub.ok_or_else(|| refused("no scrub is under way".to_owned()))?;
                speeds.set(&scrub);
                match word {
                    Word::Pause => scrub.pause(),
                    Word::Resume => scrub.resume(),
                    _ => scrub.stop(),
                }
                let pool = self.pool().clone();
                drop(self.io.spawn(async move { pool.record_scrub().await }));
                return Ok(());
            }
        };
        let scrub = self.pool().begin_scrub(kind).map_err(|error| {
            refused(match error {
                ScrubError::Busy(other) => {
                    format!("a {other} of it is under way: wait for its end, or stop it")
                }
                error => error.to_string(),
            })
        })?;
        self.speeds.get().set(&scrub);
        speeds.set(&scrub);
        Ok(())
    }
}
