//! The machine itself, with each kernel: it boots, it hands over what a script finds, it reaches the host where it
//! should, and it does not hide a failure.

use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{self, or_skip};
use brindle_tests::vm::{HOST, Kernel, Report, Vm};

/// A machine for each kernel that there is.
fn machines() -> impl Iterator<Item = Vm> {
    Kernel::ALL.into_iter().filter_map(|kernel| or_skip(Vm::on(kernel)))
}

#[test]
fn the_newer_kernel_is_newer() {
    let (Some(release), Some(newer)) = (or_skip(Vm::on(Kernel::Release)), or_skip(Vm::on(Kernel::Newer)))
    else {
        return;
    };
    assert!(newer.version() > release.version(), "{:?}, {:?}", newer.version(), release.version());
}

/// The kernel, which has to be the one that was asked for, and its levels of md.
const TELL: &str = "put release $(uname -r); put levels \"$(sed -n 's/^Personalities ://p' /proc/mdstat)\"\n";

fn is_kernel(report: &Report, (wanted, has_linear): ((u32, u32), bool)) {
    let begins = format!("{}.{}.", wanted.0, wanted.1);
    assert!(report["release"].starts_with(&begins), "{} is not {wanted:?}", &report["release"]);
    let levels = &report["levels"];
    for level in ["raid0", "raid1", "raid4", "raid5", "raid6", "raid10"] {
        assert!(levels.contains(&format!("[{level}]")), "{wanted:?} has {levels}");
    }
    assert_eq!(levels.contains("[linear]"), has_linear, "{wanted:?} has {levels}");
}

#[test]
fn kernel_and_disks_have_the_release_order_content_and_sectors_that_the_test_gave() {
    let dir = tempfile::tempdir().unwrap();
    let images = files::members(dir.path(), "disk", 20, MIB);
    for (i, image) in images.iter().enumerate() {
        files::write_pattern(image, MIB, i as u64);
    }
    // Few are virtio disks, many are units of a controller.
    for (count, kind) in [(6, "/dev/vd"), (20, "/dev/sd")] {
        let (large, small) = images[..count].split_at(count / 2);
        for vm in machines() {
            let kernel = (vm.version(), vm.has_linear());
            let report = vm
                .disks(large)
                .sector(4096)
                .disks(small)
                .run(&format!(
                    "{TELL}
                     for i in $(seq 0 {}); do
                         put $i $(sha /dev/member/$i)
                         put sector$i $(blockdev --getss /dev/member/$i)
                     done
                     put kind $(readlink /dev/member/0)",
                    count - 1
                ))
                .unwrap();
            is_kernel(&report, kernel);
            assert!(report["kind"].starts_with(kind), "{}", &report["kind"]);
            for (i, image) in images[..count].iter().enumerate() {
                assert_eq!(report[i.to_string().as_str()], files::sha256(image), "disk {i}");
                let sector = if i < count / 2 { "4096" } else { "512" };
                assert_eq!(&report[format!("sector{i}").as_str()], sector, "disk {i}");
            }
        }
    }
}

#[test]
fn a_server_of_the_host_is_a_disk_of_the_machine() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let members = files::members(dir.path(), "m", 2, 16 * MIB);
    program::brindle(["create", "--level", "1"].map(Into::into).into_iter().chain(members.clone())).ok();
    let listen = ["--nbd", "127.0.0.1:0"].map(Into::into).into_iter();
    let server = Server::start(&dir.path().join("run"), listen.chain(members));
    let uri = server.uri();
    let (address, name) = uri.trim_start_matches("nbd://").split_once('/').unwrap_or((&uri, ""));
    let port = address.rsplit(':').next().unwrap();
    for vm in machines() {
        let Some(vm) = or_skip(vm.network()) else { return };
        let report = vm
            .run(&format!(
                "step connect nbd-client -N '{name}' -nonetlink {HOST} {port} /dev/nbd0
                 dd if=/dev/urandom of=/tmp/content bs=64k count=16
                 step write dd if=/tmp/content of=/dev/nbd0 bs=64k seek=3 conv=fsync
                 step disconnect nbd-client -d /dev/nbd0
                 put written $(sha256sum </tmp/content | cut -d ' ' -f 1)"
            ))
            .unwrap();
        let content = dir.path().join("content");
        tools::run(&nbdcopy, [uri.as_ref(), content.as_os_str()]);
        let content = std::fs::read(&content).unwrap();
        assert_eq!(files::sha256_of(&content[3 << 16..19 << 16]), report["written"]);
    }
    server.stop();
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
fn a_command_that_fails_is_reported_with_its_step_and_words() {
    for vm in machines() {
        let script = "step fine true; step lost mdadm --detail /dev/md77; put never 1";
        let failure = vm.run(script).unwrap_err().to_string();
        assert!(failure.contains("the script failed"), "{failure}");
        assert!(failure.contains("in step lost"), "{failure}");
        assert!(failure.contains("cannot open /dev/md77"), "{failure}");
    }
}

#[test]
fn a_panic_of_the_kernel_is_reported_with_its_log() {
    for vm in machines() {
        let failure = vm.run("step crash sh -c 'echo c >/proc/sysrq-trigger'").unwrap_err().to_string();
        assert!(failure.contains("the kernel complained (Kernel panic) in step crash"), "{failure}");
        assert!(failure.contains("sysrq triggered crash"), "{failure}");
    }
}

#[test]
fn a_machine_that_hangs_is_ended_and_told() {
    for vm in machines() {
        let failure = vm.limit(Duration::from_secs(1)).run("sleep 1000").unwrap_err().to_string();
        assert!(failure.contains("still running after 1 s"), "{failure}");
    }
}
