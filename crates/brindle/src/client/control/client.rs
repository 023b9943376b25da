//! Asking a running server: every step has a deadline, since a server can be stopped, hang, or be long gone.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_io::uring;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

use super::answer::{Answer, Told, Unlike, versions};
use crate::base::failure::Failure;
use crate::base::{runtime, typed};
use brindle_host::Protocol;
use brindle_host::control::{Answer as Sent, Ask, Author, Ended, Request, VERSION};
use serde::de::IgnoredAny;

/// Time beyond that of a request: a server that works answers in that time, however its array does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to get into a full backlog.
const REST: Duration = Duration::from_millis(20);

/// How the answer to a line that is no request begins.
const NO_REQUEST: &str = "not a request";

/// The way out where versions differ.
const WAY_OUT: &str =
    "use the program by which the server was started, or start the server anew with this one";

/// Longest answer.
const MAX_ANSWER: u64 = 64 << 20;

/// The result of a request to a server.
pub(crate) enum Response<T> {
    /// The answer.
    Report(Answer<T>),
    /// The socket is there, but no process listens on it any more.
    Stale,
}

/// Asks the server of that name.
pub(crate) fn ask<T: Told>(folder: &Path, name: &str, request: &Request) -> Result<Response<T>, Failure> {
    match Line::open(folder, name)? {
        Some(mut line) => Ok(Response::Report(line.ask(request)?)),
        None => Ok(Response::Stale),
    }
}

/// Tells a server to stop, or one of its arrays. `waiting` is called when it has not ended within a second; gives
/// its answer, once it has ended and its members are free.
pub(crate) fn stop(
    mut line: Line,
    array: Option<String>,
    waiting: impl FnOnce(),
) -> Result<Answer<IgnoredAny>, Failure> {
    let answer = line.ask(&Ask::Stop.of(array))?;
    match line.last_words(waiting)? {
        Some(Ended::Badly { why }) => Err(Failure::Refused(why)),
        Some(Ended::Well) => Ok(answer),
        None => Err(Failure::Refused(format!(
            "the server of '{}' ended and left no result: `brindle detail` of its members shows their state",
            line.name
        ))),
    }
}

/// Has the daemon of that name stop for this process, which waits for its listeners at `socket`. `None` if nobody listens.
pub(crate) fn takeover(folder: &Path, name: &str, socket: PathBuf) -> Result<Option<()>, Failure> {
    let Some(mut line) = Line::open(folder, name)? else { return Ok(None) };
    let refused = |why| Failure::Refused(format!("'{name}' is not taken over: {why}"));
    let _stops: Answer<IgnoredAny> =
        line.ask(&Ask::Takeover { socket }.into()).map_err(|failure| match failure {
            Failure::Refused(why) => refused(why),
            other => other,
        })?;
    match line.last_words(|| ())? {
        Some(Ended::Badly { why }) => Err(refused(why)),
        Some(Ended::Well) => Ok(Some(())),
        None => Err(refused("it ended and left no result".to_owned())),
    }
}

/// A connection to a server, for one question or order.
pub(crate) struct Line {
    folder: PathBuf,
    name: String,
    stream: BufReader<io::Take<UnixStream>>,
    pid: Option<i32>,
    /// Goes with the next request.
    descriptor: Option<OwnedFd>,
}

