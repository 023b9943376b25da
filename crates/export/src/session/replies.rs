//! Replies that wait for the task that sends them: all that are ready go out with one send.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

use brindle_io::Io;
use brindle_io::sync::{Either, Notify, race};

use super::account::{Account, End};

/// No more replies are added to a send that has as many bytes, and larger data are sent piece by piece: each piece
/// that goes shows that the client is alive. Bytes.
pub(crate) const PIECE: usize = 1 << 20;
/// The most stretches of memory in a send.
pub(crate) const STRETCHES: usize = 256;

pub(crate) struct Replies<A> {
    queue: RefCell<VecDeque<A>>,
    finished: Cell<bool>,
    /// A reply has come, or has been sent.
    pub(crate) changed: Notify,
}

impl<A> Replies<A> {
    pub(crate) fn new(io: &Io) -> Self {
        Self { queue: RefCell::default(), finished: Cell::new(false), changed: Notify::new(io) }
    }

    #[inline]
    pub(crate) fn push(&self, answer: A) {
        self.queue.borrow_mut().push_back(answer);
        self.changed.notify();
    }

    /// No further replies will be queued.
    pub(crate) fn finish(&self) {
        self.finished.set(true);
        self.changed.notify();
    }

    pub(crate) fn next(&self) -> Option<A> {
        self.queue.borrow_mut().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Drops all that wait.
    pub(crate) fn drop_all(&self) {
        // Others may look at the queue as a reply lets go of what it holds.
        let dropped = self.queue.take();
        drop(dropped);
    }

    /// Waits for a reply; `false` if there will be none any more.
    pub(crate) async fn wait(&self) -> bool {
        let look = || if self.is_empty() { self.finished.get().then_some(false) } else { Some(true) };
        self.changed.until(look).await
    }

    /// Waits until fewer than `most` wait.
    pub(crate) async fn has_fewer(&self, most: usize, account: &Account) -> Result<(), End> {
        let few = || self.queue.borrow().len() < most;
        if few() {
            return Ok(());
        }
        match race(self.changed.until(|| few().then_some(())), account.interruption()).await {
            Either::First(()) => Ok(()),
            Either::Second(end) => Err(end),
        }
    }
}
