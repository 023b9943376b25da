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
    server.ask("fail", &[name(&link)]).ok();
    server.ask("fail", &["2"]).ok();
    for wrong in ["nowhere", "4", "-1"] {
        server.ask("fail", &["--", wrong]).refused(1, &["is no member of a", name(&set.members[0])]);
    }
    // A file that is gone is no reason to take another one for it.
    std::fs::remove_file(&set.members[0]).unwrap();
    server.ask("fail", &["nowhere"]).refused(1, &["nowhere is no member"]);
    let status = server.status();
    assert_eq!(status["array"]["missing"], serde_json::json!([1, 2]), "{status}");
    server.ask("fail", &["3"]).ok();
    server.ask("fail", &["0"]).refused(1, &["0 stays in service", "redundancy"]);
    server.stop();
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
