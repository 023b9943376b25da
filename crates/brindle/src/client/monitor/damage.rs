//! Members that give wrong blocks or can't read them, and blocks of pools that are lost: told at once, then once an hour as long as there are
//! more of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::changes::Happened;
use super::state::Seen;

/// The time between two events of one device, or of one pool.
const AGAIN: Duration = Duration::from_secs(60 * 60);

/// The last event of a device, or of a pool.
#[derive(Clone, Copy)]
struct Last {
    at: Instant,
    count: u64,
}

/// Damage that was told.
#[derive(Default)]
pub(super) struct Damage {
    members: BTreeMap<String, Last>,
    lost: Option<Last>,
}

impl Damage {
    /// Events of what there is more of than was told.
    pub(super) fn turn(&mut self, seen: &Seen, now: Instant) -> Vec<Happened> {
        let mut events = Vec::new();
        self.members.retain(|device, _| seen.corrected.contains_key(device));
        for (device, &count) in &seen.corrected {
            let last = self.members.get(device).copied();
            if let Some(more) = more(last, count, now) {
                self.members.insert(device.clone(), Last { at: now, count });
                let about = format!("{more} blocks were wrong or could not be read; others made up for them");
                let drive = seen.drives.get(device).map(|drive| format!("{drive}: "));
                let about = Some(drive.unwrap_or_default() + &about);
                let device = Some(device.clone());
                events.push(Happened { device, about, ..Happened::new("BlocksCorrected", &seen.name) });
            }
        }
        let Some(lost) = &seen.lost else {
            self.lost = None;
            return events;
        };
        if more(self.lost, lost.count, now).is_some() {
            self.lost = Some(Last { at: now, count: lost.count });
            let about = Some(lost.places.clone());
            events.push(Happened { about, ..Happened::new("BlocksLost", &seen.name) });
        }
        events
    }
}

/// As many more as are to be told now. A count that is smaller than before is that of another run.
fn more(last: Option<Last>, count: u64, now: Instant) -> Option<u64> {
    match last {
        None => Some(count),
        Some(last) if now.duration_since(last.at) < AGAIN || count == last.count => None,
        Some(last) => Some(count.checked_sub(last.count).unwrap_or(count)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(wrong: u64, errors: u64, lost: &[u64]) -> Seen {
        let range = |block: &u64| json!({"volume": "tank/v", "offset": block * 4096, "length": 4096});
        let report = json!({"name": "tank", "pool": {
            "state": ["online"], "blocks_lost": lost.len(), "damaged": lost.iter().map(range).collect::<Vec<_>>(), "damaged_beyond": 0,
            "devices": [{"path": "a", "state": "online", "wrong": wrong, "read_errors": errors}]}});
        Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap()
    }

    #[test]
    fn a_member_that_rots_is_told_at_once_and_then_hourly() {
        let (mut damage, start) = (Damage::default(), Instant::now());
        let mut told = |seen: &Seen, minutes: u64| -> Vec<String> {
            let events = damage.turn(seen, start + Duration::from_secs(60 * minutes));
            let of = |one: Happened| {
                format!("{} {} {}", one.event, one.device.unwrap_or_default(), one.about.unwrap_or_default())
            };
            events.into_iter().map(of).collect()
        };
        assert!(told(&pool(0, 0, &[]), 0).is_empty());
        let first = told(&pool(3, 1, &[]), 1);
        assert!(first.len() == 1 && first[0].starts_with("BlocksCorrected a 3 blocks"), "{first:?}");
        assert!(told(&pool(900, 40, &[]), 2).is_empty());
        assert!(told(&pool(903, 40, &[]), 61)[0].contains(" 900 blocks"));
        assert!(told(&pool(903, 40, &[]), 200).is_empty(), "nothing new");
        assert!(told(&pool(903, 0, &[]), 300).is_empty(), "long ago");
        let lost = told(&pool(903, 0, &[2, 5]), 400);
        assert_eq!(
            lost,
            ["BlocksLost  tank/v: 4096 bytes from byte 8192 on; tank/v: 4096 bytes from byte 20480 on"]
        );
        assert!(told(&pool(903, 0, &[2, 5, 6]), 401).is_empty());
        assert_eq!(told(&pool(903, 0, &[2, 5, 6]), 461).len(), 1);
    }

    #[test]
    fn read_errors_of_an_arrays_member_are_told() {
        let report = json!({"name": "data", "array": {"raid_devices": 1, "state": ["clean"], "devices": [
            {"path": "a", "state": "in-sync", "read_errors": 2, "io": {"corrected": 3}, "drive": {"model": "M", "serial": "S"}}]}});
        let events = Damage::default()
            .turn(&Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap(), Instant::now());
        let [event] = &events[..] else { panic!("{events:?}") };
        assert!(event.is_alert() && event.about.as_ref().unwrap().starts_with("M, S: 3 blocks"), "{event:?}");
    }
}
