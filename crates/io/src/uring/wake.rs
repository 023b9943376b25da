//! Ending a park from another thread: a read of an eventfd that is always under way.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};
use rustix::event::EventfdFlags;

use super::engine::Engine;
use super::ring::Token;
use crate::reactor::Unpark;

pub(super) struct Wake {
    event: Arc<OwnedFd>,
    /// Where the kernel puts the count. On the heap, so that it stays where it is; leaked if the ring is.
    count: Box<[u8; 8]>,
    armed: bool,
    stopping: bool,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        let event = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(Self { event, count: Box::new([0; 8]), armed: false, stopping: false })
    }

    #[inline]
    pub(super) fn arm(&mut self, engine: &mut Engine) {
        let Engine::Ring(ring) = engine else { return };
        if self.armed || self.stopping {
            return;
        }
        self.armed = true;
        let fd = types::Fd(self.event.as_raw_fd());
        let entry = opcode::Read::new(fd, self.count.as_mut_ptr(), 8).build();
        // SAFETY: `count` and the eventfd live until the ring's drop has seen this read complete.
        unsafe { ring.push(entry, Token::Wake) };
    }

    /// The event's descriptor, for threads that poll it.
    pub(super) fn event(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.event)
    }

    pub(super) fn woken(&mut self) {
        self.armed = false;
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Ends the read for good.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        raise(&self.event);
    }

    /// The kernel keeps the memory of the count.
    pub(super) fn leak_count(&mut self) {
        core::mem::forget(core::mem::take(&mut self.count));
    }

    pub(super) fn unpark(&self) -> Unpark {
        let event = Arc::clone(&self.event);
        Arc::new(move || raise(&event))
    }
}

fn raise(event: &OwnedFd) {
    // Fails only when the count is full, and then the read is due anyway.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}
