//! The executor's ledger: which tasks exist and which are to be polled next.
//!
//! Tasks never leave their thread, and every future of this crate wakes its task by number, not by the `Waker` that `poll`
//! hands down (see [`crate::waker`]).

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::class::OpClass;
use crate::pulse::Pulse;

/// A task of one executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

/// The task that `block_on` drives.
pub(crate) const ROOT: TaskId = TaskId(0);

/// The tasks that are ready, in the order in which they became so.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) pulse: Pulse,
    /// For what the operations are that the current task begins.
    class: Cell<OpClass>,
    ready: RefCell<Ready>,
    /// Tasks that wait for any other to run, and whether there are some: each round asks.
    bystanders: RefCell<Vec<TaskId>>,
    has_bystanders: Cell<bool>,
}

#[derive(Default)]
struct Ready {
    queue: VecDeque<TaskId>,
    tasks: Vec<TaskState>,
}

impl Ready {
    #[inline]
    fn state(&mut self, task: TaskId) -> &mut TaskState {
        let at = task.0 as usize;
        if at >= self.tasks.len() {
            self.tasks.resize(at + 1, TaskState::default());
        }
        &mut self.tasks[at]
    }
}

#[derive(Clone, Copy, Default)]
struct TaskState {
    /// The task is in the queue.
    queued: bool,
    class: OpClass,
}

impl Scheduler {
    /// The task being polled.
    #[inline]
    pub(crate) fn current(&self) -> TaskId {
        TaskId(self.pulse.current())
    }

    /// For what the operations are that the current task begins; outside of tasks, for clients.
    #[inline]
    pub(crate) fn class(&self) -> OpClass {
        self.class.get()
    }

    /// A task begins whose operations are of this class; `name` is its future's type.
    pub(crate) fn begins(&self, task: TaskId, class: OpClass, name: &'static str) {
        self.pulse.begins(task.0, name);
        self.set_class_of(task, class);
    }

    /// Sets the class of another task's operations.
    fn set_class_of(&self, task: TaskId, class: OpClass) {
        self.ready.borrow_mut().state(task).class = class;
    }

    /// Sets the class of the current task's operations.
    pub(crate) fn set_class(&self, class: OpClass) {
        self.class.set(class);
        self.set_class_of(self.current(), class);
    }

    /// No task is being polled: a turn begins.
    #[inline]
    pub(crate) fn between_tasks(&self) {
        self.pulse.turned();
        self.class.set(OpClass::Client);
    }

    /// Polls `task` soon; once, however often it is called until then. A task that has ended is passed over.
    #[inline]
    pub(crate) fn wake(&self, task: TaskId) {
        let ready = &mut *self.ready.borrow_mut();
        if !core::mem::replace(&mut ready.state(task).queued, true) {
            ready.queue.push_back(task);
        }
    }

    /// The task whose turn it is: the current one from now on.
    #[inline]
    pub(crate) fn next(&self) -> Option<TaskId> {
        let Ready { queue, tasks } = &mut *self.ready.borrow_mut();
        let task = queue.pop_front()?;
        let state = &mut tasks[task.0 as usize];
        state.queued = false;
        self.class.set(state.class);
        self.pulse.polls(task.0);
        Some(task)
    }

    /// Wakes a task before the next round in which any task runs.
    pub(crate) fn wake_with_others(&self, task: TaskId) {
        self.has_bystanders.set(true);
        let mut bystanders = self.bystanders.borrow_mut();
        if !bystanders.contains(&task) {
            bystanders.push(task);
        }
    }

    /// The tasks that are ready now, with those that wait for others to run.
    #[inline]
    pub(crate) fn round(&self) -> usize {
        let ready = self.ready_count();
        if !self.has_bystanders.get() || ready == 0 {
            return ready;
        }
        self.wake_bystanders();
        self.ready_count()
    }

    #[cold]
    fn wake_bystanders(&self) {
        self.has_bystanders.set(false);
        self.bystanders.borrow_mut().drain(..).for_each(|task| self.wake(task));
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.ready_count() == 0
    }

    /// Tasks that are ready now.
    #[inline]
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.borrow().queue.len()
    }
}
