//! When requests may be sent: rates and pauses.

use core::cell::Cell;
use core::time::Duration;

use brindle_io::Instant;

use crate::job::{Each, Job};
use crate::load::Request;

/// When the next request of each direction is due, and when the job's pause ends.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Each<Option<u64>>,
    rate_iops: Each<Option<u64>>,
    due: Cell<Each<Instant>>,
    pause: Duration,
    every: u64,
    since: Cell<u64>,
    paused: Cell<Instant>,
}

impl Pace {
    pub(super) fn new(job: &Job, now: Instant) -> Self {
        Self {
            rate: job.rate,
            rate_iops: job.rate_iops,
            due: Cell::new([now; 3]),
            pause: job.thinktime,
            every: job.thinktime_blocks,
            since: Cell::new(0),
            paused: Cell::new(now),
        }
    }

    /// When this request may be sent. Late ones catch up: rates hold over the whole run.
    pub(super) fn due(&self, request: &Request) -> Instant {
        let of = request.direction.index();
        let mut all = self.due.get();
        let due = all[of];
        let bytes = self.rate[of].map(|rate| share(request.len, rate));
        let one = self.rate_iops[of].map(|rate| share(1, rate));
        all[of] = due.after(bytes.max(one).unwrap_or_default());
        self.due.set(all);
        due.max(self.paused.get())
    }

    /// A request has completed.
    pub(super) fn completed(&self, now: Instant) {
        if self.pause.is_zero() {
            return;
        }
        self.since.set(self.since.get() + 1);
        if self.since.get() >= self.every {
            self.since.set(0);
            self.paused.set(now.after(self.pause));
        }
    }
}

/// How long so much takes at so much a second.
fn share(count: u64, rate: u64) -> Duration {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(nanos.min(u128::from(u64::MAX)) as u64)
}
