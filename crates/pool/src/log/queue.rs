//! Changes that the log is to write, and who waits for them.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use brindle_format::pool::EntryKind;
use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};
use brindle_volume::VolumeError;

use crate::store::map::{ENDLESS, Key};
use crate::store::owed::Coming;
use crate::store::space::Urgency;

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
    /// Zeroes, and the ends of volumes: these take no room but for a summary, give some back, and must not wait for those that want it.
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
    /// Batches in flight.
    pub(crate) flying: Cell<usize>,
    /// Batches in flight that carry writes of clients.
    pub(crate) of_users: Cell<usize>,
    /// Batches in flight whose places members refused: they wait for room elsewhere.
    pub(crate) elsewhere: Cell<usize>,
    /// Changes that batches under way are about to make.
    pub(crate) coming: Cell<Coming>,
    pub(crate) landed: Notify,
    /// Batches since the last checkpoint.
    pub(crate) since: Cell<u64>,
    /// Blocks that batches of users under way change: where each range begins, and its end. Nobody moves these.
    changing: RefCell<BTreeMap<Key, u64>>,
    /// Blocks that cleaning moves. A batch that changes one of them is not begun before that has ended: it is to have the greater number.
    /// A change that waits for room does not keep its block from being moved, since that is what makes the room.
    moving: RefCell<BTreeSet<Key>>,
    /// Moves whose blocks are still being read.
    gathering: Cell<usize>,
}

/// A move whose blocks are being read, as long as this lives.
pub(crate) struct Gathering<'a>(&'a Log);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.gathering.set(self.0.gathering.get() - 1);
        self.0.landed.notify();
    }
}

/// Blocks that cleaning moves, as long as this lives.
pub(crate) struct Moving<'a> {
    log: &'a Log,
    keys: Vec<Key>,
}

impl Moving<'_> {
    /// One more, unless a batch that is under way changes it.
    pub(crate) fn add(&mut self, key: Key) -> bool {
        let free = !self.log.is_changing(key) && self.log.moving.borrow_mut().insert(key);
        if free {
            self.keys.push(key);
        }
        free
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut moving = self.log.moving.borrow_mut();
        for key in &self.keys {
            moving.remove(key);
        }
        self.log.landed.notify();
    }
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
            of_users: Cell::new(0),
            elsewhere: Cell::new(0),
            coming: Cell::default(),
            landed: Notify::new(io),
            since: Cell::new(0),
            changing: RefCell::default(),
            moving: RefCell::default(),
            gathering: Cell::new(0),
        }
    }

    /// One more move begins to read its blocks.
    pub(crate) fn gathers(&self) -> Gathering<'_> {
        self.gathering.set(self.gathering.get() + 1);
        Gathering(self)
    }

    /// A batch of a lane can be begun that has so many items if it can: no more are about to come, or enough are there. While cleaning
    /// has to make the room for them, users begin a batch beside another only once it is full: of one with a few blocks most is parity and
    /// a summary.
    pub(crate) fn has_enough(&self, lane: Lane, items: usize, cleans: bool) -> bool {
        let has = || self.queues.borrow().get(&lane).map_or(0, VecDeque::len) >= items;
        match lane {
            Lane::Users => !cleans || self.of_users.get() == 0 || has(),
            Lane::Zeroes => true,
            Lane::Cold => self.gathering.get() == 0 || has(),
        }
    }

    /// Moves nothing yet.
    pub(crate) fn mover(&self) -> Moving<'_> {
        Moving { log: self, keys: Vec::new() }
    }

    /// Cleaning moves a block that an item changes.
    pub(crate) fn is_moving(&self, item: &Item) -> bool {
        let (moving, range) = (self.moving.borrow(), item.range());
        moving.range((item.volume, range.start)..(item.volume, range.end)).next().is_some()
    }

    /// Cleaning moves nothing at this moment.
    pub(crate) fn moves_nothing(&self) -> bool {
        self.moving.borrow().is_empty()
    }

    /// Nothing waits in a lane.
    pub(crate) fn is_empty(&self, lane: Lane) -> bool {
        self.queues.borrow().get(&lane).is_none_or(VecDeque::is_empty)
    }

    /// Something waits in a lane that cleaning does not keep from being begun.
    pub(crate) fn has_free(&self, lane: Lane) -> bool {
        let queues = self.queues.borrow();
        let mut items = queues.get(&lane).into_iter().flatten();
        items.any(|item| lane == Lane::Cold || !self.is_moving(item))
    }

    fn is_changing(&self, key: Key) -> bool {
        let changing = self.changing.borrow();
        let before = changing.range(..=key).next_back();
        before.is_some_and(|(&(volume, _), &end)| volume == key.0 && key.1 < end)
    }

    /// A batch of these begins: none of them overlap, since each holds its blocks.
    pub(crate) fn begins(&self, items: &[Item]) {
        let ranges = items.iter().map(|item| ((item.volume, item.range().start), item.range().end));
        self.changing.borrow_mut().extend(ranges);
    }

    /// It has ended.
    pub(crate) fn ends(&self, items: &[Item]) {
        let mut changing = self.changing.borrow_mut();
        for item in items {
            changing.remove(&(item.volume, item.range().start));
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
