//! The buffers of requests: a share for each connection, a reserve for small requests.
//!
//! **Share.** A connection may hold as much as it leaves free. So one that is alone has half of the memory, two have a
//! third each, and however many hold what they hold without end, something is left for the next. Only where no client
//! holds any may a request have more than half of it. Memory that a member may still fill after its requests have ended counts as
//! held by nobody: a client that is alone does not wait for a member that hangs, as long as there is room beside that.
//!
//! **Reserve.** A few blocks for each connection, that no other can hold. A request that fits in one never waits for
//! anybody but its own client.
//!
//! **Order.** Who waits for memory that others hold goes before who comes later, so that large requests are not starved
//! by small ones. But nobody waits behind a request whose memory is held by clients that don't move: those are waited
//! for by [`super::patrol`], which closes them in time.
//!
//! All of this holds over all reactors that have the memory together ([`super::common`]). What another reactor has drawn in arenas and does not use is asked
//! for by who waits; what is in use there comes back with the requests that have it, since later ones wait.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::sync::{Either, Notify, race};
use brindle_io::{ARENA, Io, PAGE, Pool, Slice, WaitForOthers};

use super::account::{Account, End};
use super::common::{CommonMemory, MemoryShare};
use super::config::{Config, VISITS};

/// Bytes of a block of the reserve, and so of the largest request that has one.
pub(super) const SMALL: usize = 32 * 1024;
/// Blocks of the reserve for each connection.
const BLOCKS: usize = 4;

/// The memory of a server's requests.
pub struct Memory {
    /// Requests that a connection may have under way.
    requests: usize,
    pool: Pool,
    /// Only whole blocks are taken from it, so that it never is in pieces.
    reserve: Pool,
    /// Requests that wait for memory, in the order in which they came.
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    /// Bytes of the pool that requests of clients hold, those of all that don't move, and the order over all reactors.
    common: CommonMemory,
    /// Other reactors know that somebody waits here.
    others: RefCell<Option<WaitForOthers>>,
    /// Bytes of the pool that are held by clients here that have not moved for a round of the patrol.
    stuck: Cell<usize>,
    changed: Notify,
}

struct Waiting {
    account: Rc<Account>,
    bytes: usize,
}

impl Memory {
    /// Memory of its own, or a part of what several reactors have.
    pub(super) fn new(io: &Io, config: &Config, share: Option<MemoryShare>) -> Self {
        let alone = || (io.pool(config.memory), CommonMemory::alone());
        let (pool, common) = share.map_or_else(alone, |share| share.used(io));
        Self {
            requests: config.requests,
            pool,
            reserve: io.pool((config.connections + VISITS) * BLOCKS * SMALL),
            waiting: RefCell::default(),
            common,
            others: RefCell::default(),
            stuck: Cell::new(0),
            changed: Notify::new(io),
        }
    }

    /// Bytes that requests hold, or the kernel still does for requests that have ended.
    pub(super) fn in_use(&self) -> usize {
        self.pool.used_bytes() + self.reserve.used_bytes()
    }

    /// Waits until a request of a client may begin that needs `len` bytes of memory; 0 for none.
    ///
    /// # Errors
    /// The end of the client, if that comes first.
    pub async fn admit(self: &Rc<Self>, account: &Rc<Account>, len: usize) -> Result<Ticket, End> {
        account.has_fewer(self.requests).await?;
        self.take(account, len).await
    }

    /// Admits a request if that needs no waiting.
    pub(crate) fn try_admit(self: &Rc<Self>, account: &Rc<Account>, len: usize) -> Option<Ticket> {
        if account.outstanding.get() >= self.requests {
            return None;
        }
        self.try_take(account, len, u64::MAX)
    }

    /// Waits for memory for a request of `len` bytes, and takes it.
    async fn take(self: &Rc<Self>, account: &Rc<Account>, len: usize) -> Result<Ticket, End> {
        if let Some(ticket) = self.try_take(account, len, u64::MAX) {
            return Ok(ticket);
        }
        let _hurry = account.io.hurrying();
        let place = WaitingPlace::join(self, account, charge(len));
        let taking = self.changed.until(|| {
            let ticket = self.try_take(account, len, place.number);
            if ticket.is_none() {
                self.waits_on();
            }
            ticket
        });
        match race(taking, account.interruption()).await {
            Either::First(ticket) => Ok(ticket),
            Either::Second(end) => Err(end),
        }
    }

    fn try_take(self: &Rc<Self>, account: &Rc<Account>, len: usize, place: u64) -> Option<Ticket> {
        let (memory, held, reserved) = if len == 0 {
            (None, 0, 0)
        } else if let Some(memory) = self.common(account, len, place) {
            (Some(memory), charge(len), 0)
        } else if len <= SMALL && account.reserved.get() < BLOCKS {
            (Some(self.reserve.try_alloc(SMALL)?.slice(0..len)), 0, 1)
        } else {
            return None;
        };
        account.outstanding.set(account.outstanding.get() + 1);
        account.held.set(account.held.get() + held);
        self.common.holds(held);
        account.reserved.set(account.reserved.get() + reserved);
        Some(Ticket { account: Rc::clone(account), of: Rc::clone(self), memory, held, reserved })
    }

    fn common(&self, account: &Account, len: usize, place: u64) -> Option<Slice> {
        let fits = self.pool.free_bytes() >= leaves(account, charge(len)) || self.common.nobody_holds_any();
        if !fits || self.somebody_is_before(place) {
            return None;
        }
        Some(self.pool.try_alloc(len)?.all())
    }

