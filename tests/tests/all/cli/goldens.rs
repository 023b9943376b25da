//! Every `--json` report against its golden file in `tests/goldens`: programs read them, and whatever moves inside the program
//! leaves them and the exit statuses as they are.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use brindle_tests::report::Goldens;
use brindle_tests::report::Shape::{Exact, Keys};
use serde_json::json;

use super::*;

/// Fields of a server's report that depend on how far its array has come.
const MOVING: [&str; 3] = ["array", "events", "last_action"];

#[test]
fn reports_on_members_are_as_they_were() {
    let set = Set::sparse(5, 4 * MIB);
    let goldens = Goldens::new(set.dir.path());
    let hold = |name: &str, ran: Ran| goldens.hold(name, Exact, &[], &ran);
    let four = &set.members[..4];
    hold(
        "create",
        run("create --json -l 5 -c 64K -x 1 -N host:a --bitmap internal --bitmap-chunk 64K", four),
    );
    hold("examine", run("examine --json", &set.members));
    hold("detail", run("detail --json", four));
    hold("check", run("check --json", four));
    let missing = set.path("none");
    hold("examine-missing", run("examine --json", &[missing]));
    let three = &set.members[..3];
    let changed = |command: &str, members: &[PathBuf], device: &Path| {
        let words =
            [command, "--json", "--array"].into_iter().chain(members.iter().map(|member| name(member)));
        program::brindle(words.chain(["--", name(device)]))
    };
    hold("remove-unserved", changed("remove", four, &set.members[3]));
    hold("add-unserved", changed("add", three, &set.members[4]));
    hold("grow-unserved", run("grow --json --bitmap none --array", three));
    flip(&set.members[2], 2 * MIB);
    hold("check-wrong", run("check --json", three));
    hold("repair", run("repair --json --locate", three));
    hold("detail-degraded", run("detail --json", &three[1..]));
}

#[test]
fn reports_of_a_server_are_as_they_were() {
    let set = Set::sparse(5, 4 * MIB);
    let goldens = Goldens::new(set.dir.path());
    run("create -l 5 -c 64K -N host:a", &set.members[..3]).ok();
    let mut server = set.serve_some("--memory 32M", &set.members[..3]);
    let hold = |name: &str, apart: &[&str], ran: Ran| goldens.hold(name, Exact, apart, &ran);
    goldens.hold_value("serve-serving", Exact, 0, server.said.clone());
    let [new, other] = [3, 4].map(|at: usize| name(&set.members[at]));
    hold("status", &[], server.ask("status", &["--json"]));
    hold("action", &MOVING, server.ask("action", &["check", "--json"]));
    hold("wait", &["events"], server.ask("wait", &["--json"]));
    hold("grow", &[], server.ask("grow", &["--bitmap", "internal", "--json"]));
    hold("watch", &[], server.ask("watch", &["--json", "--interval", "10ms"]));
    hold("fail", &[], server.ask("fail", &["0", "--json"]));
    // Its words as things happen, up to that.
    let event =
        std::iter::repeat_with(|| server.next_event()).find(|event| event["event"] == "member-failed");
    goldens.hold_value("serve-event", Exact, 0, event.unwrap());
    hold("re-add", &MOVING, server.ask("add", &["--json", "--re-add", "missing"]));
    server.ask("wait", &[]).ended(0);
    server.fail("0");
    hold("remove", &["events"], server.ask("remove", &["failed", "--json"]));
    hold("add", &MOVING, server.ask("add", &["--json", new]));
    server.ask("wait", &[]).ended(0);
    hold("replace", &MOVING, server.ask("replace", &["1", "--with", other, "--json"]));
    hold("wait-replaced", &["events"], server.ask("wait", &["--json"]));
    let lines = [
        "{\"ask\":\"status\",\"array\":\"a\"}",
        "{\"ask\":\"fail\",\"member\":\"x\"}",
        "{\"ask\":\"nothing\"}",
    ];
    for (name, line) in ["socket-status", "socket-refusal", "socket-wrong"].iter().zip(lines) {
        let mut answer = asked(&set.runtime().join("a.control"), line);
        if let Some(array) = answer["ok"].get_mut("events") {
            *array = json!("apart");
        }
        goldens.hold_value(name, Exact, 0, answer);
    }
    hold("stop", &[], server.ask("stop", &["--json"]));
    assert_eq!(server.end().0, 0);
    hold("status-none", &[], run("status --json --runtime-dir", &[set.runtime()]));
}

