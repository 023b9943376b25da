//! The machine itself: it boots, it hands over what a script finds, and it does not hide a failure.

use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Report, Vm};

#[test]
fn disks_have_the_order_and_content_that_the_test_gave() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let images = files::members(dir.path(), "disk", 20, MIB);
    for (i, image) in images.iter().enumerate() {
        files::write_pattern(image, MIB, i as u64);
    }
    let report =
        vm.disks(&images).run("for i in $(seq 0 19); do put $i $(sha /dev/member/$i); done").unwrap();
    for (i, image) in images.iter().enumerate() {
        assert_eq!(report[i.to_string().as_str()], files::sha256(image), "disk {i}");
    }
}

#[test]
fn sectors_have_the_size_that_the_test_gave() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let images = files::members(dir.path(), "disk", 1, MIB);
    let report = vm.disks(&images).sector(4096).run("put sector $(blockdev --getss /dev/member/0)").unwrap();
    assert_eq!(&report["sector"], "4096");
}

#[test]
fn what_was_written_before_the_plug_was_pulled_is_on_the_disks() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let images = files::members(dir.path(), "disk", 1, MIB);
    let script = "i=0
         while true; do
             i=$((i + 1))
             echo $i | dd of=/dev/member/0 bs=512 conv=notrunc,sync,fsync 2>/dev/null
             put written $i
         done";
    let value = |report: &Report| report.results.get("written").map_or(0, |n| n.parse::<u32>().unwrap());
    let report = vm.disks(&images).start(script).kill_when(|report| value(report) >= 20);
    let content = std::fs::read(&images[0]).unwrap();
    let on_disk: u32 = String::from_utf8_lossy(&content[..512]).lines().next().unwrap().parse().unwrap();
    assert!(on_disk >= value(&report), "{on_disk} is on the disk, {} were flushed", value(&report));
}

#[test]
fn failures_are_told() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let failure =
        vm.run("step fine true; step lost mdadm --detail /dev/md77; put never 1").unwrap_err().to_string();
    assert!(failure.contains("in step lost"), "{failure}");
    assert!(failure.contains("cannot open /dev/md77"), "{failure}");

    let Some(vm) = or_skip(Vm::new()) else { return };
    let failure = vm.run("echo c >/proc/sysrq-trigger").unwrap_err().to_string();
    assert!(failure.contains("Kernel panic"), "{failure}");

    let Some(vm) = or_skip(Vm::new()) else { return };
    let failure = vm.limit(Duration::from_secs(1)).run("sleep 1000").unwrap_err().to_string();
    assert!(failure.contains("still running after 1 s"), "{failure}");
}
