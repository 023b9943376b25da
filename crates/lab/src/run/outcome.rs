//! The outcome of a job.

use core::cell::Cell;
use core::time::Duration;

use brindle_volume::VolumeError;

use crate::job::{DIRECTIONS, Direction, Each, Job};
use crate::load::{Mismatch, RangeError, Request};
use crate::measure::{Latency, Tally};

/// The outcome of one copy of a job, or of a group of them.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The job.
    pub job: Job,
    /// Its group, from 0.
    pub group: u32,
    /// Indexed by direction.
    pub tallies: Each<Tally>,
    /// Flushes: how long each took.
    pub flushes: Latency,
    /// Requests by how many were in flight when they were sent: 1, 2 to 3, 4 to 7, ... 64 and more.
    pub depths: [u64; 7],
    /// From the run's beginning to the job's.
    pub began: Duration,
    /// From its beginning to its end.
    pub elapsed: Duration,
    /// The error that ended the job early.
    pub trouble: Option<Trouble>,
}

/// The error that ended a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of {} bytes at byte {}: {why}", request.direction.name(), request.len, request.offset)]
pub struct Trouble {
    /// The request.
    pub request: Request,
    /// The cause.
    pub why: WhyNot,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// The target failed a request.
    #[error("{0}")]
    Volume(VolumeError),
    /// The content that was read differs from the content that was written.
    #[error("verification failed: {0}")]
    Verify(Mismatch),
}

impl WhyNot {
    /// The number by which fio would tell it: EILSEQ for what could not be verified, else EIO.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Verify(_) => 84,
            Self::Volume(_) => 5,
        }
    }
}

/// Why jobs were not begun. Nothing has been read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is no target.
    #[error("there is no target")]
    NoTarget,
    /// A job does not fit a target.
    #[error("job '{job}': {source}")]
    Range {
        /// The job.
        job: String,
        /// The reason.
        source: RangeError,
    },
    /// A job writes, and a target is read-only.
    #[error("job '{0}' writes, and the target is read-only")]
    ReadOnly(String),
    /// The requests in flight need more memory than there is.
    #[error(
        "the jobs that run together need {} MiB for requests in flight, and {} MiB may be used, half of --memory, or without it \
         of what the machine has to spare: give --memory {}M or more, or ask for fewer in flight",
        needed.div_ceil(1 << 20), there >> 20, 2 * needed.div_ceil(1 << 20)
    )]
    Memory {
        /// Bytes that they need.
        needed: u64,
        /// Bytes that may be used.
        there: u64,
    },
}

impl Outcome {
    /// Counts another job's as part of this one's: what the same group reports as one.
    pub fn merge(&mut self, other: &Self) {
        for (own, others) in self.tallies.iter_mut().zip(&other.tallies) {
            own.merge(others);
        }
        self.flushes.merge(&other.flushes);
        self.depths.iter_mut().zip(other.depths).for_each(|(own, others)| *own += others);
        self.began = self.began.min(other.began);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.trouble = self.trouble.or(other.trouble);
    }

    /// All directions as one.
    pub fn mixed(&self) -> Tally {
        let mut all = self.tallies[0].clone();
        self.tallies[1..].iter().for_each(|tally| all.merge(tally));
        all
    }

    /// Requests of all directions.
    pub fn ios(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.ios).sum()
    }
}

/// The work done so far, for progress displays: by direction, since the run began.
#[derive(Debug, Default)]
pub struct Live {
    ios: Cell<Each<u64>>,
    bytes: Cell<Each<u64>>,
    jobs: Cell<u32>,
    stopping: Cell<bool>,
}

impl Live {
    /// Requests by direction.
    pub fn ios(&self) -> Each<u64> {
        self.ios.get()
    }

    /// Bytes by direction.
    pub fn bytes(&self) -> Each<u64> {
        self.bytes.get()
    }

    /// Copies of jobs that run.
    pub fn jobs(&self) -> u32 {
        self.jobs.get()
    }

    /// Ends all jobs: each once what it has in flight has come back.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub(super) fn count(&self, of: Direction, len: u64) {
        let add = |cell: &Cell<Each<u64>>, more: u64| {
            let mut each = cell.get();
            each[of.index()] += more;
            cell.set(each);
        };
        add(&self.ios, 1);
        add(&self.bytes, len);
    }

    pub(super) fn began(&self) {
        self.jobs.set(self.jobs.get() + 1);
    }

    pub(super) fn ended(&self) {
        self.jobs.set(self.jobs.get() - 1);
    }
}

/// Empty counts of a job.
pub(super) fn tallies(job: &Job) -> Each<Tally> {
    let logs = &job.logs;
    let wanted = logs.bandwidth.is_some() || logs.iops.is_some() || logs.latency.is_some();
    let step = logs.average.unwrap_or_default();
    DIRECTIONS.map(|_| Tally::new(step, wanted && logs.average.is_none()))
}
