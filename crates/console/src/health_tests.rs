#![allow(clippy::needless_pass_by_value, reason = "values are made where they are given")]

use serde_json::{Value, json};

use super::*;

fn told(report: Value) -> Item {
    item("srv", &serde_json::from_value(report).unwrap())
}

fn array(state: &[&str], left: Option<u16>, devices: Value, more: Value) -> Value {
    let mut report = json!({
        "name": "data",
        "exported": true,
        "array": {"level": "raid6", "raid_devices": 4, "size": 18_u64 << 40, "state": state, "redundancy_left": left, "metadata": "1.2",
                  "devices": devices, "component_size": 1 << 30}
    });
    more.as_object().unwrap().iter().for_each(|(name, value)| match name.strip_prefix("array.") {
        Some(name) => report["array"][name] = value.clone(),
        None => report[name] = value.clone(),
    });
    report
}

fn devices(third: Value) -> Value {
    let mut all: Vec<Value> =
        (0..3).map(|at| json!({"role": at, "path": format!("/dev/sd{at}"), "state": "in-sync"})).collect();
    all.push(third);
    all.into()
}

fn failed() -> Value {
    let drive = json!({"model": "WDC", "serial": "WD-WX42", "by_id": "ata-WDC", "slot": "Slot 03"});
    devices(
        json!({"role": 3, "path": "/dev/sdc", "state": "failed", "drive": drive, "failure": {"at": 99, "why": "a write failed"}}),
    )
}

#[test]
fn a_degraded_array_says_which_disk_and_what_helps() {
    let item = told(array(&["active", "degraded"], Some(1), failed(), json!({})));
    assert_eq!(
        (&*item.title, &*item.word, item.severity),
        ("RAID 6 of 4 members, 18 TiB", "degraded", Severity::Degraded)
    );
    assert_eq!(item.sentence, "sdc (serial WD-WX42, Slot 03) failed, one more may fail");
    assert_eq!(item.since, Some(99));
    let next = item.next.unwrap();
    assert_eq!(next.command, "brindle add data DEVICE");
    assert!(matches!(next.mend, Mend::Device { least: 1_073_741_824, .. }));
    let item = told(array(&["active", "degraded"], Some(0), failed(), json!({"array.bitmap": {}})));
    assert_eq!((item.severity, &*item.word), (Severity::Critical, "no redundancy"));
    assert!(item.sentence.ends_with("no more may fail"), "{}", item.sentence);
    assert!(matches!(item.next.unwrap().mend, Mend::Order { button: "Take it back", .. }));
}

#[test]
fn worst_stand_first() {
    let well = || devices(json!({"role": 3, "path": "/dev/sd3", "state": "in-sync"}));
    let none = || json!({});
    let of = |state: &[&str], left, devices, more| told(array(state, left, devices, more)).severity;
    let sync = json!({"array.sync": {"action": "check", "percent": 5.0, "paused": false}});
    let paused = json!({"array.sync": {"action": "check", "percent": 5.0, "paused": true}});
    let all = [
        of(&["broken", "degraded"], None, failed(), none()),
        of(&["clean"], Some(2), well(), json!({"stale_for": 3.0})),
        of(&["active", "degraded"], Some(0), failed(), none()),
        of(&["active", "degraded"], Some(1), failed(), none()),
        of(&["clean"], Some(2), well(), paused),
        of(&["clean"], Some(2), well(), sync),
        of(&["clean"], Some(2), well(), none()),
    ];
    let mut sorted = all;
    sorted.sort();
    assert_eq!(all, sorted);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 7);
    let gone = told(
        json!({"name": "x", "kind": "array", "not_served": "it was not found", "next": "brindle assemble --scan"}),
    );
    assert_eq!((gone.severity, &*gone.sentence), (Severity::Down, "It is not served: it was not found"));
    assert_eq!(gone.next.unwrap().command, "brindle assemble --scan");
}

#[test]
fn what_is_to_be_looked_at_in_a_whole_array_is_told() {
    let well = || devices(json!({"role": 3, "path": "/dev/sd3", "state": "in-sync", "read_errors": 2}));
    let item = told(array(&["clean"], Some(2), well(), json!({})));
    assert_eq!((item.severity, &*item.sentence), (Severity::Warning, "sd3: 2 read errors count now"));
    let found = json!({"last_action": {"action": "check", "mismatch_cnt": 8}});
    let fine = devices(json!({"role": 3, "path": "/dev/sd3", "state": "in-sync"}));
    let item = told(array(&["clean"], Some(2), fine, found));
    assert!(item.sentence.contains("8 sectors that disagree"), "{}", item.sentence);
    assert!(matches!(item.next.unwrap().mend, Mend::Order { button: "Repair", .. }));
}

