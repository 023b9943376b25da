//! Reads spread over the copies.

use brindle_io::sync::join_all;
use brindle_io::{Duration, Instant, Slice};
use brindle_layout::Level;
use brindle_members::door::Done;
use brindle_volume::{VolumeError, stretches};

use super::read_errors::{Suspects, suspects};
use super::{Mirror, Readable};
use crate::config::ReadPolicy;

/// Reads of at least twice this are split over copies, into parts of at least this. Bytes.
pub(super) const PART: usize = 64 << 10;
/// The fixed cost of an operation, expressed in bytes: about what a fast device transfers in the time of its latency.
pub(super) const OPERATION: u64 = 32 << 10;

impl Mirror {
    #[inline]
    pub(crate) async fn read(&self, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let [into] = into else {
            // Each by itself, from whichever copy is the least busy.
            let reads = stretches(offset, into).filter(|(_, slice)| !slice.is_empty());
            let reads = reads.map(|(at, slice)| self.read_slice(at, slice));
            return Box::pin(join_all(reads)).await.into_iter().collect();
        };
        self.read_slice(offset, into).await
    }

    #[inline]
    async fn read_slice(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let first = self.map.locate(offset, 0);
        if into.len() >= 2 * PART || first.len < into.len() as u64 {
            return self.read_split(offset, into).await;
        }
        let Some(copy) = self.choose(offset, into.len()) else { return Err(VolumeError::TooManyLost) };
        let (role, cost) = (copy.extent.member, self.work(into.len()));
        if self.core.members.is_avoided(role) {
            // A slow member keeps the memory, and one that lags behind has old data: no other copy may be read.
            return Box::pin(self.read_carefully(offset, into, &Suspects::new())).await;
        }
        let load = &self.load[usize::from(role)];
        load.set(load.get() + cost);
        let began = self.paces.is_due(role).then(|| self.core.io.moment());
        let outcome = self.ask_copy(&copy, into).await;
        load.set(load.get() - cost);
        if let Some(began) = began.filter(|_| outcome.is_ok()) {
            self.note_pace(role, into.len(), began);
        }
        if outcome.is_ok() {
            return Ok(());
        }
        if let Some(error) = self.core.error_if_pinned(into, &outcome) {
            return Err(error);
        }
        Box::pin(self.read_carefully(offset, into, &suspects(&outcome))).await
    }

    #[inline(always)]
    async fn ask_copy(&self, copy: &Readable, into: &Slice) -> Done {
        let (door, offset) = (self.door(), copy.extent.offset);
        if !door.reads_one_alone(into) {
            let mut ops = door.ask();
            ops.read(copy.device, offset, into);
            return Box::pin(ops.submit()).await;
        }
        let mut ops = door.alone();
        ops.read(copy.device, offset, into, 0, into.len());
        let (pending, asked) = ops.submit();
        let outcome = pending.await;
        if asked.is_well(&self.core, &outcome) { Done::default() } else { door.done(asked, &outcome) }
    }

    /// Whether only the first readable copy may answer: the others are not known to be the same.
    #[inline]
    pub(super) fn is_pinned(&self, offset: u64, len: u64) -> bool {
        let end = offset + len;
        end > self.core.keeper.synced_to() && !self.core.keeper.is_in_sync(&(offset..end))
    }

    /// The copy that is to answer a read within one extent.
    #[inline]
    pub(super) fn choose(&self, offset: u64, len: usize) -> Option<Readable> {
        if self.is_pinned(offset, len as u64) {
            return self.copies_in_doubt(offset, len as u64).first().copied();
        }
        let copies = self.readable_copies(offset, len as u64);
        let policy = self.core.config.read_policy;
        let mostly = |copy: &Readable| self.paces.is_write_mostly(copy.extent.member);
        if policy == ReadPolicy::First {
            return copies.min_by_key(mostly);
        }
        let count = self.map.copies();
        let turn = (self.turn.get() + 1) % count;
        self.turn.set(turn);
        let rank = |copy: &Readable| (copy.copy + count - turn) % count;
        if policy != ReadPolicy::LeastOutstanding {
            if self.chooses_as_md() {
                drop(copies);
                return self.choose_as_md(offset, len);
            }
            let slow = |copy: &Readable| self.core.members.is_slow(copy.extent.member);
            return copies.min_by_key(|copy| (slow(copy), mostly(copy), rank(copy)));
        }
        if !self.paces.are_even() {
            drop(copies);
            return self.choose_by_pace(offset, len, rank);
        }
        copies.min_by_key(|copy| {
            let role = copy.extent.member;
            (self.core.members.is_slow(role), self.load[usize::from(role)].get(), rank(copy))
        })
    }

