//! A listener that answers scrapes over HTTP/1.1, on a thread of its own that waits for no client.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_io::uring::keeps_listeners;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::text::CONTENT_TYPE;

/// Clients at a time; for one more the one that came first makes room.
const MOST_CLIENTS: usize = 64;

/// Bytes of a request's head.
const MOST_HEAD: usize = 8 * 1024;

/// Header lines of a request.
const MOST_HEADERS: usize = 64;

/// Time that a client may take from its coming to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, as for want of descriptors.
const REST: Duration = Duration::from_millis(50);

/// A socket on which scrapes come.
pub enum ScrapeListener {
    /// A socket named by a file.
    Unix(UnixListener),
    /// A socket with an address.
    Tcp(TcpListener),
}

/// A secret that clients have to say, which can be replaced meanwhile. A handle: cloning gives the same.
#[derive(Clone)]
pub struct Bearer(Arc<Mutex<Vec<u8>>>);

impl Bearer {
    /// This secret.
    pub fn new(secret: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(secret)))
    }

    /// Another secret from now on.
    pub fn replace(&self, secret: Vec<u8>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    fn is(&self, said: &[u8]) -> bool {
        same(said, &self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers to scrapes.
pub struct Metrics {
    /// All of them, as text, as they are now. It must not wait for the arrays.
    pub text: Box<dyn Fn() -> String + Send>,
    /// A secret that clients have to say.
    pub bearer: Option<Bearer>,
}

impl Metrics {
    /// Answers on a thread of its own, until the process ends.
    ///
    /// # Errors
    /// The socket can't be made one that does not block, or no thread can be made.
    pub fn serve(self, listener: ScrapeListener) -> io::Result<()> {
        match &listener {
            ScrapeListener::Unix(listener) => listener.set_nonblocking(true)?,
            ScrapeListener::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        let scrapes = Scrapes { listener, metrics: self, clients: Vec::new(), rest_until: None };
        std::thread::Builder::new().name("metrics".into()).spawn(move || scrapes.run())?;
        Ok(())
    }

    /// The answer to a request, of which this is the head.
    fn answer(&self, head: &[u8]) -> Vec<u8> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(head);
        if !matches!(parsed, Ok(httparse::Status::Complete(_))) {
            return refusal("400 Bad Request", "", "this is not a request that HTTP/1.1 knows\n");
        }
        let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default();
        if !self.admits(request.headers) {
            let demand = "WWW-Authenticate: Bearer\r\n";
            return refusal("401 Unauthorized", demand, "say the secret: Authorization: Bearer SECRET\n");
        }
        if !matches!(method, "GET" | "HEAD") {
            return refusal(
                "405 Method Not Allowed",
                "Allow: GET, HEAD\r\n",
                "metrics can only be read: GET\n",
            );
        }
        let (kind, body) = match path {
            "/metrics" => (CONTENT_TYPE, (self.text)()),
            "/" => ("text/plain; charset=utf-8", "metrics are at /metrics\n".to_owned()),
            _ => return refusal("404 Not Found", "", "metrics are at /metrics\n"),
        };
        response("200 OK", kind, "", &body, method == "HEAD")
    }

    /// Whether the secret was said, if there is one.
    fn admits(&self, headers: &[httparse::Header<'_>]) -> bool {
        let Some(bearer) = &self.bearer else { return true };
        let said = headers.iter().find(|header| header.name.eq_ignore_ascii_case("authorization"));
        let said = said.and_then(|header| header.value.split_at_checked(7));
        said.is_some_and(|(scheme, said)| scheme.eq_ignore_ascii_case(b"bearer ") && bearer.is(said))
    }
}

/// Whether they are the same, in a time that tells nothing of where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn refusal(status: &str, headers: &str, why: &str) -> Vec<u8> {
    response(status, "text/plain; charset=utf-8", headers, why, false)
}

fn response(status: &str, kind: &str, headers: &str, body: &str, head_only: bool) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
    );
    if head_only { head.into_bytes() } else { (head + body).into_bytes() }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }
}

impl ScrapeListener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Stream::Tcp(stream)
            }
        })
    }
}

struct Client {
    stream: Stream,
    until: Instant,
    head: Vec<u8>,
    /// The answer, and the bytes of it that have gone.
    answer: Option<(Vec<u8>, usize)>,
}

impl Client {
    /// Reads and writes what is possible without waiting; `false` when nothing more is owed to it.
    fn turn(&mut self, metrics: &Metrics) -> bool {
        let turn = match &self.answer {
            None => self
                .read(metrics)
                .and_then(|more| if self.answer.is_some() { self.write() } else { Ok(more) }),
            Some(_) => self.write(),
        };
        // A client that has left is no concern of the arrays'.
        turn.unwrap_or_else(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn read(&mut self, metrics: &Metrics) -> io::Result<bool> {
        let mut bytes = [0; 2048];
        let got = self.stream.read(&mut bytes)?;
        self.head.extend_from_slice(&bytes[..got]);
        let is_whole = self.head.windows(4).any(|end| end == b"\r\n\r\n");
        if is_whole {
            self.answer = Some((metrics.answer(&self.head), 0));
        } else if self.head.len() > MOST_HEAD {
            let why = "a scrape says less than that\n";
            self.answer = Some((refusal("431 Request Header Fields Too Large", "", why), 0));
        }
        Ok(got > 0)
    }

    fn write(&mut self) -> io::Result<bool> {
        let Some((answer, sent)) = &mut self.answer else { return Ok(true) };
        *sent += self.stream.write(&answer[*sent..])?;
        Ok(*sent < answer.len())
    }

    fn interest(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }
}

struct Scrapes {
    listener: ScrapeListener,
    metrics: Metrics,
    /// In the order of their coming.
    clients: Vec<Client>,
    /// Clients are not accepted before this time.
    rest_until: Option<Instant>,
}

impl Scrapes {
    fn run(mut self) {
        loop {
            let ready = self.wait();
            let now = Instant::now();
            let metrics = &self.metrics;
            let mut ready = ready.into_iter();
            self.clients.retain_mut(|client| {
                let is_ready = ready.next().unwrap_or_default();
                (!is_ready || client.turn(metrics)) && now < client.until
            });
            self.accept(now);
        }
    }

    /// Until a client says something, takes something, or has had its time.
    fn wait(&self) -> Vec<bool> {
        let interest = if self.rest_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let listener = self.listener.fd();
        let mut fds = vec![PollFd::from_borrowed_fd(listener, interest)];
        fds.extend(
            self.clients.iter().map(|client| PollFd::from_borrowed_fd(client.stream.fd(), client.interest())),
        );
        let until = self.clients.iter().map(|client| client.until).chain(self.rest_until).min();
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        // An interrupted or refused poll is a turn in which no client was ready.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect()
    }

    fn accept(&mut self, now: Instant) {
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        // While a process hands its listeners on, connections wait for the process that has them next.
        if keeps_listeners() {
            self.rest_until = Some(now + REST);
            return;
        }
        loop {
            match self.listener.accept() {
                Ok(stream) => {
                    if self.clients.len() >= MOST_CLIENTS {
                        self.clients.remove(0);
                    }
                    self.clients.push(Client {
                        stream,
                        until: now + PATIENCE,
                        head: Vec::new(),
                        answer: None,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.rest_until = Some(now + REST);
                    return;
                }
            }
        }
    }
}
