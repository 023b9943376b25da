//! The server's end of the control socket: a thread that waits for all of its peers at once, and never for one alone.
//!
//! It shares nothing with the array's thread but queues, so that it answers whatever hangs there.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};

use super::message::{self, Answer, Ask, Ended, Request};
use super::peer::{Peer, PeerStep, Then, Turn};
use super::rights::ControlRights;

/// Clients at a time; of more, those that have been silent the longest are dropped.
const MAX_PEERS: usize = 256;

/// Time that the last answers may take when the process ends.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// Pause after a connection could not be accepted, as for want of descriptors.
const REST: Duration = Duration::from_millis(50);

/// A source of answers. All of it is called on the control thread, and must not wait for anything.
pub trait Handler: Send + 'static {
    /// Begins to answer: at once, or later from another thread.
    fn begin(&self, request: Request, reply: Reply);

    /// The answer to a request to which there was none in time.
    fn overdue(&self, request: &Request) -> Answer;
}

/// Where the answer to one request goes, from any thread. Only the first counts, and only while its client waits for it.
pub struct Reply {
    peer: u64,
    post: Post,
    /// The descriptor that came with the request.
    descriptor: Option<OwnedFd>,
}

impl Reply {
    /// Takes the descriptor that came with the request.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Answers the request. Only the first answer counts.
    pub fn send(&self, answer: Answer) {
        self.post.send(News::Answer(self.peer, answer));
    }

    /// Sends the final outcome to clients that asked for a stop.
    pub fn end(self, ended: Ended) {
        self.post.send(News::Ended(self.peer, ended));
    }
}

enum News {
    Answer(u64, Answer),
    /// To one client.
    Ended(u64, Ended),
    /// To all. With `accepts` those that wait to be accepted are answered, too; else they wait for the next server.
    End {
        ended: Ended,
        accepts: bool,
    },
}

/// The way to the control thread.
#[derive(Clone)]
struct Post {
    news: Sender<News>,
    wake: Arc<OwnedFd>,
}

