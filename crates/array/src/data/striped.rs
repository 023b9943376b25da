//! Linear and RAID 0: each byte on one member.

use brindle_io::Slice;
use brindle_layout::Striped;

use super::{Writing, is_lost};
use crate::array::Inner;
use crate::door::Done;
use crate::volume::VolumeError;

impl Inner {
    /// One operation per member: the group joins what is contiguous there.
    #[inline]
    pub(crate) async fn read_striped(
        &self,
        map: &Striped,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let first = map.locate(offset);
        let mut group = self.ask();
        if first.len >= into.len() as u64 {
            let device = self.members.readable(first.member, u64::MAX).ok_or(VolumeError::TooManyLost)?;
            group.read(device, first.offset, into);
        } else {
            let mut at = 0;
            while at < into.len() {
                let extent = map.locate(offset + at as u64);
                let len = (into.len() - at).min(extent.len as usize);
                let device =
                    self.members.readable(extent.member, u64::MAX).ok_or(VolumeError::TooManyLost)?;
                group.read(device, extent.offset, &into.slice(at..at + len));
                at += len;
            }
        }
        let done = group.submit().await;
        if done.is_ok() {
            return Ok(());
        }
        Err(self.unread(into, &done).await)
    }

    /// What to tell the reader of bytes that no other member has.
    #[cold]
    async fn unread(&self, into: &Slice, done: &Done) -> VolumeError {
        self.settle_lost(done).await;
        self.lent(into, done)
            .or_else(|| done.ok().err().map(VolumeError::Member))
            .unwrap_or(VolumeError::TooManyLost)
    }

    #[inline]
    pub(crate) async fn write_striped(
        &self,
        map: &Striped,
        offset: u64,
        from: &Slice,
        fua: bool,
    ) -> Result<(), VolumeError> {
        let _writing = Writing::begin(&self.keeper).await?;
        let first = map.locate(offset);
        let mut group = self.ask();
        if first.len >= from.len() as u64 {
            let device = self.members.writable(first.member).ok_or(VolumeError::TooManyLost)?;
            group.write(device, first.offset, from, fua);
        } else {
            let mut at = 0;
            while at < from.len() {
                let extent = map.locate(offset + at as u64);
                let len = (from.len() - at).min(extent.len as usize);
                let device = self.members.writable(extent.member).ok_or(VolumeError::TooManyLost)?;
                group.write(device, extent.offset, &from.slice(at..at + len), fua);
                at += len;
            }
        }
        let done = group.submit().await;
        if !done.is_ok() {
            self.settle_lost(&done).await;
        }
        Ok(done.ok()?)
    }

    /// Members that are gone, or shorter than they were, have lost what they held: what they give from now on is not it.
    #[cold]
    async fn settle_lost(&self, done: &Done) {
        for refused in done.refused().iter().filter(|refused| is_lost(refused.error)) {
            // The reader has its error either way.
            let _recorded = self.fail_member(refused.role, refused, true).await;
        }
    }
}
