//! Counters of each member's operations and answers.

use super::{Slot, Table};
use crate::op::{MemberId, OpKind};
use crate::time::{Duration, Instant};

/// Counters of a member's operations and answers so far. They only grow, but for [`MemberCounters::in_flight`] and
/// [`MemberCounters::oldest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberCounters {
    /// Reads that were answered in time, well or with an error.
    pub reads: u64,
    /// Writes, likewise.
    pub writes: u64,
    /// Flushes, likewise.
    pub flushes: u64,
    /// Discards, write-zeroes and probes, likewise.
    pub other: u64,
    /// Bytes that reads gave.
    pub bytes_read: u64,
    /// Bytes that writes took.
    pub bytes_written: u64,
    /// Operations that were answered with an error,
    pub errors: u64,
    /// reads of these, and
    pub read_errors: u64,
    /// writes.
    pub write_errors: u64,
    /// Operations that were given up.
    pub given_up: u64,
    /// Orphans that have completed since, too late for their callers.
    pub late: u64,
    /// Operations sent and not answered, those that were given up among them.
    pub in_flight: usize,
    /// For how long the oldest of them has been under way.
    pub oldest: Option<Duration>,
    /// How long reads took that were answered in time.
    pub read_latency: Histogram,
    /// How long writes took.
    pub write_latency: Histogram,
}

/// Counts of latencies by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket 0: below 1 microsecond; bucket `n`: from 2^(n-1) to below 2^n microseconds; the last: and above.
    pub buckets: [u64; 28],
}

impl Histogram {
    #[inline]
    fn note(&mut self, nanos: u64) {
        let micros = nanos / 1000;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.buckets[bucket.min(self.buckets.len() - 1)] += 1;
    }
}

impl MemberCounters {
    /// An operation was answered in time: `latency` nanoseconds after it was sent.
    #[inline]
    pub(super) fn answered(&mut self, slot: &Slot, failed: bool, latency: u64) {
        let bytes = if failed { 0 } else { slot.len };
        self.errors += u64::from(failed);
        match slot.kind {
            OpKind::Read { .. } => {
                self.reads += 1;
                self.read_errors += u64::from(failed);
                self.bytes_read += bytes;
                self.read_latency.note(latency);
            }
            OpKind::Write { .. } => {
                self.writes += 1;
                self.write_errors += u64::from(failed);
                self.bytes_written += bytes;
                self.write_latency.note(latency);
            }
            OpKind::Flush { .. } => self.flushes += 1,
            _ => self.other += 1,
        }
    }
}

impl Table {
    /// The moment of the reactor's last turn, on the clock of [`crate::patience`].
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// See [`crate::Io::counters`]; `now` is on the clock of [`crate::patience`].
    pub(crate) fn counters(&self, member: MemberId, now: Instant) -> MemberCounters {
        let mut counters =
            self.members.get(member.index()).map(|member| member.counters.clone()).unwrap_or_default();
        let mine = self.slots.iter().filter(|slot| slot.sent && slot.kind.member() == Some(member));
        for slot in mine {
            counters.in_flight += 1;
            counters.oldest = counters.oldest.max(Some(now.since(slot.since)));
        }
        counters
    }
}
