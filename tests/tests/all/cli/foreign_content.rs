//! `examine` on whatever a user may point at: it names what it sees and ends well; `create` keeps off.

use std::os::unix::fs::FileExt;

use brindle_tests::loops::Loop;
use brindle_tests::tools::{self, or_skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::places::{set_mode, unprivileged};
use super::*;

const UUID: &str = "01234567-89ab-cdef-fedc-ba9876543210";

/// `examine` of one file ends well; its text has the words, its JSON is returned.
#[track_caller]
fn seen(path: &Path, words: &str) -> Value {
    seen_with(path, words, (0, ""))
}

/// The same, which ends with that status, and remarks that.
#[track_caller]
fn seen_with(path: &Path, words: &str, (code, remark): (i32, &str)) -> Value {
    let path = [path.to_owned()];
    let ran = run("examine", &path).ended(code);
    let is_said = if remark.is_empty() { ran.err.is_empty() } else { ran.err.contains(remark) };
    let text = ran.text();
    assert!(text.contains(words) && is_said, "'{words}' and '{remark}' are not in\n{text}{}", ran.err);
    run("examine --json", &path).ended(code).report()["members"][0].take()
}

/// Content on the first of two members is named by `examine` and keeps `create` off.
#[track_caller]
fn occupied(set: &Set, kind: &str, label: Option<&str>, uuid: Option<&str>) {
    occupied_with(set, kind, (label, uuid), "");
}

/// The same, with a remark.
#[track_caller]
fn occupied_with(set: &Set, kind: &str, (label, uuid): (Option<&str>, Option<&str>), remark: &str) {
    let report = seen_with(&set.members[0], kind, (0, remark));
    let signatures = report["signatures"].as_array().unwrap();
    let found = signatures.iter().find(|found| found["kind"].as_str().unwrap().contains(kind)).unwrap();
    assert_eq!((found["label"].as_str(), found["uuid"].as_str()), (label, uuid), "{report}");
    assert_eq!(report["blank"], false, "{report}");
    set.unchanged(|| {
        set.create("-l 1").refused(1, &[name(&set.members[0]), kind, "--force"]);
    });
}

fn put(path: &Path, blocks: &[(u64, &[u8])]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for (offset, bytes) in blocks {
        file.write_all_at(bytes, *offset).unwrap();
    }
}

#[test]
fn files_with_nothing_on_them() {
    let set = Set::sparse(0, 0);
    for (size, words) in
        [(0, "empty"), (1, "empty"), (511, "empty"), (512, "nothing: zeroes"), (4096, "zeroes")]
    {
        let path = set.path("small");
        std::fs::write(&path, vec![0; size]).unwrap();
        let report = seen(&path, words);
        assert_eq!((&report["size"], &report["error"]), (&size.into(), &Value::Null));
        assert_eq!(report["blank"].as_bool(), (size >= 512).then_some(true));
        assert!(report["signatures"].as_array().unwrap().is_empty() && report["superblock"].is_null());
    }
    for size in [512, 4096, 70_000, 3 * MIB] {
        for seed in 0..4 {
            let path = set.path("noise");
            files::write_pattern(&path, size, seed);
            let report = seen(&path, "nothing that Brindle knows, but not blank");
            assert_eq!(report["blank"], false);
        }
    }
    let zeroes = files::members(set.dir.path(), "zeroes", 1, 64 * MIB);
    assert_eq!(seen(&zeroes[0], "nothing: zeroes wherever")["blank"], true);
}

/// Tool, command, then kind, label and UUID to find.
type Made<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>);

#[test]
fn what_other_tools_make() {
    let luks = format!(
        "echo key | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --uuid {UUID}"
    );
    let gpt = format!("printf 'label: gpt\\nlabel-id: {UUID}\\n2048,,L\\n' | sfdisk -q");
    let cases: [Made<'_>; 7] = [
        ("mkfs.ext4", &format!("mkfs.ext4 -q -L data -U {UUID}"), "ext2/3/4", Some("data"), Some(UUID)),
        ("mkfs.btrfs", &format!("mkfs.btrfs -q -L data -U {UUID}"), "Btrfs", Some("data"), Some(UUID)),
        ("mkswap", &format!("mkswap -L data -U {UUID}"), "swap", Some("data"), Some(UUID)),
        ("cryptsetup", &format!("{luks} --type luks1"), "LUKS", None, Some(UUID)),
        ("cryptsetup", &format!("{luks} --type luks2 --label data"), "LUKS", Some("data"), Some(UUID)),
        ("sfdisk", &gpt, "GPT", None, Some(UUID)),
        (
            "sfdisk",
            "printf 'label: dos\\nlabel-id: 0xfeedbeef\\n2048,,L\\n' | sfdisk -q",
            "DOS",
            None,
            Some("feedbeef"),
        ),
    ];
    for (tool, command, kind, label, uuid) in cases {
        if or_skip(tools::find(tool)).is_none() {
            continue;
        }
        // The smallest that each tool takes, or nearly so.
        let set = Set::sparse(2, if kind == "Btrfs" { 120 * MIB } else { 20 * MIB });
        let script = format!("PATH=$PATH:/usr/sbin:/sbin; {command} {} 2>&1", name(&set.members[0]));
        tools::run(Path::new("/bin/sh"), ["-ec", &script]);
        occupied(&set, kind, label, uuid);
        if kind == "GPT" {
            // The second copy, at the end of the disk, remains when the start has been overwritten.
            put(&set.members[0], &[(0, &[0; 34 * 512])]);
            occupied_with(&set, kind, (label, uuid), "the backup of it at the end is used");
        }
    }
}

