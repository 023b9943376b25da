//! The executor's ledger: which tasks exist and which are to be polled next.
//!
//! Tasks never leave their thread, and every future of this crate wakes its task by number. The `Waker` that `poll`
//! hands down does nothing: futures of other executors' making do not work here.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A task of one executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

/// The task that `block_on` drives.
pub(crate) const ROOT: TaskId = TaskId(0);

/// Which tasks are ready, in the order in which they became so.
#[derive(Default)]
pub(crate) struct Scheduler {
    current: Cell<u32>,
    ready: RefCell<Ready>,
}

#[derive(Default)]
struct Ready {
    queue: VecDeque<TaskId>,
    /// By task: it is in the queue.
    queued: Vec<bool>,
}

impl Scheduler {
    /// The task being polled.
    #[inline]
    pub(crate) fn current(&self) -> TaskId {
        TaskId(self.current.get())
    }

    #[inline]
    pub(crate) fn set_current(&self, task: TaskId) {
        self.current.set(task.0);
    }

    /// Polls `task` soon; once, however often it is called until then. A task that has ended is passed over.
    #[inline]
    pub(crate) fn wake(&self, task: TaskId) {
        let Ready { queue, queued } = &mut *self.ready.borrow_mut();
        let at = task.0 as usize;
        if at >= queued.len() {
            queued.resize(at + 1, false);
        }
        if !core::mem::replace(&mut queued[at], true) {
            queue.push_back(task);
        }
    }

    #[inline]
    pub(crate) fn next(&self) -> Option<TaskId> {
        let Ready { queue, queued } = &mut *self.ready.borrow_mut();
        let task = queue.pop_front()?;
        queued[task.0 as usize] = false;
        Some(task)
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
