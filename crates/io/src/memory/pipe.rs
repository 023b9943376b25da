//! Sockets within the process: both ends are tasks of one executor.

use std::collections::VecDeque;

use crate::bounce::Bounce;
use crate::op::{Completion, OpError, OpKey, OpKind, OpView, Segment, SocketId};

/// Bytes that one direction of a connection holds before its sender waits, like a socket's buffer.
const ROOM: usize = 256 * 1024;

enum Socket {
    Listener { backlog: VecDeque<SocketId>, accepts: VecDeque<OpKey>, closed: bool },
    End(Box<End>),
}

/// One end of a connection: what came for it, and who waits.
struct End {
    peer: SocketId,
    inbox: VecDeque<u8>,
    /// The messages that came for an end that is one of a pair of ports.
    messages: Option<VecDeque<Vec<u8>>>,
    recv: Option<Receiving>,
    send: Option<Sending>,
    closed: bool,
    /// The connection broke: nothing comes and nothing goes any more.
    broken: bool,
}

struct Receiving {
    key: OpKey,
    segments: Vec<Segment>,
    /// The segments are its, in place of memory that others change.
    bounce: Option<Bounce>,
}

struct Sending {
    key: OpKey,
    /// The bytes not sent yet.
    segments: Vec<Segment>,
    _bounce: Option<Bounce>,
    sent: u64,
}

impl End {
    fn to(peer: SocketId) -> Self {
        let (inbox, messages) = (VecDeque::new(), None);
        Self { peer, inbox, messages, recv: None, send: None, closed: false, broken: false }
    }

    /// Completes the operations that wait.
    fn give_up(&mut self, error: OpError, done: &mut Vec<Completion>) {
        let waiting = [self.recv.take().map(|r| r.key), self.send.take().map(|s| s.key)];
        let failed = |key| Completion { key, result: Err(error) };
        done.extend(waiting.into_iter().flatten().map(failed));
    }
}

/// The sockets of a reactor that lives in one process.
#[derive(Default)]
pub(crate) struct Pipes(Vec<Socket>);

impl Pipes {
    fn add(&mut self, socket: Socket) -> SocketId {
        self.0.push(socket);
        SocketId((self.0.len() - 1) as u32)
    }

    pub(crate) fn listen(&mut self) -> SocketId {
        self.add(Socket::Listener { backlog: VecDeque::new(), accepts: VecDeque::new(), closed: false })
    }

    pub(crate) fn connect(&mut self, listener: SocketId, done: &mut Vec<Completion>) -> SocketId {
        let next = self.0.len() as u32;
        let client = self.add(Socket::End(Box::new(End::to(SocketId(next + 1)))));
        let server = self.add(Socket::End(Box::new(End::to(client))));
        match self.0.get_mut(listener.0 as usize) {
            Some(Socket::Listener { backlog, accepts, closed: false }) => match accepts.pop_front() {
                Some(key) => done.push(Completion { key, result: Ok(u64::from(server.0)) }),
                None => backlog.push_back(server),
            },
            _ => drop(self.close(server, done)),
        }
        client
    }

    /// The ends of a pair of ports: what is sent to one comes to the other, message by message.
    pub(crate) fn ports(&mut self) -> [SocketId; 2] {
        let next = self.0.len() as u32;
        [next + 1, next].map(|peer| {
            let end = End { messages: Some(VecDeque::new()), ..End::to(SocketId(peer)) };
            self.add(Socket::End(Box::new(end)))
        })
    }

    fn end(&mut self, socket: SocketId) -> Option<&mut End> {
        match self.0.get_mut(socket.0 as usize)? {
            Socket::End(end) => Some(&mut **end),
            Socket::Listener { .. } => None,
        }
    }

    /// Takes an operation, which uses `bounce` in place of its memory where others may change that. Gives the end
    /// that bytes may now move into: its owner calls [`Pipes::pump`].
    pub(crate) fn submit(
        &mut self,
        key: OpKey,
        op: OpView<'_>,
        bounce: Option<Bounce>,
        done: &mut Vec<Completion>,
    ) -> Option<SocketId> {
        let (socket, receives) = match op.kind {
            OpKind::Accept { socket } => {
                self.accept(socket, key, done);
                return None;
            }
            OpKind::Recv { socket } => (socket, true),
            OpKind::Send { socket } => (socket, false),
            _ => {
                done.push(Completion { key, result: Err(OpError::Unsupported) });
                return None;
            }
        };
        let Some(end) = self.end(socket).filter(|end| !end.closed && !end.broken) else {
            let broken = self.end(socket).is_some_and(|end| end.broken && !end.closed);
            let error = if broken { OpError::Disconnected } else { OpError::Cancelled };
            done.push(Completion { key, result: Err(error) });
            return None;
        };
        let segments = bounce.as_ref().map_or(op.segments, Bounce::segments).to_vec();
        if receives {
            end.recv = Some(Receiving { key, segments, bounce });
            return Some(socket);
        }
        if end.messages.is_some() {
            let peer = end.peer;
            done.push(Completion { key, result: self.post(peer, &segments) });
            return Some(peer);
        }
        end.send = Some(Sending { key, segments, _bounce: bounce, sent: 0 });
        Some(end.peer)
    }

