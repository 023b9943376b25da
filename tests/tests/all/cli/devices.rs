//! Devices that come to an array and go, while it is served and while it is not.

use std::fs;

use brindle_tests::tools::{self, or_skip};

use super::*;

/// A RAID 5 of three, called `a`, and `more` files that are as long as its members.
fn with_more(more: usize) -> (Set, Vec<PathBuf>) {
    let set = Set::raid5(3);
    let more = files::members(set.dir.path(), "n", more, 4 * MIB);
    (set, more)
}

fn devices(report: &Value) -> Vec<(&str, &str)> {
    let devices = report["devices"].as_array().unwrap().iter();
    devices.map(|device| (device["path"].as_str().unwrap(), device["state"].as_str().unwrap())).collect()
}

#[test]
fn another_device_takes_the_place_of_a_failed_one_while_clients_use_the_array() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let (set, new) = with_more(1);
    let [m0, m1, _] = &set.members[..] else { unreachable!() };
    let server = set.serve("");
    let (source, back) = (set.path("source"), set.path("back"));
    files::write_pattern(&source, server.status()["array"]["size"].as_u64().unwrap(), 1);
    tools::run(&nbdcopy, ["--flush", name(&source), &server.uri()]);
    server.fail(name(m1));
    let removed = server.ask("remove", &["failed", "--json"]).json();
    assert_eq!(removed["removed"], serde_json::json!([name(m1)]), "{removed}");
    assert_eq!(removed["array"]["devices"].as_array().unwrap().len(), 2, "{removed}");
    // It is free: others may have it.
    run("create -l 0 -N b --force", std::slice::from_ref(m1)).ok();
    let added = server.ask("add", &[name(&new[0]), "--json"]).json();
    assert_eq!(added["added"], serde_json::json!([name(&new[0])]), "{added}");
    server.ask("wait", &[]).ok();
    let status = server.status();
    assert_eq!(
        (state(&status["array"]).contains(&"degraded"), &status["array"]["missing"]),
        (false, &serde_json::json!([]))
    );
    server.ask("action", &["check"]).ok();
    assert_eq!(server.ask("wait", &["--json"]).json()["last_action"]["mismatch_cnt"], 0);
    // By the name of the one that came, which is a member as any other now.
    server.ask("remove", &[name(&new[0])]).refused(1, &[name(&new[0]), "in use"]);
    server.fail(name(m0));
    tools::run(&nbdcopy, [&server.uri(), name(&back)]);
    assert_eq!(files::sha256(&back), files::sha256(&source));
    server.stop_after_failing(2);
    let left = [set.members[2].clone(), new[0].clone()];
    let detail = run("detail --json", &left).json();
    assert_eq!(detail["missing"], serde_json::json!([0]));
    assert_eq!(devices(&detail)[1], (name(&new[0]), "in-sync"));
}

#[test]
fn devices_that_must_not_come_are_refused_by_name_and_left_as_they_are() {
    let (set, new) = with_more(6);
    let [foreign, small, occupied, used, gone, empty] = &new[..] else { unreachable!() };
    run("create -l 1 -N b", &[foreign.clone(), gone.clone()]).ok();
    fs::remove_file(gone).unwrap();
    files::sparse(small, 2 * MIB);
    fs::write(occupied, [&b"XFSB"[..], &vec![0; 4 << 20][4..]].concat()).unwrap();
    run("create -l 0 -N c", std::slice::from_ref(used)).ok();
    files::sparse(empty, 0);
    let other = Server::start(&set.path("other"), words("--memory 32M", std::slice::from_ref(used)));
    let before: Vec<String> = [foreign, small, occupied].map(|path| files::sha256(path)).to_vec();
    let server = set.serve("");
    let refused = |path: &Path, force: bool, words: &[&str]| {
        let args: &[&str] = if force { &["--force", name(path)] } else { &[name(path)] };
        server.ask("add", args).refused(1, &[&[name(path)], words].concat());
    };
    refused(foreign, false, &["belongs to the array", "b'", "--force"]);
    refused(occupied, false, &["carries", "XFS", "--force"]);
    for force in [false, true] {
        refused(small, force, &["too small"]);
        refused(used, force, &["another Brindle uses it"]);
        refused(&set.members[1], force, &["a device of 'a' already"]);
        refused(gone, force, &[]);
        refused(empty, force, &[]);
    }
    // Where one of several can't come, none does.
    server.ask("add", &["--force", name(occupied), name(gone)]).refused(1, &[name(gone)]);
    assert_eq!(server.status()["array"]["devices"].as_array().unwrap().len(), 3);
    assert_eq!([foreign, small, occupied].map(|path| files::sha256(path)).to_vec(), before);
    server.ask("add", &["--force", name(foreign), name(occupied)]).ok();
    let status = server.status();
    let spares = devices(&status["array"]);
    assert_eq!(spares[3..], [(name(foreign), "spare"), (name(occupied), "spare")]);
    server.ask("remove", &[name(&set.members[0])]).refused(1, &[name(&set.members[0]), "in use"]);
    server.ask("remove", &["nobody"]).refused(1, &["nobody", "not a device of a"]);
    fs::remove_file(occupied).unwrap();
    let removed = server.ask("remove", &["detached", "--json"]).json();
    assert_eq!(removed["removed"], serde_json::json!([name(occupied)]));
    assert!(server.ask("remove", &["failed"]).ok().text().contains("no such device"));
    server.ask("remove", &[name(foreign)]).ok();
    server.ask("add", &[name(foreign)]).ok();
    let (code, said) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && said.lines().all(|line| line.contains("deleted")), "{said}");
    other.stop();
}

