//! Operations on served members, until a task takes them.

use std::collections::VecDeque;

use crate::op::{MemberInfo, OpKey, ServedId};
use crate::task::{Scheduler, TaskId};

struct Queue {
    info: MemberInfo,
    waiting: VecDeque<OpKey>,
    idle: Vec<TaskId>,
    /// The serving end is gone.
    closed: bool,
}

#[derive(Default)]
pub(crate) struct ServedQueues(Vec<Queue>);

impl ServedQueues {
    pub(crate) fn add(&mut self, info: MemberInfo) -> ServedId {
        self.0.push(Queue { info, waiting: VecDeque::new(), idle: Vec::new(), closed: false });
        ServedId((self.0.len() - 1) as u32)
    }

    pub(crate) fn info(&self, member: ServedId) -> Option<MemberInfo> {
        self.0.get(member.0 as usize).map(|queue| queue.info)
    }

    /// Takes the requests that no task has taken.
    pub(crate) fn take_waiting(&mut self) -> Vec<OpKey> {
        self.0.iter_mut().flat_map(|queue| queue.waiting.drain(..)).collect()
    }

    /// Gives a request to the serving tasks; false if there are none any more.
    pub(crate) fn push(&mut self, member: ServedId, key: OpKey, scheduler: &Scheduler) -> bool {
        let queue = self.0.get_mut(member.0 as usize);
        let Some(queue) = queue.filter(|queue| !queue.closed) else { return false };
        queue.waiting.push_back(key);
        if let Some(task) = queue.idle.pop() {
            scheduler.wake(task);
        }
        true
    }

    /// Takes back a request that no task has taken; false if one has.
    pub(crate) fn take_back(&mut self, key: OpKey) -> bool {
        let waiting = self.0.iter_mut().map(|queue| &mut queue.waiting);
        waiting.fold(false, |found, waiting| {
            let before = waiting.len();
            waiting.retain(|&other| other != key);
            found || waiting.len() < before
        })
    }

    /// The next request; if there is none, the task is woken for one.
    pub(crate) fn pop(&mut self, member: ServedId, task: TaskId) -> Option<OpKey> {
        let queue = &mut self.0[member.0 as usize];
        let key = queue.waiting.pop_front();
        if key.is_none() && !queue.idle.contains(&task) {
            queue.idle.push(task);
        }
        key
    }

    /// The serving end is gone: gives what no task has taken.
    pub(crate) fn close(&mut self, member: ServedId) -> VecDeque<OpKey> {
        let queue = &mut self.0[member.0 as usize];
        queue.closed = true;
        core::mem::take(&mut queue.waiting)
    }
}
