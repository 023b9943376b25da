//! A lock on ranges of bytes or rows, first come first served.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::ops::Range;
use core::task::Poll;

use brindle_io::{Io, TaskId};

/// Whether others may hold an overlapping range at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Others that share may.
    Shared,
    /// Nobody may.
    Exclusive,
}

struct Entry {
    ticket: u64,
    range: Range<u64>,
    hold: Hold,
    granted: bool,
    task: TaskId,
}

impl Entry {
    fn conflicts(&self, other: &Entry) -> bool {
        self.range.start < other.range.end
            && other.range.start < self.range.end
            && (self.hold == Hold::Exclusive || other.hold == Hold::Exclusive)
    }
}

/// Held and waiting ranges in the order of their coming. Nobody overtakes a range that conflicts with his own.
///
/// A plain list: there are as many entries as requests in flight, and a walk over a few hundred of them costs less
/// than keeping a tree.
pub(crate) struct RangeLock {
    io: Io,
    entries: RefCell<Vec<Entry>>,
    next: Cell<u64>,
}

/// A range that is held, or waited for; dropping it lets those behind go on.
#[must_use]
pub(crate) struct Held<'a> {
    lock: &'a RangeLock,
    ticket: u64,
}

impl RangeLock {
    pub(crate) fn new(io: &Io) -> Self {
        Self { io: io.clone(), entries: RefCell::default(), next: Cell::new(0) }
    }

    /// Takes a place in the queue; [`Held::granted`] waits for the turn.
    pub(crate) fn enter(&self, range: Range<u64>, hold: Hold) -> Held<'_> {
        let ticket = self.next.get();
        self.next.set(ticket + 1);
        let mut entries = self.entries.borrow_mut();
        let mut entry = Entry { ticket, range, hold, granted: false, task: self.io.current_task() };
        entry.granted = !entries.iter().any(|earlier| earlier.conflicts(&entry));
        entries.push(entry);
        Held { lock: self, ticket }
    }

    /// Waits for the range.
    pub(crate) async fn acquire(&self, range: Range<u64>, hold: Hold) -> Held<'_> {
        let held = self.enter(range, hold);
        held.granted().await;
        held
    }

    /// The ticket of the last to come of those whose range overlaps this one.
    pub(crate) fn last_over(&self, range: &Range<u64>) -> Option<u64> {
        let entries = self.entries.borrow();
        let over = |entry: &&Entry| entry.range.start < range.end && range.start < entry.range.end;
        entries.iter().rev().find(over).map(|entry| entry.ticket)
    }

    /// Takes the entry out and grants those whom only it held up.
    fn leave(&self, ticket: u64) {
        let mut entries = self.entries.borrow_mut();
        let Some(at) = entries.iter().position(|entry| entry.ticket == ticket) else { return };
        let left = entries.remove(at);
        for at in at..entries.len() {
            let entry = &entries[at];
            if entry.granted || !entry.conflicts(&left) {
                continue;
            }
            if !entries[..at].iter().any(|earlier| earlier.conflicts(entry)) {
                self.io.wake(entry.task);
                entries[at].granted = true;
            }
        }
    }
}

impl Held<'_> {
    /// What names the entry.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits until the range is this task's.
    pub(crate) async fn granted(&self) {
        poll_fn(|_| {
            let mut entries = self.lock.entries.borrow_mut();
            match entries.iter_mut().find(|entry| entry.ticket == self.ticket) {
                Some(entry) if !entry.granted => {
                    entry.task = self.lock.io.current_task();
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lock.leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;
    use std::rc::Rc;

    fn world() -> (Io, Rc<RangeLock>, Rc<RefCell<Vec<u32>>>) {
        let io = Io::new(Box::new(Memory::new()));
        let lock = Rc::new(RangeLock::new(&io));
        (io, lock, Rc::default())
    }

    #[test]
    fn conflicting_ranges_go_in_turn_and_others_at_once() {
        let (io, lock, order) = world();
        io.block_on(async {
            let first = lock.acquire(0..10, Hold::Exclusive).await;
            let wants =
                [(1, 5..15, Hold::Exclusive), (2, 12..13, Hold::Shared), (3, 20..30, Hold::Exclusive)];
            for (name, range, hold) in wants {
                let (lock, order) = (Rc::clone(&lock), Rc::clone(&order));
                drop(io.spawn(async move {
                    let _held = lock.acquire(range, hold).await;
                    order.borrow_mut().push(name);
                }));
            }
            io.yield_now().await;
            assert_eq!(*order.borrow(), [3], "2 waits behind 1 though it is free: nobody overtakes");
            drop(first);
            while io.tasks_alive() > 0 {
                io.yield_now().await;
            }
        });
        assert_eq!(*order.borrow(), [3, 1, 2]);
    }

    #[test]
    fn sharers_hold_together_and_a_dropped_wait_frees_the_next() {
        let (io, lock, _) = world();
        io.block_on(async {
            let a = lock.acquire(0..10, Hold::Shared).await;
            let _b = lock.acquire(5..6, Hold::Shared).await;
            let writer = lock.enter(5..6, Hold::Exclusive);
            let c = lock.enter(5..6, Hold::Shared);
            assert_eq!(lock.last_over(&(5..6)), Some(c.ticket()));
            drop(a);
            drop(writer);
            c.granted().await;
        });
        assert!(lock.entries.borrow().is_empty());
    }
}
