//! Arrays that get another size, served or stopped.

use brindle_tests::load::Load;
use rustix::process::Signal;

use super::*;

/// Members of 4 MiB whose array uses 1 MiB of each.
fn small(level: &str, members: usize, metadata: &str) -> Set {
    let set = Set::sparse(members, 4 * MIB);
    set.create(&format!("-l {level} -e {metadata} --size 1M --assume-clean --bitmap none")).ok();
    set
}

#[test]
fn a_served_array_takes_the_room_of_its_members() {
    for (level, members) in [("1", 2), ("5", 3)] {
        let set = small(level, members, "1.2");
        let mut server = set.serve("");
        server.ask("grow", &["--bitmap", "internal", "--bitmap-chunk", "64K"]).ok();
        assert_eq!(server.next_event()["kind"], "bitmap-added");
        let before = server.status()["array"].clone();
        let planned = server.ask("grow", &["--size", "max", "-n", "--json"]).json();
        assert_eq!(planned["array"]["size"], before["size"], "raid{level}: nothing changes");
        let text = server.ask("grow", &["--size", "max", "-n"]).ok().text();
        assert!(text.contains("would have") && text.contains("no byte moves"), "{text}");
        let grown = server.ask("grow", &["--size", "max", "--json"]).json();
        assert_eq!(grown["growth"], planned["growth"], "raid{level}");
        let now = &grown["array"];
        assert_eq!(now["size"], planned["growth"]["new_size"], "raid{level}");
        assert!(now["size"].as_u64() > before["size"].as_u64(), "raid{level}: {now}");
        assert_eq!(server.next_event()["kind"], "grown");
        server.ask("wait", &[]).ok();
        server.ask("grow", &["--size", "max"]).refused(1, &["has no room for more", "larger device"]);
        server.ask("grow", &["--size", "1M"]).refused(1, &["cuts", "--force"]);
        let text = server.ask("grow", &["--size", "1M", "--force"]).ok().text();
        assert!(text.contains("in the place of") && !text.contains("resize2fs"), "{text}");
        let text = server.ask("grow", &["--size", "max"]).ok().text();
        assert!(text.contains("resize2fs"), "{text}");
        server.ask("wait", &[]).ok();
        server.stop();
        let detail = set.detail();
        assert_eq!(detail["size"], now["size"], "raid{level}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "raid{level}");
    }
}

#[test]
fn a_stopped_array_takes_the_room_of_its_members_whatever_the_metadata() {
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        let set = small("5", 3, metadata);
        let grow = |words: &str| set.run(&format!("grow {words} --array"));
        let before = set.detail()["size"].as_u64().unwrap();
        let mut planned = Value::Null;
        set.unchanged(|| planned = grow("--size max -n --json").json());
        let detail = grow("--size max --json").json();
        assert_eq!(detail["size"], planned["new_size"], "{metadata}");
        assert!(detail["size"].as_u64().unwrap() > before, "{metadata}: {detail}");
        grow("--size max").refused(1, &["not in sync everywhere", "resync"]);
        assert!(state(&detail).contains(&"needs resync"), "{metadata}: {detail}");
        let server = set.serve("");
        server.ask("wait", &[]).ok();
        server.stop();
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{metadata}");
        grow("--size 1M --force").ok();
        let detail = grow("--size max --assume-clean --json").json();
        assert_eq!(state(&detail), ["clean"], "{metadata}");
    }
}

#[test]
fn what_has_no_other_size_is_refused_by_name() {
    for (level, words) in
        [("0", "raid0 can't be given another size"), ("10", "raid10 can't"), ("linear", "linear can't")]
    {
        let set = Set::sparse(2, 4 * MIB);
        set.create(&format!("-l {level}")).ok();
        set.unchanged(|| set.run("grow --size max --array").refused(1, &[words, "mdadm --grow"]));
    }
    let set = small("5", 3, "1.2");
    set.unchanged(|| {
        set.run("grow --size max --bitmap none --array").ended(2);
        set.run("grow --dry-run --bitmap none --array").ended(2);
        set.run("grow --size all --array").ended(2);
        set.run("grow --size 64M --array").refused(1, &["has room for", "smaller --size"]);
        set.run("grow --size 1M --array").refused(1, &["nothing to change"]);
    });
    let server = set.serve("");
    server.fail("1");
    server.ask("grow", &["--size", "max"]).refused(1, &["role 1 has no member", "add a device"]);
    server.stop_after_failing(1);
}

