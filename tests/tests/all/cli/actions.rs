//! A check, a repair, and what is known to be wrong, of an array that is served.

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
    begin("locate");
    let found = ask("wait", &["--json"]).json();
    let place = &found["last_action"]["places"][0];
    assert_eq!((&place["kind"], &place["located"]), (&"data".into(), &true.into()), "{found}");
    begin("check");
    assert_eq!(ask("wait", &["--json"]).json()["last_action"]["mismatch_cnt"], 0);
    server.stop();
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
        ask("action", &[word]).refused(1, &["nothing goes over the array"]);
    }
    ask("action", &["speed"]).refused(2, &["--max-speed"]);
    server.stop();
}

#[test]
fn what_has_no_redundancy_is_not_checked() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 0 -N a").ok();
    let server = set.serve("");
    server.ask("action", &["check"]).refused(1, &["raid0 has no redundancy"]);
    server.stop();
}
