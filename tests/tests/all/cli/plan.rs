//! `brindle plan`, as a user asks for it.

use std::fs;

use brindle_tests::program::{self, Ran};
use serde_json::Value;

use super::name;

fn plan(flags: &str) -> Ran {
    program::brindle(format!("plan {flags}").split_whitespace())
}

/// The one of that level and shape in a report.
fn one<'a>(report: &'a Value, level: &str, config: &str) -> &'a Value {
    let all = report["configurations"].as_array().expect("a list");
    let found = all.iter().find(|one| one["level"] == level && one["config"] == config);
    found.unwrap_or_else(|| panic!("{level} {config} in {report}"))
}

/// A published table of 2012: disks of 2 TB and about 200 requests a second.
const HEAD: &str = "disks,level,config,net_tb,random_iops,loss_on_double_failure\n";
const FOUR: &str = "4,raidz,3+1,6,200,1\n4,raidz2,2+2,4,200,0\n4,raid10,2x(1+1),4,400,1/3\n";
const SIX: &str =
    "6,raidz,5+1,10,200,1\n6,raidz2,4+2,8,200,0\n6,raid10,3x(1+1),6,600,1/5\n6,raidz10,2x(2+1),8,400,2/5\n";

#[test]
fn a_published_table_comes_out_exactly() {
    let csv =
        |drives: &str| plan(&format!("--drives {drives} --size 2TB --iops 200 --format csv")).ok().text();
    assert_eq!(csv("4"), format!("{HEAD}{FOUR}"));
    assert_eq!(csv("6"), format!("{HEAD}{SIX}"));
    assert_eq!(csv("4,6"), format!("{HEAD}{FOUR}{SIX}"));
    assert_eq!(csv("3"), format!("{HEAD}3,raidz,2+1,4,200,1\n"));
    let all = plan("--drives 4 --size 2TB --iops 200 --mb-s 200/100 --format csv --columns all --levels all")
        .ok()
        .text();
    let row = all.lines().find(|line| line.contains("raid6")).expect("RAID 6");
    assert_eq!(row, "4,raid6,2+2,4,200,0,,800,,400,200,2,1,1,5.56,,,,,,,,0,,,,,,1");
    assert!(
        all.starts_with(HEAD.trim_end()) && all.lines().all(|line| line.matches(',').count() == 28),
        "{all}"
    );
}

