//! `brindle advise` on plain files, and on a copy of a machine's sysfs.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::brindle;
use brindle_tests::tools::{self, or_skip};
use serde_json::{Value, json};

use super::{Set, name, run};

#[track_caller]
fn finding<'a>(report: &'a Value, topic: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("no {topic} in {report:#}"))
}

/// An array with a file system on it, made as a user does: in an image, which `serve` and a client bring onto the members.
fn with_file_system(mkfs: &str, flags: &[&str]) -> Option<Set> {
    let mkfs = or_skip(tools::find(mkfs))?;
    let nbdcopy = or_skip(tools::find("nbdcopy"))?;
    let set = Set::sparse(4, 400 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    let image = set.path("image");
    files::sparse(&image, set.detail()["size"].as_u64().unwrap());
    tools::run(&mkfs, flags.iter().map(OsStr::new).chain([image.as_os_str()]));
    let server = set.serve("");
    tools::run(&nbdcopy, ["--flush".as_ref(), image.as_os_str(), server.uri().as_ref()]);
    server.stop();
    Some(set)
}

/// The load of a file system that does not know of rows.
const AMID: &str = "files that begin amid rows, as they may now";

#[test]
fn a_file_system_that_was_told_nothing_gets_the_command_that_tells_it() {
    let Some(set) = with_file_system("mkfs.ext4", &["-q", "-F", "-b", "4096"]) else { return };
    set.unchanged(|| {
        let report = set.run("advise --json").json();
        let found = finding(&report, "file system");
        assert_eq!(found["verdict"], "change", "{found}");
        assert_eq!(found["command"], "tune2fs -E stride=16,stripe_width=48 /dev/nbd0");
        assert!(found["expected"].as_str().unwrap().contains("name a model with --drive"));
        let report = set.run("advise --json --drive hdd-7200").json();
        better(&report, "file system", [AMID, "files that begin with rows"], 4.0);
    });
}

#[test]
fn a_file_system_that_knows_the_array_is_left_alone() {
    let right = ["-q", "-F", "-b", "4096", "-E", "stride=16,stripe-width=48"];
    let Some(set) = with_file_system("mkfs.ext4", &right) else { return };
    assert_eq!(finding(&set.run("advise --json").json(), "file system")["verdict"], "fine");
}

#[test]
fn xfs_tells_what_it_was_told() {
    let Some(set) = with_file_system("mkfs.xfs", &["-q", "-f", "-d", "su=131072,sw=3"]) else { return };
    let report = set.run("advise --json").json();
    let found = finding(&report, "file system");
    assert_eq!(found["verdict"], "change");
    assert_eq!(found["command"], "mount -o sunit=128,swidth=384 /dev/nbd0 MOUNTPOINT");
    let report = set.run("advise --json --drive hdd-7200").json();
    better(&report, "file system", [AMID, "files that begin with rows"], 4.0);
    let Some(set) = with_file_system("mkfs.xfs", &["-q", "-f", "-d", "su=65536,sw=3"]) else { return };
    assert_eq!(finding(&set.run("advise --json").json(), "file system")["verdict"], "fine");
}

#[test]
fn a_chunk_is_judged_by_the_load_in_the_simulator() {
    let set = Set::sparse(4, 8 * MIB);
    set.create("-l 5 -c 4K -N a --assume-clean").ok();
    let (load, odd) = (set.path("load.fio"), set.path("odd.fio"));
    fs::write(&load, "[j]\nrw=randread\nbs=64k\niodepth=8\n").unwrap();
    let flags = format!("advise --json --drive hdd-7200 --workload {}", name(&load));
    let report = set.run(&flags).json();
    let found = finding(&report, "chunk");
    assert_eq!(found["verdict"], "change", "{found}");
    assert!(found["expected"].as_str().unwrap().contains("requests a second"), "{found}");
    assert_eq!(found["predicted"].as_array().unwrap().len(), 5);
    assert_eq!(found["predicted"][0]["chunk"], 4096);
    assert_eq!(finding(&set.run("advise --json").json(), "chunk")["verdict"], "unknown");
    fs::write(&odd, "[a]\nrw=read\n[b]\nrw=write\n").unwrap();
    set.run(&format!("advise --workload {}", name(&odd))).refused(2, &["odd.fio", "2 jobs"]);
}

/// Asserts that the simulator predicts the change at `topic` to be at least so many times as fast.
#[track_caller]
fn better(report: &Value, topic: &str, with: [&str; 2], times: f64) {
    let found = finding(report, topic);
    let predicted = found["predicted"].as_array().unwrap();
    let words: Vec<&str> = predicted.iter().map(|one| one["with"].as_str().unwrap()).collect();
    assert_eq!(words, with, "{found}");
    let [now, then] = [0, 1].map(|at| predicted[at]["iops"].as_f64().unwrap());
    assert!(then > now * times, "{found}");
    let expected = found["expected"].as_str().unwrap();
    let said = format!("{then:.0} requests a second");
    assert!(expected.starts_with(&said) && expected.contains(&format!("instead of {now:.0}")), "{found}");
}

#[test]
fn what_a_bitmap_gives_and_costs_is_reported() {
    let size = 128 << 30;
    let set = Set::sparse(3, size);
    set.create("-l 5 -c 64K -N a --assume-clean --bitmap internal --bitmap-chunk 2M").ok();
    better(
        &set.run("advise --json --drive hdd-7200").json(),
        "bitmap",
        ["a bit for each 2 MiB", "a bit for each 64 MiB"],
        1.1,
    );
    set.run("grow --bitmap none --array").ok();
    let report = set.run("advise --json --drive hdd-7200").json();
    let found = finding(&report, "bitmap");
    let expected = found["expected"].as_str().unwrap();
    assert!(
        expected.contains("after a crash seconds instead of")
            && expected.contains("in random writes of 4 KiB")
            && expected.contains("it costs"),
        "{found}"
    );
    let [without, with] = [0, 1].map(|at| found["predicted"][at]["iops"].as_f64().unwrap());
    // Each chunk's bit is written to the platter, and again when it is cleared.
    assert!(with < without && with > 0.4 * without, "{found}");
}

#[test]
fn a_partition_that_lies_across_rows_is_told_what_that_costs() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let set = Set::sparse(4, 16 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    // As partitioning programs did it once: from sector 63 on.
    let (image, mut table) = (set.path("image"), [0; 512]);
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&63_u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&1024_u32.to_le_bytes());
    // Partitions as tools make them now, at 1 MiB, which is not a multiple of a row of three chunks; and one at 1.5 MiB, which is.
    for (entry, start) in [(1, 2048_u32), (2, 3072)] {
        let at = 446 + 16 * entry;
        table[at + 4] = 0x83;
        table[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        table[at + 12..at + 16].copy_from_slice(&1024_u32.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    files::sparse(&image, set.detail()["size"].as_u64().unwrap());
    fs::OpenOptions::new().write(true).open(&image).unwrap().write_all(&table).unwrap();
    let server = set.serve("");
    tools::run(&nbdcopy, ["--flush".as_ref(), image.as_os_str(), server.uri().as_ref()]);
    server.stop();
    set.unchanged(|| {
        let report = set.run("advise --json --drive nvme").json();
        let with = ["a partition at byte 32256", "a partition at byte 196608"];
        better(&report, "partition", with, 1.3);
        let all = report["findings"].as_array().unwrap().iter();
        let verdicts: Vec<&str> = all
            .filter(|found| found["topic"] == "partition")
            .map(|found| found["verdict"].as_str().unwrap())
            .collect();
        assert_eq!(verdicts, ["change", "change", "fine"], "{report:#}");
        let report = set.run("advise --json").json();
        assert!(finding(&report, "partition")["expected"].as_str().unwrap().contains("--drive"));
    });
    set.run("advise --drive nosuch").refused(1, &["nosuch", "no model of this name"]);
}

#[test]
fn an_array_that_is_not_there_is_told_so() {
    let wanted = ["/dev/md404: the kernel runs no array of that name", "/proc/mdstat", "members"];
    brindle(["advise", "/dev/md404"]).refused(1, &wanted);
    brindle(["advise", "/tmp/nothing"]).refused(1, &["/tmp/nothing: no such file"]);
}

/// Both probabilities that data is lost, of what is expected.
#[track_caller]
fn percents(found: &Value) -> (f64, f64) {
    let text = found["expected"].as_str().unwrap();
    assert!(text.contains("that data is lost"), "{text}");
    let share = |part: &str| part.rsplit(' ').next()?.parse::<f64>().ok();
    let shares: Vec<f64> = text.split(" %").filter_map(share).collect();
    (shares[0], shares[1])
}

#[test]
fn a_change_of_what_is_not_speed_tells_the_odds() {
    let set = Set::sparse(4, 8 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    // Of three of four drives any defect is a loss, and any failure.
    let report = run("advise --json", &set.members[..3]).json();
    let (whole, lacking) = percents(finding(&report, "state"));
    assert!((3.0..8.0).contains(&lacking) && whole < lacking / 100.0, "{report:#}");
    // Without a table of drives nothing is known of how fast it is read ahead, but what to set is.
    let report = set.run("advise --json --drive hdd-7200").json();
    let ahead = finding(&report, "read-ahead");
    assert!(ahead["command"].as_str().unwrap().starts_with("blockdev --setra 768 DEVICE"), "{ahead}");
    // The disks themselves read ahead, too.
    better(&report, "read-ahead", ["read-ahead 128 KiB", "read-ahead 384 KiB"], 1.05);
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// A machine that runs md0 on vda to vdd: three slow in their own ways.
fn machine(set: &Set) -> std::path::PathBuf {
    let root = set.path("sys");
    let md = "class/block/md0";
    put(&root, &format!("{md}/queue/read_ahead_kb"), "128");
    put(&root, &format!("{md}/queue/discard_max_bytes"), "0");
    put(&root, &format!("{md}/md/stripe_cache_size"), "256");
    put(&root, &format!("{md}/md/mismatch_cnt"), "0");
    put(&root, &format!("{md}/md/last_sync_action"), "check");
    for (disk, rotates) in [("vda", "1"), ("vdb", "0"), ("vdc", "0"), ("vdd", "1")] {
        let dir = format!("class/block/{disk}");
        put(&root, &format!("{dir}/holders/md0/x"), "");
        put(&root, &format!("{md}/slaves/{disk}/x"), "");
        put(&root, &format!("{dir}/queue/rotational"), rotates);
        put(&root, &format!("{dir}/queue/scheduler"), "mq-deadline kyber [bfq] none");
        put(
            &root,
            &format!("{dir}/queue/write_cache"),
            if disk == "vda" { "write through" } else { "write back" },
        );
        put(
            &root,
            &format!("{dir}/queue/discard_max_bytes"),
            if rotates == "0" { "2147450880" } else { "0" },
        );
        put(&root, &format!("{dir}/device/queue_depth"), if disk == "vda" { "1" } else { "32" });
    }
    root
}

/// Findings of a member.
fn of(report: &Value, member: &str) -> Value {
    let all = report["findings"].as_array().unwrap().iter();
    let own = all
        .filter(|found| found["member"].as_str().is_some_and(|path| path.ends_with(&format!("/{member}"))));
    json!({"findings": own.collect::<Vec<_>>()})
}

/// An array whose members are called as that machine's disks.
fn of_disks() -> Set {
    let mut set = Set::sparse(4, 8 * MIB);
    set.create("-l 5 -c 512K -N a --assume-clean").ok();
    for (member, disk) in set.members.iter_mut().zip(["vda", "vdb", "vdc", "vdd"]) {
        let named = member.with_file_name(disk);
        fs::rename(&*member, &named).unwrap();
        *member = named;
    }
    set
}

#[test]
fn partitions_of_one_disk_are_told_what_that_costs() {
    let set = of_disks();
    let root = machine(&set);
    let disk = root.join("devices/sdz");
    fs::create_dir_all(&disk).unwrap();
    fs::rename(root.join("class/block/vdb/queue"), disk.join("queue")).unwrap();
    for (part, start) in [("vdb", "2048"), ("vdc", "40959")] {
        fs::rename(root.join("class/block").join(part), disk.join(part)).unwrap();
        std::os::unix::fs::symlink(disk.join(part), root.join("class/block").join(part)).unwrap();
        put(&root, &format!("devices/sdz/{part}/partition"), "1");
        put(&root, &format!("devices/sdz/{part}/start"), start);
    }
    let report = set.run(&format!("advise --json --drive hdd-7200 --sysfs {}", root.display())).json();
    // The second begins at an odd sector: each write is a read of what it reaches into, too.
    assert_eq!(finding(&of(&report, "vdb"), "alignment")["verdict"], "fine");
    better(&of(&report, "vdc"), "alignment", ["blocks read and written", "blocks written"], 1.8);
    let found = finding(&report, "drive");
    assert!(found["found"].as_str().unwrap().contains("sdz holds another member too"), "{found}");
    let (apart, together) = percents(found);
    // The disk itself is a loss then: 1.36 of a hundred fail in a year of the disks that were named, whatever there is here.
    assert!(together - apart > 6.0 && together - apart < 7.0, "{found}");
    let expected = found["expected"].as_str().unwrap();
    assert!(expected.contains("at least") && expected.contains("hdd-2025"), "{found}");
    let there = set.run(&format!("advise --json --sysfs {}", root.display())).json();
    assert!(finding(&there, "drive")["expected"].as_str().unwrap().contains("ssd-2022"), "{there:#}");
}

#[test]
fn a_running_array_is_explained_from_sysfs() {
    let set = of_disks();
    let root = machine(&set);
    put(&root, "class/block/vdd/queue/scheduler", "mq-deadline kyber bfq [none]");
    let report = set.run(&format!("advise --json --sysfs {}", root.display())).json();
    assert_eq!(report["device"], "/dev/md0");
    let change = |topic: &str, command: &str| {
        let found = finding(&report, topic);
        assert_eq!((&found["verdict"], &found["command"]), (&"change".into(), &command.into()), "{found:#}");
        assert!(found["expected"].is_string());
    };
    change("read-ahead", "blockdev --setra 6144 /dev/md0");
    // Nor is one of which the simulator sees no gain.
    let cache = finding(&report, "stripe cache");
    assert!(cache["verdict"] == "fine" && cache["advice"].as_str().unwrap().contains("no gain"), "{cache}");
    assert!(cache["command"].is_null(), "{cache}");
    // Evidence of none is no reason for a change.
    let scheduler = finding(&report, "scheduler");
    assert_eq!(scheduler["verdict"], "unknown", "{scheduler}");
    assert_eq!(scheduler["command"], "echo mq-deadline > /sys/block/vda/queue/scheduler");
    for found in report["findings"].as_array().unwrap().iter().filter(|found| found["verdict"] == "change") {
        let predicted: Vec<f64> =
            found["predicted"].as_array().unwrap().iter().map(|one| one["iops"].as_f64().unwrap()).collect();
        assert!(predicted.is_empty() || predicted[1] > predicted[0], "{found}");
    }
    change("queue depth", "echo 31 > /sys/block/vda/device/queue_depth");
    assert!(finding(&report, "write cache")["command"].as_str().unwrap().contains("hdparm -W1 /dev/vda"));
    // sysfs calls the first drive a rotating disk, so that the simulator can predict each change.
    better(&report, "read-ahead", ["read-ahead 128 KiB", "read-ahead 3 MiB"], 2.0);
    better(&report, "queue depth", ["queue depth 1", "queue depth 31"], 2.0);
    // For as long as one likes: the head has more to choose from.
    better(&report, "write cache", ["write through", "write back"], 2.5);
    assert_eq!(finding(&report, "stripe cache")["predicted"][1]["with"], "2048 entries");
    assert!(finding(&report, "stripe cache")["expected"].is_null());
    // 32 that the drive has, and 256 that the kernel keeps waiting.
    better(&of(&report, "vdd"), "scheduler", ["the nearest of 32", "the nearest of 288"], 1.3);
    assert!(finding(&report, "scheduler")["expected"].as_str().unwrap().contains("no processes"));
    let scrub = finding(&report, "scrub");
    assert_eq!(scrub["verdict"], "unknown");
    assert!(scrub["expected"].as_str().unwrap().contains("% that data is lost in five years"), "{scrub}");
    assert_eq!(finding(&report, "mismatches")["verdict"], "fine");
    let trims: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["topic"] == "TRIM")
        .map(|finding| finding["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(trims, ["fine", "change", "change", "fine"]);
    // The array by its own name, its members by what sysfs says.
    let array = set.path("md0");
    let by_name = brindle(["advise", "--json", "--sysfs", name(&root), name(&array)]).json();
    assert_eq!(by_name["findings"], report["findings"]);
    // Of files nothing of this is known, and that is said.
    let plain = set.run("advise --json").json();
    assert!(plain["device"].is_null());
    assert_eq!(finding(&plain, "read-ahead")["verdict"], "unknown");
    let text = set.run("advise").ok().text();
    assert!(text.contains("?      drive") && text.contains("RAID") | text.contains("raid5"), "{text}");
}
