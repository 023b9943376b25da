//! Writes that meet in a row: whoever comes while the row is busy joins the next to write it.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;
use std::rc::Rc;

use brindle_io::{Io, Slice, TaskId};
use smallvec::SmallVec;

use crate::volume::VolumeError;

/// New bytes of a row; `start` counts from the row's first data byte.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) memory: Slice,
}

impl Part {
    fn overlaps(&self, other: &Part) -> bool {
        self.start < other.start + other.memory.len() as u64
            && other.start < self.start + self.memory.len() as u64
    }
}

/// One who joined, and waits for what becomes of the whole.
struct Follower {
    task: TaskId,
    result: Cell<Option<Result<(), VolumeError>>>,
}

/// The writes that are carried out together. None overlaps another, so their order does not matter.
pub(super) struct Batch {
    /// The place of its leader in the queue for the row.
    ticket: u64,
    pub(super) parts: SmallVec<[Part; 1]>,
    /// One of them wants to be on stable storage.
    pub(super) fua: bool,
    followers: Vec<Rc<Follower>>,
    io: Io,
}

impl Batch {
    /// Tells all followers.
    pub(super) fn finish(&self, result: Result<(), VolumeError>) {
        for follower in self.followers.iter().filter(|follower| follower.result.get().is_none()) {
            follower.result.set(Some(result));
            self.io.wake(follower.task);
        }
    }
}

impl Drop for Batch {
    /// A leader that was dropped on its way leaves nobody waiting.
    fn drop(&mut self) {
        if !self.followers.is_empty() {
            self.finish(Err(VolumeError::Stopping));
        }
    }
}

/// The batches that can still be joined. As many as there are rows with waiting writers.
#[derive(Default)]
pub(crate) struct Batches(RefCell<Vec<Batch>>);

/// An open batch; closed by its leader, or when that one is dropped.
pub(super) struct Open<'a> {
    batches: &'a Batches,
    ticket: u64,
}

impl Batches {
    /// Opens a batch whose leader has `ticket` in the queue for its row.
    pub(super) fn open(&self, io: &Io, ticket: u64, part: Part, fua: bool) -> Open<'_> {
        let parts = smallvec::smallvec![part];
        self.0.borrow_mut().push(Batch { ticket, parts, fua, followers: Vec::new(), io: io.clone() });
        Open { batches: self, ticket }
    }

    /// Joins the batch of that ticket if it is open and holds nothing that `part` overlaps; waits for its result.
    /// `None` if it can't be joined.
    pub(super) async fn join(
        &self,
        io: &Io,
        ticket: u64,
        part: &Part,
        fua: bool,
    ) -> Option<Result<(), VolumeError>> {
        let follower = {
            let mut batches = self.0.borrow_mut();
            let batch = batches.iter_mut().find(|batch| batch.ticket == ticket)?;
            if batch.parts.iter().any(|other| other.overlaps(part)) {
                return None;
            }
            let follower = Rc::new(Follower { task: io.current_task(), result: Cell::new(None) });
            batch.parts.push(part.clone());
            batch.fua |= fua;
            batch.followers.push(Rc::clone(&follower));
            follower
        };
        let result = poll_fn(|_| match follower.result.get() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        });
        Some(result.await)
    }
}

impl Open<'_> {
    /// Bytes that have gathered.
    pub(super) fn bytes(&self) -> u64 {
        let batches = self.batches.0.borrow();
        let batch = batches.iter().find(|batch| batch.ticket == self.ticket);
        batch.map_or(0, |batch| batch.parts.iter().map(|part| part.memory.len() as u64).sum())
    }

    /// Nobody joins any more.
    pub(super) fn close(self) -> Option<Batch> {
        let mut batches = self.batches.0.borrow_mut();
        let at = batches.iter().position(|batch| batch.ticket == self.ticket)?;
        Some(batches.swap_remove(at))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut batches = self.batches.0.borrow_mut();
        if let Some(at) = batches.iter().position(|batch| batch.ticket == self.ticket) {
            let batch = batches.swap_remove(at);
            drop(batches);
            drop(batch);
        }
    }
}
