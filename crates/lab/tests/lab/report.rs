//! Reports: the same keys as fio's own, and values that agree with one another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::memory::Memory;
use brindle_lab::report::{DiskStats, Run, grouped, json, logs, series_csv, series_html, text};
use brindle_lab::run::{Live, Outcome, Terms, run};
use brindle_testkit::skip::{find, or_skip};
use brindle_volume::LoneMember;
use serde_json::Value;

const SIZE: u64 = 4 << 20;

fn measured(file: &str) -> (Run, Vec<Outcome>) {
    let memory = Memory::new();
    let member = memory.add_ram(SIZE);
    let io = Io::new(Box::new(memory));
    let device = LoneMember::new(&io, member, false).expect("a member");
    let plan = crate::made::plan(file);
    let terms = Terms::new(1, 1 << 30);
    let outcomes = io.block_on(run(&io, &[device], &plan.jobs, terms, &Rc::new(Live::default())));
    io.shutdown();
    let report = Run { global: plan.global, disks: vec![DiskStats::default()], bins: true, ..Run::default() };
    (report, outcomes.expect("a run"))
}

/// The keys of a value with the kinds of what they hold; numbers that depend on what was measured stand for one another.
fn tree(value: &Value, path: &str, found: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_bin = path.ends_with("/bins") && key.bytes().all(|byte| byte.is_ascii_digit());
                tree(value, &format!("{path}/{}", if is_bin { "BIN" } else { key }), found);
            }
            "object"
        }
        Value::Array(list) => {
            // Disks are those of the machine.
            let jobs = path == "/jobs";
            let place = |at: usize| if jobs { at } else { 0 };
            list.iter()
                .enumerate()
                .for_each(|(at, value)| tree(value, &format!("{path}/{}", place(at)), found));
            "list"
        }
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "fraction",
        Value::Number(_) => "whole",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    found.insert(path.to_owned(), kind);
}

/// Keys that are always reported here, and keys that depend on the machine.
fn is_free(path: &str) -> bool {
    let always = ["rw", "bs", "iodepth", "numjobs"].map(|option| format!("/job options/{option}"));
    // Aggregates of disks beneath a disk are of the machine that fio ran on.
    // fio writes these with continue_on_error only.
    let errors = ["/total_err", "/first_error"];
    always.iter().map(String::as_str).chain(errors).any(|end| path.ends_with(end)) || path.contains("/aggr_")
}

