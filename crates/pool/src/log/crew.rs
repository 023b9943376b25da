//! Tasks that carry out work of the log, and are kept for what comes next: a write begins no task of its own.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;
use std::collections::VecDeque;
use std::rc::Rc;

use brindle_format::pool::BLOCK;
use brindle_io::{Io, Slice, TaskId};
use smallvec::SmallVec;

use crate::log::queue::{Item, Lane, Ticket};
use crate::log::state::InFlight;
use crate::store::space::Grant;

/// Tasks, and tickets, that are kept while nothing is to be done.
const KEPT: usize = 64;

/// A change of some bytes.
pub(crate) enum Change {
    Write(SmallVec<[Slice; 2]>),
    Zeroes,
}

/// A change that a client has asked for. Its ticket counts it as an item.
pub(crate) struct Order {
    pub(crate) volume: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) change: Change,
    pub(crate) fua: bool,
    pub(crate) ticket: Rc<Ticket>,
}

impl Order {
    /// The first block, and the end.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        (self.offset / BLOCK as u64, (self.offset + self.len).div_ceil(BLOCK as u64))
    }
}

/// A batch to be written.
pub(crate) struct Load {
    pub(crate) flight: InFlight,
    pub(crate) items: Vec<Item>,
    pub(crate) grant: Grant,
    pub(crate) fua: bool,
}

/// Work of a task. Nothing of it keeps the pool, which has it.
pub(crate) enum Work {
    /// A change of a client, which comes to its end even if the client leaves.
    Change(Order),
    /// Items that wait in a lane go into batches.
    Pump(Lane),
    /// A batch is written.
    Batch(Load),
}

/// Work that no task has taken, and tasks that have none.
#[derive(Default)]
pub(crate) struct Waiting {
    work: RefCell<VecDeque<Work>>,
    idle: RefCell<Vec<TaskId>>,
    over: Cell<bool>,
}

impl Waiting {
    /// The next work of a task; nothing if there is none any more, or enough others wait for it.
    pub(crate) async fn next(&self, io: &Io) -> Option<Work> {
        let task = io.current_task();
        let work = poll_fn(|_| {
            let work = self.work.borrow_mut().pop_front();
            if work.is_some() || self.over.get() {
                return Poll::Ready(work);
            }
            let mut idle = self.idle.borrow_mut();
            if !idle.contains(&task) {
                if idle.len() >= KEPT {
                    return Poll::Ready(None);
                }
                idle.push(task);
            }
            Poll::Pending
        })
        .await;
        self.idle.borrow_mut().retain(|idle| *idle != task);
        work
    }
}

/// The tasks of a pool. They end with it.
pub(crate) struct Crew {
    io: Io,
    pub(crate) waiting: Rc<Waiting>,
    /// Tickets of changes that have ended.
    tickets: RefCell<Vec<Rc<Ticket>>>,
}

impl Crew {
    /// No tasks yet.
    pub(crate) fn new(io: &Io) -> Self {
        Self { io: io.clone(), waiting: Rc::default(), tickets: RefCell::default() }
    }

    /// Has work carried out by a task that has none; false if a new one has to be begun.
    pub(crate) fn takes(&self, work: Work) -> bool {
        self.waiting.work.borrow_mut().push_back(work);
        let idle = self.waiting.idle.borrow_mut().pop();
        idle.inspect(|&task| self.io.wake(task)).is_some()
    }

    /// A ticket for one item, or what counts as one.
    pub(crate) fn ticket(&self) -> Rc<Ticket> {
        let kept = self.tickets.borrow_mut().pop().filter(|ticket| Rc::strong_count(ticket) == 1);
        kept.inspect(|ticket| ticket.begins(1)).unwrap_or_else(|| Ticket::new(&self.io, 1))
    }

    /// A ticket has ended.
    pub(crate) fn keep(&self, ticket: Rc<Ticket>) {
        let mut tickets = self.tickets.borrow_mut();
        if tickets.len() < KEPT {
            tickets.push(ticket);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.waiting.over.set(true);
        self.waiting.idle.borrow_mut().drain(..).for_each(|task| self.io.wake(task));
    }
}

#[cfg(test)]
mod tests {
    use brindle_io::memory::Memory;

    use super::*;

    #[test]
    fn work_goes_to_a_task_that_has_none_and_tickets_are_used_again() {
        let io = Io::new(Box::new(Memory::new()));
        let crew = Crew::new(&io);
        let done = Rc::new(Cell::new(0));
        let begins = || {
            let (io, waiting, done) = (io.clone(), Rc::clone(&crew.waiting), Rc::clone(&done));
            drop(io.clone().spawn(async move {
                while waiting.next(&io).await.is_some() {
                    done.set(done.get() + 1);
                }
                done.set(100);
            }));
        };
        let carried = || io.block_on(io.yield_now());
        assert!(!crew.takes(Work::Pump(Lane::Users)), "there is no task");
        begins();
        carried();
        assert!(crew.takes(Work::Pump(Lane::Users)));
        carried();
        assert_eq!(done.get(), 2);
        let first = crew.ticket();
        crew.keep(Rc::clone(&first));
        assert!(!Rc::ptr_eq(&first, &crew.ticket()), "somebody has it");
        let address = Rc::as_ptr(&first);
        crew.keep(first);
        assert_eq!(Rc::as_ptr(&crew.ticket()), address);
        drop(crew);
        carried();
        assert_eq!(done.get(), 100, "tasks end with the pool");
    }
}
