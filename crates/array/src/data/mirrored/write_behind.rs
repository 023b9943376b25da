//! Writes to members that are write-mostly and may lag behind: the client gets its answer as soon as all other
//! members have taken the write. This is md's write-behind, of RAID 1 with a write-intent bitmap whose superblock
//! limits the number of such writes.
//!
//! - The write goes on in a task of its own, from a copy. It holds its range, its bits and the dirty mark until all
//!   members have taken it. So a crash leaves its bits set, and later writes, repairs and comparisons of the range
//!   wait for it.
//! - Each counts from its beginning. One that comes while there are too many, or no memory is left for copies, does not lag, as
//!   with md: it ends when all members have it.
//! - Nothing is read from such a member while it lags anywhere, but by way of the range's lock: there it has caught up.
//! - A flush waits for all that lag, and a write that is to be stable does not lag (md waits for neither): what was flushed is on
//!   every member, should one be lost with the machine. Meanwhile nothing more begins to lag, so that a flush comes to its end.
//! - A member that does not take a lagging write fails, also for lack of space, since the write was acknowledged. If
//!   the array can't do without the member, that range is not read from it any more.
//! - Where copies are not known to agree, no write lags: the first of them answers there. Nor does one while writes that were
//!   given up may still land on a member, since that would be failed for them.

use core::cell::Cell;
use core::ops::Range;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Io, Slice};
use brindle_members::door::Done;
use brindle_members::lock::Hold;
use brindle_members::members::Members;
use brindle_volume::VolumeError;

use super::Mirror;

/// Counts of the writes that lag behind on write-mostly members.
pub(super) struct WriteBehind {
    /// The limit of such writes; 0: none.
    most: Cell<u32>,
    /// Writes that may lag behind, whether they do already or not.
    leaves: Cell<u32>,
    /// Writes that lag: their clients have got an answer.
    lagging: Cell<u32>,
    /// The most that ever did at once.
    most_lagging: Cell<u32>,
    /// Tasks that wait until no write lags.
    waiting: Cell<u32>,
    changed: Notify,
}

/// The result for the client that asked for a write: set once, as soon as it is known.
pub(crate) struct ClientAnswer {
    answer: Cell<Option<Result<(), VolumeError>>>,
    changed: Notify,
}

/// Leave of a write to lag: it counts until this is dropped.
pub(crate) struct Leave(Rc<WriteBehind>);

/// A write that lags, until it has ended.
struct Lagging<'a> {
    mirror: &'a Mirror,
    roles: u64,
}

impl WriteBehind {
    pub(super) fn new(io: &Io) -> Rc<Self> {
        Rc::new(Self {
            most: Cell::new(0),
            leaves: Cell::new(0),
            lagging: Cell::new(0),
            most_lagging: Cell::new(0),
            waiting: Cell::new(0),
            changed: Notify::new(io),
        })
    }

    pub(super) fn set_most(&self, most: u32) {
        self.most.set(most);
    }
}

impl ClientAnswer {
    pub(crate) fn new(io: &Io) -> Self {
        Self { answer: Cell::new(None), changed: Notify::new(io) }
    }

    /// Only the first answer counts.
    pub(crate) fn tell(&self, answer: Result<(), VolumeError>) {
        self.answer.set(self.answer.get().or(Some(answer)));
        self.changed.notify();
    }

    pub(crate) async fn answer(&self) -> Result<(), VolumeError> {
        self.changed.until(|| self.answer.get()).await
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leaves.set(self.0.leaves.get() - 1);
    }
}

impl<'a> Lagging<'a> {
    fn begin(mirror: &'a Mirror, roles: u64) -> Self {
        let WriteBehind { lagging, most_lagging, .. } = &*mirror.behind;
        lagging.set(lagging.get() + 1);
        most_lagging.set(most_lagging.get().max(lagging.get()));
        each(roles, |role| mirror.core.members.count_write_behind(role, true));
        Self { mirror, roles }
    }
}

impl Drop for Lagging<'_> {
    fn drop(&mut self) {
        let behind = &self.mirror.behind;
        behind.lagging.set(behind.lagging.get() - 1);
        each(self.roles, |role| self.mirror.core.members.count_write_behind(role, false));
        behind.changed.notify();
    }
}

/// Roles as bits; no more than the first 64 lag.
fn each(roles: u64, then: impl Fn(u16)) {
    (0..64).filter(|role| roles & 1 << role != 0).for_each(then);
}