impl Post {
    fn send(&self, news: News) {
        // A thread that has ended takes no news.
        if self.news.send(news).is_ok() {
            // Fails only when the count is full, and then the thread is awake already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// The control thread.
pub struct Control {
    post: Post,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Control {
    /// Sends all clients their answers, and the final outcome to those that wait for it; then closes the socket.
    /// Returns within a second or so whatever the clients do.
    pub fn end(&self, ended: Ended) {
        self.close(ended, true);
    }

    /// As [`Control::end`], where another process goes on with the socket: clients that were not accepted yet are left to it.
    pub fn hand_over(&self, ended: Ended) {
        self.close(ended, false);
    }

    fn close(&self, ended: Ended, accepts: bool) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.post.send(News::End { ended, accepts });
        if let Some(thread) = thread {
            let _ = thread.join(); // a panic there has been printed
        }
    }
}

/// Answers requests on a thread of its own until [`Control::end`], of those who may ask.
///
/// # Errors
/// The socket can't be made one that does not block, or no thread can be made.
pub fn listen(listener: UnixListener, rights: ControlRights, handler: impl Handler) -> io::Result<Control> {
    listener.set_nonblocking(true)?;
    let (news, inbox) = channel();
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let post = Post { news, wake: Arc::new(rustix::event::eventfd(0, flags)?) };
    let house = House {
        listener,
        rights,
        handler: Box::new(handler),
        post: post.clone(),
        inbox,
        peers: Vec::new(),
        next_id: 0,
        rest_until: None,
        closed_at: None,
    };
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || house.run())?;
    Ok(Control { post, thread: Mutex::new(Some(thread)) })
}

struct House {
    listener: UnixListener,
    rights: ControlRights,
    handler: Box<dyn Handler>,
    post: Post,
    inbox: Receiver<News>,
    /// Oldest first.
    peers: Vec<Peer>,
    next_id: u64,
    /// Connections are not accepted before this time.
    rest_until: Option<Instant>,
    /// The server has ended: the time after which clients that have not taken their answers are left.
    closed_at: Option<Instant>,
}

impl House {
    fn run(mut self) {
        loop {
            self.wait();
            let now = Instant::now();
            self.read_news(now);
            for at in (0..self.peers.len()).rev() {
                self.serve(at, now);
            }
            match self.closed_at {
                None => self.accept(now),
                Some(until) if self.peers.is_empty() || now >= until => return,
                Some(_) => {}
            }
        }
    }

    /// Waits until a client says something, or the patience of one is over. A client that hangs up is waited for no more.
    fn wait(&mut self) {
        let accepts = self.closed_at.is_none() && self.rest_until.is_none();
        let interest = if accepts { PollFlags::IN } else { PollFlags::empty() };
        let mut fds =
            vec![PollFd::new(&self.post.wake, PollFlags::IN), PollFd::new(&self.listener, interest)];
        fds.extend(self.peers.iter().map(|peer| PollFd::new(&peer.stream, peer.interest())));
        let deadlines = self.peers.iter().filter_map(Peer::deadline);
        let until = deadlines.chain(self.rest_until).chain(self.closed_at).min();
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        // An interrupted or refused poll is a turn in which no client was ready.
        let _ = poll(&mut fds, timeout.as_ref());
        let left = PollFlags::HUP | PollFlags::ERR;
        let gone: Vec<bool> = fds[2..].iter().map(|fd| fd.revents().intersects(left)).collect();
        drop(fds);
        let mut gone = gone.into_iter();
        // In all other steps reading or writing tells, after what there still is to read.
        self.peers
            .retain(|peer| !(gone.next() == Some(true) && matches!(peer.step, PeerStep::Waiting { .. })));
    }

    fn read_news(&mut self, now: Instant) {
        let _ = rustix::io::read(&self.post.wake, &mut [0; 8]);
        while let Ok(news) = self.inbox.try_recv() {
            match news {
                News::Answer(id, answer) => {
                    let peer = self.peers.iter_mut().find(|peer| peer.id == id);
                    if let Some(peer) = peer {
                        answer_to(peer, &answer, now);
                    }
                }
                News::Ended(id, ended) => {
                    let peer = self.peers.iter_mut().find(|peer| peer.id == id);
                    if let Some(peer) = peer {
                        tell_end(peer, &ended, now);
                    }
                }
                News::End { ended, accepts } => self.close(&ended, accepts, now),
            }
        }
    }

    /// Each client that has asked gets an answer, and none is waited for.
    fn close(&mut self, ended: &Ended, accepts: bool, now: Instant) {
        if accepts {
            self.accept(now);
        }
        self.closed_at = Some(now + END_PATIENCE);
        for peer in &mut self.peers {
            if let PeerStep::Asking { .. } = peer.step
                && let Turn::Line(line) = peer.turn()
                && let Ok(request) = message::request(&line)
                && self.rights.check(peer.user.as_ref(), &request.ask).is_ok()
            {
                peer.step = PeerStep::Waiting { request, until: now };
            }
            if let PeerStep::Waiting { request, .. } = &peer.step {
                let answer = self.handler.overdue(request);
                answer_to(peer, &answer, now);
            }
            tell_end(peer, ended, now);
        }
        self.peers.retain(|peer| !peer.is_silent());
    }

    /// One turn with one client.
    fn serve(&mut self, at: usize, now: Instant) {
        let peer = &mut self.peers[at];
        match peer.turn() {
            Turn::Later => {}
            Turn::Over => {
                self.peers.remove(at);
                return;
            }
            Turn::Line(line) => self.understand(at, &line, now),
        }
        let peer = &mut self.peers[at];
        if peer.deadline().is_none_or(|until| now < until) {
            return;
        }
        match &peer.step {
            PeerStep::Waiting { request, .. } => {
                let answer = self.handler.overdue(request);
                answer_to(peer, &answer, now);
            }
            _ => {
                self.peers.remove(at);
            }
        }
    }

    fn understand(&mut self, at: usize, line: &[u8], now: Instant) {
        let peer = &mut self.peers[at];
        match message::request(line) {
            Ok(request) => {
                if let Err(why) = self.rights.check(peer.user.as_ref(), &request.ask) {
                    return peer.tell(
                        message::line(&Answer::Error(why.words().to_owned())),
                        Then::Close,
                        now,
                    );
                }
                let descriptor = peer.descriptor.take();
                let reply = Reply { peer: peer.id, post: self.post.clone(), descriptor };
                let until = now + request.patience();
                peer.step = PeerStep::Waiting { request: request.clone(), until };
                self.handler.begin(request, reply);
            }
            Err(answer) => peer.tell(message::line(&answer), Then::Close, now),
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        loop {
            if self.peers.len() >= MAX_PEERS && !self.drop_oldest_silent() {
                self.rest_until = Some(now + REST);
                return;
            }
            let accepted = self.listener.accept();
            match accepted.and_then(|(stream, _)| Peer::new(self.next_id, stream, now)) {
                Ok(peer) => {
                    self.next_id += 1;
                    self.peers.push(peer);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.drop_oldest_silent();
                    self.rest_until = Some(now + REST);
                    return;
                }
            }
        }
    }

    fn drop_oldest_silent(&mut self) -> bool {
        let oldest = self.peers.iter().position(Peer::is_silent);
        oldest.map(|at| self.peers.remove(at)).is_some()
    }
}

/// Notes that the client gets the final outcome, if it stays connected.
fn tell_end(peer: &mut Peer, ended: &Ended, now: Instant) {
    match &mut peer.step {
        PeerStep::Answering { answer, then: then @ Then::Stay, .. } => {
            answer.extend(message::line(ended));
            *then = Then::Close;
        }
        PeerStep::Staying => peer.tell(message::line(ended), Then::Close, now),
        PeerStep::Answering { .. } | PeerStep::Asking { .. } | PeerStep::Waiting { .. } => {}
    }
}

/// Owes the client an answer, if it waits for one.
fn answer_to(peer: &mut Peer, answer: &Answer, now: Instant) {
    let PeerStep::Waiting { request, .. } = &peer.step else { return };
    let waits = matches!(request.ask, Ask::Stop | Ask::Takeover { .. });
    let stays = waits && matches!(answer, Answer::Ok(_));
    peer.tell(message::line(answer), if stays { Then::Stay } else { Then::Close }, now);
}
