//! Rates of the time between two looks at a server, and the last minutes of them.

use std::collections::VecDeque;

use brindle_host::status::{IoStatus, Report};
use serde::Serialize;

/// Looks that are kept: of five minutes, at one a second.
const KEPT: usize = 300;

/// Requests so far: to a member, or of all clients of something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    requests: u64,
    read: u64,
    written: u64,
}

impl Counts {
    fn of_io(io: &IoStatus) -> Self {
        Self { requests: io.reads + io.writes, read: io.bytes_read, written: io.bytes_written }
    }

    fn of(report: &Report) -> Option<Self> {
        match report {
            Report::Array(of) => {
                Some(Self { requests: of.requests, read: of.bytes_read, written: of.bytes_written })
            }
            Report::Pool(of) => {
                Some(Self { requests: of.requests, read: of.bytes_read, written: of.bytes_written })
            }
            Report::Absent(_) | Report::Other(_) => None,
        }
    }

    /// Each a second; `None` if it began anew in between.
    fn since(self, before: Self, seconds: f64) -> Option<Rates> {
        let each = |now: u64, before: u64| Some((now.checked_sub(before)? as f64 / seconds).round());
        Some(Rates {
            requests: each(self.requests, before.requests)?,
            read: each(self.read, before.read)?,
            written: each(self.written, before.written)?,
        })
    }
}

/// Each a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) requests: f64,
    /// Bytes.
    pub(crate) read: f64,
    /// Bytes.
    pub(crate) written: f64,
}

/// A member in the time between the last two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct MemberRates {
    /// As it was named.
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    /// Microseconds below which half of its reads were answered, and 99 of 100.
    pub(crate) read_latency: Option<[u64; 2]>,
    /// The same of writes.
    pub(crate) write_latency: Option<[u64; 2]>,
}

/// The last minutes of something that is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    before: Option<(f64, Counts)>,
    members: Vec<(String, IoStatus)>,
    points: VecDeque<(f64, Rates)>,
    latest: Vec<MemberRates>,
}

/// The same as lists, as charts take them: seconds since 1970, then each a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) at: Vec<f64>,
    pub(crate) requests: Vec<f64>,
    pub(crate) read: Vec<f64>,
    pub(crate) written: Vec<f64>,
    /// Of the time between the last two looks.
    pub(crate) members: Vec<MemberRates>,
}

impl History {
    /// Notes a report that came at `at`, seconds since 1970.
    pub(crate) fn note(&mut self, at: f64, report: &Report) {
        let Some(counts) = Counts::of(report) else { return };
        let members = members(report);
        if let Some((then, before)) = self.before {
            let seconds = at - then;
            // After a pause without pages rates would be those of the whole pause.
            let rates = counts.since(before, seconds).filter(|_| (0.2..30.0).contains(&seconds));
            if let Some(rates) = rates {
                self.points.push_back((at, rates));
                self.latest = self.members_since(&members, seconds);
            }
        }
        while self.points.len() > KEPT {
            self.points.pop_front();
        }
        self.before = Some((at, counts));
        self.members = members;
    }

    fn members_since(&self, now: &[(String, IoStatus)], seconds: f64) -> Vec<MemberRates> {
        let of = |(path, io): &(String, IoStatus)| {
            let (_, before) = self.members.iter().find(|(name, _)| name == path)?;
            Some(MemberRates {
                path: path.clone(),
                rates: Counts::of_io(io).since(Counts::of_io(before), seconds)?,
                read_latency: latency(&io.read_latency, &before.read_latency),
                write_latency: latency(&io.write_latency, &before.write_latency),
            })
        };
        now.iter().filter_map(of).collect()
    }

    /// The mean of the last minute; `None` if nothing is known of it.
    pub(crate) fn last_minute(&self) -> Option<Rates> {
        let (last, _) = self.points.back()?;
        let near: Vec<Rates> =
            self.points.iter().filter(|(at, _)| last - at < 60.0).map(|(_, rates)| *rates).collect();
        let mean = |of: fn(&Rates) -> f64| (near.iter().map(of).sum::<f64>() / near.len() as f64).round();
        Some(Rates {
            requests: mean(|rates| rates.requests),
            read: mean(|rates| rates.read),
            written: mean(|rates| rates.written),
        })
    }

    pub(crate) fn series(&self) -> Series {
        let list = |of: fn(&Rates) -> f64| self.points.iter().map(|(_, rates)| of(rates)).collect();
        Series {
            at: self.points.iter().map(|(at, _)| at.round()).collect(),
            requests: list(|rates| rates.requests),
            read: list(|rates| rates.read),
            written: list(|rates| rates.written),
            members: self.latest.clone(),
        }
    }
}

fn members(report: &Report) -> Vec<(String, IoStatus)> {
    match report {
        Report::Array(of) => of.devices().map(|device| (device.path.clone(), device.io.clone())).collect(),
        Report::Pool(of) => {
            let devices = of.pool.devices.iter();
            devices.filter_map(|device| Some((device.path.clone()?, device.io.clone()?))).collect()
        }
        Report::Absent(_) | Report::Other(_) => Vec::new(),
    }
}

/// Microseconds below which half of the answers came between two counts by powers of two, and 99 of 100.
fn latency(now: &[u64], before: &[u64]) -> Option<[u64; 2]> {
    let each: Vec<u64> = now
        .iter()
        .enumerate()
        .map(|(at, now)| now.saturating_sub(before.get(at).copied().unwrap_or_default()))
        .collect();
    let all: u64 = each.iter().sum();
    let below = |percent: u64| {
        let mut seen = 0;
        let at = each.iter().position(|count| {
            seen += count;
            seen * 100 >= all * percent
        });
        1_u64 << at.unwrap_or_default().min(40)
    };
    (all > 0).then(|| [below(50), below(99)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(requests: u64, io: &serde_json::Value) -> Report {
        let array = json!({"devices": [{"path": "a", "io": io}]});
        serde_json::from_value(
            json!({"name": "d", "array": array, "requests": requests, "bytes_read": requests * 4096}),
        )
        .unwrap()
    }

    #[test]
    fn rates_are_those_of_the_time_between_looks() {
        let mut history = History::default();
        let io = |reads: u64| json!({"reads": reads, "read_latency": [0, 0, reads, 0], "write_latency": []});
        history.note(100.0, &report(0, &io(0)));
        assert_eq!(history.last_minute(), None);
        history.note(101.0, &report(50, &io(100)));
        history.note(102.0, &report(150, &io(300)));
        assert_eq!(history.last_minute(), Some(Rates { requests: 75.0, read: 307_200.0, written: 0.0 }));
        let series = history.series();
        assert_eq!((series.at, series.requests), (vec![101.0, 102.0], vec![50.0, 100.0]));
        assert_eq!(series.members[0].read_latency, Some([4, 4]));
        assert_eq!((series.members[0].rates.requests, series.members[0].write_latency), (200.0, None));
        // A server that began anew counts from 0, and after a pause nothing is told of it.
        history.note(103.0, &report(10, &io(0)));
        history.note(1000.0, &report(20, &io(0)));
        assert_eq!(history.series().requests.len(), 2);
        (0..1000)
            .for_each(|at| history.note(1000.0 + f64::from(at), &report(20 + u64::from(at as u32), &io(0))));
        assert_eq!(history.series().requests.len(), KEPT);
    }
}
