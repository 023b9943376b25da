//! Arrays as they were at the last look, and what was told of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Looked;
use super::absent::Absent;
use super::changes::{Happened, changes};
use super::conf::MdadmArray;
use super::damage::Damage;
use super::kept::Kept;
use super::listed::Listed;
use super::state::{Seen, Use};
use crate::flags::cli::Monitor;

/// The time after which what needs attention and stays so is told again.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// All that is watched.
pub(super) struct Watched {
    arrays: BTreeMap<String, Array>,
    /// Those that are not there, though they should be, and when that was told.
    absent: BTreeMap<String, (Absent, Option<Instant>)>,
    /// Those that have gone, and when that was told.
    gone: Vec<(Seen, Instant)>,
    listed: Listed,
    kept: Kept,
}

/// An array that is watched.
struct Array {
    seen: Seen,
    /// When the array was last reported as degraded.
    reported: Option<Instant>,
    damage: Damage,
}

impl Watched {
    /// Nothing yet, but for disks that are on record.
    pub(super) fn new() -> Self {
        Self::of(Kept::usual())
    }

    fn of(kept: Kept) -> Self {
        let (arrays, absent) = (BTreeMap::new(), BTreeMap::new());
        Self { arrays, absent, gone: Vec::new(), listed: Listed::default(), kept }
    }

    /// Has all that holds be told again.
    pub(super) fn forget_what_was_told(&mut self) {
        for array in self.arrays.values_mut() {
            (array.reported, array.damage) = Default::default();
        }
        self.absent.values_mut().for_each(|(_, told)| *told = None);
        self.gone.clear();
    }

    /// The events between the last look and this one: those that need attention first.
    pub(super) fn turn(
        &mut self,
        looked: Looked,
        lines: &[MdadmArray],
        args: &Monitor,
        now: Instant,
    ) -> Vec<Happened> {
        let Looked { arrays: mut all, mut absent, .. } = looked;
        for name in self.listed.lacking(lines, &all, !args.oneshot) {
            if !absent.iter().any(|one| one.is_called(&name)) {
                absent.push(Absent::listed(&name));
            }
        }
        for seen in &mut all {
            seen.wanted_spares = self.listed.spares(lines, seen);
            self.kept.note(seen);
        }
        let mut happened = self.moved(&all);
        self.gone(&all, &absent, now, &mut happened);
        self.miss(absent, now, &mut happened);
        for seen in all {
            happened.append(&mut self.array(seen, args, now));
        }
        self.absent.retain(|_, (one, _)| !one.is_over);
        happened.sort_by_key(|event| event.event == "NewArray");
        happened
    }

    /// Arrays that were there at the last look.
    fn gone(&mut self, all: &[Seen], absent: &[Absent], now: Instant, happened: &mut Vec<Happened>) {
        let gone = |name: &&String| !all.iter().any(|seen| seen.name == **name);
        for name in self.arrays.keys().filter(gone).cloned().collect::<Vec<_>>() {
            let Some(Array { seen, .. }) = self.arrays.remove(&name) else { continue };
            let known = absent.iter().find(|one| one.is(&seen));
            let about = known.map(|known| known.why.clone());
            happened.push(Happened { about, ..Happened::new("DeviceDisappeared", &name) });
            self.gone.push((seen, now));
        }
    }

    /// Those that should be there: told once, and each day.
    fn miss(&mut self, absent: Vec<Absent>, now: Instant, happened: &mut Vec<Happened>) {
        let mut told = std::mem::take(&mut self.absent);
        for one in absent {
            let gone = self.gone.iter().find(|(seen, _)| one.is(seen)).map(|(_, at)| *at);
            let mut last = told.remove(&one.name).map_or(gone, |(_, last)| last);
            if last.is_none_or(|last| now.duration_since(last) >= AGAIN) {
                let about = Some(one.why.clone());
                happened.push(Happened { about, ..Happened::new("DeviceDisappeared", &one.name) });
                last = Some(now);
            }
            self.absent.insert(one.name.clone(), (one, last));
        }
        // The rest is there again, which is told with the array.
        told.retain(|_, (_, last)| last.is_some());
        self.absent.extend(told.into_iter().map(|(name, (one, last))| (name, (one.over(), last))));
    }

