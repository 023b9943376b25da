//! `serve --background`, and service managers that wait until a server is ready.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use brindle_tests::nbd::Client;
use rustix::process::{Pid, Signal};

use super::*;

/// A set whose server runs in the background; killed when dropped.
struct InBackground {
    set: Set,
    pid: i32,
}

impl InBackground {
    fn begin(set: Set, more: &str, environment: &[(&str, &str)]) -> (Self, Ran) {
        let runtime = set.runtime();
        let words = words(
            &format!("serve --background --memory 32M --runtime-dir {} {more}", runtime.display()),
            &set.members,
        );
        let mut command = Command::new(program::path());
        command.args(words).envs(environment.iter().copied());
        // The end of the output is waited for as well: nothing of it may be held open.
        let ran = Ran::of(command);
        let status = program::brindle(["status", "--json", "--runtime-dir", name(&runtime)]).report();
        let pid = status[0]["pid"].as_i64().unwrap_or_else(|| panic!("nothing is served: {ran:?}"));
        (Self { set, pid: pid as i32 }, ran)
    }

    fn ask(&self, words: &[&str]) -> Ran {
        let runtime = self.set.runtime();
        program::brindle([&[words[0], "--runtime-dir", name(&runtime)], &words[1..]].concat())
    }
}

impl Drop for InBackground {
    fn drop(&mut self) {
        let stat = std::fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        if stat.contains("--background") {
            let _ = rustix::process::kill_process(Pid::from_raw(self.pid).unwrap(), Signal::KILL);
        }
    }
}

#[test]
fn it_returns_when_the_exports_answer_and_says_how_it_is_stopped() {
    let (server, ran) = InBackground::begin(Set::raid5(3), "", &[]);
    let said = ran.ok().text();
    let uri = said.lines().next().and_then(|line| line.strip_prefix("a serves on ")).unwrap().to_owned();
    Client::connect(&uri).close();
    // The first field behind the name is the state; then parent, group and session.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid)).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(session, server.pid.to_string(), "no terminal ends it");
    server.ask(&["fail", "a", "0"]).ok();
    let stop = said.lines().find_map(|line| line.split_once("to stop it: brindle ")).unwrap().1.to_owned();
    program::brindle(stop.split(' ')).ok();
    let log = std::fs::read_to_string(server.set.runtime().join("a.log")).unwrap();
    assert!(log.contains("has failed") && log.ends_with("a: stopped, marked clean\n"), "{log}");
    assert!(!server.set.runtime().join("a.control").exists());
}

#[test]
fn a_server_that_never_serves_is_reported_by_its_own_words_and_status() {
    let set = Set::raid5(3);
    let held = std::fs::File::open(&set.members[0]).unwrap();
    held.lock().unwrap();
    set.serve_refused("--background").refused(1, &[name(&set.members[0]), "another Brindle"]);
    drop(held);
    set.serve_refused("--background --name a/b").refused(2, &["--name"]);
    let blank = set.path("blank");
    files::sparse(&blank, 4 * MIB);
    run("serve --background", &[blank]).refused(1, &["no md superblock"]);
    // Of several, `stop` is said for all of the server.
    let (server, ran) = InBackground::begin(set, "--name both --json", &[]);
    assert_eq!(ran.json()["log"], name(&server.set.runtime().join("both.log")));
    server.ask(&["stop", "both"]).ok();
}

#[test]
fn a_service_manager_is_told_when_the_exports_answer() {
    let set = Set::raid5(3);
    let path = set.path("notify");
    let hidden = format!("brindle-test-{}", std::process::id());
    let sockets = [
        (name(&path).to_owned(), UnixDatagram::bind(&path).unwrap()),
        (
            format!("@{hidden}"),
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&hidden).unwrap()).unwrap(),
        ),
    ];
    let mut set = Some(set);
    for (named, socket) in sockets {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (server, ran) = InBackground::begin(set.take().unwrap(), "", &[("NOTIFY_SOCKET", &named)]);
        ran.ok();
        let mut reported = [0; 64];
        let length = socket.recv(&mut reported).unwrap();
        assert_eq!(&reported[..length], b"READY=1");
        server.ask(&["stop", "a"]).ok();
        let length = socket.recv(&mut reported).unwrap();
        assert_eq!(&reported[..length], b"STOPPING=1");
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.recv(&mut reported).unwrap_err().kind(), ErrorKind::WouldBlock, "told once");
        set = Some(Set::raid5(3));
    }
    // Nobody who waits is no reason not to serve.
    for wrong in ["/nowhere/notify", "notify"] {
        let (server, ran) = InBackground::begin(Set::raid5(3), "", &[("NOTIFY_SOCKET", wrong)]);
        let err = ran.ended(0).err;
        assert!(err.contains(&format!("NOTIFY_SOCKET={wrong}: can't be told")), "{err}");
        server.ask(&["stop", "a"]).ok();
    }
}
