//! `emulate:MODEL:FILE`: members that store in files and answer as modelled drives do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use brindle_tests::files::{self, MIB};
use brindle_tests::program;

use super::name;

/// A drive whose reads take 20 ms, whatever their size; writes take 1.
const SLOW: &str = "name = 'slow'\nsource = 'made up'\nsize_gb = 1\nunits = 4\nflush_us = 0\n\
    [read]\nlatency_us = [[0, 20000]]\noccupancy_us = [[0, 0]]\n[write]\nlatency_us = [[0, 1000]]\noccupancy_us = [[0, 0]]\n";

/// Members of a model over files of this folder.
fn emulated(model: &str, dir: &Path, count: usize) -> Vec<String> {
    files::members(dir, "m", count, 16 * MIB)
        .iter()
        .map(|file| format!("emulate:{model}:{}", name(file)))
        .collect()
}

fn run(flags: &str, members: &[String]) -> program::Ran {
    program::brindle(flags.split(' ').chain(members.iter().map(String::as_str)))
}

#[test]
fn an_array_of_emulated_drives_is_one_of_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let members = emulated("nvme", dir.path(), 3);
    run("create --level 5", &members).ended(0);
    // Late answers on a busy machine are logged, and don't matter here.
    let written = run(
        "bench --rw=randwrite --bs=4k --iodepth=8 --number_ios=500 --verify=crc32c --force --array",
        &members,
    );
    written.ended(0);
    let files: Vec<String> = members.iter().map(|name| name.rsplit(':').next().unwrap().to_owned()).collect();
    run("check", &files).ok();
    let [ours, theirs] = [&members, &files].map(|names| run("cat", names).ended(0).out);
    assert!(ours == theirs && ours.iter().any(|byte| *byte != 0));
    // One file is one device, however it is named.
    let twice = [&members[..1], &files[..1]].concat();
    run("detail", &twice).refused(2, &["are the same device"]);
}

#[test]
fn answers_never_come_before_the_model_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("slow.toml");
    fs::write(&model, SLOW).unwrap();
    let members = emulated(name(&model), dir.path(), 1);
    let begun = Instant::now();
    let report = run(
        "bench --rw=randread --bs=4k --iodepth=4 --number_ios=40 --output-format=json --device",
        &members,
    );
    let report = report.ended(0).report();
    let read = &report["jobs"][0]["read"];
    assert_eq!(read["total_ios"], 40);
    // A client may get what it asks for behind a late answer a little sooner: see the credit of `io::emulated`.
    let least = read["lat_ns"]["min"].as_u64().unwrap();
    assert!(least >= 19_900_000, "{read}");
    assert!(begun.elapsed() >= Duration::from_millis(198), "ten times four at once");
}

#[test]
fn a_model_that_is_none_is_told_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let members = emulated("nothing", dir.path(), 2);
    run("create --level 1", &members).refused(1, &["nothing: no model of this name ships"]);
    let broken = dir.path().join("broken.toml");
    fs::write(&broken, SLOW.replace("units = 4", "units = 0")).unwrap();
    let members = emulated(name(&broken), dir.path(), 2);
    run("create --level 1", &members).refused(1, &["broken.toml:4: units"]);
    run("create --level 1", &["emulate:nvme:/nowhere/x".to_owned()]).refused(1, &["/nowhere/x"]);
}