#[test]
fn a_stopped_array_loses_and_gets_devices_and_is_whole_when_it_is_served() {
    let (set, new) = with_more(2);
    let [m0, m1, m2] = &set.members[..] else { unreachable!() };
    let all = format!("--array {} {} {}", name(m0), name(m1), name(m2));
    let ask = |words: &str, paths: &[PathBuf]| run(words, paths);
    fs::write(&new[1], [&b"XFSB"[..], &vec![0; 4 << 20][4..]].concat()).unwrap();
    let before = files::sha256(&new[1]);
    set.unchanged(|| {
        ask(&format!("add {all} --"), &new[1..]).refused(1, &[name(&new[1]), "carries", "--force"]);
        ask(&format!("add {all} --force --"), std::slice::from_ref(m1))
            .refused(1, &[name(m1), "of the array already"]);
        ask(&format!("remove {all} --"), std::slice::from_ref(m1)).refused(1, &[name(m1), "in use"]);
        ask(&format!("fail {all} --"), &new[..1]).refused(1, &[name(&new[0]), "not a member"]);
    });
    assert_eq!(files::sha256(&new[1]), before);
    let failed = ask(&format!("fail --json {all} --"), std::slice::from_ref(m1)).json();
    assert_eq!((&failed["missing"], devices(&failed)[1].1), (&serde_json::json!([1]), "stale"));
    let added = ask(&format!("add --json {all} --force --"), &new).json();
    assert_eq!(added["missing"], serde_json::json!([1]));
    assert_eq!(devices(&added)[3..], [(name(&new[0]), "spare"), (name(&new[1]), "spare")]);
    let all = format!("{all} {} {}", name(&new[0]), name(&new[1]));
    let left = ask(&format!("remove --json {all} --"), &new[1..]).json();
    assert_eq!(devices(&left).len(), 4, "{left}");
    let server = set.serve_some("--memory 32M", &[m0.clone(), m2.clone(), new[0].clone()]);
    server.ask("wait", &[]).ok();
    server.stop();
    let whole = run("detail --json", &[m0.clone(), m2.clone(), new[0].clone()]).json();
    assert_eq!((state(&whole), &whole["missing"]), (vec!["clean"], &serde_json::json!([])));
    assert_eq!(run("check --json", &[m0.clone(), m2.clone(), new[0].clone()]).json()["mismatch_cnt"], 0);
    run("add a", &[]).refused(2, &["name an array and then devices"]);
}

#[test]
fn what_failed_before_is_removed_as_failed_from_an_array_stopped_or_served() {
    for served in [false, true] {
        let (set, _new) = with_more(0);
        let m1 = name(&set.members[1]);
        let members: Vec<&str> = set.members.iter().map(|path| name(path)).collect();
        let stopped = |command: &str, device: &str| {
            program::brindle([&[command, "--json", "--array"], &members[..], &["--", device]].concat())
        };
        assert_eq!(devices(&stopped("fail", m1).json())[1], (m1, "stale"));
        if served {
            let server = set.serve("");
            assert_eq!(
                server.ask("remove", &["failed", "--json"]).json()["removed"],
                serde_json::json!([m1])
            );
            server.stop();
        } else {
            assert_eq!(devices(&stopped("remove", "failed").json()).len(), 2);
        }
        // It is none of the array's any more.
        let all = [set.members[0].clone(), set.members[2].clone()];
        assert_eq!(run("detail --json", &all).json()["missing"], serde_json::json!([1]));
        let text = program::brindle(
            [&["remove", "--array"], &members[..1], &members[2..], &["--", "failed"]].concat(),
        );
        assert_eq!(text.ok().text(), "there is no such device\n");
    }
}

