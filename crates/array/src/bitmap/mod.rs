//! The write-intent bitmap of an array, in md's format (`docs/formats/bitmap.md`): which chunks may not agree after a crash.
//!
//! Invariants, at any moment of a crash:
//!
//! 1. The bit of a chunk stands on all members before one of them is sent a change of it. That includes members that
//!    are out of use, unless they are on record as lost: the next run may still find one of those in sync.
//! 2. A bit is cleared only after all members were flushed, in a chunk without a write under way when the flush began
//!    or since. The chunk's redundancy must be known true, and no member may be missing or being rebuilt. Before
//!    that, `events_cleared` is on record as the present event count: a member that has failed meanwhile and comes
//!    back is at least as old as its count says, and all that it lacks has its bit set.
//! 3. The bitmap's event count is on all members before a superblock of that count is on any. A bitmap whose count is
//!    less than the superblocks' is stale: a program that did not know of it has written to the array.
//! 4. Bits of chunks in doubt stay set: what a crash left is found after the next one.
//! 5. A device has all of the bitmap before a superblock calls it a member, or one that is being rebuilt (md's
//!    `md_bitmap_write_all`).
//! 6. A bitmap that is new has all of its bits set, and stands on all members before a superblock names it. Changes that began
//!    before it came are counted by none, so that no bit is cleared before they have ended. Of one that goes, bits are set as
//!    long as a superblock may name it; then nothing more of it is written, since another may come to stand there.
//! 7. Pages are written one flight after the other, each to all members: what a bit's page holds is known. Nothing more is
//!    written to a member in use on which a page that was given up may still land.
//!
//! A bitmap in a file is the same, but that the file is all that has it, and no member does: what is said above of all members is said
//! of the file. No superblock names it. So:
//!
//! 8. A file that can't be written to, has no room, is cut short or does not answer in time fails, and the array goes on without it
//!    (md's `md_bitmap_file_kick`). From then on the bits are kept in memory only; that counts once it is on record that they are: the
//!    superblocks' count is ahead of any that the file may have, so that the file is stale (3). Until then no bit becomes stable, and no
//!    change is sent that needs one. md does not wait for that.
//! 9. A bitmap that moves stands in its new place with all bits set, on record, before it stands for anything; until then the old one is
//!    kept as it was. Then bits are cleared that the old one had clear ([`Bitmap::takes_over`]).
//!
//! Members that differ after a crash differ only in bits that may be set or not: their bits are joined, and all are given
//! what came of it before anything else changes ([`read`](self::read)).

mod chunks;
mod counters;
mod file;
mod flight;
mod image;
mod new;
mod read;
mod space;

use core::cell::{Cell, RefCell};
use core::ops::Range;

use brindle_format::md::Superblock;
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpError, Pool, Slice};
use brindle_members::patience::Patience;

use crate::assembly::BitmapFile;
use chunks::Chunks;
pub(crate) use chunks::sync_len;
use counters::Counters;
use image::Image;
pub(crate) use new::{Beside, plan, plan_file, plan_head};
pub(crate) use read::Bits;

/// Chunks that are looked at at a time.
const LOOKED_AT: u64 = 1 << 16;

/// A device that has the bitmap.
#[derive(Clone, Copy)]
struct Target {
    id: MemberId,
    /// Byte of the device at which the bitmap's superblock stands.
    offset: u64,
}

/// The part that changes with each write.
struct Counted {
    counters: Counters,
    image: Image,
}

/// The bitmap of a running array.
pub struct Bitmap {
    io: Io,
    pool: Pool,
    patience: Patience,
    chunks: Chunks,
    state: RefCell<Counted>,
    targets: RefCell<Vec<Target>>,
    /// The file that has it, if no member does.
    file: Option<BitmapFile>,
    /// The last error from the bitmap file.
    refusal: Cell<Option<OpError>>,
    /// A flight is under way.
    flying: Cell<bool>,
    landed: Notify,
    /// All of it has been written once, or stood on all members.
    whole: Cell<bool>,
    /// A device that had the bitmap has been lost, and the next run may not know of that.
    absent: Cell<bool>,
    /// Pages that were given up, and may still land.
    lent: RefCell<Vec<(MemberId, Slice)>>,
    /// Pages written in this run, each to all members.
    written: Cell<u64>,
    /// No superblock names it any more: nothing of it is to be written.
    retired: Cell<bool>,
}

