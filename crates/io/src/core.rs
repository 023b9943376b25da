//! The common ground of tasks, groups and served members: the op table and the reactor, and the path of operations
//! between them.

use core::cell::{Cell, OnceCell, RefCell};
use core::ptr::NonNull;
use std::rc::{Rc, Weak};

use crate::arena::{Arenas, NEVER, Region, Registrar, SOON};
use crate::began::Began;
use crate::budget::{BudgetSide, Call};
use crate::crew::Crew;
use crate::haste::Haste;
use crate::lane::Parcel;
use crate::loans::{self, Loans, Question, Reply};
use crate::op::{Completion, MemberId, MemberKind, OpError, OpKey, OpKind, OpSpan, OpView, Owner};
use crate::patience::Patience;
use crate::pool::Pool;
use crate::queues::ServedQueues;
use crate::reactor::Reactor;
use crate::store::Store;
use crate::table::{After, GivenUp, Table};
use crate::task::Scheduler;
use crate::time::{Duration, Instant};

/// Members that work answer within it; the end of a server does not wait for the others.
const GRACE: Duration = Duration::from_millis(500);

/// The interval of checks for unused memory.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Core {
    pub(crate) scheduler: Rc<Scheduler>,
    pub(crate) table: RefCell<Table>,
    pub(crate) served: RefCell<ServedQueues>,
    pub(crate) reactor: Rc<RefCell<Box<dyn Reactor>>>,
    pub(crate) arenas: Rc<Arenas>,
    /// Stores of buffers, whose arenas may be freed before the stores are.
    stores: RefCell<Vec<Weak<Store>>>,
    pub(crate) patience: Patience,
    /// Operations on members that are forsaken, or that are no longer served.
    refused: RefCell<Vec<OpKey>>,
    done: RefCell<Vec<Completion>>,
    /// A member is forsaken, or somebody waits for an operation to begin: each is looked at before it is sent.
    pub(crate) special: Cell<bool>,
    pub(crate) began: Began,
    pub(crate) haste: Haste,
    /// Operations that the reactor has and that have not completed.
    at_reactor: Cell<usize>,
    /// Short transfers are not carried on.
    draining: Cell<bool>,
    /// Time that the end waits for operations that do not complete.
    pub(crate) grace: Cell<Duration>,
    /// The executors that this one asks, and that ask it, if there are some.
    crew: OnceCell<Box<CrewSide>>,
}

/// This executor's side of those that ask each other.
pub(crate) struct CrewSide {
    pub(crate) crew: Crew,
    pub(crate) loans: Loans,
}

/// The reactor as arenas know it. Such handles may outlive the executor.
struct OfReactor(Weak<RefCell<Box<dyn Reactor>>>);

impl Registrar for OfReactor {
    fn register(&self, arena: u32, memory: NonNull<[u8]>) {
        if let Some(reactor) = self.0.upgrade() {
            reactor.borrow_mut().register_arena(arena, memory);
        }
    }

    fn unregister(&self, arena: u32) {
        if let Some(reactor) = self.0.upgrade() {
            reactor.borrow_mut().unregister_arena(arena);
        }
    }

    fn shared(&self, memory: NonNull<[u8]>) {
        if let Some(reactor) = self.0.upgrade() {
            reactor.borrow_mut().share(memory);
        }
    }

    fn unshared(&self, memory: NonNull<[u8]>) {
        if let Some(reactor) = self.0.upgrade() {
            reactor.borrow_mut().unshare(memory);
        }
    }
}

impl Core {
    pub(crate) fn new(mut reactor: Box<dyn Reactor>) -> Self {
        reactor.attach();
        let now = reactor.now();
        let reactor = Rc::new(RefCell::new(reactor));
        Self {
            scheduler: Rc::default(),
            table: RefCell::default(),
            served: RefCell::default(),
            arenas: Rc::new(Arenas::new(Box::new(OfReactor(Rc::downgrade(&reactor))))),
            reactor,
            stores: RefCell::default(),
            patience: Patience::new(now),
            refused: RefCell::default(),
            special: Cell::new(false),
            began: Began::default(),
            haste: Haste::default(),
            done: RefCell::new(Vec::with_capacity(256)),
            at_reactor: Cell::new(0),
            draining: Cell::new(false),
            grace: Cell::new(GRACE),
            crew: OnceCell::new(),
        }
    }

