//! Operations without io_uring, which containers' default profiles forbid: each member has threads of its own that ask it, and
//! epoll tells when sockets have something or take something.
//!
//! So a member that hangs occupies its own threads only. Jobs that no thread has begun can be taken back. A job that
//! was begun keeps its memory and its descriptor until it returns, even if nothing waits for it any more.

mod sockets;
mod worker;

use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::op::{MemberId, OpKey, SocketId};
use sockets::Sockets;
pub(crate) use sockets::{Transfer, Way};
use worker::Workers;
pub(crate) use worker::{Errand, Work};

/// Answers as system calls give them: a count, or an error number below zero.
type Answer = (OpKey, i32);

/// Where the threads of all members leave their answers.
struct Answers {
    come: Mutex<Vec<Answer>>,
    /// Raised when answers have come, and to wake the reactor's thread.
    event: Arc<OwnedFd>,
}

pub(crate) struct Threads {
    workers: HashMap<MemberId, Arc<Workers>>,
    sockets: Sockets,
    answers: Arc<Answers>,
    /// Answers that came without a thread.
    ready: Vec<Answer>,
    cancelled: Vec<SocketId>,
}

impl Threads {
    /// `event` is an eventfd that ends a wait.
    pub(crate) fn new(event: Arc<OwnedFd>) -> io::Result<Self> {
        Ok(Self {
            workers: HashMap::new(),
            sockets: Sockets::new()?,
            answers: Arc::new(Answers { come: Mutex::default(), event }),
            ready: Vec::new(),
            cancelled: Vec::new(),
        })
    }

    /// Leaves a job to the threads of its member. The segments of the job and their memory must stay in place until
    /// the answer.
    pub(crate) fn ask(&mut self, job: Errand) {
        let workers =
            self.workers.entry(job.member).or_insert_with(|| Workers::new(Arc::clone(&self.answers)));
        if let Err((key, error)) = workers.add(job) {
            self.ready.push((key, -error));
        }
    }

    /// Calls a job off that no thread has begun; another goes on.
    pub(crate) fn take_back(&mut self, member: MemberId, key: OpKey) {
        if self.workers.get(&member).is_some_and(|workers| workers.take_back(key)) {
            self.ready.push((key, -libc::ECANCELED));
        }
    }

    /// Begins a transfer on a socket, whose descriptor stays open until the answer.
    pub(crate) fn transfer(&mut self, socket: SocketId, fd: RawFd, transfer: Transfer) {
        self.sockets.begin(socket, fd, transfer, &mut self.ready);
    }

    /// Cancels the operations on a socket.
    pub(crate) fn cancel(&mut self, socket: SocketId) {
        self.sockets.cancel(socket, &mut self.ready);
        self.cancelled.push(socket);
    }

    /// A socket is about to be closed.
    pub(crate) fn forget(&mut self, socket: SocketId) {
        self.sockets.forget(socket);
    }

    /// Waits until there is an answer, the event is raised or the span has passed (`None`: without end).
    pub(crate) fn wait(&mut self, span: Option<Duration>) {
        let here = !self.ready.is_empty() || !self.cancelled.is_empty();
        let span = if here { Some(Duration::ZERO) } else { span };
        let event = self.answers.event.as_fd();
        let mut polled =
            [PollFd::from_borrowed_fd(event, PollFlags::IN), PollFd::new(&self.sockets.epoll, PollFlags::IN)];
        // A span too long to say is as good as none.
        let span = span.and_then(|span| Timespec::try_from(span).ok());
        // Fails when a signal comes, and then the caller looks again.
        if rustix::event::poll(&mut polled, span.as_ref()).is_err() {
            return;
        }
        let [raised, moved] = polled.map(|fd| !fd.revents().is_empty());
        if raised {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
        if moved {
            self.sockets.go_on(&mut self.ready);
        }
    }

    /// The answers that have come.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Answer> + '_ {
        self.ready.append(&mut lock(&self.answers.come));
        self.ready.drain(..)
    }

    /// The sockets on which all that was under way has ended.
    pub(crate) fn take_cancelled(&mut self) -> impl Iterator<Item = SocketId> + '_ {
        self.cancelled.drain(..)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.workers.values().for_each(|workers| workers.end());
    }
}

impl Answers {
    fn add(&self, answer: Answer) {
        let mut come = lock(&self.come);
        come.push(answer);
        // All are taken at once, so that one wake-up suffices.
        let first = come.len() == 1;
        drop(come);
        if first {
            // Fails only when the count is full, and then it is raised.
            let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A system call's answer as a count or an error number.
fn answered(value: isize) -> Result<i32, i32> {
    if value >= 0 {
        // No transfer is longer than the kernel's limit of 2 GiB less a page.
        return Ok(i32::try_from(value).unwrap_or(i32::MAX));
    }
    Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
