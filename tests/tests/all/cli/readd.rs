//! Members that come back: re-added by command, or by policy, served and stopped.

use brindle_tests::loops::Loop;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::lost_members::event;
use super::*;

/// A RAID 5 of four with a bitmap, called `a`.
fn marked() -> Set {
    let set = Set::sparse(4, 4 * MIB);
    set.create("-l 5 -c 64K -N a --bitmap internal --bitmap-chunk 64K").ok();
    set
}

fn joined(report: &Value) -> (&Value, &Value, &Value) {
    let joined = &report["joined"][0];
    (&joined["path"], &joined["role"], &joined["reason"])
}

fn whole(set: &Set) {
    let detail = set.detail();
    assert_eq!((state(&detail), &detail["missing"]), (vec!["clean"], &serde_json::json!([])));
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}

#[test]
fn a_member_that_was_away_is_that_member_again_and_what_is_none_is_reported() {
    let set = marked();
    let m1 = &set.members[1];
    let server = set.serve("");
    // Failed, and asked for by name: what there is to say is nothing else than that it is back.
    server.fail(name(m1));
    let back = server.ask("add", &["--re-add", name(m1), "--json"]).json();
    assert_eq!(joined(&back), (&name(m1).into(), &1.into(), &Value::Null), "{back}");
    assert_eq!(back["added"], serde_json::json!([name(m1)]));
    server.ask("wait", &[]).ok();
    server.ask("add", &["--re-add", name(m1)]).refused(1, &[name(m1), "already"]);
    // Removed, and brought as a device.
    server.fail(name(m1));
    server.ask("remove", &["failed"]).ok();
    let reported = server.ask("add", &[name(m1)]).ok().text();
    assert!(reported.contains("is the member of role 1 again"), "{reported}");
    server.ask("wait", &[]).ok();
    assert_eq!(server.status()["array"]["missing"], serde_json::json!([]));
    // No former member is none, and stays as it is.
    let stranger = set.path("stranger");
    files::sparse(&stranger, 4 * MIB);
    let before = files::sha256(&stranger);
    server
        .ask("add", &["--re-add", name(&stranger)])
        .refused(1, &[name(&stranger), "not a device of this array"]);
    assert_eq!(files::sha256(&stranger), before);
    server.stop_after_failing(2);
    whole(&set);
}

/// A disk that was pulled comes back as another device, to which its name leads then. The old one is still open.
#[test]
fn a_member_that_is_another_device_now_is_taken_again_by_the_command_that_is_told() {
    for (bitmap, command) in [("internal", "add --re-add"), ("none", "add")] {
        let set = Set::sparse(3, 4 * MIB);
        set.create(&format!("-l 5 -c 64K -N here:a --bitmap {bitmap}")).ok();
        let file = set.path("brindle.toml");
        std::fs::write(&file, format!("homehost = \"here\"\nwait = \"1s\"\ndevices = {:?}\n", set.members))
            .unwrap();
        let server =
            Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
        let m1 = &set.members[1];
        let hand = |device: &Path| {
            let flags = format!("--config {} --runtime-dir {}", name(&file), set.runtime().display());
            run(&format!("incremental --json {flags}"), &[device.to_owned()]).ended(0).report()
        };
        // Members that are in use and well need nothing.
        assert_eq!((&hand(m1)["outcome"], &hand(m1)["next"]), (&"served".into(), &Value::Null));
        let ask = |command: &str| run(&format!("{command} --runtime-dir {}", set.runtime().display()), &[]);
        ask("fail a 1").ok();
        std::fs::rename(m1, set.path("pulled")).unwrap();
        std::fs::copy(set.path("pulled"), m1).unwrap();
        let told = hand(m1);
        let next = format!("brindle {command} --runtime-dir {} a {}", set.runtime().display(), name(m1));
        assert_eq!((&told["outcome"], &told["next"]), (&"back".into(), &next.clone().into()), "{told}");
        program::brindle(next.split_whitespace().skip(1)).ok();
        ask("wait a").ended(0);
        let status = ask("status --json a").report();
        let devices = status["array"]["devices"].as_array().unwrap();
        assert!(devices.len() == 3 && devices.iter().all(|device| device["state"] == "in-sync"), "{status}");
        assert_eq!(hand(m1)["outcome"], "served");
        assert_eq!(server.signal(Signal::TERM).0, 0);
        whole(&set);
    }
}

