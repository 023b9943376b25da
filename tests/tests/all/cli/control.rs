//! The control socket of a server that is busy ending, stopped, or gone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use brindle_tests::program::Server;
use rustix::process::Signal;

use super::*;

fn connect(set: &Set) -> UnixStream {
    UnixStream::connect(set.runtime().join("a.control")).unwrap()
}

fn all(set: &Set) -> Ran {
    program::brindle(["status", "--runtime-dir", name(&set.runtime())])
}

#[test]
fn everybody_who_tells_it_to_stop_is_answered_and_told_of_the_end() {
    let set = Set::raid5(3);
    let mut server = set.serve("");
    let mut clients: Vec<UnixStream> = (0..16).map(|_| connect(&set)).collect();
    for client in &mut clients {
        client.write_all(b"{\"ask\":\"stop\"}\n").unwrap();
    }
    for client in &mut clients {
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "{\"ok\":{\"name\":\"a\",\"stopped\":true}}\n{\"ended\":\"well\"}\n");
    }
    assert_eq!(server.end(), (0, String::new()));
}

#[test]
fn a_stopped_process_is_named_and_not_waited_for() {
    let set = Set::raid5(3);
    let server = set.serve("");
    server.send(Signal::STOP);
    let silence = "does not answer";
    server.ask("status", &[]).refused(1, &["'a'", silence, "stopped"]);
    server.ask("fail", &["0"]).refused(1, &[silence]);
    let others = all(&set).ended(0);
    assert!(others.err.contains(silence) && others.text().contains("no server answers"), "{others:?}");
    server.send(Signal::CONT);
    // Requests made meanwhile are carried out.
    server.wait_for_state("degraded", true);
    server.stop_after_failing(1);
}

#[test]
fn sockets_of_the_dead_are_named_once_and_removed() {
    let set = Set::raid5(3);
    let kill = || {
        let server = set.serve("");
        assert_eq!(server.signal(Signal::KILL).0, -1);
    };
    kill();
    let first = all(&set).ended(0);
    for word in ["'a' is gone", "a.control", "a.nbd"] {
        assert!(first.err.contains(word), "{}", first.err);
    }
    assert_eq!(std::fs::read_dir(set.runtime()).unwrap().count(), 0);
    assert!(all(&set).ok().text().contains("no array is served"));
    for command in ["status", "stop"] {
        kill();
        let ask = || program::brindle([command, "--runtime-dir", name(&set.runtime()), "a"]);
        ask().refused(1, &["'a' is gone", "removed"]);
        ask().refused(1, &["no server of array 'a'", "none runs"]);
    }
    set.serve("").stop();
}

#[test]
fn a_second_signal_does_not_wait() {
    let set = Set::raid5(3);
    let server: Server = set.serve("");
    server.send(Signal::STOP);
    // Both are there when it goes on: it can't have ended in between.
    server.send(Signal::TERM);
    server.send(Signal::INT);
    server.send(Signal::CONT);
    let mut server = server;
    let (code, err) = server.end();
    assert!(code == 0 || err.contains("not marked clean"), "{code} {err}");
    assert!(!set.runtime().join("a.control").exists());
    set.serve("").stop();
}
