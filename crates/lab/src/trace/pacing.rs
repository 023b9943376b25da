//! When the requests of a trace are sent.

use core::time::Duration;

use super::{Act, TraceEntry, TraceError};

/// How the times of a trace are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// Requests are sent as soon as there is room in flight.
    pub full_speed: bool,
    /// Times between requests are multiplied by this.
    pub scale: f64,
    /// Pauses between requests are no longer than this, as they are in the trace.
    pub max_idle: Option<Duration>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { full_speed: false, scale: 1.0, max_idle: None }
    }
}

/// The requests of a trace, each with the time after the first at which it is due. A time before the previous one is
/// replaced by the latest so far.
pub fn paced(
    pacing: Pacing,
    entries: impl Iterator<Item = Result<TraceEntry, TraceError>>,
) -> impl Iterator<Item = Result<(Duration, Act), TraceError>> {
    let mut last = None;
    let mut due = 0u64;
    entries.map(move |entry| {
        let TraceEntry { at, act } = entry?;
        let before = last.unwrap_or(at);
        last = Some(before.max(at));
        let gap = at.saturating_sub(before);
        let most =
            pacing.max_idle.map_or(u64::MAX, |most| u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        if !pacing.full_speed {
            // Saturates: a trace of centuries is none that anybody waits for.
            due = due.saturating_add((gap.min(most) as f64 * pacing.scale) as u64);
        }
        Ok((Duration::from_nanos(due), act))
    })
}
