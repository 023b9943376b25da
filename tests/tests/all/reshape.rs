//! Arrays that md was reshaping when it was stopped: Brindle reads either side of the border.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Vm;

/// A reshape that is stopped on its way.
struct Case {
    name: &'static str,
    /// Level, layout and so on of `mdadm --create`.
    create: &'static str,
    members: usize,
    /// Members added before the reshape.
    spares: usize,
    /// Commands for `$md` before the reshape.
    before: &'static str,
    /// Further words of `mdadm --grow`.
    grow: &'static str,
    /// Where the border must be before md is stopped, as a comparison in sectors.
    until: &'static str,
    /// As many data members as before.
    in_doubt: bool,
    /// How many members may be lost.
    tolerance: usize,
    /// It is of a kind that Brindle goes on with.
    goes_on: bool,
}

const CASES: [Case; 9] = [
    Case {
        name: "more members of RAID 5, with a bitmap",
        create: "--level=5 --chunk=64 --bitmap=internal",
        members: 4,
        spares: 1,
        before: ":",
        grow: "--raid-devices=5",
        until: "-ge 8192",
        in_doubt: false,
        tolerance: 1,
        goes_on: true,
    },
    Case {
        name: "more members of RAID 5, metadata 0.90",
        create: "--level=5 --chunk=64 --metadata=0.90",
        members: 3,
        spares: 1,
        before: ":",
        grow: "--raid-devices=4",
        until: "-ge 8192",
        in_doubt: false,
        tolerance: 1,
        goes_on: false,
    },
    Case {
        name: "more members of RAID 6, metadata 1.0",
        create: "--level=6 --chunk=32 --metadata=1.0",
        members: 4,
        spares: 2,
        before: ":",
        grow: "--raid-devices=6",
        until: "-ge 8192",
        in_doubt: false,
        tolerance: 2,
        goes_on: false,
    },
    Case {
        name: "two members more of RAID 6, metadata 1.1",
        create: "--level=6 --chunk=32 --metadata=1.1",
        members: 4,
        spares: 2,
        before: ":",
        grow: "--raid-devices=6",
        until: "-ge 8192",
        in_doubt: false,
        tolerance: 2,
        goes_on: true,
    },
    Case {
        name: "fewer members of RAID 5",
        create: "--level=5 --chunk=64",
        members: 5,
        spares: 0,
        before: "mdadm --grow $md --array-size=70656",
        grow: "--raid-devices=4 --backup-file=/tmp/backup",
        until: "-le 120000",
        in_doubt: false,
        tolerance: 1,
        goes_on: false,
    },
    Case {
        name: "another chunk of RAID 5",
        create: "--level=5 --chunk=64",
        members: 4,
        spares: 0,
        before: ":",
        grow: "--chunk=128",
        until: "-ge 8192",
        in_doubt: true,
        tolerance: 1,
        goes_on: false,
    },
    Case {
        name: "another layout of RAID 6",
        create: "--level=6 --chunk=64",
        members: 5,
        spares: 0,
        before: ":",
        grow: "--layout=right-asymmetric",
        until: "-ge 8192",
        in_doubt: true,
        tolerance: 2,
        goes_on: false,
    },
    Case {
        name: "RAID 6 of RAID 5",
        create: "--level=5 --chunk=64",
        members: 4,
        spares: 1,
        before: ":",
        grow: "--level=6 --raid-devices=5",
        until: "-ge 8192",
        in_doubt: true,
        tolerance: 1,
        goes_on: false,
    },
    Case {
        name: "more members of RAID 10",
        create: "--level=10 --chunk=64 --layout=n2",
        members: 4,
        spares: 2,
        before: ":",
        grow: "--raid-devices=6",
        until: "-ge 8192",
        in_doubt: false,
        tolerance: 1,
        goes_on: false,
    },
];

const MEMBER: u64 = 24 * MIB;

fn disks(case: &Case) -> usize {
    case.members + case.spares
}

