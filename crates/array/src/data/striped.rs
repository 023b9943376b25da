//! Linear and RAID 0: each byte on one member.

use brindle_io::Slice;
use brindle_layout::Striped;

use super::Writing;
use crate::array::Inner;
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
        let mut group = self.io.group();
        if first.len >= into.len() as u64 {
            let device = self.members.readable(first.member, u64::MAX).ok_or(VolumeError::TooManyLost)?;
            group.read(device.id, device.data_offset + first.offset, into);
        } else {
            let mut at = 0;
            while at < into.len() {
                let extent = map.locate(offset + at as u64);
                let len = (into.len() - at).min(extent.len as usize);
                let device =
                    self.members.readable(extent.member, u64::MAX).ok_or(VolumeError::TooManyLost)?;
                group.read(device.id, device.data_offset + extent.offset, &into.slice(at..at + len));
                at += len;
            }
        }
        Ok(group.submit().await.ok()?)
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
        let mut group = self.io.group();
        if first.len >= from.len() as u64 {
            let device = self.members.writable(first.member).ok_or(VolumeError::TooManyLost)?;
            group.write(device.id, device.data_offset + first.offset, from, fua);
        } else {
            let mut at = 0;
            while at < from.len() {
                let extent = map.locate(offset + at as u64);
                let len = (from.len() - at).min(extent.len as usize);
                let device = self.members.writable(extent.member).ok_or(VolumeError::TooManyLost)?;
                group.write(device.id, device.data_offset + extent.offset, &from.slice(at..at + len), fua);
                at += len;
            }
        }
        Ok(group.submit().await.ok()?)
    }
}