    /// Somebody who came before `place` waits for memory of others, and will get it if they only go on.
    fn somebody_is_before(&self, place: u64) -> bool {
        let waiting = self.waiting.borrow();
        let here = !waiting.is_empty() && self.first(&waiting).is_some_and(|first| first < place);
        here || self.common.another_is_before(place)
    }

    /// The first here that waits for memory of others, and will get it if they only go on.
    fn first(&self, waiting: &BTreeMap<u64, Waiting>) -> Option<u64> {
        let stuck = self.common.stuck();
        let moving = self.pool.capacity().saturating_sub(stuck);
        let comes = |waiting: &Waiting| {
            waiting.waits_for_others() && (stuck == 0 || leaves(&waiting.account, waiting.bytes) <= moving)
        };
        waiting.iter().find(|(_, waiting)| comes(waiting)).map(|(&number, _)| number)
    }

    /// A client that moves waits for memory that others hold, of whichever reactor.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.waiting.borrow()) || self.common.is_wanted_elsewhere()
    }

    /// Lets waiting requests look again.
    pub(super) fn look_again(&self) {
        self.changed.notify();
    }

    /// A look of a request that waits was in vain: others may be able to do something about it.
    fn waits_on(&self) {
        self.pool.watch_others();
        self.publish();
    }

    /// Tells other reactors who waits here, and has them look again if somebody they may have waited for does not any more.
    fn publish(&self) {
        if self.common.is_alone() {
            return;
        }
        let waiting = self.waiting.borrow();
        let waits = waiting.values().any(Waiting::waits_for_others);
        let mut others = self.others.borrow_mut();
        if waits != others.is_some() {
            self.common.waits(waits);
        }
        if self.common.publish(self.first(&waiting), is_wanted(&waiting)) {
            self.pool.tell_others();
        }
        match (waits, &*others) {
            (true, None) => *others = self.pool.wait_for_others(),
            (false, Some(_)) => *others = None,
            _ => {}
        }
    }

    /// A request has given something back, and somebody may wait for it.
    #[inline]
    fn given_back(&self) {
        if !self.waiting.borrow().is_empty() || self.common.others_wait() {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        if !self.waiting.borrow().is_empty() {
            self.look_again();
            self.publish();
        }
        // All else that is free comes to others with its arena.
        if self.common.holds_nothing() {
            self.pool.tell_others();
        }
    }

    /// A round of a patrol is over, and clients that don't move hold so many bytes more or less, in so many requests.
    pub(super) fn patrolled(&self, before: usize, now: usize) {
        self.stuck.set(self.stuck.get() - before + now);
        let here = self.stuck.get();
        let kept = if self.common.is_alone() { here } else { here.min(self.pool.arena_bytes()) };
        self.common.are_stuck(kept);
        self.publish();
        self.pool.tell_others();
    }

    /// Bytes that a client which does not move keeps from others.
    pub(super) fn kept_by(&self, account: &Account) -> usize {
        let held = account.held.get();
        if held == 0 || self.common.is_alone() {
            return held;
        }
        // The rest of an arena is of use here, and to no other reactor.
        held + account.outstanding.get() * ARENA
    }
}

/// A client that moves is among those that wait for memory of others.
fn is_wanted(waiting: &BTreeMap<u64, Waiting>) -> bool {
    waiting.values().any(|waiting| waiting.waits_for_others() && !waiting.account.is_stuck())
}

impl Waiting {
    /// Whether others hold the memory that the connection waits for, and it has none of its own to give back.
    fn waits_for_others(&self) -> bool {
        self.account.held.get() == 0
    }
}

/// The bytes of the pool that a request of `len` bytes takes.
fn charge(len: usize) -> usize {
    len.next_power_of_two().max(PAGE)
}

/// Bytes that must be free for a connection to take `bytes` and leave as much as it then holds.
fn leaves(account: &Account, bytes: usize) -> usize {
    account.held.get() + 2 * bytes
}

/// A place among those who wait for memory.
struct WaitingPlace<'a> {
    memory: &'a Memory,
    number: u64,
}

impl<'a> WaitingPlace<'a> {
    fn join(memory: &'a Memory, account: &Rc<Account>, bytes: usize) -> Self {
        let number = memory.common.next();
        memory.waiting.borrow_mut().insert(number, Waiting { account: Rc::clone(account), bytes });
        Self { memory, number }
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.memory.waiting.borrow_mut().remove(&self.number);
        self.memory.look_again();
        self.memory.publish();
    }
}

/// A request's place in its connection's account, with its memory. Both are given back when it is dropped: when the
/// reply has been sent, or will not be.
pub struct Ticket {
    account: Rc<Account>,
    of: Rc<Memory>,
    memory: Option<Slice>,
    held: usize,
    reserved: usize,
}

impl Ticket {
    /// The memory that was asked for.
    ///
    /// # Panics
    /// If none was.
    pub fn memory(&self) -> &Slice {
        self.memory.as_ref().expect("the request was admitted with memory")
    }

    /// Takes other memory of the same size, for a device may still write to what there is.
    ///
    /// # Errors
    /// If the connection ends while it waits for that.
    pub async fn renew(&mut self) -> Result<(), End> {
        let len = self.memory().len();
        self.give_back();
        // The request has been admitted: it is not counted again.
        *self = self.of.take(&self.account, len).await?;
        Ok(())
    }

    fn give_back(&mut self) {
        let account = &self.account;
        self.memory = None;
        let held = core::mem::take(&mut self.held);
        account.held.set(account.held.get() - held);
        self.of.common.holds_less(held);
        account.reserved.set(account.reserved.get() - core::mem::take(&mut self.reserved));
    }
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        self.give_back();
        let account = &self.account;
        account.outstanding.set(account.outstanding.get() - 1);
        account.given_back();
        self.of.given_back();
    }
}
