//! Members that something already stands on, or that somebody uses.

use std::process::Command;

use brindle_tests::loops::Loop;
use brindle_tests::tools::{self, Missing, or_skip};

use super::*;

/// `create` refuses, and with `--force` leaves no other md superblock than its own.
fn overwrite(set: &Set, what: &str) {
    set.unchanged(|| {
        set.create("-l 1").refused(1, &[name(&set.members[0]), what, "--force"]);
    });
    set.create("-l 1 --force").ok();
    let report = set.run("examine --json").json();
    for member in report["members"].as_array().unwrap() {
        let kinds: Vec<_> = member["signatures"].as_array().unwrap().iter().map(|s| &s["kind"]).collect();
        let md = kinds.iter().filter(|kind| kind.as_str().unwrap().contains("md")).count();
        assert_eq!(md, 1, "{kinds:?}");
    }
    assert!(report["problem"].is_null(), "{report}");
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}

#[test]
fn a_file_system() {
    let Some(mkfs) = or_skip(tools::find("mkfs.ext4")) else { return };
    let set = Set::sparse(2, 8 * MIB);
    tools::run(&mkfs, ["-q", name(&set.members[0])]);
    let report = set.run("examine --json").json();
    assert!(report["members"][0]["signatures"][0]["kind"].as_str().unwrap().contains("ext"), "{report}");
    overwrite(&set, "ext");
}

#[test]
fn a_partition_table() {
    let Some(sfdisk) = or_skip(tools::find("sfdisk")) else { return };
    let set = Set::sparse(2, 8 * MIB);
    let script = format!("echo 'label: gpt' | {} -q {}", sfdisk.display(), name(&set.members[0]));
    tools::run(Path::new("/bin/sh"), ["-c", &script]);
    overwrite(&set, "GPT");
}

#[test]
fn another_array() {
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        let set = Set::sparse(2, 8 * MIB);
        set.create(&format!("-l 0 -e {metadata}")).ok();
        overwrite(&set, "md");
    }
}

#[test]
fn another_brindle() {
    let set = Set::raid5(3);
    let server = set.serve("");
    let busy = [name(&set.members[0]), "another Brindle uses it", "stop that"];
    set.serve_refused("--name b").refused(1, &busy);
    set.create("-l 5 --force").refused(1, &busy);
    set.run("cat").refused(1, &busy);
    set.run("check").refused(1, &busy);
    // Looking is always possible.
    assert_eq!(set.detail()["name"], server.status()["array"]["name"]);
    server.stop();
}

#[test]
fn a_file_behind_a_loop_device_and_a_mounted_device() {
    let Some(mkfs) = or_skip(tools::find("mkfs.ext4")) else { return };
    let set = Set::sparse(2, 8 * MIB);
    tools::run(&mkfs, ["-q", name(&set.members[0])]);
    let Some(device) = or_skip(Loop::over(&set.members[0], 512)) else { return };
    set.unchanged(|| {
        set.create("-l 1 --force").refused(1, &[name(&set.members[0]), name(device.path()), "backs"]);
    });
    let mount = Mount::new(&set, &["-o", "ro", name(device.path())]);
    let Some(mount) = or_skip(mount) else { return };
    let members = [device.path().to_owned(), set.members[1].clone()];
    set.unchanged(|| {
        run("create -l 1 --force", &members).refused(1, &[name(device.path()), "mounted", "unmount"]);
    });
    drop(mount);
    run("create -l 1 --force", &members).ok();
    assert_eq!(state(&run("detail --json", &members).json()), ["clean"]);
}

/// A file system mounted in the set's folder; unmounted when dropped.
pub(super) struct Mount(pub(super) PathBuf);

impl Mount {
    pub(super) fn new(set: &Set, args: &[&str]) -> Result<Self, Missing> {
        let place = set.path("mounted");
        std::fs::create_dir(&place).unwrap();
        let output = Command::new(tools::find("mount")?).args(args).arg(&place).output().unwrap();
        if output.status.success() {
            return Ok(Self(place));
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Missing::new(format!("mounting is not possible here: {why}")))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_while_creating() {
    let set = Set::sparse(0, 0);
    let Some(mount) = or_skip(Mount::new(&set, &["-t", "tmpfs", "-o", "size=4m", "none"])) else { return };
    for (level, content) in [("1", 3 * MIB), ("5 -c 64K", 2 * MIB)] {
        let members = files::members(&mount.0, "m", 3, 16 * MIB);
        // The space reserved for superblocks and the amount that a resync would write are different.
        files::write_pattern(&members[0], content, 1);
        std::fs::File::options().write(true).open(&members[0]).unwrap().set_len(16 * MIB).unwrap();
        for filler in [true, false] {
            let fill = mount.0.join("filler");
            if filler {
                fill_up(&fill);
            }
            let before: Vec<_> = members.iter().map(|m| files::sha256(m)).collect();
            run(&format!("create --force -l {level}"), &members).refused(1, &[name(&mount.0), "no space"]);
            let after: Vec<_> = members.iter().map(|m| files::sha256(m)).collect();
            assert!(before == after, "level {level}: a member was changed");
            if filler {
                std::fs::remove_file(fill).unwrap();
            }
        }
    }
}

/// Writes until the file system is full.
pub(super) fn fill_up(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
