//! A server's log tells of the events around it, and the server never waits for the reader of the log.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::Signal;

use super::*;

#[test]
fn a_failure_is_told_on_both_outputs_and_in_the_report() {
    let set = Set::raid5(3);
    let mut server = set.serve("");
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    server.fail("1");
    let event = server.next_event();
    let member = name(&set.members[1]);
    assert_eq!(
        (&event["event"], &event["kind"]),
        (&"member-failed".into(), &"member-failed".into()),
        "{event}"
    );
    assert_eq!((&event["role"], &event["member"]), (&1.into(), &member.into()), "{event}");
    assert!(event["at"].as_u64().unwrap() >= began, "{event}");
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("by command") && text.contains(" UTC: "), "{text}");
    let (code, err) = server.signal(Signal::TERM);
    let reported = format!("{member} (role 1) has failed and is not used any more: by command");
    assert!(code == 0 && err.contains(&reported), "{err}");
}

#[test]
fn the_log_has_what_its_filter_lets_through() {
    let set = Set::raid5(3);
    // The server hangs up only after it has told of a client that left without a word.
    let leave = || {
        let mut client = UnixStream::connect(set.runtime().join("a.nbd")).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    };
    let server = set.serve("--log warn,brindle_export=debug");
    leave();
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.starts_with("brindle: [DEBUG brindle_export::nbd"), "{err}");
    let server = set.serve("");
    leave();
    server.stop();
    for wrong in ["brindle=loud", "a=b=c"] {
        program::brindle(["status", "--log", wrong]).refused(2, &["--log", wrong]);
        let mut command = Command::new(program::path());
        command.arg("status").env("BRINDLE_LOG", wrong);
        Ran::of(command).refused(2, &["--log", wrong]);
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let set = Set::raid5(3);
    let server = set.serve("--log debug");
    // Far more than a pipe has room for: a line for each client that leaves without a word.
    for _ in 0..3000 {
        drop(UnixStream::connect(set.runtime().join("a.nbd")).unwrap());
    }
    assert_eq!(state(&server.status()["array"]), ["clean"]);
    assert!(server.status()["stale_for"].is_null());
    server.fail("0");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.lines().count() > 100, "{code}: {} lines", err.lines().count());
}