fn script() -> String {
    let source: usize = CASES.iter().map(disks).sum();
    let mut script = String::new();
    let mut first = 0;
    for (i, case) in CASES.iter().enumerate() {
        let Case { name, create, members, spares, before, grow, until, in_doubt, .. } = case;
        let list = |from: usize, count: usize| {
            (from..from + count).fold(String::new(), |list, m| format!("{list} /dev/member/{m}"))
        };
        let (roles, added) = (list(first, *members), list(first + members, *spares));
        let _ = write!(
            script,
            "md=/dev/md{i}; sys=/sys/block/md{i}/md
             step 'create: {name}' mdadm --create $md --run --raid-devices={members} {create} {roles}
             if [ -e $sys/sync_action ]; then idle $md; fi
             size=$(blockdev --getsize64 $md)
             step 'fill: {name}' dd if=/dev/member/{source} of=$md bs=64k skip={i} count=$((size / 65536)) conv=fsync
             if [ {spares} -gt 0 ]; then step 'add: {name}' mdadm $md --add {added}; fi
             step 'before: {name}' {before}
             put sha{i} $(sha $md)
             for limit in min max; do echo 400 >/proc/sys/dev/raid/speed_limit_$limit; done
             step 'grow: {name}' mdadm --grow $md {grow}
             while p=$(cat $sys/reshape_position); ! [ $p {until} ] 2>/dev/null; do sleep 0.1; done
             put size{i} $(blockdev --getsize64 $md)
             step 'stop: {name}' mdadm --stop $md
             if {in_doubt}; then
                 step 'again: {name}' mdadm --assemble --readonly $md {roles} {added}
                 put again{i} $(sha $md)
                 step 'stop again: {name}' mdadm --stop $md
             fi
             put position{i} $(mdadm --examine /dev/member/{first} | sed -n \"s/^ *Reshape pos'n : \\([0-9]*\\).*/\\1/p\")
             for limit in min max; do echo 1000000 >/proc/sys/dev/raid/speed_limit_$limit; done
             "
        );
        first += disks(case);
    }
    script
}

#[test]
fn either_side_of_a_reshape_is_read() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let count: usize = CASES.iter().map(disks).sum();
    let images = files::members(dir.path(), "member", count, MEMBER);
    let source = dir.path().join("source");
    files::write_pattern(&source, 6 * MEMBER, 3);
    let report =
        vm.disks(images.iter().chain([&source])).limit(Duration::from_secs(600)).run(&script()).unwrap();
    let mut left = &images[..];
    for (i, case) in CASES.iter().enumerate() {
        let (disks, rest) = left.split_at(disks(case));
        left = rest;
        let value = |key: &str| report[format!("{key}{i}").as_str()].to_owned();
        let number = |key: &str| value(key).parse::<u64>().expect("a number");
        // With as many data members as before, md moves bytes further than it records, and reads wrong ones itself.
        let sha256 = value(if case.in_doubt { "again" } else { "sha" });
        let md = Md { sha256, size: number("size"), position: number("position") << 10 };
        judge(case, disks, &md);
    }
}

/// The facts that md reports of an array in a reshape.
struct Md {
    sha256: String,
    size: u64,
    position: u64,
}

fn judge(case: &Case, members: &[PathBuf], md: &Md) {
    let Case { name, tolerance, .. } = *case;
    let before: Vec<String> = members.iter().map(|member| files::sha256(member)).collect();
    let words = |command: &[&str], members: &[PathBuf]| {
        let words = command.iter().map(|word| word.to_string());
        program::brindle(words.chain(members.iter().map(|m| m.display().to_string())))
    };
    // Where bytes are in doubt, they are read by force only, and then as md reads them.
    let force: &[&str] = if case.in_doubt { &["--force"] } else { &[] };
    if case.in_doubt {
        words(&["cat"], members).refused(1, &["feature reshape", "--force"]);
    }
    let mut shuffled = members.to_vec();
    shuffled.reverse();
    let detail = words(&["detail", "--json"], &shuffled).ok().json();
    assert_eq!(detail["size"], md.size, "{name}");
    assert_eq!(detail["reshape"]["position"], md.position, "{name}");
    let limits = detail["limits"].to_string();
    assert!(limits.contains("feature reshape"), "{name}: {limits}");
    let examined = words(&["examine", "--json"], members).ok().json();
    assert_eq!(examined["members"][0]["superblock"]["reshape"], detail["reshape"], "{name}");

    let dir = tempfile::tempdir().unwrap();
    let content = dir.path().join("content");
    let mut sets = vec![(shuffled, "whole".to_owned())];
    // Rows that were half overwritten can't be computed reliably.
    for first in (0..members.len()).filter(|_| !case.in_doubt) {
        let is_lost = |role: usize| (role + members.len() - first) % members.len() < tolerance;
        let left = (0..members.len()).filter(|&role| !is_lost(role)).map(|role| members[role].clone());
        sets.push((left.collect(), format!("without {tolerance} members from {first} on")));
    }
    for (left, which) in sets {
        program::cat_with(force, &left, &content);
        assert_eq!(files::sha256(&content), md.sha256, "{name}, {which}");
    }
    let runtime = dir.path().display().to_string();
    words(&["serve", "--read-write", "--runtime-dir", &runtime], members).refused(1, &["feature reshape"]);
    words(&["check"], members).refused(1, &["being reshaped"]);
    let after: Vec<String> = members.iter().map(|member| files::sha256(member)).collect();
    assert_eq!(before, after, "{name}: nothing was written");
    if case.goes_on {
        is_gone_on_with(case, members, md);
    }
}

/// Brindle goes on where md has stopped.
fn is_gone_on_with(case: &Case, members: &[PathBuf], md: &Md) {
    let (dir, name) = (tempfile::tempdir().unwrap(), case.name);
    let words = ["--continue", "--memory", "32M"].map(PathBuf::from);
    let server = Server::start(&dir.path().join("run"), words.into_iter().chain(members.iter().cloned()));
    server.ask("wait", &[]).ok();
    let status = server.status();
    assert_eq!(status["array"]["degraded"].as_u64().unwrap_or(0), 0, "{name}: {status}");
    assert!(status["array"]["size"].as_u64() > Some(md.size), "{name}: {status}");
    server.stop();
    let cat = |words: &[&str]| {
        let words = words.iter().map(PathBuf::from).chain(members.iter().cloned());
        program::brindle(words)
    };
    let content = cat(&["cat"]).ended(0).out;
    assert_eq!(files::sha256_of(&content[..md.size as usize]), md.sha256, "{name}");
    assert_eq!(cat(&["check", "--json"]).json()["mismatch_cnt"], 0, "{name}");
}
