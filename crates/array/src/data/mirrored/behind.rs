//! Writes to members that are write-mostly and may lag behind: whoever asked is told as soon as all others have taken the write
//! (md's write-behind, of RAID 1 with a write-intent bitmap whose superblock says how many writes may be under way so).
//!
//! - The write goes on in a task of its own, from a copy. It holds its range, its bits and the dirty mark until all members have
//!   taken it: a crash leaves bits set, and whoever writes there next, mends or compares waits.
//! - Nothing is read from such a member while it lags anywhere, but by way of the range's lock: there it has caught up.
//! - A flush waits for all that lag, and a write that is to be stable does not lag (md waits for neither): what was flushed is on
//!   every member, should one be lost with the machine. No new write lags meanwhile, so that a flush comes to its end.
//! - A member that does not take what it lagged with fails, also for want of room: it was promised.
//! - Where copies are not known to agree, no write lags: the first of them answers there.

use core::cell::Cell;

use brindle_io::sync::Event;
use brindle_io::{Io, Slice};
use brindle_volume::VolumeError;

use super::Mirror;
use crate::data::lock::Hold;
use crate::door::Done;
use crate::members::Members;

/// Bytes of copies that may be under way: of an array, whatever the number of writes.
const MOST_BYTES: u64 = 4 << 20;

/// What lags in an array.
pub(super) struct Behind {
    /// Writes that may; 0 if none.
    most: Cell<u32>,
    writes: Cell<u32>,
    bytes: Cell<u64>,
    /// Who waits until nothing does.
    waiting: Cell<u32>,
    changed: Event,
}

/// What whoever asked for a write is told: once, when it is known.
pub(crate) struct Told {
    told: Cell<Option<Result<(), VolumeError>>>,
    changed: Event,
}

/// A write that may lag, until it has ended.
struct Lagging<'a> {
    mirror: &'a Mirror,
    roles: u64,
    bytes: u64,
}

impl Behind {
    pub(super) fn new(io: &Io) -> Self {
        Self {
            most: Cell::new(0),
            writes: Cell::new(0),
            bytes: Cell::new(0),
            waiting: Cell::new(0),
            changed: Event::new(io),
        }
    }

    pub(super) fn set_most(&self, most: u32) {
        self.most.set(most);
    }
}

impl Told {
    pub(crate) fn new(io: &Io) -> Self {
        Self { told: Cell::new(None), changed: Event::new(io) }
    }

    /// Only the first answer counts.
    pub(crate) fn tell(&self, answer: Result<(), VolumeError>) {
        self.told.set(self.told.get().or(Some(answer)));
        self.changed.notify();
    }

    pub(crate) async fn answer(&self) -> Result<(), VolumeError> {
        self.changed.until(|| self.told.get()).await
    }
}

impl<'a> Lagging<'a> {
    /// Members of these roles lag with so many bytes.
    fn begin(mirror: &'a Mirror, roles: u64, bytes: u64) -> Self {
        let behind = &mirror.behind;
        behind.writes.set(behind.writes.get() + 1);
        behind.bytes.set(behind.bytes.get() + bytes);
        each(roles, |role| mirror.core.members.lags(role, true));
        Self { mirror, roles, bytes }
    }
}

impl Drop for Lagging<'_> {
    fn drop(&mut self) {
        let behind = &self.mirror.behind;
        behind.writes.set(behind.writes.get() - 1);
        behind.bytes.set(behind.bytes.get() - self.bytes);
        each(self.roles, |role| self.mirror.core.members.lags(role, false));
        behind.changed.notify();
    }
}

/// Roles as bits; no more than the first 64 lag.
fn each(roles: u64, then: impl Fn(u16)) {
    (0..64).filter(|role| roles & 1 << role != 0).for_each(then);
}

impl Mirror {
    /// Whether a write of so many bytes, which need not be stable when it ends, may lag on some members.
    #[inline]
    pub(crate) fn may_lag(&self, len: u64, fua: bool) -> bool {
        self.behind.most.get() > 0 && !fua && self.has_room_to_lag(len)
    }

    #[cold]
    fn has_room_to_lag(&self, len: u64) -> bool {
        let behind = &self.behind;
        let few = behind.writes.get() < behind.most.get() && behind.bytes.get() + len <= MOST_BYTES;
        few && behind.waiting.get() == 0 && len > 0
    }

    /// Writes a copy of its own to all members. `told` is told when those that are not write-mostly have taken it, if that will do,
    /// else at the end.
    pub(crate) async fn write_behind(
        &self,
        offset: u64,
        copy: &Slice,
        told: &Told,
    ) -> Result<(), VolumeError> {
        let end = offset + copy.len() as u64;
        let _writing = self.core.begin(offset, end - offset).await?;
        let _held = self.locks.acquire(offset..end, Hold::Exclusive).await;
        let (mut first, mut rest, mut lagging) = (self.ask(), self.ask(), 0);
        for number in 0..self.map.copies() {
            let extent = self.map.locate(offset, number);
            let Some(device) = self.core.members.writable(extent.member) else { continue };
            if self.paces.is_write_mostly(extent.member) && extent.member < 64 {
                rest.write(device, extent.offset, copy, false);
                lagging |= 1 << extent.member;
            } else {
                first.write(device, extent.offset, copy, false);
            }
        }
        if first.is_empty() {
            // Nobody takes it at once.
            core::mem::swap(&mut first, &mut rest);
        }
        if first.is_empty() {
            return Err(VolumeError::TooManyLost);
        }
        let may_lag = !rest.is_empty() && !self.is_pinned(offset, end - offset);
        let first = first.submit();
        let rest = (!rest.is_empty()).then(|| rest.submit());
        let first = first.await;
        match rest {
            Some(rest)
                if may_lag
                    && first.is_ok()
                    && self.core.settle_range(&first, false, offset..end).await.is_ok() =>
            {
                let _lagging = Lagging::begin(self, lagging, end - offset);
                told.tell(Ok(()));
                self.fail_those_that_lagged(&rest.await).await;
            }
            Some(rest) => {
                let all = Done::of_all([first, rest.await]);
                self.core.settle_range(&all, false, offset..end).await?;
            }
            None => self.core.settle_range(&first, false, offset..end).await?,
        }
        if end > self.core.keeper.synced_to() {
            self.core.keeper.made_true(offset..end, false);
        }
        Ok(())
    }

    /// Those that did not take what they lagged with are out of use; that is on record when this returns.
    async fn fail_those_that_lagged(&self, done: &Done) {
        let members: &Members = &self.core.members;
        for refused in done.refused().iter().filter(|refused| refused.is_of(members)) {
            if let Ok(recording) = self.core.begin_failing(refused.role, refused.into(), false) {
                // A failure to record closes the array, and is told to whoever writes or flushes next.
                let _recorded = recording.await;
            }
        }
        let _recorded = self.core.keeper.failures_recorded().await;
    }

    /// Waits until no member lags behind.
    pub(crate) async fn caught_up(&self) {
        let behind = &self.behind;
        if behind.writes.get() == 0 {
            return;
        }
        behind.waiting.set(behind.waiting.get() + 1);
        let _waiting = Waiting(behind);
        behind.changed.until(|| (behind.writes.get() == 0).then_some(())).await;
    }
}

/// Somebody waits until nothing lags, as long as this lives.
struct Waiting<'a>(&'a Behind);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}
