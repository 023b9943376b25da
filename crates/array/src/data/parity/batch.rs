//! Batches of writes to a row: a write that comes while the row is busy joins the next batch.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::ops::Range;
use core::task::Poll;
use std::rc::Rc;

use brindle_io::ranges::RangeKey;
use brindle_io::{Io, Slice, TaskId};
use smallvec::SmallVec;

use super::streams::InStream;
use crate::data::list;
use brindle_volume::{VolumeError, bytes};

/// New bytes of a row, one after the other; `start` counts from the row's first data byte.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) memory: list::Part,
}

impl Part {
    #[inline]
    pub(super) fn of(start: u64, memory: &[Slice]) -> Self {
        let memory = match memory {
            [one] => list::Part::from_buf([one.clone()]),
            list => list.into(),
        };
        Self { start, memory }
    }

    fn len(&self) -> u64 {
        bytes(&self.memory)
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.len()
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// A write that joined the batch, and waits for the outcome of the whole.
struct Follower {
    task: TaskId,
    result: Cell<Option<Result<(), VolumeError>>>,
}

/// The writes that are carried out together. None overlaps another, so their order does not matter.
pub(super) struct Batch {
    pub(super) parts: SmallVec<[Part; 1]>,
    /// Where the first of them begins and the last ends, and the bytes of all.
    hull: Range<u64>,
    bytes: u64,
    /// The leader's task and stream, if it waits for more.
    lingers: Option<(TaskId, Option<usize>)>,
    /// A part has come that has nothing to wait for.
    hurried: bool,
    /// A write of the batch wants to be on stable storage.
    pub(super) fua: bool,
    followers: Vec<Rc<Follower>>,
    io: Io,
}

impl Batch {
    /// Sequential parts lie beyond the hull of those before, so that they need no walk.
    fn overlaps(&self, part: &Part) -> bool {
        let range = part.range();
        overlap(&self.hull, &range) && self.parts.iter().any(|other| overlap(&other.range(), &range))
    }

    fn add(&mut self, part: Part) {
        let range = part.range();
        self.hull = self.hull.start.min(range.start)..self.hull.end.max(range.end);
        self.bytes += part.len();
        self.parts.push(part);
    }

    /// Nothing is gained by a wait for more.
    fn is_due(&self, row_bytes: u64) -> bool {
        self.fua || self.hurried || self.bytes == row_bytes
    }

    /// Tells all followers.
    pub(super) fn finish(&self, result: Result<(), VolumeError>) {
        for follower in self.followers.iter().filter(|follower| follower.result.get().is_none()) {
            follower.result.set(Some(result));
            self.io.wake(follower.task);
        }
    }
}

impl Drop for Batch {
    /// A leader that was dropped on its way leaves no follower waiting.
    fn drop(&mut self) {
        if !self.followers.is_empty() {
            self.finish(Err(VolumeError::Stopping));
        }
    }
}

/// The batches that can still be joined, by the index of their leader's entry in the queue for the rows.
pub(crate) struct Batches {
    open: RefCell<Vec<Option<Batch>>>,
    row_bytes: u64,
}

/// An open batch; closed by its leader, or when that one is dropped: before its entry leaves the queue.
pub(super) struct Open<'a> {
    batches: &'a Batches,
    at: usize,
}

impl Batches {
    /// For rows of so many data bytes.
    pub(super) fn new(row_bytes: u64) -> Self {
        Self { open: RefCell::default(), row_bytes }
    }

    /// Opens a batch whose leader has the entry `key` in the queue for its row.
    pub(super) fn open(&self, io: &Io, key: RangeKey, part: Part, fua: bool) -> Open<'_> {
        let (hull, bytes) = (part.range(), part.len());
        let parts = smallvec::smallvec![part];
        let (mut batches, at) = (self.open.borrow_mut(), key.index());
        if at >= batches.len() {
            batches.resize_with(at + 1, || None);
        }
        let (lingers, hurried, followers, io) = (None, false, Vec::new(), io.clone());
        batches[at] = Some(Batch { parts, hull, bytes, lingers, hurried, fua, followers, io });
        Open { batches: self, at }
    }

    /// Joins the batch whose leader has that entry, if it is open and holds nothing that `part` overlaps; waits for its
    /// result. `None` if it can't be joined. A leader that waits for more of its stream does so no longer if a part of another joins.
    pub(super) async fn join(
        &self,
        io: &Io,
        key: RangeKey,
        part: &Part,
        fua: bool,
        stream: &InStream<'_>,
    ) -> Option<Result<(), VolumeError>> {
        let follower = {
            let mut batches = self.open.borrow_mut();
            let batch = batches.get_mut(key.index())?.as_mut()?;
            if batch.overlaps(part) {
                return None;
            }
            let follower = Rc::new(Follower { task: io.current_task(), result: Cell::new(None) });
            batch.add(part.clone());
            batch.fua |= fua;
            batch.followers.push(Rc::clone(&follower));
            if let Some((leader, of)) = batch.lingers {
                batch.hurried |= of != stream.number();
                if batch.is_due(self.row_bytes) {
                    io.wake(leader);
                }
                if batch.bytes == self.row_bytes {
                    stream.fills();
                }
            }
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
        self.of(|batch| batch.bytes).unwrap_or(0)
    }

    /// The row is full, or a write of the batch has nothing to wait for.
    pub(super) fn is_due(&self) -> bool {
        self.of(|batch| batch.is_due(self.batches.row_bytes)).unwrap_or(true)
    }

    /// The leader, with its task and stream, is woken when the batch is due; `None`: it waits no more.
    pub(super) fn linger(&self, leader: Option<(TaskId, Option<usize>)>) {
        if let Some(batch) = &mut self.batches.open.borrow_mut()[self.at] {
            batch.lingers = leader;
        }
    }

    fn of<T>(&self, what: impl FnOnce(&Batch) -> T) -> Option<T> {
        self.batches.open.borrow()[self.at].as_ref().map(what)
    }

    /// Closes the batch: no write joins it any more.
    pub(super) fn close(self) -> Option<Batch> {
        self.batches.open.borrow_mut()[self.at].take()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let batch = self.batches.open.borrow_mut()[self.at].take();
        drop(batch);
    }
}
