//! Arrays whose redundancy was not compared for long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::changes::Happened;
use super::state::Seen;

/// The time after which an array that stays so is reported again.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);
const DAY: u64 = 24 * 60 * 60;

/// The arrays that were reported.
#[derive(Default)]
pub(super) struct Overdue {
    /// Days without a check; 0 for any number.
    days: u32,
    reported: BTreeMap<String, Instant>,
}

impl Overdue {
    pub(super) fn after(days: u32) -> Self {
        Self { days, ..Self::default() }
    }

    /// Events of arrays that are overdue at this time, in seconds since 1970: once a day of each.
    pub(super) fn turn(&mut self, all: &[Seen], now: Instant, seconds: u64) -> Vec<Happened> {
        let days = |seen: &Seen| {
            let passed = seconds.saturating_sub(seen.compared?) / DAY;
            (self.days > 0 && passed >= u64::from(self.days)).then_some(passed)
        };
        let late: Vec<(&Seen, u64)> = all.iter().filter_map(|seen| Some((seen, days(seen)?))).collect();
        self.reported.retain(|name, _| late.iter().any(|(seen, _)| seen.name == *name));
        let mut events = Vec::new();
        for (seen, passed) in late {
            let last = self.reported.get(&seen.name);
            if last.is_none_or(|last| now.duration_since(*last) >= AGAIN) {
                self.reported.insert(seen.name.clone(), now);
                let what = if seen.is_pool { "it was scrubbed" } else { "its redundancy was compared" };
                let about = Some(format!("{what} last {passed} days ago"));
                events.push(Happened { about, ..Happened::new("ScrubOverdue", &seen.name) });
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(report: serde_json::Value) -> Seen {
        Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap()
    }

    #[test]
    fn a_pool_that_was_not_scrubbed_for_long_is_overdue() {
        let pool = |scrubbed: Option<u64>| {
            let pool = serde_json::json!({"uuid": "", "created": DAY, "scrubbed": scrubbed, "devices": []});
            seen(serde_json::json!({"name": "tank", "pool": pool}))
        };
        let told = |scrubbed: Option<u64>, day: u64| {
            let events = Overdue::after(30).turn(&[pool(scrubbed)], Instant::now(), day * DAY);
            events.into_iter().filter_map(|event| event.about).next()
        };
        assert_eq!(told(None, 30), None);
        assert_eq!(told(None, 31).as_deref(), Some("it was scrubbed last 30 days ago"));
        assert_eq!((told(Some(5 * DAY), 34), told(Some(5 * DAY), 35).is_some()), (None, true));
    }

    #[test]
    fn an_array_that_is_overdue_is_reported_daily_until_it_is_compared() {
        let report = |at: u64| {
            let events = serde_json::json!([{"kind": "check-ended", "array": null, "at": at}]);
            let array = serde_json::json!({"raid_devices": 2, "level": "raid1", "created": 0, "state": [], "devices": []});
            seen(serde_json::json!({"name": "data", "events": events, "array": array}))
        };
        let (mut overdue, start) = (Overdue::after(30), Instant::now());
        let mut count = |seen: Seen, day: u64| {
            overdue.turn(&[seen], start + Duration::from_secs(day * DAY), day * DAY).len()
        };
        assert_eq!([count(report(0), 29), count(report(0), 30), count(report(0), 30)], [0, 1, 0]);
        assert_eq!(
            [count(report(0), 31), count(report(31 * DAY), 32), count(report(31 * DAY), 61)],
            [1, 0, 1]
        );
        assert!(Overdue::after(0).turn(&[report(0)], start, 999 * DAY).is_empty());
        let striped = serde_json::json!({"name": "x", "array":
            {"raid_devices": 2, "level": "raid0", "created": 0, "state": [], "devices": []}});
        assert_eq!(seen(striped).compared, None, "there is nothing to compare");
    }
}
