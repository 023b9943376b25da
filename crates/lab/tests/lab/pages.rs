//! Reports as a browser shows them: what is drawn is what the figures say, nothing is cut, nothing is asked of a network.

use std::rc::Rc;
use std::time::Duration;

use brindle_io::Io;
use brindle_io::memory::Memory;
use brindle_lab::measure::Series;
use brindle_lab::report::series_html;
use brindle_lab::run::{Live, Outcome, Terms, run};
use brindle_lab::sweep::{Axes, Environment, Figures, Finished, Point, Step, html};
use brindle_testkit::browser;
use brindle_testkit::skip::{find, or_skip};
use brindle_volume::LoneMember;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A name that would be markup, were it not text.
const NAME: &str = "</script><img src=x onerror=wrong.push('run')> \"it's\" &amp; `b`";

fn figures(mb_s: f64) -> Figures {
    let series = (1..=5).map(|n| {
        let seconds = f64::from(n) * 0.5;
        Step { seconds, mb_s, iops: mb_s * 256.0, mean_us: 90.0, max_us: 400.0 }
    });
    Figures {
        mb_s,
        iops: mb_s * 256.0,
        mean_us: 90.0,
        p50_us: 80.0,
        p99_us: 300.0,
        max_us: 400.0,
        utilisation: Some(0.5),
        cpu_share: 0.25,
        to_jbod: None,
        to_limit: Some(0.75),
        percentiles_us: vec![(50.0, 80.0), (90.0, 200.0), (99.0, 300.0), (99.9, 1800.0)],
        series: series.collect(),
        digest: "00".to_owned(),
    }
}

fn environment() -> Environment {
    let facts = vec![("drive".to_owned(), NAME.to_owned())];
    Environment { title: NAME.to_owned(), facts, command: format!("brindle simulate --drive '{NAME}'") }
}

fn list(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// Each point with a figure of its own.
fn swept(axes: &Axes) -> Vec<Finished> {
    let figured = |(at, point)| {
        let refused = (at == 7).then(|| format!("can't be: {NAME}"));
        let figures = refused.is_none().then(|| figures(100.0 + 17.0 * at as f64));
        Finished { point, figures, refused }
    };
    axes.points().into_iter().enumerate().map(figured).collect()
}

/// Facts that the browser reports of a page in good order, whatever is in it.
fn look(page: &str, width: u32, script: &str) -> Option<Value> {
    let chromium = or_skip(find("chromium"))?;
    let seen = browser::look(&chromium, page, width, script);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    for fault in ["wrong", "asked", "cut", "broken", "mixed"] {
        assert_eq!(seen[fault], json!([]), "{fault} at {width}: {seen}");
    }
    assert_eq!(seen["wide"][1], width, "{seen}");
    assert!(seen["wide"][0].as_u64() <= Some(width.into()), "wider than the window: {seen}");
    Some(seen)
}

#[test]
fn files_of_others_are_those_that_were_pinned() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/vendor");
    let sums = std::fs::read_to_string(format!("{folder}/SHA256SUMS")).expect("sums");
    let mut files = Vec::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").expect("a sum and a name");
        let bytes = std::fs::read(format!("{folder}/{name}")).expect(name);
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, sum, "{name}");
        files.push(name.to_owned());
    }
    let is_code = |name: &String| name.ends_with(".js") || name.ends_with(".css");
    let there = std::fs::read_dir(folder).expect("a folder");
    let names = there.map(|entry| entry.expect("a file").file_name().into_string().expect("a name"));
    let mut there: Vec<String> = names.filter(is_code).collect();
    there.sort();
    files.sort();
    assert_eq!(there, files, "each file has a sum");
}

