//! Changes that the log is to write, and who waits for them.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use brindle_format::pool::EntryKind;
use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};
use brindle_volume::VolumeError;

/// Where the bytes of a block come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Slices of 4 KiB in all, of the caller.
    Slices(Vec<Slice>),
    /// Bytes that are nobody else's.
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

/// The class of items that go into batches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Blocks that users write.
    Users,
    /// Zeroes: these take no room but for a summary, give some back, and must not wait for those that want it.
    Zeroes,
    /// Blocks that cleaning moves.
    Cold,
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

/// The state of the log.
pub(crate) struct Log {
    pub(crate) queues: RefCell<BTreeMap<Lane, VecDeque<Item>>>,
    /// A task takes items from the queue of each lane.
    pub(crate) pumping: [Cell<bool>; 3],
    /// The number of the batch before.
    pub(crate) last: Cell<u64>,
    /// Batches under way.
    pub(crate) under_way: RefCell<BTreeSet<u64>>,
    /// Batches that were given up since the last checkpoint: recovery may find them whole or not, and nothing says that they are on
    /// stable storage before a checkpoint has passed them.
    pub(crate) given_up: RefCell<BTreeSet<u64>>,
    /// Batches up to this one are on stable storage.
    pub(crate) durable: Cell<u64>,
    pub(crate) flying: Cell<usize>,
    pub(crate) landed: Notify,
    /// Batches since the last checkpoint.
    pub(crate) since: Cell<u64>,
}

impl Log {
    pub(crate) fn new(io: &Io, last: u64) -> Self {
        Self {
            queues: RefCell::default(),
            pumping: Default::default(),
            last: Cell::new(last),
            under_way: RefCell::default(),
            given_up: RefCell::default(),
            durable: Cell::new(last),
            flying: Cell::new(0),
            landed: Notify::new(io),
            since: Cell::new(0),
        }
    }

    /// All batches up to this one have ended.
    pub(crate) fn settled(&self) -> u64 {
        self.under_way.borrow().first().map_or(self.last.get(), |first| first - 1)
    }

    /// The same of those that stand on the members as well.
    pub(crate) fn standing(&self) -> u64 {
        let settled = self.settled();
        self.given_up.borrow().first().map_or(settled, |first| settled.min(first - 1))
    }

    /// A checkpoint has all up to this one, or does without it.
    pub(crate) fn passed(&self, sequence: u64) {
        self.given_up.borrow_mut().retain(|number| *number > sequence);
        self.durable.set(self.durable.get().max(sequence.min(self.standing())));
    }
}
