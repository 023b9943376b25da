//! A member that stops answering, under the real ring: a file of a file system in user space.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use brindle_testkit::hang::{Hang, HangingFiles};
use brindle_testkit::skip::is_long;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::*;

/// Bytes of a write.
const LEN: usize = 256 << 10;

/// Far longer than anything here takes: what is not done by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A RAID 5 of two files and one that can hang.
struct Scene {
    /// Before the files: what waits for them ends when they go.
    files: HangingFiles,
    set: Set,
    members: Vec<PathBuf>,
}

impl Scene {
    fn new() -> Option<Self> {
        let files = or_skip(HangingFiles::mount(1, 16 << 20))?;
        let set = Set::sparse(2, 16 * MIB);
        let mut members = set.members.clone();
        members.push(files.path(0));
        run("create -l 5 -c 64K -N a", &members).ok();
        Some(Self { files, set, members })
    }

    fn serve(&self, flags: &str) -> Server {
        self.set.serve_some(&format!("--memory 32M {flags}"), &self.members)
    }

    /// Waits until the member owes an answer.
    fn wait_for_silence(&self) {
        wait(|| self.files.held() > 0, "nothing was asked of the member");
    }

    /// The process has ended, though the kernel may keep a thread of it; the array is served from the others at once, and
    /// holds `content` at its beginning.
    fn ends_and_lives_on(self, mut server: Server, content: &[u8]) {
        wait(|| server.is_over(), "the process does not end");
        let others = &self.members[..2];
        let again = self.set.serve_some("--memory 32M", others);
        assert!(state(&again.status()["array"]).contains(&"degraded"));
        assert!(
            Client::connect(&again.uri()).read(0, content.len() as u64) == content,
            "what was written is there"
        );
        again.stop();
        let member = self.members[2].clone();
        drop(self.files);
        let (_, err) = server.end();
        let left = |line: &&str| line.contains(name(&member)) && line.contains("left to the kernel");
        assert_eq!(err.lines().filter(left).count(), 1, "{err}");
    }
}

fn wait(done: impl Fn() -> bool, why: &str) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{why}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn write(offset: u64, byte: u8) -> Change {
    let data = vec![byte; LEN];
    Change { offset, len: LEN as u64, work: Work::Write { data, fua: false } }
}

/// Writes the first bytes while others do other things.
fn write_behind(server: &Server, byte: u8) -> thread::JoinHandle<Client> {
    let uri = server.uri();
    thread::spawn(move || {
        let mut client = Client::connect(&uri);
        client.all_at_once(&[write(0, byte)]);
        client
    })
}

#[test]
fn a_member_that_hangs_at_the_first_write_is_failed_by_hand_and_all_goes_on() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.serve("");
    scene.files.hang(Hang::Everything);
    let writer = write_behind(&server, 7);
    scene.wait_for_silence();
    assert!(server.status()["stale_for"].is_null());
    // By its name: the file itself is asked nothing, or that would wait, too.
    let member = name(&scene.members[2]);
    let failed = server.ask("fail", &[member, "--json"]).json();
    assert_eq!(failed["array"]["devices"][2]["state"], "failed", "{failed}");
    writer.join().unwrap().close();
    server.ask("stop", &[]);
    scene.ends_and_lives_on(server, &[7; LEN]);
}

#[test]
fn what_hangs_when_it_is_opened_is_gone_on_without() {
    let Some(scene) = Scene::new() else { return };
    scene.files.hang(Hang::Everything);
    let server = scene.serve("--member-timeout 1s");
    assert!(state(&server.status()["array"]).contains(&"degraded"));
    drop(write_behind(&server, 7).join().unwrap());
    server.send(Signal::TERM);
    wait(|| server.is_over(), "the process does not end");
    let again = scene.set.serve_some("--memory 32M", &scene.members[..2]);
    assert!(Client::connect(&again.uri()).read(0, LEN as u64) == [7; LEN]);
    again.stop();
    let mut server = server;
    drop(scene.files);
    let (code, err) = server.end();
    let reported = format!("{}: can't be read: it does not answer", scene.members[2].display());
    assert!(code == 0 && err.contains(&reported), "{code}: {err}");
}

