//! Asking a running server: every step has a deadline, since a server can be stopped, hang, or be long gone.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brindle_io::uring;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::base::failure::Failure;
use crate::base::runtime;
use brindle_host::control::{Answer, Ask, Ended, Request};

/// Time beyond that of a request: a server that works answers in that time, however its array does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to get into a full backlog.
const REST: Duration = Duration::from_millis(20);

/// Longest answer.
const MAX_ANSWER: u64 = 64 << 20;

/// The result of a request to a server.
pub(crate) enum Response {
    /// The answer.
    Report(serde_json::Value),
    /// The socket is there, but no process listens on it any more.
    Stale,
}

/// Asks the server of that name.
pub(crate) fn ask(folder: &Path, name: &str, request: &Request) -> Result<Response, Failure> {
    match Line::open(folder, name)? {
        Some(mut line) => Ok(Response::Report(line.ask(request)?)),
        None => Ok(Response::Stale),
    }
}

/// Tells the server to stop, or one of its arrays. `waiting` is called when it has not ended within a second; gives
/// its answer, once it has ended and its members are free.
pub(crate) fn stop(
    folder: &Path,
    name: &str,
    array: Option<String>,
    waiting: impl FnOnce(),
) -> Result<Option<serde_json::Value>, Failure> {
    let Some(mut line) = Line::open(folder, name)? else { return Ok(None) };
    let answer = line.ask(&Ask::Stop.of(array))?;
    match line.last_words(folder, waiting)? {
        Some(Ended::Badly { why }) => Err(Failure::Refused(why)),
        Some(Ended::Well) => Ok(Some(answer)),
        None => Err(Failure::Refused(format!(
            "the server of '{name}' ended and left no result: `brindle detail` of its members shows their state"
        ))),
    }
}

/// Has the daemon of that name stop for this process, which waits for its listeners at `socket`. `None` if nobody listens.
pub(crate) fn takeover(folder: &Path, name: &str, socket: PathBuf) -> Result<Option<()>, Failure> {
    let Some(mut line) = Line::open(folder, name)? else { return Ok(None) };
    let refused = |why| Failure::Refused(format!("'{name}' is not taken over: {why}"));
    line.ask(&Ask::Takeover { socket }.into()).map_err(|failure| match failure {
        Failure::Refused(why) => refused(why),
        other => other,
    })?;
    match line.last_words(folder, || ())? {
        Some(Ended::Badly { why }) => Err(refused(why)),
        Some(Ended::Well) => Ok(Some(())),
        None => Err(refused("it ended and left no result".to_owned())),
    }
}

/// A connection to a server.
struct Line {
    name: String,
    stream: BufReader<io::Take<UnixStream>>,
    pid: Option<i32>,
}

impl Line {
    /// `None` if nobody listens on the socket.
    fn open(folder: &Path, name: &str) -> Result<Option<Self>, Failure> {
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
        Ok(Some(Self { name: name.to_owned(), stream, pid }))
    }

    fn ask(&mut self, request: &Request) -> Result<serde_json::Value, Failure> {
        let mut line =
            serde_json::to_vec(request).map_err(|error| Failure::system("the request", error.into()))?;
        line.push(b'\n');
        self.set_patience(PATIENCE + request.patience())?;
        let sent = self.stream.get_mut().get_mut().write_all(&line);
        sent.map_err(|error| self.lost(&error))?;
        let answer = self.read()?.ok_or_else(|| {
            Failure::NoServer(format!("the server of '{}' ended before it answered", self.name))
        })?;
        match serde_json::from_slice(&answer) {
            Ok(Answer::Ok(report)) => Ok(report),
            Ok(Answer::Error(why)) => Err(Failure::Refused(why)),
            Err(error) => Err(self.lost(&error.into())),
        }
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
    fn last_words(&mut self, folder: &Path, waiting: impl FnOnce()) -> Result<Option<Ended>, Failure> {
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
                && let Err(silent @ Failure::NoServer(_)) = ask(folder, &self.name, &Ask::Status.into())
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
