//! Changes that the log is to write, and who waits for them.

use core::cell::Cell;
use core::ops::Range;
use std::rc::Rc;

use brindle_format::pool::EntryKind;
use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};
use brindle_volume::VolumeError;

use crate::store::map::ENDLESS;
use crate::store::space::Urgency;

/// Where the bytes of a block come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Slices of 4 KiB in all, of the caller.
    Slices(Vec<Slice>),
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
    left: Cell<usize>,
    result: Cell<Result<(), VolumeError>>,
    done: Notify,
}

impl Ticket {
    pub(crate) fn new(io: &Io, items: usize) -> Rc<Self> {
        Rc::new(Self { left: Cell::new(items), result: Cell::new(Ok(())), done: Notify::new(io) })
    }

    pub(crate) fn end(&self, result: Result<(), VolumeError>) {
        self.result.set(self.result.get().and(result));
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.done.notify();
        }
    }

    /// Waits for their end.
    pub(crate) async fn ended(&self) -> Result<(), VolumeError> {
        self.done.until(|| (self.left.get() == 0).then_some(())).await;
        self.result.get()
    }
}
