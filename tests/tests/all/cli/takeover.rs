//! A daemon in whose place a new one goes on, while clients use it: `daemon --takeover`.

use std::io::{BufRead, BufReader, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use brindle_export::nbd::client::{Client as NbdClient, ClientError};
use brindle_testkit::hang::{Hang, HangingFiles};
use brindle_tests::tools::or_skip;
use rustix::io::FdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use rustix::process::Signal;

use super::*;

/// Bytes of a write.
const LEN: usize = 64 << 10;

/// Blocks that are written in turn.
const BLOCKS: u64 = 64;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A RAID 5 of three members, and a daemon's settings.
struct Scene {
    set: Set,
    file: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let set = Set::sparse(3, 16 * MIB);
        set.create("-l 5 -c 64K -N here:a").ok();
        let scene = Self { file: set.path("brindle.toml"), set };
        scene.settings(&scene.file, "");
        scene
    }

    /// Writes settings: exports on a Unix socket and on a port that the kernel chose, and these lines.
    fn settings(&self, file: &Path, lines: &str) {
        let head = format!(
            "homehost = \"here\"\nwait = \"1ms\"\ndevices = [{:?}]\n[tuning]\nmemory = \"64M\"\n[exports]\nnbd = [\"unix:{}\", \"127.0.0.1:0\"]\n",
            self.set.dir.path(),
            self.socket().display(),
        );
        std::fs::write(file, head + lines).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.set.path("nbd")
    }

    fn control(&self) -> PathBuf {
        self.set.runtime().join("brindle.control")
    }

    fn start(&self, flags: &str, env: &[(&str, &str)]) -> Server {
        let args = words(&format!("{flags} --config"), std::slice::from_ref(&self.file));
        Server::start_by("daemon", &self.set.runtime(), args, env)
    }

    /// `brindle daemon --takeover` of which a refusal is expected.
    fn refused(&self, file: &Path, said: &[&str]) {
        let command = format!("daemon --takeover --runtime-dir {} --config", self.set.runtime().display());
        run(&command, &[file.to_owned()]).refused(1, said);
    }

    /// Blocks are written and read while `work` is done: no connection is refused, and no byte is wrong. Gives the number of requests.
    fn under_load<T>(&self, work: impl FnOnce(&AtomicU64) -> T) -> (T, u64) {
        let (ends, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        let worked = thread::scope(|scope| {
            let clients = [0, 1].map(|half| {
                let (ends, requests) = (&ends, &requests);
                scope.spawn(move || self.write_and_read(half, ends, requests))
            });
            let asks = scope.spawn(|| {
                while !ends.load(Relaxed) {
                    UnixStream::connect(self.control()).expect("the control socket listens");
                    thread::sleep(Duration::from_millis(5));
                }
            });
            // Clients end although the work fails.
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&requests)));
            ends.store(true, Relaxed);
            clients.into_iter().for_each(|client| client.join().unwrap());
            asks.join().unwrap();
            worked
        });
        let worked = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (worked, requests.load(Relaxed))
    }

    fn write_and_read(&self, half: u64, ends: &AtomicBool, requests: &AtomicU64) {
        let mut client = Persistent { socket: self.socket(), client: None };
        let (mut written, mut turn) = (vec![0_u8; BLOCKS as usize], 0_u64);
        while !ends.load(Relaxed) {
            turn += 1;
            let (at, byte) = (turn % BLOCKS, (turn / BLOCKS + turn) as u8);
            let offset = |at: u64| (2 * at + half) * LEN as u64;
            client.until_done(|client| client.write(offset(at), &vec![byte; LEN]));
            written[at as usize] = byte;
            let other = turn * 7 % BLOCKS;
            let mut read = vec![0; LEN];
            client.until_done(|client| client.read(offset(other), &mut read));
            assert!(read == vec![written[other as usize]; LEN], "block {other} at turn {turn}");
            requests.fetch_add(2, Relaxed);
        }
    }
}

