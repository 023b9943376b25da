//! Frames, held against texts of each size.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::rates::json as with_rates;
use super::super::view::Sort;
use super::*;

fn io(reads: u64, factor: u64) -> Value {
    json!({
        "reads": reads * factor, "bytes_read": reads * factor * 4096, "read_latency": [0, 0, 3 * factor, 96 * factor, factor],
        "writes": 0, "bytes_written": 0, "write_latency": [0, 0, 0, 0, 0], "errors": 2, "oldest": null,
    })
}

fn read(report: Value) -> Report {
    serde_json::from_value(report).unwrap()
}

fn of(seconds: u64, reports: Vec<Value>) -> Snapshot {
    Snapshot { reports: reports.into_iter().map(read).collect(), at: Duration::from_secs(seconds) }
}

fn snapshot(seconds: u64, factor: u64, sync: &Value) -> Snapshot {
    of(seconds, vec![data(factor, sync)])
}

fn data(factor: u64, sync: &Value) -> Value {
    json!({
        "name": "data", "pid": 7, "connections": 2, "errors": 0,
        "requests": 500 * factor, "bytes_read": 2_048_000 * factor, "bytes_written": 0,
        "array": {
            "level": "raid1", "size": 1u64 << 30, "state": ["active", "degraded"], "sync": sync, "missing": [2],
            "devices": [
                {"role": 0, "state": "in-sync", "path": "/dev/sda", "flags": ["write-mostly"], "io": io(1000, factor)},
                {"role": 1, "state": "recovering", "path": "/dev/sdb", "flags": [], "bad_blocks": {"bytes": 4096}, "io": io(0, factor)},
            ],
        },
        "arrays": [],
    })
}

/// The array with names as udev makes them, and a pool beside it.
fn full(seconds: u64, factor: u64) -> Snapshot {
    let mut data = data(factor, &sync(512 << 20));
    let names = ["ata-ST20000NM007D-3DJ103_ZVT0A1B2", "ata-ST20000NM007D-3DJ103_ZVT0C3D4"];
    for (device, name) in [0, 1].into_iter().zip(names) {
        data["array"]["devices"][device]["path"] = json!(format!("/dev/disk/by-id/{name}"));
    }
    data["array"]["devices"][1]["io"]["oldest"] = json!(12.0);
    let member = |role: &str, name: &str, state: &str| json!({"member": role, "kind": "raidz1", "path": name, "state": state, "wrong": if state == "failed" { 3 } else { 0 }, "io": io(200, factor)});
    let tank = json!({
        "name": "tank", "pid": 8, "connections": 1, "errors": 0, "requests": 90 * factor,
        "bytes_read": 0, "bytes_written": 9_000_000 * factor, "volumes": [{"name": "vm1", "size": 1 << 20}, {"name": "vm2", "size": 1 << 20}],
        "pool": {
            "state": ["online", "degraded"], "capacity": 4u64 << 30, "sold": 2u64 << 30, "stored": 1u64 << 30,
            "devices": [member("0.0", "/dev/nvme0n1", "online"), member("0.1", "/dev/nvme1n1", "failed"), member("0.2", "/dev/nvme2n1", "online")],
        },
    });
    of(seconds, vec![data, tank])
}

fn sync(position: u64) -> Value {
    json!({
        "action": "recover", "position": position, "total": 1u64 << 30, "paused": false, "speed": 128 << 20,
        "seconds_left": 4,
    })
}

fn wide(width: usize) -> View {
    View { width, ..View::default() }
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::text).collect()
}

