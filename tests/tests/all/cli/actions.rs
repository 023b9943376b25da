//! A check, a repair, and what is known to be wrong, of an array that is served.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_served_array_is_checked_and_what_is_wrong_is_written_anew() {
    let set = Set::random(5, 4 * MIB);
    let created = set.create("-l 6 -c 64K -N a --json").json();
    let offset = created["devices"][2]["data_offset"].as_u64().unwrap() + 4096;
    let server = set.serve("");
    let ask = |command: &str, args: &[&str]| server.ask(command, args);
    let begin = |word: &str| ask("action", &[word, "--json"]).json();
    ask("wait", &[]).ok();
    assert_eq!(begin("check")["name"], "a");
    let clean = ask("wait", &["--json"]).json();
    assert_eq!(clean["last_action"]["mismatch_cnt"], 0, "{clean}");
    flip(&set.members[2], offset);
    begin("check");
    let text = ask("wait", &[]).ended(3).text();
    assert!(text.contains("mismatch_cnt 8") && text.contains(name(&set.members[2])), "{text}");
    let status = ask("status", &[]).ok().text();
    assert!(
        status.contains("  last action, check: mismatch_cnt 8 (sectors of 512 bytes)\n    wrong: "),
        "{status}"
    );
    begin("locate");
    let found = ask("wait", &["--json"]).json();
    let place = &found["last_action"]["places"][0];
    assert_eq!((&place["kind"], &place["located"]), (&"data".into(), &true.into()), "{found}");
    begin("check");
    assert_eq!(ask("wait", &["--json"]).json()["last_action"]["mismatch_cnt"], 0);
    let status = server.status();
    let reported = status["events"].as_array().unwrap().iter().map(|event| {
        (event["kind"].as_str().unwrap().to_owned(), event["role"].as_u64(), event["mismatch_cnt"].as_u64())
    });
    let expected = [
        ("check-ended", None, Some(0)),
        ("wrong", Some(2), None),
        ("check-ended", None, Some(8)),
        ("rewritten", Some(2), None),
        ("repair-ended", None, Some(8)),
        ("check-ended", None, Some(0)),
    ];
    assert_eq!(
        reported.collect::<Vec<_>>(),
        expected.map(|(kind, role, count)| (kind.to_owned(), role, count))
    );
    // The findings were printed when they were made.
    let (code, said) = server.signal(rustix::process::Signal::TERM);
    let lines: Vec<&str> = said.lines().collect();
    assert!(code == 0 && lines.len() == 4 && said.contains("is wrong in a place"), "{said}");
    assert!(
        lines[0].contains(name(&set.members[2]))
            && lines[1].ends_with("mismatch_cnt 8 (sectors of 512 bytes)"),
        "{said}"
    );
}

/// Overwrites so much of a member with bytes that look like chance.
fn overwrite(member: &Path, offset: u64, len: u64) {
    use std::os::unix::fs::FileExt;
    let chance = tempfile::NamedTempFile::new().unwrap();
    files::write_pattern(chance.path(), len, 99);
    let bytes = std::fs::read(chance.path()).unwrap();
    std::fs::File::options().write(true).open(member).unwrap().write_all_at(&bytes, offset).unwrap();
}

const IN_DOUBT: [&str; 4] = ["hardly was ever in sync", "--assume-clean", "nothing was changed", "repair"];

#[test]
fn what_was_never_in_sync_is_resynced_before_anybody_is_said_to_be_wrong() {
    for flags in ["-l 6 -c 64K", "-l 6 -c 512K", "-l 1", "-l 10 -p n3 -c 64K"] {
        let set = Set::random(5, 8 * MIB);
        let created = set.create(&format!("{flags} -N a --assume-clean --json")).json();
        let offset = created["devices"][2]["data_offset"].as_u64().unwrap() + 4096;
        let report = set.run("repair --locate --json").json();
        assert!(report["resynced"] == true && report["mismatch_cnt"].as_u64() > Some(10_000), "{flags}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}");
        flip(&set.members[2], offset);
        let report = set.run("repair --locate --json").json();
        assert!(report["resynced"] == false && report["places"][0]["located"] == true, "{flags}: {report}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}");
    }
}

