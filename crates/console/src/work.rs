//! Work that has come to its end: pages show it as done for a moment, and not only that it is no more.

use std::time::{Duration, Instant};

use brindle_host::status::{Report, ScanState, ScanStatus};

use crate::health::Running;

/// Time for which work that has ended is shown: pages that are not seen ask each five seconds.
const SHOWN: Duration = Duration::from_secs(6);

/// The work on something that is served, as it was seen last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Work {
    #[default]
    None,
    Goes(Running),
    Ended(Running, Instant),
}

impl Work {
    /// Notes the work that a report tells of.
    pub(crate) fn note(&mut self, report: &Report, running: Option<Running>, now: Instant) {
        *self = match (std::mem::take(self), running) {
            (_, Some(running)) => Self::Goes(running),
            (Self::Goes(before), None) if has_ended_well(report) => {
                let done = Running { percent: 100.0, paused: false, speed: None, left: None, ..before };
                Self::Ended(done, now)
            }
            (Self::Goes(_), None) => Self::None,
            (ended, None) => ended,
        };
    }

    /// The work that has just ended.
    pub(crate) fn just_ended(&self, now: Instant) -> Option<Running> {
        match self {
            Self::Ended(done, at) if now - *at < SHOWN => Some(done.clone()),
            Self::None | Self::Goes(_) | Self::Ended(..) => None,
        }
    }
}

/// Whether work that is no more has come to its end.
fn has_ended_well(report: &Report) -> bool {
    match report {
        Report::Array(status) => status.last_action.as_ref().is_none_or(|last| last.error.is_none()),
        Report::Pool(status) => match &status.pool.scan {
            Some(ScanStatus::Scrub(ScanState::Finished { stopped, .. })) if !status.pool.is("degraded") => {
                stopped.is_none()
            }
            _ => !status.pool.is("degraded") && !status.pool.is("broken"),
        },
        Report::Absent(_) | Report::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn work_is_shown_as_done_for_a_moment_if_it_came_to_its_end() {
        let report = |error: Value| {
            serde_json::from_value(
                json!({"name": "a", "array": {}, "last_action": {"action": "recover", "error": error}}),
            )
            .unwrap()
        };
        let half = || {
            Some(Running {
                words: "Rebuilding".into(),
                percent: 50.0,
                paused: false,
                speed: Some(1),
                left: Some(9),
            })
        };
        let (begun, mut work) = (Instant::now(), Work::default());
        work.note(&report(Value::Null), None, begun);
        assert_eq!(work.just_ended(begun), None);
        work.note(&report(Value::Null), half(), begun);
        assert_eq!(work.just_ended(begun), None);
        work.note(&report(Value::Null), None, begun);
        work.note(&report(Value::Null), None, begun + Duration::from_secs(1));
        let done = work.just_ended(begun + Duration::from_secs(2)).unwrap();
        assert_eq!((done.percent, done.left), (100.0, None));
        assert_eq!(work.just_ended(begun + SHOWN), None);
        // It was stopped, or could not go on.
        work.note(&report(Value::Null), half(), begun);
        work.note(&report("a write failed".into()), None, begun);
        assert_eq!(work.just_ended(begun), None);
    }
}
