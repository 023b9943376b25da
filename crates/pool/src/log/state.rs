//! The state of the log: what waits for a batch, batches in flight, and blocks that are changed or moved at this moment.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use brindle_format::pool::{ENTRIES, Entry};
use brindle_io::Io;
use brindle_io::sync::Notify;

use crate::log::queue::{Item, Lane};
use crate::store::map::Key;
use crate::store::owed::Coming;
use crate::store::space::{BATCH_BLOCKS, IN_FLIGHT};

/// Items of a full batch.
const FULL: usize = BATCH_BLOCKS as usize - 1;

/// Counts of batches in flight.
#[derive(Clone, Copy, Default)]
struct Flying {
    all: usize,
    /// Of these, those that carry writes of clients,
    of_users: usize,
    /// and those whose places members refused: they wait for room elsewhere.
    elsewhere: usize,
    /// The changes of the map that all of them are about to make.
    coming: Coming,
}

/// The state of the log.
pub(crate) struct Log {
    queues: RefCell<BTreeMap<Lane, VecDeque<Item>>>,
    /// A task takes items from the queue of each lane.
    pumping: [Cell<bool>; 3],
    /// The number of the batch before.
    last: Cell<u64>,
    /// Numbers of batches that neither stand nor were given up.
    under_way: RefCell<VecDeque<u64>>,
    /// Batches that were given up since the last checkpoint: recovery may find them whole or not, and nothing says that they are on
    /// stable storage before a checkpoint has passed them.
    given_up: RefCell<BTreeSet<u64>>,
    /// Batches up to this one are on stable storage.
    durable: Cell<u64>,
    flying: Cell<Flying>,
    /// A batch has landed, or blocks are not moved any more.
    pub(crate) landed: Notify,
    /// Batches since the last checkpoint.
    since: Cell<u64>,
    /// Blocks that batches of users under way change: where each range begins, and its end. Cleaning does not move these. [`NONE`] is always
    /// among them: a map that becomes empty lets its memory go, with each write of few blocks.
    changing: RefCell<BTreeMap<Key, u64>>,
    /// Blocks that cleaning moves. A batch that changes one of them is not begun before that has ended: it is to have the greater number.
    /// A change that waits for room does not keep its block from being moved, since that is what makes the room.
    moving: RefCell<BTreeSet<Key>>,
    /// Moves whose blocks are still being read.
    gathering: Cell<usize>,
    /// Lists of batches that have ended.
    pub(crate) items: Spare<Item>,
    pub(crate) entries: Spare<Entry>,
}

/// A block that no volume has.
const NONE: Key = (u32::MAX, u64::MAX);

/// Empty lists that have memory.
pub(crate) struct Spare<T>(RefCell<Vec<Vec<T>>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Spare<T> {
    pub(crate) fn take(&self) -> Vec<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, mut list: Vec<T>) {
        list.clear();
        let mut lists = self.0.borrow_mut();
        if lists.len() < IN_FLIGHT {
            lists.push(list);
        }
    }
}

/// A batch in flight, as long as this lives.
#[must_use]
pub(crate) struct InFlight {
    log: Rc<Log>,
    pub(crate) sequence: u64,
    pub(crate) lane: Lane,
    coming: Coming,
}

impl InFlight {
    /// Items leave the batch, and wait for the next one.
    pub(crate) fn leaves(&self, items: &[Item]) {
        if self.lane == Lane::Cold {
            return;
        }
        let mut changing = self.log.changing.borrow_mut();
        for item in items {
            changing.remove(&(item.volume, item.range().start));
        }
    }

    /// The batch of these items stands, or was given up.
    pub(crate) fn settles(&self, items: &[Item], stands: bool) {
        if !stands {
            self.log.given_up.borrow_mut().insert(self.sequence);
        }
        let mut under_way = self.log.under_way.borrow_mut();
        let at = under_way.iter().position(|&number| number == self.sequence);
        let was = at.and_then(|at| under_way.remove(at));
        drop(under_way);
        debug_assert!(was.is_some(), "batch {} settles once", self.sequence);
        self.leaves(items);
    }

