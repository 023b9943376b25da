//! Groups: a fan-out of operations with one countdown and one awakening.

use core::cell::RefMut;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use crate::buf::Slice;
use crate::core::Core;
use crate::loans::Question;
use crate::op::{Failure, MemberId, OpClass, OpError, OpKind, OpTag, Owner};
use crate::table::{Failures, Table, Way};
use crate::time::Instant;

/// A group's place in the op table, from its beginning to the taking of its result.
///
/// Two words, that travel in registers; a third was a detour by way of memory.
struct Ticket {
    core: Rc<Core>,
    /// The group's number, or [`TAKEN`].
    id: u32,
}

/// The id of a ticket whose result has been given.
const TAKEN: u32 = u32::MAX;

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        if self.id != TAKEN {
            self.abandon();
        }
    }
}

impl Ticket {
    // Out of line, so that what is left of dropping one is in line.
    #[cold]
    #[inline(never)]
    fn abandon(&self) {
        self.core.table.borrow_mut().abandon(self.id);
    }
}

/// Operations that are sent together and awaited as one. Built, then [`Group::submit`]ted.
///
/// Reads (and writes) that continue the group's last one on the same member byte after byte become one operation with
/// several stretches of memory: a large request costs one operation per member.
pub struct Group(Ticket);

impl Group {
    #[inline(always)] // else a ticket comes back in memory
    pub(crate) fn new(core: &Rc<Core>, class: OpClass, owner: Owner) -> Self {
        let id = core.table.borrow_mut().begin_group(class, owner);
        Self(Ticket { core: Rc::clone(core), id })
    }

    #[inline]
    fn table(&self) -> RefMut<'_, Table> {
        self.0.core.table.borrow_mut()
    }

    /// Fills `into` from the member's bytes at `offset`.
    #[inline(always)]
    pub fn read(&mut self, member: MemberId, offset: u64, into: &Slice) -> OpTag {
        self.table().transfer(self.0.id, Way::Read, member, offset, &into.buf, into.extent())
    }

    /// Fills `len` bytes of `into` from its byte `start` on. Costs no handle of its own, as a slice of it would.
    ///
    /// # Panics
    /// If they are not within the slice.
    #[inline(always)]
    pub fn read_part(
        &mut self,
        member: MemberId,
        offset: u64,
        into: &Slice,
        start: usize,
        len: usize,
    ) -> OpTag {
        self.table().transfer(self.0.id, Way::Read, member, offset, &into.buf, into.part(start, len))
    }

    /// Writes `from` to the member at `offset`; with `fua`, to stable storage.
    #[inline(always)]
    pub fn write(&mut self, member: MemberId, offset: u64, from: &Slice, fua: bool) -> OpTag {
        self.table().transfer(self.0.id, Way::of_write(fua), member, offset, &from.buf, from.extent())
    }

    /// Writes a part of `from`, as [`Group::read_part`] reads.
    ///
    /// # Panics
    /// If they are not within the slice.
    #[inline(always)]
    pub fn write_part(
        &mut self,
        member: MemberId,
        offset: u64,
        from: &Slice,
        start: usize,
        len: usize,
        fua: bool,
    ) -> OpTag {
        self.table().transfer(self.0.id, Way::of_write(fua), member, offset, &from.buf, from.part(start, len))
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

    pub(crate) fn probe(&mut self, member: MemberId) {
        self.plain(OpKind::Probe { member });
    }

    pub(crate) fn map(&mut self, member: MemberId, offset: u64, len: u64) {
        self.plain(OpKind::Map { member, offset, len });
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
            table.add_memory(key, &slice.buf, slice.extent());
        }
    }

    pub(crate) fn ask(&mut self, fills: bool, memory: &[Slice]) {
        self.socket(OpKind::Ask { fills }, memory);
    }

    /// Sends the group's question to another executor.
    pub(crate) fn submit_to(self, to: usize, question: Question) -> Pending {
        self.0.core.launch_to(self.0.id, to, question);
        Pending(self.0)
    }

    /// The operations of the group so far, with the memory of transfers; merged ones count once.
    pub fn asked(&self) -> Vec<(OpKind, Vec<Slice>)> {
        let table = self.0.core.table.borrow();
        let op = |&key: &_| (table.view(key).kind, table.slices(key));
        table.ops(self.0.id).iter().map(op).collect()
    }

    /// Operations in the group; merged ones count once.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.core.table.borrow().ops(self.0.id).len()
    }

    /// No operation has been added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends all operations. The future is done when the last has completed; dropping it does not call them off, and
    /// their buffers stay held until they have completed.
    #[inline(always)] // the call within is enough
    pub fn submit(self) -> Pending {
        self.0.core.launch(self.0.id, None);
        Pending(self.0)
    }

    /// Like [`Group::submit`], but whatever has not completed at `until` is given up: it fails with
    /// [`OpError::TimedOut`], the group is done, and the operation goes on as an orphan that nobody waits for.
    ///
    /// An orphan keeps its memory as any operation does, until the device is through with it: an orphaned read may
    /// still fill the buffer, and looking at it panics. Who tries again takes other memory, and lets go of this one;
    /// a pool gives it out again when the orphan has ended. The late answer is counted and never carried on.
    ///
    /// Only time in which this executor ran counts: while the process is stopped no deadline comes nearer.
    #[inline]
    pub fn submit_by(self, until: Instant) -> Pending {
        self.0.core.launch(self.0.id, Some(until));
        Pending(self.0)
    }
}

