//! The executor: tasks, timers, groups of operations, over one reactor on one thread.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::buf::{Pool, Slice};
use crate::group::{Group, Pending};
use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, OpKind, SocketId};
use crate::reactor::{Reactor, Unpark};
use crate::served::{Served, ServedQueues};
use crate::table::{After, SERVED, Table};
use crate::task::{ROOT, Scheduler, TaskId};
use crate::time::{Duration, Instant};

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;
type Job = Box<dyn FnOnce(&Io) + Send>;

#[derive(Default)]
struct Tasks {
    /// `None`: free, or being polled right now.
    futures: Vec<Option<BoxedTask>>,
    free: Vec<u32>,
    alive: usize,
}

pub(crate) struct Inner {
    pub(crate) scheduler: Rc<Scheduler>,
    pub(crate) table: RefCell<Table>,
    pub(crate) served: RefCell<ServedQueues>,
    /// Operations on served members that nobody serves any more.
    refused: RefCell<Vec<OpKey>>,
    reactor: RefCell<Box<dyn Reactor>>,
    tasks: RefCell<Tasks>,
    timers: RefCell<BTreeMap<(Instant, u64), TaskId>>,
    next_timer: Cell<u64>,
    arenas: Cell<u32>,
    done: RefCell<Vec<Completion>>,
    jobs: Arc<Jobs>,
    /// Operations that the reactor has and that have not completed.
    at_reactor: Cell<usize>,
    /// Short transfers are not carried on.
    draining: Cell<bool>,
    /// Last, so that no arena is freed before [`Inner::drain`] has waited for the devices.
    pools: RefCell<Vec<Pool>>,
}

#[derive(Default)]
struct Jobs {
    waiting: AtomicBool,
    queue: Mutex<VecDeque<Job>>,
}

/// One executor with its reactor, op table and buffers. A handle: cloning gives the same executor. Stays on its thread.
#[derive(Clone)]
pub struct Io(pub(crate) Rc<Inner>);

impl Io {
    /// An executor over `reactor`.
    ///
    /// # Panics
    /// If the reactor has an executor that was not shut down and dropped: their operations would get mixed up.
    pub fn new(mut reactor: Box<dyn Reactor>) -> Self {
        reactor.attach();
        let tasks = Tasks { futures: vec![None], ..Tasks::default() }; // place 0 is the root's
        Self(Rc::new(Inner {
            scheduler: Rc::default(),
            table: RefCell::default(),
            served: RefCell::default(),
            refused: RefCell::default(),
            reactor: RefCell::new(reactor),
            tasks: RefCell::new(tasks),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            arenas: Cell::new(0),
            done: RefCell::new(Vec::with_capacity(256)),
            jobs: Arc::default(),
            at_reactor: Cell::new(0),
            draining: Cell::new(false),
            pools: RefCell::default(),
        }))
    }

    /// A pool of `bytes` bytes of buffers (rounded up to pages), registered with the reactor.
    /// The memory is kept for as long as the executor lives.
    pub fn pool(&self, bytes: usize) -> Pool {
        let arena = self.0.arenas.get();
        self.0.arenas.set(arena + 1);
        let pool = Pool::new(bytes, arena, Rc::clone(&self.0.scheduler));
        self.0.reactor.borrow_mut().register_arena(pool.memory());
        self.0.pools.borrow_mut().push(pool.clone());
        pool
    }

    /// The reactor's moment.
    #[inline]
    pub fn now(&self) -> Instant {
        self.0.reactor.borrow().now()
    }