impl Mirror {
    /// Whether some writes may lag on some members.
    #[inline]
    pub(crate) fn allows_write_behind(&self) -> bool {
        self.behind.most.get() > 0
    }

    /// Writes that lag, and the most that ever did at once.
    pub(crate) fn lagging(&self) -> (u32, u32) {
        (self.behind.lagging.get(), self.behind.most_lagging.get())
    }

    /// Leave for one more write to lag.
    pub(crate) fn permit_write_behind(&self) -> Option<Leave> {
        let behind = &self.behind;
        let few = behind.leaves.get() < behind.most.get();
        if !few || behind.waiting.get() > 0 || self.core.members.first_with_orphans().is_some() {
            return None;
        }
        behind.leaves.set(behind.leaves.get() + 1);
        Some(Leave(Rc::clone(behind)))
    }

    /// Writes a copy of its own to all members. Sets `answer` once the members that are not write-mostly have taken it,
    /// if their success suffices; else at the end.
    pub(crate) async fn write_behind(
        &self,
        offset: u64,
        copy: &Slice,
        answer: &ClientAnswer,
    ) -> Result<(), VolumeError> {
        let range = offset..offset + copy.len() as u64;
        let _writing = self.core.begin(offset, copy.len() as u64).await?;
        let _held = self.locks.acquire(range.clone(), Hold::Exclusive).await;
        let (mut first, mut rest, mut roles) = (self.ask(), self.ask(), 0);
        for number in 0..self.map.copies() {
            let extent = self.map.locate(offset, number);
            let Some(device) = self.core.members.writable(extent.member) else { continue };
            if self.paces.is_write_mostly(extent.member) && extent.member < 64 {
                rest.write(device, extent.offset, copy, false);
                roles |= 1 << extent.member;
            } else {
                first.write(device, extent.offset, copy, false);
            }
        }
        if first.is_empty() {
            // No member would take it at once, since all of them are write-mostly.
            core::mem::swap(&mut first, &mut rest);
        }
        if first.is_empty() {
            return Err(VolumeError::TooManyLost);
        }
        let may_lag = !rest.is_empty() && !self.is_pinned(offset, copy.len() as u64);
        let first = first.submit();
        let rest = (!rest.is_empty()).then(|| rest.submit());
        let first = first.await;
        match rest {
            Some(rest) if may_lag && self.may_answer(&first, &range).await => {
                let _lagging = Lagging::begin(self, roles);
                answer.tell(Ok(()));
                self.fail_those_that_lagged(&rest.await, &range).await;
            }
            Some(rest) => {
                let all = Done::of_all([first, rest.await]);
                self.core.settle_range(&all, false, range.clone()).await?;
            }
            None => self.core.settle_range(&first, false, range.clone()).await?,
        }
        if range.end > self.core.keeper.synced_to() {
            self.core.keeper.note_in_sync(range, false);
        }
        Ok(())
    }

    /// Whether success may be acknowledged, now that the members that are not write-mostly have taken the write.
    async fn may_answer(&self, first: &Done, range: &Range<u64>) -> bool {
        first.is_ok()
            && self.core.settle_range(first, false, range.clone()).await.is_ok()
            && self.behind.waiting.get() == 0
    }

    /// Fails the members that did not take their lagging writes. The failure is on record when this returns.
    async fn fail_those_that_lagged(&self, done: &Done, range: &Range<u64>) {
        let members: &Members = &self.core.members;
        for refused in done.refused().iter().filter(|refused| refused.is_of(members)) {
            match self.core.begin_failing(refused.role, refused.into(), false) {
                // A failure to record closes the array; the next write or flush gets the error.
                Ok(recording) => drop(recording.await),
                // The member's copy of the range is older than the acknowledged data; its other bytes can still be
                // served.
                Err(_) => members.add_bad(refused.role, range.clone()),
            }
        }
        let _recorded = self.core.keeper.failures_recorded().await;
    }

    /// Waits until no member lags behind.
    pub(crate) async fn caught_up(&self) {
        let behind = &self.behind;
        behind.waiting.set(behind.waiting.get() + 1);
        let _waiting = Waiting(behind);
        behind.changed.until(|| (behind.lagging.get() == 0).then_some(())).await;
    }
}

/// Makes new writes wait instead of lagging, as long as this lives: a task waits until no write lags.
struct Waiting<'a>(&'a WriteBehind);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}
