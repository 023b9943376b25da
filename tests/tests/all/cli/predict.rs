//! `brindle calibrate` and `brindle simulate`, as a user asks for them.

use std::fs;

use brindle_testkit::browser;
use brindle_testkit::skip::{find, or_skip};
use brindle_tests::program;
use serde_json::Value;

use super::name;

const ASKED: &str = "simulate --members 4 --level 10 --layout n2 --chunk 32K --rw randread --bs 64K --as linux-md --kernel 4.11 --json --drive";

fn words(flags: &str, last: &str) -> Vec<String> {
    flags.split(' ').map(str::to_owned).chain([last.to_owned()]).collect()
}

#[test]
fn a_prediction_has_all_figures_and_is_the_same_again() {
    let report = program::brindle(words(ASKED, "evo850")).json();
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"));
    assert!((340.0..430.0).contains(&number("mb_s")), "390 MiB/s were published: {report}");
    assert!((number("iops") / number("mb_s") - 16.0).abs() < 0.01 && number("cpu_share") < 0.1);
    assert_eq!(report["utilisation"].as_array().map(Vec::len), Some(4));
    let latency = &report["latency_us"];
    assert!(
        latency["mean"].as_f64() < latency["max"].as_f64() && latency["percentile"]["99.000000"].is_number()
    );
    assert_eq!(report, program::brindle(words(ASKED, "evo850")).json());
    program::brindle(words(ASKED, "evo")).refused(1, &["evo: no model of this name", "evo850, p3700"]);
    program::brindle(words(&ASKED.replace("--as linux-md --kernel 4.11", "--cores 0"), "evo850"))
        .refused(2, &["--cores must be from 1 to 1024"]);
    let two = ASKED.replace("--members 4 --level 10 --layout n2", "--members 2 --level 6");
    program::brindle(words(&two, "evo850")).refused(2, &["raid6"]);
}

#[test]
fn md_is_that_of_a_kernel_and_a_core_is_no_more_than_whole() {
    let flags =
        "simulate --members 12 --level 6 --chunk 16K --rw randread --bs 4k --iodepth 1024 --drive p3700";
    let of = |more: &str| program::brindle(words(&format!("{flags} {more}"), "--json")).json();
    let (older, usual) = (of("--as linux-md --kernel 4.11"), of("--as linux-md"));
    let iops = |report: &Value| report["iops"].as_f64().expect("a number");
    assert_eq!((&older["kernel"], &usual["kernel"]), (&"Linux 4.11".into(), &"Linux 6.12".into()));
    assert!((1_600_000.0..2_100_000.0).contains(&iops(&older)), "1.90 M were published: {older}");
    assert!(iops(&usual) > 1.4 * iops(&older), "{usual}");
    let ours = of("--as brindle");
    assert!(ours["kernel"].is_null() && ours["cpu_share"].as_f64().expect("a share") <= 1.0, "{ours}");
    assert!(ours["drives_carry"].as_f64().expect("a core is the limit") > 10.0, "{ours}");
    let text = program::brindle(words(flags, "--as=brindle")).ok().text();
    assert!(text.contains("one core carries no more: the drives would"), "{text}");
    assert!(text.contains("as brindle, by NBD over TCP;"), "{text}");
    assert_eq!((&ours["door"], &usual["door"]), (&"tcp".into(), &Value::Null));
    let two = of("--as brindle --cores 2");
    assert!((1.8..2.0).contains(&(iops(&two) / iops(&ours))), "{two}");
    let text = program::brindle(words(flags, "--cores=2")).ok().text();
    assert!(text.contains("2 cores carry no more: the drives would"), "{text}");
    let text = program::brindle(words(&format!("{flags} --cores 2"), "--door=iscsi")).ok().text();
    assert!(text.contains("one core of 2 carries no more"), "{text}");
    assert!(program::brindle(words(flags, "--kernel=six")).ended(2).err.contains("no version of Linux"));
}

