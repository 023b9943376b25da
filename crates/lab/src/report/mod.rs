//! Reports of a run in fio's formats: JSON (`json` and `json+`), text, and logs of values over time. Pure.

mod direction;
mod json;
mod logs;
mod series;
mod text;
mod words;

use crate::job::Given;
use crate::run::Outcome;

pub use json::json;
pub use logs::{Log, logs};
pub use series::{series_csv, series_html};
pub use text::{summary, text};

/// The parts of a report beside the jobs.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The options of the `[global]` sections.
    pub global: Vec<Given>,
    /// When it was made: milliseconds since 1970, and as a date.
    pub time: (u64, String),
    /// The resources that the process used.
    pub usage: Usage,
    /// The work of the disks below.
    pub disks: Vec<DiskStats>,
    /// `json+`: with all bins of latencies.
    pub bins: bool,
}

/// The resources that a process used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time of its own, of 100 for one processor.
    pub user: f64,
    /// Processor time in the kernel.
    pub system: f64,
    /// Context switches.
    pub switches: u64,
    /// Page faults that read.
    pub major: u64,
    /// Page faults without I/O.
    pub minor: u64,
}

/// The work of a disk between two moments, as the kernel counts it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskStats {
    /// Its name.
    pub name: String,
    /// Reads and writes: how many, sectors, merged ones, milliseconds.
    pub reads: [u64; 4],
    /// Counts of writes.
    pub writes: [u64; 4],
    /// Milliseconds of all that was in flight, added up.
    pub in_queue: u64,
    /// Per cent of the time in which it was busy.
    pub busy: f64,
}

/// Outcomes as they are reported: those of a group as one, where their jobs ask for that.
pub fn grouped(outcomes: &[Outcome]) -> Vec<Outcome> {
    let mut reported: Vec<Outcome> = Vec::new();
    for outcome in outcomes {
        let same = |other: &&mut Outcome| other.job.group_reporting && other.group == outcome.group;
        match reported.last_mut().filter(same) {
            Some(last) if outcome.job.group_reporting => last.merge(outcome),
            _ => reported.push(outcome.clone()),
        }
    }
    reported
}