#[test]
fn a_physical_volume_of_lvm() {
    let Some(pvcreate) = or_skip(tools::find("pvcreate")) else { return };
    let set = Set::sparse(2, 16 * MIB);
    let Some(device) = or_skip(Loop::over(&set.members[0], 512)) else { return };
    let uuid = "AbCdEf-GhIj-KlMn-OpQr-StUv-WxYz-012345";
    let script =
        format!("{} -qq -y --norestorefile -u {uuid} {} 2>&1", pvcreate.display(), device.path().display());
    tools::run(Path::new("/bin/sh"), ["-ec", &script]);
    seen(device.path(), "LVM physical volume");
    drop(device);
    occupied(&set, "LVM", None, Some(uuid));
}

/// Formats that no tool here makes on a plain file, built by hand from their specifications. A label that ZFS wrote
/// is among the tests of crate `format`; real members of Intel's and DDF containers are in `foreign`.
#[test]
fn what_is_drawn_by_hand() {
    const SIZE: u64 = 8 * MIB;
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    let cases: [(u64, &[u8], &str); 7] = [
        (128 << 10, &uberblock, "ZFS"),
        (SIZE - (128 << 10), &uberblock, "ZFS"),
        (SIZE - 8192, b"Intel Raid ISM Cfg Sig. 1.3.00", "IMSM"),
        (SIZE - 512, &[0xde, 0x11, 0xde, 0x11], "DDF"),
        (4096 + 24, bcache, "bcache"),
        (SIZE - 4096 + 60, &[0x83, 0x74, 0x02, 0x6d], "DRBD"),
        (MIB, &[0x0d, 0xd0, 0x01, 0xc0], "VMFS"),
    ];
    for (offset, magic, kind) in cases {
        let set = Set::sparse(2, SIZE);
        put(&set.members[0], &[(offset, magic)]);
        // Of Intel's metadata there is more to be read, which is damaged here.
        let code = i32::from(kind == "IMSM");
        let report = seen_with(&set.members[0], kind, (code, ""));
        assert_eq!(report["signatures"].as_array().unwrap().len(), 1, "{report}");
        set.unchanged(|| {
            set.create("-l 1").refused(1, &[name(&set.members[0]), kind, "--force"]);
        });
    }
}

#[test]
fn a_file_system_in_a_mirror_shows_beside_the_superblock() {
    let Some(mkfs) = or_skip(tools::find("mkfs.ext4")) else { return };
    for metadata in ["0.90", "1.0"] {
        let set = Set::sparse(2, 8 * MIB);
        tools::run(&mkfs, ["-q", "-L", "inside", name(&set.members[0]), "7M"]);
        set.create(&format!("-l 1 -e {metadata} --force")).ok();
        for member in &set.members {
            let report = seen(member, "ext2/3/4 file system \"inside\"");
            assert_eq!(report["superblock"]["metadata"], metadata, "{report}");
            let kinds: Vec<_> = report["signatures"].as_array().unwrap().iter().map(|s| &s["kind"]).collect();
            assert_eq!(kinds, ["ext2/3/4 file system", "md RAID member"]);
        }
    }
}

#[test]
fn what_can_not_be_looked_at_hides_nothing_else() {
    let set = Set::raid5(3);
    let (pipe, socket, folder) = (set.path("pipe"), set.path("socket"), set.path("folder"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let dangling = set.path("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    // It says that it has 4096 bytes, and ends before.
    let shorter = Path::new("/sys/kernel/uevent_seqnum");
    let cases: [(&Path, &str); 8] = [
        (shorter, "can't be read"),
        (&pipe, "it is a pipe"),
        (&socket, "it is a socket"),
        (&folder, "it is a directory"),
        (Path::new("/dev/null"), "it is a character device"),
        (Path::new("/dev/zero"), "it is a character device"),
        (&dangling, "no such file"),
        (&set.path("nowhere"), "no such file"),
    ];
    let mut all: Vec<PathBuf> = cases.iter().map(|(path, _)| path.to_path_buf()).collect();
    all.splice(3..3, set.members.iter().cloned());
    let ran = run("examine", &all).ended(1);
    assert_eq!(ran.err, "", "what can't be looked at is part of the report");
    for (path, words) in cases {
        let line = format!("  {}: {words}", path.display());
        assert_eq!(ran.text().matches(&line).count(), 1, "'{line}' is not in\n{}", ran.text());
    }
    let report = run("examine --json", &all).ended(1).report();
    assert!(report["problem"].is_null(), "{report}");
    for (place, path) in all.iter().enumerate() {
        let member = &report["members"][place];
        assert_eq!(member["path"], name(path));
        assert_eq!(member["superblock"].is_object(), set.members.contains(path), "{member}");
        assert_eq!(member["blank"].is_boolean(), set.members.contains(path), "{member}");
        assert_eq!(member["error"].is_string(), !set.members.contains(path), "{member}");
    }
}

#[test]
fn a_member_that_may_not_be_read_hides_no_other() {
    let set = Set::raid5(3);
    let open = set.path("open");
    std::fs::copy(&set.members[0], &open).unwrap();
    set_mode(&set, 0o000);
    let both = [set.members[1].clone(), open];
    let Some(ran) = unprivileged(&set, "examine --json", &both) else { return };
    let report = ran.ended(1).report();
    assert!(report["members"][0]["error"].as_str().unwrap().contains("permission denied"), "{report}");
    assert!(report["members"][1]["superblock"].is_object(), "{report}");
}