#[test]
fn a_frame_fits_terminals_of_each_size_with_every_name() {
    let (before, now) = (full(10, 1), full(12, 3));
    let mut history = History::default();
    for n in 0..200u32 {
        let rate = f64::from(n % 20) * 1e6;
        now.reports.iter().for_each(|report| history.add(report, [rate, 2e7 - rate]));
    }
    let sizes = [
        (80, 24, include_str!("screens/80x24.txt")),
        (120, 40, include_str!("screens/120x40.txt")),
        (40, 20, include_str!("screens/40x20.txt")),
    ];
    for (width, rows, held) in sizes {
        let lines = frame(Some(&before), &now, &history, &wide(width));
        let text = format!("{}\n", texts(&lines).join("\n"));
        if std::env::var_os("BRINDLE_GOLDENS").is_some_and(|value| value == "write") {
            let path =
                format!("{}/src/client/watch/frame/screens/{width}x{rows}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &text).unwrap();
            continue;
        }
        assert_eq!(text, held, "{width}x{rows}: BRINDLE_GOLDENS=write writes it anew");
        assert!(lines.iter().all(|line| line.width() <= width), "{width}: {text}");
        let joined = text.replace(['\n', ' '], "");
        for name in ["ZVT0A1B2", "ZVT0C3D4", "nvme0n1", "nvme1n1", "nvme2n1", "vm2"] {
            assert!(joined.contains(name), "{name} at {width}: {text}");
        }
    }
    assert!(
        frame(Some(&before), &now, &history, &wide(80)).len() < 24,
        "an array and a pool have room at 80x24"
    );
}

#[test]
fn members_are_sorted_and_states_have_colours() {
    let (before, now) = (full(10, 1), full(12, 3));
    let of = |sort| {
        let lines =
            frame(Some(&before), &now, &History::default(), &View { width: 120, sort, ..View::default() });
        let all = texts(&lines);
        let tank = all.iter().position(|line| line.starts_with("tank")).unwrap();
        let first = all[tank..].iter().position(|line| line.contains("/dev/nvme")).unwrap();
        (all[tank + first].clone(), lines[tank + first].coloured())
    };
    assert!(of(Sort::Role).0.contains("0.0") && of(Sort::State).0.contains("0.1"));
    assert!(of(Sort::State).1.contains("\x1b[1;31mfailed"), "{}", of(Sort::State).1);
    assert!(of(Sort::Role).1.contains("\x1b[32monline"), "{}", of(Sort::Role).1);
    let busy = frame(
        Some(&before),
        &now,
        &History::default(),
        &View { width: 200, sort: Sort::Requests, ..View::default() },
    );
    let order: Vec<String> = texts(&busy).into_iter().filter(|line| line.contains("ST20000")).collect();
    assert!(order[0].contains("ZVT0A1B2"), "{order:?}");
}

#[test]
fn what_a_latency_means_is_said_where_one_is_shown_and_with_the_keys() {
    let (before, now) = (snapshot(10, 1, &Value::Null), snapshot(12, 3, &Value::Null));
    let shown = |view: &View| texts(&frame(Some(&before), &now, &History::default(), view)).join(" ");
    assert!(shown(&wide(140)).contains("8us/8us") && shown(&wide(140)).contains("half came within 64 us"));
    assert!(!shown(&wide(80)).contains("8us/8us") && !shown(&wide(80)).contains("64us"));
    assert!(shown(&View { help: true, ..wide(80) }).contains("half came within 64 us"));
}

#[test]
fn programs_get_the_same_rates() {
    let json = with_rates(&snapshot(10, 1, &Value::Null), &snapshot(12, 3, &Value::Null));
    let rates = &json[0]["rates"];
    assert_eq!((&rates["seconds"], &rates["requests"]), (&json!(2.0), &json!(500.0)), "{json}");
    let device = &json[0]["array"]["devices"][0]["rates"];
    assert_eq!((&device["reads"], &device["read_latency"]), (&json!(1000.0), &json!([8, 8])), "{json}");
    assert_eq!(device["write_latency"], Value::Null, "{json}");
    assert!(json[0].get("pool").is_none(), "no pool is made of an array: {json}");
    let json = with_rates(&full(10, 1), &full(12, 3));
    assert_eq!(json[1]["pool"]["devices"][0]["rates"]["reads"], 200.0, "{json}");
}

#[test]
fn what_is_not_known_yet_is_not_made_up() {
    let mut paused = sync(256 << 20);
    paused["paused"] = json!(true);
    let of = |before: Option<&Snapshot>, now: &Snapshot| {
        texts(&frame(before, now, &History::default(), &wide(200)))
    };
    let lines = of(None, &snapshot(10, 1, &paused));
    assert_eq!(lines[1], "  2 clients: - requests/s, - read, - written, 0 errors");
    assert_eq!(lines[2], "  recover [=======.......................] 25.0%, paused");
    // A server that was started anew counts from nothing.
    let lines = of(Some(&snapshot(10, 3, &Value::Null)), &snapshot(11, 1, &Value::Null));
    assert!(lines[1].starts_with("  2 clients: - requests/s"), "{lines:?}");
}

#[test]
fn anything_may_be_missing_and_names_are_text() {
    let lacking = json!({"array": {"devices": [{}]}});
    let empty = of(0, vec![lacking, json!({"pool": {"devices": [{}]}}), json!({"not_served": ""})]);
    for width in [0, 1, 7, 80] {
        assert!(!frame(Some(&empty), &empty, &History::default(), &wide(width)).is_empty());
    }
    let rates = &with_rates(&empty, &empty)[2];
    assert_eq!((&rates["rates"]["requests"], rates.get("array")), (&Value::Null, None));
    assert_eq!(
        texts(&frame(None, &Snapshot::default(), &History::default(), &wide(80))),
        ["no array is served"]
    );
    let mut named = data(1, &Value::Null);
    named["name"] = json!("\x1b[2J\n");
    named["array"]["devices"][0]["path"] = json!("/dev/\x1b]0;x\x07");
    named["array"]["devices"][0]["failure"] = json!({"why": "\x1b[2J"});
    let lines = texts(&frame(None, &of(1, vec![named]), &History::default(), &wide(80)));
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
}

#[test]
fn a_scrub_of_a_pool_shows_how_far_it_is() {
    let mut now = full(2, 2);
    let Some(Report::Pool(tank)) = now.reports.get_mut(1) else { panic!("a pool is the second") };
    let running = json!({"scan": "scrub", "state": "running", "action": "repair", "done": 1 << 29, "total": 1 << 30,
        "paused": false, "speed": 128 << 20, "eta": 4});
    tank.pool.scan = Some(serde_json::from_value(running).unwrap());
    let lines = texts(&frame(Some(&full(0, 1)), &now, &History::default(), &wide(80)));
    let found = lines.iter().find(|line| line.contains("repair [")).expect("a line of the scrub");
    assert!(found.contains("50.0%") && found.contains("128.0 MiB/s") && found.contains("0:00:04"), "{found}");
}
