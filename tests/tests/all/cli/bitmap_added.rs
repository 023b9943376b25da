//! Write-intent bitmaps that come to arrays that are there, served or stopped, and go.

use super::*;

#[test]
fn a_chunk_of_a_bitmap_that_is_no_power_of_two_is_refused_as_that() {
    let set = Set::sparse(2, 4 * MIB);
    set.unchanged(|| {
        let create = set.create("-l 1 -b internal --bitmap-chunk 3K").ended(2);
        assert!(create.err.contains("3 KiB is not a power of two: take 2 KiB or 4 KiB"), "{}", create.err);
    });
    set.create("-l 1").ok();
    let grow = set.run("grow --bitmap internal --bitmap-chunk 0 --array").ended(2);
    assert!(grow.err.contains("not a power of two"), "{}", grow.err);
}

fn bitmaps(set: &Set) -> Vec<bool> {
    let examined = set.run("examine --json").json();
    let members = examined["members"].as_array().unwrap().iter();
    members.map(|member| !member["superblock"]["bitmap_offset"].is_null()).collect()
}

#[test]
fn a_bitmap_comes_to_a_served_array_and_goes() {
    let set = Set::raid5(3);
    let mut server = set.serve("");
    assert!(server.status()["array"]["bitmap"].is_null());
    let grown = server.ask("grow", &["--bitmap", "internal", "--bitmap-chunk", "64K", "--json"]).json();
    assert_eq!(grown["array"]["bitmap"]["chunk"], 65536, "{grown}");
    assert_eq!(bitmaps(&set), [true; 3]);
    server.ask("grow", &["--bitmap", "internal"]).refused(1, &["has a write-intent bitmap already", "none"]);
    let reported = server.ask("grow", &["--bitmap", "none"]).ok().text();
    assert!(reported.contains("a has no write-intent bitmap any more"), "{reported}");
    server.ask("grow", &["--bitmap", "none"]).refused(1, &["has no write-intent bitmap", "internal"]);
    assert_eq!(bitmaps(&set), [false; 3]);
    server.ask("grow", &["--bitmap", "internal", "--bitmap-chunk", "64K"]).ok();
    let events: Vec<Value> = (0..3).map(|_| server.next_event()["kind"].take()).collect();
    assert_eq!(events, ["bitmap-added", "bitmap-removed", "bitmap-added"]);
    server.stop();
    let detail = set.detail();
    assert_eq!((state(&detail), &detail["consistency_policy"]), (vec!["clean"], &"bitmap".into()));
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
    // A member that is away is re-added by it.
    let server = set.serve("");
    server.fail("1");
    server.ask("add", &["--re-add", name(&set.members[1])]).ok();
    server.ask("wait", &[]).ok();
    server.stop_after_failing(1);
}

#[test]
fn a_bitmap_comes_to_a_stopped_array_and_goes_whatever_the_metadata() {
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        let set = Set::sparse(3, 4 * MIB);
        set.create(&format!("-l 1 -e {metadata} --bitmap none")).ok();
        let grow = |words: &str| set.run(&format!("grow {words} --array"));
        let detail = grow("--bitmap internal --bitmap-chunk 64K --json").json();
        let found = (state(&detail), &detail["consistency_policy"]);
        assert_eq!(found, (vec!["clean"], &"bitmap".into()), "{metadata}");
        assert_eq!(bitmaps(&set), [true; 3], "{metadata}");
        set.unchanged(|| {
            grow("--bitmap internal").refused(1, &["has a write-intent bitmap already"]);
        });
        grow("--bitmap none").ok();
        assert_eq!(bitmaps(&set), [false; 3], "{metadata}");
        assert_eq!(set.detail()["consistency_policy"], "resync", "{metadata}");
    }
}

#[test]
fn what_can_have_no_bitmap_is_refused_by_name_and_stays_as_it_is() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 0").ok();
    let grow = |set: &Set, words: &str| set.run(&format!("grow {words} --array"));
    set.unchanged(|| {
        grow(&set, "--bitmap internal").refused(1, &["raid0 has no redundancy"]);
        grow(&set, "--bitmap none --bitmap-chunk 64K").refused(2, &["--bitmap-chunk"]);
    });
    // Data that begin right behind the superblock leave no room.
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1 --data-offset 8K").ok();
    set.unchanged(|| {
        grow(&set, "--bitmap internal").refused(1, &[name(&set.members[0]), "has no room", "0 bytes"]);
    });
    let set = Set::raid5(3);
    set.unchanged(|| {
        grow(&set, "--bitmap internal --bitmap-chunk 1K").refused(1, &["--bitmap-chunk"]);
        grow(&set, "--bitmap none").refused(1, &["has no write-intent bitmap"]);
    });
}
