//! Reports of the program, as a browser shows them. What pages of any content must be, the lab's own tests look at.

use std::fs;

use brindle_testkit::browser;
use brindle_testkit::skip::{find, or_skip};
use brindle_tests::program;
use serde_json::{Value, json};

use super::name;

/// A page that is in order: nothing cut, nothing broken within a word, nothing asked of anybody.
fn look(page: &str, width: u32, script: &str) -> Option<Value> {
    let chromium = or_skip(find("chromium"))?;
    let seen: Value = serde_json::from_str(&browser::look(&chromium, page, width, script)).unwrap();
    for fault in ["wrong", "asked", "cut", "broken", "mixed"] {
        assert_eq!(seen[fault], json!([]), "{fault} at {width}: {seen}");
    }
    assert_eq!(seen["wide"], json!([width, width]), "{seen}");
    Some(seen)
}

#[test]
fn a_sweep_is_drawn_within_its_page_and_asks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let words = "sweep --simulate --drive nvme --level 0,10 --members 4 --chunk 64K,512K --rw randwrite --bs 4k,16k,64k --output";
    program::brindle(words.split(' ').chain([name(dir.path())])).ok();
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    let script = "const dots = () => document.querySelector('#main svg').querySelectorAll('g[aria-label=dot] > *').length;
        seen.dots = dots(); seen.cells = document.querySelectorAll('#heat g[aria-label=cell] rect').length;
        seen.rows = document.querySelectorAll('#points tbody tr').length;
        const figure = document.getElementById('figure'); figure.value = 'to_limit'; figure.dispatchEvent(new Event('change'));
        seen.title = document.getElementById('title').textContent; seen.other = dots();";
    let Some(seen) = look(&page, 800, script) else { return };
    let counts = ["dots", "cells", "rows", "other"].map(|of| seen[of].as_u64().unwrap());
    assert_eq!(counts, [6, 6, 12, 6], "levels over sizes, at one chunk: {seen}");
    assert_eq!(seen["title"], "To limit over request size");
}

#[test]
fn a_plan_is_read_on_a_telephone() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("load.fio");
    fs::write(&job, "[mix]\nrw=randrw\nrwmixread=70\nbs=8k\niodepth=32\n").unwrap();
    let words = |format: &str| {
        let flags = "plan --drives 6 --drive nvme --price 300 --workload";
        let flags = flags.split(' ').chain([name(&job), "--format", format]);
        program::brindle(flags).ok().text()
    };
    let (page, text) = (words("html"), words("table"));
    let reported: Value = serde_json::from_str(&words("json")).unwrap();
    let script = "const svg = document.querySelector('#main svg'); const chart = svg.closest('figure') ?? svg;
        const [x, y] = [chart.scale('x'), chart.scale('y')];
        seen.dots = [...svg.querySelectorAll('g.spots > *, g[aria-label=dot].spots > *')].map((one) => one.getAttribute('transform').match(/[-.0-9]+/g).map(Number)).map(([right, up]) => [x.invert(right), y.invert(up)]);
        seen.text = document.body.innerText.replace(/\\s+/g, ' '); seen.bars = document.querySelectorAll('#chunk g[aria-label=bar] rect').length;
        seen.first = document.querySelector('#rows tbody tr').className; seen.rows = document.querySelectorAll('#rows tbody tr').length;";
    let Some(seen) = look(&page, 400, script) else { return };
    let shown = seen["text"].as_str().unwrap();
    let line = text.lines().find(|line| line.contains("Chunk ")).expect("a line tells of the chunk");
    assert!(
        shown.contains(line.trim()) && shown.contains("70 % reads, at random places, 32 in flight"),
        "{shown}"
    );
    let all = reported["configurations"].as_array().unwrap();
    let tried = reported["recommended"]["chunks_tried"].as_array().unwrap().len();
    assert_eq!((&seen["bars"], &seen["first"]), (&json!(tried), &json!("taken")), "{seen}");
    assert_eq!(seen["rows"], all.len().min(50), "{seen}");
    // Each dot is an array's room and speed, and no array is left out.
    let dots: Vec<(f64, f64)> = seen["dots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dot| (dot[0].as_f64().unwrap(), dot[1].as_f64().unwrap()))
        .collect();
    for one in all {
        let (net, iops) = (one["net"].as_f64().unwrap() / 1e12, one["workload_iops"].as_f64().unwrap());
        let near =
            dots.iter().any(|(x, y)| (x - net).abs() < 0.05 && (y - iops).abs() < iops * 0.01 + 1000.0);
        assert!(near, "{net} TB, {iops} IOPS: {dots:?}");
    }
}
