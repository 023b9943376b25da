//! Atomic compare-and-write, and the changes that wait for it.

use core::pin::Pin;

use brindle_io::Slice;
use brindle_volume::{Volume, VolumeError, Wanted, first_difference};

use crate::array::Array;
use crate::claims::Passage;
use crate::core::Core;
use crate::placement::{Family, Placement, write_copied};

impl Array {
    /// A change of a client begins, which may have to wait for who has the range for itself.
    #[inline]
    pub(crate) async fn passage(&self, offset: u64, len: u64) -> Result<Passage<'_>, VolumeError> {
        match self.0.core.claims.pass_at_once() {
            Some(passage) => Ok(passage),
            None => Box::pin(self.passage_once_free(offset, len)).await,
        }
    }

    /// A change begins once nobody has the range for itself, in the shape that the array has by then.
    ///
    /// # Errors
    /// That shape does not have the range; or the array has been stopped.
    async fn passage_once_free(&self, offset: u64, len: u64) -> Result<Passage<'_>, VolumeError> {
        loop {
            let core = &self.0.core;
            let passage = core.claims.pass(offset..offset + len).await;
            if !core.superseded.get() {
                core.check(offset, len)?;
                return Ok(passage);
            }
        }
    }

    /// A read, which begins anew if the array has got another shape meanwhile.
    #[cold]
    pub(crate) fn or_read_anew<'a>(
        &'a self,
        began: &'a Core,
        read: impl AsyncFnOnce() -> Result<(), VolumeError> + 'a,
        offset: u64,
        into: &'a [Slice],
    ) -> Pin<Box<dyn Future<Output = Result<(), VolumeError>> + 'a>> {
        Box::pin(async move {
            match read().await {
                Err(VolumeError::Stopping) if began.superseded.get() => self.read(offset, into).await,
                read => read,
            }
        })
    }

    /// Writes once no claim overlaps the range. The range has been checked.
    #[cold]
    pub(crate) async fn write_once_free(
        &self,
        offset: u64,
        from: &[Slice],
        fua: bool,
    ) -> Result<(), VolumeError> {
        let _passage = self.passage_once_free(offset, brindle_volume::bytes(from)).await?;
        self.write_freely(offset, from, fua).await
    }

    /// Writes a range that no other request claims.
    async fn write_freely(&self, offset: u64, from: &[Slice], fua: bool) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let shared = from.iter().any(Slice::is_shared);
        let family = match &self.0.placement {
            _ if brindle_volume::bytes(from) == 0 => return Ok(()),
            Placement::One(family) => family,
            Placement::Split(split) => return split.write(core, offset, from, fua).await,
        };
        match family {
            Family::Mirror(mirror) if mirror.allows_write_behind() && !fua => {
                self.write_behind(offset, from).await
            }
            Family::Mirror(mirror) if shared => {
                let write = async |at, copy: &[Slice]| mirror.write(at, copy, fua).await;
                write_copied(core, offset, from, write).await
            }
            Family::Parity(parity) if shared => {
                let write = async |at, copy: &[Slice]| parity.write(at, copy, fua).await;
                write_copied(core, offset, from, write).await
            }
            Family::Mirror(mirror) => mirror.write(offset, from, fua).await,
            Family::Parity(parity) => parity.write(offset, from, fua).await,
            Family::Stripes(stripes) => {
                let _writing = core.begin(offset, brindle_volume::bytes(from)).await?;
                stripes.write_watched(offset, from, fua).await
            }
        }
    }

    /// Compares and writes in one step.
    pub(crate) async fn exchange(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        let core = &self.0.core;
        core.limits.check_change()?;
        let len = core.check_list(offset, core::slice::from_ref(expected))?;
        if expected.len() != new.len() || expected.len() != scratch.len() {
            return Err(VolumeError::Unaligned);
        }
        if len == 0 {
            return Ok(None);
        }
        // Writes that linger hold up a claim, wherever they go.
        let hurry = core.io.hurrying();
        let _claim = core.claim(offset..offset + len).await;
        drop(hurry);
        if core.superseded.get() {
            return Box::pin(self.exchange(offset, expected, new, scratch, fua, wanted)).await;
        }
        // The array may have been stopped while this waited: so says the read.
        self.read(offset, scratch).await?;
        if let Some(differs) = first_difference(expected, scratch) {
            return Ok(Some(differs as u64));
        }
        wanted.check()?;
        self.write_freely(offset, core::slice::from_ref(new), fua).await.map(|()| None)
    }
}
