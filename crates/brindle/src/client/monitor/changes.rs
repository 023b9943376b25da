//! Events with mdadm's names, out of two looks at an array (mdadm(8), MONITOR MODE).

use serde::Serialize;

use super::state::{SCRUB, Seen, Use};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    /// mdadm's name for it.
    pub(super) event: String,
    /// The array.
    pub(super) array: String,
    /// The device, if it is about one.
    pub(super) device: Option<String>,
    /// Details beyond the names.
    pub(super) about: Option<String>,
    /// The array as it is.
    pub(super) facts: Facts,
    /// An array that needed attention is well again.
    pub(super) is_well_again: bool,
}

/// An array at the time of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// In words.
    pub(super) state: Vec<String>,
    /// Members that are left, and members that it should have.
    pub(super) members: Option<(usize, usize)>,
    /// Members that may still be lost without loss of data.
    pub(super) redundancy_left: Option<u64>,
    /// Disks that failed or are missing, each with what is known of it.
    pub(super) disks: Vec<String>,
    /// The command to go on with, and why.
    pub(super) next: Option<String>,
}

/// How much attention an event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    Critical,
    Warning,
    Info,
}

/// The name of this host.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl Happened {
    pub(super) fn new(event: &str, array: &str) -> Self {
        Self {
            event: event.to_owned(),
            array: array.to_owned(),
            device: None,
            about: None,
            facts: Facts::default(),
            is_well_again: false,
        }
    }

    pub(super) fn severity(&self) -> Severity {
        match &*self.event {
            "Fail" | "DegradedArray" | "DeviceDisappeared" | "ArrayBroken" | "BlocksLost" => {
                Severity::Critical
            }
            _ if self.is_alert() => Severity::Warning,
            _ => Severity::Info,
        }
    }

    /// Events that are mailed: alerts, and the last word on them.
    pub(super) fn is_mailed(&self) -> bool {
        self.is_alert() || self.is_well_again
    }

    fn of(event: &str, seen: &Seen, device: &str) -> Self {
        let about = seen.drives.get(device).cloned();
        Self { device: Some(device.to_owned()), about, ..Self::new(event, &seen.name) }
    }

    /// Events that need attention: those that mdadm mails, and the findings of a check.
    pub(super) fn is_alert(&self) -> bool {
        let alerts = [
            "Fail",
            "FailSpare",
            "DegradedArray",
            "SparesMissing",
            "TestMessage",
            "DeviceDisappeared",
            "MismatchesFound",
            "ArrayBroken",
            "DriveFailing",
            "ScrubOverdue",
            "BlocksCorrected",
            "BlocksLost",
        ];
        alerts.contains(&&*self.event)
    }
}

/// Differences between two looks; `before` is none of an array that was not there. `increment` is the share of a
/// rebuild, in percent, at which it is reported.
pub(super) fn changes(before: Option<&Seen>, now: &Seen, increment: u8) -> Vec<Happened> {
    let Some(before) = before else { return first_look(now) };
    let mut all = Vec::new();
    if now.broken && !before.broken {
        all.push(Happened::new("ArrayBroken", &now.name));
    }
    for (device, usage) in &now.devices {
        match (before.devices.get(device), usage) {
            (Some(Use::Spare | Use::Recovering), Use::Failed) => {
                all.push(Happened::of("FailSpare", now, device));
            }
            (Some(Use::Active), Use::Failed) => all.push(Happened::of("Fail", now, device)),
            (Some(Use::Spare | Use::Recovering), Use::Active) => {
                all.push(Happened::of("SpareActive", now, device));
            }
            // It has come and is whole between two looks.
            (None, Use::Active) if before.is_degraded() => {
                all.push(Happened::of("SpareActive", now, device));
            }
            _ => {}
        }
    }
    all.extend(missed_failures(before, now, &all));
    if now.lacks_spares() && !before.lacks_spares() {
        all.push(spares_missing(now));
    }
    if now.is_degraded() && !before.is_degraded() && !all.iter().any(|event| event.event == "Fail") {
        all.push(Happened::new("DegradedArray", &now.name));
    }
    all.extend(progress(before, now, increment));
    if let Some(count) = now.mismatches.filter(|count| *count > 0)
        && before.process.is_some()
        && now.process.is_none()
        && before.process.as_ref().is_some_and(|process| ["check", SCRUB].contains(&&*process.action))
    {
        all.push(mismatches(now, count));
    }
    in_order(&mut all);
    let was_ill = before.is_degraded() || all.iter().any(|event| event.event == "Fail");
    if was_ill && !now.is_degraded() {
        last_word(&mut all, now);
    }
    all
}

/// Members that have failed between two looks, and are in use again or gone.
fn missed_failures(before: &Seen, now: &Seen, known: &[Happened]) -> Vec<Happened> {
    let seen = |seen: &Seen| seen.failures.iter().map(|(number, _)| *number).max().unwrap_or_default();
    let last = if before.pid == now.pid { seen(before) } else { 0 };
    let mut missed: Vec<Happened> = Vec::new();
    for (_, device) in now.failures.iter().filter(|(number, _)| *number > last) {
        let is_it =
            |event: &Happened| event.device.as_ref() == Some(device) && event.event.starts_with("Fail");
        if !known.iter().chain(&missed).any(is_it) {
            missed.push(Happened::of("Fail", now, device));
        }
    }
    missed
}