#[test]
fn a_stale_member_may_be_named_with_the_array_to_which_it_is_added() {
    let (set, _new) = with_more(0);
    let [m0, m1, m2] = &set.members[..] else { unreachable!() };
    let words = |command: &str, device: &Path, more: &[&str]| {
        let words = [command, "--array", name(m0), name(m1), name(m2), "--", name(device)];
        program::brindle(words.into_iter().chain(more.iter().copied()))
    };
    words("fail", m0, &[]).ok();
    set.unchanged(|| {
        words("add", m0, &["--json"]).refused(2, &["'--json'", "before --array"]);
        words("remove", m0, &["--json"]).refused(2, &["'--json'", "before --array"]);
        words("add", m1, &[]).refused(1, &[name(m1), "of the array already"]);
    });
    let added = words("add", m0, &[]).ok().text();
    assert!(added.starts_with(&format!("{} added to the array\n", name(m0))), "{added}");
    let detail = set.detail();
    assert_eq!(devices(&detail)[0], (name(m0), "spare"), "{detail}");
}

#[test]
fn a_member_of_a_stopped_array_is_replaced_when_it_is_served() {
    let (set, new) = with_more(2);
    let [m0, m1, m2] = &set.members[..] else { unreachable!() };
    let replace = |members: &[&PathBuf], flags: &[&str]| {
        let members = members.iter().map(|path| name(path));
        program::brindle(["replace", "--array"].into_iter().chain(members).chain(flags.iter().copied()))
    };
    let all = [m0, m1, m2];
    let (first, second) = (name(&new[0]), name(&new[1]));
    fs::write(&new[1], [&b"XFSB"[..], &vec![0; 4 << 20][4..]].concat()).unwrap();
    let before = files::sha256(&new[1]);
    set.unchanged(|| {
        replace(&all, &["--with", first, second]).refused(1, &[second, "not a member in sync"]);
        replace(&all, &["--with", second, "1"]).refused(1, &[second, "carries", "--force"]);
        replace(&all, &["--with", name(m2), "1"]).refused(1, &[name(m1), "a spare is needed"]);
        replace(&all, &["--with", first, "a", "1"]).refused(2, &["'a'", "--array", "not both"]);
        program::brindle(["replace", "--with", first, "1"]).refused(2, &["name the array"]);
    });
    assert_eq!(files::sha256(&new[1]), before);
    let begun = replace(&all, &["--with", first, "--json", name(m1)]).json();
    assert_eq!(devices(&begun)[3], (first, "replacement"), "{begun}");
    // A member is not replaced twice, and the second device stays a spare.
    let with_first = [m0, m1, m2, &new[0]];
    replace(&with_first, &["--with", second, "--force", "1"])
        .refused(1, &[name(m1), "another device replaces"]);
    assert_eq!(files::sha256(&new[1]), before);
    let server = set.serve_some("--memory 32M", &with_first.map(Clone::clone));
    server.ask("wait", &[]).ok();
    assert_eq!(
        devices(&server.status()["array"]),
        [(name(m0), "in-sync"), (name(m1), "failed"), (name(m2), "in-sync"), (first, "in-sync")]
    );
    server.stop();
    let left = [m0, m2, &new[0]].map(Clone::clone);
    assert_eq!(run("detail --json", &left).json()["missing"], serde_json::json!([]));
    assert_eq!(run("check --json", &left).json()["mismatch_cnt"], 0);
    // By a spare that it has.
    run(&format!("add --array {} {} {} --force --", name(m0), name(m2), first), &new[1..]).ok();
    replace(&[m0, m2, &new[0], &new[1]], &["--with", second, "0"]).ok();
    let left = [m0, m2, &new[0], &new[1]].map(Clone::clone);
    assert_eq!(devices(&run("detail --json", &left).json())[3], (second, "replacement"));
}

#[test]
fn metadata_that_knows_no_replacement_is_said_so_and_left_as_it_is() {
    let (set, new) = (Set::sparse(3, 4 * MIB), tempfile::tempdir().unwrap());
    set.create("-l 5 -c 64K -e 0.90").ok();
    let new = files::members(new.path(), "n", 1, 4 * MIB);
    let before = files::sha256(&new[0]);
    let words = |with: &str| format!("replace --with {with} 1 --array");
    set.unchanged(|| set.run(&words(name(&new[0]))).refused(1, &["can't be replaced", "metadata (0.90)"]));
    assert_eq!(files::sha256(&new[0]), before);
}

