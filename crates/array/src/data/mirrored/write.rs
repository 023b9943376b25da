//! Writes to all copies.

use brindle_io::Slice;
use brindle_layout::Mirrored;

use crate::array::Inner;
use crate::data::Writing;
use crate::data::lock::Hold;
use crate::volume::VolumeError;

impl Inner {
    #[inline]
    pub(crate) async fn write_mirrored(
        &self,
        map: &Mirrored,
        offset: u64,
        from: &Slice,
        fua: bool,
    ) -> Result<(), VolumeError> {
        let _writing = Writing::begin(&self.keeper).await?;
        // Overlapping writes go one after the other, or copies could keep different ones.
        let _held = self.locks.acquire(offset..offset + from.len() as u64, Hold::Exclusive).await;
        let mut group = self.ask();
        let mut at = 0;
        while at < from.len() {
            let here = offset + at as u64;
            let len = map.locate(here, 0).len.min((from.len() - at) as u64) as usize;
            let piece = from.slice(at..at + len);
            let mut written = false;
            for copy in 0..map.copies() {
                let extent = map.locate(here, copy);
                if let Some(device) = self.members.writable(extent.member) {
                    group.write(device, extent.offset, &piece, fua);
                    written = true;
                }
            }
            if !written {
                return Err(VolumeError::TooManyLost);
            }
            at += len;
        }
        let outcome = group.submit().await;
        // The last copy stays in use: what it has is old or new, and an answer from it is better than none.
        let end = offset + from.len() as u64;
        self.settle_range(&outcome, false, offset..end).await?;
        if end > self.keeper.synced_to() {
            self.keeper.made_true(offset..end, false);
        }
        Ok(())
    }
}