#[test]
fn the_door_by_which_the_load_comes_costs_the_core_time() {
    let flags = "simulate --members 8 --level 0 --rw randread --bs 4k --iodepth 512 --drive nvme --json";
    let iops = |door: &str| {
        let report = program::brindle(words(flags, &format!("--door={door}"))).json();
        assert_eq!(report["door"], door);
        report["iops"].as_f64().expect("a number")
    };
    let rates = ["tcp", "unix", "iscsi", "in-process"].map(iops);
    assert!(rates.is_sorted_by(|slower, faster| slower * 1.02 < *faster), "{rates:?}");
    assert_eq!(program::brindle(words(flags, "--as=brindle")).json()["iops"].as_f64(), Some(rates[0]));
    for (flags, why) in [
        (format!("{flags} --as linux-md"), "--door goes with --as brindle"),
        (
            flags.replace("--members 8 --level 0", "--members 1 --level none"),
            "one drive by itself is not served",
        ),
    ] {
        program::brindle(words(&flags, "--door=unix")).refused(2, &[why]);
    }
    let text = program::brindle(words(&flags.replace(" --json", ""), "--door=iscsi")).ok().text();
    assert!(text.contains("as brindle, by iSCSI over TCP;"), "{text}");
}

#[test]
fn the_choice_of_copies_by_name_is_that_of_kernels_before_and_since() {
    let flags =
        "simulate --members 4 --level 10 --rw randread --bs 4k --iodepth 8 --as linux-md --drive nvme --json";
    let iops =
        |more: &[&str]| program::brindle(flags.split(' ').chain(more.iter().copied())).json()["iops"].clone();
    let (nearest, pending) =
        (iops(&["--read-balance", "nearest"]), iops(&["--read-balance", "least-pending"]));
    assert_ne!(nearest, pending);
    assert_eq!((nearest, pending), (iops(&["--kernel", "5.3"]), iops(&[])));
    let both = program::brindle(flags.split(' ').chain(["--read-balance", "nearest", "--kernel", "5.3"]));
    assert!(both.ended(2).err.contains("--read-balance"));
}

#[test]
fn a_table_becomes_a_model_that_can_be_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, model) = (dir.path().join("t.csv"), dir.path().join("m.toml"));
    fs::write(&csv, "# mine\npattern,bs_kib,mb_s\nrandread,8,64\nrandread,1024,460\nrandwrite,8,166\n")
        .unwrap();
    let flags = ["calibrate", "--json", "--from", name(&csv), "--output", name(&model)];
    let report = program::brindle(flags).json();
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(3));
    assert!(report["mean_absolute_error_percent"].as_f64().unwrap() < 3.0, "{report}");
    assert!(fs::read_to_string(&model).unwrap().contains("name = \"t\""));
    assert!(fs::read_to_string(&model).unwrap().contains("uplink_mb_s = 1780"));
    assert!(report["guesses"][0].as_str().unwrap().contains("taken for a SATA drive"), "{report}");
    let said = program::brindle(flags.iter().copied().chain(["--port", "nvme"])).json();
    assert_eq!(said["guesses"].as_array().map(Vec::len), Some(0), "{said}");
    assert!(!fs::read_to_string(&model).unwrap().contains("uplink_mb_s"));
    program::brindle(words(ASKED, name(&model))).ok();
    let forced = flags.iter().copied().chain(["--force"]);
    assert!(
        program::brindle(forced).ended(2).err.contains("--force"),
        "nothing is measured that could be forced"
    );
    fs::write(&csv, "pattern,bs_kib,mb_s\nrandread,8\n").unwrap();
    program::brindle(flags).refused(1, &["t.csv:2: 2 columns"]);
}

