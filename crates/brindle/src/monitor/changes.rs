//! Events with mdadm's names, out of two looks at an array (mdadm(8), MONITOR MODE).

use super::state::{Seen, Use};

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
}

impl Happened {
    pub(super) fn new(event: &str, array: &str) -> Self {
        Self { event: event.to_owned(), array: array.to_owned(), device: None, about: None }
    }

    fn of(event: &str, seen: &Seen, device: &str) -> Self {
        let about = seen.drives.get(device).cloned();
        Self { device: Some(device.to_owned()), about, ..Self::new(event, &seen.name) }
    }

    /// Events that are mailed: those that mdadm mails, and the findings of a check.
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
            _ => {}
        }
    }
    if now.is_degraded() && !before.is_degraded() && !all.iter().any(|event| event.event == "Fail") {
        all.push(Happened::new("DegradedArray", &now.name));
    }
    all.extend(progress(before, now, increment));
    if let Some(count) = now.mismatches.filter(|count| *count > 0)
        && before.process.is_some()
        && now.process.is_none()
        && before.process.as_ref().is_some_and(|process| process.action == "check")
    {
        let about = Some(format!("{count} sectors disagree"));
        all.push(Happened { about, ..Happened::new("MismatchesFound", &now.name) });
    }
    all
}

fn first_look(now: &Seen) -> Vec<Happened> {
    let mut all = vec![Happened::new("NewArray", &now.name)];
    if now.is_degraded() {
        all.push(Happened::new("DegradedArray", &now.name));
    }
    if now.broken {
        all.push(Happened::new("ArrayBroken", &now.name));
    }
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
        let (drives, name) = (BTreeMap::new(), "data".to_owned());
        Seen {
            name,
            wanted: 2,
            active,
            devices,
            drives,
            process: None,
            mismatches: None,
            broken: false,
            compared: None,
            corrected: BTreeMap::new(),
            lost: None,
        }
    }

    fn names(before: Option<&Seen>, now: &Seen) -> Vec<String> {
        changes(before, now, 20).into_iter().map(|event| event.event).collect()
    }

    #[test]
    fn a_member_fails_and_a_spare_takes_its_place() {
        let whole = seen(&[("a", Use::Active), ("b", Use::Active), ("c", Use::Spare)]);
        assert_eq!(names(None, &whole), ["NewArray"]);
        assert!(names(Some(&whole), &whole).is_empty());
        let failed = seen(&[("a", Use::Active), ("b", Use::Failed), ("c", Use::Spare)]);
        assert_eq!(names(Some(&whole), &failed), ["Fail"]);
        assert_eq!(names(None, &failed), ["NewArray", "DegradedArray"]);
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
}
