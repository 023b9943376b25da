//! When requests may be sent: rates, pauses, and the time that each takes of the job's own processor.

use core::cell::Cell;
use core::time::Duration;

use brindle_io::Instant;

use crate::job::{Direction, Each, Job};
use crate::load::Request;

/// The time that a request takes of its job's own processor, which sends no other meanwhile. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTime {
    /// Of each request.
    pub request: u64,
    /// Of each KiB of it.
    pub kib: u64,
    /// Of each piece of a read, and of any other request.
    pub piece: [u64; 2],
    /// Requests are cut into pieces at multiples of so many bytes, never 0.
    pub chunk: u64,
}

impl OwnTime {
    /// None is modelled, and requests are not cut: the machine's own processor takes its time.
    pub const NONE: Self = Self { request: 0, kib: 0, piece: [0; 2], chunk: u64::MAX };

    fn of(&self, request: &Request) -> Duration {
        let Request { offset, len, direction } = *request;
        let last = offset + len.saturating_sub(1);
        let pieces = last / self.chunk - offset / self.chunk + 1;
        let piece = self.piece[usize::from(direction != Direction::Read)];
        let kib = self.kib.saturating_mul(len) / 1024;
        Duration::from_nanos(self.request.saturating_add(kib).saturating_add(piece.saturating_mul(pieces)))
    }
}

/// When the next request of each direction is due, when the job's pause ends, and when its processor is free.
#[derive(Debug)]
pub(super) struct Pace {
    own: OwnTime,
    free: Cell<Instant>,
    rate: Each<Option<u64>>,
    rate_iops: Each<Option<u64>>,
    due: Cell<Each<Instant>>,
    pause: Duration,
    every: u64,
    since: Cell<u64>,
    paused: Cell<Instant>,
}

impl Pace {
    pub(super) fn new(job: &Job, own: OwnTime, now: Instant) -> Self {
        Self {
            own,
            free: Cell::new(now),
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
    pub(super) fn due(&self, request: &Request, now: Instant) -> Instant {
        let due = self.due_by_rate(request);
        if self.own == OwnTime::NONE {
            return due;
        }
        // Requests of one job at a time come one after the other; the model of a drive has what a single one takes.
        let begins = due.max(self.free.get()).max(now);
        self.free.set(begins.after(self.own.of(request)));
        begins
    }

    fn due_by_rate(&self, request: &Request) -> Instant {
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