#[test]
fn a_mirror_gets_a_member_more_and_gives_one_away() {
    let set = Set::sparse(3, 4 * MIB);
    let (two, third) = (&set.members[..2], &set.members[2]);
    run("create -l 1 --assume-clean --bitmap none", two).ok();
    let server = set.serve_some("--memory 32M", two);
    server.ask("grow", &["--raid-devices", "3"]).refused(1, &["0 spares for 1 new members", "--add"]);
    let planned = server.ask("grow", &["--raid-devices", "3", "--add", name(third), "-n"]);
    let planned = planned.ok().text();
    assert!(planned.contains("would be raid1 of 3 members"), "{planned}");
    let text = server.ask("grow", &["--raid-devices", "3", "--add", name(third)]).ok().text();
    assert!(text.contains("raid1 of 3 members") && text.contains("brindle wait"), "{text}");
    server.ask("wait", &[]).ok();
    let status = server.status();
    assert_eq!(
        (&status["array"]["raid_devices"], &status["array"]["missing"]),
        (&3.into(), &serde_json::json!([]))
    );
    let grown = server.ask("grow", &["--raid-devices", "2", "--json"]).json();
    assert_eq!(
        (&grown["growth"]["new_raid_devices"], &grown["array"]["raid_devices"]),
        (&2.into(), &2.into()),
        "{grown}"
    );
    server.ask("remove", &[name(third)]).ok();
    server.ask("grow", &["--level", "6"]).refused(1, &["raid1", "raid6", "mdadm --grow --level"]);
    let text = server.ask("grow", &["--level", "5"]).ok().text();
    assert!(text.contains("raid5 of 2 members, left-symmetric in the place of raid1 of 2 members"), "{text}");
    server.ask("grow", &["--level", "6", "--add", name(third), "-n"]).refused(1, &["raid6"]);
    server.ask("grow", &["--level", "1"]).ok();
    server.stop();
    let detail = run("detail --json", two).json();
    assert_eq!((&detail["level"], &detail["size"]), (&"raid1".into(), &grown["array"]["size"]), "{detail}");
}

#[test]
fn a_raid5_gets_q_on_a_member_more_and_gives_it_away() {
    let set = Set::sparse(4, 4 * MIB);
    let (three, fourth) = (&set.members[..3], &set.members[3]);
    run("create -l 5 --assume-clean --bitmap none", three).ok();
    let server = set.serve_some("--memory 32M", three);
    let text = server.ask("grow", &["--level", "6", "--add", name(fourth)]).ok().text();
    assert!(
        text.contains("raid6 of 4 members, left-symmetric-6") && text.contains("Q stays on one member"),
        "{text}"
    );
    server.ask("wait", &[]).ok();
    let status = server.status();
    assert_eq!(
        (&status["array"]["level"], &status["array"]["missing"]),
        (&"raid6".into(), &serde_json::json!([]))
    );
    server.stop();
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
    set.run("grow --level 5 --array").ok();
    let detail = set.detail();
    assert_eq!((&detail["level"], &detail["raid_devices"]), (&"raid5".into(), &3.into()), "{detail}");
}

/// The content of an array that nobody serves, up to a byte.
fn content(set: &Set, size: u64) -> String {
    let all = set.run("cat").ended(0).out;
    files::sha256_of(&all[..size as usize])
}