#[test]
fn what_was_never_in_sync_is_resynced_while_it_is_served() {
    let set = Set::random(5, 8 * MIB);
    set.create("-l 6 -c 64K -N a --assume-clean").ok();
    let server = set.serve("");
    server.ask("action", &["locate"]).ok();
    let text = server.ask("wait", &[]).ok().text();
    assert!(text.contains("hardly was ever in sync: it was brought in sync everywhere"), "{text}");
    server.ask("action", &["check"]).ok();
    let reported = server.ask("wait", &["--json"]).json();
    assert_eq!(reported["last_action"]["mismatch_cnt"], 0, "{reported}");
}

#[test]
fn what_never_tells_who_is_wrong_is_left_as_it_is() {
    let set = Set::random(5, 8 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean").ok();
    set.unchanged(|| set.run("repair --locate").refused(1, &IN_DOUBT));
    let server = set.serve("");
    server.ask("action", &["locate"]).refused(1, &IN_DOUBT);
}

#[test]
fn one_odd_member_of_an_array_that_was_never_in_sync_is_left_as_it_is() {
    for flags in ["-l 6 -c 64K", "-l 1"] {
        // All members but one hold zeroes, which agree with each other.
        let set = Set::sparse(4, 8 * MIB);
        files::write_pattern(&set.members[3], 8 * MIB, 5);
        set.create(&format!("{flags} --assume-clean")).ok();
        set.unchanged(|| set.run("repair --locate").refused(1, &IN_DOUBT));
    }
}

#[test]
fn a_member_that_was_written_over_in_part_is_found() {
    for flags in ["-l 6 -c 64K", "-l 1"] {
        let set = Set::random(4, 8 * MIB);
        let created = set.create(&format!("{flags} -N a --json")).json();
        let offset = created["devices"][1]["data_offset"].as_u64().unwrap() + MIB;
        let server = set.serve("");
        server.ask("wait", &[]).ok();
        server.stop();
        overwrite(&set.members[1], offset, 3 * MIB);
        let report = set.run("repair --locate --json").json();
        assert_eq!((&report["unlocated"], &report["places"][0]["role"]), (&0.into(), &1.into()), "{report}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}");
    }
}

#[test]
fn what_goes_over_an_array_is_slowed_down_halted_and_ended() {
    let set = Set::sparse(2, 64 * MIB);
    set.create("-l 1 -N a --assume-clean").ok();
    let server = set.serve("");
    // So slow that it does not end by itself.
    let ask = |command: &str, args: &[&str]| server.ask(command, args);
    let begin = |word: &str| ask("action", &[word, "--json"]).json();
    // So slow that it does not end by itself.
    ask("action", &["check", "--max-speed", "1"]).ok();
    ask("action", &["check"]).refused(1, &["check of the array is under way"]);
    assert_eq!(begin("pause")["array"]["sync"]["paused"], true);
    assert_eq!(begin("resume")["array"]["sync"]["paused"], false);
    ask("action", &["speed", "--min-speed", "1M"]).ok();
    let sync = &server.status()["array"]["sync"];
    assert_eq!((&sync["pace"], &sync["floor"]), (&1.into(), &(1 << 20).into()));
    begin("idle");
    let ended = ask("wait", &[]).ended(1).text();
    assert!(ended.contains("stopped before its end"), "{ended}");
    for word in ["pause", "idle"] {
        ask("action", &[word]).refused(1, &["no check, repair or recovery is running"]);
    }
    ask("action", &["speed"]).refused(2, &["--max-speed"]);
    server.stop();
}

#[test]
fn speed_and_time_left_are_told_by_all_as_the_server_has_them() {
    let set = Set::sparse(2, 64 * MIB);
    set.create("-l 1 -N a --assume-clean").ok();
    let server = set.serve("");
    server.ask("action", &["check", "--max-speed", "1K"]).ok();
    let sync = loop {
        let sync = server.status()["array"]["sync"].clone();
        if sync["speed"].is_number() {
            break sync;
        }
    };
    // A window is done at once, and the next is due an hour later.
    let left = sync["total"].as_u64().unwrap() - sync["position"].as_u64().unwrap();
    assert_eq!((&sync["speed"], &sync["seconds_left"]), (&1024.into(), &(left / 1024).into()), "{sync}");
    let words = format!("check {:.1}%, 1.0 KiB/s, ", sync["percent"].as_f64().unwrap());
    let status = server.ask("status", &[]).ok().text();
    assert!(status.contains(&words) && status.contains(" left\n"), "{words} is not in\n{status}");
    let watch = server.ask("watch", &["--once", "--interval", "10ms"]).ok().text();
    assert!(watch.contains("%, 1.0 KiB/s, ") && watch.contains(" left\n"), "{watch}");
    // Without a terminal it says a line now and then.
    let mut wait = Command::new(program::path());
    wait.args(["wait", "--interval", "1ms", "--runtime-dir", name(&set.runtime()), "a"]);
    let mut wait = wait.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(wait.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(&format!("brindle: a: {words}")) && line.ends_with(" left\n"), "{line}");
    server.ask("action", &["idle"]).ok();
    assert_eq!(wait.wait().unwrap().code(), Some(1), "it was stopped before its end");
    server.stop();
}

#[test]
fn speeds_are_kept_with_the_array_for_what_begins_later() {
    let set = Set::sparse(4, 64 * MIB);
    set.create("-l 5 -c 64K -x 1 -N a --assume-clean").ok();
    let server = set.serve("--max-speed 1M --min-speed 2M");
    let of = |array: &Value| [&array["max_speed"], &array["min_speed"]].map(|speed| speed.as_u64());
    assert_eq!(of(&server.status()["array"]), [Some(1 << 20), Some(2 << 20)]);
    // At rest; so slow that nothing ends by itself.
    server.ask("action", &["speed", "--max-speed", "1"]).ok();
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("run at most 1 B/s, at least 2.0 MiB/s\n"), "{text}");
    server.fail("0");
    // A recovery begins by itself.
    let begun = Instant::now();
    let sync = loop {
        let status = server.status();
        if status["array"]["sync"].is_object() {
            break status["array"]["sync"].clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no recovery begins: {status}");
    };
    let of = |sync: &Value| [&sync["pace"], &sync["floor"]].map(|speed| speed.as_u64());
    assert_eq!((&sync["action"], of(&sync)), (&"recover".into(), [Some(1), Some(2 << 20)]), "{sync}");
    // 0 is none; what goes on has it too.
    server.ask("action", &["speed", "--min-speed", "0"]).ok();
    assert_eq!(of(&server.status()["array"]["sync"]), [Some(1), None]);
    server.ask("action", &["speed", "--max-speed", "0"]).ok();
    server.ask("wait", &[]).ok();
    // The speed of one action alone.
    server.ask("action", &["check", "--max-speed", "1"]).ok();
    let status = server.status();
    assert_eq!((&status["array"]["sync"]["pace"], &status["array"]["max_speed"]), (&1.into(), &Value::Null));
    server.ask("action", &["idle"]).ok();
    server.stop_after_failing(1);
}

#[test]
fn a_recovery_or_a_replacement_that_was_ended_goes_on_when_that_is_asked_for() {
    for action in ["recover", "replace"] {
        let set = Set::sparse(4, 64 * MIB);
        set.create("-l 5 -c 64K -x 1 -N a --assume-clean").ok();
        // So slow that nothing ends by itself.
        let server = set.serve("--max-speed 1");
        server.ask("action", &["resume"]).refused(1, &["none is left to resume"]);
        match action {
            "recover" => server.fail("0"),
            _ => drop(server.ask("replace", &["0", "--with", name(&set.members[3])]).ok()),
        }
        let begins = || {
            while server.status()["array"]["sync"]["action"] != "recover" {
                thread::sleep(Duration::from_millis(10));
            }
        };
        begins();
        server.ask("action", &["idle"]).ok();
        let ended = server.ask("wait", &[]).ended(1).text();
        assert!(ended.contains("stopped before its end; `brindle action resume` goes on with it"), "{ended}");
        assert!(server.status()["array"]["sync"].is_null());
        server.ask("action", &["resume"]).ok();
        begins();
        server.ask("action", &["speed", "--max-speed", "0"]).ok();
        server.ask("wait", &[]).ok();
        let status = server.status();
        let devices = status["array"]["devices"].as_array().unwrap();
        let new = devices.iter().find(|device| device["path"] == *name(&set.members[3])).unwrap();
        assert_eq!((&new["role"], &new["state"]), (&0.into(), &"in-sync".into()), "{status}");
    }
}

#[test]
fn what_has_no_redundancy_is_not_checked() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 0 -N a").ok();
    let server = set.serve("");
    server.ask("action", &["check"]).refused(1, &["raid0 has no redundancy"]);
    server.stop();
}
