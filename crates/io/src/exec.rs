//! The executor: tasks, timers, groups of operations, over one reactor on one thread.

mod asking;
mod ports;
mod sockets;

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::arena::{NoMemory, NotGiven, Region, Source};
use crate::budget::BudgetShare;
use crate::core::Core;
use crate::given::{Given, Pages};
use crate::group::Group;
use crate::op::{
    Completion, MemberId, MemberInfo, MemberKind, OpClass, OpError, OpSpan, Owner, PathTarget, Probe,
};
use crate::pool::Pool;
use crate::reactor::{Reactor, Unpark};
use crate::served::Served;
use crate::table::MemberCounters;
use crate::task::{ROOT, Scheduler, TaskId};
use crate::time::{Duration, Instant};

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;
type RemoteJob = Box<dyn FnOnce(&Io) + Send>;

#[derive(Default)]
struct Tasks {
    /// `None`: free, or being polled right now.
    futures: Vec<Option<BoxedTask>>,
    free: Vec<u32>,
    alive: usize,
}

pub(crate) struct Inner {
    pub(crate) core: Rc<Core>,
    tasks: RefCell<Tasks>,
    timers: RefCell<BTreeMap<(Instant, u64), TaskId>>,
    next_timer: Cell<u64>,
    /// Number of handles so far that have operations of their own.
    owners: Cell<u32>,
    jobs: Arc<Jobs>,
}

#[derive(Default)]
struct Jobs {
    waiting: AtomicBool,
    queue: Mutex<VecDeque<RemoteJob>>,
}

/// One executor with its reactor, op table and buffers. A handle: cloning gives the same executor. Stays on its thread.
///
/// A handle of its [own](Io::owned) gives up its own operations only: two arrays on one device wait for it each with
/// its own patience. A handle without an owner means the operations of all.
#[derive(Clone)]
pub struct Io(pub(crate) Rc<Inner>, Owner);

impl Io {
    /// An executor over `reactor`.
    ///
    /// # Panics
    /// If the reactor has an executor that was not shut down and dropped: their operations would get mixed up.
    pub fn new(reactor: Box<dyn Reactor>) -> Self {
        let tasks = Tasks { futures: vec![None], ..Tasks::default() }; // place 0 is the root's
        let inner = Rc::new(Inner {
            core: Rc::new(Core::new(reactor)),
            tasks: RefCell::new(tasks),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            owners: Cell::new(0),
            jobs: Arc::default(),
        });
        Self(inner, Owner::NOBODY)
    }

    /// A handle that owns its operations, with its clones. Giving up, forsaking and ages concern these operations
    /// only. [`Io::counters`] are of all.
    #[must_use]
    pub fn owned(&self) -> Self {
        self.0.owners.set(self.0.owners.get() + 1);
        Self(Rc::clone(&self.0), Owner(self.0.owners.get()))
    }

    /// A pool of up to `bytes` bytes of buffers (rounded up to pages). Memory is taken when it is first needed, in
    /// arenas of 4 MiB that are registered with the reactor. Memory unused for some seconds is given back, but for
    /// one arena, and that too when the pool and its last buffer are gone.
    pub fn pool(&self, bytes: usize) -> Pool {
        self.0.core.pool(Region::new(bytes), None)
    }

    /// A pool of up to as many bytes as a budget has, of which other executors may have some. It draws each arena, and gives it back
    /// once it is unused: at once if somebody waits on another executor, the last one too. A pool may be waited for
    /// by [`Pool::alloc`], or by one's own rules: see [`Pool::wait_for_others`].
    pub fn pool_within(&self, share: BudgetShare) -> Pool {
        let (memory, remote) = (Region::new(share.bytes()), self.remote());
        let call = move |call| remote.run(move |io: &Self| io.0.core.called(&call));
        self.0.core.pool(memory, Some(share.used(Box::new(call))))
    }

