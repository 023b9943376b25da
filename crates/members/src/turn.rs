//! The turn to record a change of state: one task has it at a time.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Io, Task};

/// Turns of those that change the record: first come, first served. Else a task that asks again as soon as its turn has ended would
/// leave none to others.
pub struct Turns {
    busy: Cell<bool>,
    /// Those that wait, by numbers, in the order of their coming.
    waiting: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
    freed: Notify,
}

/// A guard: the turn ends when it is dropped.
#[must_use]
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.freed.notify();
    }
}

/// A task that waits for its turn, or waits no more.
struct Waiting<'a>(&'a Turns, u64);

impl Waiting<'_> {
    fn is_first(&self) -> bool {
        self.0.waiting.borrow().front() == Some(&self.1)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.borrow_mut().retain(|number| *number != self.1);
        if !self.0.busy.get() {
            self.0.freed.notify();
        }
    }
}

impl Turns {
    /// A turn that is free.
    pub fn new(io: &Io) -> Self {
        let (busy, waiting, next) = (Cell::new(false), RefCell::default(), Cell::new(0));
        Self { busy, waiting, next, freed: Notify::new(io) }
    }

    /// Waits for the turn.
    pub async fn turn(&self) -> Turn<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        self.waiting.borrow_mut().push_back(number);
        let waiting = Waiting(self, number);
        let look = || (waiting.is_first() && !self.busy.get()).then(|| self.busy.set(true));
        self.freed.until(look).await;
        Turn(self)
    }

    /// Whether a task has it.
    pub fn is_taken(&self) -> bool {
        self.busy.get()
    }
}

/// Does something with an owner's turn, in a task of its own: once begun it comes to its end, even if its waiter is
/// dropped. Until then devices own the record's buffers, and a later change must not overtake it.
pub fn in_turn<O: 'static, T: 'static>(
    io: &Io,
    owner: Rc<O>,
    turns: impl Fn(&O) -> &Turns + 'static,
    work: impl AsyncFnOnce(&O) -> T + 'static,
) -> Task<T> {
    io.spawn(async move {
        let _turn = turns(&owner).turn().await;
        work(&owner).await
    })
}

#[cfg(test)]
mod tests {
    use brindle_io::memory::Memory;

    use super::*;

    #[test]
    fn a_task_that_asks_again_at_once_leaves_turns_to_others() {
        let io = Io::new(Box::new(Memory::new()));
        let (turns, order) = (Rc::new(Turns::new(&io)), Rc::new(RefCell::new(Vec::new())));
        io.block_on(async {
            let greedy = {
                let (turns, order, io) = (Rc::clone(&turns), Rc::clone(&order), io.clone());
                io.clone().spawn(async move {
                    for _ in 0..4 {
                        let _turn = turns.turn().await;
                        order.borrow_mut().push('a');
                        io.yield_now().await;
                        io.yield_now().await;
                    }
                })
            };
            let other = {
                let (turns, order) = (Rc::clone(&turns), Rc::clone(&order));
                io.spawn(async move {
                    let _turn = turns.turn().await;
                    order.borrow_mut().push('b');
                })
            };
            greedy.await;
            other.await;
        });
        assert_eq!(order.borrow().iter().collect::<String>(), "abaaa");
        assert!(!turns.is_taken());
    }

    #[test]
    fn whoever_waits_no_longer_keeps_nobody_from_a_turn() {
        let io = Io::new(Box::new(Memory::new()));
        let turns = Turns::new(&io);
        io.block_on(async {
            let first = turns.turn().await;
            let mut given_up = Box::pin(turns.turn());
            let polled =
                core::future::poll_fn(|cx| core::task::Poll::Ready(given_up.as_mut().poll(cx).is_pending()));
            assert!(polled.await);
            drop(given_up);
            drop(first);
            let _second = turns.turn().await;
        });
    }
}