/// The command that is told takes it into use while the pool is served.
#[test]
fn a_member_of_a_pool_that_is_back_is_taken_by_the_command_that_is_told() {
    let set = Set::sparse(3, 8 * MIB);
    run("pool create tank raidz1", &set.members).ok();
    let file = set.path("brindle.toml");
    let text = format!(
        "homehost = \"none\"\nwait = \"1s\"\ndevices = {:?}\n[[pools]]\nname = \"tank\"\n",
        set.members
    );
    std::fs::write(&file, text).unwrap();
    let server =
        Server::start_by("daemon", &set.runtime(), words("--config", std::slice::from_ref(&file)), &[]);
    let m1 = &set.members[1];
    let hand = || {
        let flags = format!("--config {} --runtime-dir {}", name(&file), set.runtime().display());
        run(&format!("incremental --json {flags}"), std::slice::from_ref(m1)).ended(0).report()
    };
    assert_eq!(hand()["outcome"], "served");
    let ask = |command: &str| run(&format!("{command} --runtime-dir {}", set.runtime().display()), &[]);
    ask(&format!("fail tank {}", name(m1))).ok();
    let told = hand();
    let online = format!("pool online --runtime-dir {} tank {}", set.runtime().display(), name(m1));
    let next = format!("brindle {online}");
    assert_eq!((&told["outcome"], &told["next"]), (&"back".into(), &next.into()), "{told}");
    run(&online, &[]).ok();
    ask("wait tank").ok();
    let status = ask("status --json tank").report();
    assert_eq!(status["pool"]["state"], serde_json::json!(["online"]), "{status}");
    assert_eq!(hand()["outcome"], "served");
    assert_eq!(server.signal(Signal::TERM).0, 0);
}

#[test]
fn who_can_not_be_taken_again_is_a_spare_and_the_reason_is_reported() {
    let set = Set::raid5(4);
    let m1 = &set.members[1];
    let server = set.serve("");
    server.fail(name(m1));
    server.ask("remove", &["failed"]).ok();
    server.ask("add", &["--re-add", name(m1)]).refused(1, &[name(m1), "no write-intent bitmap"]);
    let added = server.ask("add", &[name(m1), "--json"]).json();
    assert_eq!(joined(&added), (&name(m1).into(), &Value::Null, &"no-bitmap".into()), "{added}");
    server.ask("wait", &[]).ok();
    server.stop_after_failing(1);
    whole(&set);
}