/// A submitted group.
#[must_use = "a group's failures are known only to whom awaits it"]
pub struct Pending(Ticket);

impl Pending {
    /// Whether an operation of the group has failed so far. The others may still be under way.
    ///
    /// # Panics
    /// If the group's outcome was already given.
    #[inline]
    pub fn failed_early(&self) -> bool {
        assert!(self.0.id != TAKEN, "a group's result is given once");
        !self.0.core.table.borrow().failures(self.0.id).is_empty()
    }

    /// The failures known so far, in the order in which they came.
    ///
    /// # Panics
    /// If the group's outcome was already given.
    pub fn failures_so_far(&self) -> Vec<Failure> {
        assert!(self.0.id != TAKEN, "a group's result is given once");
        self.0.core.table.borrow().failures(self.0.id).to_vec()
    }

    /// Waits for the group's failure number `n`, from 0 in the order in which they come; `None` once the group is done
    /// with fewer. The group can be awaited after it.
    ///
    /// # Panics
    /// If the group's outcome was already given.
    pub async fn nth_failure(&mut self, n: usize) -> Option<Failure> {
        let Ticket { core, id } = &self.0;
        assert!(*id != TAKEN, "a group's result is given once");
        core::future::poll_fn(|_| {
            let mut table = core.table.borrow_mut();
            let failure = table.failures(*id).get(n).copied();
            if failure.is_some() || table.is_done(*id) {
                return Poll::Ready(failure);
            }
            table.wait_as(*id, core.scheduler.current());
            Poll::Pending
        })
        .await
    }
}

impl Future for Pending {
    type Output = Outcome;
    // A group is polled twice at least: a call of its own would be a twentieth of what a 4K read costs.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let Ticket { core, id } = &mut self.0;
        // The number may be another group's by now.
        assert!(*id != TAKEN, "a group's result is given once");
        let mut table = core.table.borrow_mut();
        if table.waits(*id, core.scheduler.current()) {
            return Poll::Pending;
        }
        let (failures, value) = table.take(*id);
        *id = TAKEN;
        Poll::Ready(Outcome { failures, value })
    }
}

/// The result of a group.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    failures: Failures,
    value: u64,
}

impl Outcome {
    /// Every operation succeeded, all its bytes moved.
    #[inline]
    pub fn is_ok(&self) -> bool {
        self.failures.is_none()
    }

    /// The operations that failed, in the order in which they did.
    pub fn failures(&self) -> &[Failure] {
        self.failures.as_ref().map_or(&[], |failures| failures)
    }

    /// The first failure as an error, for groups in which each must succeed.
    ///
    /// # Errors
    /// The first operation's that failed.
    pub fn ok(&self) -> Result<(), OpError> {
        self.failures().first().map_or(Ok(()), |failure| Err(failure.error))
    }

    pub(crate) fn value(&self) -> Result<u64, OpError> {
        self.ok().map(|()| self.value)
    }
}
