//! The end of a server: its members are closed, and then others hear of it.

use std::path::PathBuf;
use std::sync::Arc;

use brindle_host::control::Ended as Outcome;
use brindle_io::uring;

use super::notify;
use super::running::{Ended, LastNames, Others};
use super::takeover::{Left, hand_over};
use crate::base::failure::Failure;
use crate::base::log;
use crate::server::settings::RunningSettings;

/// A server whose members are closed and unlocked.
pub(super) struct Closed {
    outcome: Result<(), Failure>,
    /// The path on which a process waits that takes over.
    successor: Option<PathBuf>,
    /// Devices that can't be closed.
    stuck: Vec<String>,
    others: Others,
    held: LastNames,
}

impl Ended {
    /// Ends all tasks, and lets the members go.
    pub(super) fn close(self) -> Closed {
        let Self { served, outcome, others, held } = self;
        let successor = others.asked.get();
        if successor.is_none() {
            notify::stopping();
        }
        others.ended.closing();
        served.service.tell_the_end();
        let locks = Arc::clone(&served.world.locks);
        drop(served);
        let stuck = locks.unlock();
        if !stuck.is_empty() {
            tracing::warn!(
                "{} can't be closed: a thread that the kernel holds there may outlive the process",
                stuck.join(", ")
            );
        }
        Closed { outcome, successor, stuck, others, held }
    }
}

impl Closed {
    /// Tells all that wait for the end, or hands the listeners to a process that takes over.
    pub(super) fn tell(self) -> Result<(), Failure> {
        let Self { outcome, successor, stuck, others, held } = self;
        let Others { ended, control, snapshot, anew, .. } = others;
        if outcome.is_err() && successor.is_some() {
            // It is refused.
            uring::let_listeners_go();
        }
        // Clients that wait for the end find all of it in the log.
        log::flush();
        let LastNames { control: file, scraped: _scraped } = held;
        drop(file);
        match (&outcome, successor) {
            (Ok(()), Some(successor)) => {
                ended.over();
                control.hand_over(Outcome::Well);
                let held = !stuck.is_empty() || !snapshot.unanswered().is_empty();
                let settings = anew.settings.as_ref().map(RunningSettings::text).unwrap_or_default();
                let left = Left { settings, moving: snapshot.moving(), held };
                return hand_over(&successor, &left, &ended);
            }
            (Ok(()), None) if uring::keeps_listeners() => control.hand_over(Outcome::Well),
            (Ok(()), None) => control.end(Outcome::Well),
            (Err(failure), _) => control.end(Outcome::Badly { why: failure.to_string() }),
        }
        outcome
    }
}