    /// The work that a read adds to the load of its member.
    #[inline]
    pub(super) fn work(&self, len: usize) -> u64 {
        let [byte, operation] = self.work;
        len as u64 * byte + operation
    }

    /// Whether copies are chosen as md does: no read is split, and the first of equal ones is taken.
    pub(super) fn chooses_as_md(&self) -> bool {
        matches!(self.core.config.read_policy, ReadPolicy::Nearest | ReadPolicy::FewestPending)
    }

    /// [`Mirror::choose`] as [`ReadPolicy::Nearest`] and [`ReadPolicy::FewestPending`] have it.
    #[cold]
    fn choose_as_md(&self, offset: u64, len: usize) -> Option<Readable> {
        let nearest = self.core.config.read_policy == ReadPolicy::Nearest;
        let ended = |copy: &Readable| self.sent_to[usize::from(copy.extent.member)].get();
        let rank = |copy: &Readable| match self.load[usize::from(copy.extent.member)].get() {
            0 => (0, 0),
            _ if nearest => (1, copy.extent.offset.abs_diff(ended(copy))),
            pending => (pending, 0),
        };
        let goes_on =
            |copy: &Readable| self.geometry.level() == Level::Raid1 && ended(copy) == copy.extent.offset;
        // The first of equal ones.
        let chosen = self.readable_copies(offset, len as u64).min_by_key(|copy| {
            let role = copy.extent.member;
            let apart = (self.core.members.is_slow(role), self.paces.is_write_mostly(role));
            (apart, !goes_on(copy), rank(copy))
        })?;
        self.sent_to[usize::from(chosen.extent.member)].set(chosen.extent.offset + len as u64);
        Some(chosen)
    }

    /// [`Mirror::choose`] where members are slow, or write-mostly: work in flight counts as many times as they take longer, and each is
    /// asked again now and then.
    #[cold]
    fn choose_by_pace(&self, offset: u64, len: usize, rank: impl Fn(&Readable) -> u16) -> Option<Readable> {
        if let Some(again) = self.copy_to_ask_again(offset, len) {
            return Some(again);
        }
        let least = self.least_latency(offset, len as u64);
        let cost = |copy: &Readable| {
            let role = copy.extent.member;
            let work = self.load[usize::from(role)].get() + self.work(len);
            work.saturating_mul(self.paces.weight(role, least))
        };
        let slow = |copy: &Readable| self.core.members.is_slow(copy.extent.member);
        let copies = self.readable_copies(offset, len as u64);
        let mostly = |copy: &Readable| self.paces.is_write_mostly(copy.extent.member);
        copies.min_by_key(|copy| (slow(copy), mostly(copy), cost(copy), rank(copy)))
    }

    /// A copy on a slow member that has not been asked for long: it may have recovered.
    pub(super) fn copy_to_ask_again(&self, offset: u64, len: usize) -> Option<Readable> {
        let (least, now) = (self.least_latency(offset, len as u64), self.core.io.moment());
        let due = |copy: &Readable| {
            let role = copy.extent.member;
            self.paces.weight(role, least) > 1
                && !self.paces.is_write_mostly(role)
                && !self.core.members.is_slow(role)
                && self.paces.ask_again(role, now)
        };
        self.readable_copies(offset, len as u64).find(due)
    }

    /// The shortest latency that is known of the copies of a range; 0 if none is.
    pub(super) fn least_latency(&self, offset: u64, len: u64) -> u64 {
        let latencies = self.readable_copies(offset, len).map(|copy| self.paces.latency(copy.extent.member));
        latencies.filter(|&latency| latency > 0).min().unwrap_or(0)
    }

    /// A measured read has been answered.
    #[cold]
    pub(super) fn note_pace(&self, role: u16, len: usize, began: Instant) {
        self.paces.answered(role, len, began, self.core.io.moment(), |role| self.is_asked(role));
    }

    /// Reads of a role's member were given up, the oldest of which had waited for `age`.
    pub(crate) fn note_given_up(&self, role: u16, age: Duration) {
        self.paces.given_up(role, age, self.core.io.moment(), |role| self.is_asked(role));
    }

    fn is_asked(&self, role: u16) -> bool {
        self.core.members.readable(role, 0).is_some()
    }
}
