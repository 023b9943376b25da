//! A lock on ranges of bytes or rows, first come first served.

use core::cell::{Cell, OnceCell, RefCell};
use core::future::poll_fn;
use core::ops::Range;
use core::pin::Pin;
use core::task::Poll;
use std::rc::Rc;

use brindle_io::ranges::{RangeKey, Ranges};
use brindle_io::{Io, TaskId};
use smallvec::SmallVec;

/// Whether others may hold an overlapping range at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Other shared locks may overlap.
    Shared,
    /// Alone.
    Exclusive,
}

/// A task that holds a range or waits for it.
#[derive(Clone, Copy)]
struct LockEntry {
    hold: Hold,
    task: TaskId,
    /// The last of those that came before and conflict with this one; `None`: the range is held.
    waits_for: Option<RangeKey>,
    /// The first of a list of those behind this one, and the next in the list that this one is in.
    followers: Option<RangeKey>,
    next: Option<RangeKey>,
    /// The task waits for something else than its turn, and goes on as soon as another stands behind it.
    lingers: bool,
    /// The range is held against other reactors, too.
    beside: bool,
}

impl LockEntry {
    fn new(hold: Hold, task: TaskId) -> Self {
        Self { hold, task, waits_for: None, followers: None, next: None, lingers: false, beside: false }
    }
}

/// Held and waiting ranges in the order of their arrival. No range overtakes one that conflicts with it.
///
/// Each waits behind one that came before, and looks for another when that one goes: neither coming nor going costs more
/// the more there are.
#[derive(Default)]
struct Queue {
    entries: Ranges<LockEntry>,
    /// Entries whose tasks linger.
    lingering: usize,
}

impl Queue {
    /// Enters a range into the queue.
    #[inline]
    fn enter(
        &mut self,
        range: Range<u64>,
        entry: LockEntry,
        alone: bool,
        wake: impl FnMut(TaskId),
    ) -> RangeKey {
        let key = self.entries.insert(range, entry);
        if !alone {
            self.hurry_before(key, wake);
            self.line_up(key);
        }
        key
    }

    /// Wakes the tasks before an entry that linger. None of them lingers again: a task begins that before others line up behind it.
    #[cold]
    fn hurry_before(&mut self, key: RangeKey, mut wake: impl FnMut(TaskId)) {
        while self.lingering > 0 {
            let Some(before) = self.entries.last_before(key, |other| other.lingers) else { break };
            wake(self.entries.get(before).task);
            self.linger(before, false);
        }
    }

    fn linger(&mut self, key: RangeKey, lingers: bool) {
        let before = core::mem::replace(&mut self.entries.get_mut(key).lingers, lingers);
        self.lingering = self.lingering + usize::from(lingers) - usize::from(before);
    }

    /// Finds the entry to wait for; returns whether there is none.
    #[cold]
    fn line_up(&mut self, key: RangeKey) -> bool {
        let hold = self.entries.get(key).hold;
        let conflicts = |other: &LockEntry| hold == Hold::Exclusive || other.hold == Hold::Exclusive;
        let waits_for = self.entries.last_before(key, conflicts);
        let next = waits_for.and_then(|waits_for| self.entries.get_mut(waits_for).followers.replace(key));
        let entry = self.entries.get_mut(key);
        (entry.waits_for, entry.next) = (waits_for, next);
        waits_for.is_none()
    }

    fn is_granted(&self, key: RangeKey) -> bool {
        self.entries.get(key).waits_for.is_none()
    }

    /// Takes the entry out and wakes those whom only it held up, in the order of their coming.
    #[inline]
    fn leave(&mut self, key: RangeKey, wake: impl FnMut(TaskId)) {
        let left = self.entries.remove(key);
        self.lingering -= usize::from(left.lingers);
        if let Some(waits_for) = left.waits_for {
            self.fall_out(key, waits_for, left.next);
        }
        if left.followers.is_some() {
            self.follow(left.followers, wake);
        }
    }

    /// Takes one who waits no longer off the list of those behind `waits_for`.
    #[cold]
    fn fall_out(&mut self, key: RangeKey, waits_for: RangeKey, next: Option<RangeKey>) {
        let mut place = &mut self.entries.get_mut(waits_for).followers;
        if *place == Some(key) {
            *place = next;
            return;
        }
        while let Some(at) = *place {
            place = &mut self.entries.get_mut(at).next;
            if *place == Some(key) {
                *place = next;
                return;
            }
        }
    }

    fn follow(&mut self, mut follower: Option<RangeKey>, mut wake: impl FnMut(TaskId)) {
        let mut followers: SmallVec<[RangeKey; 8]> = SmallVec::new();
        while let Some(key) = follower {
            followers.push(key);
            follower = self.entries.get(key).next;
        }
        followers.sort_unstable_by_key(|&key| self.entries.order(key));
        for key in followers {
            if self.line_up(key) {
                wake(self.entries.get(key).task);
            }
        }
    }
}

/// Other reactors that hold ranges of the same lock, as the one that waits for them sees them.
pub trait Beside {
    /// Holds a range against them; false, and nothing changes, if that has to be waited for.
    fn hold_at_once(&self, range: &Range<u64>) -> bool;

    /// Waits until none of them holds any of the range, and holds it against them.
    fn hold(&self, range: Range<u64>) -> Pin<Box<dyn Future<Output = ()> + '_>>;

    /// Holds the range no longer.
    fn let_go(&self, range: &Range<u64>);
}

/// Ranges that tasks hold and wait for.
pub struct RangeLock {
    io: Io,
    queue: RefCell<Queue>,
    sharing: OnceCell<Box<Sharing>>,
}

/// Others hold ranges of the lock, too.
struct Sharing {
    beside: Rc<dyn Beside>,
    /// No range is held that they do not know of.
    is_complete: Cell<bool>,
}