#[test]
fn data_move_onto_a_disk_more_while_clients_write_and_after_kills() {
    let mut set = Set::sparse(3, 24 * MIB);
    set.create("-l 5 -e 1.2 --chunk 64K --assume-clean --bitmap internal").ok();
    let disk = files::members(set.dir.path(), "more", 1, 24 * MIB).remove(0);
    let more = disk.to_str().unwrap().to_owned();
    let server = set.serve("--max-speed 3M");
    let size = server.status()["array"]["size"].as_u64().unwrap();
    let mut load = Load::on_zeroes(&server.uri(), 5);
    load.fill();
    server.ask("grow", &["--raid-devices", "4"]).refused(1, &["0 spares for 1 new", "--add"]);
    server.ask("grow", &["--raid-devices", "2"]).refused(1, &["not made of fewer members"]);
    let planned = server.ask("grow", &["--raid-devices", "4", "--add", &more, "-n", "--json"]).json();
    assert_eq!(planned["growth"]["moved"], size, "{planned}");
    let text = server.ask("grow", &["--raid-devices", "4", "--add", &more]).ok().text();
    assert!(text.contains("is reshaped from 3 members to 4") && text.contains("--continue"), "{text}");
    set.members.push(disk);
    server.ask("grow", &["--raid-devices", "5"]).ended(1);
    server.ask("action", &["check"]).refused(1, &["reshape of the array is under way"]);
    server.ask("action", &["pause"]).ok();
    load.storm();
    server.ask("action", &["resume"]).ok();
    load.storm();
    load.end();
    let moved = |server: &Server| server.status()["array"]["sync"]["position"].as_u64().unwrap_or(u64::MAX);
    until("some has moved", || moved(&server) > 4 * MIB);
    assert!(server.status()["array"]["size"] == size, "{}", server.status());
    server.signal(Signal::KILL);
    let before = content(&set, size);
    // Without the word it is read-only, with the reason.
    let server = set.serve("");
    let status = server.status();
    assert!(state(&status["array"]).contains(&"read-only"), "{status}");
    server.stop_after_telling(&["serving read-only", "--continue goes on with the reshape"]);
    assert_eq!(content(&set, size), before);
    for _ in 0..2 {
        let server = set.serve("--continue --max-speed 6M");
        let at = moved(&server);
        until("more has moved", || moved(&server) > at);
        server.signal(Signal::KILL);
        assert_eq!(content(&set, size), before);
    }
    let server = set.serve("--continue");
    server.ask("wait", &[]).ok();
    let status = server.status();
    assert_eq!(status["array"]["size"], planned["growth"]["new_size"], "{status}");
    server.stop();
    assert_eq!(content(&set, size), before);
    let checked = set.run("check --json").json();
    assert_eq!(checked["mismatch_cnt"], 0, "{checked}");
    set.serve("").stop();
}

#[test]
fn a_disk_more_of_an_array_that_is_not_served_is_added_first_and_time_is_told() {
    let mut set = Set::sparse(3, 8 * MIB);
    set.create("-l 5 -e 1.2 --chunk 64K --assume-clean --bitmap internal").ok();
    let disk = files::members(set.dir.path(), "more", 1, 8 * MIB).remove(0);
    let more = disk.to_str().unwrap().to_owned();
    let before = content(&set, 1 << 20);
    set.unchanged(|| {
        let grow = format!("grow --raid-devices 6 --add {more} --array");
        set.run(&grow).refused(1, &["1 spares for 3 new members"]);
    });
    let planned = set.run(&format!("grow --raid-devices 4 --add {more} -n --array")).ok().text();
    assert!(planned.contains("at the present pace that takes about 0:00:"), "{planned}");
    let text = set.run(&format!("grow --raid-devices 4 --add {more} --array")).ended(0).text();
    assert!(text.contains("on 4 members now in the place of"), "{text}");
    set.members.push(disk);
    let detail = set.detail();
    assert_eq!(
        (&detail["raid_devices"], &detail["consistency_policy"]),
        (&4.into(), &"bitmap".into()),
        "{detail}"
    );
    assert_eq!(content(&set, 1 << 20), before);
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}