/// A client that connects again when its connection ends, and repeats what was not answered, as qemu and nbdkit do.
struct Persistent {
    socket: PathBuf,
    client: Option<NbdClient<UnixStream>>,
}

impl Persistent {
    fn until_done(&mut self, mut request: impl FnMut(&mut NbdClient<UnixStream>) -> Result<(), ClientError>) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "no server answers");
            let client = match self.client.take() {
                Some(client) => Ok(client),
                None => {
                    let stream = UnixStream::connect(&self.socket).expect("the socket listens at all times");
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    NbdClient::connect(stream, "a")
                }
            };
            let done = client.and_then(|mut client| {
                request(&mut client)?;
                self.client = Some(client);
                Ok(())
            });
            match done {
                Ok(()) => return,
                Err(ClientError::Io(why)) if why.kind() != ErrorKind::WouldBlock => {}
                Err(why) => panic!("{why}"),
            }
        }
    }
}

fn takeovers() -> usize {
    std::env::var("BRINDLE_TAKEOVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// Takeovers while a member takes five seconds for a write: one, if `BRINDLE_SLOW_TAKEOVERS` does not say how many.
fn slow_takeovers() -> usize {
    std::env::var("BRINDLE_SLOW_TAKEOVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// The process that listens on a socket.
fn listener(path: &Path) -> i32 {
    sockopt::socket_peercred(UnixStream::connect(path).unwrap()).unwrap().pid.as_raw_nonzero().get()
}

fn is_clean(scene: &Scene) {
    let detail = scene.set.detail();
    assert_eq!(state(&detail), ["clean"], "{detail}");
    run("check", &scene.set.members).ok();
}

#[test]
fn clients_see_no_error_while_one_daemon_after_the_other_takes_over() {
    let scene = Scene::new();
    let first = scene.start("", &[]);
    let said = first.said.clone();
    let begun = Instant::now();
    let (last, requests) = scene.under_load(|requests| {
        let mut old = first;
        for _ in 0..takeovers() {
            let before = requests.load(Relaxed);
            wait(|| requests.load(Relaxed) > before + 100, "nothing is done");
            let new = scene.start("--takeover", &[]);
            let (code, err) = old.end();
            assert_eq!((code, &*err), (0, ""));
            assert_eq!(new.said["nbd"], said["nbd"], "the port is the same, too");
            assert_eq!(listener(&scene.control()), new.pid().as_raw_nonzero().get(), "it is not abandoned");
            assert_eq!(new.ask("status", &["--json"]).json()["pid"], new.pid().as_raw_nonzero().get());
            old = new;
        }
        old
    });
    println!("{} takeovers took {:?} with {requests} requests", takeovers(), begun.elapsed());
    assert!(requests > 0);
    let address = said["nbd"][1].as_str().unwrap().trim_start_matches("nbd://");
    let address = address.split('/').next().unwrap().to_owned();
    TcpStream::connect(&address).unwrap();
    let (code, err) = last.signal(Signal::TERM);
    assert_eq!((code, &*err), (0, ""));
    assert!(!scene.control().exists() && !scene.socket().exists());
    assert!(TcpStream::connect(&address).is_err(), "all listeners are closed");
    is_clean(&scene);
}

#[test]
fn a_daemon_goes_on_when_the_next_one_does_not_come_up() {
    let scene = Scene::new();
    let mut server = scene.start("", &[]);
    let (pid, said) = (server.pid().as_raw_nonzero().get(), server.said.clone());
    let wrong = scene.set.path("wrong.toml");
    let (new, _) = scene.under_load(|_| {
        // It stops nothing.
        scene.settings(&wrong, "colour = 1\n");
        scene.refused(&wrong, &["colour"]);
        assert_eq!(server.status()["pid"], pid);
        // The old one has stopped already, and starts again with its own settings, though the file is another by now.
        let settings = std::fs::read_to_string(&scene.file).unwrap();
        for times in 1..=2 {
            let lines = format!("access = {:?}\n", scene.set.path("nowhere"));
            scene.settings(&wrong, &lines);
            std::fs::write(&scene.file, "colour = 1\n").unwrap();
            scene.refused(&wrong, &["nowhere"]);
            assert_eq!(server.next_event(), said, "time {times}");
        }
        std::fs::write(&scene.file, settings).unwrap();
        // It can still be taken over.
        let new = scene.start("--takeover", &[]);
        let (code, err) = server.end();
        assert!(code == 0 && err.matches("served again by this one").count() == 2, "{code}: {err}");
        new
    });
    new.stop();
    is_clean(&scene);
}

/// The names of all that is served.
fn served(scene: &Scene) -> std::collections::BTreeSet<String> {
    reports(scene).iter().map(|report| report["name"].as_str().unwrap().to_owned()).collect()
}

fn names(all: &str) -> std::collections::BTreeSet<String> {
    all.split(' ').map(str::to_owned).collect()
}

/// The reports of all that is served.
fn reports(scene: &Scene) -> Vec<Value> {
    let status = run(&format!("status --json --runtime-dir {}", scene.set.runtime().display()), &[]).json();
    status.as_array().unwrap().iter().filter(|report| report["not_served"].is_null()).cloned().collect()
}

/// Two members for each of these, beside those of the scene.
fn more(scene: &Scene, made: &[(&str, &str)]) -> Vec<Vec<PathBuf>> {
    let make = |(name, command): &(&str, &str)| {
        let members = files::members(scene.set.dir.path(), name, 2, 64 * MIB);
        run(command, &members).ok();
        members
    };
    made.iter().map(make).collect()
}

#[test]
fn a_takeover_that_would_lose_an_array_is_refused_and_clients_see_no_error() {
    let scene = Scene::new();
    let made =
        [("b", "create -l 1 -N here:b"), ("c", "create -l 1 -N here:c"), ("t", "pool create tank mirror")];
    let [lost, kept @ ..] = &more(&scene, &made)[..] else { panic!("three of them") };
    scene.settings(&scene.file, "[[pools]]\nname = \"tank\"\n");
    let mut server = scene.start("", &[]);
    let pid = server.pid();
    assert_eq!(served(&scene), names("a b c tank"));
    let bytes = || kept[0].iter().map(|member| files::sha256(member)).collect::<Vec<_>>();
    // Nobody looks at them while they are served.
    for member in lost {
        let file = std::fs::OpenOptions::new().write(true).open(member).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8192], 0).unwrap();
    }
    let before = bytes();
    scene.under_load(|requests| {
        let then = requests.load(Relaxed);
        wait(|| requests.load(Relaxed) > then + 100, "nothing is done");
        scene.refused(&scene.file, &["serves 'b'", "It serves on"]);
        let serves_again = |event: Value| event["event"] == "serving" && event["name"] == "a";
        while !serves_again(server.next_event()) {}
    });
    // It is the same process, which serves all but the array that has no superblocks any more.
    assert_eq!(served(&scene), names("a c tank"));
    UnixStream::connect(scene.socket()).expect("the socket is where it was");
    assert_eq!((bytes(), server.pid()), (before, pid));
    server.signal(Signal::TERM);
    is_clean(&scene);
}

#[test]
fn a_takeover_that_can_not_open_an_array_leaves_pools_as_they_are() {
    let scene = Scene::new();
    more(&scene, &[("b", "create -l 1 -N here:b"), ("t", "pool create tank mirror")]);
    let tank = "[[pools]]\nname = \"tank\"\n";
    scene.settings(&scene.file, tank);
    let checkpoint = || {
        let all = reports(&scene);
        let pool = all.iter().find(|report| report["name"] == "tank").unwrap();
        pool["pool"]["checkpoint"].as_u64().unwrap()
    };
    let first = scene.start("", &[]);
    let begun = checkpoint();
    first.stop();
    let mut server = scene.start("", &[]);
    let (said, again) = (server.said.clone(), checkpoint());
    let other = scene.set.path("other.toml");
    scene.settings(&other, &format!("{tank}[[arrays]]\nname = \"b\"\nbitmap = \"/nowhere\"\n"));
    let command = format!("daemon --takeover --runtime-dir {} --config", scene.set.runtime().display());
    let ran = run(&command, &[other]).ended(1);
    assert!(
        ["serves 'b'", "/nowhere", "It serves on"].iter().all(|words| ran.err.contains(words)),
        "{}",
        ran.err
    );
    while server.next_event() != said {}
    assert_eq!(served(&scene), names("a b tank"));
    // One more end and one more opening: those of the old daemon.
    assert_eq!(checkpoint() - again, again - begun);
    server.signal(Signal::TERM);
    is_clean(&scene);
}

/// Starts a daemon that is stopped as soon as it has the sockets, before it serves. Gives it, and the one that it was to follow; a
/// machine may be so busy that it serves first.
fn stopped_before_it_serves(scene: &Scene, mut old: Server) -> (std::process::Child, Server) {
    let next = scene.set.runtime().join("brindle.next");
    for _ in 0..20 {
        let mut command = Command::new(program::path());
        command.args(["daemon", "--json", "--takeover", "--runtime-dir"]).arg(scene.set.runtime());
        command.arg("--config").arg(&scene.file).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        wait(|| next.exists(), "it does not ask");
        wait(|| !next.exists(), "it gets no answer");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::STOP).unwrap();
        if !old.is_over() {
            return (child, old);
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::CONT).unwrap();
        old.end();
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
        old = scene.start("", &[]);
    }
    panic!("it always serves before it is stopped");
}

fn wait(done: impl Fn() -> bool, why: &str) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{why}");
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_daemon_goes_on_when_the_next_one_is_not_ready_in_time() {
    let scene = Scene::new();
    let (mut child, mut server) = stopped_before_it_serves(&scene, scene.start("", &[]));
    let begun = Instant::now();
    let said = server.said.clone();
    scene.under_load(|_| {
        assert_eq!(server.next_event(), said);
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    });
    // It was ended: two that serve are not to be.
    assert!(!child.wait().unwrap().success());
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("10 s are over") && err.contains("is killed"), "{code}: {err}");
    is_clean(&scene);
}

