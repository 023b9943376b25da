//! Writes to all copies.

use brindle_io::Slice;
use brindle_layout::Mirrored;
use brindle_members::lock::Hold;
use brindle_members::members::{Device, Members};
use brindle_members::spans::Spans;
use brindle_volume::{VolumeError, ZeroOptions, bytes};

use super::Mirror;
use crate::data::list::Cut;

/// Gives `write` each piece of a request with each device that is to have it, and the place there.
///
/// # Errors
/// [`VolumeError::TooManyLost`] where no member takes a piece.
#[inline(always)]
pub(crate) fn write_copies(
    map: &Mirrored,
    members: &Members,
    offset: u64,
    from: &[Slice],
    mut write: impl FnMut(Device, u64, &Slice),
) -> Result<(), VolumeError> {
    let (mut cut, mut at) = (Cut::of(from), offset);
    while !cut.is_empty() {
        let Some(piece) = cut.take(map.locate(at, 0).len) else { break };
        let mut written = false;
        for copy in 0..map.copies() {
            let extent = map.locate(at, copy);
            if let Some(device) = members.writable(extent.member) {
                write(device, extent.offset, &piece);
                written = true;
            }
        }
        if !written {
            return Err(VolumeError::TooManyLost);
        }
        at += piece.len() as u64;
    }
    Ok(())
}

/// Where every copy of a range lies.
pub(crate) fn spans(map: &Mirrored, offset: u64, len: u64) -> Spans {
    let mut spans = Spans::default();
    let mut at = 0;
    while at < len {
        let here = offset + at;
        let step = map.locate(here, 0).len.min(len - at);
        for copy in 0..map.copies() {
            let extent = map.locate(here, copy);
            spans.add(extent.member, extent.offset, step);
        }
        at += step;
    }
    spans
}

impl Mirror {
    #[inline]
    pub(crate) async fn write(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        let end = offset + bytes(from);
        let _writing = self.core.begin(offset, end - offset).await?;
        // Overlapping writes go one after the other, or copies could keep different ones.
        let _held = self.locks.acquire(offset..end, Hold::Exclusive).await;
        let mut group = self.ask();
        write_copies(&self.map, &self.core.members, offset, from, |device, at, piece| {
            group.write(device, at, piece, fua);
        })?;
        let outcome = group.submit().await;
        // The last copy stays in use: what it has is old or new, and an answer from it is better than none.
        self.core.settle_range(&outcome, false, offset..end).await?;
        if end > self.core.keeper.synced_to() {
            self.core.keeper.note_in_sync(offset..end, false);
        }
        Ok(())
    }

    pub(crate) async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if !self.core.limits.discard {
            return Ok(());
        }
        let _writing = self.core.begin(offset, len).await?;
        let _held = self.locks.acquire(offset..offset + len, Hold::Exclusive).await;
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
        let _held = self.locks.acquire(offset..offset + len, Hold::Exclusive).await;
        self.door().zero_rounds(offset, len, options, |at, len| spans(&self.map, at, len)).await
    }
}