/// A range that is held, or waited for; dropping it lets those behind go on.
#[must_use]
pub struct RangeGuard<'a> {
    lock: &'a RangeLock,
    key: RangeKey,
}

impl RangeLock {
    /// A lock without ranges.
    pub fn new(io: &Io) -> Self {
        Self { io: io.clone(), queue: RefCell::default(), sharing: OnceCell::new() }
    }

    /// Others will hold ranges of it, too: every range that is granted from now on is held against them. Returns once no range is held any
    /// more that was granted before; at once, if they do already.
    pub async fn share(&self, beside: Rc<dyn Beside>) {
        let sharing = Box::new(Sharing { beside, is_complete: Cell::new(false) });
        if self.sharing.set(sharing).is_ok() {
            let all = self.enter(0..u64::MAX, Hold::Exclusive);
            poll_fn(|_| if all.is_first() { Poll::Ready(()) } else { Poll::Pending }).await;
            self.sharing.get().into_iter().for_each(|sharing| sharing.is_complete.set(true));
        }
    }

    /// Whether every range that is held is held against others, too.
    pub fn is_shared(&self) -> bool {
        self.sharing.get().is_some_and(|sharing| sharing.is_complete.get())
    }

    /// Takes a place in the queue; [`RangeGuard::granted`] waits for the turn.
    pub fn enter(&self, range: Range<u64>, hold: Hold) -> RangeGuard<'_> {
        let last = self.last_over(&range);
        self.enter_after(range, hold, last)
    }

    /// As [`RangeLock::enter`], for who has just asked for the last over the range.
    pub fn enter_after(&self, range: Range<u64>, hold: Hold, last: Option<RangeKey>) -> RangeGuard<'_> {
        let entry = LockEntry::new(hold, self.io.current_task());
        let wake = |task| self.io.wake(task);
        let key = self.queue.borrow_mut().enter(range, entry, last.is_none(), wake);
        RangeGuard { lock: self, key }
    }

    /// Waits for the range.
    pub async fn acquire(&self, range: Range<u64>, hold: Hold) -> RangeGuard<'_> {
        let held = self.enter(range, hold);
        if !held.is_alone() {
            held.granted().await;
        }
        held
    }

    /// The key of the last to come of those whose range overlaps this one: theirs until they have gone.
    pub fn last_over(&self, range: &Range<u64>) -> Option<RangeKey> {
        self.queue.borrow().entries.last_over(range)
    }
}

impl RangeGuard<'_> {
    /// The key of the entry.
    pub fn key(&self) -> RangeKey {
        self.key
    }

    /// This task waits for something else than its turn until another lines up behind it, by which it is woken.
    pub fn linger(&self) {
        let mut queue = self.lock.queue.borrow_mut();
        let entry = queue.entries.get_mut(self.key);
        entry.task = self.lock.io.current_task();
        let alone = entry.followers.is_none();
        queue.linger(self.key, alone);
    }

    /// Whether the task [lingers](RangeGuard::linger), and none has lined up behind it.
    pub fn lingers(&self) -> bool {
        self.lock.queue.borrow().entries.get(self.key).lingers
    }

    /// Waits until the range is this task's.
    #[inline]
    pub fn granted(&self) -> impl Future<Output = ()> + '_ {
        // Nearly always none: apart, so that it takes little room in the futures of requests.
        let mut waits: Option<Pin<Box<dyn Future<Output = ()> + '_>>> = None;
        poll_fn(move |context| {
            if let Some(waits) = &mut waits {
                return waits.as_mut().poll(context);
            }
            if !self.is_first() {
                return Poll::Pending;
            }
            match self.lock.sharing.get() {
                Some(sharing) if !self.hold_beside_at_once(&*sharing.beside) => {
                    waits.insert(Box::pin(self.hold_beside(&*sharing.beside))).as_mut().poll(context)
                }
                _ => Poll::Ready(()),
            }
        })
    }

    /// Whether the range is this task's, and there are no other reactors.
    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.lock.sharing.get().is_none() && self.lock.queue.borrow().is_granted(self.key)
    }

    /// Whether the range is this task's among those of its reactor; else the task is woken when it is.
    #[inline]
    fn is_first(&self) -> bool {
        let mut queue = self.lock.queue.borrow_mut();
        let is_granted = queue.is_granted(self.key);
        if !is_granted {
            queue.entries.get_mut(self.key).task = self.lock.io.current_task();
        }
        is_granted
    }

    /// Holds the range against other reactors, unless it is; false if that has to be waited for.
    #[inline(never)]
    fn hold_beside_at_once(&self, beside: &dyn Beside) -> bool {
        let entries = &mut self.lock.queue.borrow_mut().entries;
        let is_held = entries.get(self.key).beside || beside.hold_at_once(&entries.range(self.key));
        entries.get_mut(self.key).beside = is_held;
        is_held
    }

    #[cold]
    async fn hold_beside(&self, beside: &dyn Beside) {
        let range = self.lock.queue.borrow().entries.range(self.key);
        beside.hold(range).await;
        self.lock.queue.borrow_mut().entries.get_mut(self.key).beside = true;
    }

    /// Holds the range no longer against other reactors.
    #[inline(never)]
    fn let_go_beside(&self, beside: &dyn Beside) {
        let entries = &self.lock.queue.borrow().entries;
        if entries.get(self.key).beside {
            beside.let_go(&entries.range(self.key));
        }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let io = &self.lock.io;
        if let Some(sharing) = self.lock.sharing.get() {
            self.let_go_beside(&*sharing.beside);
        }
        self.lock.queue.borrow_mut().leave(self.key, |task| io.wake(task));
    }
}

#[cfg(test)]
mod tests;
