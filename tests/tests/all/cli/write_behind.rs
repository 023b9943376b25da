//! Writes that may lag behind on write-mostly members: how many is said when an array is made, and while it is there.

use super::*;

fn behind(report: &Value) -> &Value {
    &report["bitmap"]["write_behind"]
}

#[test]
fn write_behind_is_set_when_an_array_is_made_and_while_it_runs_and_when_it_is_stopped() {
    let set = Set::sparse(2, 4 * MIB);
    let make = |words: &str| {
        let mostly = set.members[0].to_str().unwrap();
        set.create(&format!("-N a -f --write-mostly {mostly} {words}"))
    };
    let created = make("-l 1 --bitmap internal --write-behind=7 --json").json();
    assert_eq!(behind(&created), 7, "{created}");
    let server = set.serve("");
    let grow = |words: &[&str]| server.ask("grow", words);
    let reported = server.status();
    assert_eq!((behind(&reported["array"]), &reported["array"]["bitmap"]["lagging"]), (&7.into(), &0.into()));
    assert_eq!(behind(&grow(&["--write-behind=9", "--json"]).json()["array"]), 9);
    let said = grow(&["--write-behind"]).ok().text();
    assert!(said.contains("a lets 256 writes lag behind now"), "{said}");
    grow(&["--write-behind=16384"]).refused(1, &["--write-behind 16384", "at most 16383"]);
    grow(&["--bitmap", "internal", "--write-behind=3"]).refused(1, &["has a write-intent bitmap already"]);
    grow(&["--bitmap", "none", "--write-behind=3"]).refused(2, &["--bitmap none"]);
    grow(&[]).refused(2, &["--bitmap internal", "--write-behind"]);
    assert_eq!(behind(&server.status()["array"]), 256);
    server.stop();

    assert_eq!(behind(&set.detail()), 256);
    let grow = |words: &str| set.run(&format!("grow {words} --array"));
    assert_eq!(behind(&grow("--write-behind=5 --json").json()), 5);
    assert!(set.run("detail").ok().text().contains("5 writes may lag behind"));
    grow("--bitmap none").ok();
    set.unchanged(|| {
        grow("--write-behind=5").refused(1, &["has no write-intent bitmap", "--bitmap internal"]);
        grow("--bitmap internal --write-behind=16384").refused(1, &["at most 16383"]);
    });
    let said = grow("--bitmap internal --write-behind=4").ok().text();
    assert!(said.contains("lets 4 writes lag behind"), "{said}");
    assert_eq!(behind(&set.detail()), 4);
}

#[test]
fn write_behind_is_refused_where_nothing_could_lag() {
    let set = Set::sparse(3, 4 * MIB);
    set.unchanged(|| {
        set.create("-l 1 --write-behind").refused(1, &["needs a write-intent bitmap", "--bitmap internal"]);
        set.create("-l 5 --bitmap internal --write-behind").refused(1, &["raid5", "--write-behind"]);
        set.create("-l 1 --bitmap internal --write-behind=16384").refused(1, &["at most 16383"]);
    });
    set.create("-l 5 --bitmap internal").ok();
    set.unchanged(|| {
        set.run("grow --write-behind=1 --array").refused(1, &["raid5"]);
    });
}
