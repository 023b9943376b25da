//! The display of `brindle watch`, from two reports: pure. A report comes over the control socket, so anything may be
//! missing from it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::going::{Going, bytes_per_second};
use crate::units::Bytes;

/// Characters of the bar that tells how far something is.
const BAR: usize = 30;

/// The reports of all servers that were asked, and when they came, counted from some moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) reports: Vec<Value>,
    pub(super) at: Duration,
}

/// The lines to be shown of what is `now`; rates are of the time since `before`.
pub(super) fn frame(before: Option<&Snapshot>, now: &Snapshot) -> Vec<String> {
    if now.reports.is_empty() {
        return vec!["no array is served".to_owned()];
    }
    let mut lines = Vec::new();
    for report in &now.reports {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        served(&mut lines, Pair::of(report, before, now));
    }
    lines
}

/// The reports of all servers `now`, each array with `rates` of the time since `before`, and so each of its devices.
pub(super) fn json(before: &Snapshot, now: &Snapshot) -> Value {
    let with_rates = |report: &Value| {
        let (mut told, pair) = (report.clone(), Pair::of(report, Some(before), now));
        let mut rates = pair.rates(&["requests", "bytes_read", "bytes_written", "errors"]);
        rates["seconds"] = json!(pair.since.map(|(_, seconds)| seconds));
        told["rates"] = rates;
        device_rates(&mut told["array"], pair.part(|report| &report["array"]));
        for (at, nested) in told["arrays"].as_array_mut().into_iter().flatten().enumerate() {
            device_rates(nested, pair.part(|report| &report["arrays"][at]));
        }
        told
    };
    now.reports.iter().filter(|report| report.is_object()).map(with_rates).collect()
}

fn device_rates(told: &mut Value, array: Pair<'_>) {
    for (at, device) in told["devices"].as_array_mut().into_iter().flatten().enumerate() {
        let io = array.part(|array| &array["devices"][at]["io"]);
        let mut rates = io.rates(&["reads", "writes", "bytes_read", "bytes_written", "errors"]);
        for latency in ["read_latency", "write_latency"] {
            rates[latency] = json!(io.latencies(latency));
        }
        device["rates"] = rates;
    }
}

/// A part of a report, and the same of an earlier one, so many seconds before.
#[derive(Clone, Copy)]
struct Pair<'a> {
    now: &'a Value,
    since: Option<(&'a Value, f64)>,
}

impl<'a> Pair<'a> {
    /// A report of `now`, and what the same server said of the same array before.
    fn of(report: &'a Value, before: Option<&'a Snapshot>, now: &Snapshot) -> Self {
        let is_it = |other: &&Value| other["pid"] == report["pid"] && other["name"] == report["name"];
        let earlier = before.and_then(|before| Some((before.reports.iter().find(is_it)?, before.at)));
        let since = earlier.map(|(earlier, at)| (earlier, now.at.saturating_sub(at).as_secs_f64()));
        Self { now: report, since }
    }

    /// How much counts have grown a second.
    fn rates(self, counts: &[&str]) -> Value {
        counts.iter().map(|&count| (count.to_owned(), json!(self.rate(count)))).collect::<Map<_, _>>().into()
    }