#[test]
fn a_daemon_without_predecessor_just_starts_and_only_daemons_are_taken_over() {
    let scene = Scene::new();
    let server = scene.start("--takeover", &[]);
    server.stop();
    let serve = scene.set.serve("--name brindle");
    scene.refused(&scene.file, &["'brindle' is not taken over", "only a daemon"]);
    serve.stop();
}

/// A manager as systemd is one: it hears what the daemon says, and stores its sockets.
#[test]
fn a_manager_that_stores_the_sockets_hands_them_to_the_next_start() {
    let scene = Scene::new();
    let store = scene.set.path("notify");
    let manager = UnixDatagram::bind(&store).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = scene.start("", &[("NOTIFY_SOCKET", name(&store))]);
    let said = server.said.clone();
    let (mut stored, mut names) = (Vec::new(), Vec::new());
    while stored.len() < 3 {
        let (heard, socket) = heard(&manager);
        if let Some(name) = heard.strip_prefix("FDSTORE=1\nFDNAME=") {
            names.push(name.to_owned());
            stored.extend(socket);
        } else {
            assert_eq!((&*heard, stored.len()), ("READY=1", 0));
        }
    }
    let named = |start: &str| names.iter().any(|name| name.starts_with(start));
    assert!(named("unix=") && named("tcp=127.0.0.1_"), "{names:?}");
    let mut child = scene
        .under_load(|_| {
            server.stop();
            assert!(scene.control().exists(), "the sockets are left");
            let mut child = start_with(&scene, &stored).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let again: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(again["nbd"], said["nbd"]);
            child
        })
        .0;
    let pid = rustix::process::Pid::from_child(&child);
    assert_eq!(listener(&scene.control()), pid.as_raw_nonzero().get());
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    is_clean(&scene);
}

