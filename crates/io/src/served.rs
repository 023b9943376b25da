//! Members that tasks of this process serve: how an array becomes a member of another array.

use core::future::poll_fn;
use core::task::Poll;
use std::rc::Rc;

use crate::core::Core;
use crate::op::{Completion, MemberId, OpError, OpKey, ServedId, ServedOp};

/// The serving end of a member made by [`crate::Io::serve_member`]. Several tasks may take requests from it. Once it is dropped
/// the member is gone: what it was asked, and not yet served, fails with [`OpError::Gone`].
pub struct Served {
    pub(crate) core: Rc<Core>,
    pub(crate) id: ServedId,
}

impl Served {
    /// The member's number, to be given to the array above.
    pub fn member(&self) -> MemberId {
        MemberId::served(self.id)
    }

    /// The next request, in the order of their coming.
    pub async fn next(&self) -> ServedRequest {
        let key = poll_fn(|_| {
            let task = self.core.scheduler.current();
            self.core.served.borrow_mut().pop(self.id, task).map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let table = self.core.table.borrow();
        let view = table.view(key);
        let op = ServedOp { kind: view.kind, slices: table.slices(key), class: view.class };
        drop(table);
        ServedRequest { core: Rc::clone(&self.core), key, op: Some(op), len: 0, answered: false }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let waiting = self.core.served.borrow_mut().close(self.id);
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
    /// Takes the operation. A second call gives nothing.
    pub fn take(&mut self) -> Option<ServedOp> {
        let op = self.op.take()?;
        self.len = op.slices.iter().map(|slice| slice.len() as u64).sum();
        Some(op)
    }

    /// Answers: all was done, or why not.
    pub fn complete(mut self, result: Result<(), OpError>) {
        self.finish(result);
    }

    /// Answers a question: with the value of its completion, or why there is none.
    pub fn tell(mut self, result: Result<u64, OpError>) {
        self.len = *result.as_ref().unwrap_or(&0);
        self.finish(result.map(|_| ()));
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