    /// Spares that have gone from one array to another.
    fn moved(&self, all: &[Seen]) -> Vec<Happened> {
        let mut moved = Vec::new();
        for to in all {
            let Some(before) = self.arrays.get(&to.name) else { continue };
            for device in to.devices.keys().filter(|device| !before.seen.devices.contains_key(*device)) {
                let had = |from: &&Array| from.seen.devices.get(device) == Some(&Use::Spare);
                let has = |from: &&Array| {
                    let is_it =
                        |seen: &Seen| seen.name == from.seen.name && seen.devices.contains_key(device);
                    all.iter().any(is_it)
                };
                let mut others = self.arrays.values().filter(|from| from.seen.name != to.name);
                if let Some(from) = others.find(|from| had(from) && !has(from)) {
                    let (about, from) =
                        (Some(format!("the spare is {device}")), Some(from.seen.name.clone()));
                    moved.push(Happened { device: from, about, ..Happened::new("MoveSpare", &to.name) });
                }
            }
        }
        moved
    }

    /// The events of an array that is there.
    fn array(&mut self, seen: Seen, args: &Monitor, now: Instant) -> Vec<Happened> {
        let before = self.arrays.remove(&seen.name);
        let mut events = changes(before.as_ref().map(|before| &before.seen), &seen, args.increment);
        let was_missed = self.absent.extract_if(.., |_, (one, _)| one.is(&seen)).count() > 0;
        self.gone.retain(|(gone, _)| gone.name != seen.name);
        if was_missed && let Some(new) = events.iter_mut().find(|event| event.event == "NewArray") {
            new.is_well_again = true;
            new.about = Some("it is there again".to_owned());
        }
        if args.oneshot {
            events.retain(Happened::is_alert);
        }
        if args.test && before.is_none() {
            events.push(Happened::new("TestMessage", &seen.name));
        }
        let (mut reported, mut damage) =
            before.map_or_else(Default::default, |before| (before.reported, before.damage));
        events.extend(damage.turn(&seen, now));
        let says =
            |events: &[Happened]| events.iter().any(|one| matches!(&*one.event, "DegradedArray" | "Fail"));
        if says(&events) {
            reported = Some(now);
        } else if seen.is_degraded() && reported.is_none_or(|reported| now.duration_since(reported) >= AGAIN)
        {
            events.push(Happened::new("DegradedArray", &seen.name));
            reported = Some(now);
        }
        if !seen.is_degraded() {
            reported = None;
        }
        self.arrays.insert(seen.name.clone(), Array { seen, reported, damage });
        events
    }