/// Of each dot of the first chart: where it stands on the axes, told by the chart's own scales.
const DOTS: &str = "
    const svg = document.querySelector('#main svg');
    const chart = svg.closest('figure') ?? svg;
    const y = chart.scale('y');
    const x = chart.scale('x');
    const at = (one) => one.getAttribute('transform').match(/[-.0-9]+/g).map(Number);
    seen.dots = [...svg.querySelectorAll('g[aria-label=dot] > *')].map((one) => at(one)).map(([right, up]) => [x.domain.find((name) => Math.abs(x.apply(name) - right) < 0.6), y.invert(up)]);
    seen.ticks = [...svg.querySelectorAll('g[aria-label=\"y-axis tick label\"] text')].map((one) => Number(one.textContent));
    seen.lines = svg.querySelectorAll('g[aria-label=line]').length;
    seen.labels = [...svg.querySelectorAll('text')].map((one) => one.textContent).join('|');
    const last = [...document.querySelectorAll('#time g[aria-label=line] path')].map((one) => one.getAttribute('d'));
    seen.flat = last.length > 0 && last.every((path) => new Set(path.match(/,[-.0-9]+/g)).size === 1);
    const button = document.querySelector('#names button');
    button.click();
    seen.hidden = document.querySelectorAll('#main g[aria-label=line]').length;
    seen.note = document.getElementById('alike').textContent;
    seen.pressed = button.getAttribute('aria-pressed');
    document.getElementById('main').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    seen.reading = document.getElementById('reading').textContent;
    const heads = [...document.querySelectorAll('#points th')];
    seen.heads = heads.map((one) => one.innerText);
    const rows = () => [...document.querySelectorAll('#points tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText));
    heads.find((one) => one.innerText.startsWith('Throughput')).querySelector('button').click();
    seen.sorted = rows().map((row) => row[heads.findIndex((one) => one.innerText.startsWith('Throughput'))].replace(/\\s/g, ''));
    const filter = document.querySelector('#points input');
    filter.value = '256k';
    filter.dispatchEvent(new Event('input'));
    seen.filtered = rows().length;
";

#[test]
fn what_is_drawn_of_a_sweep_is_what_was_found() {
    let axes = Axes { level: list("0 5 10"), bs: list("256k 4k 16k 64k"), ..Axes::default() };
    let all = swept(&axes);
    let page = html(&environment(), &all);
    for width in [400, 1600] {
        let Some(seen) = look(&page, width, DOTS) else { return };
        let mut dots: Vec<(String, f64)> = Vec::new();
        for dot in seen["dots"].as_array().expect("dots") {
            dots.push((dot[0].as_str().expect("a step").to_owned(), dot[1].as_f64().expect("a figure")));
        }
        let mut wanted: Vec<(String, f64)> = Vec::new();
        for one in &all {
            wanted.extend(one.figures.as_ref().map(|of| (one.point.bs.clone(), of.mb_s)));
        }
        assert_eq!(dots.len(), wanted.len(), "{seen}");
        for (size, mb_s) in &wanted {
            let near = dots.iter().any(|(step, found)| step == size && (found - mb_s).abs() < 0.5);
            assert!(near, "{mb_s} at {size}: {dots:?}");
        }
        let ticks: Vec<f64> =
            seen["ticks"].as_array().expect("ticks").iter().filter_map(Value::as_f64).collect();
        assert!(ticks.len() > 2 && ticks.iter().all(|tick| tick % 50.0 == 0.0), "round ticks: {seen}");
        let labels = seen["labels"].as_str().expect("labels");
        assert!(labels.contains("Throughput, MiB/s") && labels.contains("request size"), "{labels}");
        assert_eq!(
            (&seen["lines"], &seen["hidden"], &seen["pressed"]),
            (&json!(3), &json!(2), &json!("false"))
        );
        assert!(seen["note"].as_str().expect("a note").contains("1 series hidden"), "{seen}");
        assert!(seen["reading"].as_str().expect("text").starts_with("request size 4k: "), "{seen}");
        assert_eq!(seen["flat"], true, "no last interval is a fall: {seen}");
        let heads = seen["heads"].to_string();
        for head in ["level", "chunk", "request size", "in flight", "Throughput", "99 % latency"] {
            assert!(heads.contains(head), "a column for each part: {heads}");
        }
        let sorted: Vec<f64> = seen["sorted"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|cell| cell.as_str()?.parse().ok())
            .collect();
        assert!(sorted.len() == 11 && sorted.is_sorted_by(|a, b| a >= b), "{seen}");
        assert_eq!(seen["filtered"], 3, "{seen}");
    }
}

/// Requests in flight change the most here, levels nothing where most comes through, and loads what is left.
#[test]
fn the_view_that_comes_first_is_the_one_that_tells_most() {
    let axes = Axes {
        level: list("5 6"),
        members: list("4 8"),
        rw: list("randread randwrite"),
        bs: list("4k 64k"),
        iodepth: list("1 32"),
        ..Axes::default()
    };
    let figured = |point: Point| {
        let times = |is: bool, more: f64| if is { more } else { 1.0 };
        let reads = point.rw == "randread";
        let level = times(!reads && point.level == "6", 0.5);
        let mb_s =
            times(point.iodepth == "32", 30.0) * times(point.bs == "64k", 12.0) * times(reads, 4.0) * level;
        let mb_s = mb_s * times(point.members == "8", 1.5);
        Finished { point, figures: Some(figures(mb_s)), refused: None }
    };
    let all: Vec<Finished> = axes.points().into_iter().map(figured).collect();
    let chosen = "seen.chosen = ['x', 'series'].map((id) => document.getElementById(id).value);
        seen.held = [...document.querySelectorAll('#held select')].map((one) => one.value).join(' ');
        seen.note = document.getElementById('alike').textContent;";
    let Some(seen) = look(&html(&environment(), &all), 1600, chosen) else { return };
    assert_eq!(seen["chosen"], json!(["iodepth", "bs"]), "{seen}");
    assert_eq!(seen["held"], "5 8 randread", "where the most comes through: {seen}");
    assert_eq!(seen["note"], "", "{seen}");
}

#[test]
fn names_without_order_are_bars_and_stay_text() {
    let axes = Axes { level: vec!["0".to_owned(), NAME.to_owned()], ..Axes::default() };
    let bars = "seen.bars = [...document.querySelectorAll('#main rect[width], #main g[aria-label=bar] rect')].length;
        seen.images = document.querySelectorAll('img').length; seen.title = document.querySelector('h1').textContent;";
    let Some(seen) = look(&html(&environment(), &swept(&axes)), 700, bars) else { return };
    assert_eq!(
        (&seen["bars"], &seen["images"], &seen["title"]),
        (&json!(2), &json!(0), &json!(NAME)),
        "{seen}"
    );
}

#[test]
fn there_may_be_no_points_or_one_or_a_million() {
    let reported = "seen.best = document.getElementById('best').textContent; seen.rows = document.querySelectorAll('#points tbody tr').length;
        seen.told = document.querySelector('[role=status]')?.textContent.replace(/\\s/g, ' ');
        seen.drawn = document.querySelectorAll('#main svg g[aria-label=dot] > *, #main svg rect').length;
        if (document.querySelector('#points input')) { const filter = document.querySelector('#points input'); filter.value = '3000k 7777'; filter.dispatchEvent(new Event('input')); seen.found = document.querySelectorAll('#points tbody tr').length; }";
    let Some(none) = look(&html(&environment(), &[]), 400, reported) else { return };
    assert_eq!((&none["best"], &none["rows"]), (&json!("There are no points."), &json!(0)));
    let one = look(&html(&environment(), &swept(&Axes::default())), 400, reported).expect("as before");
    assert_eq!((&one["rows"], &one["drawn"]), (&json!(1), &json!(1)), "{one}");
    let lean = Figures { percentiles_us: Vec::new(), series: Vec::new(), ..figures(1.0) };
    let point = |n: u32| {
        let (bs, iodepth) = (format!("{}k", (n / 1000 + 1) * 4), ((n % 1000 + 1) * 7).to_string());
        let figures = Some(Figures { mb_s: f64::from(n), ..lean.clone() });
        Finished { point: Point { bs, iodepth, ..Point::default() }, figures, refused: None }
    };
    let all: Vec<Finished> = (0..1_000_000).map(point).collect();
    let many = look(&html(&environment(), &all), 1600, reported).expect("as before");
    assert_eq!(many["told"], "1 000 000 of 1 000 000 points", "{many}");
    assert_eq!(
        (&many["rows"], &many["found"]),
        (&json!(50), &json!(0)),
        "7777 is not a multiple of 7 up to 7000"
    );
    assert!(many["drawn"].as_u64() > Some(200), "{many}");
}

/// A job's outcome, with steps of a millisecond in the place of its own.
fn outcome(name: &str, requests: u64, elapsed: Duration) -> Outcome {
    let memory = Memory::new();
    let member = memory.add_ram(1 << 20);
    let io = Io::new(Box::new(memory));
    let device = LoneMember::new(&io, member, false).expect("a member");
    let plan = crate::made::plan("[a]\nsize=64k\n");
    let terms = Terms::new(1, 1 << 30);
    let outcomes = io.block_on(run(&io, &[device], &plan.jobs, terms, &Rc::new(Live::default())));
    io.shutdown();
    let mut outcome = outcomes.expect("a run").remove(0);
    outcome.job.name = name.to_owned();
    (outcome.began, outcome.elapsed) = (Duration::ZERO, elapsed);
    let mut series = Series::new(Duration::from_millis(1));
    (0..requests).for_each(|n| series.record(Duration::from_micros(n * 500), 4096, 90_000 + n % 7, 0));
    outcome.tallies[0].series = series;
    outcome
}

/// Of each chart its data, and whether the last point is drawn where its figure stands.
const COURSE: &str = "
    const boxes = [...document.querySelectorAll('#charts .chart')];
    seen.points = boxes.map((box) => box.plot.data[0].length);
    seen.last = boxes.map((box) => [box.plot.data[0].at(-1), box.plot.data[1].at(-1)]);
    seen.fall = boxes.slice(0, 2).map((box) => Math.min(...box.plot.data[1].slice(-20)) / Math.max(...box.plot.data[1].slice(-20)));
    seen.inked = boxes.map((box) => {
        const plot = box.plot;
        const at = plot.data[0].length >> 1;
        const [left, top] = [plot.valToPos(plot.data[0][at], 'x', true), plot.valToPos(plot.data[1][at], 'y', true)];
        const bits = plot.ctx.getImageData(left - 3, top - 3, 7, 7).data;
        return bits.some((bit, n) => n % 4 === 3 && bit > 0);
    });
    seen.names = [...document.querySelectorAll('#names button')].map((one) => one.textContent);
    document.querySelector('#names button')?.click();
    seen.shown = boxes.map((box) => box.plot.series[1].show);
    seen.summary = document.getElementById('summary').textContent;
";

#[test]
fn no_interval_that_was_cut_short_is_a_fall() {
    // Two requests a millisecond; the last millisecond has one.
    let page = series_html(
        NAME,
        &[("target".to_owned(), NAME.to_owned())],
        &[outcome(NAME, 81, Duration::from_micros(40_400))],
    );
    let Some(seen) = look(&page, 400, COURSE) else { return };
    assert_eq!(seen["points"], json!([40, 40, 40, 40]), "{seen}");
    assert_eq!((&seen["fall"], &seen["last"][0]), (&json!([1, 1]), &json!([0.04, 2000])), "{seen}");
    assert_eq!((&seen["inked"], &seen["shown"]), (&json!(vec![true; 4]), &json!(vec![false; 4])), "{seen}");
    assert_eq!(seen["names"], json!([format!("{NAME} read")]));
    // It ended within its first interval: that, by the time that there was.
    let short = series_html("short", &[], &[outcome("a", 1, Duration::from_micros(500))]);
    let seen = look(&short, 400, COURSE).expect("as before");
    assert_eq!((&seen["points"], &seen["last"][0]), (&json!([1, 1, 1, 1]), &json!([0.001, 2000])), "{seen}");
    let none = look(&series_html("none", &[], &[]), 400, COURSE).expect("as before");
    assert_eq!(none["summary"], "Nothing was done.");
    let million = outcome("many", 2_000_000, Duration::from_secs(1000));
    let seen = look(&series_html("many", &[], &[million]), 1600, COURSE).expect("as before");
    assert_eq!((&seen["points"][0], &seen["inked"]), (&json!(1_000_000), &json!(vec![true; 4])), "{seen}");
}
