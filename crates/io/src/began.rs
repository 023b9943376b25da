//! Waiting for members to be asked for something: who looks at operations in flight has nothing to look at before.

use core::cell::{Cell, RefCell};

use crate::op::OpKind;
use crate::task::{Scheduler, TaskId};

/// Tasks that wait for the next operation on a member.
#[derive(Default)]
pub(crate) struct Began {
    tasks: RefCell<Vec<TaskId>>,
    /// How often they were woken.
    times: Cell<u64>,
}

impl Began {
    /// An operation is about to be sent; true if nobody waits for one any more. Looks at members do not count: whoever waits makes
    /// them itself.
    #[cold]
    pub(crate) fn notice(&self, kind: OpKind, scheduler: &Scheduler) -> bool {
        if matches!(kind, OpKind::Probe { .. }) {
            return self.tasks.borrow().is_empty();
        }
        self.times.set(self.times.get() + 1);
        self.tasks.borrow_mut().drain(..).for_each(|task| scheduler.wake(task));
        true
    }

    pub(crate) fn times(&self) -> u64 {
        self.times.get()
    }

    /// Wakes a task at the next operation.
    pub(crate) fn wait(&self, task: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }
}