#[test]
fn a_member_that_hangs_when_it_is_opened_is_waited_for_once() {
    let Some(scene) = Scene::new() else { return };
    // Its folder answers: each try to open it leaves one question behind.
    scene.files.hang(Hang::File(0));
    let server = scene.serve("--member-timeout 1s");
    let (status, held) = (server.status(), scene.files.held_at_open());
    scene.files.release();
    assert!(held == 1 && state(&status["array"]).contains(&"degraded"), "{held} tries: {status}");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("it does not answer"), "{code}: {err}");
}

#[test]
fn a_member_that_hangs_in_mid_write_is_given_up_and_all_goes_on() {
    let Some(scene) = Scene::new() else { return };
    let mut server = scene.serve("--member-timeout 1s");
    let mut client = write_behind(&server, 7).join().unwrap();
    scene.files.hang(Hang::Everything);
    client.all_at_once(&[write(0, 9), write(LEN as u64, 9)]);
    let event = loop {
        let event = server.next_event();
        if event["kind"] == "member-failed" {
            break event;
        }
    };
    assert_eq!(event["role"], 2, "{event}");
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("failed") && text.contains(" UTC: "), "{text}");
    drop(client);
    server.send(Signal::TERM);
    scene.ends_and_lives_on(server, &[9; 2 * LEN]);
}

#[test]
fn a_server_ends_while_a_member_hangs_that_it_has_not_given_up() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.serve("--stop-timeout 1s");
    drop(write_behind(&server, 7).join().unwrap());
    server.wait_for_state("clean", true);
    scene.files.hang(Hang::Everything);
    let writer = write_behind(&server, 9);
    scene.wait_for_silence();
    server.send(Signal::TERM);
    wait(|| server.is_over(), "the process does not end");
    assert!(!scene.set.runtime().join("a.control").exists() && !scene.set.runtime().join("a.nbd").exists());
    // The server had to end before it could record that the member is gone, so that the next start needs --force.
    let again = scene.set.serve_some("--memory 32M --force", &scene.members[..2]);
    again.stop();
    let mut server = server;
    drop(scene.files);
    let (code, err) = server.end();
    assert!(code == 1 && err.contains("not marked clean"), "{code}: {err}");
    assert!(writer.join().is_err(), "the write was not acknowledged");
}

/// How long the server is stopped, how often, and how patient it is: less than it is stopped. In
/// `make test-long` a minute with the patience that is the default.
fn stops() -> (Duration, usize, &'static str) {
    if is_long() {
        (Duration::from_secs(60), 2, "--member-timeout 20s --flush-timeout 30s")
    } else {
        (Duration::from_millis(2500), 3, "--member-timeout 1s --flush-timeout 1s")
    }
}

#[test]
fn the_time_in_which_the_server_was_stopped_is_nobodys_fault() {
    let Some(scene) = Scene::new() else { return };
    let (stopped, times, patience) = stops();
    let server = scene.serve(patience);
    let uri = server.uri();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        // Writes are under way whenever the server is stopped.
        scope.spawn(|| {
            let mut client = Client::connect(&uri);
            for turn in (0_u64..).take_while(|turn| *turn < 200 || !ended.load(Relaxed)) {
                client.all_at_once(&[write(turn % 32 * LEN as u64, turn as u8)]);
            }
        });
        for _ in 0..times {
            server.send(Signal::STOP);
            // The time itself is what is tested: longer than any patience.
            thread::sleep(stopped);
            server.send(Signal::CONT);
        }
        ended.store(true, Relaxed);
    });
    let status = server.status();
    assert_eq!(status["array"]["missing"], serde_json::json!([]), "{status}");
    server.stop();
}
