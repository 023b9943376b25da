//! The limits of requests to a volume.

use brindle_io::Slice;

use crate::VolumeError;

/// The limits of requests to a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the volume: a multiple of `block`.
    pub size: u64,
    /// Offsets and lengths are multiples of this: 512 or 4096.
    pub block: u32,
    /// Unit at which writes should begin and end. For arrays with parity this is the chunk: a smaller write costs as
    /// many operations on members. Such a write still reads old data and parity, or the rest of its row; only writes
    /// of whole rows (`optimal`) read nothing. For other volumes it is the largest physical block beneath: a smaller
    /// write may cost a device a read of its own.
    pub preferred: u32,
    /// Data bytes of a full row: writes of ranges that begin and end at multiples of it read nothing and are the fastest.
    /// 0 if there are no rows.
    pub optimal: u64,
    /// Writes, discards and write-zeroes are refused.
    pub read_only: bool,
    /// Discards reach the members; where not, they are accepted and do nothing.
    pub discard: bool,
}

impl Limits {
    /// Refuses a range that no such volume has.
    ///
    /// # Errors
    /// [`VolumeError::Unaligned`], else [`VolumeError::OutOfRange`].
    #[inline]
    pub fn check(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let mask = u64::from(self.block).wrapping_sub(1);
        if (offset | len) & mask != 0 {
            return Err(VolumeError::Unaligned);
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(VolumeError::OutOfRange),
        }
    }

    /// Checks a request for the memory in `list` from `offset` on; gives its length in bytes.
    ///
    /// # Errors
    /// As [`Limits::check`]; [`VolumeError::Unaligned`] also where a slice by itself is.
    #[inline]
    pub fn check_list(&self, offset: u64, list: &[Slice]) -> Result<u64, VolumeError> {
        let add = |(all, lengths): (u64, u64), len: u64| (all + len, lengths | len);
        let (all, lengths) = list.iter().map(|slice| slice.len() as u64).fold((0, 0), add);
        if lengths & u64::from(self.block).wrapping_sub(1) != 0 {
            return Err(VolumeError::Unaligned);
        }
        self.check(offset, all).map(|()| all)
    }

    /// Refuses changes of a volume that is read-only.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`].
    #[inline]
    pub fn check_change(&self) -> Result<(), VolumeError> {
        if self.read_only { Err(VolumeError::ReadOnly) } else { Ok(()) }
    }
}
