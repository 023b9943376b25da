//! Transfers on sockets: tried at once, and again whenever epoll says that something has changed.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::SocketFlags;

use super::{Answer, answered};
use crate::op::{OpKey, Segment, SocketId};

/// An operation on a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Accept,
    Receive,
    Send,
    /// One message comes.
    Read,
    /// One message goes.
    Write,
}

/// An operation on a socket.
pub(crate) struct Transfer {
    pub(crate) key: OpKey,
    pub(crate) way: Way,
    /// Its memory: `count` stretches.
    pub(crate) segments: *const Segment,
    pub(crate) count: u32,
    /// Bytes that were sent.
    pub(crate) done: usize,
}

struct Socket {
    fd: RawFd,
    /// Epoll watches the socket.
    watched: bool,
    incoming: VecDeque<Transfer>,
    outgoing: VecDeque<Transfer>,
}

pub(super) struct Sockets {
    pub(super) epoll: OwnedFd,
    sockets: HashMap<SocketId, Socket>,
    events: Vec<Event>,
}

impl Sockets {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, sockets: HashMap::new(), events: Vec::with_capacity(256) })
    }

    pub(super) fn begin(&mut self, id: SocketId, fd: RawFd, transfer: Transfer, ready: &mut Vec<Answer>) {
        let socket = self.sockets.entry(id).or_insert_with(|| {
            if transfer.way == Way::Accept {
                // SAFETY: the descriptor stays open while the operation is under way. A listener is nobody else's; should this
                // fail, accepting waits at worst for the next client.
                let _ = rustix::io::ioctl_fionbio(unsafe { BorrowedFd::borrow_raw(fd) }, true);
            }
            Socket { fd, watched: false, incoming: VecDeque::new(), outgoing: VecDeque::new() }
        });
        let out = matches!(transfer.way, Way::Send | Way::Write);
        let queue = if out { &mut socket.outgoing } else { &mut socket.incoming };
        queue.push_back(transfer);
        // One that waits keeps the order.
        if queue.len() == 1 {
            go_on(fd, queue, ready);
        }
        if !queue.is_empty() && !socket.watched {
            let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            // SAFETY: as above.
            let file = unsafe { BorrowedFd::borrow_raw(fd) };
            match epoll::add(&self.epoll, file, EventData::new_u64(id.0.into()), changes) {
                Ok(()) => socket.watched = true,
                Err(errno) => socket.fail(errno.raw_os_error(), ready),
            }
        }
    }

    /// Handles the events of epoll.
    pub(super) fn go_on(&mut self, ready: &mut Vec<Answer>) {
        self.events.clear();
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let into = rustix::buffer::spare_capacity(&mut self.events);
        if epoll::wait(&self.epoll, into, Some(&now)).is_err() {
            return;
        }
        for event in &self.events {
            let id = SocketId(event.data.u64() as u32);
            if let Some(socket) = self.sockets.get_mut(&id) {
                go_on(socket.fd, &mut socket.incoming, ready);
                go_on(socket.fd, &mut socket.outgoing, ready);
            }
        }
    }

    pub(super) fn cancel(&mut self, id: SocketId, ready: &mut Vec<Answer>) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.fail(libc::ECANCELED, ready);
        }
    }

    pub(super) fn forget(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.remove(&id) else { return };
        if socket.watched {
            // SAFETY: who forgets a socket has not closed it yet.
            let _ = epoll::delete(&self.epoll, unsafe { BorrowedFd::borrow_raw(socket.fd) });
        }
    }
}

impl Socket {
    fn fail(&mut self, errno: i32, ready: &mut Vec<Answer>) {
        let all = self.incoming.drain(..).chain(self.outgoing.drain(..));
        ready.extend(all.map(|transfer| (transfer.key, transfer.sent_or(errno))));
    }
}

/// Carries out the transfers that are possible now, in order.
fn go_on(fd: RawFd, queue: &mut VecDeque<Transfer>, ready: &mut Vec<Answer>) {
    while let Some(first) = queue.front_mut() {
        let answer = match first.attempt(fd) {
            Err(libc::EAGAIN) => return,
            Err(libc::EINTR) => continue,
            Ok(answer) => answer,
            Err(errno) => first.sent_or(errno),
        };
        ready.push((first.key, answer));
        queue.pop_front();
    }
}

impl Transfer {
    /// The result of a transfer that ends early: the bytes that were sent, if any, as the kernel has it.
    fn sent_or(&self, errno: i32) -> i32 {
        if self.done > 0 { self.done as i32 } else { -errno }
    }

    /// One try, which does not wait.
    fn attempt(&mut self, fd: RawFd) -> Result<i32, i32> {
        match self.way {
            Way::Accept => {
                // SAFETY: the descriptor stays open until the answer.
                let listener = unsafe { BorrowedFd::borrow_raw(fd) };
                let accepted = rustix::net::accept_with(listener, SocketFlags::CLOEXEC);
                accepted.map(IntoRawFd::into_raw_fd).map_err(|errno| errno.raw_os_error())
            }
            // As much as has come, into the first stretch.
            Way::Receive => {
                let Some(first) = self.stretches().first().copied() else { return Ok(0) };
                // SAFETY: the stretch is valid until the answer; whatever else holds it makes no reference to it.
                answered(unsafe { libc::recv(fd, first.iov_base, first.iov_len, libc::MSG_DONTWAIT) })
            }
            Way::Send => self.send(fd),
            Way::Read => {
                let stretches = self.stretches();
                // SAFETY: the stretches are valid until the answer, and their list lasts as long as the call.
                answered(unsafe { libc::readv(fd, stretches.as_ptr(), stretches.len() as _) })
            }
            Way::Write => {
                let stretches = self.stretches();
                // SAFETY: as of a read.
                answered(unsafe { libc::writev(fd, stretches.as_ptr(), stretches.len() as _) })
            }
        }
    }

    fn send(&mut self, fd: RawFd) -> Result<i32, i32> {
        loop {
            let mut rest = self.stretches();
            let mut skip = self.done;
            rest.retain_mut(|stretch| {
                let gone = skip.min(stretch.iov_len);
                skip -= gone;
                stretch.iov_base = stretch.iov_base.wrapping_byte_add(gone);
                stretch.iov_len -= gone;
                stretch.iov_len > 0
            });
            if rest.is_empty() {
                return Ok(self.done as i32);
            }
            // SAFETY: zeroes are a header without address, stretches and control data.
            let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
            (message.msg_iov, message.msg_iovlen) = (rest.as_mut_ptr(), rest.len() as _);
            // SAFETY: the stretches are valid until the answer, and their list lasts as long as the call.
            let sent =
                unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
            self.done += answered(sent)? as usize;
        }
    }

    /// The memory as the kernel's calls want it.
    fn stretches(&self) -> Vec<libc::iovec> {
        // SAFETY: there are `count` segments, in place until the answer.
        let segment = |at| unsafe { *self.segments.add(at) };
        let iovec = |Segment { base, len }| libc::iovec { iov_base: base.cast(), iov_len: len };
        (0..self.count as usize).map(|at| iovec(segment(at))).collect()
    }
}