#[test]
fn the_cores_that_drives_need_are_told() {
    let flags = "--drives 12 --size 400GB --iops 350000/80000 --mb-s 2800/1900";
    let report = plan(&format!("{flags} --json --limit 100")).json();
    let cores = |level: &str, config: &str| one(&report, level, config)["cores"].as_u64();
    // 4.2 million reads a second, each 6.6 us by NBD.
    assert_eq!([cores("raid6", "10+2"), cores("raid0", "12")], [Some(28); 2]);
    assert_eq!([cores("raidz2", "10+2"), cores("raid60", "2x(4+2)")], [None; 2]);
    let text = plan(flags).ok().text();
    assert!(
        text.contains("cores") && text.contains("note: no number of cores makes arrays of arrays"),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("load.fio");
    fs::write(&job, "[writes]\nrw=randwrite\nbs=4k\niodepth=256\n").unwrap();
    let report = plan(&format!("{flags} --levels 6 --json --workload {}", name(&job))).json();
    let raid6 = one(&report, "raid6", "10+2");
    let iops = raid6["workload_iops"].as_f64().unwrap();
    assert_eq!(raid6["cores"].as_f64(), Some((iops * 17.448e-6).ceil()), "{iops} writes a second");
    let disks = plan("--drives 12 --size 4TB --iops 200 --mb-s 200 --levels 6,60 --json").json();
    assert_eq!(
        [one(&disks, "raid6", "10+2"), one(&disks, "raid60", "2x(4+2)")].map(|one| one["cores"].as_u64()),
        [Some(1); 2]
    );
}

#[test]
fn what_a_bitmap_leaves_of_random_writes_is_told() {
    let notes =
        |flags: &str| plan(&format!("--drives 3 --drive nvme-consumer --levels 5 {flags}")).ok().text();
    let with = notes("--simulate --bitmap-chunk 64M");
    assert!(
        with.contains("a bitmap with a bit for each 64 MiB leaves")
            && with.contains("few at a time lose more"),
        "{with}"
    );
    assert!(notes("--simulate").contains("no bitmap is simulated, which mdadm and create make"));
    let striped = plan("--drives 3 --drive nvme-consumer --levels 0 --simulate").ok().text();
    assert!(!striped.contains("bitmap"), "{striped}");
    let alone = plan("--drives 3 --drive nvme-consumer --bitmap-chunk 64M").ended(2);
    assert!(alone.err.contains("--simulate"), "{}", alone.err);
}

#[test]
fn needs_of_speed_drop_what_is_slower() {
    let four = "--drives 4 --size 2TB --iops 200 --mb-s 200 --format csv";
    let mirrors = plan(&format!("{four} --min-read-iops 300")).ok().text();
    assert_eq!(mirrors, format!("{HEAD}4,raid10,2x(1+1),4,400,1/3\n"));
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("load.fio");
    fs::write(&job, "[mix]\nrw=randread\nbs=4k\n").unwrap();
    // A load of one request at a time.
    let of_load = |least: u32| plan(&format!("{four} --workload {} --min-iops {least}", name(&job)));
    assert_eq!(of_load(100).ok().text(), format!("{HEAD}{FOUR}"));
    of_load(300).refused(1, &["none meets --min-iops 300", "does 200 requests of the load a second"]);
}

#[test]
fn a_plan_tells_of_each_configuration_and_takes_one() {
    let flags = "--drives 6 --size 2TB --iops 400/200 --mb-s 200 --price 50 --load 50 --sort write-iops";
    let report = plan(&format!("{flags} --json")).json();
    let pairs = one(&report, "raid10", "3x(1+1)");
    assert_eq!((pairs["net"].as_u64(), pairs["tolerates"].as_u64()), (Some(6_000_000_000_000), Some(1)));
    assert_eq!(
        (&pairs["loss_on_double_failure"], &pairs["loss_on_triple_failure"]),
        (&"1/5".into(), &"3/5".into())
    );
    assert_eq!(
        (pairs["random_read_iops"].as_f64(), pairs["random_write_iops"].as_f64()),
        (Some(2400.0), Some(600.0))
    );
    assert_eq!(
        (pairs["rebuild_seconds"].as_f64(), pairs["price_per_tb"].as_f64()),
        (Some(20_000.0), Some(50.0))
    );
    let pool = one(&report, "raidz2", "4+2");
    let allocated = pool["allocated"].as_u64().expect("RAID-Z is allocated");
    // Of 16 KiB: four sectors of data, two of parity and none of padding; 128 GiB are kept back, which is less than 1/32.
    assert!((7_850_000_000_000..7_860_000_000_000).contains(&allocated), "{allocated}");
    assert!(pairs["allocated"].is_null() && pool["creatable"] == true && pool["made_as"] == "pool");
    let tight = plan(&format!("{flags} --volblocksize 4K --json")).json();
    let allocated = one(&tight, "raidz2", "4+2")["allocated"].as_u64().expect("RAID-Z is allocated");
    assert!(allocated < 4_000_000_000_000, "a sector and two of parity: {allocated}");
    let taken = &report["recommended"];
    assert_eq!((&taken["level"], &taken["config"]), (&pairs["level"], &pairs["config"]));
    assert_eq!(
        taken["commands"][0],
        "brindle create --level 10 --layout n2 --chunk 512K drive1 drive2 drive3 drive4 drive5 drive6"
    );
    let text = plan(flags).ok().text();
    let marked = text.lines().find(|line| line.starts_with('*')).expect("one is marked");
    assert!(marked.contains("raid10   3x(1+1)") && text.contains("* Of the "), "{text}");
    let page = plan(&format!("{flags} --format html")).ok().text();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("3x(1+1)")
            && page.contains("default-src 'none'")
    );
}