#[test]
fn a_drive_that_smart_calls_failing_has_a_button() {
    let devices = devices(
        json!({"role": 3, "path": "/dev/sdd", "state": "in-sync", "failing": "SMART says that it fails"}),
    );
    let item = told(array(&["clean"], Some(2), devices, json!({})));
    assert_eq!(item.severity, Severity::Warning);
    assert_eq!(item.sentence, "sdd: SMART calls its drive failing: SMART says that it fails");
    let next = item.next.unwrap();
    assert_eq!(next.command, "brindle replace --with DEVICE data 3");
    assert!(matches!(next.mend, Mend::Device { button: "Replace it", .. }));
}

/// Each step that `status` tells has a button, or a reason why it has none.
#[test]
fn each_step_has_its_button_or_says_why_not() {
    let report = serde_json::from_value(array(&["clean"], Some(2), failed(), json!({}))).unwrap();
    let member = || "0.1".to_owned();
    for (step, expected) in [
        (NextStep::Restart, "shell"),
        (NextStep::ServeWritable, "shell"),
        (NextStep::Resume, "order"),
        (NextStep::Wait, "wait"),
        (NextStep::Rebuild, "order"),
        (NextStep::ReAdd, "order"),
        (NextStep::Add, "device"),
        (NextStep::Repair, "order"),
        (NextStep::Replace(1), "device"),
        (NextStep::PoolReplaceFailing(member()), "device"),
        (NextStep::PoolOnline(member()), "order"),
        (NextStep::PoolReplace(member()), "device"),
        (NextStep::PoolAttach, "shell"),
        (NextStep::PoolRestore, "shell"),
        (NextStep::PoolRestart, "shell"),
    ] {
        let told = serde_json::to_value(mend(&step, &report)).unwrap();
        assert_eq!(told["how"], expected, "{step:?}");
        let has = ["button", "why"]
            .iter()
            .any(|field| told[*field].as_str().is_some_and(|words| !words.is_empty()));
        assert!(has || expected == "wait", "{step:?}: {told}");
    }
}

#[test]
fn a_pool_says_which_member_is_lost() {
    let pool = |state: &[&str], second: Value| {
        let devices =
            json!([{"member": "0.0", "kind": "mirror", "path": "/dev/a", "state": "online"}, second]);
        told(
            json!({"name": "tank", "exported": true, "pool": {"state": state, "capacity": 4096, "devices": devices}}),
        )
    };
    let lost = json!({"member": "0.1", "kind": "mirror", "path": "/dev/b", "state": "failed"});
    let item = pool(&["online", "degraded"], lost);
    assert_eq!((item.severity, &*item.sentence), (Severity::Degraded, "b failed"));
    assert_eq!(item.next.as_ref().unwrap().command, "brindle pool replace tank 0.1 DEVICE");
    let well = json!({"member": "0.1", "kind": "mirror", "path": "/dev/b", "state": "online"});
    assert_eq!(pool(&["online"], well).severity, Severity::Fine);
}

/// Names of others are text: nothing in them steers, turns round or goes on.
#[test]
fn hostile_names_are_cut_and_written_out() {
    let long = "x".repeat(4096);
    for hostile in ["<img src=x onerror=alert(1)>", "\"} 1", "a\u{202e}b", "a\u{200f}\n\u{1b}[2J", &long] {
        let third = json!({"role": 3, "path": format!("/dev/{hostile}"), "state": "failed",
                           "drive": {"serial": hostile, "model": hostile, "by_id": hostile, "slot": hostile},
                           "failure": {"at": 1, "why": hostile}});
        let item = told(array(&["active", "degraded"], Some(1), devices(third), json!({"name": hostile})));
        assert!(item.sentence.len() < 600, "{}", item.sentence.len());
        assert!(!item.sentence.contains(['\u{202e}', '\u{200f}', '\n', '\u{1b}']), "{:?}", item.sentence);
        assert_eq!(item.name, hostile);
    }
}
