//! Members that failed one after the other and come back together, in whatever order they are named; halves that were used apart.

use brindle_tests::nbd::{Change, Client, Work};

use super::*;

/// An array with a bitmap, called `a`.
fn marked(level: &str, count: usize) -> Set {
    let set = Set::sparse(count, 4 * MIB);
    set.create(&format!("-l {level} -N a --bitmap internal --bitmap-chunk 64K")).ok();
    set
}

fn write(server: &Server, offset: u64, byte: u8) {
    let mut client = Client::connect(&server.uri());
    let work = Work::Write { data: vec![byte; 64 << 10], fua: false };
    client.all_at_once(&[Change { offset, len: 64 << 10, work }]);
    client.close();
}

/// Serves all, and has two members fail, one after the other; writes after each.
fn two_fail(set: &Set, server: &Server, roles: [usize; 2]) {
    for (number, role) in roles.into_iter().enumerate() {
        server.fail(name(&set.members[role]));
        write(server, number as u64 * MIB / 2, 7 + number as u8);
    }
}

fn whole(set: &Set) {
    let detail = set.detail();
    assert_eq!((state(&detail), &detail["missing"]), (vec!["clean"], &serde_json::json!([])));
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}

#[test]
fn members_that_are_named_together_are_taken_again_in_any_order() {
    for (level, count, [one, other]) in [("1", 3, [0, 1]), ("6", 5, [1, 3]), ("10", 4, [0, 2])] {
        let set = marked(level, count);
        let [m, n] = [one, other].map(|role| name(&set.members[role]));
        let server = set.serve("");
        let mut failed = 0;
        for (words, removed) in
            [(vec![m, n], true), (vec![n, m], true), (vec!["missing"], true), (vec![m, n], false)]
        {
            two_fail(&set, &server, [one, other]);
            failed += 2;
            if removed {
                server.ask("remove", &["failed"]).ok();
            }
            let words: Vec<&str> = ["--re-add", "--json"].into_iter().chain(words).collect();
            let reported = server.ask("add", &words).json();
            assert_eq!(reported["added"].as_array().unwrap().len(), 2, "{level} {words:?}: {reported}");
            server.ask("wait", &[]).ok();
            assert_eq!(server.status()["array"]["missing"], serde_json::json!([]), "{level} {words:?}");
        }
        server.stop_after_failing(failed);
        whole(&set);
    }
}

#[test]
fn what_a_server_was_started_without_is_taken_again_whole_and_so_it_is_of_a_stopped_array() {
    for stopped in [false, true] {
        let set = marked("1", 3);
        let server = set.serve("");
        two_fail(&set, &server, [0, 1]);
        server.stop_after_failing(2);
        if stopped {
            let all: Vec<&str> = set.members.iter().map(|member| name(member)).collect();
            run(&format!("add --re-add --array {} --", all.join(" ")), &set.members[..2]).ok();
        }
        let server = set.serve(if stopped { "" } else { "--re-add" });
        server.wait_for_state("degraded", false);
        server.stop();
        whole(&set);
    }
}

#[test]
fn halves_that_were_used_apart_stay_apart_and_nothing_is_written_to_them() {
    let set = marked("1", 3);
    for (number, some) in [&set.members[..1], &set.members[1..]].into_iter().enumerate() {
        let server = set.serve_some("--memory 32M", some);
        write(&server, 0, number as u8 + 1);
        server.stop();
    }
    let [a, b, c] = [0, 1, 2].map(|at| name(&set.members[at]));
    let refused = |served: &[PathBuf], words: &[&[&str]]| {
        let server = set.serve_some("--memory 32M", served);
        for words in words {
            let out = set.members.iter().filter(|member| !served.contains(member));
            let before: Vec<String> = out.clone().map(|member| files::sha256(member)).collect();
            let words: Vec<&str> = ["--re-add"].iter().chain(*words).copied().collect();
            server.ask("add", &words).refused(1, &["can't be re-added", "without the others"]);
            assert_eq!(out.map(|member| files::sha256(member)).collect::<Vec<_>>(), before, "{words:?}");
        }
        assert!(state(&server.status()["array"]).contains(&"degraded"));
        server.stop();
    };
    refused(&set.members[..1], &[&[b, c], &[c, b], &[b]]);
    refused(&set.members[1..], &[&[a]]);
}
