//! Logs as fio writes them: time in ms, value, direction, bytes, offset, priority.

use crate::job::{DIRECTIONS, Direction, Job};
use crate::measure::{Bin, LogEntry, Tally};
use crate::run::Outcome;

/// A file of single values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// fio's name for it.
    pub name: String,
    /// Its lines.
    pub text: String,
}

/// The kind of a log: the value that it takes from a request, or from a step of some seconds.
struct Kind {
    name: &'static str,
    entry: fn(&LogEntry) -> u64,
    bin: fn(&Bin, f64) -> u64,
}

const BANDWIDTH: Kind = Kind {
    name: "bw",
    entry: |entry| {
        let nanos = u128::from(entry.submission) + u128::from(entry.completion);
        (u128::from(entry.len) * 1_000_000_000 / 1024 / nanos.max(1)) as u64
    },
    bin: |bin, seconds| (bin.bytes as f64 / 1024.0 / seconds) as u64,
};
const IOPS: Kind = Kind { name: "iops", entry: |_| 1, bin: |bin, seconds| (bin.ios as f64 / seconds) as u64 };
const LATENCY: [Kind; 3] = [
    Kind {
        name: "lat",
        entry: |entry| entry.submission + entry.completion,
        bin: |bin, _| bin.latency / bin.ios.max(1),
    },
    Kind {
        name: "clat",
        entry: |entry| entry.completion,
        bin: |bin, _| bin.latency.saturating_sub(bin.submission) / bin.ios.max(1),
    },
    Kind { name: "slat", entry: |entry| entry.submission, bin: |bin, _| bin.submission / bin.ios.max(1) },
];

/// The logs that the jobs ask for, each with the number of its job from 1 on.
pub fn logs(outcomes: &[Outcome]) -> Vec<Log> {
    let mut all = Vec::new();
    for (at, outcome) in outcomes.iter().enumerate() {
        let asked = &outcome.job.logs;
        let mut add = |prefix: &Option<Option<String>>, kinds: &[Kind]| {
            let Some(prefix) = prefix else { return };
            let prefix = prefix.as_ref().unwrap_or(&outcome.job.name);
            all.extend(kinds.iter().map(|kind| Log {
                name: format!("{prefix}_{}.{}.log", kind.name, at + 1),
                text: lines(outcome, kind),
            }));
        };
        add(&asked.bandwidth, &[BANDWIDTH]);
        add(&asked.iops, &[IOPS]);
        add(&asked.latency, &LATENCY);
    }
    all
}

/// All directions, in the order of time.
fn lines(outcome: &Outcome, kind: &Kind) -> String {
    let mut lines: Vec<(u128, String)> = Vec::new();
    for of in DIRECTIONS {
        let tally = &outcome.tallies[of.index()];
        match tally.logged {
            true => lines.extend(tally.entries.iter().map(|entry| single(entry, of, kind, &outcome.job))),
            false => lines.extend(steps(tally, of, kind, &outcome.job)),
        }
    }
    lines.sort_by_key(|(at, _)| *at);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn single(entry: &LogEntry, of: Direction, kind: &Kind, job: &Job) -> (u128, String) {
    let at = entry.at.as_millis();
    (at, line(at, (kind.entry)(entry), of, (entry.len, entry.offset), job))
}

/// fio's columns: milliseconds, value, direction, bytes, with `log_offset` the offset, and the priority, of which there is none.
fn line(at: u128, value: u64, of: Direction, (len, offset): (u64, u64), job: &Job) -> String {
    let place = if job.logs.offset { format!("{offset}, ") } else { String::new() };
    format!("{at}, {value}, {}, {len}, {place}0\n", of.index())
}

fn steps<'a>(
    tally: &'a Tally,
    of: Direction,
    kind: &'a Kind,
    job: &'a Job,
) -> impl Iterator<Item = (u128, String)> + 'a {
    let step = tally.series.step();
    let used = tally.series.bins().iter().enumerate().filter(|(_, bin)| bin.ios > 0);
    used.map(move |(at, bin)| {
        let at = step.as_millis() * (at as u128 + 1);
        let value = (kind.bin)(bin, step.as_secs_f64());
        // Lines about several requests have neither size nor place.
        (at, line(at, value, of, (0, 0), job))
    })
}