#[test]
fn a_fit_that_is_not_to_be_trusted_is_named_with_a_status_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, late) = (dir.path().join("t.csv"), dir.path().join("l.csv"));
    let doubts = |mixes: &str, latency: &str| {
        fs::write(&csv, mixes).unwrap();
        fs::write(&late, latency).unwrap();
        let flags = ["calibrate", "--json", "--from", name(&csv), "--from", name(&late)];
        let ran = program::brindle(flags);
        let report: Value =
            serde_json::from_slice(&ran.out).unwrap_or_else(|why| panic!("{why}: {}", ran.err));
        let doubts: Vec<String> =
            report["doubts"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
        ran.ended(if doubts.is_empty() { 0 } else { 7 });
        doubts
    };
    assert_eq!(doubts("bs,r0,r100\n4k,20000,80000\n", "stat,bs,r0,r100\navg,4k,0.1,0.1\n"), [""; 0]);
    let slower = doubts("bs,r0,r100\n4k,20000,5000\n", "stat,bs,r0,r100\navg,4k,0.1,0.1\n");
    assert!(
        slower[0].contains("t.csv:2: 4K, 100 % reads: 5000 requests a second") && slower[0].contains("10000"),
        "{slower:?}"
    );
    // No one drive has such figures.
    let odd = doubts(
        "bs,r0,r50,r100\n4k,20000,20000,80000\n8k,20000,90000,80000\n",
        "stat,bs,r0,r100\navg,4k,0.001,9\n",
    );
    assert!(odd.iter().any(|doubt| doubt.contains("on average")), "{odd:?}");
}

#[test]
fn a_prediction_says_what_its_model_was_not_fitted_to() {
    let of = |flags: &str| {
        let flags = format!("simulate --level none --members 1 --rw randread --json {flags}");
        let reported = program::brindle(flags.split(' ')).json();
        reported["extrapolated"].as_array().unwrap().len()
    };
    assert_eq!(of("--drive evo850 --bs 64k"), 0);
    assert_eq!(of("--drive evo850 --bs 4k --iodepth 32"), 2);
    let text = program::brindle(
        "simulate --level none --members 1 --rw randread --bs 64k --iodepth 32 --drive evo850".split(' '),
    );
    assert!(
        text.ok().text().contains("extrapolated: evo850 was fitted to no load with many requests in flight")
    );
}

#[test]
fn a_drive_is_measured_and_written_to_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let (drive, model) = (dir.path().join("disk.img"), dir.path().join("m.toml"));
    let content: Vec<u8> = (0..8 << 20).map(|at: u32| (at / 7) as u8).collect();
    fs::write(&drive, &content).unwrap();
    let calibrate = |more: &[&str]| {
        let flags = ["calibrate", name(&drive), "--runtime", "20ms", "--json", "--output", name(&model)];
        let ran = program::brindle([&flags, more].concat());
        let report: Value =
            serde_json::from_slice(&ran.out).unwrap_or_else(|why| panic!("{why}: {}", ran.err));
        // The figures of a file in so short a time may be the machine's.
        let trusted = report["trusted"].as_bool().unwrap();
        ran.ended(if trusted { 0 } else { 7 });
        assert_eq!(report["doubts"].as_array().unwrap().is_empty(), trusted, "{report}");
        let rows = report["rows"].as_array().map(Vec::len);
        program::brindle(words(ASKED, name(&model))).ok();
        (rows, fs::read_to_string(&model).unwrap())
    };
    let (rows, text) = calibrate(&[]);
    assert_eq!(rows, Some(10));
    assert!(text.contains("Writes were not measured") && text.contains("name = \"disk\""), "{text}");
    assert!(fs::read(&drive).unwrap() == content, "nothing was written");
    let (rows, text) = calibrate(&["--force"]);
    assert_eq!(rows, Some(30));
    assert!(!text.contains("Writes were not measured") && text.contains("[[mixed]]"), "{text}");
    assert!(fs::read(&drive).unwrap() != content);
    program::brindle(["calibrate", name(&dir.path().join("none"))]).refused(1, &["none"]);
}

