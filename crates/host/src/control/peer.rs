//! One client of the control socket: the part of a request that has come, and the rest of its answer. It never
//! blocks, and each of its steps has a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use brindle_io::{PeerUser, peer_user, receive_with};
use rustix::event::PollFlags;

use super::message::Request;

/// No request is a longer line.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// From the connection to the end of its line, and from the answer's first byte to its last.
pub(super) const LINE_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes taken from or given to a client in one turn, so that none takes all of them.
const TURN: usize = 16 * 1024;

/// A client's state: it waits for something, or is waited for.
#[derive(Debug)]
pub(super) enum PeerStep {
    /// The peer has not sent its whole line.
    Asking { line: Vec<u8>, until: Instant },
    /// The arrays' thread is working on the request.
    Waiting { request: Request, until: Instant },
    /// The answer is being sent.
    Answering { answer: Vec<u8>, sent: usize, until: Instant, then: Then },
    /// The peer gets one more line when the server ends.
    Staying,
}

/// The next step after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Close,
    Stay,
}

/// The outcome of a turn with a client.
#[derive(Debug)]
pub(super) enum Turn {
    /// Try again when the socket can be read or written.
    Later,
    /// The peer has sent this line.
    Line(Vec<u8>),
    /// The peer has all of its answer.
    Over,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: u64,
    pub(super) stream: UnixStream,
    /// Its user, if the kernel tells.
    pub(super) user: Option<PeerUser>,
    /// The descriptor that has come with its request.
    pub(super) descriptor: Option<OwnedFd>,
    pub(super) step: PeerStep,
}

impl Peer {
    pub(super) fn new(id: u64, stream: UnixStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let user = peer_user(&stream).ok();
        let step = PeerStep::Asking { line: Vec::new(), until: now + LINE_PATIENCE };
        Ok(Self { id, stream, user, descriptor: None, step })
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(self.step, PeerStep::Asking { .. })
    }

    /// The deadline of the present step.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.step {
            PeerStep::Asking { until, .. }
            | PeerStep::Waiting { until, .. }
            | PeerStep::Answering { until, .. } => Some(until),
            PeerStep::Staying => None,
        }
    }

    /// Events to poll for. A client that hangs up is noticed in any case.
    pub(super) fn interest(&self) -> PollFlags {
        match self.step {
            PeerStep::Asking { .. } | PeerStep::Staying => PollFlags::IN,
            PeerStep::Waiting { .. } => PollFlags::empty(),
            PeerStep::Answering { .. } => PollFlags::OUT,
        }
    }

    /// Begins to send the client this line.
    pub(super) fn tell(&mut self, answer: Vec<u8>, then: Then, now: Instant) {
        self.step = PeerStep::Answering { answer, sent: 0, until: now + LINE_PATIENCE, then };
    }

    /// Reads or writes what is possible without waiting.
    pub(super) fn turn(&mut self) -> Turn {
        let turn = match self.step {
            PeerStep::Asking { .. } => self.read(),
            PeerStep::Answering { .. } => self.write(),
            PeerStep::Waiting { .. } => Ok(Turn::Later),
            PeerStep::Staying => self.listen_for_the_end(),
        };
        match turn {
            Ok(turn) => turn,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Turn::Later,
            Err(_) => Turn::Over, // a client that has left is no concern of the array's
        }
    }

    fn read(&mut self) -> io::Result<Turn> {
        let PeerStep::Asking { line, .. } = &mut self.step else { return Ok(Turn::Later) };
        let mut bytes = [0; TURN];
        let got = receive_with(&self.stream, &mut bytes, &mut self.descriptor)?;
        let end = bytes[..got].iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&bytes[..end.unwrap_or(got)]);
        // The end of the stream ends the line, too.
        let whole = end.is_some() || (got == 0 && !line.is_empty()) || line.len() > MAX_LINE;
        match (whole, got) {
            (true, _) => Ok(Turn::Line(core::mem::take(line))),
            (false, 0) => Ok(Turn::Over),
            (false, _) => Ok(Turn::Later),
        }
    }

    fn write(&mut self) -> io::Result<Turn> {
        let PeerStep::Answering { answer, sent, then, .. } = &mut self.step else { return Ok(Turn::Later) };
        let rest = &answer[*sent..];
        *sent += self.stream.write(&rest[..rest.len().min(TURN)])?;
        match (*sent == answer.len(), *then) {
            (false, _) => Ok(Turn::Later),
            (true, Then::Close) => Ok(Turn::Over),
            (true, Then::Stay) => {
                self.step = PeerStep::Staying;
                Ok(Turn::Later)
            }
        }
    }

    /// The peer's words are of no interest now, unless it leaves.
    fn listen_for_the_end(&mut self) -> io::Result<Turn> {
        let mut bytes = [0; TURN];
        Ok(if self.stream.read(&mut bytes)? == 0 { Turn::Over } else { Turn::Later })
    }
}