#[test]
fn what_is_asked_for_stands_first() {
    let flags = "--drives 6,8 --size 2TB --iops 400/200 --mb-s 200 --price 50 --json";
    let share = |text: &str| {
        let (above, below) = text.split_once('/').unwrap_or((text, "1"));
        above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap()
    };
    let figure = |one: &Value, key: &str| match key {
        // Configurations without redundancy come last, whatever their shares.
        "loss" if one["tolerates"] == 0 => 2.0,
        "loss" => share(one["loss_on_double_failure"].as_str().unwrap()),
        "usable" => -one["allocated"].as_f64().or(one["net"].as_f64()).unwrap(),
        "rebuild_seconds" => one[key].as_f64().unwrap_or(f64::INFINITY),
        "price_per_tb" => one[key].as_f64().unwrap(),
        _ => -one[key].as_f64().unwrap(),
    };
    for (order, key) in [
        ("capacity", "usable"),
        ("read-iops", "random_read_iops"),
        ("write-iops", "random_write_iops"),
        ("loss", "loss"),
        ("price", "price_per_tb"),
        ("rebuild", "rebuild_seconds"),
    ] {
        let report = plan(&format!("{flags} --sort {order}")).json();
        let all = report["configurations"].as_array().unwrap();
        // Figures that differ by rounding only are equal.
        let figures: Vec<f32> = all.iter().map(|one| figure(one, key) as f32).collect();
        assert!(figures.len() > 20 && figures.is_sorted(), "--sort {order}: {figures:?}");
        let of = |fits: &dyn Fn(&Value) -> bool| figure(all.iter().find(|one| fits(one)).unwrap(), key);
        let best = of(&|one| one["made_as"] == "array" && one["tolerates"] != 0);
        let taken = of(&|one| one["recommended"] == true);
        assert!((taken - best).abs() <= 0.021 * best.abs(), "--sort {order}: {taken} of {best}");
    }
}

