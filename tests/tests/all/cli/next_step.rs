//! One bad member hides nobody; what `--test` exits with; the next step with an array that lacks something.

use brindle_tests::nbd::{Change, Client, Work};

use super::*;

/// A RAID 5 of five over bytes that look like chance, and what it holds.
fn filled() -> (Set, Vec<u8>) {
    let set = Set::random(5, 4 * MIB);
    set.create("-l 5 -c 64K -N a").ok();
    let content = set.run("cat").ok().out;
    assert!(content.len() as u64 > 8 * MIB && content.iter().any(|byte| *byte != 0));
    (set, content)
}

fn resize(path: &Path, len: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn wipe(path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0; 64 << 10], 0).unwrap();
}

/// Something that can be wrong with a member, and a part of what is said of it.
type Bad = (&'static str, fn(&Path), &'static str);

const BAD: [Bad; 4] = [
    ("empty", |path| resize(path, 0), "less than one block"),
    ("short", |path| resize(path, MIB), "truncated"),
    ("torn", |path| flip(path, 4096 + 100), "checksum"),
    ("without superblock", wipe, "no md superblock"),
];

#[test]
fn an_array_is_shown_and_read_without_the_one_that_is_bad() {
    for (what, spoil, why) in BAD {
        let (set, content) = filled();
        let bad = name(&set.members[2]);
        spoil(&set.members[2]);
        let shown = set.run("detail").ended(0);
        let line = shown.text().lines().find(|line| line.contains("Left out :")).map(str::to_owned);
        assert!(
            line.is_some_and(|line| line.contains(bad) && line.contains(why)),
            "{what}: {}",
            shown.text()
        );
        assert!(
            shown.err.contains(bad) && shown.err.contains("going on without it"),
            "{what}: {}",
            shown.err
        );
        let report = set.run("detail --json").ended(0).report();
        assert_eq!(report["left_out"][0]["path"], bad, "{what}: {report}");
        assert_eq!(
            (&report["missing"], state(&report)),
            (&serde_json::json!([2]), vec!["clean", "degraded"])
        );
        let read = set.run("cat").ended(0);
        assert!(read.out == content, "{what}: other bytes");
        assert!(read.err.contains(bad) && read.err.contains(why), "{what}: {}", read.err);
        let examined = set.run("examine --json").report();
        assert!(examined["problem"].is_null(), "{what}: {examined}");
        // Of two that are bad, both are named.
        let other = name(&set.members[4]);
        spoil(&set.members[4]);
        set.run("cat").refused(1, &[bad, other, "roles 2 and 4"]);
    }
}

#[test]
fn one_that_is_short_and_newer_than_the_others_is_not_done_without_unasked() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 1 -N a").ok();
    let server = set.serve_some("--memory 32M", &set.members[1..]);
    let mut client = Client::connect(&server.uri());
    let work = Work::Write { data: vec![5; 4096], fua: false };
    client.all_at_once(&[Change { offset: 0, len: 4096, work }]);
    client.close();
    server.stop();
    resize(&set.members[1], MIB);
    set.run("cat").refused(1, &[name(&set.members[1]), "says event", "--force"]);
    assert!(set.run("cat --force").ended(0).err.contains("going on without it"));
}

#[test]
fn a_member_that_is_out_of_date_is_named_when_the_others_are_read() {
    let (set, content) = filled();
    let server = set.serve("");
    server.fail("3");
    server.stop_after_failing(1);
    let read = set.run("cat").ended(0);
    assert!(read.out == content);
    let words = [name(&set.members[3]), "out of date", "going on without it"];
    assert!(words.iter().all(|word| read.err.contains(word)), "{}", read.err);
}

#[test]
fn one_good_member_that_is_examined_is_no_problem_and_two_that_do_not_fit_are() {
    let set = Set::raid5(4);
    let examined = run("examine --json", &set.members[..1]).json();
    assert!(examined["problem"].is_null(), "{examined}");
    assert!(!run("examine", &set.members[..1]).ok().text().contains("do not form"));
    let two = run("examine --json", &set.members[..2]).json();
    assert!(two["problem"].as_str().is_some_and(|why| why.contains("roles 2 and 3")), "{two}");
}

#[test]
fn the_status_of_a_test_is_that_of_mdadm() {
    let set = Set::raid5(4);
    let detail = |count: usize| run("detail --test", &set.members[..count]);
    assert!(detail(4).ended(0).text().contains("State : clean\n"));
    assert!(detail(3).ended(1).text().contains("degraded"));
    assert!(detail(2).ended(2).err.contains("roles 2 and 3 are missing"));
    assert!(run("detail --test", &[set.path("nowhere")]).ended(4).err.contains("nowhere"));
    assert_eq!(run("detail --json --test", &set.members[..3]).ended(1).report()["missing"][0], 3);
    let server = set.serve("");
    let status = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(["--test"]).collect();
        server.ask("status", &words)
    };
    let text = status(&[]).ended(0).text();
    assert!(!text.contains("next:"), "{text}");
    server.fail("1");
    assert_eq!(status(&["--json"]).ended(1).report()["array"]["missing"][0], 1);
    let lines = status(&[]).ended(1).text();
    let last = lines.lines().last().unwrap();
    let command = format!("brindle add --runtime-dir {} a DEVICE", set.runtime().display());
    assert!(last.starts_with("  next: ") && last.ends_with(&command), "{last}");
    let all = format!("status --test --runtime-dir {}", set.runtime().display());
    run(&all, &[]).ended(1);
    run(&format!("{all} nobody"), &[]).ended(4);
    server.stop_after_failing(1);
    assert!(run(&all, &[]).ended(4).text().contains("no array is served"));
}

#[test]
fn the_last_line_of_a_degraded_array_does_what_it_says() {
    let set = Set::sparse(4, 4 * MIB);
    set.create("-l 5 -c 64K -N a --bitmap internal --bitmap-chunk 64K").ok();
    let server = set.serve("");
    server.fail("1");
    let reported = server.ask("status", &[]).ok().text();
    let (_, command) = reported.lines().last().unwrap().split_once(": brindle ").unwrap();
    program::brindle(command.split(' ')).ok();
    server.wait_for_state("degraded", false);
    assert!(!server.ask("status", &[]).ok().text().contains("next:"));
    server.stop_after_failing(1);
}
