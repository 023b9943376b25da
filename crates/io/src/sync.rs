//! Waiting for one another among the tasks of one executor, and for several futures at once.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;

use crate::exec::Io;
use crate::task::TaskId;

impl Io {
    /// Waits until something is sent to any member of this executor: of all owners, but for [probes](Io::probe). It costs the first
    /// operation a few instructions, and none after it.
    pub async fn operation_begins(&self) {
        let core = &self.0.core;
        let times = core.began.times();
        core::future::poll_fn(|_| {
            if core.began.times() != times {
                return Poll::Ready(());
            }
            core.began.wait(core.scheduler.current());
            core.special.set(true);
            Poll::Pending
        })
        .await;
    }
}

/// A condition that tasks wait for and look at again whenever it is notified.
pub struct Notify {
    io: Io,
    waiters: RefCell<Vec<TaskId>>,
}

impl Notify {
    /// An event of `io`'s tasks.
    pub fn new(io: &Io) -> Self {
        Self { io: io.clone(), waiters: RefCell::default() }
    }

    /// Every waiting task looks at its condition again.
    pub fn notify(&self) {
        for task in self.waiters.borrow_mut().drain(..) {
            self.io.wake(task);
        }
    }

    /// Waits until `look` gives something; it looks at once and after each notification.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        core::future::poll_fn(|_| match look() {
            Some(value) => Poll::Ready(value),
            None => {
                let task = self.io.current_task();
                let mut waiters = self.waiters.borrow_mut();
                if !waiters.contains(&task) {
                    waiters.push(task);
                }
                Poll::Pending
            }
        })
        .await
    }
}

/// A queue between tasks, first in first out.
pub struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    event: Notify,
}

impl<T> Queue<T> {
    /// An empty queue between `io`'s tasks.
    pub fn new(io: &Io) -> Self {
        Self { items: RefCell::default(), event: Notify::new(io) }
    }

    /// Appends.
    pub fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        self.event.notify();
    }

    /// Takes the oldest, or waits for one.
    pub async fn pop(&self) -> T {
        self.event.until(|| self.items.borrow_mut().pop_front()).await
    }

    /// Takes the oldest entry if there is one.
    pub fn try_pop(&self) -> Option<T> {
        self.items.borrow_mut().pop_front()
    }

    /// Items waiting.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Waits for all of several futures; the results are in their order. Allocates: not for the hot path.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    core::future::poll_fn(|cx: &mut Context<'_>| {
        let mut left = false;
        for (future, result) in running.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => left = true,
                }
            }
        }
        if left { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// The result of whichever of two futures is done first.
#[derive(Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first was.
    First(A),
    /// The second was.
    Second(B),
}

/// Waits for the first of two futures; the other is dropped. If both are done, the first counts.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let mut a = core::pin::pin!(a);
    let mut b = core::pin::pin!(b);
    core::future::poll_fn(|cx| {
        if let Poll::Ready(value) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::First(value));
        }
        b.as_mut().poll(cx).map(Either::Second)
    })
    .await
}
