//! Servers that do not answer as they should: told as what they are, while the others stay on the page.

use std::io::Write;
use std::time::{Duration, Instant};

use brindle_testkit::skip::or_skip;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Place, lying, until};

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
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let latency = [0_u64; 24];
    let devices: Vec<Value> = (0..12).map(|at| json!({"role": at, "path": format!("/dev/sd{at}"), "state": "in-sync", "io": {"read_latency": latency}})).collect();
    let report = |at: usize| json!({"name": format!("array{at}"), "exported": true, "array": {"level": "raid6", "raid_devices": 12, "size": 1_u64 << 44, "state": ["clean"], "redundancy_left": 2, "devices": devices}});
    let told = json!({"ok": (0..64).map(report).collect::<Vec<_>>()}).to_string() + "\n";
    let count = std::sync::Arc::clone(&asked);
    lying(&place, "many", move |stream, _| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        drop(stream.write_all(told.as_bytes()));
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
    let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
    assert!((3..=9).contains(&asked), "{asked} questions in {:?}", begun.elapsed());
    assert!(console.process.memory() < 30 << 10, "{} KiB", console.process.memory());
}