    fn accept(&mut self, listener: SocketId, key: OpKey, done: &mut Vec<Completion>) {
        let result = match self.0.get_mut(listener.0 as usize) {
            Some(Socket::Listener { backlog, accepts, closed: false }) => match backlog.pop_front() {
                Some(server) => Ok(u64::from(server.0)),
                None => {
                    accepts.push_back(key);
                    return;
                }
            },
            _ => Err(OpError::Cancelled),
        };
        done.push(Completion { key, result });
    }

    /// Moves bytes from the peer's send into `into`'s inbox until that is full, and on to a waiting receive; at most
    /// `most` bytes each. With fewer than all, sends and receives complete short. Says whether it did anything, so
    /// that more may follow.
    pub(crate) fn pump(&mut self, into: SocketId, most: usize, done: &mut Vec<Completion>) -> bool {
        let Some(end) = self.end(into) else { return false };
        let peer = end.peer;
        if end.messages.is_some() {
            return self.hand_over(into, done);
        }
        let filled = self.fill(peer, into, most, done);
        let peer_closed = self.end(peer).is_none_or(|end| end.closed);
        let Some(end) = self.end(into) else { return false };
        if (!end.inbox.is_empty() || peer_closed)
            && let Some(Receiving { key, segments, bounce }) = end.recv.take()
        {
            let got = drain(&mut end.inbox, &segments, most);
            if let Some(bounce) = bounce {
                bounce.store(got as u64);
            }
            done.push(Completion { key, result: Ok(got as u64) });
            return true;
        }
        filled
    }

    /// Puts a message into the inbox of a port: no sender waits.
    fn post(&mut self, into: SocketId, segments: &[Segment]) -> Result<u64, OpError> {
        let messages = self.end(into).filter(|end| !end.closed).and_then(|end| end.messages.as_mut());
        let messages = messages.ok_or(OpError::Disconnected)?;
        let mut message = Vec::new();
        for segment in segments {
            // SAFETY: the op table keeps the segment valid and unchanged until the send's completion.
            message.extend_from_slice(unsafe { core::slice::from_raw_parts(segment.base, segment.len) });
        }
        let len = message.len() as u64;
        messages.push_back(message);
        Ok(len)
    }

    /// Gives a port that waits for a message the first; what does not fit is lost.
    fn hand_over(&mut self, into: SocketId, done: &mut Vec<Completion>) -> bool {
        let peer_closed =
            self.end(into).map(|end| end.peer).and_then(|peer| self.end(peer)).is_none_or(|end| end.closed);
        let Some(end) = self.end(into) else { return false };
        let Some(messages) = end.messages.as_mut() else { return false };
        if end.recv.is_none() || messages.is_empty() && !peer_closed {
            return false;
        }
        let mut message: VecDeque<u8> = messages.pop_front().unwrap_or_default().into();
        let Some(Receiving { key, segments, bounce }) = end.recv.take() else { return false };
        let got = drain(&mut message, &segments, usize::MAX);
        if let Some(bounce) = bounce {
            bounce.store(got as u64);
        }
        done.push(Completion { key, result: Ok(got as u64) });
        true
    }

    /// [`Pipes::pump`] until nothing moves any more.
    pub(crate) fn pump_all(&mut self, into: SocketId, done: &mut Vec<Completion>) {
        while self.pump(into, usize::MAX, done) {}
    }

    fn fill(&mut self, from: SocketId, into: SocketId, most: usize, done: &mut Vec<Completion>) -> bool {
        let Some(mut sending) = self.end(from).and_then(|end| end.send.take()) else { return false };
        let Some(end) = self.end(into).filter(|end| !end.closed) else {
            done.push(Completion { key: sending.key, result: Err(OpError::Disconnected) });
            return false;
        };
        let moved = fill(&mut end.inbox, &mut sending.segments, most);
        sending.sent += moved as u64;
        if sending.segments.is_empty() || moved == most {
            done.push(Completion { key: sending.key, result: Ok(sending.sent) });
        } else if let Some(end) = self.end(from) {
            end.send = Some(sending);
        }
        moved > 0
    }

