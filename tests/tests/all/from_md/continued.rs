//! Resyncs and recoveries that md had half done are completed by Brindle: they go on where the superblocks say.

use std::path::PathBuf;

use brindle_tests::program::{self, Server};
use brindle_tests::states::{Left, State};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Kernel;
use serde_json::Value;

use super::{cases, each, files, left};

/// Where it goes on: the position and kind of the first process that the array told of.
fn begun(server: &mut Server) -> Value {
    loop {
        let event = server.next_event();
        if ["resync-begun", "recovery-begun"].iter().any(|begun| event["event"] == *begun) {
            return event;
        }
    }
}

fn check(left: &Left) {
    let name = left.case.name();
    let dir = tempfile::tempdir().unwrap();
    let copy = |path: &PathBuf| {
        let to = dir.path().join(path.file_name().unwrap());
        std::fs::copy(path, &to).unwrap();
        to
    };
    let members: Vec<PathBuf> = left.paths.iter().map(copy).collect();
    let flags = ["--memory", "32M"].map(PathBuf::from);
    let mut server = Server::start(&dir.path().join("run"), flags.iter().chain(&members));
    let began = begun(&mut server);
    let from = match &left.case.state {
        State::HalfRecovered(_) => left.members.iter().flatten().find_map(|member| member.recovered),
        _ => left.resync,
    };
    assert_eq!(began["range"]["from"].as_u64(), from, "{name}: {began}");
    for word in ["degraded", "resyncing", "recovering"] {
        server.wait_for_state(word, false);
    }
    server.stop();
    let report = program::brindle(["check", "--json"].map(PathBuf::from).iter().chain(&members)).json();
    assert_eq!((&report["mismatch_cnt"], &report["missing"]), (&0.into(), &Value::Null), "{name}: {report}");
    let content = dir.path().join("content");
    program::cat(&members, &content);
    assert_eq!(files::sha256(&content), left.sha256, "{name}");
}

#[test]
fn what_md_left_half_done_is_done_from_there_on() {
    let Some(mut all) = or_skip(left(Kernel::Release, cases::all())) else { return };
    all.retain(|left| matches!(left.case.state, State::HalfResynced | State::HalfRecovered(_)));
    assert!(all.len() > 4, "{}", all.len());
    each(&all, check);
}
