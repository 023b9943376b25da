//! A budget: bytes that pools of several executors draw on, an arena at a time. What one of them has, the others can't have.
//!
//! | word | written by | read by | order |
//! |---|---|---|---|
//! | `left` | whoever draws an arena or gives one back | all | relaxed: it is a count, and no memory goes from one to another |
//! | `wanting` | each executor its own bit, before it calls the others, and when nobody of it waits any more | all, when they give back | relaxed, see below |
//! | `told` | who tells an executor takes it, its call puts it back | the same | both by a swap, acquire and release |
//!
//! An executor that waits sets its bit, and then calls each other one ([`CallKind::Spare`]). That one gives back the arenas that it does not
//! use, and tells the caller to look again. Whatever it gives back before the call is seen by that look; whatever it gives back later, it gives with the
//! bit in sight, since the queue of calls has a lock. So nobody needs a fence when it gives back, and no change is slept over. `told` keeps an executor from
//! being told twice before it has looked; the swap has the look see what was done before the second one.

use core::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::task::{Scheduler, TaskId};
use crate::word::MOST_OF_A_CREW;

/// Bytes for pools of several executors.
pub(crate) struct Budget {
    bytes: usize,
    left: AtomicUsize,
    /// Executors of which somebody waits for memory that others have, a bit for each.
    wanting: AtomicU64,
    places: Box<[BudgetPlace]>,
}

#[derive(Default)]
struct BudgetPlace {
    /// Missing until the executor has made its pool, which has no arena before.
    call: OnceLock<CallExecutor>,
    /// The executor has been told to look again, and has not yet.
    told: AtomicBool,
}

/// Has an executor answer a call on its thread.
pub(crate) type CallExecutor = Box<dyn Fn(Call) + Send + Sync>;

/// A call to the pools of an executor that draw on a budget.
pub(crate) struct Call {
    of: Weak<Budget>,
    kind: CallKind,
}

#[derive(Clone, Copy)]
enum CallKind {
    /// The executor of this number waits: give back what is not used.
    Spare(usize),
    /// Others have given something back.
    LookAgain,
}

/// The right of one executor to make a pool that draws on a budget. It goes to the executor's thread.
pub struct BudgetShare {
    budget: Arc<Budget>,
    number: usize,
}

impl BudgetShare {
    /// The shares of so many executors in `bytes` bytes, which each of them may have as long as the others don't.
    ///
    /// # Panics
    /// If there are more than [`MOST_OF_A_CREW`].
    pub fn of(bytes: usize, count: usize) -> Vec<Self> {
        assert!(count <= MOST_OF_A_CREW, "a budget of {count}");
        let places = (0..count).map(|_| BudgetPlace::default()).collect();
        let (left, wanting) = (AtomicUsize::new(bytes), AtomicU64::new(0));
        let budget = Arc::new(Budget { bytes, left, wanting, places });
        (0..count).map(|number| Self { budget: Arc::clone(&budget), number }).collect()
    }

    /// Bytes of the budget.
    pub fn bytes(&self) -> usize {
        self.budget.bytes
    }

    /// The share is used by a pool of the executor that `call` reaches.
    pub(crate) fn used(self, call: CallExecutor) -> BudgetSide {
        // Nobody else sets it: there is one share of this number.
        let _ = self.budget.places[self.number].call.set(call);
        let Self { budget, number } = self;
        let (drawn, waits, watchers) = Default::default();
        BudgetSide { budget, number, drawn, waits, watchers }
    }
}

impl Budget {
    fn call(self: &Arc<Self>, to: usize, kind: CallKind) {
        if let Some(call) = self.places[to].call.get() {
            call(Call { of: Arc::downgrade(self), kind });
        }
    }

    /// Has an executor look again.
    fn tell(self: &Arc<Self>, to: usize) {
        if !self.places[to].told.swap(true, Ordering::AcqRel) {
            self.call(to, CallKind::LookAgain);
        }
    }
}

/// A pool's side of its budget.
pub(crate) struct BudgetSide {
    budget: Arc<Budget>,
    number: usize,
    /// Bytes of the pool's arenas.
    drawn: Cell<usize>,
    /// Tasks that wait for memory that others have.
    waits: Cell<usize>,
    /// Tasks that look again when others have given something back.
    watchers: RefCell<Vec<TaskId>>,
}

impl BudgetSide {
    /// Bytes that nobody has drawn.
    pub(crate) fn left(&self) -> usize {
        self.budget.left.load(Ordering::Relaxed)
    }

    /// Bytes that a pool of `capacity` could hand out, of which it would have `free` if it were alone.
    pub(crate) fn available(&self, free: usize, capacity: usize) -> usize {
        let undrawn = capacity - self.drawn.get();
        free - undrawn + self.left().min(undrawn)
    }

    /// Draws bytes, if there are so many.
    pub(crate) fn draw(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let drawn = self.budget.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if drawn {
            self.drawn.set(self.drawn.get() + bytes);
        }
        drawn
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.budget.left.fetch_add(bytes, Ordering::Relaxed);
        self.drawn.set(self.drawn.get() - bytes);
    }

    fn others_wanting(&self) -> u64 {
        self.budget.wanting.load(Ordering::Relaxed) & !(1 << self.number)
    }

    /// Whether somebody waits on another executor for what this one may have.
    pub(crate) fn is_wanted(&self) -> bool {
        self.others_wanting() != 0
    }

    /// Has those look again of whom somebody waits.
    pub(crate) fn tell_others(&self) {
        let mut others = self.others_wanting();
        while others != 0 {
            self.budget.tell(others.trailing_zeros() as usize);
            others &= others - 1;
        }
    }

    /// One task more waits for memory that others have.
    pub(crate) fn wait_begins(&self) {
        if self.waits.replace(self.waits.get() + 1) > 0 {
            return;
        }
        self.budget.wanting.fetch_or(1 << self.number, Ordering::Relaxed);
        let others = (0..self.budget.places.len()).filter(|&other| other != self.number);
        others.for_each(|other| self.budget.call(other, CallKind::Spare(self.number)));
    }

    /// One task waits no longer.
    pub(crate) fn wait_ends(&self) {
        self.waits.set(self.waits.get() - 1);
        if self.waits.get() == 0 {
            self.budget.wanting.fetch_and(!(1 << self.number), Ordering::Relaxed);
        }
    }

    /// A task is to be woken when others have given something back, once.
    pub(crate) fn watch(&self, task: TaskId) {
        let mut watchers = self.watchers.borrow_mut();
        if !watchers.contains(&task) {
            watchers.push(task);
        }
    }

    /// Answers a call, if it is of this budget: `spare` gives back what is not used.
    pub(crate) fn called(&self, call: &Call, scheduler: &Scheduler, spare: impl FnOnce()) {
        if call.of.as_ptr() != Arc::as_ptr(&self.budget) {
            return;
        }
        match call.kind {
            CallKind::Spare(by) => {
                spare();
                self.budget.tell(by);
            }
            CallKind::LookAgain => {
                self.budget.places[self.number].told.swap(false, Ordering::AcqRel);
                self.watchers.borrow_mut().drain(..).for_each(|task| scheduler.wake(task));
            }
        }
    }
}

impl Drop for BudgetSide {
    fn drop(&mut self) {
        self.give_back(self.drawn.get());
        self.budget.wanting.fetch_and(!(1 << self.number), Ordering::Relaxed);
        self.tell_others();
    }
}