    /// Breaks the connection: bytes under way are lost, and the operations on either end fail.
    pub(crate) fn reset(&mut self, socket: SocketId, done: &mut Vec<Completion>) {
        let Some(peer) = self.end(socket).map(|end| end.peer) else { return };
        for end in [socket, peer] {
            let Some(end) = self.end(end) else { continue };
            end.broken = true;
            end.inbox.clear();
            end.messages.iter_mut().for_each(VecDeque::clear);
            end.give_up(OpError::Disconnected, done);
        }
    }

    /// Bytes that the other end of a connection has not received, those that did not fit in its inbox among them.
    pub(crate) fn untaken(&self, socket: SocketId) -> Option<u64> {
        let end = |socket: SocketId| match self.0.get(socket.0 as usize)? {
            Socket::End(end) => Some(&**end),
            Socket::Listener { .. } => None,
        };
        let this = end(socket).filter(|end| !end.closed)?;
        let unsent = this.send.iter().flat_map(|sending| &sending.segments);
        Some(end(this.peer)?.inbox.len() as u64 + unsent.map(|segment| segment.len as u64).sum::<u64>())
    }

    /// Completes every operation that waits; the sockets stay open.
    pub(crate) fn cancel_all(&mut self, done: &mut Vec<Completion>) {
        for socket in &mut self.0 {
            match socket {
                Socket::Listener { accepts, .. } => cancel(accepts, done),
                Socket::End(end) => end.give_up(OpError::Cancelled, done),
            }
        }
    }

    /// Closes a socket. Gives the end that is to be pumped, so that the other side learns of it.
    pub(crate) fn close(&mut self, socket: SocketId, done: &mut Vec<Completion>) -> Option<SocketId> {
        match self.0.get_mut(socket.0 as usize)? {
            Socket::Listener { backlog, accepts, closed } => {
                *closed = true;
                cancel(accepts, done);
                for server in core::mem::take(backlog) {
                    if let Some(client) = self.close(server, done) {
                        self.pump_all(client, done);
                    }
                }
                None
            }
            Socket::End(end) if end.closed => None,
            Socket::End(end) => {
                end.closed = true;
                end.inbox.clear();
                end.give_up(OpError::Cancelled, done);
                let peer = end.peer;
                // The peer's send has nowhere to go.
                self.pump_all(socket, done);
                Some(peer)
            }
        }
    }
}

fn cancel(accepts: &mut VecDeque<OpKey>, done: &mut Vec<Completion>) {
    done.extend(accepts.drain(..).map(|key| Completion { key, result: Err(OpError::Cancelled) }));
}

/// Appends the segments' bytes, at most `most`, as far as there is room; what is left stays in `segments`.
fn fill(inbox: &mut VecDeque<u8>, segments: &mut Vec<Segment>, most: usize) -> usize {
    let mut moved = 0;
    while let Some(first) = segments.first_mut() {
        let count = first.len.min(ROOM.saturating_sub(inbox.len())).min(most - moved);
        // SAFETY: the op table keeps the segment valid and unchanged until the send's completion.
        inbox.extend(unsafe { core::slice::from_raw_parts(first.base, count) });
        moved += count;
        if count < first.len {
            first.base = first.base.wrapping_add(count);
            first.len -= count;
            break;
        }
        segments.remove(0);
    }
    moved
}

fn drain(inbox: &mut VecDeque<u8>, segments: &[Segment], most: usize) -> usize {
    let mut moved = 0;
    for segment in segments {
        let count = segment.len.min(inbox.len()).min(most - moved);
        let (front, back) = inbox.as_slices();
        let front = &front[..count.min(front.len())];
        let back = &back[..count - front.len()];
        // SAFETY: `front` and `back` are `count <= segment.len` bytes together, and the op table keeps the segment valid
        // and unborrowed until the receive's completion.
        unsafe {
            core::ptr::copy_nonoverlapping(front.as_ptr(), segment.base, front.len());
            core::ptr::copy_nonoverlapping(back.as_ptr(), segment.base.add(front.len()), back.len());
        }
        inbox.drain(..count);
        moved += count;
    }
    moved
}
