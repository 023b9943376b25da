//! Rates of the time between two reports: pure. A report comes over the control socket, so anything may be missing from it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base::sync::bytes_per_second;

/// The reports of all servers that were asked, and when they came, counted from some moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) reports: Vec<Value>,
    pub(super) at: Duration,
}

/// The reports of all servers `now`, each array with `rates` of the time since `before`, and so each of its devices.
pub(super) fn json(before: &Snapshot, now: &Snapshot) -> Value {
    let with_rates = |report: &Value| {
        let (mut reported, pair) = (report.clone(), Pair::of(report, Some(before), now));
        let mut rates = pair.rates(&["requests", "bytes_read", "bytes_written", "errors"]);
        rates["seconds"] = json!(pair.since.map(|(_, seconds)| seconds));
        reported["rates"] = rates;
        for owner in ["array", "pool"] {
            if let Some(reported) = reported.get_mut(owner) {
                device_rates(reported, pair.part(|report| &report[owner]));
            }
        }
        for (at, nested) in
            reported.get_mut("arrays").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            device_rates(nested, pair.part(|report| &report["arrays"][at]));
        }
        reported
    };
    now.reports.iter().filter(|report| report.is_object()).map(with_rates).collect()
}

fn device_rates(reported: &mut Value, array: Pair<'_>) {
    let devices = reported.get_mut("devices").and_then(Value::as_array_mut);
    for (at, device) in devices.into_iter().flatten().enumerate().filter(|(_, device)| device.is_object()) {
        let io = array.part(|array| &array["devices"][at]["io"]);
        let mut rates = io.rates(&["reads", "writes", "bytes_read", "bytes_written", "errors"]);
        for latency in ["read_latency", "write_latency"] {
            rates[latency] = json!(io.latencies(latency));
        }
        device["rates"] = rates;
    }
}

/// A part of a report, and that part of an earlier report with the seconds between them.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) now: &'a Value,
    pub(super) since: Option<(&'a Value, f64)>,
}

impl<'a> Pair<'a> {
    /// A report of `now`, with the same server's last report of the same array.
    pub(super) fn of(report: &'a Value, before: Option<&'a Snapshot>, now: &Snapshot) -> Self {
        let is_it = |other: &&Value| other["pid"] == report["pid"] && other["name"] == report["name"];
        let earlier = before.and_then(|before| Some((before.reports.iter().find(is_it)?, before.at)));
        let since = earlier.map(|(earlier, at)| (earlier, now.at.saturating_sub(at).as_secs_f64()));
        Self { now: report, since }
    }

    /// How much counts have grown a second.
    fn rates(self, counts: &[&str]) -> Value {
        counts.iter().map(|&count| (count.to_owned(), json!(self.rate(count)))).collect::<Map<_, _>>().into()
    }

    pub(super) fn part(self, part: impl Fn(&'a Value) -> &'a Value) -> Self {
        Self { now: part(self.now), since: self.since.map(|(before, seconds)| (part(before), seconds)) }
    }

    /// How much a count has grown a second; `None` if that is not known.
    pub(super) fn rate(self, count: &str) -> Option<f64> {
        let (before, seconds) = self.since?;
        let grown = self.now[count].as_u64()?.checked_sub(before[count].as_u64()?)?;
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    pub(super) fn per_second(self, count: &str) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
    }

    pub(super) fn bytes_per_second(self, count: &str) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), bytes_per_second)
    }

    pub(super) fn latency(self, histogram: &str) -> String {
        match self.latencies(histogram) {
            Some([half, most]) => format!("{}/{}", micros(half), micros(most)),
            None => "-".to_owned(),
        }
    }

    /// Below which power of two of microseconds most answers of the time between came: half of them, and 99 of 100.
    pub(super) fn latencies(self, histogram: &str) -> Option<[u64; 2]> {
        let counts = |report: &Value| -> Vec<u64> {
            let counts = report[histogram].as_array().into_iter().flatten();
            counts.map(|count| count.as_u64().unwrap_or(0)).collect()
        };
        let mut answers = counts(self.now);
        if let Some((before, _)) = self.since {
            let before = counts(before);
            answers.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(before));
        }
        let all: u64 = answers.iter().sum();
        if all == 0 || self.since.is_none() {
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

pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_debug().to_string(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}
