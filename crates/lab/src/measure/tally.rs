//! The totals of a job's requests in one direction.

use core::time::Duration;

use super::latency::Latency;
use super::series::Series;

/// When a request was sent, how long that took, and how long it took in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the beginning of what is counted to its completion.
    pub at: Duration,
    /// Nanoseconds until it was handed over.
    pub submission: u64,
    /// Nanoseconds from then to its completion.
    pub completion: u64,
}

/// One request, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When the request completed.
    pub at: Duration,
    /// Nanoseconds until it was handed over.
    pub submission: u64,
    /// Nanoseconds from then to its completion.
    pub completion: u64,
    /// Bytes.
    pub len: u64,
    /// First byte.
    pub offset: u64,
}

/// The totals of the requests in one direction.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// From the first moment that counts to the last completion.
    pub runtime: Duration,
    /// How long requests took to be handed over.
    pub submission: Latency,
    /// Latency from submission to completion.
    pub completion: Latency,
    /// Both.
    pub total: Latency,
    /// Over time.
    pub series: Series,
    /// Each request by itself, where its log is wanted.
    pub entries: Vec<LogEntry>,
    /// Whether one is.
    pub logged: bool,
}

impl Tally {
    /// An empty tally.
    pub fn new(step: Duration, logged: bool) -> Self {
        Self {
            ios: 0,
            bytes: 0,
            runtime: Duration::ZERO,
            submission: Latency::default(),
            completion: Latency::default(),
            total: Latency::default(),
            series: Series::new(step),
            entries: Vec::new(),
            logged,
        }
    }

    /// Counts a request of `len` bytes at `offset`.
    pub fn record(&mut self, timing: Timing, offset: u64, len: u64) {
        let latency = timing.submission.saturating_add(timing.completion);
        self.ios += 1;
        self.bytes += len;
        self.runtime = self.runtime.max(timing.at);
        self.submission.record(timing.submission);
        self.completion.record(timing.completion);
        self.total.record(latency);
        self.series.record(timing.at, len, latency, timing.submission);
        if self.logged {
            let Timing { at, submission, completion } = timing;
            self.entries.push(LogEntry { at, submission, completion, len, offset });
        }
    }

    /// Counts all of another's, which ran at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.runtime = self.runtime.max(other.runtime);
        self.submission.merge(&other.submission);
        self.completion.merge(&other.completion);
        self.total.merge(&other.total);
        self.series.merge(&other.series);
        self.entries.extend_from_slice(&other.entries);
        self.entries.sort_by_key(|entry| entry.at);
    }

    /// Requests each second.
    pub fn iops(&self) -> f64 {
        rate(self.ios, self.runtime)
    }

    /// Bytes each second.
    pub fn bandwidth(&self) -> f64 {
        rate(self.bytes, self.runtime)
    }
}

fn rate(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}
