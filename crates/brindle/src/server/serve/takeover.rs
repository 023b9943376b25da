//! `daemon --takeover`: a new process goes on in the place of a daemon that runs, and clients find its sockets open all the time.
//!
//! 1. The new one asks what the old one serves. It listens on `NAME.next` in the runtime folder, and names that in the request `takeover`.
//! 2. The old one stops as by `stop`: clients get their last replies, members are flushed, marked clean, unlocked and closed. Its
//!    listening sockets stay open: connections wait in their backlogs. If it does not stop well, it ends as a stop does, and
//!    the new one is refused with the reason.
//! 3. The old one connects to `NAME.next`. It sends a line of JSON, and with its first byte the listeners (SCM_RIGHTS):
//!    `{"version":1,"listeners":[{"unix":"/run/a.nbd"},{"tcp":"127.0.0.1:10809"}],"manager":{"socket":"/run/notify","watchdog":30000000},"moving":["UUID"]}`.
//!    `moving` are arrays whose data the old one was moving into rows of more members: the new one goes on with that. The places have the order of the descriptors, 253 at most. `manager` has what sd_notify(3) needs: the socket, and the
//!    watchdog's microseconds. Each side checks that the other's user is its own.
//! 4. The new one assembles its arrays, looks whether pools can be opened, and says `ready`. The old one answers `go` and ends. From then on
//!    the new one opens pools and answers clients; before, it writes to no member. If it can't have something that the old one
//!    served, and its settings mean, it ends instead.
//! 5. If `ready` does not come within 10 s, the old one hangs up, ends the new one, and serves again: it runs its own
//!    program anew, with the settings that held. `BRINDLE_LISTENERS` and `BRINDLE_SETTINGS` tell the
//!    descriptors that it finds open, as `PID:NUMBER,NUMBER`, and `BRINDLE_MOVING` the arrays whose data it was moving, as `PID:UUID,UUID`. Where the kernel holds a thread, with an operation on a member
//!    that was failed, the program is run beside it (`next` in the place of `PID`): the thread would keep it from being run anew.
//!
//! So at no time have both a member open for writing: locks would show it.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_host::status::Report;
use brindle_host::{Configured, Takeover, Volumes};
use brindle_io::uring::{self, HandedListener, ListenError, ListenerPlace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, sockopt,
};
use rustix::process::{PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::notify;
use crate::base::failure::Failure;
use crate::base::{executable, log, runtime};
use crate::client::control::{self, Ask, Response};
use crate::devices::scan::{Belongs, Findable};
use crate::devices::unserved::Unserved;
use crate::server::shutdown::Shutdown as Ending;

/// The version of the line that is sent with the listeners.
const VERSION: u32 = 1;

/// The most descriptors of a message.
const MOST: usize = 253;

/// The longest line.
const MOST_LINE: usize = 128 * 1024;

/// Time within which the new process has to be ready.
const READY: Duration = Duration::from_secs(10);

/// Time for single steps between the two, none of which waits for a member.
const STEP: Duration = Duration::from_secs(5);

/// Time that a process has to end by itself.
const LEAVING: Duration = Duration::from_secs(1);

const LISTENERS: &str = "BRINDLE_LISTENERS";
const SETTINGS: &str = "BRINDLE_SETTINGS";
const MOVING: &str = "BRINDLE_MOVING";

/// Means a process whose number is not known yet. Programs that it runs find those descriptors closed.
const BESIDE: &str = "next";

/// By these a service manager tells of descriptors that it stored (sd_listen_fds(3)): the process that is meant, their
/// number, and their names.
const STORED: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The first of them.
const FIRST_STORED: RawFd = 3;

#[derive(Serialize, Deserialize)]
struct HandedOver {
    version: u32,
    listeners: Vec<PlaceWords>,
    manager: Option<notify::Manager>,
    /// UUIDs of arrays whose data were being moved. Older daemons don't tell.
    #[serde(default)]
    moving: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PlaceWords {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl From<ListenerPlace> for PlaceWords {
    fn from(place: ListenerPlace) -> Self {
        match place {
            ListenerPlace::Unix(path) => Self::Unix(path),
            ListenerPlace::Tcp(address) => Self::Tcp(address),
        }
    }
}

impl From<PlaceWords> for ListenerPlace {
    fn from(place: PlaceWords) -> Self {
        match place {
            PlaceWords::Unix(path) => Self::Unix(path),
            PlaceWords::Tcp(address) => Self::Tcp(address),
        }
    }
}

/// Things that a daemon finds open at its start.
pub(crate) struct Inherited {
    /// It goes on after a process that should have taken over was not ready.
    pub(crate) again: bool,
    /// The settings that held then.
    pub(crate) settings: Option<String>,
    /// UUIDs of arrays whose data it was moving.
    pub(crate) moving: Vec<String>,
}

/// Takes the descriptors that were left open for this process, by itself or by a service manager.
pub(crate) fn inherit() -> Inherited {
    let own = numbers(LISTENERS);
    let settings = numbers(SETTINGS).and_then(|number| text_of(uring::adopt(number).pop()?));
    let again = own.is_some();
    let open = uring::adopt(own.or_else(stored).unwrap_or_default());
    let listeners: Vec<_> = open
        .into_iter()
        .filter_map(|socket| Some(HandedListener { place: uring::place_of(&socket)?, socket }))
        .collect();
    if !listeners.is_empty() {
        // A start that fails leaves them as they were.
        uring::keep_listeners(true);
        uring::take_inherited(listeners);
    }
    let moving = own_value(MOVING).unwrap_or_default();
    let moving = moving.split(',').filter(|uuid| !uuid.is_empty()).map(str::to_owned).collect();
    Inherited { again, settings, moving }
}

/// `PID:VALUE` of a variable, if this process is meant: programs that a daemon runs have its environment.
fn own_value(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    let (pid, own) = value.split_once(':')?;
    (pid == BESIDE || pid.parse() == Ok(std::process::id())).then(|| own.to_owned())
}

/// `PID:NUMBER,NUMBER` of a variable.
fn numbers(name: &str) -> Option<Vec<RawFd>> {
    Some(own_value(name)?.split(',').filter_map(|number| number.parse().ok()).collect())
}

fn stored() -> Option<Vec<RawFd>> {
    let [pid, count, _] = STORED.map(|name| std::env::var(name).ok());
    (pid?.parse() == Ok(std::process::id())).then_some(())?;
    let count: RawFd = count?.parse().ok()?;
    Some((FIRST_STORED..FIRST_STORED.saturating_add(count.clamp(0, MOST as RawFd))).collect())
}

fn text_of(fd: OwnedFd) -> Option<String> {
    let (mut file, mut text) = (File::from(fd), String::new());
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether the settings mean something that another daemon serves.
pub(crate) type IsMeant<'a> = &'a dyn Fn(&Findable) -> bool;

/// All that the daemon of that name serves, as devices tell it. A daemon whose status can't be read, of another version or since it does not
/// answer, is taken over all the same.
fn served(folder: &Path, name: &str) -> Vec<Findable> {
    let Ok(Response::Report(reported)) = control::ask::<Volumes>(folder, name, &Ask::Status.into()) else {
        return Vec::new();
    };
    let of = |report: &Report| {
        let facts = report.array().map(|array| &array.array.facts);
        let here = report.folder().unwrap_or(Path::new("."));
        Findable {
            uuid: report.uuid().to_owned(),
            name: report.name().to_owned(),
            full_name: facts.map_or(report.name(), |facts| &facts.name).to_owned(),
            homehost: facts.and_then(|facts| facts.homehost.clone()),
            metadata: facts.map_or("pool", |facts| &facts.metadata).to_owned(),
            members: report.devices().into_iter().map(|(path, _)| here.join(path)).collect(),
            belongs: report.pool().map(|_| Belongs::Here),
            ..Findable::default()
        }
    };
    let all = reported.into_read().into_all();
    all.iter().filter(|report| !report.is_absent()).map(of).collect()
}

/// The daemon that ran before, for the process that has taken over from it.
pub(super) struct Predecessor<'a> {
    name: String,
    /// The settings that hold now have it.
    is_meant: IsMeant<'a>,
    served: Vec<Findable>,
    /// UUIDs of arrays whose data it was moving.
    moving: Vec<String>,
    stream: UnixStream,
    /// When it came with its listeners.
    met: Instant,
}

impl<'a> Predecessor<'a> {
    /// Has the daemon of that name stop, and takes its listeners. `None` if none runs.
    pub(super) fn take_over(
        folder: &Path,
        name: &str,
        is_meant: IsMeant<'a>,
    ) -> Result<Option<Self>, Failure> {
        runtime::check_name(name)?;
        let control = runtime::control_socket(folder, name);
        if !control.exists() || uring::is_unclaimed(&control) {
            return Ok(None);
        }
        let served = served(folder, name);
        let path = folder.join(format!("{name}.next"));
        let (listener, file) = uring::listen_unix(&path, uring::OWNER_ONLY).map_err(|error| match error {
            ListenError::InUse(_) => {
                Failure::Refused(format!("another process takes over from '{name}' just now: wait for it"))
            }
            other => other.into(),
        })?;
        let path = std::path::absolute(&path).unwrap_or(path);
        if control::takeover(folder, name, path)?.is_none() {
            return Ok(None);
        }
        let lost = |source| Failure::system(format!("the sockets of '{name}'"), source);
        let stream = accept(&listener).map_err(lost)?;
        drop(file);
        let met = Instant::now();
        let (handed, sockets) = receive(&stream).map_err(lost)?;
        // A start that fails leaves them as they were, for the old one goes on then.
        uring::keep_listeners(true);
        let places = handed.listeners.into_iter().map(ListenerPlace::from);
        uring::take_inherited(
            sockets.into_iter().zip(places).map(|(socket, place)| HandedListener { socket, place }),
        );
        if let Some(manager) = handed.manager {
            notify::take_over(manager);
        }
        let moving = handed.moving;
        Ok(Some(Self { name: name.to_owned(), is_meant, served, moving, stream, met }))
    }

    /// UUIDs of arrays whose data it was moving.
    pub(super) fn moving(&self) -> &[String] {
        &self.moving
    }

    /// Refuses to go on without something that the old daemon served, and the settings mean still: it serves on then.
    pub(super) fn leaves_nothing(
        &self,
        is_taken: impl Fn(&str) -> bool,
        (configured, unserved): (&[Configured], &Unserved),
    ) -> Result<(), Failure> {
        let lacks = |before: &&Findable| !is_taken(&before.uuid) && (self.is_meant)(before);
        if let Some(Findable { name, uuid, .. }) = self.served.iter().find(lacks) {
            let known = configured.iter().find(|one| one.volume.means(name, uuid));
            let why = unserved.why(uuid).or_else(|| known.map(|one| one.why.clone()));
            let why = why.unwrap_or_else(|| "no device is found that is a member of it".to_owned());
            return Err(Failure::Refused(format!(
                "'{}' serves '{name}', which can't be taken over: {why}. It serves on; `brindle stop {name}` has it left out",
                self.name
            )));
        }
        Ok(())
    }

    /// Says that all is ready, and waits until the old daemon has heard it. If it has gone on meanwhile, this is an error, and
    /// nothing was written.
    pub(super) fn ready(mut self) -> Result<(), Failure> {
        let mut go = [0; 3];
        let heard = self.stream.write_all(b"ready\n").and_then(|()| {
            self.stream.set_read_timeout(Some(STEP))?;
            self.stream.read_exact(&mut go)
        });
        match heard {
            Ok(()) if go == *b"go\n" => Ok(()),
            _ if self.met.elapsed() < READY => Err(Failure::Refused(format!(
                "'{}' hung up while this process was on the way to be ready: it has ended, or serves on",
                self.name
            ))),
            _ => Err(Failure::Refused(format!(
                "'{}' serves on, since this process was not ready within {} s",
                self.name,
                READY.as_secs()
            ))),
        }
    }
}

fn accept(listener: &UnixListener) -> std::io::Result<UnixStream> {
    if !is_ready(listener, STEP)? {
        return Err(ErrorKind::TimedOut.into());
    }
    let (stream, _) = listener.accept()?;
    check_user(&stream)?;
    stream.set_read_timeout(Some(STEP))?;
    stream.set_write_timeout(Some(STEP))?;
    Ok(stream)
}

/// Waits until there is something to read.
fn is_ready(fd: impl AsFd, patience: Duration) -> std::io::Result<bool> {
    let span = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&span)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Refuses another user's process.
fn check_user(stream: &UnixStream) -> std::io::Result<()> {
    let theirs = sockopt::socket_peercred(stream)?.uid;
    if theirs == rustix::process::geteuid() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// The line that comes with the listeners.
fn receive(mut stream: &UnixStream) -> std::io::Result<(HandedOver, Vec<OwnedFd>)> {
    let (mut line, mut sockets, mut bytes) = (Vec::new(), Vec::new(), vec![0; MOST_LINE]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    line.extend_from_slice(&bytes[..received.bytes]);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            sockets.extend(fds);
        }
    }
    while !line.ends_with(b"\n") {
        let got = stream.read(&mut bytes)?;
        line.extend_from_slice(&bytes[..got]);
        if got == 0 || line.len() > MOST_LINE {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let handed: HandedOver = serde_json::from_slice(&line)?;
    let fits = handed.version == VERSION && handed.listeners.len() == sockets.len();
    if fits { Ok((handed, sockets)) } else { Err(ErrorKind::InvalidData.into()) }
}

/// The path on which a process waits that is to take over, once one has asked.
#[derive(Clone, Default)]
pub(super) struct AskedToHandOver(Arc<Mutex<Option<PathBuf>>>);

impl AskedToHandOver {
    /// The answer to a process that wants to take over.
    pub(super) fn answers(&self, is_daemon: bool, ending: Arc<Ending>) -> Takeover {
        let this = self.clone();
        Box::new(move |socket| {
            if !is_daemon {
                return Err("only a daemon can be taken over, and this is `brindle serve`, of which no settings tell \
                     what it serves: stop it first"
                    .to_owned());
            }
            let mut asked = this.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !ending.begin_hand_over(|| uring::keep_listeners(true)) {
                return Err("it ends already, and can't be taken over".to_owned());
            }
            *asked = Some(socket);
            Ok(())
        })
    }

    pub(super) fn get(&self) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A daemon leaves this to a server that goes on in its place.
pub(super) struct Left {
    /// The settings that hold.
    pub(super) settings: String,
    /// UUIDs of arrays whose data were being moved.
    pub(super) moving: Vec<String>,
    /// The kernel may hold a thread of this process.
    pub(super) held: bool,
}

/// Hands the listeners to the process that waits at `socket`, and returns when that serves. If it does not come to that, this
/// process is made a new server of what it leaves, and an error says why that can't be.
pub(super) fn hand_over(socket: &Path, left: &Left, ending: &Ending) -> Result<(), Failure> {
    let why = match Successor::meet(socket) {
        Ok(mut successor) => match successor.give(&left.moving).and_then(|()| successor.wait(ending)) {
            Ok(()) => return Ok(()),
            Err(why) => {
                successor.end();
                why
            }
        },
        Err(why) => why,
    };
    tracing::warn!("the process that was to take over is not ready: {why}");
    if ending.was_signalled() {
        return Ok(());
    }
    tracing::warn!("the arrays are served again by this one");
    again(left)
}

/// The process that takes over, for the daemon that ran before.
struct Successor {
    stream: UnixStream,
    /// Its process, if that can be told.
    process: Option<OwnedFd>,
    pid: i32,
}

impl Successor {
    fn meet(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        check_user(&stream)?;
        stream.set_write_timeout(Some(STEP))?;
        let pid = sockopt::socket_peercred(&stream)?.pid;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Self { stream, process, pid: pid.as_raw_nonzero().get() })
    }

    /// Sends the listeners.
    fn give(&mut self, moving: &[String]) -> std::io::Result<()> {
        let listeners = uring::listeners()?;
        let places = listeners.iter().map(|one| one.place.clone().into()).collect();
        let (manager, moving) = (notify::manager().cloned(), moving.to_vec());
        let handed = HandedOver { version: VERSION, listeners: places, manager, moving };
        let mut line = serde_json::to_vec(&handed)?;
        line.push(b'\n');
        let fds: Vec<_> = listeners.iter().map(|one| one.socket.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let iov = [IoSlice::new(&line)];
        let sent = rustix::net::sendmsg(&self.stream, &iov, &mut control, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&line[sent..])
    }

    /// Waits until it is ready, and tells it to go on.
    fn wait(&mut self, ending: &Ending) -> std::io::Result<()> {
        let (until, mut words) = (Instant::now() + READY, Vec::new());
        let turn = notify::watchdog().unwrap_or(STEP).min(Duration::from_millis(200));
        while !words.ends_with(b"ready\n") {
            notify::works();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(std::io::Error::other(format!("{} s are over", READY.as_secs())));
            }
            if ending.was_signalled() {
                return Err(std::io::Error::other("this one is told to end"));
            }
            if !is_ready(&self.stream, turn.min(left))? {
                continue;
            }
            let mut bytes = [0; 16];
            match self.stream.read(&mut bytes)? {
                0 => return Err(std::io::Error::other("it has ended")),
                got => words.extend_from_slice(&bytes[..got]),
            }
        }
        self.stream.write_all(b"go\n")?;
        notify::main_process(self.pid);
        Ok(())
    }

    /// Makes sure that it has no member open any more.
    fn end(self) {
        let _ = rustix::net::shutdown(&self.stream, Shutdown::Both);
        let Some(process) = self.process else { return };
        if !is_ready(&process, LEAVING).unwrap_or(true) {
            tracing::warn!("process {} does not end by itself, and is killed", self.pid);
            let _ = rustix::process::pidfd_send_signal(&process, Signal::KILL);
            let _ = is_ready(&process, STEP);
        }
    }
}

/// Runs this program anew in this process, with the listeners and the settings that it had; beside it, if the kernel holds a
/// thread of this one.
fn again(Left { settings, moving, held }: &Left) -> Result<(), Failure> {
    let failed = |source| Failure::system("the arrays can't be served again", source);
    let prepared = || {
        let listeners = uring::listeners()?;
        let mut file = File::from(rustix::fs::memfd_create("settings", MemfdFlags::CLOEXEC)?);
        file.write_all(settings.as_bytes())?;
        for socket in listeners.iter().map(|one| one.socket.as_fd()).chain([file.as_fd()]) {
            rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
        }
        Ok((listeners, file))
    };
    let (listeners, file) = prepared().map_err(failed)?;
    let meant = if *held { BESIDE.to_owned() } else { std::process::id().to_string() };
    let numbers: Vec<String> = listeners.iter().map(|one| one.socket.as_raw_fd().to_string()).collect();
    let mut command = Command::new(own_program());
    let mut words = std::env::args_os();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).envs(notify::environment());
    command.env(LISTENERS, format!("{meant}:{}", numbers.join(",")));
    command.env(SETTINGS, format!("{meant}:{}", file.as_raw_fd()));
    command.env(MOVING, format!("{meant}:{}", moving.join(",")));
    for name in STORED {
        command.env_remove(name);
    }
    log::flush();
    if !*held {
        return Err(failed(command.exec()));
    }
    let beside = command.env_remove(notify::WATCHED_PROCESS).spawn().map_err(failed)?;
    notify::main_process(beside.id().cast_signed());
    Ok(())
}

/// The program that runs: its name may be that of a newer one by now.
fn own_program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    let Ok(named) = executable::program() else { return running.to_owned() };
    let same = |a: &Path, b: &Path| {
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        identity(a) == identity(b)
    };
    if !running.exists() || same(running, &named) { named } else { running.to_owned() }
}