/// The daemon's words, and the socket that comes with them.
fn heard(manager: &UnixDatagram) -> (String, Option<OwnedFd>) {
    let mut words = [0; 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut words)];
    let length = recvmsg(manager, into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
    let socket = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    (String::from_utf8_lossy(&words[..length]).into_owned(), socket)
}

/// A daemon that is started as a manager does it: its sockets are descriptors 3 and above.
fn start_with(scene: &Scene, stored: &[OwnedFd]) -> Command {
    let mut command = Command::new("bash");
    let mut script = String::new();
    for (at, socket) in stored.iter().enumerate() {
        // Not closed when bash is run, and far from the numbers that are to be.
        let high = rustix::io::fcntl_dupfd_cloexec(socket, 100).unwrap();
        rustix::io::fcntl_setfd(&high, FdFlags::empty()).unwrap();
        script += &format!("exec {}<&{}; ", at + 3, high.into_raw_fd());
    }
    script += &format!("LISTEN_PID=$$ LISTEN_FDS={} exec \"$@\"", stored.len());
    command.args(["-c", &script, "bash"]).arg(program::path()).args(["daemon", "--json", "--runtime-dir"]);
    command.arg(scene.set.runtime()).arg("--config").arg(&scene.file);
    command
}

/// A scene whose third member can hang.
fn hanging(lines: &str) -> Option<(HangingFiles, Scene)> {
    let files = or_skip(HangingFiles::mount(1, 16 << 20))?;
    let set = Set::sparse(2, 16 * MIB);
    let mut members = set.members.clone();
    members.push(files.path(0));
    run("create -l 5 -c 64K -N here:a", &members).ok();
    let scene = Scene { file: set.path("brindle.toml"), set };
    scene.settings(&scene.file, "");
    let devices = format!("devices = [{:?}, {:?}]\n", scene.set.dir.path(), files.path(0));
    let text = std::fs::read_to_string(&scene.file).unwrap();
    let others = text.lines().filter(|line| !line.starts_with("devices")).map(|line| format!("{line}\n"));
    let text: String = [format!("{lines}{devices}")].into_iter().chain(others).collect();
    std::fs::write(&scene.file, text).unwrap();
    Some((files, scene))
}