    /// Events with what is known of their arrays.
    pub(super) fn with_facts(&self, mut events: Vec<Happened>) -> Vec<Happened> {
        for event in &mut events {
            if let Some(array) = self.arrays.get(&event.array) {
                event.facts = self.kept.facts(&array.seen);
            } else if let Some((absent, _)) = self.absent.get(&event.array) {
                event.facts = absent.facts(&self.kept);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::super::state;
    use super::*;
    use crate::flags::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn an_array_that_stays_degraded_is_reported_daily_and_one_that_goes_once() {
        let Command::Monitor(args) = Cli::parse_from(["brindle", "monitor", "--scan"]).command else {
            panic!("monitor")
        };
        let md =
            |active: usize| state::of_mdstat(&format!("md0 : active raid1 a[0]\n 1 blocks [2/{active}]\n"));
        let (mut watched, start) = (Watched::of(Kept::of_nothing()), Instant::now());
        let mut names = |arrays, hours: u64| -> Vec<String> {
            let at = start + Duration::from_secs(hours * 3600);
            let looked = Looked { arrays, absent: Vec::new(), is_answered: true };
            watched.turn(looked, &[], &args, at).into_iter().map(|one| one.event).collect()
        };
        assert_eq!(names(md(1), 0), ["DegradedArray", "NewArray"]);
        assert!(names(md(1), 23).is_empty());
        assert_eq!(names(md(1), 24), ["DegradedArray"]);
        assert!(names(md(1), 47).is_empty());
        assert_eq!(names(md(2), 48), ["SpareActive"], "it is whole again");
        assert_eq!(names(md(1), 49), ["DegradedArray"]);
        assert_eq!(names(Vec::new(), 50), ["DeviceDisappeared"]);
        assert!(names(Vec::new(), 51).is_empty());
    }

    fn args() -> Monitor {
        let Command::Monitor(args) = Cli::parse_from(["brindle", "monitor", "--scan"]).command else {
            panic!("monitor")
        };
        args
    }

    fn array(name: &str, devices: &[(&str, Use)]) -> Seen {
        let devices = devices.iter().map(|(path, usage)| ((*path).to_owned(), *usage)).collect();
        Seen { name: name.to_owned(), devices, ..Seen::default() }
    }

    #[test]
    fn what_is_not_served_is_told_daily_until_it_is() {
        let (mut watched, start) = (Watched::of(Kept::of_nothing()), Instant::now());
        let mut turn = |arrays: Vec<Seen>, absent: Vec<Absent>, hours: u64| -> Vec<(String, bool)> {
            let at = start + Duration::from_secs(hours * 3600);
            let looked = Looked { arrays, absent, is_answered: true };
            let happened = watched.turn(looked, &[], &args(), at);
            happened.into_iter().map(|one| (one.event.clone(), one.is_mailed())).collect()
        };
        let absent = || {
            let report = serde_json::json!({"name": "b", "not_served": "it was not found"});
            vec![Absent::of_report(&serde_json::from_value(report).unwrap()).unwrap()]
        };
        let gone = vec![("DeviceDisappeared".to_owned(), true)];
        assert_eq!(turn(Vec::new(), absent(), 0), gone);
        assert!(turn(Vec::new(), absent(), 23).is_empty());
        assert_eq!(turn(Vec::new(), absent(), 24), gone);
        let b = || vec![array("b", &[])];
        assert_eq!(turn(b(), Vec::new(), 25), [("NewArray".to_owned(), true)], "that it is back is mailed");
        // It is told once that it has gone, and again a day later.
        assert_eq!(turn(Vec::new(), absent(), 26), gone);
        assert!(turn(Vec::new(), absent(), 27).is_empty());
        assert_eq!(turn(Vec::new(), absent(), 50), gone);
    }

    #[test]
    fn a_spare_that_moves_is_told_of_the_array_that_gets_it() {
        let mut watched = Watched::of(Kept::of_nothing());
        let mut turn = |arrays: Vec<Seen>| {
            let looked = Looked { arrays, absent: Vec::new(), is_answered: true };
            watched.turn(looked, &[], &args(), Instant::now())
        };
        turn(vec![array("a", &[("x", Use::Spare)]), array("b", &[("y", Use::Active)])]);
        let moved = turn(vec![array("a", &[]), array("b", &[("y", Use::Active), ("x", Use::Recovering)])]);
        let [moved] = &moved[..] else { panic!("{moved:?}") };
        assert_eq!((&*moved.event, &*moved.array, moved.device.as_deref()), ("MoveSpare", "b", Some("a")));
    }

    #[test]
    fn new_receivers_are_told_what_holds() {
        let mut watched = Watched::of(Kept::of_nothing());
        let degraded = || vec![Seen { wanted: 2, active: 1, ..array("a", &[]) }];
        let turn = |watched: &mut Watched| -> Vec<String> {
            let looked = Looked { arrays: degraded(), absent: Vec::new(), is_answered: true };
            let happened = watched.turn(looked, &[], &args(), Instant::now());
            happened.into_iter().map(|one| one.event).collect()
        };
        assert_eq!(turn(&mut watched), ["DegradedArray", "NewArray"]);
        assert!(turn(&mut watched).is_empty());
        watched.forget_what_was_told();
        assert_eq!(turn(&mut watched), ["DegradedArray"]);
    }
}