#[test]
fn a_sweep_goes_on_where_it_was_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    let flags = "sweep --simulate --drive nvme --level 0,6 --members 2,4 --bs 4k,64k --iodepth 8 --output";
    program::brindle(words(flags, name(&folder))).ok();
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    let (csv, html, kept) = (read("sweep.csv"), read("report.html"), read("points.jsonl"));
    assert_eq!((csv.lines().count(), kept.lines().count()), (9, 9), "{csv}");
    assert_eq!(
        csv.lines().filter(|line| line.ends_with('"')).count(),
        2,
        "RAID 6 of two members can't be: {csv}"
    );
    assert!(
        html.contains("brindle simulate --drive nvme --as brindle") && html.contains("default-src 'none'"),
        "it needs no network"
    );
    // The file is cut within its last line, as by a power cut.
    let cut = &kept[..kept.len() - 9];
    fs::write(folder.join("points.jsonl"), cut).unwrap();
    let text = program::brindle(words(flags, name(&folder))).ok().text();
    assert!(text.contains("8 points, 7 of them from before, 2 that can't be"), "{text}");
    assert_eq!(read("sweep.csv"), csv);
    let other = flags.replace("nvme", "sata-ssd");
    program::brindle(words(&other, name(&folder))).refused(2, &["holds another sweep"]);
    program::brindle(words("sweep --drive nvme --output", name(&folder))).ended(2);
    program::brindle(words("sweep --simulate --drive nvme --suite", "nothing")).refused(1, &["mix-matrix"]);
}

#[test]
fn some_blocks_may_be_drawn_more_often_and_a_report_says_how_to_ask_for_it() {
    let dir = tempfile::tempdir().unwrap();
    program::brindle(words(
        "sweep --simulate --drive nvme --level 0 --suite jesd219 --output",
        name(dir.path()),
    ))
    .ok();
    let html = fs::read_to_string(dir.path().join("report.html")).unwrap();
    let Some(chromium) = or_skip(find("chromium")) else { return };
    let look = "seen.command = document.querySelector('#points code').textContent.trim();";
    let seen: Value = serde_json::from_str(&browser::look(&chromium, &html, 800, look)).unwrap();
    let command = seen["command"].as_str().unwrap().strip_prefix("brindle ").unwrap();
    assert!(command.contains("--random_distribution zoned:50/5:30/15:20/80"), "{command}");
    let alone = program::brindle(command.split(' ').chain(["--json"])).json();
    let csv = fs::read_to_string(dir.path().join("sweep.csv")).unwrap();
    assert!(csv.contains(alone["digest"].as_str().unwrap()), "the same run: {alone} {csv}");
    let flags = "simulate --drive nvme --members 1 --level none --rw read --bs 4k --random_distribution";
    program::brindle(words(flags, "zipf:1.2")).refused(2, &["random_distribution needs random requests"]);
}

#[test]
fn a_job_file_is_simulated_as_the_words_that_mean_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("it's <b>jobs<b> \"x\".fio");
    fs::write(&file, "[global]\nrw=randrw\nrwmixread=70\nbs=8k\n[one]\niodepth=16\nnumjobs=2\n").unwrap();
    let flags = "simulate --drive nvme-tlc --members 4 --level 5 --chunk 64K --json";
    let reported = program::brindle(words(flags, name(&file))).json();
    let same = format!("{flags} --rw randrw --rwmixread 70 --bs 8k --iodepth 16 --numjobs");
    assert_eq!(reported["digest"], program::brindle(words(&same, "2")).json()["digest"]);
    fs::write(&file, "[a]\nrw=randread\nbs=4k\niodepth=8\n[b]\nrw=write\nbs=64k\n").unwrap();
    let two = program::brindle(words(flags, name(&file))).ended(0);
    // The name is data, whatever stands in it.
    assert!(two.err.contains("it's <b>jobs<b> \"x\".fio: its 2 jobs count as one"), "{}", two.err);
    assert!(
        two.report()["read_iops"].as_f64().unwrap() > 0.0
            && two.report()["write_iops"].as_f64().unwrap() > 0.0
    );
    fs::write(&file, "[a]\nrw=trim\n").unwrap();
    program::brindle(words(flags, name(&file))).refused(2, &["trims"]);
    let both = format!("{flags} --rw read --bs 4k");
    assert!(program::brindle(words(&both, name(&file))).ended(2).err.contains("cannot be used with"));
    assert!(
        program::brindle(words("simulate --drive nvme --level 0 --members", "2"))
            .ended(2)
            .err
            .contains("JOBFILE")
    );
}