    fn part(self, part: impl Fn(&'a Value) -> &'a Value) -> Self {
        Self { now: part(self.now), since: self.since.map(|(before, seconds)| (part(before), seconds)) }
    }

    /// How much a count has grown a second; `None` if that is not known.
    fn rate(self, count: &str) -> Option<f64> {
        let (before, seconds) = self.since?;
        let grown = self.now[count].as_u64()?.checked_sub(before[count].as_u64()?)?;
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    fn per_second(self, count: &str) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
    }

    fn bytes_per_second(self, count: &str) -> String {
        self.rate(count).map_or_else(|| "-".to_owned(), bytes_per_second)
    }

    fn latency(self, histogram: &str) -> String {
        match self.latencies(histogram) {
            Some([half, most]) => format!("{}/{}", micros(half), micros(most)),
            None => "-".to_owned(),
        }
    }

    /// Below which power of two of microseconds most answers of the time between came: half of them, and 99 of 100.
    fn latencies(self, histogram: &str) -> Option<[u64; 2]> {
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

/// An array that is served, and those that are its members.
fn served(lines: &mut Vec<String>, report: Pair<'_>) {
    let array = report.part(|report| &report["array"]);
    lines.push(format!("{}: {}", word(&report.now["name"]), about(array.now)));
    if let Some(seconds) = report.now["stale_for"].as_f64() {
        lines.push(format!("  does not answer: this is as it was {seconds:.1} s ago"));
    }
    lines.push(format!(
        "  {} clients: {} requests/s, {} read, {} written, {} errors",
        word(&report.now["connections"]),
        report.per_second("requests"),
        report.bytes_per_second("bytes_read"),
        report.bytes_per_second("bytes_written"),
        word(&report.now["errors"]),
    ));
    of_array(lines, array);
    for (at, nested) in items(&report.now["arrays"]).iter().enumerate() {
        lines.push(format!("  {}: {}", word(&nested["label"]), about(nested)));
        of_array(lines, report.part(|report| &report["arrays"][at]));
    }
}

/// The lines about an array: its process and its members.
fn of_array(lines: &mut Vec<String>, array: Pair<'_>) {
    lines.extend(work(&array.now["sync"]));
    lines.push(format!(
        "  {:>4}  {:<10} {:>8} {:>12} {:>14} {:>8} {:>12} {:>14} {:>6}  {}",
        "role", "state", "reads/s", "read", "latency", "writes/s", "written", "latency", "errors", "member"
    ));
    for (at, device) in items(&array.now["devices"]).iter().enumerate() {
        let io = array.part(|array| &array["devices"][at]["io"]);
        lines.push(format!(
            "  {:>4}  {:<10} {:>8} {:>12} {:>14} {:>8} {:>12} {:>14} {:>6}  {}{}",
            word(&device["role"]),
            word(&device["state"]),
            io.per_second("reads"),
            io.bytes_per_second("bytes_read"),
            io.latency("read_latency"),
            io.per_second("writes"),
            io.bytes_per_second("bytes_written"),
            io.latency("write_latency"),
            word(&io.now["errors"]),
            word(&device["path"]),
            notes(device),
        ));
    }
}

/// The line about a process: progress, speed, and time left.
fn work(sync: &Value) -> Option<String> {
    let going = Going::of(sync)?;
    let full = (going.share() * BAR as f64) as usize;
    let bar: String = (0..BAR).map(|at| if at < full { '=' } else { '.' }).collect();
    let (action, percent) = (going.action().escape_debug(), going.share() * 100.0);
    Some(format!("  {action} [{bar}] {percent:.1}%{}", going.pace()))
}

/// Remarks about a member: everything out of the ordinary.
fn notes(device: &Value) -> String {
    let flags = items(&device["flags"]).iter().map(word);
    let bad = device["bad_blocks"]["bytes"].as_u64().map(|bytes| format!("{} unreadable", Bytes(bytes)));
    let waits = device["io"]["oldest"].as_f64().filter(|&seconds| seconds >= 1.0);
    let waits = waits.map(|seconds| format!("no answer for {seconds:.0} s"));
    let slower = device["slower"].as_u64().map(|times| format!("{times} times as slow as the others"));
    let why = device["failure"]["why"].as_str().map(str::to_owned);
    let notes: Vec<String> = flags.chain(slower).chain(bad).chain(waits).chain(why).collect();
    if notes.is_empty() { String::new() } else { format!("  ({})", notes.join(", ")) }
}

fn about(array: &Value) -> String {
    let state: Vec<String> = items(&array["state"]).iter().map(word).collect();
    format!(
        "{} of {}, {}",
        word(&array["level"]),
        Bytes(array["size"].as_u64().unwrap_or(0)),
        state.join(", ")
    )
}

/// Microseconds, short.
fn micros(micros: u64) -> String {
    match micros {
        0..1024 => format!("{micros}us"),
        1024..1_048_576 => format!("{}ms", micros >> 10),
        _ => format!("{}s", micros >> 20),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_debug().to_string(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(seconds: u64, factor: u64, sync: &Value) -> Snapshot {
        let io = |reads: u64| {
            json!({
                "reads": reads * factor, "bytes_read": reads * factor * 4096, "read_latency": [0, 0, 3 * factor, 96 * factor, factor],
                "writes": 0, "bytes_written": 0, "write_latency": [0, 0, 0, 0, 0], "errors": 2, "oldest": null,
            })
        };
        let report = json!({
            "name": "data", "pid": 7, "connections": 2, "errors": 0,
            "requests": 500 * factor, "bytes_read": 2_048_000 * factor, "bytes_written": 0,
            "array": {
                "level": "raid1", "size": 1u64 << 30, "state": ["active", "degraded"], "sync": sync,
                "devices": [
                    {"role": 0, "state": "in-sync", "path": "/dev/sda", "flags": ["write-mostly"], "io": io(1000)},
                    {"role": 1, "state": "recovering", "path": "/dev/sdb", "flags": [], "bad_blocks": {"bytes": 4096}, "io": io(0)},
                ],
            },
            "arrays": [],
        });
        Snapshot { reports: vec![report], at: Duration::from_secs(seconds) }
    }

    fn sync(position: u64) -> Value {
        json!({
            "action": "recover", "position": position, "total": 1u64 << 30, "paused": false, "speed": 128 << 20,
            "seconds_left": 4,
        })
    }

    #[test]
    fn a_frame_tells_rates_since_the_last_and_when_work_will_end() {
        let before = snapshot(10, 1, &sync(256 << 20));
        let lines = frame(Some(&before), &snapshot(12, 3, &sync(512 << 20)));
        assert_eq!(
            lines,
            [
                "data: raid1 of 1 GiB, active, degraded",
                "  2 clients: 500 requests/s, 2.0 MiB/s read, 0 B/s written, 0 errors",
                "  recover [===============...............] 50.0%, 128.0 MiB/s, 0:00:04 left",
                "  role  state       reads/s         read        latency writes/s      written        latency errors  member",
                "     0  in-sync        1000    3.9 MiB/s        8us/8us        0        0 B/s              -      2  /dev/sda  (write-mostly)",
                "     1  recovering        0        0 B/s        8us/8us        0        0 B/s              -      2  /dev/sdb  (4 KiB unreadable)",
            ]
        );
    }

    #[test]
    fn programs_get_the_same_rates() {
        let json = json(&snapshot(10, 1, &Value::Null), &snapshot(12, 3, &Value::Null));
        let rates = &json[0]["rates"];
        assert_eq!((&rates["seconds"], &rates["requests"]), (&json!(2.0), &json!(500.0)), "{json}");
        let device = &json[0]["array"]["devices"][0]["rates"];
        assert_eq!((&device["reads"], &device["read_latency"]), (&json!(1000.0), &json!([8, 8])), "{json}");
        assert_eq!(device["write_latency"], Value::Null, "{json}");
    }

    #[test]
    fn what_is_not_known_yet_is_not_made_up() {
        let mut paused = sync(256 << 20);
        paused["paused"] = json!(true);
        let lines = frame(None, &snapshot(10, 1, &paused));
        assert_eq!(lines[1], "  2 clients: - requests/s, - read, - written, 0 errors");
        assert_eq!(lines[2], "  recover [=======.......................] 25.0%, paused");
        // A server that was started anew counts from nothing.
        let lines = frame(Some(&snapshot(10, 3, &Value::Null)), &snapshot(11, 1, &Value::Null));
        assert!(lines[1].starts_with("  2 clients: - requests/s"), "{lines:?}");
    }

    #[test]
    fn anything_may_be_missing() {
        let empty = Snapshot { reports: vec![json!({}), json!(7)], at: Duration::ZERO };
        assert!(!frame(Some(&empty), &empty).is_empty());
        assert_eq!(json(&empty, &empty)[0]["rates"]["requests"], Value::Null);
        assert_eq!(frame(None, &Snapshot::default()), ["no array is served"]);
    }
}