/// Failures come before all that was done about them.
fn in_order(all: &mut [Happened]) {
    all.sort_by_key(|event| match &*event.event {
        "ArrayBroken" => 0,
        "Fail" | "FailSpare" => 1,
        "DegradedArray" | "SparesMissing" => 2,
        "RebuildStarted" => 3,
        "SpareActive" => 5,
        "RebuildFinished" => 6,
        "MismatchesFound" => 7,
        _ => 4,
    });
}

/// Has whoever was told of a failure be told that the array is whole again.
fn last_word(all: &mut Vec<Happened>, now: &Seen) {
    let good = |event: &Happened| ["SpareActive", "RebuildFinished"].contains(&&*event.event);
    if !all.iter().any(good) {
        all.push(Happened::new("SpareActive", &now.name));
    }
    if let Some(last) = all.iter_mut().rfind(|event| good(event)) {
        last.is_well_again = true;
        let before = last.about.take().map_or_else(String::new, |about| format!("{about}; "));
        last.about = Some(format!("{before}the array is whole again"));
    }
}

fn mismatches(now: &Seen, count: u64) -> Happened {
    let about = match now.is_pool {
        true => format!("{count} blocks are wrong still, as its scrub found"),
        false => format!("{count} sectors disagree"),
    };
    Happened { about: Some(about), ..Happened::new("MismatchesFound", &now.name) }
}

fn spares_missing(now: &Seen) -> Happened {
    let about = Some(format!("it has {} spares, and should have {}", now.spares(), now.wanted_spares));
    Happened { about, ..Happened::new("SparesMissing", &now.name) }
}

fn first_look(now: &Seen) -> Vec<Happened> {
    let mut all = Vec::new();
    if now.broken {
        all.push(Happened::new("ArrayBroken", &now.name));
    }
    if now.is_degraded() {
        all.push(Happened::new("DegradedArray", &now.name));
    } else {
        // A spare has taken its place before anybody looked.
        let failed = now.devices.iter().filter(|(_, usage)| **usage == Use::Failed);
        all.extend(failed.map(|(device, _)| Happened::of("Fail", now, device)));
    }
    if now.lacks_spares() {
        all.push(spares_missing(now));
    }
    if let Some(count) = now.mismatches.filter(|count| *count > 0 && now.has_checked) {
        all.push(mismatches(now, count));
    }
    all.push(Happened::new("NewArray", &now.name));
    all
}