/// A write that is not answered before the member answers.
fn write_behind(scene: &Scene) -> thread::JoinHandle<Result<(), ClientError>> {
    let socket = scene.socket();
    thread::spawn(move || {
        let stream = UnixStream::connect(socket)?;
        NbdClient::connect(stream, "a")?.write(0, &vec![9; 4 * LEN])
    })
}

#[test]
fn a_member_that_hangs_is_failed_on_record_before_another_goes_on() {
    let Some((files, scene)) = hanging("") else { return };
    let text = std::fs::read_to_string(&scene.file).unwrap();
    let patience = "[tuning]\npatience = { answer-ms = 1000 }\n";
    std::fs::write(&scene.file, text.replacen("[tuning]\n", patience, 1)).unwrap();
    let mut old = scene.start("", &[]);
    // Its folder answers, as that of a disk does.
    files.hang(Hang::File(0));
    let writer = write_behind(&scene);
    wait(|| files.held() > 0, "nothing was asked of the member");
    let new = scene.start("--takeover", &[]);
    writer.join().unwrap().expect("the others have it, and it was acknowledged");
    wait(|| old.is_over(), "the process does not end");
    let array = &new.status()["array"];
    assert!(state(array).contains(&"degraded"), "{array}");
    let mut content = vec![0; 4 * LEN];
    let stream = UnixStream::connect(scene.socket()).unwrap();
    NbdClient::connect(stream, "a").unwrap().read(0, &mut content).unwrap();
    assert!(content == vec![9; 4 * LEN], "it is there");
    drop(files);
    let (_, err) = old.end();
    assert!(err.contains("has failed"), "{err}");
    new.signal(Signal::TERM);
}