    /// What is known of a member.
    pub fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        if member.0 & SERVED != 0 {
            return self.0.served.borrow().info(member);
        }
        self.0.reactor.borrow().member_info(member)
    }

    /// Makes a member whose operations tasks of this executor carry out: an array that is a member of an array.
    pub fn serve_member(&self, info: MemberInfo) -> Served {
        let member = self.0.served.borrow_mut().add(info);
        Served { io: self.clone(), member }
    }

    /// An empty group of operations.
    #[inline]
    pub fn group(&self) -> Group {
        Group::new(self.clone())
    }

    /// The task that is being polled.
    #[inline]
    pub fn current_task(&self) -> TaskId {
        self.0.scheduler.current()
    }

    /// Polls a task soon. Waking too often is harmless: futures look again.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        self.0.scheduler.wake(task);
    }

    /// Begins a task. Its result can be awaited; dropping the handle lets the task run on.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let shared = Rc::new(TaskResult { value: RefCell::new(None), waiter: Cell::new(None) });
        let (result, scheduler) = (Rc::clone(&shared), Rc::clone(&self.0.scheduler));
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
        self.0.scheduler.wake(id);
        Task { shared, scheduler: Rc::clone(&self.0.scheduler) }
    }

    /// Drives all tasks until `future` is done. Tasks that still run are kept, and go on with the next call.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = core::pin::pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        self.0.scheduler.wake(ROOT);
        loop {
            // Only what is ready now: what becomes ready meanwhile has its turn after the reactor's.
            for _ in 0..self.0.scheduler.ready_count() {
                let Some(task) = self.0.scheduler.next() else { break };
                self.0.scheduler.set_current(task);
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
        self.run_jobs();
        inner.refuse();
        let until = if inner.scheduler.is_idle() {
            inner.timers.borrow().first_key_value().map(|(&(at, _), _)| at)
        } else {
            Some(Instant::default())
        };
        inner.park(until);
        self.run_jobs();
        self.fire_timers();
    }

    /// Ends all tasks where they stand, calls off what waits on sockets, and returns when no device touches a buffer any
    /// more. Without it, tasks that hold a handle to their own executor keep it, and its reactor, alive for ever.
    ///
    /// To be called from outside of the tasks. The executor can be used again.
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
        let unserved = self.0.served.borrow_mut().take_waiting();
        for key in unserved {
            self.0.complete(Completion { key, result: Err(OpError::Cancelled) });
        }
        self.0.refuse();
        self.0.drain();
    }

    fn fire_timers(&self) {
        let mut timers = self.0.timers.borrow_mut();
        if timers.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(entry) = timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.0.scheduler.wake(entry.remove());
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
        Remote { jobs: Arc::clone(&self.0.jobs), unpark: self.0.reactor.borrow().unpark() }
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
            self.0.scheduler.wake(self.0.scheduler.current());
            Poll::Pending
        })
        .await;
    }

    /// Operations submitted and not completed, of all tasks.
    pub fn in_flight(&self) -> usize {
        self.0.table.borrow().in_flight()
    }

    /// Tasks begun and not finished (the one of `block_on` not counted).
    pub fn tasks_alive(&self) -> usize {
        self.0.tasks.borrow().alive
    }

    /// Waits for a connection on a listening socket.
    ///
    /// # Errors
    /// As the reactor's listener answers; [`OpError::Cancelled`] once the listener is closed.
    pub async fn accept(&self, listener: SocketId) -> Result<SocketId, OpError> {
        let value = self.socket_op(OpKind::Accept { socket: listener }, &[]).await?;
        Ok(SocketId(value as u32))
    }

    /// Receives what has come, at most the slice's length; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`OpError::Disconnected`] if the other end reset the connection, [`OpError::Cancelled`] if this end closed it.
    pub async fn recv(&self, socket: SocketId, into: &Slice) -> Result<usize, OpError> {
        let value = self.socket_op(OpKind::Recv { socket }, core::slice::from_ref(into)).await?;
        Ok(value as usize)
    }

    /// Sends all bytes of all slices (at most [`crate::MAX_SEGMENTS`]), in order. Two sends on one socket must not overlap.
    ///
    /// # Errors
    /// [`OpError::Disconnected`] if the other end is gone, [`OpError::Cancelled`] if this end closed it.
    pub async fn send(&self, socket: SocketId, from: &[Slice]) -> Result<(), OpError> {
        self.socket_op(OpKind::Send { socket }, from).await.map(|_| ())
    }

    fn socket_op(&self, kind: OpKind, memory: &[Slice]) -> SocketPending {
        let mut group = self.group();
        group.socket(kind, memory);
        SocketPending(group.submit())
    }

    /// Closes a socket: operations that wait on it complete, with an error or as the end of the stream.
    pub fn close(&self, socket: SocketId) {
        self.0.reactor.borrow_mut().close_socket(socket);
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

impl Inner {
    fn park(&self, until: Option<Instant>) {
        let mut done = self.done.borrow_mut();
        self.reactor.borrow_mut().park(&mut done, until);
        self.at_reactor.set(self.at_reactor.get() - done.len());
        let mut table = self.table.borrow_mut();
        for completion in done.drain(..) {
            self.finish(&mut table, completion);
        }
    }

    fn refuse(&self) {
        while let Some(key) = { self.refused.borrow_mut().pop() } {
            self.complete(Completion { key, result: Err(OpError::Gone) });
        }
    }

    pub(crate) fn complete(&self, completion: Completion) {
        self.finish(&mut self.table.borrow_mut(), completion);
    }

    #[inline]
    fn finish(&self, table: &mut Table, completion: Completion) {
        match table.complete(completion) {
            After::Nothing => {}
            After::Wake(task) => self.scheduler.wake(task),
            After::Resubmit(key) if self.draining.get() => {
                self.finish(table, Completion { key, result: Err(OpError::Cancelled) });
            }
            After::Resubmit(key) => self.submit(table, &mut **self.reactor.borrow_mut(), key),
        }
    }

    /// Sends a group's operations; the current task waits for it.
    #[inline]
    pub(crate) fn launch(&self, group: u32) {
        let mut table = self.table.borrow_mut();
        table.launch(group, self.scheduler.current());
        let mut reactor = self.reactor.borrow_mut();
        for &key in table.ops(group) {
            self.submit(&table, &mut **reactor, key);
        }
    }

    #[inline]
    fn submit(&self, table: &Table, reactor: &mut dyn Reactor, key: OpKey) {
        let view = table.view(key);
        if let Some(member) = view.kind.member()
            && member.0 & SERVED != 0
        {
            if !self.served.borrow_mut().push(member, key, &self.scheduler) {
                // Its completion may not overtake its submission.
                self.refused.borrow_mut().push(key);
            }
            return;
        }
        self.at_reactor.set(self.at_reactor.get() + 1);
        // SAFETY: the op table holds the buffers and leaves the segments in place until `finish`, and `launch` noted
        // that a device uses the buffers, which keeps every guard away. The key is its slot's number: one operation's.
        unsafe { reactor.submit(key, view) };
    }

    /// Waits until the reactor has completed all that it was given.
    fn drain(&self) {
        if self.at_reactor.get() == 0 {
            return;
        }
        self.draining.set(true);
        self.reactor.borrow_mut().cancel_all();
        while self.at_reactor.get() > 0 {
            self.park(None);
        }
        self.draining.set(false);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The caller may keep a handle to the reactor, so that its own drop would come too late for the arenas.
        self.drain();
        self.reactor.get_mut().detach();
    }
}

impl core::fmt::Debug for Io {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Io").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

struct SocketPending(Pending);

impl Future for SocketPending {
    type Output = Result<u64, OpError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.value())
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
