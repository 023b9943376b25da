//! `brindle sweep --destroy`: arrays that are created on members which the user gives up, and measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::name;

/// Files that are members, empty.
fn members(dir: &Path, count: usize) -> Vec<PathBuf> {
    files::members(dir, "m", count, 32 * MIB)
}

fn words<'a>(flags: &'a str, folder: &'a Path, members: &'a [PathBuf]) -> Vec<&'a str> {
    let times = ["--runtime", "30ms", "--ramp-time", "5ms", "--output", name(folder), "--destroy"];
    let flags = flags.split(' ').filter(|flag| !flag.is_empty());
    ["sweep"].into_iter().chain(flags).chain(times).chain(members.iter().map(|member| name(member))).collect()
}

fn points(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("sweep.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["points"].as_array().unwrap().clone()
}

#[test]
fn arrays_are_made_measured_and_held_against_their_members() {
    let dir = tempfile::tempdir().unwrap();
    let (members, folder) = (members(dir.path(), 4), dir.path().join("s"));
    let flags = "--level none,0,6 --chunk 16K --members 1,3,4 --rw randread,randwrite --bs 4k --iodepth 4";
    // `none` is one drive by itself, and three kinds of it can't be asked for at once.
    program::brindle(words(flags, &folder, &members)).refused(2, &["--level none is one drive"]);
    let flags = "--level 0,6 --chunk 16K --members 3,4 --rw randread,randwrite --bs 4k --iodepth 4";
    let text = program::brindle(words(flags, &folder, &members)).ok().text();
    assert!(text.contains("8 points, 0 of them from before, 2 that can't be"), "{text}");
    assert!(text.contains("\n  2 can't be: raid6"), "{text}");
    for point in points(&folder) {
        let (figures, of) = (&point["figures"], &point["point"]);
        if of["level"] == "6" && of["members"] == "3" {
            assert!(figures.is_null() && point["refused"].as_str().unwrap().contains("raid6"), "{point}");
            continue;
        }
        for figure in ["mb_s", "iops", "p50_us", "p99_us", "max_us", "to_jbod", "to_limit"] {
            assert!(figures[figure].as_f64().is_some_and(|of| of > 0.0), "{figure}: {point}");
        }
    }
    // The last array stands on the members, and holds together.
    let detail =
        program::brindle(["detail", "--json"].into_iter().chain(members.iter().map(|of| name(of)))).json();
    assert_eq!((&detail["level"], &detail["raid_devices"]), (&"raid6".into(), &4.into()), "{detail}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    for word in
        ["measured: the engine on these members", "--destroy", "kernel", "scheduler", name(&members[3])]
    {
        assert!(page.contains(word), "{word}");
    }
    let one =
        program::brindle(words("--level none --rw read --bs 64k", &dir.path().join("one"), &members[..1]));
    one.refused(1, &["m0.img: carries", "--force"]);
    let one = program::brindle(words(
        "--force --level none --rw read --bs 64k",
        &dir.path().join("one"),
        &members[..1],
    ));
    one.ok();
    assert!(points(&dir.path().join("one"))[0]["figures"]["to_jbod"].is_null());
}

#[test]
fn mirrors_arrays_of_arrays_and_a_file_are_measured_in_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let (members, folder, file) = (members(dir.path(), 4), dir.path().join("s"), dir.path().join("file"));
    fs::File::create(&file).unwrap().set_len(8 * MIB).unwrap();
    let flags = format!("--level 1,1+0,5+0,6+0 --rw randread,randwrite --bs 4k --file {}", name(&file));
    let text = program::brindle(words(&flags, &folder, &members)).ok().text();
    assert!(text.contains("10 points, 0 of them from before, 2 that can't be"), "{text}");
    for point in points(&folder) {
        let can_be = point["point"]["level"] != "6+0";
        assert_eq!(point["figures"]["to_jbod"].as_f64().is_some_and(|of| of > 0.0), can_be, "{point}");
        assert!(can_be || point["refused"].as_str().unwrap().contains("raid6 needs at least 4"), "{point}");
    }
    // Members left by an interrupted sweep are recognised as its own, whichever array they belong to.
    let kept = fs::read_to_string(folder.join("points.jsonl")).unwrap();
    let first: Vec<&str> = kept.lines().take(4).collect();
    fs::write(folder.join("points.jsonl"), first.join("\n") + "\n").unwrap();
    let text = program::brindle(words(&flags, &folder, &members)).ok().text();
    assert!(text.contains("10 points, 3 of them from before"), "{text}");
    let simulated =
        ["sweep", "--simulate", "--drive", "nvme", "--level", "1+0", "--members", "4", "--output"];
    let text =
        program::brindle(simulated.iter().copied().chain([name(&dir.path().join("t"))])).ended(6).text();
    assert!(text.contains("1 that can't be"), "{text}");
}

#[test]
fn nothing_is_destroyed_that_was_not_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let (members, folder) = (members(dir.path(), 3), dir.path().join("s"));
    let run = |flags: &str| program::brindle(words(flags, &folder, &members));
    program::brindle(["create", "--level", "1", name(&members[1]), name(&members[2])]).ok();
    let before: Vec<Vec<u8>> = members.iter().map(|member| fs::read(member).unwrap()).collect();
    run("--level 5").refused(1, &["m1.img: carries", "--force"]);
    // A suite counts to as many as are there.
    let scaled = program::brindle(words("--suite scaling --rw randrad", &folder, &members)).ended(2).err;
    assert!(
        scaled.contains("--members 4,6,8,10,12,16,24 are left out") && scaled.contains("randrad"),
        "{scaled}"
    );
    // Words that mean nothing are told before anything is written, whatever else stands there.
    run("--force --level 5 --members 4").refused(2, &["--members 4, but --destroy names 3"]);
    run("--force --level 5 --rw randred").refused(2, &["randred"]);
    run("--force --level 7").refused(2, &["7"]);
    // With 1 MiB there are 32 and one for each of eight jobs.
    let much = ["7 of 56 points", "need 264 MiB", "128 MiB may be used", "--memory 528M or more"];
    run("--force --level 5 --suite mix-matrix").refused(2, &much);
    assert!(run("--simulate --drive nvme").ended(2).err.contains("cannot be used with"));
    assert!(program::brindle(["sweep", "--level", "5"]).ended(2).err.contains("--destroy"));
    assert!(program::brindle(["sweep", "--drive", "nvme"]).ended(2).err.contains("--simulate"));
    let after: Vec<Vec<u8>> = members.iter().map(|member| fs::read(member).unwrap()).collect();
    assert!(before == after, "nothing was written");
    run("--force --level 5 --bs 4k").ok();
}