    /// Makes a pool of memory of a source; `bytes` is rounded up to its pages.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn pool_of(&self, source: Source, bytes: usize) -> Result<Pool, NoMemory> {
        Ok(self.0.core.pool(Region::of(source, bytes)?, None))
    }

    /// `len` bytes at `offset` of a file that others have mapped too, and change at any time: a guest's memory. The
    /// file is a memfd that can't be made shorter (`F_SEAL_SHRINK`), since access to a part that is gone would end
    /// the process; files that can't be sealed, a device's registers for instance, is refused. The descriptor is not
    /// needed any more after it. Only used memory is pinned.
    ///
    /// # Errors
    /// [`NotGiven::Unsealed`], [`NotGiven::OutOfRange`] of what the file holds, [`NotGiven::Unaligned`] to its pages, and
    /// [`NotGiven::Refused`] with what the kernel says.
    pub fn given(&self, file: impl AsFd, offset: u64, len: u64, pages: Pages) -> Result<Given, NotGiven> {
        let end = offset.checked_add(len).ok_or(NotGiven::OutOfRange(u64::MAX))?;
        let memory = Region::of_file(file.as_fd(), offset..end)?;
        let core = &self.0.core;
        Given::new(memory, pages, Rc::clone(&core.scheduler), Rc::clone(&core.arenas))
    }

    /// Arenas in use, of all pools and given memory.
    pub fn arenas(&self) -> usize {
        self.0.core.arenas.count()
    }

    /// Bytes of all arenas that are not released: allocated buffers, and memory of others that is registered.
    pub fn arena_bytes(&self) -> usize {
        self.0.core.arenas.bytes()
    }

    /// The reactor's moment.
    #[inline]
    pub fn now(&self) -> Instant {
        self.0.core.reactor.borrow().now()
    }

    /// The moment at which the reactor's last turn ended. Costs nothing; what this task has done since is not counted.
    #[inline]
    pub fn moment(&self) -> Instant {
        self.0.core.patience.moment()
    }

    /// The size and block sizes of a member.
    pub fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        if let MemberKind::Served(served) = member.kind() {
            return self.0.core.served.borrow().info(served);
        }
        self.0.core.reactor.borrow().member_info(member)
    }

    /// Whether reads of a member are copies from memory, which cost least in small operations. False of devices that fill memory by
    /// themselves.
    pub fn is_in_memory(&self, member: MemberId) -> bool {
        !matches!(member.kind(), MemberKind::Served(_)) && self.0.core.reactor.borrow().is_in_memory(member)
    }

    /// Makes a member whose operations tasks of this executor carry out: an array that is a member of an array.
    pub fn serve_member(&self, info: MemberInfo) -> Served {
        let id = self.0.core.served.borrow_mut().add(info);
        Served { core: Rc::clone(&self.0.core), id }
    }

    /// An empty group of operations, of the class of the current task.
    #[inline]
    pub fn group(&self) -> Group {
        self.group_of(self.0.core.scheduler.class())
    }

    /// An empty group of operations of a class.
    #[inline]
    pub fn group_of(&self, class: OpClass) -> Group {
        Group::new(&self.0.core, class, self.1)
    }

    /// The task that is being polled.
    #[inline]
    pub fn current_task(&self) -> TaskId {
        self.0.core.scheduler.current()
    }

    /// For what the operations are that the current task begins from now on.
    pub fn set_class(&self, class: OpClass) {
        self.0.core.scheduler.set_class(class);
    }

    /// Polls a task soon. Waking too often is harmless: futures look again.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        self.0.core.scheduler.wake(task);
    }

    /// Begins a task. Its result can be awaited; dropping the handle lets the task run on. Its operations are of its creator's class.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        self.spawn_as(self.0.core.scheduler.class(), future)
    }

    /// Spawns a task whose operations are of this class.
    pub fn spawn_as<T: 'static>(&self, class: OpClass, future: impl Future<Output = T> + 'static) -> Task<T> {
        let name = core::any::type_name_of_val(&future);
        let shared = Rc::new(TaskResult { value: RefCell::new(None), waiter: Cell::new(None) });
        let (result, scheduler) = (Rc::clone(&shared), Rc::clone(&self.0.core.scheduler));
        let task: BoxedTask = Box::pin(async move {
            let value = future.await;
            *result.value.borrow_mut() = Some(value);
            if let Some(waiter) = result.waiter.get() {
                scheduler.wake(waiter);
            }
        });
        let mut tasks = self.0.tasks.borrow_mut();
        tasks.alive += 1;
        let id = match tasks.free.pop() {
            Some(at) => {
                tasks.futures[at as usize] = Some(task);
                TaskId(at)
            }
            None => {
                tasks.futures.push(Some(task));
                TaskId((tasks.futures.len() - 1) as u32)
            }
        };
        drop(tasks);
        self.0.core.scheduler.begins(id, class, name);
        self.0.core.scheduler.wake(id);
        Task { shared, scheduler: Rc::clone(&self.0.core.scheduler) }
    }

    /// Drives all tasks until `future` is done. Tasks that still run are kept, and go on with the next call.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let _driven = self.0.core.scheduler.pulse.drive(core::any::type_name_of_val(&future));
        let mut future = core::pin::pin!(future);
        let waker = crate::waker::unusable();
        let mut cx = Context::from_waker(&waker);
        self.0.core.scheduler.wake(ROOT);
        loop {
            // Only what is ready now: what becomes ready meanwhile has its turn after the reactor's.
            for _ in 0..self.0.core.scheduler.round() {
                let Some(task) = self.0.core.scheduler.next() else { break };
                if task == ROOT {
                    if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                        return value;
                    }
                } else {
                    self.poll_task(task, &mut cx);
                }
            }
            self.turn();
        }
    }

    /// Polls the tasks that are ready now, and gives the reactor a turn without waiting.
    pub(crate) fn step(&self) {
        let _driven = self.0.core.scheduler.pulse.drive("a step");
        let waker = crate::waker::unusable();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..self.0.core.scheduler.round() {
            let Some(task) = self.0.core.scheduler.next() else { break };
            self.poll_task(task, &mut cx);
        }
        self.turn();
    }

    /// Whether a task is ready, or something has come that makes one so.
    pub(crate) fn has_work(&self) -> bool {
        let core = &self.0.core;
        let has_come = core.joined().is_some_and(|side| !side.crew.has_nothing());
        !core.scheduler.is_idle() || has_come || self.0.jobs.waiting.load(Ordering::Relaxed)
    }

    fn poll_task(&self, task: TaskId, cx: &mut Context<'_>) {
        let at = task.0 as usize;
        let Some(mut future) = self.0.tasks.borrow_mut().futures.get_mut(at).and_then(Option::take) else {
            return;
        };
        let finished = future.as_mut().poll(cx).is_ready();
        let mut tasks = self.0.tasks.borrow_mut();
        if finished {
            tasks.free.push(task.0);
            tasks.alive -= 1;
            drop(tasks); // the future's own drop may spawn or wake
        } else {
            tasks.futures[at] = Some(future);
        }
    }

    /// Gives the reactor its turn and wakes whom its completions and the clock concern.
    fn turn(&self) {
        let inner = &*self.0;
        inner.core.scheduler.between_tasks();
        self.run_jobs();
        inner.core.refuse(); // which makes tasks ready
        let until = if inner.core.scheduler.is_idle() {
            inner.timers.borrow().first_key_value().map(|(&(at, _), _)| at)
        } else {
            Some(Instant::default())
        };
        inner.core.turn(until);
        self.run_jobs();
        self.fire_timers();
    }

    /// Drops all tasks, cancels operations on sockets, and waits until no device uses a buffer any more, but not
    /// longer than the grace (see [`Io::set_grace`]). What is [`Io::in_flight`] then, its devices have not answered:
    /// it is orphaned, and if the executor is dropped before it ends, its arenas are never freed.
    ///
    /// Without it, tasks that hold a handle to their own executor keep it, and its reactor, alive for ever. To be called
    /// from outside of the tasks. The executor can be used again.
    pub fn shutdown(&self) {
        loop {
            let mut tasks = self.0.tasks.borrow_mut();
            let Tasks { futures, free, alive } = &mut *tasks;
            let mut dropped = Vec::new();
            for (at, future) in futures.iter_mut().enumerate() {
                if let Some(future) = future.take() {
                    dropped.push(future);
                    free.push(at as u32);
                }
            }
            *alive -= dropped.len();
            drop(tasks);
            if dropped.is_empty() {
                break;
            }
            drop(dropped); // which may spawn
        }
        let unserved = self.0.core.served.borrow_mut().take_waiting();
        for key in unserved {
            self.0.core.complete(Completion { key, result: Err(OpError::Cancelled) });
        }
        self.0.core.refuse();
        self.0.core.refuse_others();
        self.0.core.drain();
    }

    /// Time that [`Io::shutdown`], or dropping the executor, waits for devices that do not answer: 500 ms by default.
    pub fn set_grace(&self, grace: Duration) {
        self.0.core.grace.set(grace);
    }

    fn fire_timers(&self) {
        let mut timers = self.0.timers.borrow_mut();
        if timers.is_empty() {
            return;
        }
        let now = self.0.core.patience.moment();
        while let Some(entry) = timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.0.core.scheduler.wake(entry.remove());
        }
    }

    fn run_jobs(&self) {
        // The swap locks the memory bus, so it is kept for when there is something.
        let jobs = &self.0.jobs.waiting;
        if !jobs.load(Ordering::Relaxed) || !jobs.swap(false, Ordering::Acquire) {
            return;
        }
        loop {
            let job = self.0.jobs.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = job else { return };
            job(self);
        }
    }

    /// A handle by which other threads hand work to this executor.
    pub fn remote(&self) -> Remote {
        Remote { jobs: Arc::clone(&self.0.jobs), unpark: self.0.core.reactor.borrow().unpark() }
    }

    /// Waits until the reactor's clock shows `until`.
    pub fn sleep_until(&self, until: Instant) -> Sleep {
        Sleep { io: self.clone(), until, timer: None }
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now().after(span))
    }

    /// Lets every other ready task, and the reactor, have a turn.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        core::future::poll_fn(|_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            self.0.core.scheduler.wake(self.0.core.scheduler.current());
            Poll::Pending
        })
        .await;
    }

    /// Operations submitted and not completed, of all tasks.
    pub fn in_flight(&self) -> usize {
        self.0.core.table.borrow().in_flight()
    }

    /// Tasks begun and not finished (the one of `block_on` not counted).
    pub fn tasks_alive(&self) -> usize {
        self.0.tasks.borrow().alive
    }

    /// Gives a member up: everything in flight on it fails now with [`OpError::Gone`], and so does every later operation at once. Operations
    /// in flight go on as orphans (see [`Group::submit_by`]). An [owned](Io::owned) handle does so for its own operations only.
    pub fn forsake(&self, member: MemberId) {
        self.0.core.forsake(member, self.1);
    }

    /// A member that was [forsaken](Io::forsake) can be asked again from now on. False, and nothing changes, while something that
    /// was given up on it, by whomever, is in flight: writes among that could land upon later ones.
    pub fn take_back(&self, member: MemberId) -> bool {
        self.0.core.table.borrow_mut().take_back(member, self.1)
    }

    /// The moment on the clock of deadlines: time in which this executor was not run, since its process was stopped or
    /// its thread held, does not count.
    pub fn ran(&self) -> Instant {
        self.0.core.ran()
    }

    /// When ([`Io::ran`]) the oldest operation of a kind was sent that is in flight on a member, and that a task
    /// waits for. Accurate to a turn of the executor.
    pub fn oldest(&self, member: MemberId, span: OpSpan) -> Option<Instant> {
        self.0.core.table.borrow().oldest(member, self.1, span)
    }

    /// Gives up the operations in flight on a member, of a kind and sent ([`Io::ran`]) at `before` or earlier: they
    /// fail with [`OpError::TimedOut`] now. Returns their number; they go on as orphans (see [`Group::submit_by`]).
    pub fn give_up(&self, member: MemberId, span: OpSpan, before: Instant) -> usize {
        self.0.core.give_up(member, self.1, span, before)
    }

    /// Operations on the member that were given up and whose real end is not known yet. While there are any, writes
    /// among them may still land, and reads still fill the memory that they were given.
    pub fn orphans(&self, member: MemberId) -> usize {
        self.0.core.table.borrow().orphans(member, self.1)
    }

    /// Orphans of a member, of all owners. There must be none before the member is given to another owner.
    pub fn orphans_of_all(&self, member: MemberId) -> usize {
        self.0.core.table.borrow().orphans(member, Owner::NOBODY)
    }

    /// Counts and latencies of a member's operations so far. Counting takes no system call per operation: latencies
    /// are measured from one turn of the reactor to another.
    pub fn counters(&self, member: MemberId) -> MemberCounters {
        self.0.core.table.borrow().counters(member, self.0.core.ran())
    }

    /// Waits until the member has no orphans.
    pub async fn orphans_ended(&self, member: MemberId) {
        let core = &self.0.core;
        core::future::poll_fn(|_| {
            let mut table = core.table.borrow_mut();
            if table.orphans(member, self.1) == 0 {
                return Poll::Ready(());
            }
            table.wait_for_orphans(member, core.scheduler.current());
            Poll::Pending
        })
        .await;
    }

    /// Looks at a member itself: its size, and what its name leads to. Gives up at `until`, as [`Group::submit_by`]
    /// does. A served member is not probed: its properties stay as it reported them.
    ///
    /// # Errors
    /// [`OpError::Gone`] if the reactor has no such member; [`OpError::TimedOut`]; [`OpError::Medium`] with what its file system
    /// says. One that is forsaken is looked at all the same.
    pub async fn probe(&self, member: MemberId, until: Instant) -> Result<Probe, OpError> {
        if member.is_served() {
            let size = self.member_info(member).ok_or(OpError::Gone)?.size;
            return Ok(Probe { size, place: PathTarget::There });
        }
        let mut group = self.group_of(OpClass::Metadata);
        group.probe(member);
        group.submit_by(until).await.value().map(Probe::from_bits)
    }

    pub(crate) fn set_timer(&self, at: Instant) -> (Instant, u64) {
        let number = self.0.next_timer.get();
        self.0.next_timer.set(number + 1);
        self.0.timers.borrow_mut().insert((at, number), self.current_task());
        (at, number)
    }

    pub(crate) fn clear_timer(&self, timer: (Instant, u64)) {
        self.0.timers.borrow_mut().remove(&timer);
    }
}

