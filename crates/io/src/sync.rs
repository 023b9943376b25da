//! Waiting for one another among the tasks of one executor, and for several futures at once.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;

use crate::exec::Io;
use crate::haste;
use crate::task::TaskId;
use crate::time::Instant;

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

    /// Waits until any other task runs. An executor of which nobody asks anything is not woken by it.
    pub async fn another_task_runs(&self) {
        let mut is_asked = false;
        core::future::poll_fn(|_| {
            if core::mem::replace(&mut is_asked, true) {
                return Poll::Ready(());
            }
            let scheduler = &self.0.core.scheduler;
            scheduler.wake_with_others(scheduler.current());
            Poll::Pending
        })
        .await;
    }
}

/// Somebody is in a hurry until this is dropped: no task lingers.
pub struct Hurry(Io);

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.0.core.haste.hurry_ends();
    }
}

/// A task that could go on, and lingers for others.
pub struct Lingering<'a> {
    io: &'a Io,
    entry: haste::LingeringEntry<'a>,
}

impl Io {
    /// Has all tasks that [linger](Io::lingers) go on at once.
    pub fn hurry(&self) {
        let core = &self.0.core;
        core.haste.hurry(&core.scheduler);
    }

    /// The same, and none lingers as long as this lives.
    #[must_use]
    pub fn hurrying(&self) -> Hurry {
        let core = &self.0.core;
        core.haste.hurry_begins(&core.scheduler);
        Hurry(self.clone())
    }

    /// This task lingers until the result is dropped.
    pub fn lingers(&self) -> Lingering<'_> {
        Lingering { io: self, entry: self.0.core.haste.join(self.current_task()) }
    }
}

impl Lingering<'_> {
    /// Somebody has been in a hurry since the task began to linger.
    pub fn is_hurried(&self) -> bool {
        self.entry.is_hurried()
    }

    /// Waits until `look` gives something: it looks at once, and whenever the task is [woken](Io::wake). `None` if the time `until`
    /// comes first, and at once if somebody is in a hurry.
    pub async fn until<T>(&self, until: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let mut time = core::pin::pin!(self.io.sleep_until(until));
        core::future::poll_fn(|context| {
            if self.is_hurried() {
                return Poll::Ready(None);
            }
            match look() {
                Some(found) => Poll::Ready(Some(found)),
                None => time.as_mut().poll(context).map(|()| None),
            }
        })
        .await
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

/// A number of permits for which tasks wait their turn, first come, first served.
pub struct Semaphore {
    io: Io,
    free: Cell<usize>,
    /// Tasks that wait, with their numbers in the order in which they came.
    waiting: RefCell<VecDeque<(u64, TaskId)>>,
    came: Cell<u64>,
}

/// One of the permits of a [`Semaphore`], which it gets back when this is dropped.
pub struct Permit<'a>(&'a Semaphore);

/// A place in the line. A permit that was given to a task that never looks at it goes on to the next.
struct InLine<'a> {
    of: &'a Semaphore,
    number: u64,
    taken: bool,
}

impl Semaphore {
    /// So many permits for `io`'s tasks.
    pub fn new(io: &Io, permits: usize) -> Self {
        Self { io: io.clone(), free: Cell::new(permits), waiting: RefCell::default(), came: Cell::default() }
    }

    /// Whether a permit is free, which none is while tasks wait.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.free.get() > 0
    }

    /// A permit if one is free, which none is while tasks wait.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.free.set(self.free.get().checked_sub(1)?);
        Some(Permit(self))
    }

    /// A permit, once it is this task's turn.
    #[inline]
    pub async fn acquire(&self) -> Permit<'_> {
        match self.try_acquire() {
            Some(permit) => permit,
            None => {
                self.wait().await;
                Permit(self)
            }
        }
    }

    async fn wait(&self) {
        let number = self.came.replace(self.came.get() + 1);
        self.waiting.borrow_mut().push_back((number, self.io.current_task()));
        let mut place = InLine { of: self, number, taken: false };
        core::future::poll_fn(|_| if self.is_given(number) { Poll::Ready(()) } else { Poll::Pending }).await;
        place.taken = true;
    }

    /// A task that is not in the line any more has a permit.
    fn is_given(&self, number: u64) -> bool {
        self.waiting.borrow().front().is_none_or(|(first, _)| *first > number)
    }

    #[inline]
    fn give_back(&self) {
        match self.waiting.borrow_mut().pop_front() {
            Some((_, task)) => self.io.wake(task),
            None => self.free.set(self.free.get() + 1),
        }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        if self.of.is_given(self.number) {
            self.of.give_back();
        } else {
            self.of.waiting.borrow_mut().retain(|(number, _)| *number != self.number);
        }
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
