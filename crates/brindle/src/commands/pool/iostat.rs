//! `brindle pool iostat`: operations and bytes a second of members, as `zpool iostat` has them.

use std::iter::Sum;
use std::ops::Add;
use std::path::Path;
use std::time::{Duration, Instant};

use brindle_host::status::{PoolDevice, PoolStatus, WrittenStatus};
use serde::Serialize;

use super::{all, columns, served_or, tree};
use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{report, runtime};
use crate::flags::cli::PoolIostat;

/// The longest time between two looks.
const LONGEST: f64 = 86_400.0;

/// The words of the command line.
#[derive(Debug, PartialEq)]
struct Looks {
    pool: Option<String>,
    /// Time between two looks.
    interval: Option<Duration>,
    /// As many times.
    count: Option<u64>,
}

impl Looks {
    /// A pool, if the first word is no number; then seconds, then a count.
    fn of(words: &[String]) -> Result<Self, Failure> {
        let is_number = |word: &String| word.parse::<f64>().is_ok();
        let (pool, numbers) = match words.split_first() {
            Some((first, rest)) if !is_number(first) => (Some(first.clone()), rest),
            _ => (None, words),
        };
        let wrong = |word: &str| {
            Failure::Usage(format!("'{word}' is not for iostat: give POOL INTERVAL COUNT, such as tank 5 10"))
        };
        let (interval, count) = match numbers {
            [] => (None, None),
            [interval] => (Some(interval), None),
            [interval, count] => (Some(interval), Some(count)),
            [_, _, more, ..] => return Err(wrong(more)),
        };
        let seconds = |word: &String| match word.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds <= LONGEST => Ok(Duration::from_secs_f64(seconds)),
            _ => Err(wrong(word)),
        };
        let times =
            |word: &String| word.parse().ok().filter(|&count: &u64| count > 0).ok_or_else(|| wrong(word));
        Ok(Self { pool, interval: interval.map(seconds).transpose()?, count: count.map(times).transpose()? })
    }
}

/// Operations of members since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    reads: u64,
    writes: u64,
    bytes_read: u64,
    bytes_written: u64,
}

impl Counts {
    fn of(device: &PoolDevice) -> Self {
        let Some(io) = &device.io else { return Self::default() };
        let (bytes_read, bytes_written) = (io.bytes_read, io.bytes_written);
        Self { reads: io.reads, writes: io.writes, bytes_read, bytes_written }
    }

    /// Those since `before`. A server that was started anew meanwhile counts from its start on.
    fn since(self, before: Self) -> Self {
        let grown = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            reads: grown(self.reads, before.reads),
            writes: grown(self.writes, before.writes),
            bytes_read: grown(self.bytes_read, before.bytes_read),
            bytes_written: grown(self.bytes_written, before.bytes_written),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// Operations and bytes a second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Speeds {
    reads: f64,
    writes: f64,
    bytes_read: f64,
    bytes_written: f64,
}

impl Speeds {
    fn of(counts: Counts, seconds: f64) -> Self {
        let each = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        Self {
            reads: each(counts.reads),
            writes: each(counts.writes),
            bytes_read: each(counts.bytes_read),
            bytes_written: each(counts.bytes_written),
        }
    }