fn fios_own(fio: &Path, folder: &Path, job: &str, format: &str) -> Value {
    let file = folder.join("job.fio");
    std::fs::write(&file, job).expect("a file");
    let target = folder.join("target");
    std::fs::write(&target, vec![0u8; SIZE as usize]).expect("a file");
    let output = Command::new(fio)
        .current_dir(folder)
        .arg(format!("--output-format={format}"))
        .arg(&file)
        .output()
        .expect("fio runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin =
        said.find('{').unwrap_or_else(|| panic!("{said} {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&said[begin..]).expect("JSON")
}

#[test]
fn keys_are_those_of_fio() {
    let Some(fio) = or_skip(find("fio")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let job = "[global]\nfilename=target\nsize=1m\nioengine=libaio\n[mixed]\nrw=randrw\nbs=4k\niodepth=4\nnumjobs=2\n\
        group_reporting\n[flushing]\nstonewall\ndescription=flushes\nrw=write\nbs=64k\nfsync=4\nend_fsync=1\nlat_percentiles=1\npercentile_list=50:99.5\n\
        [unified]\nstonewall\nrw=randrw\nunified_rw_reporting=mixed\n";
    for (format, bins) in [("json", false), ("json+", true)] {
        let fios = fios_own(&fio, folder.path(), job, format);
        let (report, outcomes) = measured(job);
        let ours = json(&Run { bins, ..report }, &grouped(&outcomes));
        let keys = |value: &Value| {
            let mut found = BTreeMap::new();
            tree(value, "", &mut found);
            found.retain(|path, _| !is_free(path));
            found.into_iter().collect::<BTreeSet<_>>()
        };
        let (fios, ours) = (keys(&fios), keys(&ours));
        let only =
            |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).cloned().collect::<Vec<(String, &str)>>();
        assert_eq!(
            (only(&fios, &ours), only(&ours, &fios)),
            (vec![], vec![]),
            "only fio's, only ours: {format}"
        );
    }
}

#[test]
fn values_agree_with_one_another() {
    let (report, outcomes) =
        measured("[a]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=4\n[b]\nstonewall\nrw=read\nbs=64k\n");
    let all = json(&report, &grouped(&outcomes));
    let a = &all["jobs"][0];
    let ios = |direction: &str| a[direction]["total_ios"].as_u64().expect("a number");
    assert_eq!(ios("read") + ios("write"), SIZE / 4096);
    assert_eq!(a["read"]["io_bytes"].as_u64(), Some(ios("read") * 4096));
    assert_eq!(a["read"]["clat_ns"]["N"].as_u64(), Some(ios("read")));
    let bins = a["read"]["clat_ns"]["bins"].as_object().expect("bins");
    assert_eq!(bins.values().filter_map(Value::as_u64).sum::<u64>(), ios("read"));
    let percentiles = a["read"]["clat_ns"]["percentile"].as_object().expect("percentiles");
    assert!(percentiles.contains_key("99.000000") && percentiles.len() == 17);
    let shares = ["latency_ns", "latency_us", "latency_ms"]
        .map(|of| a[of].as_object().expect("shares").values().filter_map(Value::as_f64).sum::<f64>());
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.01, "{shares:?}");
    let depths: f64 =
        a["iodepth_level"].as_object().expect("shares").values().filter_map(Value::as_f64).sum();
    assert!((depths - 100.0).abs() < 0.01);
    let options = &all["jobs"][1]["job options"];
    assert_eq!((options["rw"].as_str(), options["iodepth"].as_str()), (Some("read"), Some("1")));
    assert_eq!(all["jobs"][1]["groupid"], 1);
    assert!(text(&outcomes).contains("a: group 0, rw=randrw, bs=4k, iodepth=4"));
}

#[test]
fn logs_have_fios_names_and_columns() {
    let (_, outcomes) = measured(
        "[a]\nrw=randread\nsize=64k\nwrite_lat_log=x\nwrite_bw_log\n[b]\nrw=write\nsize=64k\n\
        write_iops_log=y\nlog_avg_msec=10000\n",
    );
    let logs = logs(&outcomes);
    let names: Vec<_> = logs.iter().map(|log| log.name.as_str()).collect();
    assert_eq!(names, ["a_bw.1.log", "x_lat.1.log", "x_clat.1.log", "x_slat.1.log", "y_iops.2.log"]);
    assert_eq!(logs[1].text.lines().count(), 16, "each request");
    for line in logs[..4].iter().flat_map(|log| log.text.lines()) {
        let columns: Vec<u64> = line.split(", ").map(|column| column.parse().expect("a number")).collect();
        assert!(columns.len() == 5 && columns[2] <= 1 && columns[3] == 4096, "{line}");
    }
    assert_eq!(logs[4].text, "10000, 1, 1, 0, 0\n", "16 requests in 10 seconds");
    let (_, outcomes) = measured("[a]\nrw=read\nsize=64k\nwrite_bw_log\nlog_offset=1\n");
    let text = &brindle_lab::report::logs(&outcomes)[0].text;
    assert!(text.lines().nth(2).is_some_and(|line| line.ends_with(", 0, 4096, 8192, 0")), "{text}");
}

#[test]
fn what_happened_over_time_is_a_table_and_a_page() {
    let (_, outcomes) = measured("[a<b]\nrw=randrw\nbs=4k\nlog_avg_msec=10000\n");
    let table = series_csv(&outcomes);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["job", "direction", "seconds", "iops", "mb_s", "mean_us", "max_us"]);
    assert_eq!((rows.len(), rows[1][0], rows[1][1], rows[2][1]), (3, "\"a<b\"", "read", "write"));
    let number = |row: &Vec<&str>, at: usize| row[at].parse::<f64>().expect("a number");
    let ios: f64 = rows[1..].iter().map(|row| number(row, 3) * 10.0).sum();
    assert!((ios - 1024.0).abs() < 2.0, "{table}");
    assert!(rows[1..].iter().all(|row| number(row, 6) >= number(row, 5)), "{table}");
    let page = series_html("over time", &[("kernel".to_owned(), "6".to_owned())], &outcomes);
    let (_, data) = page.split_once("id=\"data\">").expect("data");
    let data: Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
    let lines: Vec<_> = data["lines"].as_array().expect("lines").iter().map(|line| &line["name"]).collect();
    assert_eq!(lines, ["a<b read", "a<b write"], "{data}");
    assert!(!page.contains("<b read") && page.contains("uPlot 1.6.32"));
}

#[test]
fn groups_are_reported_as_one_where_that_is_asked_for() {
    let (_, outcomes) =
        measured("[a]\nnumjobs=3\nsize=64k\n[b]\nnew_group\nnumjobs=2\ngroup_reporting\nsize=64k\n");
    let ios: Vec<u64> = grouped(&outcomes).iter().map(Outcome::ios).collect();
    assert_eq!(ios, [16, 16, 16, 32]);
}