#[test]
fn a_sweep_that_is_interrupted_keeps_its_points_and_goes_on_over_its_own_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let (members, folder) = (members(dir.path(), 3), dir.path().join("s"));
    let flags = "--level 0,5 --rw randread,randwrite,read,write --bs 4k,8k";
    let asked = words(flags, &folder, &members);
    let kept = || fs::read_to_string(folder.join("points.jsonl")).map_or(0, |text| text.lines().count());
    let mut command = Command::new(program::path());
    let sweep = command.args(&asked).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The second array is there once more than a head and eight points are kept.
    while kept() < 10 {
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&sweep), Signal::INT).unwrap();
    let ended = sweep.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("the same command goes on"), "{said}");
    let (count, csv) = (kept() - 1, fs::read_to_string(folder.join("sweep.csv")).unwrap());
    assert!((9..16).contains(&count), "{count} points were kept");
    assert_eq!(csv.lines().count(), 1 + count, "the report has what was finished");
    // Its own superblocks are on the members now, and need no force.
    let text = program::brindle(asked).ok().text();
    assert!(text.contains(&format!("16 points, {count} of them from before")), "{text}");
    let again = fs::read_to_string(folder.join("sweep.csv")).unwrap();
    for line in csv.lines() {
        assert!(again.contains(line), "{line} was kept");
    }
    let other = format!("{flags} --read-policy first");
    program::brindle(words(&other, &folder, &members)).refused(2, &["holds another sweep"]);
}