/// The answer to a line.
pub(super) fn asked(socket: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn reports_of_several_arrays_are_as_they_were() {
    let set = Set::sparse(7, 4 * MIB);
    let goldens = Goldens::new(set.dir.path());
    run("create -l 1 -N host:a", &set.members[..2]).ok();
    // Mirrors beneath a stripe, of which one lacks a member.
    let pair = |at: usize| set.members[at..at + 2].to_vec();
    let nested = [2, 4].map(|at| {
        run("create -l 1 -N host:pair", &pair(at)).ok();
        PathBuf::from(pair(at).iter().map(|member| name(member)).collect::<Vec<_>>().join("+"))
    });
    run("create -l 0 -c 64K -N host:b", &nested).ok();
    let all = [&set.members[..2], &nested[..]].concat();
    let mut server = set.serve_some("--memory 32M --name both --spare-group g", &all);
    let ask = |words: &[&str]| {
        let runtime = set.runtime();
        program::brindle([&words[..1], &["--runtime-dir", name(&runtime), "--json"], &words[1..]].concat())
    };
    let hold = |name: &str, ran: Ran| goldens.hold(name, Exact, &[], &ran);
    hold("status-several", ask(&["status"]));
    hold("status-one-of-several", ask(&["status", "b"]));
    // A busy machine lets the server say that the array is busy, and that it does it later.
    let flag = || ask(&["flag", "a", "1", "write-mostly"]);
    hold("flag", std::iter::repeat_with(flag).find(|ran| !ran.err.contains("the array is busy")).unwrap());
    hold("fail-nested", ask(&["fail", name(&set.members[3])]));
    hold("stop-one", ask(&["stop", "a"]));
    hold("stop-all", ask(&["stop", "--all", "both"]));
    assert_eq!(server.end().0, 0);
}

#[test]
fn reports_of_figures_keep_their_keys() {
    let set = Set::raid5(4);
    let goldens = Goldens::new(set.dir.path());
    let hold = |name: &str, ran: Ran| goldens.hold(name, Keys, &[], &ran);
    let ask = |words: &str| run(words, &[]);
    hold("advise", set.run("advise --json --drive hdd-7200"));
    hold(
        "plan",
        ask(
            "plan --drives 4 --size 2TB --iops 400/200 --mb-s 200 --price 50 --years 5 --max-loss 1e-3 --limit 3 --json",
        ),
    );
    hold(
        "reliability",
        ask(
            "reliability --json --drives 4 --level 5 --class elerath-2007 --repairs 2/12+6 --years 10 --histories 256",
        ),
    );
    hold("reliability-classes", ask("reliability --json --classes"));
    let asked = "--members 4 --level 10 --layout n2 --chunk 32K --rw randread --bs 64K";
    hold("simulate", ask(&format!("simulate {asked} --json --drive evo850")));
    let table = set.path("t.csv");
    std::fs::write(&table, "pattern,bs_kib,mb_s\nrandread,8,64\nrandread,1024,460\nrandwrite,8,166\n")
        .unwrap();
    hold("calibrate", run("calibrate --json --from", &[table]));
    let sweep = set.path("sweep");
    let words =
        "sweep --simulate --drive nvme --level 0 --members 2 --chunk 64K --rw randread --bs 64k --output";
    let ran = run(words, std::slice::from_ref(&sweep)).ended(0);
    let report = std::fs::read(sweep.join("sweep.json")).unwrap();
    goldens.hold_value("sweep", Keys, ran.code, serde_json::from_slice(&report).unwrap());
    hold("bench", set.run("bench --rw=randread --bs=4k --number_ios=50 --output-format=json --array"));
}
