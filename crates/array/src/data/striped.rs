//! Linear and RAID 0: each byte on one member.

use std::rc::Rc;

use brindle_io::Slice;
use brindle_layout::Striped;
use brindle_members::direct::{Stretch, send_writes};
use brindle_members::door::{Done, Door, Moved};
use brindle_members::members::Members;
use brindle_members::spans::Spans;
use brindle_volume::{VolumeError, ZeroOptions};

use smallvec::smallvec;

use super::allocation::Sources;
use super::is_lost;
use crate::core::Core;

/// An array in which each byte is on one member.
pub(crate) struct Stripes {
    core: Rc<Core>,
    map: Striped,
    moved: Option<Moved>,
}

impl Stripes {
    /// Bytes of scratch that such an array gets.
    pub(crate) const SCRATCH: usize = 1 << 20;

    pub(crate) fn new(core: &Rc<Core>, map: &Striped, moved: Option<Moved>) -> Self {
        Self { core: Rc::clone(core), map: map.clone(), moved }
    }

    #[inline]
    pub(crate) fn door(&self) -> Door<'_> {
        self.core.door(self.moved.as_ref())
    }

    /// The member and offset that hold a byte of the array, if they can be read; [`Stripes::unread`] goes on if the
    /// member can't give it.
    #[inline(always)]
    pub(crate) fn place(&self, at: u64) -> Option<Stretch> {
        place(&self.map, &self.core.members, at)
    }

    /// The reader's error after a read failed: no other member has these bytes.
    #[cold]
    pub(crate) async fn unread(&self, into: &[Slice], done: &Done) -> VolumeError {
        self.settle_lost(done).await;
        self.core
            .error_if_pinned(into, done)
            .or_else(|| done.named().err())
            .unwrap_or(VolumeError::TooManyLost)
    }

    /// Where a byte of the array goes to, if it can be written; [`Stripes::unwritten`] goes on if the member does not take it.
    #[inline(always)]
    pub(crate) fn place_to_write(&self, at: u64) -> Option<Stretch> {
        place_to_write(&self.map, &self.core.members, at)
    }

    /// A write that has begun and of which not all [goes alone](Door::writes_alone).
    pub(crate) async fn write_watched(
        &self,
        offset: u64,
        from: &[Slice],
        fua: bool,
    ) -> Result<(), VolumeError> {
        let sent = send_writes(self.door(), offset, from, fua, |at| self.place_to_write(at))?;
        let done = sent.await;
        if done.is_ok() { Ok(()) } else { self.unwritten(&done).await }
    }

    /// The writer's error after a write failed: no other member takes these bytes.
    #[cold]
    pub(crate) async fn unwritten(&self, done: &Done) -> Result<(), VolumeError> {
        self.settle_lost(done).await;
        done.named()
    }

    /// Members that are gone, or shorter than they were, have lost what they held: their bytes are not trusted any
    /// more.
    #[cold]
    async fn settle_lost(&self, done: &Done) {
        for refused in done.refused().iter().filter(|refused| is_lost(refused.error)) {
            // The reader has its error either way.
            let _recorded = self.core.fail_member(refused.role, refused, true).await;
        }
    }

    pub(crate) async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if !self.core.limits.discard {
            return Ok(());
        }
        let _writing = self.core.begin(offset, len).await?;
        self.door().discard_rounds(offset, len, |at, len| spans(&self.map, at, len)).await;
        Ok(())
    }

    pub(crate) async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
    ) -> Result<(), VolumeError> {
        self.core.check_zeroes(options)?;
        let _writing = self.core.begin(offset, len).await?;
        self.door().zero_rounds(offset, len, options, |at, len| spans(&self.map, at, len)).await
    }

    /// Where a byte of the array is read from, and how far that goes.
    pub(crate) fn sources(&self, at: u64) -> Sources {
        let extent = self.map.locate(at);
        Sources { len: extent.len, of: smallvec![(extent.member, extent.offset)] }
    }
}

/// Where a range lies.
pub(crate) fn spans(map: &Striped, offset: u64, len: u64) -> Spans {
    let mut spans = Spans::default();
    let mut at = 0;
    while at < len {
        let extent = map.locate(offset + at);
        let step = extent.len.min(len - at);
        spans.add(extent.member, extent.offset, step);
        at += step;
    }
    spans
}

/// The member and offset that hold a byte of such an array, if they can be read.
#[inline(always)]
pub(crate) fn place(map: &Striped, members: &Members, at: u64) -> Option<Stretch> {
    let extent = map.locate(at);
    let device = members.readable(extent.member, u64::MAX)?;
    Some(Stretch { device, offset: extent.offset, len: extent.len })
}

/// The member and offset that a byte of the array goes to, if it can be written.
#[inline(always)]
pub(crate) fn place_to_write(map: &Striped, members: &Members, at: u64) -> Option<Stretch> {
    let extent = map.locate(at);
    let device = members.writable(extent.member)?;
    Some(Stretch { device, offset: extent.offset, len: extent.len })
}
