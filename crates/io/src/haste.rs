//! Tasks that linger: they could go on, and wait a little for others, since work is cheaper when it is done together.
//!
//! Such a wait holds memory and a place in lines, so it must end at once when somebody needs either. Who does says so to all of an
//! executor: the tasks that linger are few, and going on early is never wrong.

use core::cell::{Cell, RefCell};

use crate::task::{Scheduler, TaskId};

/// The tasks of an executor that linger.
#[derive(Default)]
pub(crate) struct Haste {
    tasks: RefCell<Vec<TaskId>>,
    /// How often all were told to go on.
    times: Cell<u64>,
    /// Those who are in a hurry for a while.
    hurrying: Cell<u32>,
}

/// A task's place among those that linger.
pub(crate) struct LingeringEntry<'a> {
    haste: &'a Haste,
    task: TaskId,
    since: u64,
}

impl Haste {
    /// Has all tasks go on.
    pub(crate) fn hurry(&self, scheduler: &Scheduler) {
        self.times.set(self.times.get() + 1);
        self.tasks.borrow().iter().for_each(|task| scheduler.wake(*task));
    }

    /// Somebody is in a hurry: all tasks go on, and none lingers until [`Haste::hurry_ends`].
    pub(crate) fn hurry_begins(&self, scheduler: &Scheduler) {
        self.hurrying.set(self.hurrying.get() + 1);
        self.hurry(scheduler);
    }

    /// The end of a hurry that began with [`Haste::hurry_begins`].
    pub(crate) fn hurry_ends(&self) {
        self.hurrying.set(self.hurrying.get() - 1);
    }

    /// A task lingers until the place is dropped.
    pub(crate) fn join(&self, task: TaskId) -> LingeringEntry<'_> {
        self.tasks.borrow_mut().push(task);
        LingeringEntry { haste: self, task, since: self.times.get() }
    }
}

impl LingeringEntry<'_> {
    /// Whether all were told to go on since the task began to linger, or somebody is in a hurry.
    pub(crate) fn is_hurried(&self) -> bool {
        self.haste.times.get() != self.since || self.haste.hurrying.get() > 0
    }
}

impl Drop for LingeringEntry<'_> {
    fn drop(&mut self) {
        let mut tasks = self.haste.tasks.borrow_mut();
        if let Some(at) = tasks.iter().position(|task| *task == self.task) {
            tasks.swap_remove(at);
        }
    }
}