    /// Members refused its place: it waits for room elsewhere.
    pub(crate) fn goes_elsewhere(&self) -> Elsewhere<'_> {
        self.log.count(|flying| flying.elsewhere += 1);
        self.log.landed.notify();
        Elsewhere(&self.log)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.log.count(|flying| {
            flying.all -= 1;
            flying.of_users -= usize::from(self.lane == Lane::Users);
            flying.coming = flying.coming.without(self.coming);
            debug_assert!(flying.elsewhere <= flying.all && flying.of_users <= flying.all);
        });
        self.log.landed.notify();
    }
}

/// A batch waits for room elsewhere, as long as this lives.
#[must_use]
pub(crate) struct Elsewhere<'a>(&'a Log);

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.0.count(|flying| flying.elsewhere -= 1);
    }
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
    /// An empty one; the number of the batch before its first.
    pub(crate) fn new(io: &Io, last: u64) -> Rc<Self> {
        Rc::new(Self {
            queues: RefCell::default(),
            pumping: Default::default(),
            last: Cell::new(last),
            under_way: RefCell::default(),
            given_up: RefCell::default(),
            durable: Cell::new(last),
            flying: Cell::default(),
            landed: Notify::new(io),
            since: Cell::new(0),
            changing: RefCell::new(BTreeMap::from([(NONE, NONE.1)])),
            moving: RefCell::default(),
            gathering: Cell::new(0),
            items: Spare::default(),
            entries: Spare::default(),
        })
    }

    /// Recovery has found all batches up to this one that there are.
    pub(crate) fn recovered(&self, last: u64) {
        debug_assert!(self.under_way.borrow().is_empty(), "no batch begins before recovery has ended");
        self.last.set(last);
        self.durable.set(last);
    }

    /// An item waits for the next batch of its lane.
    pub(crate) fn add(&self, lane: Lane, item: Item) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(lane).or_default();
        queue.push_back(item);
        let is_full = queue.len() == FULL;
        drop(queues);
        if is_full {
            self.landed.notify();
        }
    }

    /// Items of a batch that found no place in it are the next ones of their lane.
    pub(crate) fn put_back(&self, lane: Lane, items: Vec<Item>) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(lane).or_default();
        items.into_iter().rev().for_each(|item| queue.push_front(item));
    }

    /// Takes the items of the next batch of a lane, but for those whose blocks cleaning moves at this moment.
    pub(crate) fn take(&self, lane: Lane) -> Vec<Item> {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(lane).or_default();
        let most = ENTRIES.min(FULL);
        if lane == Lane::Cold || self.moving.borrow().is_empty() {
            let (count, mut taken) = (queue.len().min(most), self.items.take());
            taken.extend(queue.drain(..count));
            return taken;
        }
        let (mut taken, mut stays) = (self.items.take(), VecDeque::new());
        while taken.len() < most
            && let Some(item) = queue.pop_front()
        {
            if self.is_moving(&item) { stays.push_back(item) } else { taken.push(item) }
        }
        stays.append(queue);
        *queue = stays;
        taken
    }

    /// A task begins to take items of a lane; false if one does already.
    pub(crate) fn begins_pumping(&self, lane: Lane) -> bool {
        !self.pumping[lane as usize].replace(true)
    }

    /// That task has ended.
    pub(crate) fn ends_pumping(&self, lane: Lane) {
        self.pumping[lane as usize].set(false);
    }

    /// A batch of these items begins, which makes changes of the map: it has the next number. No two of them overlap, nor those of other
    /// batches: a request holds its blocks.
    pub(crate) fn begins(self: &Rc<Self>, lane: Lane, items: &[Item], coming: Coming) -> InFlight {
        let sequence = self.last.get() + 1;
        self.last.set(sequence);
        self.under_way.borrow_mut().push_back(sequence);
        self.since.set(self.since.get() + 1);
        self.count(|flying| {
            flying.all += 1;
            flying.of_users += usize::from(lane == Lane::Users);
            flying.coming = flying.coming.and(coming);
        });
        if lane != Lane::Cold {
            let ranges = items.iter().map(|item| ((item.volume, item.range().start), item.range().end));
            self.changing.borrow_mut().extend(ranges);
        }
        InFlight { log: Rc::clone(self), sequence, lane, coming }
    }

    fn count(&self, change: impl FnOnce(&mut Flying)) {
        let mut flying = self.flying.get();
        change(&mut flying);
        self.flying.set(flying);
    }

    /// Batches in flight.
    pub(crate) fn flying(&self) -> usize {
        self.flying.get().all
    }

    /// One more batch may be in flight.
    pub(crate) fn may_begin(&self) -> bool {
        self.flying() < IN_FLIGHT
    }

    /// A batch is in flight that waits for nothing but members.
    pub(crate) fn can_land(&self) -> bool {
        let flying = self.flying.get();
        flying.all > flying.elsewhere
    }

    /// The changes of the map that batches in flight are about to make.
    pub(crate) fn coming(&self) -> Coming {
        self.flying.get().coming
    }

    /// One more move begins to read its blocks.
    pub(crate) fn gathers(&self) -> Gathering<'_> {
        self.gathering.set(self.gathering.get() + 1);
        Gathering(self)
    }

    /// A batch of a lane can be begun that has so many items if it can: no more are about to come, or enough are there. Users begin
    /// a batch beside another only once it is full: of one with a few blocks most is parity and a summary, and neighbours that two batches
    /// share are two reads.
    pub(crate) fn has_enough(&self, lane: Lane, items: usize) -> bool {
        let has = || self.queues.borrow().get(&lane).map_or(0, VecDeque::len) >= items;
        match lane {
            Lane::Users => self.flying.get().of_users == 0 || has(),
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

    /// Nothing waits in a lane.
    pub(crate) fn is_empty(&self, lane: Lane) -> bool {
        self.queues.borrow().get(&lane).is_none_or(VecDeque::is_empty)
    }

    /// An item waits in a lane that cleaning does not keep from being begun.
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

    /// Batches since the last checkpoint.
    pub(crate) fn since(&self) -> u64 {
        self.since.get()
    }

    /// Batches that have begun have numbers up to this.
    pub(crate) fn begun(&self) -> u64 {
        self.last.get()
    }

    /// All batches up to this one have ended.
    pub(crate) fn settled(&self) -> u64 {
        self.under_way.borrow().front().map_or(self.last.get(), |first| first - 1)
    }

    /// The same of those that stand on the members as well.
    pub(crate) fn standing(&self) -> u64 {
        let settled = self.settled();
        self.given_up.borrow().first().map_or(settled, |first| settled.min(first - 1))
    }

    /// Batches up to this one are on stable storage.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// Members were flushed after all batches up to this one stood.
    pub(crate) fn flushed(&self, standing: u64) {
        self.durable.set(self.durable.get().max(standing));
    }

    /// A checkpoint has all up to this one, or does without it; so many batches there were when it began.
    pub(crate) fn passed(&self, sequence: u64, batches: u64) {
        self.given_up.borrow_mut().retain(|number| *number > sequence);
        self.durable.set(self.durable.get().max(sequence.min(self.standing())));
        self.since.set(self.since.get() - batches);
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::EntryKind;
    use brindle_io::memory::Memory;

    use super::*;
    use crate::log::queue::{Source, Ticket};

    fn item(io: &Io, block: u64) -> Item {
        let (kind, source, ticket) = (EntryKind::Data, Source::None, Ticket::new(io, 1));
        Item { kind, volume: 1, node: 1, block, count: 1, source, fua: false, ticket }
    }

    #[test]
    fn a_batch_counts_as_long_as_its_guard_lives() {
        let io = Io::new(Box::new(Memory::new()));
        let log = Log::new(&io, 7);
        let coming = Coming { leaves: 2, fresh: 1, unread: 1 };
        let items = [item(&io, 3), item(&io, 4)];
        let first = log.begins(Lane::Users, &items, coming);
        let second = log.begins(Lane::Cold, &[], coming);
        assert_eq!((first.sequence, second.sequence, log.flying(), log.settled()), (8, 9, 2, 7));
        assert_eq!(log.coming(), coming.and(coming));
        assert!(!log.mover().add((1, 3)), "a batch changes it");
        let waits = [first.goes_elsewhere(), second.goes_elsewhere()];
        assert!(!log.can_land());
        drop(waits);
        first.leaves(&items[..1]);
        assert!(log.can_land() && log.mover().add((1, 3)) && !log.mover().add((1, 4)));
        second.settles(&[], false);
        first.settles(&items[1..], true);
        assert_eq!((log.settled(), log.standing(), log.since()), (9, 8, 2));
        drop((first, second));
        assert_eq!((log.flying(), log.coming()), (0, Coming::default()));
        log.passed(9, 2);
        assert_eq!((log.durable(), log.since()), (9, 0));
    }
}
