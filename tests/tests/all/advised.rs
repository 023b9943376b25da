//! `brindle advise` on an array that md made and runs: its superblocks from the disks, its sysfs as the guest has it.

use std::fs;

use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Report, Vm};
use serde_json::Value;

const OF_ARRAY: [&str; 5] = [
    "queue/read_ahead_kb",
    "queue/discard_max_bytes",
    "md/stripe_cache_size",
    "md/mismatch_cnt",
    "md/last_sync_action",
];
const OF_DISK: [&str; 7] = [
    "queue/rotational",
    "queue/scheduler",
    "queue/nr_requests",
    "queue/write_cache",
    "queue/discard_max_bytes",
    "queue/physical_block_size",
    "queue/optimal_io_size",
];

fn key(of: &str, attribute: &str) -> String {
    format!("{of}_{}", attribute.replace('/', "_"))
}

fn script() -> String {
    let mut script =
        "step create mdadm --create /dev/md0 --run --level=5 --raid-devices=3 --chunk=64 --metadata=1.2 \
                      --bitmap=internal --assume-clean /dev/member/0 /dev/member/1 /dev/member/2
                      echo check >/sys/block/md0/md/sync_action
                      while [ $(cat /sys/block/md0/md/sync_action) != idle ]; do sleep 0.1; done\n"
            .to_owned();
    for attribute in OF_ARRAY {
        script += &format!("put {} \"$(cat /sys/block/md0/{attribute})\"\n", key("array", attribute));
    }
    for number in 0..3 {
        script += &format!("disk=$(basename $(readlink -f /dev/member/{number}))\nput disk{number} $disk\n");
        for attribute in OF_DISK {
            let key = key(&format!("disk{number}"), attribute);
            script += &format!("put {key} \"$(cat /sys/block/$disk/{attribute})\"\n");
        }
    }
    script + "step stop mdadm --stop /dev/md0\n"
}

/// The guest's sysfs, as far as it was asked for, as files.
fn copy(report: &Report, root: &std::path::Path) {
    let put = |file: String, text: &str| {
        let path = root.join("class/block").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for attribute in OF_ARRAY {
        put(format!("md0/{attribute}"), &report[key("array", attribute).as_str()]);
    }
    for number in 0..3 {
        let disk = &report[format!("disk{number}").as_str()];
        put(format!("{disk}/holders/md0/x"), "");
        put(format!("md0/slaves/{disk}/x"), "");
        for attribute in OF_DISK {
            put(format!("{disk}/{attribute}"), &report[key(&format!("disk{number}"), attribute).as_str()]);
        }
    }
}

#[test]
fn an_array_of_md_is_explained() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let members = files::members(dir.path(), "m", 3, 64 * MIB);
    let report = vm.disks(&members).run(&script()).unwrap();
    let root = dir.path().join("sys");
    copy(&report, &root);
    for (number, member) in members.iter().enumerate() {
        fs::rename(member, dir.path().join(&report[format!("disk{number}").as_str()])).unwrap();
    }
    let array = dir.path().join("md0");
    let words = ["advise", "--json", "--sysfs", root.to_str().unwrap(), array.to_str().unwrap()];
    let advice = program::brindle(words).json();
    let finding = |topic: &str| -> &Value {
        let all = advice["findings"].as_array().unwrap();
        all.iter().find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("{topic}: {advice:#}"))
    };
    assert_eq!(
        (&advice["level"], &advice["chunk"], &advice["row"]),
        (&"raid5".into(), &65536.into(), &131_072.into())
    );
    assert_eq!(advice["device"], "/dev/md0");
    let ahead: u64 = report["array_queue_read_ahead_kb"].parse().unwrap();
    let verdict = if ahead >= 256 { "fine" } else { "change" };
    assert_eq!(finding("read-ahead")["verdict"], verdict, "{ahead} KiB");
    let cache = finding("stripe cache");
    let judged = cache["advice"].as_str().unwrap();
    assert!(judged.contains("that holds 16.0 rows; 1024 hold 64"), "md's own are 256: {cache}");
    // The simulator has no gain from more, so that no change is advised.
    assert_eq!((&cache["verdict"], &cache["command"]), (&"fine".into(), &serde_json::Value::Null), "{cache}");
    assert!(finding("bitmap")["found"].as_str().unwrap().contains("a bit for each"));
    assert_eq!(finding("mismatches")["verdict"], "fine");
    assert_eq!(finding("alignment")["verdict"], "fine");
    for topic in ["scheduler", "write cache", "TRIM", "queue depth"] {
        assert_ne!(finding(topic)["verdict"], "unknown", "{topic}: {advice:#}");
    }
    let command = finding("file system")["command"].as_str().unwrap();
    assert!(command.starts_with("mkfs.ext4 -E stride=16,stripe-width=32 /dev/md0"), "{command}");
}
