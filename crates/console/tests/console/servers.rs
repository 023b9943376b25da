//! Servers that do not answer as they should: told as what they are, while the others stay on the page.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use brindle_testkit::skip::or_skip;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Place, lying, status_line, until};

fn named<'a>(told: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    told[list].as_array()?.iter().find(|one| one["name"] == name)
}

#[test]
fn a_server_that_lies_is_told_and_the_others_stay() {
    let Some(place) = or_skip(Place::new()) else { return };
    place.array("1", "data", 2);
    let _daemon = place.daemon("[[arrays]]\nname = \"data\"\n[tuning]\nmemory = \"32M\"\n");
    lying(&place, "rubbish", |stream, _| drop(stream.write_all(b"\x00\xffnonsense\n")));
    lying(&place, "half", |stream, _| drop(stream.write_all(br#"{"ok":[{"name":"x","arr"#)));
    lying(&place, "mute", |_, _| ());
    lying(&place, "other", |stream, line| {
        let answer: &[u8] = if line.contains("version") {
            b"{\"ok\":{\"version\":99}}\n"
        } else {
            b"{\"ok\":[{\"name\":7}]}\n"
        };
        drop(stream.write_all(answer));
    });
    lying(&place, "endless", |stream, _| {
        let _ = stream.write_all(b"{\"ok\":[");
        while stream.write_all(&[b'1', b','].repeat(1 << 16)).is_ok() {}
    });
    lying(&place, "silent", |_, _| std::thread::sleep(Duration::from_secs(60)));
    let console = place.console(&[]);
    let session = console.sign_in();
    let begun = Instant::now();
    let told = session.get(&console, "/api/v1/overview");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(told.status, 200);
    let expected = [
        ("brindle", "answers", ""),
        ("rubbish", "unreadable", "can't be read"),
        ("half", "silent", "hung up"),
        ("mute", "silent", "hung up"),
        ("other", "other-version", "version 99"),
        ("silent", "silent", "does not answer"),
    ];
    until("each server as it is", || {
        let told = session.get(&console, "/api/v1/overview").json();
        let is = |(name, answering, why): &(&str, &str, &str)| {
            named(&told, "servers", name).is_some_and(|server| {
                server["answering"] == *answering && server["why"].as_str().unwrap_or_default().contains(why)
            })
        };
        (expected.iter().all(is) && named(&told, "items", "data").is_some()).then_some(())
    });
    assert!(console.process.memory() < 90 << 10, "{} KiB", console.process.memory());
}

#[test]
fn a_server_that_is_stopped_or_gone_is_told() {
    let Some(place) = or_skip(Place::new()) else { return };
    place.array("1", "data", 2);
    let daemon = place.daemon("[[arrays]]\nname = \"data\"\n[tuning]\nmemory = \"32M\"\n");
    let console = place.console(&[]);
    let session = console.sign_in();
    let data = |severity: &str, word: &str| {
        until(word, || {
            let told = session.get(&console, "/api/v1/overview").json();
            let item = named(&told, "items", "data")?;
            (item["severity"] == severity && item["word"] == word).then(|| item.clone())
        })
    };
    data("fine", "fine");
    daemon.signal(Signal::STOP);
    let begun = Instant::now();
    let item = data("unknown", "no answer");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(item["sentence"].as_str().unwrap().contains("does not answer"), "{item}");
    // A page is answered all the same.
    let begun = Instant::now();
    assert_eq!(session.get(&console, "/api/v1/item/brindle/data").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5));
    daemon.signal(Signal::CONT);
    data("fine", "fine");
    place.run(&["stop", "data"]);
    let item = data("unknown", "server gone");
    assert!(item["sentence"].as_str().unwrap().contains("has ended"), "{item}");
}

#[test]
fn many_arrays_and_pages_cost_one_question_a_second() {
    let Some(place) = or_skip(Place::new()) else { return };
    let asked = Arc::new(AtomicUsize::new(0));
    let latency = [0_u64; 24];
    let devices: Vec<Value> = (0..12).map(|at| json!({"role": at, "path": format!("/dev/sd{at}"), "state": "in-sync", "io": {"read_latency": latency}})).collect();
    let report = |at: usize| json!({"name": format!("array{at}"), "exported": true, "array": {"level": "raid6", "raid_devices": 12, "size": 1_u64 << 44, "state": ["clean"], "redundancy_left": 2, "devices": devices}});
    let told = json!((0..64).map(report).collect::<Vec<_>>());
    let count = Arc::clone(&asked);
    lying(&place, "many", move |stream, line| {
        // Another status each time.
        let number = count.fetch_add(1, Relaxed) as u64;
        drop(stream.write_all(status_line(line, number, &told).as_bytes()));
    });
    let console = place.console(&[]);
    let session = console.sign_in();
    let begun = Instant::now();
    let pages: Vec<_> = (0..10)
        .map(|_| {
            let (console, session) = (&console, &session);
            move || {
                while begun.elapsed() < Duration::from_secs(5) {
                    let told = session.get(console, "/api/v1/overview").json();
                    assert_eq!(told["items"].as_array().unwrap().len(), 64);
                    std::thread::sleep(Duration::from_millis(1000));
                }
            }
        })
        .collect();
    std::thread::scope(|scope| pages.into_iter().for_each(|page| drop(scope.spawn(page))));
    let asked = asked.load(Relaxed);
    assert!((3..=9).contains(&asked), "{asked} questions in {:?}", begun.elapsed());
    assert!(console.process.memory() < 30 << 10, "{} KiB", console.process.memory());
}

/// A status is sent once: whoever has it is told that it is the same. One of a thread that hangs is called so, and is sent again.
#[test]
fn a_status_that_is_known_is_not_sent_again() {
    let Some(place) = or_skip(Place::new()) else { return };
    let (sent, age) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
    let (count, old) = (Arc::clone(&sent), Arc::clone(&age));
    let report = json!([{"name": "data", "exported": true, "array": {"level": "raid1", "raid_devices": 0, "state": ["clean"], "redundancy_left": 1}}]);
    lying(&place, "one", move |stream, line| {
        let asked: Value = serde_json::from_str(line).unwrap();
        assert_eq!(asked["ask"], "look", "{line}");
        let mut answer: Value = serde_json::from_str(&status_line(line, 7, &report)).unwrap();
        answer["ok"]["age"] = old.load(Relaxed).into();
        count.fetch_add(usize::from(answer["ok"]["volumes"].is_array()), Relaxed);
        drop(stream.write_all(format!("{answer}\n").as_bytes()));
    });
    let console = place.console(&[]);
    let session = console.sign_in();
    let data = || {
        let told = session.get(&console, "/api/v1/overview").json();
        named(&told, "items", "data").cloned()
    };
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3500) {
        assert!(data().is_none_or(|item| item["severity"] == "fine"));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(sent.load(Relaxed), 1);
    age.store(12, Relaxed);
    until("a thread that hangs", || data().filter(|item| item["stale_for"] == 12.0));
    age.store(0, Relaxed);
    until("a thread that goes on", || data().filter(|item| item["severity"] == "fine"));
    assert!(sent.load(Relaxed) >= 2);
}

/// The daemon's monitor asks a program in place of smartctl, and files are drives to it.
#[test]
fn a_drive_that_smart_calls_failing_is_replaced_by_one_order() {
    let Some(place) = or_skip(Place::new()) else { return };
    let disks = place.array("1", "data", 2);
    let program = place.path("smartctl");
    let says = "#!/bin/sh\ncase \"$*\" in *data1) echo '{\"smart_status\": {\"passed\": false}}' ;; *) echo '{}' ;; esac\n";
    std::fs::write(&program, says).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        "[[arrays]]\nname = \"data\"\n[monitor]\nsmart = true\nsmartctl = {program:?}\ndelay = \"100ms\"\n[tuning]\nmemory = \"32M\"\n"
    );
    let _daemon = place.daemon(&settings);
    let console = place.console(&[]);
    let session = console.sign_in();
    let data = |word: &str| {
        until(word, || {
            let told = session.get(&console, "/api/v1/overview").json();
            named(&told, "items", "data").filter(|item| item["word"] == word).cloned()
        })
    };
    let item = data("to be looked at");
    assert!(item["sentence"].as_str().unwrap().starts_with("data1: SMART calls its drive failing"), "{item}");
    assert_eq!(item["next"]["command"], "brindle replace --with DEVICE data 1", "{item}");
    assert_eq!(item["next"]["mend"]["button"], "Replace it", "{item}");
    let told = place.run(&["status", "data"]);
    assert!(told.contains("SMART calls its drive failing"), "{told}");
    let mut order = item["next"]["mend"]["order"].clone();
    order["server"] = "brindle".into();
    order["with"] = place.disk("blank", 96).into();
    let answer = session.order(&console, &order);
    assert_eq!(answer.status, 200, "{answer:?}");
    until("another disk in its place", || {
        let told: Value = serde_json::from_str(&place.run(&["status", "data", "--json"])).unwrap();
        let in_sync = |device: &&Value| device["state"] == "in-sync";
        let paths: Vec<&Value> = told["array"]["devices"]
            .as_array()?
            .iter()
            .filter(in_sync)
            .map(|device| &device["path"])
            .collect();
        (paths.len() == 2 && paths.contains(&&order["with"]) && !paths.contains(&&disks[1].clone().into()))
            .then_some(())
    });
    assert!(data("fine")["next"].is_null());
}
