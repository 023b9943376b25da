//! A device that has fewer bytes than when it was opened is no device with an error.
//!
//! Linux gives a disk that was pulled the size 0. Writes to it find no space then, as on a full file system, reads end
//! early, and zeroes are refused as if they were unknown. So a reactor that is about to hand over an error, or a count
//! that is too small, reads the size first: the answer of a device that lacks bytes is that they are gone.

use crate::op::{OpError, PathTarget, Probe};

/// The error of a device that had `then` bytes and has `now`; `None` if it lacks none.
///
/// A block device without a byte is gone. A file of size 0 was made shorter, since a write makes it long again.
pub(crate) fn of(then: u64, now: u64, is_block: bool) -> Option<OpError> {
    match now {
        _ if now >= then => None,
        0 if is_block => Some(OpError::Gone),
        _ => Some(OpError::Truncated),
    }
}

impl Probe {
    /// The error of a member that had `then` bytes when it was opened, if it lacks some now. One without bytes to which
    /// its name does not lead any more is gone.
    pub fn lost(&self, then: u64) -> Option<OpError> {
        of(then, self.size, self.place != PathTarget::There)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_lacks_bytes_is_told_by_its_size() {
        for is_block in [false, true] {
            assert_eq!(of(8192, 8192, is_block), None);
            assert_eq!(of(8192, 1 << 20, is_block), None, "it has grown");
            assert_eq!(of(8192, 8191, is_block), Some(OpError::Truncated));
        }
        assert_eq!(of(8192, 0, true), Some(OpError::Gone));
        assert_eq!(of(8192, 0, false), Some(OpError::Truncated));
    }
}
