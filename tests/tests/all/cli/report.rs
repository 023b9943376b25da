//! The report of a sweep, as a browser shows it: Debian's Chromium, without a window.

use std::fs;
use std::path::Path;
use std::process::Command;

use brindle_testkit::skip::{find, or_skip};
use brindle_tests::program::{self, Ran};
use serde_json::Value;

use super::name;

/// Stands before all of the page: what goes wrong in it is kept.
const EARS: &str = "<script>window.wrong=[];window.onerror=(why)=>{window.wrong.push(String(why))};\
    addEventListener('securitypolicyviolation',(e)=>window.wrong.push(e.violatedDirective));</script>";

/// Stands behind all of it: what is seen becomes the page's title, in JSON.
const EYES: &str = r"<script>
const count = (what) => document.querySelectorAll(what).length;
const lines = (id) => [...document.querySelectorAll(`#${id} polyline`)].map((line) => line.getAttribute('points'));
const seen = { wrong: window.wrong, lines: lines('lines'), latency: lines('latency'), time: lines('time'), heat: count('#heat rect') };
seen.points = [...document.querySelectorAll('#points tr')].slice(1).map((row) => [...row.cells].map((cell) => cell.innerText));
document.querySelectorAll('details').forEach((one) => { one.open = true; });
seen.wide = [document.documentElement.scrollWidth, innerWidth];
seen.small = [...document.querySelectorAll('td, th, text')].filter((one) => parseFloat(getComputedStyle(one).fontSize) < 10).length;
seen.asked = performance.getEntriesByType('resource').map((one) => one.name);
document.getElementById('figure').value = 'to_limit';
document.getElementById('figure').dispatchEvent(new Event('change'));
seen.other = lines('lines');
document.title = 'SEEN' + JSON.stringify(seen) + 'NEES';
</script>";

/// The page as the browser lays it out in a window of this width.
fn look(chromium: &Path, folder: &Path, width: u32) -> Value {
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let (head, body) = page.split_once("<meta charset").unwrap();
    let watched = folder.join("watched.html");
    fs::write(&watched, format!("{head}{EARS}<meta charset{body}{EYES}")).unwrap();
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--window-size={width},800")).arg("--dump-dom");
    command.arg(format!("file://{}", watched.display()));
    // It complains of a desktop that is not there.
    let text = Ran::of(command).ended(0).text();
    let title = text.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let seen = title.strip_prefix("SEEN").and_then(|seen| seen.strip_suffix("NEES"));
    let seen = seen.unwrap_or_else(|| panic!("no script looked: {title}"));
    serde_json::from_str(&seen.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")).unwrap()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

#[test]
fn a_report_is_drawn_within_its_page_and_asks_nobody() {
    let Some(chromium) = or_skip(find("chromium")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let words = "sweep --simulate --drive nvme --level 0,10 --members 4 --chunk 64K,512K --rw randwrite --bs 4k,16k,64k --output";
    let words = words.split(' ').chain([name(dir.path())]);
    program::brindle(words).ok();
    let seen = look(&chromium, dir.path(), 800);
    assert_eq!((list(&seen["wrong"]).len(), list(&seen["asked"]).len()), (0, 0), "{seen}");
    let wide = list(&seen["wide"]);
    assert_eq!(wide[1], 800);
    assert!(
        wide[0].as_u64() <= wide[1].as_u64(),
        "wider than the page, with all commands unfolded: {wide:?}"
    );
    assert_eq!(seen["small"], 0, "letters that nobody can read: {seen}");
    // By level over chunk sizes, at one size of requests; then another figure over the same axes.
    for chart in ["lines", "latency", "time", "other"] {
        let lines = list(&seen[chart]);
        assert_eq!(lines.len(), 2, "{chart}: {seen}");
        for line in lines {
            let text = line.as_str().unwrap();
            assert!(text.split(' ').count() >= 2 && !text.contains("NaN"), "{chart}: {text}");
        }
    }
    assert_ne!(seen["lines"], seen["other"]);
    assert_eq!(seen["heat"], 4);
    let points = list(&seen["points"]);
    assert_eq!(points.len(), 12);
    for point in points {
        let cell = |n: usize| point[n].as_str().unwrap();
        let [jbod, limit] = [7, 8].map(|n| cell(n).parse::<f64>().unwrap_or_else(|_| panic!("{point}")));
        assert!(jbod > 0.1 && jbod < 4.0 && limit > 0.0 && limit < 1.1, "{point}");
        assert!(!cell(0).contains("--level"), "commands are folded: {point}");
    }
}
