//! Changes that the log is to write, and who waits for them.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::ops::Range;
use core::task::Poll;
use std::rc::Rc;

use brindle_format::pool::EntryKind;
use brindle_io::{Io, Slice, TaskId};
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use crate::store::map::ENDLESS;
use crate::store::space::Urgency;

/// Where the bytes of a block come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Slices of 4 KiB in all, of the caller.
    Slices(SmallVec<[Slice; 1]>),
    /// Bytes of the pool's own.
    Bytes(Rc<[u8]>),
    /// Nothing is written.
    None,
}

/// A change of blocks.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) kind: EntryKind,
    pub(crate) volume: u32,
    pub(crate) node: u32,
    pub(crate) block: u64,
    pub(crate) count: u32,
    pub(crate) source: Source,
    pub(crate) fua: bool,
    pub(crate) ticket: Rc<Ticket>,
}

impl Item {
    /// The blocks that it changes.
    pub(crate) fn range(&self) -> Range<u64> {
        match self.kind {
            EntryKind::Destroyed => 0..ENDLESS,
            EntryKind::Zeroes => self.block..self.block + u64::from(self.count),
            EntryKind::Data | EntryKind::Lost | EntryKind::Page => self.block..self.block + 1,
        }
    }
}

/// The class of items that go into batches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Blocks that users write.
    Users,
    /// Zeroes, and the ends of volumes: these take no room but for a summary, give some back, and must not wait for changes that want room.
    Zeroes,
    /// Blocks that cleaning moves.
    Cold,
}

impl Lane {
    /// How much of the log it may take.
    pub(crate) fn urgency(self) -> Urgency {
        match self {
            Self::Users => Urgency::User,
            Self::Zeroes => Urgency::GivesBack,
            Self::Cold => Urgency::Cleaning,
        }
    }
}

/// Waits for some items.
pub(crate) struct Ticket {
    io: Io,
    left: Cell<usize>,
    result: Cell<Result<(), VolumeError>>,
    waits: RefCell<SmallVec<[TaskId; 2]>>,
}

impl Ticket {
    pub(crate) fn new(io: &Io, items: usize) -> Rc<Self> {
        let (left, result, waits) = (Cell::new(items), Cell::new(Ok(())), RefCell::default());
        Rc::new(Self { io: io.clone(), left, result, waits })
    }

    /// It is for so many items from now on.
    pub(crate) fn begins(&self, items: usize) {
        self.left.set(items);
        self.result.set(Ok(()));
    }

    /// It is for so many items more.
    pub(crate) fn more(&self, items: usize) {
        self.left.set(self.left.get() + items);
    }

    pub(crate) fn end(&self, result: Result<(), VolumeError>) {
        self.result.set(self.result.get().and(result));
        self.left.set(self.left.get() - 1);
        if self.left.get() <= 1 {
            self.waits.borrow_mut().drain(..).for_each(|task| self.io.wake(task));
        }
    }

    /// Waits for their end.
    pub(crate) async fn ended(&self) -> Result<(), VolumeError> {
        self.ended_but(0).await
    }

    /// Waits until no more than so many are left, 1 at most.
    pub(crate) async fn ended_but(&self, left: usize) -> Result<(), VolumeError> {
        poll_fn(|_| {
            if self.left.get() <= left {
                return Poll::Ready(self.result.get());
            }
            let (task, mut waits) = (self.io.current_task(), self.waits.borrow_mut());
            if !waits.contains(&task) {
                waits.push(task);
            }
            Poll::Pending
        })
        .await
    }
}
