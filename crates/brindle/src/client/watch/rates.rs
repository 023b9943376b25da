//! Rates of the time between two reports: pure.

use std::time::Duration;

use brindle_host::status::{
    AbsentStatus, ArrayStatus, DeviceStatus, ExportStatus, IoStatus, OtherStatus, PoolDevice, PoolFacts,
    PoolStatus, Report,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::base::sync::bytes_per_second;

/// The reports of all servers that were asked, and when they came, counted from some moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) reports: Vec<Report>,
    pub(super) at: Duration,
}

/// The reports of all servers `now`, each array with `rates` of the time since `before`, and so each of its devices.
pub(super) fn json(before: &Snapshot, now: &Snapshot) -> Value {
    let of = |report| RatedReport::of(Pair::of(report, Some(before), now));
    json!(now.reports.iter().map(of).collect::<Vec<_>>())
}

/// A report with rates. Fields behind a flattened status take the place of those of the same name in it.
#[derive(Serialize)]
#[serde(untagged)]
enum RatedReport<'a> {
    Array {
        #[serde(flatten)]
        status: &'a ExportStatus,
        array: RatedArray<'a>,
        arrays: Vec<RatedArray<'a>>,
        rates: ServedRates,
    },
    Pool {
        #[serde(flatten)]
        status: &'a PoolStatus,
        pool: RatedPool<'a>,
        rates: ServedRates,
    },
    Absent {
        #[serde(flatten)]
        status: &'a AbsentStatus,
        rates: ServedRates,
    },
    Other {
        #[serde(flatten)]
        status: &'a OtherStatus,
        rates: ServedRates,
    },
}

impl<'a> RatedReport<'a> {
    fn of(report: Pair<'a, Report>) -> Self {
        let rates = ServedRates::of(report);
        match report.now {
            Report::Array(status) => {
                let none = |now| Pair { now, since: None };
                let of = |part: Option<Pair<'a, ArrayStatus>>, now| RatedArray::of(part.unwrap_or(none(now)));
                let nested = status.arrays.iter().enumerate();
                let nested =
                    nested.map(|(at, now)| of(report.part(|report| report.array()?.arrays.get(at)), now));
                let own = of(report.part(|report| Some(&report.array()?.array)), &status.array);
                Self::Array { status, array: own, arrays: nested.collect(), rates }
            }
            Report::Pool(status) => {
                let part = report.part(|report| Some(&report.pool()?.pool));
                let pool = RatedPool::of(part.unwrap_or(Pair { now: &status.pool, since: None }));
                Self::Pool { status, pool, rates }
            }
            Report::Absent(status) => Self::Absent { status, rates },
            Report::Other(status) => Self::Other { status, rates },
        }
    }
}

#[derive(Serialize)]
struct RatedArray<'a> {
    #[serde(flatten)]
    array: &'a ArrayStatus,
    devices: Vec<RatedDevice<'a, DeviceStatus>>,
}

impl<'a> RatedArray<'a> {
    fn of(array: Pair<'a, ArrayStatus>) -> Self {
        let io = |at: usize| array.part(|array| Some(&array.devices.get(at)?.io));
        Self { array: array.now, devices: rated(&array.now.devices, io) }
    }
}

#[derive(Serialize)]
struct RatedPool<'a> {
    #[serde(flatten)]
    pool: &'a PoolFacts,
    devices: Vec<RatedDevice<'a, PoolDevice>>,
}

impl<'a> RatedPool<'a> {
    fn of(pool: Pair<'a, PoolFacts>) -> Self {
        let io = |at: usize| pool.part(|pool| pool.devices.get(at)?.io.as_ref());
        Self { pool: pool.now, devices: rated(&pool.now.devices, io) }
    }
}

#[derive(Serialize)]
struct RatedDevice<'a, T> {
    #[serde(flatten)]
    device: &'a T,
    rates: IoRates,
}

/// Devices, each with the rates of the operations that `io` finds by its place.
fn rated<'a, T>(
    devices: &'a [T],
    io: impl Fn(usize) -> Option<Pair<'a, IoStatus>>,
) -> Vec<RatedDevice<'a, T>> {
    let devices = devices.iter().enumerate();
    devices.map(|(at, device)| RatedDevice { device, rates: IoRates::of(io(at)) }).collect()
}

/// Rates of requests.
#[derive(Serialize)]
struct ServedRates {
    requests: Option<f64>,
    bytes_read: Option<f64>,
    bytes_written: Option<f64>,
    errors: Option<f64>,
    seconds: Option<f64>,
}

impl ServedRates {
    fn of(report: Pair<'_, Report>) -> Self {
        Self {
            requests: report.rate(REQUESTS),
            bytes_read: report.rate(BYTES_READ),
            bytes_written: report.rate(BYTES_WRITTEN),
            errors: report.rate(ERRORS),
            seconds: report.since.map(|(_, seconds)| seconds),
        }
    }
}

