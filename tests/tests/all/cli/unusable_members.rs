//! Members that can't be used though the others suffice: they are named, and done without.

use brindle_tests::loops::Loop;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::*;

/// A device whose every read fails: the file under it has lost its content.
fn unreadable(file: &Path) -> Option<Loop> {
    let device = or_skip(Loop::over(file, 512))?;
    std::fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
    Some(device)
}

#[test]
fn a_member_that_can_not_be_read_is_done_without() {
    let set = Set::raid5(3);
    let content = files::sha256_of(&set.run("cat").ok().out);
    let Some(bad) = unreadable(&set.members[1]) else { return };
    let mut members = set.members.clone();
    members[1] = bad.path().to_owned();
    let words = [name(bad.path()), "can't be read", "going on without it"];
    let warned = |ran: &Ran| {
        assert!(
            words.iter().all(|word| ran.err.contains(word)) && ran.err.lines().count() == 1,
            "{}",
            ran.err
        );
    };
    for command in ["detail", "check", "cat"] {
        // Of what lacks a member nothing can be compared.
        let ran = run(command, &members).ended(if command == "check" { 5 } else { 0 });
        warned(&ran);
        if command == "cat" {
            assert_eq!(files::sha256_of(&ran.out), content);
        }
    }
    let server = set.serve_some("--memory 32M", &members);
    let status = server.status();
    assert_eq!(state(&status["array"]), ["clean", "degraded"], "{status}");
    assert_eq!(status["left_out"][0]["path"], name(bad.path()), "{status}");
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("left out") && text.contains("can't be read"), "{text}");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && words.iter().all(|word| err.contains(word)), "{err}");
    // With nothing to make up for it, it is named as what is missing.
    let too_few = ["role", "missing", "left out", name(bad.path()), "can't be read"];
    run("cat", &members[..2]).refused(1, &too_few);
    run("cat", &members[1..2]).refused(1, &[name(bad.path()), "can't be read"]);
    run("create -l 5 --force", &members).refused(1, &[name(bad.path()), "can't be read"]);
}

#[test]
fn a_member_whose_superblock_is_damaged_is_done_without() {
    for (metadata, superblock) in [("0.90", 4 * MIB - 64 * KIB), ("1.0", 4 * MIB - 8 * KIB), ("1.2", 4 * KIB)]
    {
        let set = Set::sparse(3, 4 * MIB);
        set.create(&format!("-l 5 -c 64K -e {metadata}")).ok();
        let content = set.run("cat").ok().out;
        // The level, which nothing but the checksum can vouch for.
        flip(&set.members[1], superblock + if metadata == "0.90" { 28 } else { 72 });
        let bad = name(&set.members[1]);
        let words = [bad, "checksum", "damaged", "going on without it"];
        set.unchanged(|| {
            for command in ["detail", "check", "cat"] {
                let ran = set.run(command).ended(if command == "check" { 5 } else { 0 });
                assert!(words.iter().all(|word| ran.err.contains(word)), "{metadata}: {}", ran.err);
                assert_eq!(ran.err.lines().count(), 1, "{metadata}: {}", ran.err);
                assert!(command != "cat" || ran.out == content, "{metadata}");
            }
            // If too few members are left, the message says what would help.
            let help = ["role", "missing", "left out", bad, "checksum", "give a good copy"];
            run("cat", &set.members[..2]).refused(1, &help);
            run("cat --force", &set.members[..2]).refused(1, &help);
            run("check", &set.members[1..2]).refused(1, &[bad, "damaged", "give a good copy"]);
        });
        let report = set.run("examine --json").ended(1).report();
        assert!(report["members"][1]["error"].as_str().unwrap().contains("checksum"), "{report}");
        assert!(report["members"][1]["superblock"].is_null() && report["problem"].is_null(), "{report}");
        let damaged = files::sha256(&set.members[1]);
        let server = set.serve("");
        let status = server.status();
        assert_eq!(state(&status["array"]), ["clean", "degraded"], "{status}");
        assert_eq!(status["left_out"][0]["path"], bad, "{status}");
        let (code, err) = server.signal(Signal::TERM);
        assert!(code == 0 && words.iter().all(|word| err.contains(word)), "{err}");
        assert_eq!(files::sha256(&set.members[1]), damaged, "what is left out is left alone");
        // Old superblocks don't stand in the way of a new array.
        set.create("-l 5 --force").ok();
    }
}

#[test]
fn a_damaged_superblock_that_may_be_the_newest_stops_all_but_force() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1").ok();
    // The second lives on alone for a while, and then its superblock rots.
    let server = set.serve("");
    server.fail("0");
    Client::connect(&server.uri()).all_at_once(&[write(0, 7)]);
    server.stop_after_failing(1);
    flip(&set.members[1], 4096 + 72);
    let bad = name(&set.members[1]);
    set.unchanged(|| {
        let words = [bad, "damaged", "event", "lack what was written last", "--force"];
        set.run("cat").refused(1, &words);
        set.serve_refused("").refused(1, &words);
        let detail = set.run("detail").ended(0);
        assert!(detail.err.contains(bad), "{}", detail.err);
        let forced = set.run("cat --force --length 4K").ended(0);
        assert!(forced.err.contains(bad) && forced.out == [0; 4096], "{}", forced.err);
    });
}

fn write(offset: u64, byte: u8) -> Change {
    Change { offset, len: 4096, work: Work::Write { data: vec![byte; 4096], fua: false } }
}

