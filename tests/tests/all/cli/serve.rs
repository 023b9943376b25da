//! How a server ends, and what it answers meanwhile.

use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::*;

#[test]
fn signals_stop_a_server_cleanly() {
    let Some(qemu_io) = or_skip(tools::find("qemu-io")) else { return };
    for signal in [Signal::TERM, Signal::INT] {
        let set = Set::raid5(3);
        let server = set.serve("");
        let pattern = tools::run(&qemu_io, ["-f", "raw", "-c", "write -P 0x5a 64k 128k", &server.uri()]);
        assert!(pattern.contains("wrote 131072/131072"), "{pattern}");
        let sockets = [set.runtime().join("a.control"), set.runtime().join("a.nbd")];
        assert!(sockets.iter().all(|socket| socket.exists()), "{sockets:?}");
        assert_eq!(server.signal(signal), (0, String::new()));
        assert!(sockets.iter().all(|socket| !socket.exists()), "sockets are removed");
        assert_eq!(state(&set.detail()), ["clean"]);
        let content = set.run("cat --offset 64K --length 128K").ok().out;
        assert!(content.len() == 128 << 10 && content.iter().all(|&byte| byte == 0x5a));
    }
}

#[test]
fn a_member_is_failed_by_any_of_its_names() {
    let set = Set::sparse(4, 4 * MIB);
    set.create("-l 1 -N a").ok();
    let link = set.path("link");
    std::os::unix::fs::symlink(&set.members[1], &link).unwrap();
    let server = set.serve("");
    server.fail(name(&link));
    server.fail("2");
    for wrong in ["nowhere", "4", "-1"] {
        server.ask("fail", &["--", wrong]).refused(1, &["is not a member of a", name(&set.members[0])]);
    }
    // A file that is gone is no reason to take another one for it.
    std::fs::remove_file(&set.members[0]).unwrap();
    server.ask("fail", &["nowhere"]).refused(1, &["nowhere is not a member"]);
    let status = server.status();
    assert_eq!(status["array"]["missing"], serde_json::json!([1, 2]), "{status}");
    server.fail("3");
    server.ask("fail", &["0"]).refused(1, &["0 stays in service", "redundancy"]);
    // A member that has lost its name is reported, if there was time to see it.
    let (code, err) = server.signal(Signal::TERM);
    let reported = |line: &str| line.contains("was deleted") || line.contains("by command");
    assert!(code == 0 && err.lines().all(reported), "{err}");
}

#[test]
fn a_level_without_redundancy_can_lose_nothing() {
    let set = Set::sparse(2, 4 * MIB);
    set.create("-l 0 -N a").ok();
    let server = set.serve("");
    server.ask("fail", &["0"]).refused(1, &["0 stays in service"]);
    assert_eq!(state(&server.status()["array"])[0], "clean");
    server.stop();
}

#[test]
fn memory_has_bounds() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let set = Set::raid5(3);
    for memory in ["0", "15M", "65G", "9999999T"] {
        set.run(&format!("cat --memory {memory}")).refused(2, &["--memory", "16 MiB"]);
        set.serve_refused(&format!("--memory {memory}")).refused(2, &["--memory", "64 GiB"]);
    }
    let server = set.serve_some("--memory 16M", &set.members);
    let source = set.path("source");
    files::write_pattern(&source, 4 * MIB, 1);
    tools::run(&nbdcopy, [name(&source), &server.uri()]);
    server.stop();
    let content = set.run("cat --memory 16M --length 4M").ok().out;
    assert_eq!(files::sha256_of(&content), files::sha256(&source));
}

#[test]
fn a_server_that_is_stopped_while_it_resyncs_leaves_the_rest_to_the_next() {
    let set = Set::random(3, 16 * MIB);
    set.create("-l 5 -c 64K -N a --assume-clean --json").json();
    for member in &set.members {
        limits::patch(member, |sb| sb.resync_offset = Some(0));
    }
    assert_eq!(state(&set.detail()), ["active", "needs resync"]);
    set.serve("").stop();
    let server = set.serve("");
    server.wait_for_state("clean", true);
    server.stop();
    assert_eq!(state(&set.detail()), ["clean"]);
    assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0);
}

#[test]
fn a_name_that_can_not_be_shown_harms_nobody() {
    let (set, other) = (Set::raid5(3), Set::raid5(3));
    for member in &set.members {
        limits::patch(member, |sb| sb.name = "h:a/\u{1b}[2J\n".into());
    }
    for command in ["detail", "examine"] {
        let text = set.run(command).ok().text();
        assert!(text.contains("\\u{1b}[2J\\n") && !text.contains('\u{1b}'), "{text}");
    }
    let mixed = [&set.members[..], &other.members[..]].concat();
    // Both are told, each by its own name.
    let text = run("detail", &mixed).ok().text();
    assert!(text.contains("\\u{1b}[2J\\n") && text.contains("raid5") && !text.contains('\u{1b}'), "{text}");
    run("cat", &mixed).refused(1, &["different arrays", "\\n"]);
    let server = set.serve("");
    let uuid = set.detail()["uuid"].as_str().unwrap().replace(':', "-");
    assert_eq!(server.name(), uuid);
    server.stop();
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let set = Set::raid5(3);
    let program = program::path().display();
    let members: String = set.members.iter().map(|member| format!(" {}", member.display())).collect();
    let script = format!("{{ {program} cat {members}; echo \"status $?\" >&2; }} | head -c 100");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &script]);
    let ran = Ran::of(command);
    assert_eq!((ran.out.len(), ran.err.as_str()), (100, "status 0\n"));
}

#[test]
fn arrays_of_arrays_live_like_others() {
    let set = Set::sparse(4, 8 * MIB);
    for pair in set.members.chunks(2) {
        run("create -l 1", pair).ok();
    }
    let joined = |pair: &[PathBuf]| PathBuf::from(format!("{}+{}", name(&pair[0]), name(&pair[1])));
    let pairs: Vec<PathBuf> = set.members.chunks(2).map(joined).collect();
    run("create -l 0 -c 64K -N a", &pairs).ok();
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let server = set.serve_some("", &pairs);
    let source = set.path("source");
    files::write_pattern(&source, 4 * MIB, 1);
    tools::run(&nbdcopy, ["--flush", name(&source), &server.uri()]);
    server.stop();
    assert_eq!(state(&run("detail --json", &pairs).json()), ["clean"]);
    for pair in set.members.chunks(2) {
        assert_eq!(state(&run("detail --json", pair).json()), ["clean"]);
        assert_eq!(run("check --json", pair).json()["mismatch_cnt"], 0);
    }
    let content = run("cat --length 4M", &pairs).ok().out;
    assert_eq!(files::sha256_of(&content), files::sha256(&source));
}
