//! Timeouts of members, and the extra reads that may be spent to avoid waiting for them.

use core::cell::Cell;

use brindle_io::{Duration, Instant, OpSpan};

/// Time that members may take. See [`Patience::default`] for the usual values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A read or write. Below the 30 s after which SCSI and iSCSI clients give up themselves.
    pub answer: Duration,
    /// A flush, discard or write-zeroes, which may take a drive much longer.
    pub flush: Duration,
    /// The time after which a read is answered from redundancy.
    pub read: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(20),
            flush: Duration::from_secs(120),
            read: Duration::from_millis(500),
        }
    }
}

impl Patience {
    /// The timeout of operations of this class.
    pub fn of(&self, class: OpSpan) -> Duration {
        match class {
            OpSpan::Read | OpSpan::Write | OpSpan::Probe | OpSpan::Map => self.answer,
            OpSpan::Slow => self.flush,
        }
    }

    /// Patience while the array stops: shorter, so that a slow member can't hold up the end.
    pub fn at_stop(&self) -> Self {
        Self {
            answer: self.answer.min(Duration::from_secs(5)),
            flush: self.flush.min(Duration::from_secs(20)),
            ..*self
        }
    }

    /// Time between two looks at who keeps whom waiting.
    pub fn tick(&self) -> Duration {
        (self.read.min(self.answer) / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
    }
}

/// Reads of members that answering early may cost, per hundred reads of members,
const EARLY_PERCENT: u64 = 5;
/// over this time;
const EARLY_WINDOW: Duration = Duration::from_secs(60);
/// and what it may cost where little is read: what a disk does in ten seconds.
const EARLY_LEAST: u64 = 1024;

/// The rest of the budget of reads that early answers may cost.
#[derive(Default)]
pub struct Ration {
    began: Cell<Instant>,
    reads: Cell<u64>,
    extra: Cell<u64>,
}

impl Ration {
    /// Operations that read members have been sent.
    #[inline]
    pub fn sent(&self, reads: u64) {
        self.reads.set(self.reads.get() + reads);
    }

    /// Counts reads that would not have been needed, had a member answered in time.
    pub fn spent(&self, extra: u64) {
        self.extra.set(self.extra.get() + extra);
    }

    /// More may be spent.
    pub fn is_left(&self) -> bool {
        self.extra.get() < EARLY_LEAST.max(self.reads.get() / 100 * EARLY_PERCENT)
    }

    /// A new window begins as soon as the last one is over.
    pub fn renew(&self, now: Instant) {
        if now.since(self.began.get()) >= EARLY_WINDOW {
            self.began.set(now);
            self.reads.set(0);
            self.extra.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answering_early_costs_a_twentieth_of_the_reads_of_a_minute_at_most() {
        let ration = Ration::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        ration.spent(EARLY_LEAST - 1);
        assert!(ration.is_left(), "where little is read, some is granted");
        ration.spent(1);
        assert!(!ration.is_left());
        ration.sent(100_000);
        assert!(ration.is_left());
        ration.spent(5_000 - EARLY_LEAST);
        assert!(!ration.is_left());
        ration.renew(at(59));
        assert!(!ration.is_left());
        ration.renew(at(60));
        assert!(ration.is_left());
        ration.sent(1_000);
        ration.spent(EARLY_LEAST);
        assert!(!ration.is_left(), "what was read before the minute does not count");
    }
}
