//! Members that tasks of this process serve: how an array becomes a member of another array.

use core::future::poll_fn;
use core::task::Poll;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::core::Core;
use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, ServedOp};
use crate::table::SERVED;
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
    pub(crate) fn add(&mut self, info: MemberInfo) -> MemberId {
        self.0.push(Queue { info, waiting: VecDeque::new(), idle: Vec::new(), closed: false });
        MemberId((self.0.len() - 1) as u32 | SERVED)
    }

    pub(crate) fn info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.get((member.0 & !SERVED) as usize).map(|queue| queue.info)
    }

    /// Takes the requests that no task has taken.
    pub(crate) fn take_waiting(&mut self) -> Vec<OpKey> {
        self.0.iter_mut().flat_map(|queue| queue.waiting.drain(..)).collect()
    }

    /// Gives a request to the serving tasks; false if there are none any more.
    pub(crate) fn push(&mut self, member: MemberId, key: OpKey, scheduler: &Scheduler) -> bool {
        let queue = self.0.get_mut((member.0 & !SERVED) as usize);
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

    fn close(&mut self, member: MemberId) -> VecDeque<OpKey> {
        let queue = &mut self.0[(member.0 & !SERVED) as usize];
        queue.closed = true;
        core::mem::take(&mut queue.waiting)
    }
}

/// The serving end of a member made by [`crate::Io::serve_member`]. Several tasks may take requests from it. Once it is dropped
/// the member is gone: what it was asked, and not yet served, fails with [`OpError::Gone`].
pub struct Served {
    pub(crate) core: Rc<Core>,
    pub(crate) member: MemberId,
}

impl Served {
    /// The member's number, to be given to the array above.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// The next request, in the order of their coming.
    pub async fn next(&self) -> ServedRequest {
        let key = poll_fn(|_| {
            let mut served = self.core.served.borrow_mut();
            let queue = &mut served.0[(self.member.0 & !SERVED) as usize];
            match queue.waiting.pop_front() {
                Some(key) => Poll::Ready(key),
                None => {
                    let task = self.core.scheduler.current();
                    if !queue.idle.contains(&task) {
                        queue.idle.push(task);
                    }
                    Poll::Pending
                }
            }
        })
        .await;
        let table = self.core.table.borrow();
        let op = ServedOp { kind: table.view(key).kind, slices: table.slices(key) };
        drop(table);
        ServedRequest { core: Rc::clone(&self.core), key, op: Some(op), len: 0, answered: false }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let waiting = self.core.served.borrow_mut().close(self.member);
        for key in waiting {
            self.core.complete(Completion { key, result: Err(OpError::Gone) });
        }
    }
}

/// A request to a served member. Dropping it unanswered answers that it was cancelled.
pub struct ServedRequest {
    core: Rc<Core>,
    key: OpKey,
    op: Option<ServedOp>,
    len: u64,
    answered: bool,
}

impl ServedRequest {
    /// Takes what is asked. A second call gives nothing.
    pub fn take(&mut self) -> Option<ServedOp> {
        let op = self.op.take()?;
        self.len = op.slices.iter().map(|slice| slice.len() as u64).sum();
        Some(op)
    }

    /// Answers: all was done, or why not.
    pub fn complete(mut self, result: Result<(), OpError>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<(), OpError>) {
        if core::mem::replace(&mut self.answered, true) {
            return;
        }
        self.op = None;
        self.core.complete(Completion { key: self.key, result: result.map(|()| self.len) });
    }
}

impl Drop for ServedRequest {
    fn drop(&mut self) {
        self.finish(Err(OpError::Cancelled));
    }
}