#[test]
fn a_member_that_is_out_of_date_is_taken_again_when_it_is_served_or_by_command_while_it_is_not() {
    for served in [true, false] {
        let set = marked();
        let server = set.serve("");
        server.fail("1");
        server.stop_after_failing(1);
        assert_eq!(set.detail()["missing"], serde_json::json!([1]));
        let flags = if served { "--re-add" } else { "" };
        if !served {
            let all: Vec<&str> = set.members.iter().map(|member| name(member)).collect();
            let words = format!("add --json --re-add --array {} --", all.join(" "));
            let added = run(&words, &set.members[1..2]).json();
            assert_eq!(joined(&added), (&all[1].into(), &1.into(), &Value::Null), "{added}");
            assert_eq!(added["missing"], serde_json::json!([]));
        }
        let server = set.serve(flags);
        let begun = std::time::Instant::now();
        while state(&server.status()["array"]).contains(&"degraded") {
            assert!(begun.elapsed().as_secs() < 60, "{}", server.status());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        server.stop();
        whole(&set);
    }
}

#[test]
fn one_word_stands_for_all_former_members_that_can_be_found() {
    let set = marked();
    let (m1, stranger) = (&set.members[1], set.path("missing"));
    files::sparse(&stranger, 4 * MIB);
    let server = set.serve("");
    server.ask("add", &["missing"]).refused(2, &["'missing'", "--re-add", "./missing"]);
    server.ask("add", &["--re-add", "missing", name(&stranger)]).refused(2, &["no other beside it"]);
    let none = server.ask("add", &["--re-add", "missing"]).ok().text();
    assert_eq!(none, "no former member of a is to be found\n");
    // One that the array has and does not use, then one that it had.
    for remove in [false, true] {
        server.fail(name(m1));
        if remove {
            server.ask("remove", &["failed"]).ok();
        }
        let back = server.ask("add", &["--re-add", "missing", "--json"]).json();
        assert_eq!(joined(&back), (&name(m1).into(), &1.into(), &Value::Null), "{back}");
        assert_eq!(
            (&back["added"], &back["refused"]),
            (&serde_json::json!([name(m1)]), &serde_json::json!([]))
        );
        server.ask("wait", &[]).ok();
    }
    server.stop_after_failing(2);
    // Of an array that nobody serves: one that is out of date.
    let server = set.serve("");
    server.fail(name(m1));
    server.stop_after_failing(1);
    let all: Vec<&str> = set.members.iter().map(|member| name(member)).collect();
    let words = format!("add --re-add --array {} -- missing", all.join(" "));
    let reported = run(&words, &[]).ok().text();
    assert!(reported.contains(name(m1)) && reported.contains("is the member of role 1 again"), "{reported}");
    assert_eq!(run(&words, &[]).ok().text(), "no former member of the array is to be found\n");
    let server = set.serve("");
    server.wait_for_state("degraded", false);
    server.stop();
    whole(&set);
}

#[test]
fn a_former_member_that_is_found_and_refused_is_reported() {
    let set = Set::raid5(4);
    let m1 = &set.members[1];
    let server = set.serve("");
    server.fail(name(m1));
    let reported = server.ask("add", &["--re-add", "missing", "--json"]).json();
    assert_eq!(
        (&reported["added"], &reported["joined"]),
        (&serde_json::json!([]), &serde_json::json!([])),
        "{reported}"
    );
    let (path, why) = (&reported["refused"][0]["path"], reported["refused"][0]["why"].as_str().unwrap());
    assert!(path == name(m1) && why.contains("no write-intent bitmap"), "{reported}");
    assert!(server.ask("add", &["--re-add", "missing"]).ok().text().starts_with("left as it is: "));
    server.stop_after_failing(1);
}

#[test]
fn a_former_member_is_looked_for_among_the_disks_of_the_machine() {
    let mut set = Set::sparse(4, 4 * MIB);
    let Some(disk) = or_skip(Loop::over(&set.members[3], 512)) else { return };
    set.members[3] = disk.path().to_owned();
    set.create("-l 5 -c 64K -N a --bitmap internal --bitmap-chunk 64K").ok();
    // It is no more than missing: nobody names it.
    let server = set.serve_some("--memory 32M", &set.members[..3]);
    let back = server.ask("add", &["--re-add", "missing", "--json"]).json();
    assert_eq!(joined(&back), (&name(disk.path()).into(), &3.into(), &Value::Null), "{back}");
    server.ask("wait", &[]).ok();
    server.stop();
    whole(&set);
}

#[test]
fn a_member_that_went_away_and_is_back_is_taken_again_by_itself_where_that_was_asked_for() {
    let set = Set::sparse(5, 4 * MIB);
    set.create("-l 6 -c 64K -N a --bitmap internal --bitmap-chunk 64K").ok();
    let mut server = set.serve("--re-add-returned");
    let mut client = Client::connect(&server.uri());
    let write = |client: &mut Client, offset: u64, byte: u8| {
        let work = Work::Write { data: vec![byte; MIB as usize], fua: false };
        client.all_at_once(&[Change { offset, len: MIB, work }]);
    };
    write(&mut client, 0, 1);
    server.wait_for_state("clean", true);
    let copy = |of: usize| {
        let to = set.path(&format!("copy{of}"));
        std::fs::copy(&set.members[of], &to).unwrap();
        to
    };
    // One member fails by itself, so that its place is empty; another is failed by command.
    let copies = [copy(1), copy(2)];
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(0).unwrap();
    assert_eq!(event(&mut server, "member-failed")["role"], 1);
    server.fail("2");
    write(&mut client, MIB / 2, 2);
    std::fs::rename(&copies[1], &set.members[2]).unwrap();
    std::fs::rename(&copies[0], &set.members[1]).unwrap();
    assert_eq!(event(&mut server, "re-added")["role"], 1);
    assert_eq!(event(&mut server, "recovery-ended")["role"], 1);
    assert_eq!(client.read(0, MIB), [[1; MIB as usize / 2], [2; MIB as usize / 2]].concat());
    client.close();
    let array = &server.status()["array"];
    assert_eq!(array["missing"], serde_json::json!([2]), "{array}");
    let devices = array["devices"].as_array().unwrap();
    let named = |member: &PathBuf| devices.iter().filter(|device| device["path"] == name(member)).count();
    assert_eq!(
        (named(&set.members[1]), devices.len()),
        (1, 5),
        "what was there before is forgotten: {array}"
    );
    // The user has the last word.
    let back = server.ask("add", &["--re-add", "missing", "--json"]).json();
    assert_eq!(joined(&back), (&name(&set.members[2]).into(), &2.into(), &Value::Null), "{back}");
    server.ask("wait", &[]).ok();
    assert_eq!(server.signal(Signal::TERM).0, 0);
    whole(&set);
}
