//! Members that come back: taken again by command, or by policy, served and stopped.

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
fn a_member_that_was_away_is_that_member_again_and_what_is_none_is_told() {
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
    let told = server.ask("add", &[name(m1)]).ok().text();
    assert!(told.contains("is the member of role 1 again"), "{told}");
    server.ask("wait", &[]).ok();
    assert_eq!(server.status()["array"]["missing"], serde_json::json!([]));
    // No former member is none, and stays as it is.
    let stranger = set.path("stranger");
    files::sparse(&stranger, 4 * MIB);
    let before = files::sha256(&stranger);
    server
        .ask("add", &["--re-add", name(&stranger)])
        .refused(1, &[name(&stranger), "no device of this array"]);
    assert_eq!(files::sha256(&stranger), before);
    server.stop_after_failing(2);
    whole(&set);
}

#[test]
fn who_can_not_be_taken_again_is_a_spare_and_the_reason_is_told() {
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