impl Bitmap {
    /// A change of a range of the array's bytes begins: counted from now on. True if all of its bits stand on all members;
    /// else they are set, and what is returned by [`Bitmap::is_on_record`] and [`Bitmap::fly`] tells when they do.
    #[inline]
    pub(crate) fn begins(&self, range: &Range<u64>) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut stable = true;
        for chunk in self.chunks.of_bytes(range) {
            state.counters.begin(chunk);
            stable &= state.image.is_stable(chunk);
        }
        stable
    }

    /// Sets the bits of the range: to be written.
    #[cold]
    pub(crate) fn set(&self, range: &Range<u64>) {
        self.state.borrow_mut().image.set(self.chunks.of_bytes(range));
    }

    /// The bits of the range stand on all members, or are not needed any more.
    pub(crate) fn is_on_record(&self, range: &Range<u64>) -> bool {
        if self.retired.get() {
            return true;
        }
        let state = self.state.borrow();
        self.chunks.of_bytes(range).all(|chunk| state.image.is_stable(chunk))
    }

    /// A change has ended.
    #[inline]
    pub(crate) fn ends(&self, range: &Range<u64>) {
        let state = &mut *self.state.borrow_mut();
        for chunk in self.chunks.of_bytes(range) {
            state.counters.end(chunk);
        }
    }

    /// The chunks whose bit is set and in which no write has been under way since the last round: another round begins.
    pub(crate) fn next_round(&self) -> Vec<u64> {
        let Counted { counters, image } = &mut *self.state.borrow_mut();
        let idle = image.set_chunks().filter(|&chunk| counters.is_idle(chunk)).collect();
        counters.next_round();
        idle
    }

    /// No write is under way in the chunk, nor has one begun since the round did.
    pub(crate) fn is_idle(&self, chunk: u64) -> bool {
        self.state.borrow().counters.is_idle(chunk)
    }

    /// The range of a chunk, in the units in which a resync counts.
    pub(crate) fn covers(&self, chunk: u64) -> Range<u64> {
        self.chunks.covers(chunk)
    }

    /// Bits are about to be cleared: who comes back with a lower event count than the present one needs more than what bits
    /// tell. To be written before the first is.
    pub(crate) fn will_clear(&self) {
        let image = &mut self.state.borrow_mut().image;
        let now = image.superblock().events;
        if image.superblock().events_cleared < now {
            image.change(|superblock| superblock.events_cleared = now);
        }
    }

    /// The event count at which bits were last cleared. A member that left before it may lack changes that no bit
    /// marks.
    pub(crate) fn events_cleared(&self) -> u64 {
        self.state.borrow().image.superblock().events_cleared
    }

    /// Whether the bit of the chunk is set in which a range begins, as a resync counts, and up to where at least within the
    /// range that is so. What no bit stands for has none.
    pub(crate) fn marked_run(&self, range: &Range<u64>) -> (bool, u64) {
        let state = self.state.borrow();
        let (first, count) = (self.chunks.at(range.start), self.chunks.count());
        if first >= count {
            return (false, range.end);
        }
        let marked = state.image.is_set(first);
        let last = (first + 1..count.min(first + LOOKED_AT)).find(|&chunk| {
            self.chunks.covers(chunk).start >= range.end || state.image.is_set(chunk) != marked
        });
        let end = self.chunks.covers(last.unwrap_or(count.min(first + LOOKED_AT)) - 1).end;
        (marked, end.min(range.end))
    }

    /// Whether the bit of some chunk is set that a range of the array's bytes is in.
    pub(crate) fn is_marked(&self, range: &Range<u64>) -> bool {
        let state = self.state.borrow();
        self.chunks.of_bytes(range).any(|chunk| state.image.is_set(chunk))
    }

    /// Clears the bit of a chunk: to be written.
    pub(crate) fn clear(&self, chunk: u64) {
        self.state.borrow_mut().image.clear(chunk);
    }

    /// Ranges without a bit, as a resync counts: their redundancy is true, whatever happened.
    pub(crate) fn undoubted(&self) -> Vec<Range<u64>> {
        let state = self.state.borrow();
        let (mut ranges, mut next) = (Vec::new(), 0);
        for set in state.image.set_chunks().chain([self.chunks.count()]) {
            if set > next {
                ranges.push(self.covers(next).start..self.covers(set - 1).end);
            }
            next = set + 1;
        }
        ranges
    }

    /// A device becomes a member, or is to be rebuilt as one: the next record gives it all of the bitmap, from byte `offset` of
    /// it on. Its superblocks must not say so before that.
    pub(crate) fn give(&self, device: MemberId, offset: u64) {
        if self.file.is_none() && !self.is_target(device) {
            self.targets.borrow_mut().push(Target { id: device, offset });
            self.state.borrow_mut().image.write_anew();
        }
    }

    /// Bytes that it takes on each member.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.borrow().image.len() as u64
    }

    /// Where it would stand on a device, in bytes, if there is room for it as its superblock says.
    pub(crate) fn place(&self, device: MemberId, superblock: &Superblock) -> Option<u64> {
        self.place_at(device, superblock, superblock.bitmap_offset?)
    }

    /// The same, at this offset from its superblock.
    pub(crate) fn place_at(&self, device: MemberId, superblock: &Superblock, offset: i64) -> Option<u64> {
        let info = self.io.member_info(device)?;
        let start = superblock.super_offset.checked_add_signed(offset)?;
        let aligned = (start | self.bytes()).is_multiple_of(info.logical_block.into());
        (aligned && space::is_free(superblock, start, self.bytes(), info.size)).then_some(start)
    }

    /// Lost members are on record as lost: pages that are written from now on reach all members that count.
    pub(crate) fn settled(&self) {
        self.absent.set(false);
    }

    /// A device is out of use: nothing more is written to it. Until that is [settled](Bitmap::settled), no bit becomes stable.
    pub(crate) fn lose(&self, device: MemberId) {
        if self.is_target(device) {
            self.absent.set(true);
        }
        self.targets.borrow_mut().retain(|target| target.id != device);
        self.lent.borrow_mut().retain(|(id, _)| *id != device);
    }

    /// Seconds between two rounds that clear bits.
    pub(crate) fn daemon_sleep(&self) -> u32 {
        self.state.borrow().image.superblock().daemon_sleep
    }

    /// Limit of write-behind: writes that may be under way to write-mostly members after their clients got an answer;
    /// 0: none.
    pub(crate) fn write_behind(&self) -> u32 {
        self.state.borrow().image.superblock().write_behind
    }

    /// Says how many from now on: to be written.
    pub(crate) fn set_write_behind(&self, count: u32) {
        self.state.borrow_mut().image.change(|superblock| superblock.write_behind = count);
    }

    /// Bytes to a bit, bits, and how many of them are set.
    pub(crate) fn tell(&self) -> (u64, u64, u64) {
        let image = &self.state.borrow().image;
        (image.superblock().chunk, self.chunks.count(), image.set_chunks().count() as u64)
    }

    /// Pages written in this run, each to all members.
    pub(crate) fn written(&self) -> u64 {
        self.written.get()
    }

    fn is_target(&self, id: MemberId) -> bool {
        self.targets.borrow().iter().any(|target| target.id == id)
    }

    /// A page that was given up may still land on a member in use.
    pub(crate) fn is_lent(&self) -> bool {
        self.first_lent().is_some()
    }

    fn first_lent(&self) -> Option<MemberId> {
        let mut lent = self.lent.borrow_mut();
        lent.retain(|(_, buf)| buf.is_lent());
        lent.first().map(|(id, _)| *id)
    }
}