    fn cells(self) -> [String; 4] {
        let bytes = |rate: f64| Bytes(rate as u64).to_string();
        let operations = |rate: f64| format!("{rate:.0}");
        [operations(self.reads), operations(self.writes), bytes(self.bytes_read), bytes(self.bytes_written)]
    }
}

/// The members of a pool in the time between two looks.
#[derive(Debug, Serialize)]
struct PoolSpeeds {
    name: String,
    seconds: f64,
    #[serde(flatten)]
    speeds: Speeds,
    stored: u64,
    free: u64,
    /// Bytes a second that clients read, and
    client_bytes_read: f64,
    /// wrote.
    client_bytes_written: f64,
    /// Bytes written to members for each that clients wrote; none if they wrote nothing.
    written_for_each: Option<f64>,
    vdevs: Vec<VdevSpeeds>,
}

#[derive(Debug, Serialize)]
struct VdevSpeeds {
    name: String,
    #[serde(flatten)]
    speeds: Speeds,
    devices: Vec<DeviceSpeeds>,
}

#[derive(Debug, Serialize)]
struct DeviceSpeeds {
    member: String,
    path: Option<String>,
    #[serde(flatten)]
    speeds: Speeds,
}

impl PoolSpeeds {
    fn of(before: Option<&PoolStatus>, now: &PoolStatus, seconds: f64) -> Self {
        let counts = |device: &PoolDevice| {
            let earlier =
                before.and_then(|before| before.pool.devices.iter().find(|one| one.member == device.member));
            Counts::of(device).since(earlier.map(Counts::of).unwrap_or_default())
        };
        // Spares are no vdev, and stand together.
        let vdev_of = |device: &PoolDevice| match device.is_spare() {
            true => "spares".to_owned(),
            false => device.member.split('.').next().unwrap_or_default().to_owned(),
        };
        let vdev = |members: &[PoolDevice]| {
            let device = |device: &PoolDevice| DeviceSpeeds {
                member: device.member.clone(),
                path: device.path.clone(),
                speeds: Speeds::of(counts(device), seconds),
            };
            let kind = members.first().map_or("", |first| &first.kind);
            let is_spare = members.first().is_some_and(PoolDevice::is_spare);
            let number = members.first().map(vdev_of).unwrap_or_default();
            VdevSpeeds {
                name: if is_spare { number } else { tree::vdev_name(kind, &number) },
                speeds: Speeds::of(members.iter().map(counts).sum(), seconds),
                devices: members.iter().map(device).collect(),
            }
        };
        let devices = &now.pool.devices;
        let grown = |of: fn(&PoolStatus) -> u64| {
            let before = before.map_or(0, of);
            of(now).checked_sub(before).unwrap_or_else(|| of(now))
        };
        let (client, all) =
            (grown(|status| status.pool.written.client), grown(|status| written(&status.pool.written)));
        Self {
            name: now.name.clone(),
            seconds,
            speeds: Speeds::of(devices.iter().map(counts).sum(), seconds),
            stored: now.pool.stored,
            free: now.pool.capacity.saturating_sub(now.pool.stored),
            client_bytes_read: grown(|status| status.bytes_read) as f64 / seconds,
            client_bytes_written: grown(|status| status.bytes_written) as f64 / seconds,
            written_for_each: (client > 0).then(|| all as f64 / client as f64),
            vdevs: devices.chunk_by(|one, next| vdev_of(one) == vdev_of(next)).map(vdev).collect(),
        }
    }

    fn lines(&self, verbose: bool) -> Vec<Vec<String>> {
        let line = |depth: usize, name: &str, room: [String; 2], speeds: Speeds, last: String| {
            let name = format!("{}{name}", "  ".repeat(depth));
            [name].into_iter().chain(room).chain(speeds.cells()).chain([last]).collect::<Vec<_>>()
        };
        let none = || ["-".to_owned(), "-".to_owned()];
        let each = self.written_for_each.map_or_else(|| "-".to_owned(), |each| format!("{each:.2}"));
        let room = [Bytes(self.stored).to_string(), Bytes(self.free).to_string()];
        let mut lines = vec![line(0, &self.name, room, self.speeds, each)];
        for vdev in self.vdevs.iter().filter(|_| verbose) {
            lines.push(line(1, &vdev.name, none(), vdev.speeds, String::new()));
            for device in &vdev.devices {
                let name = device.path.as_deref().unwrap_or(&device.member);
                lines.push(line(2, name, none(), device.speeds, String::new()));
            }
        }
        lines
    }
}

/// Bytes that were written to members, whatever for.
fn written(of: &WrittenStatus) -> u64 {
    of.client + of.moved + of.summaries + of.pages + of.parity
}

/// `brindle pool iostat`.
pub(super) fn iostat(args: &PoolIostat) -> Result<(), Failure> {
    let asked = Looks::of(&args.words)?;
    let folder = runtime::folder(args.runtime.folder())?;
    let interval = asked.interval.unwrap_or(Duration::from_secs(1));
    // As zpool's: without an interval there is one report, with one they go on.
    let count = if args.json || asked.interval.is_none() { Some(1) } else { asked.count };
    let mut before = (look(&folder, asked.pool.as_deref())?, Instant::now());
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        std::thread::sleep(interval);
        let now = (look(&folder, asked.pool.as_deref())?, Instant::now());
        let seconds = now.1.duration_since(before.1).as_secs_f64();
        let of = |status: &PoolStatus| {
            let earlier = before.0.iter().find(|one| one.pool.uuid == status.pool.uuid);
            PoolSpeeds::of(earlier, status, seconds)
        };
        let all: Vec<PoolSpeeds> = now.0.iter().map(of).collect();
        if args.json {
            return report::print_json(&all);
        }
        report::print(&text(&all, args.verbose))?;
        (before, done) = (now, done + 1);
    }
    Ok(())
}