#[test]
fn a_member_whose_write_takes_seconds_holds_the_next_one_up_and_stays() {
    let Some((files, scene)) = hanging("") else { return };
    let mut old = scene.start("", &[]);
    for _ in 0..slow_takeovers() {
        files.hang(Hang::File(0));
        let writer = write_behind(&scene);
        wait(|| files.held() > 0, "nothing was asked of the member");
        let new = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_secs(5));
                files.release();
            });
            scene.start("--takeover", &[])
        });
        writer.join().unwrap().expect("the old one has answered before it ended");
        assert_eq!(old.end().0, 0);
        let array = &new.status()["array"];
        assert!(!state(array).contains(&"degraded"), "{array}");
        old = new;
    }
    let (code, err) = old.signal(Signal::TERM);
    assert_eq!((code, &*err), (0, ""));
}

#[test]
fn a_member_whose_write_does_not_end_is_no_reason_to_hand_over() {
    let Some((files, scene)) = hanging("stop-timeout = \"1s\"\n") else { return };
    let mut server = scene.start("", &[]);
    files.hang(Hang::Everything);
    let writer = write_behind(&scene);
    wait(|| files.held() > 0, "nothing was asked of the member");
    scene.refused(&scene.file, &["'brindle' is not taken over", "a"]);
    wait(|| server.is_over(), "the process does not end");
    drop(files);
    let (code, err) = server.end();
    assert!(code == 1 && err.contains("not marked clean"), "{code}: {err}");
    assert!(writer.join().unwrap().is_err(), "the write was not acknowledged");
}

#[test]
fn a_reshape_is_gone_on_with_by_the_daemon_that_takes_over_and_by_one_that_serves_again() {
    let mut scene = Scene::new();
    let old = scene.start("", &[]);
    scene.under_load(|requests| wait(|| requests.load(Relaxed) > 2 * BLOCKS, "nothing is done"));
    let size = old.status()["array"]["size"].as_u64().unwrap();
    old.stop();
    let before = files::sha256_of(&run("cat", &scene.set.members).ended(0).out);
    let mut old = scene.start("", &[]);
    let disk = files::members(scene.set.dir.path(), "more", 1, 16 * MIB).remove(0);
    old.ask("action", &["speed", "--max-speed", "1M"]).ok();
    old.ask("grow", &["--raid-devices", "4", "--add", disk.to_str().unwrap()]).ok();
    scene.set.members.push(disk);
    let is_moving = |server: &Server| {
        let status = server.status();
        let state = state(&status["array"]);
        assert!(!state.contains(&"read-only"), "{status}");
        state.contains(&"reshaping")
    };
    assert!(is_moving(&old));
    // The next one does not come up.
    let (wrong, settings) = (scene.set.path("wrong.toml"), std::fs::read_to_string(&scene.file).unwrap());
    scene.settings(&wrong, &format!("access = {:?}\n", scene.set.path("nowhere")));
    // The next one moves as slowly.
    let slow = settings.replace("memory = \"64M\"", "memory = \"64M\"\nmax-speed = \"1M\"");
    std::fs::write(&scene.file, &slow).unwrap();
    scene.refused(&wrong, &["nowhere"]);
    old.next_event();
    assert!(is_moving(&old));
    old.ask("action", &["speed", "--max-speed", "1M"]).ok();
    let new = scene.start("--takeover", &[]);
    let (code, err) = old.end();
    assert!(code == 0 && err.contains("served again by this one"), "{code}: {err}");
    assert!(is_moving(&new));
    new.ask("action", &["speed", "--max-speed", "0"]).ok();
    new.ask("wait", &[]).ok();
    let status = new.status();
    assert_eq!(status["array"]["raid_devices"], 4, "{status}");
    assert!(status["array"]["size"].as_u64() > Some(size), "{status}");
    new.stop();
    is_clean(&scene);
    let after = run("cat", &scene.set.members).ended(0).out;
    assert_eq!(files::sha256_of(&after[..size as usize]), before);
}
