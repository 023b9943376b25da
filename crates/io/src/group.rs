//! Groups: a fan-out of operations with one countdown and one awakening.

use core::cell::RefMut;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::buf::Slice;
use crate::exec::Io;
use crate::op::{Failure, MemberId, OpError, OpKind, OpTag};
use crate::table::Table;

/// A group's place in the op table, from its beginning to the taking of its result.
struct Ticket {
    io: Io,
    id: u32,
    taken: bool,
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        if !self.taken {
            self.io.0.table.borrow_mut().abandon(self.id);
        }
    }
}

/// Operations that are sent together and awaited as one. Built, then [`Group::submit`]ted.
///
/// Reads (and writes) that continue the group's last one on the same member byte after byte become one operation with
/// several stretches of memory: a large request costs one operation per member.
pub struct Group(Ticket);

impl Group {
    #[inline]
    pub(crate) fn new(io: Io) -> Self {
        let id = io.0.table.borrow_mut().begin_group();
        Self(Ticket { io, id, taken: false })
    }

    #[inline]
    fn table(&self) -> RefMut<'_, Table> {
        self.0.io.0.table.borrow_mut()
    }

    /// Fills `into` from the member's bytes at `offset`.
    #[inline]
    pub fn read(&mut self, member: MemberId, offset: u64, into: &Slice) -> OpTag {
        self.table().transfer(self.0.id, OpKind::Read { member, offset }, into)
    }

    /// Writes `from` to the member at `offset`; with `fua`, to stable storage.
    #[inline]
    pub fn write(&mut self, member: MemberId, offset: u64, from: &Slice, fua: bool) -> OpTag {
        self.table().transfer(self.0.id, OpKind::Write { member, offset, fua }, from)
    }

    /// Makes the member's completed writes stable.
    pub fn flush(&mut self, member: MemberId) -> OpTag {
        self.plain(OpKind::Flush { member })
    }

    /// Discards `len` bytes at `offset` of the member.
    pub fn discard(&mut self, member: MemberId, offset: u64, len: u64) -> OpTag {
        self.plain(OpKind::Discard { member, offset, len })
    }

    /// Makes `len` bytes at `offset` of the member read as zeroes.
    pub fn write_zeroes(&mut self, member: MemberId, offset: u64, len: u64, may_unmap: bool) -> OpTag {
        self.plain(OpKind::WriteZeroes { member, offset, len, may_unmap })
    }

    fn plain(&mut self, kind: OpKind) -> OpTag {
        let mut table = self.table();
        table.begin_op(self.0.id, kind);
        OpTag((table.ops(self.0.id).len() - 1) as u16)
    }

    pub(crate) fn socket(&mut self, kind: OpKind, memory: &[Slice]) {
        let mut table = self.table();
        let key = table.begin_op(self.0.id, kind);
        for slice in memory {
            table.add_memory(key, slice);
        }
    }

    /// Operations in the group; merged ones count once.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.io.0.table.borrow().ops(self.0.id).len()
    }

    /// No operation has been added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends all operations. The future is done when the last has completed; dropping it does not call them off, and
    /// their buffers stay held until they have completed.
    #[inline]
    pub fn submit(self) -> Pending {
        self.0.io.0.launch(self.0.id);
        Pending(self.0)
    }
}

/// A submitted group.
#[must_use = "a group's failures are known only to whom awaits it"]
pub struct Pending(Ticket);

impl Future for Pending {
    type Output = Outcome;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let Ticket { io, id, taken } = &mut self.0;
        // The number may be another group's by now.
        assert!(!*taken, "a group's result is given once");
        let mut table = io.0.table.borrow_mut();
        if !table.is_done(*id) {
            table.wait_as(*id, io.0.scheduler.current());
            return Poll::Pending;
        }
        let (failures, value) = table.take(*id);
        *taken = true;
        Poll::Ready(Outcome { failures, value })
    }
}

/// What became of a group.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    failures: Vec<Failure>,
    value: u64,
}

impl Outcome {
    /// Every operation succeeded, all its bytes moved.
    #[inline]
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// The operations that failed, in the order in which they did.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The first failure as an error, for groups in which each must succeed.
    ///
    /// # Errors
    /// The first operation's that failed.
    pub fn ok(&self) -> Result<(), OpError> {
        self.failures.first().map_or(Ok(()), |failure| Err(failure.error))
    }

    pub(crate) fn value(&self) -> Result<u64, OpError> {
        self.ok().map(|()| self.value)
    }
}
