//! Windows of a process over a range: several at a time, each in a task of its own, and finished in their order.

use core::future::Future;
use std::collections::VecDeque;

use brindle_io::{Io, OpClass, Task};

use crate::process::{Process, ProcessError};
use crate::yielding::{Begun, Yielding};

/// Windows under way at the same time, if they are large: members are kept busy while one is computed.
pub const IN_FLIGHT: usize = 3;

/// The work of a process, as its owner knows it.
pub trait Windowed {
    /// The result of a window.
    type Outcome: 'static;

    /// Requests of clients since the owner began: beside them a process makes room.
    fn requests(&self) -> u64 {
        0
    }

    /// Windows that are under way at the same time.
    fn in_flight(&self) -> usize {
        IN_FLIGHT
    }

    /// The window at or behind a position, of `total` bytes: where it begins, and its bytes. 0 bytes if none begins there yet:
    /// others that are ready go on before the position is asked for again.
    fn place(&self, at: u64, total: u64) -> (u64, u64);

    /// Carries a window out, to its end, whatever becomes of the process.
    fn carry_out(&self, at: u64, len: u64) -> impl Future<Output = Self::Outcome> + 'static;
}

/// A window under way.
struct Window<T> {
    /// Where it ends.
    end: u64,
    begun: Begun,
    task: Task<T>,
}

/// The windows of a process, which goes on as its speeds say, and leaves clients their time.
pub struct Windows<K, W: Windowed> {
    io: Io,
    process: Process<K>,
    work: W,
    next: u64,
    running: VecDeque<Window<W::Outcome>>,
    yielding: Yielding,
}

impl<K: Copy, W: Windowed> Windows<K, W> {
    /// Those of a process, from a position on.
    pub fn new(io: &Io, process: Process<K>, from: u64, work: W) -> Self {
        let (running, yielding) = (VecDeque::new(), Yielding::default());
        Self { io: io.clone(), process, work, next: from, running, yielding }
    }

    /// Keeps windows under way, and waits for the first of them: where it ends, and its result. None if all have ended.
    ///
    /// # Errors
    /// [`ProcessError::Interrupted`] if the process was told to stop, once windows under way have ended.
    pub async fn advance(&mut self) -> Result<Option<(u64, W::Outcome)>, ProcessError<K>> {
        loop {
            self.begin();
            if let Some(Window { end, begun, task }) = self.running.pop_front() {
                let outcome = task.await;
                let (now, floor) = (self.io.now(), self.process.detail().floor);
                self.process.rest(self.yielding.ended(begun, now, self.work.requests(), floor));
                return Ok(Some((end, outcome)));
            }
            if self.next >= self.process.progress().total {
                return Ok(None);
            }
            if self.process.is_stopped() {
                return Err(ProcessError::Interrupted);
            }
            self.process.wait().await;
        }
    }

    /// Begins as many as may be under way.
    fn begin(&mut self) {
        let total = self.process.progress().total;
        let most = if self.yielding.is_crowded() { 1 } else { self.work.in_flight() };
        while self.running.len() < most && self.next < total && !self.process.is_stopped() {
            let (at, len) = self.work.place(self.next, total);
            self.next = at;
            if len == 0 || !self.process.may_begin(len) {
                return;
            }
            let begun = Begun::new(self.io.now(), self.work.requests(), len, self.running.is_empty());
            // A task of its own: once begun a window runs to its end, even if its waiter is dropped.
            let task = self.io.spawn_as(OpClass::Repair, self.work.carry_out(at, len));
            self.next += len;
            self.running.push_back(Window { end: self.next, begun, task });
        }
    }
}
