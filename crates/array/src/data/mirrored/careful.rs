//! Reads that met an error: answered from another copy, which is then written over the bad one.

use brindle_io::{OpError, Slice};
use brindle_layout::Mirrored;

use super::Readable;
use crate::array::Inner;
use crate::data::lock::Hold;
use crate::volume::VolumeError;

/// Bytes read at a time; where no copy gives all of those, block by block.
const STEP: usize = 64 << 10;

impl Inner {
    /// Reads piece by piece, from whichever copy gives it, and mends those that did not.
    pub(super) async fn read_carefully(
        &self,
        map: &Mirrored,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let mut at = 0;
        while at < into.len() {
            let here = offset + at as u64;
            let len = STEP.min(into.len() - at).min(map.locate(here, 0).len as usize);
            // Nobody may write between the read of a good copy and the mending of a bad one.
            let _held = self.locks.acquire(here..here + len as u64, Hold::Exclusive).await;
            // Bad copies are written from memory of the array's own: other reads may be filling the rest of the
            // caller's buffer, which no device may read from meanwhile.
            let buf = self.scratch.alloc(len).await;
            self.read_carefully_held(map, here, &buf.all()).await?;
            into.slice(at..at + len).put(0, &buf.bytes());
            at += len;
        }
        Ok(())
    }

    /// The same for a range within one extent that the caller holds alone.
    pub(super) async fn read_carefully_held(
        &self,
        map: &Mirrored,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        for start in (0..into.len()).step_by(STEP) {
            let end = (start + STEP).min(into.len());
            if self.read_piece(map, offset + start as u64, &into.slice(start..end)).await.is_ok() {
                continue;
            }
            let block = self.limits.block as usize;
            for start in (start..end).step_by(block) {
                let end = (start + block).min(end);
                self.read_piece(map, offset + start as u64, &into.slice(start..end)).await?;
            }
        }
        Ok(())
    }

    /// Tries the copies of a piece in their order.
    async fn read_piece(&self, map: &Mirrored, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let copies: Vec<Readable> = self.readable_copies(map, offset, into.len() as u64).collect();
        let mut result = Err(VolumeError::TooManyLost);
        let mut bad = Vec::new();
        for copy in copies {
            let mut group = self.io.group();
            group.read(copy.device.id, copy.device.data_offset + copy.extent.offset, into);
            match group.submit().await.ok() {
                Ok(()) => {
                    result = Ok(());
                    break;
                }
                Err(error) => {
                    result = Err(VolumeError::Member(error));
                    bad.push((copy, error));
                }
            }
        }
        result?;
        for (copy, error) in bad {
            self.mend_copy(&copy, error, into).await?;
        }
        Ok(())
    }

    /// Writes good bytes over what could not be read; a member that refuses them has failed.
    pub(super) async fn mend_copy(
        &self,
        copy: &Readable,
        error: OpError,
        good: &Slice,
    ) -> Result<(), VolumeError> {
        let mut error = error;
        if error != OpError::Gone && !self.config.read_only {
            let mut group = self.io.group();
            group.write(copy.device.id, copy.device.data_offset + copy.extent.offset, good, false);
            match group.submit().await.ok() {
                Ok(()) => return Ok(()),
                Err(refused) => error = refused,
            }
        }
        if self.config.read_only {
            return Ok(());
        }
        // The answer is at hand whether or not the array can live without the member.
        match self.fail_member(copy.extent.member, error, false).await {
            Ok(()) | Err(VolumeError::TooManyLost) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
