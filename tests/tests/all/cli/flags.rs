//! Flags of members: as mdadm sees them, when an array is made, and while it is served; and what `watch` shows of that.

use brindle_tests::mdadm;
use brindle_tests::tools::{self, or_skip};
use serde_json::json;

use super::*;

/// The flags of each device in a report.
fn flags(report: &Value) -> Vec<Value> {
    report["devices"].as_array().unwrap().iter().map(|device| device["flags"].clone()).collect()
}

#[test]
fn flags_are_set_when_an_array_is_made_and_while_it_runs_and_are_mds() {
    let set = Set::sparse(3, 4 * MIB);
    let member = |n: usize| set.members[n].to_str().unwrap().to_owned();
    let (first, second) = (member(0), member(1));
    let created = set.create(&format!("-l 1 -N a --write-mostly {first} --failfast {first} --json")).json();
    assert_eq!(flags(&created), [json!(["write-mostly", "failfast"]), json!([]), json!([])]);
    set.create(&format!("-l 5 -f --write-mostly {first}")).refused(1, &[&first, "only raid1"]);
    set.create("-l 1 -f --failfast nobody").refused(2, &["--failfast nobody", "not one of the members"]);

    let server = set.serve("");
    let flag = |args: &[&str]| server.ask("flag", args);
    let said = flag(&[&second, "write-mostly"]).ended(0).text();
    assert!(said.contains("is write-mostly"), "{said}");
    let reported = flag(&["0", "write-mostly", "--clear", "--json"]).json();
    assert_eq!(flags(&reported["array"]), [json!(["failfast"]), json!(["write-mostly"]), json!([])]);
    flag(&["nobody", "failfast"]).refused(1, &["nobody", "no member of a"]);
    let shown = server.ask("watch", &["--once", "--interval", "10ms"]).ended(0).text();
    for words in ["a: clean; raid1 of", "(failfast)", "(write-mostly)", &second] {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
    server.stop();
    assert_eq!(flags(&set.run("detail --json").json()), flags(&reported["array"]));
    let Some(program) = or_skip(tools::find("mdadm")) else { return };
    let seen = |n: usize| mdadm::examine(&program, &set.members[n]).get("Flags").map(str::to_owned);
    assert_eq!([0, 1, 2].map(seen), [Some("failfast".into()), Some("write-mostly".into()), None]);
}