    /// The executor asks others from now on, and is asked by them.
    ///
    /// # Panics
    /// If it does already.
    pub(crate) fn join(&self, crew: Crew) {
        let joined = self.crew.set(Box::new(CrewSide { crew, loans: Loans::new() }));
        assert!(joined.is_ok(), "an executor has one berth");
    }

    /// # Panics
    /// If the executor has not joined any.
    pub(crate) fn crew(&self) -> &CrewSide {
        self.joined().expect("only an executor with a berth asks and is asked")
    }

    pub(crate) fn joined(&self) -> Option<&CrewSide> {
        self.crew.get().map(|side| &**side)
    }

    /// Before the reactor's turn: tells others what there is to tell. The moment until which the reactor may wait then.
    #[cold]
    fn before_turn(&self, side: &CrewSide, until: Option<Instant>) -> Option<Instant> {
        side.loans.settle(&side.crew);
        side.crew.ring();
        // A moment that has passed does not wait.
        let waits = until != Some(Instant::default());
        if waits && !side.crew.may_sleep() { Some(Instant::default()) } else { until }
    }

    /// After the reactor's turn: takes what others have sent.
    #[cold]
    fn after_turn(&self, side: &CrewSide) {
        side.crew.awake();
        side.crew.take_all(|from, parcel| self.received(side, from, parcel));
        side.loans.settle(&side.crew);
    }

    /// Takes a parcel. Answers complete by a call: in line they would be one more place where completions are, and what the usual way
    /// has in line would be called there as well.
    fn received(&self, side: &CrewSide, from: usize, parcel: &Parcel) {
        match loans::reply(parcel) {
            None => side.loans.add(from, parcel, &self.scheduler),
            Some(Reply::Over(key, result)) => {
                self.at_reactor.set(self.at_reactor.get() - 1);
                self.table.borrow_mut().question_ends(key);
                self.complete(Completion { key, result });
            }
            Some(Reply::Ahead(key, result)) => {
                let task = self.table.borrow_mut().answered_ahead(key, result);
                task.into_iter().for_each(|task| self.scheduler.wake(task));
            }
        }
    }

    /// Sends a group's one operation, a question, to another executor; the current task waits for it.
    pub(crate) fn launch_to(&self, group: u32, to: usize, words: Question) {
        let mut table = self.table.borrow_mut();
        table.launch_question(group, self.scheduler.current(), self.patience.ran(self.patience.moment()));
        let key = table.ops(group)[0];
        let (view, shared) = (table.view(key), table.shared_segments(key));
        self.at_reactor.set(self.at_reactor.get() + 1);
        let parcel = loans::question(key, view.class, words, view.segments, shared);
        self.crew().crew.send(to, &parcel);
    }