fn progress(before: &Seen, now: &Seen, increment: u8) -> Vec<Happened> {
    let about = |action: &str| Some(action.to_owned());
    match (&before.process, &now.process) {
        (None, Some(process)) => {
            vec![Happened { about: about(&process.action), ..Happened::new("RebuildStarted", &now.name) }]
        }
        (Some(process), None) => {
            vec![Happened { about: about(&process.action), ..Happened::new("RebuildFinished", &now.name) }]
        }
        (Some(was), Some(is)) => {
            let step = |percent: f64| (percent / f64::from(increment.max(1))) as u64;
            let reached = step(is.percent) * u64::from(increment.max(1));
            if step(is.percent) > step(was.percent) && reached < 100 {
                let event = format!("Rebuild{reached:02}");
                return vec![Happened { about: about(&is.action), ..Happened::new(&event, &now.name) }];
            }
            Vec::new()
        }
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::state::Process;
    use super::*;

    fn seen(devices: &[(&str, Use)]) -> Seen {
        let devices: BTreeMap<_, _> =
            devices.iter().map(|(name, usage)| ((*name).to_owned(), *usage)).collect();
        let active = devices.values().filter(|usage| **usage == Use::Active).count();
        Seen { name: "data".to_owned(), wanted: 2, active, devices, ..Seen::default() }
    }

    fn names(before: Option<&Seen>, now: &Seen) -> Vec<String> {
        changes(before, now, 20).into_iter().map(|event| event.event).collect()
    }

    #[test]
    fn a_scrub_of_a_pool_is_told_with_what_it_left() {
        let tank = |scan: serde_json::Value| {
            let device = serde_json::json!({"member": "0.0", "path": "/dev/sda", "state": "online"});
            let report =
                serde_json::json!({"name": "tank", "pool": {"uuid": "", "scan": scan, "devices": [device]}});
            Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap()
        };
        let running = |done: u64| {
            tank(serde_json::json!({"scan": "scrub", "state": "running", "action": "repair", "done": done,
                "total": 100, "paused": false, "speed": null, "eta": null}))
        };
        let ended = |errors: u64| {
            tank(
                serde_json::json!({"scan": "scrub", "state": "finished", "action": "repair", "began": 1, "at": 2,
                "errors": errors, "lost": errors, "healed": 0, "unverified": 0, "stopped": null}),
            )
        };
        assert_eq!(names(Some(&tank(serde_json::Value::Null)), &running(1)), ["RebuildStarted"]);
        assert_eq!(names(Some(&running(1)), &running(45)), ["Rebuild40"]);
        assert_eq!(names(Some(&running(99)), &ended(0)), ["RebuildFinished"]);
        let told = changes(Some(&running(99)), &ended(3), 20);
        assert_eq!(told[0].about.as_deref(), Some("scrub"));
        assert_eq!(told[1].event, "MismatchesFound");
        assert_eq!(told[1].about.as_deref(), Some("3 blocks are wrong still, as its scrub found"));
        assert_eq!(names(None, &ended(3)), ["MismatchesFound", "NewArray"]);
    }

    #[test]
    fn a_member_fails_and_a_spare_takes_its_place() {
        let whole = seen(&[("a", Use::Active), ("b", Use::Active), ("c", Use::Spare)]);
        assert_eq!(names(None, &whole), ["NewArray"]);
        assert!(names(Some(&whole), &whole).is_empty());
        let failed = seen(&[("a", Use::Active), ("b", Use::Failed), ("c", Use::Spare)]);
        assert_eq!(names(Some(&whole), &failed), ["Fail"]);
        assert_eq!(names(None, &failed), ["DegradedArray", "NewArray"]);
        let at = |percent| {
            let mut rebuilt = seen(&[("a", Use::Active), ("b", Use::Failed), ("c", Use::Recovering)]);
            rebuilt.process = Some(Process { action: "recovery".into(), percent });
            rebuilt
        };
        assert_eq!(names(Some(&failed), &at(1.0)), ["RebuildStarted"]);
        assert!(names(Some(&at(1.0)), &at(19.0)).is_empty());
        assert_eq!(names(Some(&at(1.0)), &at(45.0)), ["Rebuild40"]);
        assert!(names(Some(&at(99.0)), &at(100.0)).is_empty());
        let done = seen(&[("a", Use::Active), ("b", Use::Failed), ("c", Use::Active)]);
        assert_eq!(names(Some(&at(99.0)), &done), ["SpareActive", "RebuildFinished"]);
        // All of it between two looks: the failure is not the last word, and that is mailed.
        let after = changes(Some(&whole), &done, 20);
        let mailed: Vec<(&str, bool)> = after.iter().map(|one| (&*one.event, one.is_mailed())).collect();
        assert_eq!(mailed, [("Fail", true), ("SpareActive", true)]);
        assert_eq!(names(None, &done), ["Fail", "NewArray"], "it was told to nobody");
        let back = seen(&[("a", Use::Active), ("d", Use::Active)]);
        let again = changes(Some(&seen(&[("a", Use::Active)])), &back, 20);
        assert_eq!((&*again[0].event, again[0].is_well_again, again.len()), ("SpareActive", true, 1));
        let removed = seen(&[("a", Use::Active)]);
        assert_eq!(names(Some(&whole), &removed), ["DegradedArray"]);
    }

    #[test]
    fn a_check_that_found_something_is_reported_once() {
        let mut during = seen(&[("a", Use::Active), ("b", Use::Active)]);
        during.process = Some(Process { action: "check".into(), percent: 90.0 });
        let mut after = seen(&[("a", Use::Active), ("b", Use::Active)]);
        after.mismatches = Some(8);
        assert_eq!(names(Some(&during), &after), ["RebuildFinished", "MismatchesFound"]);
        assert!(names(Some(&after), &after).is_empty());
    }

    #[test]
    fn a_member_that_failed_and_came_back_between_two_looks_is_told() {
        let whole = seen(&[("a", Use::Active), ("b", Use::Active)]);
        let after = Seen { failures: vec![(3, "b".into()), (5, "b".into())], ..whole.clone() };
        let told = changes(Some(&whole), &after, 20);
        let told: Vec<_> = told.iter().map(|one| (&*one.event, one.device.as_deref())).collect();
        assert_eq!(told, [("Fail", Some("b")), ("SpareActive", None)]);
        assert!(names(Some(&after), &after).is_empty());
        // It is failed still, and told once.
        let failed =
            Seen { failures: after.failures.clone(), ..seen(&[("a", Use::Active), ("b", Use::Failed)]) };
        assert_eq!(names(Some(&whole), &failed), ["Fail"]);
        // Another process counts from 1 again.
        let restarted = Seen { pid: 7, failures: vec![(2, "a".into())], ..whole };
        assert_eq!(names(Some(&after), &restarted), ["Fail", "SpareActive"]);
    }

    #[test]
    fn spares_that_are_missing_are_an_event_when_they_go() {
        let with = |devices: &[(&str, Use)]| Seen { wanted_spares: 1, ..seen(devices) };
        let whole = with(&[("a", Use::Active), ("b", Use::Active), ("c", Use::Spare)]);
        let without = with(&[("a", Use::Active), ("b", Use::Active)]);
        assert_eq!(names(None, &whole), ["NewArray"]);
        assert_eq!(names(None, &without), ["SparesMissing", "NewArray"]);
        assert_eq!(names(Some(&whole), &without), ["SparesMissing"]);
        assert!(names(Some(&without), &without).is_empty());
    }
}