/// A RAID 1 over two arrays, which are RAID 5 of three members each.
struct Nest {
    set: Set,
    arrays: Vec<PathBuf>,
}

impl Nest {
    fn new() -> Self {
        let set = Set::sparse(6, 8 * MIB);
        for (at, three) in set.members.chunks(3).enumerate() {
            run(&format!("create -l 5 -c 64K -N inner{at}"), three).ok();
        }
        let arrays: Vec<PathBuf> = set.members.chunks(3).map(joined).collect();
        run("create -l 1 -N a", &arrays).ok();
        Self { set, arrays }
    }

    fn serve(&self) -> Server {
        self.set.serve_some("--memory 64M", &self.arrays)
    }
}

fn joined(members: &[PathBuf]) -> PathBuf {
    members.iter().map(|member| name(member)).collect::<Vec<_>>().join("+").into()
}

#[test]
fn an_array_that_can_not_be_assembled_is_a_member_that_is_missing() {
    let nest = Nest::new();
    // One member is not enough for the second.
    let arrays = [nest.arrays[0].clone(), joined(&nest.set.members[3..5]), nest.arrays[1].clone()];
    files::sparse(&nest.set.members[4], 8 * MIB);
    let first = [arrays[0].clone(), arrays[2].clone()];
    let cat = run("cat --length 64K", &first).ended(0);
    let words = [name(&arrays[2]), name(&nest.set.members[4]), "no md superblock", "going on without it"];
    assert!(words.iter().all(|word| cat.err.contains(word)) && cat.err.lines().count() == 1, "{}", cat.err);
    let server = nest.set.serve_some("--memory 64M", &first);
    assert_eq!(state(&server.status()["array"]), ["clean", "degraded"]);
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && words.iter().all(|word| err.contains(word)), "{err}");
    run("cat", &arrays[2..]).refused(1, &[name(&arrays[2]), "no md superblock"]);
}

#[test]
fn a_damaged_superblock_in_an_array_that_is_a_member_costs_that_array_one_member() {
    let nest = Nest::new();
    let bad = name(&nest.set.members[4]);
    flip(&nest.set.members[4], 4096 + 72);
    let cat = run("cat --length 64K", &nest.arrays).ended(0);
    assert!(cat.err.contains(bad) && cat.err.lines().count() == 1, "{}", cat.err);
    let server = nest.serve();
    let status = server.status();
    assert_eq!(state(&status["array"]), ["clean"], "{status}");
    assert_eq!(state(&status["arrays"][1]), ["clean", "degraded"], "{status}");
    server.signal(Signal::TERM);
    // The superblock for the array above stands in the first chunk.
    let report = run("examine --json", &nest.set.members[..1]).json();
    let data = report["members"][0]["superblock"]["data_offset"].as_u64().unwrap();
    flip(&nest.set.members[0], data + 4096 + 72);
    let cat = run("cat --length 64K", &nest.arrays).ended(0);
    let words = [name(&nest.arrays[0]), "damaged", "going on without it", bad];
    assert!(words.iter().all(|word| cat.err.contains(word)) && cat.err.lines().count() == 2, "{}", cat.err);
}

#[test]
fn an_array_that_is_out_of_date_in_the_one_above_is_left_alone() {
    let nest = Nest::new();
    // The first half lives on without the second, which is then out of date.
    let server = nest.serve();
    server.fail("1");
    server.stop_after_failing(1);
    let before: Vec<String> = nest.set.members[3..].iter().map(|member| files::sha256(member)).collect();
    let server = nest.serve();
    let status = server.status();
    assert_eq!(state(&status["array"]), ["clean", "degraded"], "{status}");
    assert_eq!(status["left_out"][0]["path"], name(&nest.arrays[1]), "{status}");
    assert_eq!(status["arrays"].as_array().unwrap().len(), 1, "{status}");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains(name(&nest.arrays[1])) && err.contains("in the array above"), "{err}");
    let after: Vec<String> = nest.set.members[3..].iter().map(|member| files::sha256(member)).collect();
    assert!(before == after, "what is left out was written to");
}

#[test]
fn members_of_a_member_are_seen_and_failed() {
    let nest = Nest::new();
    let server = nest.serve();
    let victim = name(&nest.set.members[4]);
    server.fail(victim);
    let status = server.status();
    assert_eq!(state(&status["array"]), ["clean"], "{status}");
    let inner = &status["arrays"][1];
    assert_eq!(inner["label"], name(&nest.arrays[1]), "{status}");
    assert_eq!(state(inner), ["clean", "degraded"], "{status}");
    let device = &inner["devices"][1];
    assert_eq!((&device["path"], &device["state"]), (&victim.into(), &"failed".into()), "{status}");
    let event = &status["events"][0];
    assert_eq!(
        (&event["array"], &event["member"]),
        (&name(&nest.arrays[1]).into(), &victim.into()),
        "{status}"
    );
    let text = server.ask("status", &[]).ok().text();
    assert!(
        text.contains(&format!("{}: raid5", nest.arrays[1].display())) && text.contains(victim),
        "{text}"
    );
    // A second one is more than it can lose, and the array above would be degraded.
    server.ask("fail", &[name(&nest.set.members[5])]).refused(1, &["stays in service", "redundancy"]);
    // The member array itself, by its name.
    server.fail(name(&nest.arrays[1]));
    assert_eq!(state(&server.status()["array"]), ["clean", "degraded"]);
    server.stop_after_failing(2);
    assert_eq!(run("detail --json", &nest.set.members[3..]).json()["missing"], serde_json::json!([1]));
}