/// Rates of a member's operations.
#[derive(Default, Serialize)]
struct IoRates {
    reads: Option<f64>,
    writes: Option<f64>,
    bytes_read: Option<f64>,
    bytes_written: Option<f64>,
    errors: Option<f64>,
    read_latency: Option<[u64; 2]>,
    write_latency: Option<[u64; 2]>,
}

impl IoRates {
    fn of(io: Option<Pair<'_, IoStatus>>) -> Self {
        let Some(io) = io else { return Self::default() };
        Self {
            reads: io.rate(READS),
            writes: io.rate(WRITES),
            bytes_read: io.rate(READ),
            bytes_written: io.rate(WRITTEN),
            errors: io.rate(|io| Some(io.errors)),
            read_latency: io.latencies(|io| &io.read_latency),
            write_latency: io.latencies(|io| &io.write_latency),
        }
    }
}

/// A count of something that is reported; `None` where there is none of it.
pub(super) type Count<T> = fn(&T) -> Option<u64>;

pub(super) const REQUESTS: Count<Report> =
    |report| served(report, |array| array.requests, |pool| pool.requests);
pub(super) const BYTES_READ: Count<Report> =
    |report| served(report, |array| array.bytes_read, |pool| pool.bytes_read);
pub(super) const BYTES_WRITTEN: Count<Report> =
    |report| served(report, |array| array.bytes_written, |pool| pool.bytes_written);
pub(super) const ERRORS: Count<Report> = |report| served(report, |array| array.errors, |pool| pool.errors);
pub(super) const READS: Count<IoStatus> = |io| Some(io.reads);
pub(super) const WRITES: Count<IoStatus> = |io| Some(io.writes);
pub(super) const READ: Count<IoStatus> = |io| Some(io.bytes_read);
pub(super) const WRITTEN: Count<IoStatus> = |io| Some(io.bytes_written);

fn served(report: &Report, array: fn(&ExportStatus) -> u64, pool: fn(&PoolStatus) -> u64) -> Option<u64> {
    match report {
        Report::Array(status) => Some(array(status)),
        Report::Pool(status) => Some(pool(status)),
        Report::Absent(_) | Report::Other(_) => None,
    }
}

/// A part of a report, and that part of an earlier report with the seconds between them.
#[derive(Debug)]
pub(super) struct Pair<'a, T> {
    pub(super) now: &'a T,
    pub(super) since: Option<(&'a T, f64)>,
}

impl<T> Clone for Pair<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pair<'_, T> {}

impl<'a> Pair<'a, Report> {
    /// A report of `now`, with the same server's last report of the same array.
    pub(super) fn of(report: &'a Report, before: Option<&'a Snapshot>, now: &Snapshot) -> Self {
        let is_it = |other: &&Report| other.pid() == report.pid() && other.name() == report.name();
        let earlier = before.and_then(|before| Some((before.reports.iter().find(is_it)?, before.at)));
        let since = earlier.map(|(earlier, at)| (earlier, now.at.saturating_sub(at).as_secs_f64()));
        Self { now: report, since }
    }
}

impl<'a, T> Pair<'a, T> {
    pub(super) fn part<U>(self, part: impl Fn(&'a T) -> Option<&'a U>) -> Option<Pair<'a, U>> {
        let since = self.since.and_then(|(before, seconds)| Some((part(before)?, seconds)));
        Some(Pair { now: part(self.now)?, since })
    }

    /// How much a count has grown a second; `None` if that is not known.
    pub(super) fn rate(self, count: Count<T>) -> Option<f64> {
        let (before, seconds) = self.since?;
        let grown = count(self.now)?.checked_sub(count(before)?)?;
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    pub(super) fn per_second(self, count: Count<T>) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
    }

    pub(super) fn bytes_per_second(self, count: Count<T>) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), bytes_per_second)
    }

    pub(super) fn latency(self, histogram: fn(&T) -> &[u64]) -> String {
        match self.latencies(histogram) {
            Some([half, most]) => format!("{}/{}", micros(half), micros(most)),
            None => "-".to_owned(),
        }
    }

    /// Below which power of two of microseconds most answers of the time between came: half of them, and 99 of 100.
    pub(super) fn latencies(self, histogram: fn(&T) -> &[u64]) -> Option<[u64; 2]> {
        let (before, _) = self.since?;
        let mut answers = histogram(self.now).to_vec();
        let before = histogram(before);
        answers.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(*before));
        let all: u64 = answers.iter().sum();
        if all == 0 {
            return None;
        }
        let below = |share: u64| {
            let mut left = (all * share).div_ceil(100);
            let bucket = answers.iter().position(|&count| {
                left = left.saturating_sub(count);
                left == 0
            });
            1u64 << bucket.unwrap_or(0).min(62)
        };
        Some([below(50), below(99)])
    }
}

/// Microseconds, short.
pub(super) fn micros(micros: u64) -> String {
    match micros {
        0..1024 => format!("{micros}us"),
        1024..1_048_576 => format!("{}ms", micros >> 10),
        _ => format!("{}s", micros >> 20),
    }
}

/// Text of a report as it can be shown on a terminal.
pub(super) fn word(text: &str) -> String {
    text.escape_debug().to_string()
}