impl core::fmt::Debug for Io {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Io").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// Hands work to an executor from another thread: the control side's only way in.
#[derive(Clone)]
pub struct Remote {
    jobs: Arc<Jobs>,
    unpark: Unpark,
}

impl Remote {
    /// Runs `job` on the executor's thread soon. It must not block; it may spawn a task.
    pub fn run(&self, job: impl FnOnce(&Io) + Send + 'static) {
        self.jobs.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(job));
        self.jobs.waiting.store(true, Ordering::Release);
        (self.unpark)();
    }
}

struct TaskResult<T> {
    value: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

/// A spawned task's result, to be awaited. Dropping it lets the task run on.
pub struct Task<T> {
    shared: Rc<TaskResult<T>>,
    scheduler: Rc<Scheduler>,
}

impl<T> Future for Task<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.shared.value.borrow_mut().take() {
            return Poll::Ready(value);
        }
        self.shared.waiter.set(Some(self.scheduler.current()));
        Poll::Pending
    }
}

/// Waits for a moment on the reactor's clock.
pub struct Sleep {
    io: Io,
    until: Instant,
    timer: Option<(Instant, u64)>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.io.now() >= self.until {
            return Poll::Ready(());
        }
        if let Some(timer) = self.timer.take() {
            self.io.clear_timer(timer);
        }
        self.timer = Some(self.io.set_timer(self.until));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.io.clear_timer(timer);
        }
    }
}