fn look(folder: &Path, pool: Option<&str>) -> Result<Vec<PoolStatus>, Failure> {
    match pool {
        Some(name) => Ok(vec![served_or(folder, name, "serve it")?]),
        None => Ok(all(folder)),
    }
}

fn text(all: &[PoolSpeeds], verbose: bool) -> String {
    if all.is_empty() {
        return "no pool is served\n".to_owned();
    }
    let head = ["POOL", "ALLOC", "FREE", "READS/S", "WRITES/S", "READ/S", "WRITTEN/S", "WRITTEN FOR EACH"];
    let head = head.map(str::to_owned).to_vec();
    let lines: Vec<Vec<String>> =
        std::iter::once(head).chain(all.iter().flat_map(|one| one.lines(verbose))).collect();
    columns(&lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_a_pool_seconds_and_a_count() {
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            Looks::of(&words)
        };
        let asked = |pool: Option<&str>, interval: Option<f64>, count| Looks {
            pool: pool.map(str::to_owned),
            interval: interval.map(Duration::from_secs_f64),
            count,
        };
        for (words, wanted) in [
            ("", asked(None, None, None)),
            ("tank", asked(Some("tank"), None, None)),
            ("5", asked(None, Some(5.0), None)),
            ("tank 0.5 3", asked(Some("tank"), Some(0.5), Some(3))),
        ] {
            assert_eq!(of(words).unwrap(), wanted, "{words}");
        }
        for wrong in ["tank pond", "0", "-1", "tank 5 0", "tank 5 x", "5 1 2", "tank 1e9"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn speeds_are_of_the_time_between() {
        let status = |reads: u64, client: u64| -> PoolStatus {
            let device = |member: &str, reads: u64| {
                json!({"member": member, "kind": "mirror", "path": format!("/dev/{member}"), "state": "online",
                    "io": {"reads": reads, "bytes_read": reads * 4096}})
            };
            serde_json::from_value(json!({"name": "tank", "pool": {"uuid": "1", "capacity": 8192, "stored": 4096,
                "written": {"client": client, "parity": client}, "devices": [device("0.0", reads), device("0.1", 2 * reads)]}}))
            .unwrap()
        };
        let speeds = PoolSpeeds::of(Some(&status(10, 100)), &status(30, 300), 2.0);
        assert_eq!((speeds.speeds.reads, speeds.speeds.bytes_read), (30.0, 30.0 * 4096.0));
        assert_eq!(speeds.vdevs[0].devices[1].speeds.reads, 20.0);
        assert_eq!(speeds.written_for_each, Some(2.0));
        let text = text(&[speeds], true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].starts_with("  mirror-0") && lines[4].starts_with("    /dev/0.1"), "{text}");
        // A server that was started anew has smaller counts.
        assert_eq!(PoolSpeeds::of(Some(&status(30, 300)), &status(10, 100), 1.0).speeds.reads, 30.0);
    }
}