#[test]
fn how_far_a_member_was_rebuilt_is_reported_for_a_stopped_array() {
    let set = Set::sparse(4, 64 * MIB);
    set.create("-l 5 -c 64K -x 1 -N a --assume-clean").ok();
    let server = set.serve("--max-speed 1");
    server.fail("0");
    let recovering =
        || server.status()["array"]["devices"].as_array().unwrap().iter().any(|d| d["state"] == "recovering");
    while !recovering() || server.status()["array"]["sync"]["position"] == 0 {}
    server.stop_after_failing(1);
    let detail = set.detail();
    let device =
        &detail["devices"].as_array().unwrap().iter().find(|device| device["state"] == "recovering").unwrap();
    let percent = device["recovered"].as_u64().unwrap() as f64 * 100.0
        / detail["component_size"].as_u64().unwrap() as f64;
    assert!(percent > 0.0 && percent < 100.0 && device["recovered_percent"] == percent, "{detail}");
    let text = set.run("detail").ok().text();
    assert!(text.contains(&format!("  recovering {percent:.1}% ")), "{text}");
}

#[test]
fn what_has_no_redundancy_is_not_replaced_and_is_told_so() {
    let (set, new) = (Set::sparse(2, 4 * MIB), tempfile::tempdir().unwrap());
    set.create("-l 0 -N a").ok();
    let new = files::members(new.path(), "n", 1, 4 * MIB);
    let server = set.serve("");
    server
        .ask("replace", &["0", "--with", name(&new[0])])
        .refused(1, &[name(&set.members[0]), "raid0 has no redundancy"]);
    server.stop();
}

#[test]
fn a_member_that_is_failed_by_its_role_is_reported_by_its_name() {
    let set = Set::sparse(4, 4 * MIB);
    set.create("-l 5 -c 64K -x 1 -N a").ok();
    let server = set.serve("");
    assert_eq!(server.ask("wait", &[]).ok().text(), "no check, repair or recovery is running\n");
    for member in [&set.members[0], &set.members[3]] {
        let failed = server.ask("fail", &["0"]).ok().text();
        assert_eq!(failed, format!("{} (role 0) of a has failed and is out of service\n", name(member)));
        // The spare is in that role then.
        server.ask("wait", &[]).ok();
    }
    server.stop_after_failing(2);
}

#[test]
fn members_are_replaced_by_new_devices_and_by_spares_while_clients_use_the_array() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let (set, new) = with_more(2);
    let [m0, m1, m2] = &set.members[..] else { unreachable!() };
    let server = set.serve("");
    let (source, back) = (set.path("source"), set.path("back"));
    files::write_pattern(&source, server.status()["array"]["size"].as_u64().unwrap(), 1);
    tools::run(&nbdcopy, ["--flush", name(&source), &server.uri()]);
    server
        .ask("replace", &[name(&new[0]), "--with", name(&new[1])])
        .refused(1, &[name(&new[0]), "not a member"]);
    server.ask("replace", &["0", "--with", name(m2)]).refused(1, &["can't be replaced", "a spare is needed"]);
    server.ask("action", &["speed", "--max-speed", "1"]).ok();
    let begun = server.ask("replace", &["1", "--with", name(&new[0]), "--json"]).json();
    server.ask("action", &["speed", "--max-speed", "0"]).ok();
    assert_eq!(
        (&begun["added"], &begun["array"]["missing"]),
        (&serde_json::json!([name(&new[0])]), &serde_json::json!([]))
    );
    assert_eq!(server.ask("wait", &[]).ok().text(), "replaced\n");
    let status = server.status();
    assert_eq!(
        (&status["last_action"]["action"], &status["last_action"]["error"]),
        (&"replace".into(), &Value::Null)
    );
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("last action, replace: replaced\n"), "{text}");
    for said in
        ["copied onto the device that replaces it", "another device has taken its place", "is the member now"]
    {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
    assert_eq!(
        devices(&status["array"])[1..],
        [(name(m1), "failed"), (name(m2), "in-sync"), (name(&new[0]), "in-sync")]
    );
    server.ask("remove", &["failed"]).ok();
    // By a spare that was there before.
    server.ask("add", &[name(&new[1])]).ok();
    let begun = server.ask("replace", &["0", "--with", name(&new[1])]).ok().text();
    assert_eq!(begun, format!("{} (role 0) of a is being replaced by {}\n", name(m0), name(&new[1])));
    server.ask("wait", &[]).ok();
    server.ask("remove", &[name(m0)]).ok();
    server.ask("action", &["check"]).ok();
    assert_eq!(server.ask("wait", &["--json"]).json()["last_action"]["mismatch_cnt"], 0);
    server.fail(name(m2));
    tools::run(&nbdcopy, [&server.uri(), name(&back)]);
    assert_eq!(files::sha256(&back), files::sha256(&source));
    server.stop_after_failing(1);
    let left = [new[0].clone(), new[1].clone()];
    assert_eq!(run("detail --json", &left).json()["missing"], serde_json::json!([2]));
}
