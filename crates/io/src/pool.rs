//! Pools: bounded stores of buffers, for whom tasks wait in turn.

use core::fmt;
use std::rc::Rc;

use crate::arena::{Arenas, PAGE, Region};
use crate::blocks::MAX_BUF;
use crate::budget::BudgetSide;
use crate::buf::{Buf, order_of};
use crate::store::Store;
use crate::task::Scheduler;

/// A bounded store of buffers. Cloning gives another handle to the same store.
///
/// Tasks that wait for memory are served in the order in which they asked, so a large request is not starved by
/// small ones. To stay free of deadlock a task must not wait for memory of a pool while it holds some of that pool:
/// exports, and each array, have pools of their own.
#[derive(Clone)]
pub struct Pool(pub(crate) Rc<Store>);

impl Pool {
    pub(crate) fn new(
        memory: Region,
        budget: Option<BudgetSide>,
        scheduler: Rc<Scheduler>,
        arenas: Rc<Arenas>,
    ) -> Self {
        let mut store = Store::new(memory, scheduler, arenas);
        budget.into_iter().for_each(|side| store.draws_on(side));
        Self(Rc::new(store))
    }

    /// Bytes that the pool can hand out in all.
    pub fn capacity(&self) -> usize {
        self.0.bytes()
    }

    /// Bytes that could be handed out now; they may be in pieces. Of a budget: what is free in the pool's own arenas, and what nobody has
    /// drawn.
    pub fn free_bytes(&self) -> usize {
        self.0.free_bytes()
    }

    /// Bytes that are handed out.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// Bytes of the pool's arenas: what others can't have of a budget.
    pub fn arena_bytes(&self) -> usize {
        self.0.arena_bytes()
    }

    /// Somebody waits for memory of the budget that other executors have: they give back what they don't use, now and as long as the result
    /// lives. `None` of a pool without a budget.
    #[must_use]
    pub fn wait_for_others(&self) -> Option<WaitForOthers> {
        self.0.budget()?.wait_begins();
        Some(WaitForOthers(Rc::clone(&self.0)))
    }

    /// The current task is woken, once, when other executors have given something back for which somebody waits here, or say so.
    pub fn watch_others(&self) {
        self.0.budget().inspect(|side| side.watch(self.0.scheduler.current()));
    }

    /// Has the tasks of other executors look again on which somebody waits.
    pub fn tell_others(&self) {
        self.0.budget().inspect(|side| side.tell_others());
    }

    /// Some task waits for memory.
    pub fn is_wanted(&self) -> bool {
        !self.0.waiters.borrow().is_empty()
    }

    /// Bytes of buffers used by operations that were given up: they are not available before those end.
    pub fn pinned_bytes(&self) -> usize {
        self.0.pinned_bytes.get()
    }

    /// A buffer of at least `len` bytes (its [`Buf::len`] is exactly `len`), or `None` if there is none free or
    /// others wait. The content is what the last user left.
    #[inline]
    pub fn try_alloc(&self, len: usize) -> Option<Buf> {
        if self.0.waiters.borrow().is_empty() { Buf::take(&self.0, len) } else { None }
    }

    /// Like [`Pool::try_alloc`], but waits its turn.
    ///
    /// # Panics
    /// If `len` is more than the pool could ever give ([`MAX_BUF`], or its capacity): it would wait for ever.
    pub async fn alloc(&self, len: usize) -> Buf {
        if let Some(buf) = self.try_alloc(len) {
            return buf;
        }
        let order = order_of(len);
        assert!(
            len <= MAX_BUF && (PAGE << order) <= self.capacity(),
            "a buffer of {len} bytes can't come from a pool of {}",
            self.capacity()
        );
        let turn = Turn::join(self);
        core::future::poll_fn(|_| {
            if !turn.is_first() {
                return core::task::Poll::Pending;
            }
            match Buf::take(&self.0, len) {
                Some(buf) => core::task::Poll::Ready(buf),
                None => core::task::Poll::Pending,
            }
        })
        .await
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("capacity", &self.capacity()).field("free", &self.free_bytes()).finish()
    }
}

/// Somebody waits for memory of a budget that other executors have.
pub struct WaitForOthers(Rc<Store>);

impl Drop for WaitForOthers {
    fn drop(&mut self) {
        self.0.budget().inspect(|side| side.wait_ends());
    }
}

/// A place in the queue for memory; leaving it (or dropping the future) lets the next one try.
struct Turn<'a> {
    pool: &'a Pool,
    ticket: u64,
    _others: Option<WaitForOthers>,
}

impl<'a> Turn<'a> {
    fn join(pool: &'a Pool) -> Self {
        let ticket = pool.0.next_ticket.get();
        pool.0.next_ticket.set(ticket + 1);
        pool.0.waiters.borrow_mut().push_back((ticket, pool.0.scheduler.current()));
        pool.0.wakeful.set(true);
        Self { pool, ticket, _others: pool.wait_for_others() }
    }

    fn is_first(&self) -> bool {
        self.pool.0.waiters.borrow().front().is_some_and(|&(ticket, _)| ticket == self.ticket)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiters = self.pool.0.waiters.borrow_mut();
        waiters.retain(|&(ticket, _)| ticket != self.ticket);
        if let Some(&(_, task)) = waiters.front() {
            self.pool.0.scheduler.wake(task);
        }
    }
}