#[test]
fn needs_leave_out_what_does_not_meet_them_and_say_who_excludes_whom() {
    let four = "--drives 4 --size 2TB --iops 200";
    let report = plan(&format!("{four} --min-capacity 4TB --max-loss 1/3 --sort capacity --json")).json();
    let all = report["configurations"].as_array().expect("a list");
    assert!(all.iter().all(|one| one["net"].as_u64() >= Some(4_000_000_000_000)), "{report}");
    assert_eq!(report["recommended"]["level"], "raid6");
    assert!(report["fitting"].as_u64() < report["total"].as_u64());
    let refused = |flags: &str, words: &[&str]| plan(&format!("{four} {flags}")).refused(1, words);
    let both = "--min-capacity 6TB --tolerates 2";
    let said =
        ["--min-capacity 6TB and --tolerates 2 exclude each other", "raid6 2+2", "holds 4 TB", "tolerates 1"];
    refused(&format!("{both} --min-write-iops 100"), &said);
    refused("--min-capacity 16TB", &["none meets --min-capacity 16TB", "raid0 4", "8 TB"]);
    // With years it is the probability in that time.
    let report = plan(&format!("{four} --years 5 --max-loss 1e-3 --json")).json();
    let all = report["configurations"].as_array().expect("a list");
    let loss =
        |one: &serde_json::Value| one["loss"]["probability"]["value"].as_f64().expect("it is estimated");
    assert!(!all.is_empty() && all.iter().all(|one| loss(one) <= 1e-3), "{report}");
    assert!(report["fitting"].as_u64() < report["total"].as_u64());
    refused("--years 5 --max-loss 1e-12", &["--max-loss 1e-12", "loses data with probability"]);
    refused("--price 100 --budget 300", &["none meets --budget 300", "costs 400.00"]);
    let many = plan("--drives 2-60 --size 2TB --iops 200 --limit 10 --json").json();
    assert_eq!(many["listed"], 10);
    let text = plan("--drives 2-60 --size 2TB --iops 200 --limit 10").ok().text();
    assert!(text.contains("10 of ") && text.contains("narrow it with --drives"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_by_its_flag() {
    let wrong = |flags: &str, words: &[&str]| {
        let ran = plan(flags).ended(2);
        let said = words.iter().all(|word| ran.err.contains(word));
        assert!(said && ran.text().is_empty(), "{flags}: {}", ran.err);
    };
    let fine = "--drives 4 --size 2TB --iops 200";
    for count in ["0", "1", "-4", "4x", "500", "6-4"] {
        wrong(&format!("--drives={count} --size 2TB --iops 200"), &["--drives", count]);
    }
    // Sizes are refused too if the sum of all drives exceeds 64 bits.
    for size in ["0", "2XB", "-1TB", "900PB", "20PB", "1e3TB", "NaN", "999KB"] {
        wrong(&format!("--drives 24 --size={size} --iops 200"), &["--size"]);
        wrong(&format!("{fine} --and 2x{size}"), &["--and 2x"]);
    }
    for iops in ["0", "-200", "inf", "200/", "1e99", "99999999999", "0.01", "200/0.01"] {
        wrong(&format!("--drives 4 --size 2TB --iops={iops}"), &["--iops"]);
    }
    for rate in ["0", "-1", "NaN", "1e400", "9999999", "0.0001"] {
        wrong(&format!("{fine} --mb-s={rate}"), &["--mb-s"]);
    }
    for price in ["-1", "NaN", "1e400", "2000000000"] {
        wrong(&format!("{fine} --price={price}"), &["--price"]);
    }
    wrong(&format!("{fine} --limit 0"), &["--limit"]);
    wrong(&format!("{fine} --sort workload"), &["--sort workload", "--workload"]);
    wrong("--drives 4 --size 2TB", &["--iops"]);
    wrong("--drives 4 --iops 200", &["--size"]);
    wrong(&format!("{fine} --max-loss 4/3"), &["--max-loss", "1/3"]);
    wrong(&format!("{fine} --ashift 20"), &["--ashift 20"]);
    wrong(&format!("{fine} --volblocksize 5K"), &["--volblocksize"]);
    wrong(&format!("{fine} --budget 100"), &["--price"]);
    wrong(&format!("{fine} --levels raid7"), &["raid7", "raidz10"]);
    plan(&format!("{fine} --levels raidz3")).refused(1, &["none of --levels", "two data drives"]);
    wrong(&format!("{fine} --and 2x"), &["--and 2x"]);
    wrong(&format!("{fine} --simulate"), &["--mb-s", "--drive"]);
    wrong(&format!("{fine} --load 100"), &["--load"]);
    plan("--drives 4 --drive nothing").refused(1, &["nothing: no model of this name"]);
}

#[test]
fn unlike_drives_are_planned_together() {
    let report = plan("--drives 4 --size 2TB --iops 200 --and 2x4TB,iops=150 --json").json();
    assert_eq!(one(&report, "raid0", "6")["net"], 16_000_000_000_000_u64);
    assert_eq!(one(&report, "raid5", "5+1")["net"], 10_000_000_000_000_u64);
    assert_eq!(one(&report, "raid5", "5+1")["unlike_drives_as_the_least"], true);
    let joined = one(&report, "raid5+raid1", "3+1 & 1+1");
    assert_eq!(
        (&joined["net"], &joined["loss_on_double_failure"]),
        (&10_000_000_000_000_u64.into(), &"7/15".into())
    );
}

#[test]
fn the_simulator_stands_in_for_formulas_and_chooses_the_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("mixed.fio");
    fs::write(&job, "[mixed]\nrw=randrw\nrwmixread=65\nbs=64k\niodepth=16\n").unwrap();
    let flags = format!("--drives 4 --drive sata-ssd --levels raid10,raid5,raidz --workload {}", name(&job));
    let report = plan(&format!("{flags} --simulate --json")).json();
    assert_eq!(report["workload"]["reads"], 0.65);
    let pairs = one(&report, "raid10", "2x(1+1)");
    let (own, formula) = (&pairs["random_write_iops"], &pairs["formulas"]["random_write_iops"]);
    let apart = pairs["difference_percent"]["random_write_iops"].as_f64().expect("a difference");
    let (own, formula) = (own.as_f64().unwrap(), formula.as_f64().unwrap());
    assert!(((own / formula - 1.0) * 100.0 - apart).abs() < 1e-6 && apart.abs() < 60.0, "{pairs}");
    assert!(one(&report, "raidz", "3+1")["formulas"].is_null(), "there is no RAID-Z to simulate");
    let notes = report["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("RAID-Z")), "{report}");
    // As CSV both stand beside each other.
    let csv = plan(&format!("{flags} --simulate --format csv --columns all")).ended(0).text();
    let (head, rows) = csv.split_once('\n').unwrap();
    let row = rows.lines().find(|row| row.contains("2x(1+1)")).unwrap();
    let cell = |name: &str| {
        let place = head.split(',').position(|column| column == name).unwrap();
        row.split(',').nth(place).unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(cell("random_iops"), own.round(), "{csv}");
    assert_eq!(cell("formula_random_iops"), formula.round(), "{csv}");
    let taken = &report["recommended"];
    assert_eq!(taken["level"], "raid10");
    let tried = taken["chunks_tried"].as_array().expect("chunks were tried");
    let rate = |one: &Value| one["bytes_s"].as_f64().unwrap();
    let best = tried.iter().map(rate).fold(0.0, f64::max);
    let chosen = tried.iter().find(|one| one["chunk"] == taken["chunk"]).expect("one that was tried");
    assert!(tried.len() == 7 && rate(chosen) >= best * 0.99, "{taken}");
    // Of a load without a model no chunk can be tried, and of a stream nothing be said.
    let figures = format!("--drives 4 --size 2TB --iops 200 --workload {}", name(&job));
    let untried = plan(&format!("{figures} --json")).json();
    assert!(untried["recommended"]["chunks_tried"].is_null(), "{untried}");
    assert!(
        untried["notes"][0].as_str().unwrap().contains("no chunk was tried: the simulator needs"),
        "{untried}"
    );
    fs::write(&job, "[stream]\nrw=read\nbs=1m\niodepth=4\n").unwrap();
    plan(&figures).refused(2, &["--workload", "mixed.fio", "--mb-s"]);
    // Jobs count by what they have in flight, sizes by how often they come.
    fs::write(&job, "[a]\nrw=randread\nbssplit=4k/75:20k/25\niodepth=3\n[b]\nrw=randwrite\nbs=64k\n")
        .unwrap();
    let both = plan(&format!("{flags} --chunk 64K --json")).json();
    let load = |key: &str| both["workload"][key].as_f64().unwrap();
    assert_eq!((load("reads"), load("in_flight")), (0.75, 4.0));
    assert_eq!((load("read_size"), load("write_size")), (8192.0, 65536.0));
    fs::write(&job, "[mixed]\nrw=randrw\nrwmixread=65\nbs=64k\niodepth=16\n").unwrap();
    // Without a simulated load the figures are formulas, and the load decides.
    let plain = plan(&format!("{flags} --json")).json();
    assert!(one(&plain, "raid10", "2x(1+1)")["formulas"].is_null());
    let far = dir.path().join("wrong.fio");
    fs::write(&far, "[a]\nrw=sideways\n").unwrap();
    plan(&format!("--drives 4 --drive sata-ssd --workload {}", name(&far)))
        .refused(2, &["wrong.fio:2", "sideways"]);
}

#[test]
fn formulas_of_loads_come_near_the_simulator_on_disks_too() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("machines.fio");
    let load =
        |depth: u32| format!("[a]\nrw=randrw\nrwmixread=70\nbssplit=4k/60:16k/25:64k/15\niodepth={depth}\n");
    for (drive, depth) in [("hdd-7200", 8), ("hdd-7200", 64), ("nvme", 8), ("nvme", 256)] {
        fs::write(&job, load(depth)).unwrap();
        let levels = "raid0,raid5,raid6,raid10,raid50,raid60";
        let flags = format!("--drives 8 --drive {drive} --levels {levels} --simulate");
        let report = plan(&format!("{flags} --chunk 1M --workload {} --json", name(&job))).json();
        for one in report["configurations"].as_array().unwrap() {
            let apart = one["difference_percent"]["workload_iops"].as_f64().unwrap();
            assert!(apart.abs() < 25.0, "{drive}, {depth} in flight: {apart} % of {one}");
        }
        // Of a stripe one group runs, and counts as often as there are groups.
        let [whole, groups] =
            [("raid5", "7+1"), ("raid50", "2x(3+1)")].map(|(level, config)| one(&report, level, config));
        for key in ["random_read_iops", "random_write_iops", "seq_read"] {
            let ratio = groups[key].as_f64().unwrap() / whole[key].as_f64().unwrap();
            assert!((0.7..1.4).contains(&ratio), "{drive}, {key}: {ratio}");
        }
    }
    // A disk is slower at its end: from 250 to 125 MB/s over 8 TB are 44,361 s.
    let report = plan("--drives 4 --drive hdd-7200 --levels raid5 --json").json();
    let rebuild = one(&report, "raid5", "3+1")["rebuild_seconds"].as_f64().unwrap();
    assert!((43_000.0..46_500.0).contains(&rebuild), "{rebuild}");
}

#[test]
fn losses_are_estimated_with_an_interval() {
    let flags = "--drives 4 --size 2TB --iops 200 --mb-s 150 --levels raid1,raid5,raid6,raid10 --years 5";
    let report = plan(&format!("{flags} --json")).json();
    let of = |level: &str, config: &str, key: &str| {
        let interval = &one(&report, level, config)["loss"][key];
        let [low, value, high] =
            ["low", "value", "high"].map(|end| interval[end].as_f64().expect("a figure"));
        assert!(low <= value && value <= high && low > 0.0 && high < 1.0, "{level} {key}: {interval}");
        value
    };
    let loss = |level: &str, config: &str| of(level, config, "probability");
    assert!(loss("raid5", "3+1") > 5.0 * loss("raid6", "2+2"), "{report}");
    assert!(
        loss("raid10", "f2 over 4") > loss("raid10", "2x(1+1)"),
        "more pairs of drives hold all copies: {report}"
    );
    let bytes = one(&report, "raid5", "3+1")["loss"]["bytes_per_year"]["value"].as_f64().expect("bytes");
    assert!((bytes * 5.0 / 6e12 / of("raid5", "3+1", "nomdl") - 1.0).abs() < 1e-9);
    assert_eq!(report, plan(&format!("{flags} --json")).json(), "the same again");
    let late = plan(&format!("{flags} --spare-delay 168 --class sata-a-2014 --json")).json();
    let probability =
        |report: &Value| one(report, "raid5", "3+1")["loss"]["probability"]["value"].as_f64().unwrap();
    assert!(probability(&late) > probability(&report));
    assert!(late["notes"][0].as_str().is_some_and(|note| note.contains("sata-a-2014")), "{late}");
    plan(&format!("{flags} --class floppy")).refused(2, &["--class floppy", "hdd-2025"]);
    plan(&format!("{flags} --spare-delay=-1")).refused(2, &["--spare-delay"]);
    plan("--drives 4 --size 2TB --iops 200 --years 1000").refused(2, &["--years"]);
}

#[test]
fn a_link_that_all_drives_share_bounds_each_figure_by_formula_and_in_the_simulator() {
    let of = |flags: &str| {
        let words =
            format!("plan --json --drives 6 --drive p3700 --levels raid0,raid6,raidz2 --chunk 64K {flags}");
        program::brindle(words.split_whitespace()).json()
    };
    let (wide, narrow) = (of(""), of("--link 1GB/s"));
    let number = |report: &Value, level: &str, key: &str| {
        let all = report["configurations"].as_array().unwrap();
        all.iter().find(|one| one["level"] == level).unwrap()[key].as_f64().unwrap()
    };
    for level in ["raid0", "raid6", "raidz2"] {
        assert!(
            number(&wide, level, "seq_read") > 1e9 && number(&narrow, level, "seq_read") <= 1e9,
            "{narrow}"
        );
    }
    assert!((number(&narrow, "raid6", "random_write_iops") - 1e9 / 4096.0 / 6.0).abs() < 1.0, "{narrow}");
    assert!(number(&narrow, "raid6", "rebuild_seconds") > number(&wide, "raid6", "rebuild_seconds") * 1.5);
    let simulated = of("--link 1GB/s --simulate");
    assert!(number(&simulated, "raid0", "seq_read") < 1.02e9, "{simulated}");
    assert_eq!((&narrow["link"], &wide["link"]), (&1_000_000_000.into(), &Value::Null));
    // A figure that is no more than a bound says so.
    let bound = |level: &str| {
        narrow["configurations"].as_array().unwrap().iter().find(|one| one["level"] == level).unwrap()["random_is_bound"].clone()
    };
    assert_eq!((bound("raidz2"), bound("raid6")), (true.into(), false.into()));
    let notes = narrow["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("are bounds")), "{narrow}");
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("1000 MB/s")), "{narrow}");
    let refused = plan("--drives 6 --drive p3700 --link 0").ended(2).err;
    assert!(refused.contains("--link") && refused.contains("2GB/s"), "{refused}");
}