impl Line {
    /// `None` if nobody listens on the socket.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Option<Self>, Failure> {
        runtime::check_name(name)?;
        let path = runtime::control_socket(folder, name);
        let stream = match connect(&path, Instant::now() + PATIENCE) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(Failure::NoServer(format!("{}; it takes no connections", silence(name, None))));
            }
            Err(error) => return Err(no_server(folder, name, &error)),
        };
        let pid = sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get());
        let timeouts =
            stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        timeouts.map_err(|source| Failure::system("the control socket", source))?;
        let stream = BufReader::new(stream.take(MAX_ANSWER));
        Ok(Some(Self { folder: folder.to_owned(), name: name.to_owned(), stream, pid, descriptor: None }))
    }

    /// Whether the server works in the folder in which this command runs; false if that can't be known.
    pub(crate) fn is_of_this_folder(&self) -> bool {
        let theirs = self.pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).ok());
        theirs.is_some_and(|theirs| std::env::current_dir().is_ok_and(|here| here == theirs))
    }

    /// Asks, and reads the answer.
    pub(crate) fn ask<T: Told>(&mut self, request: &Request) -> Result<Answer<T>, Failure> {
        let answer = self.exchange(request)?;
        let told = match serde_json::from_slice(&answer) {
            Ok(Sent::Ok(told)) => told,
            Ok(Sent::Error(why)) => return Err(self.refused(why)),
            Err(error) => return Err(self.misread(&error.to_string(), self.version())),
        };
        let answer =
            Answer::<T>::read(told).map_err(|error| self.misread(&error.to_string(), self.version()))?;
        match answer.unlike() {
            Some(unlike) => self.told_otherwise(&unlike).map(|()| answer),
            None => Ok(answer),
        }
    }

    /// Asks, with a descriptor that the server is to have.
    pub(crate) fn hand<T: Told>(
        &mut self,
        request: &Request,
        descriptor: Option<OwnedFd>,
    ) -> Result<Answer<T>, Failure> {
        self.descriptor = descriptor;
        self.ask(request)
    }

    fn exchange(&mut self, request: &Request) -> Result<Vec<u8>, Failure> {
        let by = || Author { command: typed::command_line(), user: typed::user() };
        let request = &Request { by: request.ask.is_change().then(by), ..request.clone() };
        let mut line =
            serde_json::to_vec(request).map_err(|error| Failure::system("the request", error.into()))?;
        line.push(b'\n');
        self.set_patience(PATIENCE + request.patience())?;
        let descriptor = self.descriptor.take();
        let sent = send(self.stream.get_mut().get_mut(), &line, descriptor.as_ref());
        drop(descriptor);
        sent.map_err(|error| self.lost(&error))?;
        self.read()?.ok_or_else(|| {
            Failure::NoServer(format!("the server of '{}' ended before it answered", self.name))
        })
    }

    /// The version of the protocol that the server speaks, if it tells.
    fn version(&self) -> Option<u32> {
        let mut line = Self::open(&self.folder, &self.name).ok()??;
        let answer = line.exchange(&Ask::Version.into()).ok()?;
        match serde_json::from_slice(&answer) {
            Ok(Sent::Ok(told)) => serde_json::from_value::<Protocol>(told).ok().map(|told| told.version),
            _ => None,
        }
    }

    /// A request that was refused; by another version perhaps since that does not know it.
    fn refused(&self, why: String) -> Failure {
        if !why.starts_with(NO_REQUEST) {
            return Failure::Refused(why);
        }
        match self.version() {
            Some(VERSION) => Failure::Refused(why),
            theirs => Failure::Refused(format!(
                "'{}' does not know this request, and nothing was changed: {}; {WAY_OUT} ({why})",
                self.name,
                versions(theirs)
            )),
        }
    }

    fn misread(&self, why: &str, theirs: Option<u32>) -> Failure {
        Failure::NoServer(format!(
            "the answer of the server of '{}' can't be read: {}; {WAY_OUT} ({})",
            self.name,
            versions(theirs),
            why.escape_debug()
        ))
    }

    /// An answer that is not as this version tells it counts with what was read of it, and standard error has a line about it once. With
    /// debug assertions, as in tests, one of this version's servers is at fault.
    fn told_otherwise(&self, unlike: &Unlike) -> Result<(), Failure> {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let is_first = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name.clone());
        if !is_first && !cfg!(debug_assertions) {
            return Ok(());
        }
        let theirs = self.version();
        if theirs == Some(VERSION) && cfg!(debug_assertions) {
            return Err(self.misread(&unlike.to_string(), theirs));
        }
        if is_first {
            eprintln!("brindle: '{}': {}: {unlike}; {WAY_OUT}", self.name, versions(theirs));
        }
        Ok(())
    }

    /// A line, or `None` where the server hung up instead.
    fn read(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(_) if line.is_empty() => Ok(None),
            Ok(_) => Ok(Some(line)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// The server's final message when it has ended. Waits as long as it takes, while the server still answers
    /// others.
    fn last_words(&mut self, waiting: impl FnOnce()) -> Result<Option<Ended>, Failure> {
        let mut words = Vec::new();
        self.set_patience(Duration::from_secs(1))?;
        let mut read = self.stream.read_until(b'\n', &mut words);
        if is_late(&read) {
            waiting();
            self.set_patience(PATIENCE)?;
        }
        while is_late(&read) {
            read = self.stream.read_until(b'\n', &mut words);
            if is_late(&read)
                && let Err(silent @ Failure::NoServer(_)) =
                    ask::<IgnoredAny>(&self.folder, &self.name, &Ask::Version.into())
            {
                return Err(silent);
            }
        }
        // A server that was killed meanwhile has ended, too.
        Ok(read.ok().and_then(|_| serde_json::from_slice(&words).ok()))
    }

    fn set_patience(&self, span: Duration) -> Result<(), Failure> {
        let set = self.stream.get_ref().get_ref().set_read_timeout(Some(span));
        set.map_err(|source| Failure::system("the control socket", source))
    }

    fn lost(&self, error: &io::Error) -> Failure {
        let timed_out = error.kind() == ErrorKind::WouldBlock;
        let why = if timed_out { String::new() } else { format!(" ({error})") };
        Failure::NoServer(format!("{}{why}", silence(&self.name, self.pid)))
    }
}

/// Sends a line, and a descriptor with its first byte.
fn send(stream: &mut UnixStream, line: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.map(AsFd::as_fd).into_iter().collect();
    if descriptors.is_empty() {
        return stream.write_all(line);
    }
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let sent = rustix::net::sendmsg(&*stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&line[sent..])
}

fn is_late<T>(read: &io::Result<T>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn silence(name: &str, pid: Option<i32>) -> String {
    let process = pid.map_or_else(|| "its process".to_owned(), |pid| format!("its process {pid}"));
    format!(
        "the server of '{name}' does not answer within {} s: {process} is stopped, or has no processor time",
        PATIENCE.as_secs()
    )
}

fn no_server(folder: &Path, name: &str, source: &io::Error) -> Failure {
    let mut others = runtime::servers(folder);
    others.retain(|name| !uring::is_abandoned(&runtime::control_socket(folder, name)));
    let known = if others.is_empty() { "none runs".to_owned() } else { others.join(", ") };
    Failure::NoServer(format!(
        "no server of array '{name}' answers in {} ({source}); servers there: {known}",
        folder.display()
    ))
}

/// Connects, unless the backlog stays full: where a process is stopped, a plain `connect` would wait for ever.
fn connect(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(rustix::io::Errno::AGAIN) if Instant::now() < until => std::thread::sleep(REST),
            Err(errno) => return Err(errno.into()),
        }
    }
}
