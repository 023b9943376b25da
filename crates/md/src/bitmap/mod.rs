//! The write-intent bitmap of an array, in md's format (`docs/formats/bitmap.md`): which chunks may not agree after a crash.
//!
//! Invariants, at any moment of a crash:
//!
//! 1. The bit of a chunk stands on all members before one of them is sent a change of it. That includes members that
//!    are out of use, unless they are on record as lost: the next run may still find one of those in sync.
//! 2. A bit is cleared only after all members were flushed, in a chunk without a write under way when the flush began
//!    or since. The chunk's redundancy must be known to be in sync, and no member may be missing or being rebuilt. Before
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
//! 10. When the array gets another size ([`grown`]) a new bitmap takes the place of the present one, with the record that says that size.
//!     Nothing is in doubt then, and no member is away: no bit of the present size counts, so a mix of both on a member does no harm.
//!
//! 11. While data are moved into rows of more members all bits are set, and stay so. They count bytes of members, at which different rows of
//!     the array stand on either side of the border, and bits of old rows say nothing of the new ones there. The bitmap of the next shape takes
//!     the place of this one with the record that ends the reshape; its `events_cleared` is that record's count, so that no member comes back by bits
//!     that left while data were moved. (md sets bits of both sides as they are written to, and clears them meanwhile.)
//!
//! Members that differ after a crash differ only in bits that may be set or not: their bits are joined, and all
//! members get the result before anything else changes ([`read`]).

mod chunks;
mod counters;
pub(crate) mod create;
mod engine;
mod file;
mod flight;
mod grown;
mod image;
pub(crate) mod level;
mod new;
mod read;
mod space;
mod superblocks;

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::rc::Weak;

use brindle_format::md::Superblock;
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpError, Pool, Slice};
use brindle_members::patience::Patience;

use brindle_array::bitmap::{BitmapFile, IntentBitmap, Refusals};
use brindle_array::row_log::{LogHost, OnRecord};
use chunks::Chunks;
use counters::Counters;
pub(crate) use grown::{BitmapHome, next_chunk};
use image::Image;
pub(crate) use new::{Beside, plan, plan_file, plan_head};
pub(crate) use read::Bits;

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
pub(crate) struct Bitmap {
    /// A handle for flights, which keep the bitmap alive.
    me: Weak<Self>,
    io: Io,
    pool: Pool,
    patience: Patience,
    /// Members are flushed before pages are written.
    flushes_first: Cell<bool>,
    chunks: Chunks,
    state: RefCell<Counted>,
    targets: RefCell<Vec<Target>>,
    /// The file that has it, if no member does.
    file: Option<BitmapFile>,
    /// The last error from the bitmap file.
    refusal: Cell<Option<OpError>>,
    /// A flight is under way.
    flying: Cell<bool>,
    /// A write has called for a flight that has not begun.
    called: Cell<bool>,
    landed: Notify,
    /// All of it has been written once, or stood on all members.
    whole: Cell<bool>,
    /// A device that had the bitmap has been lost, and the next run may not know of that.
    absent: Cell<bool>,
    /// Pages that were given up, and may still land.
    pinned: RefCell<Vec<(MemberId, Slice)>>,
    /// Pages written in this run, each to all members.
    written: Cell<u64>,
    /// No superblock names it any more: nothing of it is to be written.
    retired: Cell<bool>,
    /// Data are being moved: all bits stay set.
    stays_set: bool,
}

impl Bitmap {
    /// Sets the bits of the range, which are written before the change is sent.
    #[cold]
    fn sets<'a>(&self, image: &mut Image, range: &Range<u64>, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        image.set(self.chunks.of_bytes(range));
        let (bitmap, range) = (self.me.upgrade()?, range.clone());
        Some(Box::pin(async move {
            while !bitmap.is_on_record(&range) {
                let refused = bitmap.share_flight(&range).await;
                host.refused(&refused).await?;
            }
            Ok(())
        }))
    }

    /// Waits for a flight that is under way or called, since it may bring these bits, too; else sends one. On drives that take milliseconds
    /// for a page, a flight for each write would be the pace of all.
    async fn share_flight(&self, range: &Range<u64>) -> Refusals {
        if !self.flying.get() && !self.called.replace(true) {
            return self.fly().await;
        }
        let is_over = || !self.flying.get() && !self.called.get();
        self.landed.until(|| (self.is_on_record(range) || is_over()).then_some(())).await;
        Refusals::new()
    }

    /// The bits of the range stand on all members, or are not needed any more.
    pub(crate) fn is_on_record(&self, range: &Range<u64>) -> bool {
        if self.retired.get() {
            return true;
        }
        let state = self.state.borrow();
        self.chunks.of_bytes(range).all(|chunk| state.image.is_stable(chunk))
    }

    /// The event count at which bits were last cleared. A member that left before it may lack changes that no bit
    /// marks.
    pub(crate) fn events_cleared(&self) -> u64 {
        self.state.borrow().image.superblock().events_cleared
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

    /// Adds a device whose bitmap stands at this offset from its superblock.
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
        self.pinned.borrow_mut().retain(|(id, _)| *id != device);
    }

    fn is_target(&self, id: MemberId) -> bool {
        self.targets.borrow().iter().any(|target| target.id == id)
    }

    /// A page that was given up may still land on a member in use.
    pub(crate) fn is_pinned(&self) -> bool {
        self.first_pinned().is_some()
    }

    fn first_pinned(&self) -> Option<MemberId> {
        let mut pinned = self.pinned.borrow_mut();
        pinned.retain(|(_, buf)| buf.is_pinned());
        pinned.first().map(|(id, _)| *id)
    }
}