    pub(crate) fn pool(&self, memory: Region, budget: Option<BudgetSide>) -> Pool {
        let pool = Pool::new(memory, budget, Rc::clone(&self.scheduler), Rc::clone(&self.arenas));
        let mut stores = self.stores.borrow_mut();
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Rc::downgrade(&pool.0));
        pool
    }

    /// Lets the reactor run until `until` at the latest (`None`: until there is an event), and then gives up
    /// operations whose deadline has passed.
    pub(crate) fn turn(&self, until: Option<Instant>) {
        let deadline = self.table.borrow().next_deadline();
        let until = match deadline.map(|deadline| self.patience.latest_turn(deadline)) {
            Some(latest) => Some(until.map_or(latest, |until| until.min(latest))),
            None => until,
        };
        let look = self.arenas.next_look.get();
        let until = if look == NEVER { until } else { Some(until.map_or(look, |until| until.min(look))) };
        let now = self.park(until);
        if look <= now {
            self.look(now);
        }
        let gap = self.patience.turn_ended(now, until);
        if deadline.is_none() {
            return;
        }
        if gap {
            // The process did not run for a while. Completions that came meanwhile are taken before any operation is
            // judged overdue.
            self.park(Some(Instant::default()));
        }
        let ran = self.patience.ran(now);
        if self.table.borrow().next_deadline().is_some_and(|next| next <= ran) {
            let given_up = self.table.borrow_mut().expire(ran);
            self.settle(given_up);
        }
    }

    /// Gives unused memory back.
    #[cold]
    fn look(&self, now: Instant) {
        if self.arenas.next_look.get() == SOON {
            // Arenas are not returned at once: with short-lived buffers that would happen at every turn.
            self.arenas.next_look.set(now.after(LOOK));
            if self.arenas.is_wanted.take() {
                self.stores().iter().for_each(|store| store.spare());
            }
            return;
        }
        let watched = self.stores().iter().fold(false, |watched, store| store.look() | watched);
        self.arenas.next_look.set(if watched { now.after(LOOK) } else { NEVER });
    }

    fn stores(&self) -> Vec<Rc<Store>> {
        self.stores.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Another executor calls those that draw on a budget.
    pub(crate) fn called(&self, call: &Call) {
        self.stores().iter().for_each(|store| store.called(call));
    }

    /// Parks the reactor until there is work; returns its time after that.
    fn park(&self, until: Option<Instant>) -> Instant {
        let mut done = self.done.borrow_mut();
        let crew = self.crew.get();
        let until = crew.map_or(until, |side| self.before_turn(side, until));
        let mut reactor = self.reactor.borrow_mut();
        reactor.park(&mut done, until);
        let now = reactor.now();
        drop(reactor);
        self.at_reactor.set(self.at_reactor.get() - done.len());
        let mut table = self.table.borrow_mut();
        table.set_now(self.patience.ran(now));
        for completion in done.drain(..) {
            self.finish(&mut table, completion);
        }
        if let Some(side) = crew {
            drop(table);
            self.after_turn(side);
        }
        now
    }

    /// Answers operations that no member will answer.
    pub(crate) fn refuse(&self) {
        while let Some(key) = { self.refused.borrow_mut().pop() } {
            self.complete(Completion { key, result: Err(OpError::Gone) });
        }
    }

    /// Answers questions of others that no task will answer.
    pub(crate) fn refuse_others(&self) {
        if let Some(side) = self.joined() {
            side.loans.refuse(&side.crew);
            side.loans.settle(&side.crew);
            side.crew.ring();
        }
    }

    #[inline(never)]
    pub(crate) fn complete(&self, completion: Completion) {
        self.finish(&mut self.table.borrow_mut(), completion);
    }

    /// In line with the loop over completions: 10 % of the instructions of a 4K read were in calls between these few.
    #[inline(always)]
    fn finish(&self, table: &mut Table, completion: Completion) {
        match table.complete(completion) {
            After::Nothing => {}
            After::Wake(task) => self.scheduler.wake(task),
            After::Resubmit(key) => self.resubmit(table, key),
            After::OrphanEnded(member) => self.orphan_ended(table, member),
        }
    }

    #[cold]
    #[inline(never)]
    fn resubmit(&self, table: &mut Table, key: OpKey) {
        if self.draining.get() {
            return self.finish(table, Completion { key, result: Err(OpError::Cancelled) });
        }
        self.submit(table, &mut **self.reactor.borrow_mut(), key);
    }

    #[cold]
    fn orphan_ended(&self, table: &mut Table, member: MemberId) {
        table.take_orphan_waiters(member).into_iter().for_each(|task| self.scheduler.wake(task));
    }

    /// Sends a group's operations; the current task waits for it. What has not completed at `until` is given up.
    #[inline(never)]
    pub(crate) fn launch(&self, group: u32, until: Option<Instant>) {
        let mut table = self.table.borrow_mut();
        table.launch(group, self.scheduler.current(), self.patience.ran(self.patience.moment()));
        if let Some(until) = until {
            table.set_deadline(group, self.patience.ran(until));
        }
        let reactor = &mut **self.reactor.borrow_mut();
        for &key in table.ops(group) {
            self.submit(&table, reactor, key);
        }
    }

    #[inline]
    fn submit(&self, table: &Table, reactor: &mut dyn Reactor, key: OpKey) {
        let view = table.view(key);
        if let Some(member) = view.kind.member()
            && (self.special.get() || member.is_served())
        {
            return self.submit_elsewhere(table, reactor, member, key);
        }
        self.submit_here(reactor, key, view);
    }

    #[inline(always)]
    fn submit_here(&self, reactor: &mut dyn Reactor, key: OpKey, view: OpView<'_>) {
        self.at_reactor.set(self.at_reactor.get() + 1);
        // SAFETY: the op table holds the buffers and leaves the segments in place until `finish`, and `launch` noted
        // that a device uses the buffers, which keeps every guard away. The key is its slot's number: one operation's.
        unsafe { reactor.submit(key, view) };
    }

    /// Sends what may not be for the reactor. Out of line: what the usual way has in registers stays there.
    #[cold]
    #[inline(never)]
    fn submit_elsewhere(&self, table: &Table, reactor: &mut dyn Reactor, member: MemberId, key: OpKey) {
        // Its completion may not overtake its submission.
        let refuse = || self.refused.borrow_mut().push(key);
        let (forsaken, view) = (table.is_forsaken(member, key), table.view(key));
        if self.began.notice(view.kind, &self.scheduler) {
            self.special.set(table.any_forsaken());
        }
        match member.kind() {
            MemberKind::Served(served) if !forsaken => {
                if !self.served.borrow_mut().push(served, key, &self.scheduler) {
                    refuse();
                }
            }
            // A probe asks nothing of the device, so that a forsaken one can be probed too.
            MemberKind::Device(_) if !forsaken || matches!(view.kind, OpKind::Probe { .. }) => {
                self.submit_here(reactor, key, view);
            }
            _ => refuse(),
        }
    }

    /// See [`crate::Io::forsake`].
    pub(crate) fn forsake(&self, member: MemberId, owner: Owner) {
        let given_up = self.table.borrow_mut().forsake(member, owner);
        self.special.set(true);
        self.settle(given_up);
    }

    /// See [`crate::Io::give_up`].
    pub(crate) fn give_up(&self, member: MemberId, owner: Owner, span: OpSpan, before: Instant) -> usize {
        let given_up = self.table.borrow_mut().give_up_on(member, owner, span, before);
        let count = given_up.orphans.len();
        self.settle(given_up);
        count
    }

    /// See [`crate::Io::ran`].
    pub(crate) fn ran(&self) -> Instant {
        self.patience.ran(self.reactor.borrow().now())
    }

    /// Wakes tasks that waited for operations that were given up, and cancels those operations where that is
    /// possible.
    #[cold]
    fn settle(&self, given_up: GivenUp) {
        for key in given_up.orphans {
            let member = self.table.borrow().view(key).kind.member();
            if !member.is_some_and(MemberId::is_served) {
                self.reactor.borrow_mut().give_up(key);
                continue;
            }
            if self.served.borrow_mut().take_back(key) {
                self.complete(Completion { key, result: Err(OpError::Cancelled) });
            }
        }
        given_up.wake.into_iter().for_each(|task| self.scheduler.wake(task));
    }

    /// Gives all up that is in flight, and waits for its real end, but not longer than [`Core::grace`]. Returns how many
    /// operations the reactor still has.
    pub(crate) fn drain(&self) -> usize {
        if self.at_reactor.get() == 0 {
            return 0;
        }
        self.draining.set(true);
        let given_up = self.table.borrow_mut().give_all_up();
        self.settle(given_up);
        self.reactor.borrow_mut().cancel_all();
        let end = self.reactor.borrow().now().after(self.grace.get());
        while self.at_reactor.get() > 0 && self.reactor.borrow().now() < end {
            self.park(Some(end));
        }
        self.draining.set(false);
        self.at_reactor.get()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The caller may keep a handle to the reactor, so that its own drop would come too late for the arenas.
        if self.drain() > 0 {
            // A device may write to this memory whenever it comes back: nobody may ever get it again.
            core::mem::forget(self.table.take());
        }
        self.reactor.borrow_mut().detach();
    }
}
