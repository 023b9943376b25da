//! Answers a read that met an error from another copy, and writes that over the bad one.

use core::ops::Range;

use brindle_io::{OpError, Slice};
use brindle_layout::Extent;
use brindle_members::door::Done;
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::{Mirror, Readable};
use crate::data::mend::ReadFailures;
use crate::row_log::Change;

/// Bytes read at a time, as md does; where no copy gives all of those, block by block. Not more: what one copy can't give is written over
/// it from another, and where they differ beside a bad place, good bytes would go with it.
pub(super) const STEP: usize = 4096;

/// The roles whose members failed a part of a read. They are asked first when it is repeated: otherwise they would
/// never be mended.
pub(super) type Suspects = SmallVec<[u16; 4]>;

/// The roles that refused something.
pub(super) fn suspects(outcome: &Done) -> Suspects {
    outcome.refused().iter().map(|refused| refused.role).collect()
}

/// A part of a range that is read carefully.
struct CarefulPiece {
    /// Bytes of the array.
    offset: u64,
    into: Slice,
    /// Memory of the same length, into which mended bytes are read back.
    spare: Slice,
}

impl Mirror {
    /// Reads piece by piece, from whichever copy gives it, and mends those that did not.
    pub(super) async fn read_carefully(
        &self,
        offset: u64,
        into: &Slice,
        suspects: &Suspects,
    ) -> Result<(), VolumeError> {
        let mut at = 0;
        while at < into.len() {
            let here = offset + at as u64;
            let len = STEP.min(into.len() - at).min(self.map.locate(here, 0).len as usize);
            // No write may come between the read of a good copy and the mending of a bad one.
            let _held = self.locks.acquire(here..here + len as u64, Hold::Exclusive).await;
            self.core.refuse_if_superseded()?;
            // Bad copies are written from memory of the array's own: other reads may be filling the rest of the
            // caller's buffer, which no device may read from meanwhile.
            let good = loop {
                let buf = self.core.scratch.alloc(2 * len).await;
                let (good, spare) = (buf.slice(0..len), buf.slice(len..2 * len));
                match self.read_carefully_held(here, &good, &spare, suspects).await {
                    Ok(()) | Err(VolumeError::Again) if buf.is_pinned() => {}
                    read => break read.map(|()| good)?,
                }
            };
            into.slice(at..at + len).put(0, &good.bytes());
            at += len;
        }
        Ok(())
    }

    /// Reads as above, a range within one extent that the caller has locked exclusively. `spare` is as long, or at
    /// least [`STEP`].
    pub(super) async fn read_carefully_held(
        &self,
        offset: u64,
        into: &Slice,
        spare: &Slice,
        suspects: &Suspects,
    ) -> Result<(), VolumeError> {
        let piece = |range: Range<usize>| CarefulPiece {
            offset: offset + range.start as u64,
            into: into.slice(range.clone()),
            spare: spare.slice(0..range.len()),
        };
        for start in (0..into.len()).step_by(STEP) {
            let end = (start + STEP).min(into.len());
            let mut read_failures = ReadFailures::default();
            let mut result = self.read_piece(&piece(start..end), suspects, &mut read_failures).await;
            if result.is_err() && !into.is_pinned() {
                read_failures.forget_lost();
                result = Ok(());
                let block = self.core.limits.block as usize;
                for start in (start..end).step_by(block) {
                    let piece = piece(start..(start + block).min(end));
                    result = result.and(self.read_piece(&piece, suspects, &mut read_failures).await);
                }
            }
            // The bytes that were read are the answer, even if members fail now.
            self.core.judge(self.door(), read_failures).await;
            result?;
        }
        Ok(())
    }

    /// [`Core::mend_place`](crate::core::Core::mend_place) of a copy, the range of which the caller holds alone.
    pub(super) async fn mend_copy(
        &self,
        extent: &Extent,
        why: OpError,
        good: &Slice,
        spare: &Slice,
        read_failures: &mut ReadFailures,
    ) -> bool {
        let (role, offset) = (extent.member, extent.offset);
        let range = offset..offset + good.len() as u64;
        let Ok(_maintenance) = self.core.maintenance(Change::Member { role, range }).await else {
            return false;
        };
        self.core.mend_place(self.door(), role, offset, why, good, spare, read_failures).await
    }

    /// Tries the copies of a piece: the suspects first, then the others in their order. A slow member is asked last,
    /// and only after its earlier answers: it keeps the memory of each read until then.
    async fn read_piece(
        &self,
        piece: &CarefulPiece,
        suspects: &Suspects,
        read_failures: &mut ReadFailures,
    ) -> Result<(), VolumeError> {
        let len = piece.into.len() as u64;
        let mut copies = self.copies_in_doubt(piece.offset, len);
        let (slow, suspect) = (|role| self.core.members.is_slow(role), |role: u16| suspects.contains(&role));
        if !self.is_pinned(piece.offset, len) {
            let mostly = |role| self.paces.is_write_mostly(role);
            let rank = |role| (slow(role), !suspect(role), mostly(role));
            copies.sort_by_key(|copy| rank(copy.extent.member));
        }
        let mut bad: SmallVec<[(Readable, OpError); 4]> = SmallVec::new();
        for copy in copies {
            if slow(copy.extent.member) {
                self.core.answered(copy.extent.member).await?;
            }
            let mut group = self.ask();
            group.read(copy.device, copy.extent.offset, &piece.into);
            let done = group.submit().await;
            if let Some(error) = self.core.error_if_pinned(&piece.into, &done) {
                return Err(error);
            }
            match done.ok() {
                Ok(()) => {
                    for (Readable { extent, device, .. }, why) in bad {
                        if self.core.members.device(extent.member).is_none_or(|there| there.id != device.id) {
                            // Another device has taken over meanwhile, of which this error says nothing.
                            continue;
                        }
                        self.mend_copy(&extent, why, &piece.into, &piece.spare, read_failures).await;
                    }
                    return Ok(());
                }
                Err(error) => bad.push((copy, error)),
            }
        }
        for (Readable { extent, .. }, error) in &bad {
            let place = extent.offset..extent.offset + len;
            self.core.note_unread(self.door(), read_failures, extent.member, *error, place);
        }
        Err(bad.first().map_or(VolumeError::TooManyLost, |(copy, error)| {
            VolumeError::of_member(copy.extent.member, *error)
        }))
    }
}
