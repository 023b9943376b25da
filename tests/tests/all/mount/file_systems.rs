//! File systems on loop devices over the file of an array, while members of it fail and are rebuilt.

use std::fs::{self, File};
use std::path::Path;

use brindle_tests::files;
use brindle_tests::tools::{self, Missing, or_skip};

use super::stage::{Folder, LoopDevice, Stage, available, run, stop, umount, until};

/// Bytes of each file that fio writes.
const FILE: &str = "16m";

/// Whether this user may have loop devices and mount them, and has these programs.
fn may_mount(programs: &[&str]) -> Result<(), Missing> {
    available()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::new("loop devices need root"));
    }
    ["losetup", "mount"].iter().chain(programs).try_for_each(|program| tools::find(program).map(drop))
}

/// Forgets what the kernel has of files, so that they are read anew.
fn forget() {
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
}

/// ext4 on a loop device over the file, while members fail: what was written is there, and it is clean.
fn survives(direct: &str) -> Result<(), Missing> {
    may_mount(&["mkfs.ext4", "e2fsck", "fstrim"])?;
    let stage = Stage::new("6", 5, 64 << 20);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let device = LoopDevice::over(&folder, "data", direct)?;
    run("mkfs.ext4", &["-q", "-F", &device.node]).ended(0);
    device.mount();
    let bytes: Vec<u8> = (0..16 << 20).map(|at: u32| (at ^ at >> 11) as u8).collect();
    for round in 0..4 {
        let to = device.inner.join(round.to_string());
        fs::write(&to, &bytes[round..]).unwrap();
        File::open(&to).unwrap().sync_all().unwrap();
        if round < 2 {
            server.fail(&round.to_string());
        }
        if round == 1 {
            fs::remove_file(device.inner.join("0")).unwrap();
            run("fstrim", &[device.inner.to_str().unwrap()]).ended(0);
        }
    }
    forget();
    for round in 1..4 {
        assert!(fs::read(device.inner.join(round.to_string())).unwrap() == bytes[round..], "file {round}");
    }
    device.unmount();
    run("e2fsck", &["-f", "-n", &device.node]).ended(0);
    // It is in use, and stays mounted.
    umount(&folder).refused(1, &["loop devices", "--lazy"]);
    drop(device);
    until("it stays in use", || umount(&folder).code == 0);
    stop(server, 2);
    Ok(())
}

#[test]
fn ext4_lives_on_a_direct_loop_device() {
    let _ = or_skip(survives("on"));
}

#[test]
fn ext4_lives_on_a_buffered_loop_device() {
    let _ = or_skip(survives("off"));
}

/// A file system, with the commands that make it and check it.
struct Kind {
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const EXT4: Kind = Kind { make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-f", "-n"] };
/// Of a size that XFS calls too small for use.
const XFS: Kind = Kind { make: &["mkfs.xfs", "-q", "-f", "--unsupported"], check: &["xfs_repair", "-n"] };

impl Kind {
    fn run(command: &[&str], node: &str) {
        run(command[0], &[&command[1..], &[node]].concat()).ended(0);
    }
}

/// Has fio write a file with checksums, or only read it again.
#[track_caller]
fn fio(folder: &Path, name: &str, more: &str) {
    let file = format!("--filename={}", folder.join(name).display());
    let job = format!(
        "--name={name} --rw=randwrite --bsrange=4k-64k --size={FILE} --ioengine=psync --direct=1 --thread"
    );
    let checks = "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --end_fsync=1";
    let words = job.split(' ').chain(checks.split(' ')).chain(more.split_whitespace());
    run("fio", &words.chain([&*file]).collect::<Vec<_>>()).ended(0);
}

/// fio verifies what it wrote while two members fail, while one is rebuilt, and with the rebuilt one in the place of another.
fn is_verified(kind: &Kind) -> Result<(), Missing> {
    may_mount(&["fio", kind.make[0], kind.check[0]])?;
    let stage = Stage::new("6", 5, 64 << 20);
    let spare = files::members(stage.path(), "spare", 1, 64 << 20).remove(0);
    let server = stage.serve(&[]);
    let folder = Folder::new(stage.path(), "folder");
    stage.ask("mount", &["--write", "data", folder.text()]).ok();
    let device = LoopDevice::over(&folder, "data", "on")?;
    Kind::run(kind.make, &device.node);
    device.mount();
    fio(&device.inner, "whole", "");
    server.fail("0");
    server.fail("1");
    fio(&device.inner, "whole", "--verify_only=1");
    fio(&device.inner, "degraded", "");
    stage.ask("add", &["data", spare.to_str().unwrap()]).ok();
    fio(&device.inner, "rebuilding", "");
    stage.ask("wait", &["data"]).ok();
    // All that the new member holds is needed from now on.
    server.fail("2");
    forget();
    for name in ["whole", "degraded", "rebuilding"] {
        fio(&device.inner, name, "--verify_only=1");
    }
    device.unmount();
    Kind::run(kind.check, &device.node);
    drop(device);
    until("it stays in use", || umount(&folder).code == 0);
    stop(server, 3);
    Ok(())
}

#[test]
fn fio_verifies_ext4_while_members_fail_and_are_rebuilt() {
    let _ = or_skip(is_verified(&EXT4));
}

#[test]
fn fio_verifies_xfs_while_members_fail_and_are_rebuilt() {
    let _ = or_skip(is_verified(&XFS));
}
