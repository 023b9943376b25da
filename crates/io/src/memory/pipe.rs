//! Sockets within the process: both ends are tasks of one executor.

use std::collections::VecDeque;

use crate::op::{Completion, OpError, OpKey, OpKind, OpView, Segment, SocketId};

/// Bytes that one direction of a connection holds before its sender waits, like a socket's buffer.
const ROOM: usize = 256 * 1024;

enum Socket {
    Listener { backlog: VecDeque<SocketId>, accepts: VecDeque<OpKey>, closed: bool },
    End(End),
}

/// One end of a connection: what came for it, and who waits.
struct End {
    peer: SocketId,
    inbox: VecDeque<u8>,
    recv: Option<(OpKey, Vec<Segment>)>,
    send: Option<(OpKey, Vec<Segment>, u64)>,
    closed: bool,
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
        let new =
            |peer| Socket::End(End { peer, inbox: VecDeque::new(), recv: None, send: None, closed: false });
        let next = self.0.len() as u32;
        let client = self.add(new(SocketId(next + 1)));
        let server = self.add(new(client));
        match self.0.get_mut(listener.0 as usize) {
            Some(Socket::Listener { backlog, accepts, closed: false }) => match accepts.pop_front() {
                Some(key) => done.push(Completion { key, result: Ok(u64::from(server.0)) }),
                None => backlog.push_back(server),
            },
            _ => self.close(server, done),
        }
        client
    }

    fn end(&mut self, socket: SocketId) -> Option<&mut End> {
        match self.0.get_mut(socket.0 as usize)? {
            Socket::End(end) => Some(end),
            Socket::Listener { .. } => None,
        }
    }

    pub(crate) fn submit(&mut self, key: OpKey, op: OpView<'_>, done: &mut Vec<Completion>) {
        match op.kind {
            OpKind::Accept { socket } => self.accept(socket, key, done),
            OpKind::Recv { socket } => match self.end(socket) {
                Some(end) if !end.closed => {
                    end.recv = Some((key, op.segments.to_vec()));
                    self.move_bytes(socket, done);
                }
                _ => done.push(Completion { key, result: Err(OpError::Cancelled) }),
            },
            OpKind::Send { socket } => match self.end(socket) {
                Some(end) if !end.closed => {
                    end.send = Some((key, op.segments.to_vec(), 0));
                    let peer = end.peer;
                    self.move_bytes(peer, done);
                }
                _ => done.push(Completion { key, result: Err(OpError::Cancelled) }),
            },
            _ => done.push(Completion { key, result: Err(OpError::Unsupported) }),
        }
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

    /// Moves what the peer of `into` sends to `into`, as far as there is room, and completes whom that serves.
    fn move_bytes(&mut self, into: SocketId, done: &mut Vec<Completion>) {
        let Some(peer) = self.end(into).map(|end| end.peer) else { return };
        loop {
            let sending = self.end(peer).and_then(|end| end.send.take());
            let peer_closed = self.end(peer).is_none_or(|end| end.closed);
            let Some(end) = self.end(into) else { return };
            let mut progress = false;
            if let Some((key, mut segments, mut sent)) = sending {
                if end.closed {
                    done.push(Completion { key, result: Err(OpError::Disconnected) });
                } else {
                    let moved = fill(&mut end.inbox, &mut segments);
                    sent += moved as u64;
                    progress = moved > 0;
                    if segments.is_empty() {
                        done.push(Completion { key, result: Ok(sent) });
                    } else if let Some(end) = self.end(peer) {
                        end.send = Some((key, segments, sent));
                    }
                }
            }
            let Some(end) = self.end(into) else { return };
            if (!end.inbox.is_empty() || peer_closed)
                && let Some((key, segments)) = end.recv.take()
            {
                let got = drain(&mut end.inbox, &segments);
                done.push(Completion { key, result: Ok(got as u64) });
                progress = true;
            }
            if !progress {
                return;
            }
        }
    }

    /// Completes every operation that waits; the sockets stay open.
    pub(crate) fn cancel_all(&mut self, done: &mut Vec<Completion>) {
        let mut cancel = |key| done.push(Completion { key, result: Err(OpError::Cancelled) });
        for socket in &mut self.0 {
            match socket {
                Socket::Listener { accepts, .. } => accepts.drain(..).for_each(&mut cancel),
                Socket::End(end) => {
                    let waiting = [end.recv.take().map(|r| r.0), end.send.take().map(|s| s.0)];
                    waiting.into_iter().flatten().for_each(&mut cancel);
                }
            }
        }
    }

    pub(crate) fn close(&mut self, socket: SocketId, done: &mut Vec<Completion>) {
        match self.0.get_mut(socket.0 as usize) {
            Some(Socket::Listener { backlog, accepts, closed }) => {
                *closed = true;
                done.extend(accepts.drain(..).map(|key| Completion { key, result: Err(OpError::Cancelled) }));
                for server in core::mem::take(backlog) {
                    self.close(server, done);
                }
            }
            Some(Socket::End(end)) if !end.closed => {
                end.closed = true;
                end.inbox.clear();
                let peer = end.peer;
                let waiting = [end.recv.take().map(|r| r.0), end.send.take().map(|s| s.0)];
                let cancelled = waiting.into_iter().flatten();
                done.extend(cancelled.map(|key| Completion { key, result: Err(OpError::Cancelled) }));
                self.move_bytes(peer, done);
                self.move_bytes(socket, done);
            }
            _ => {}
        }
    }
}

/// Appends the segments' bytes as far as there is room; what is left stays in `segments`.
fn fill(inbox: &mut VecDeque<u8>, segments: &mut Vec<Segment>) -> usize {
    let mut moved = 0;
    while let Some(first) = segments.first_mut() {
        let count = first.len.min(ROOM.saturating_sub(inbox.len()));
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

fn drain(inbox: &mut VecDeque<u8>, segments: &[Segment]) -> usize {
    let mut moved = 0;
    for segment in segments {
        let count = segment.len.min(inbox.len());
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
