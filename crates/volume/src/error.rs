//! Why a volume did not do what was asked.

use brindle_io::OpError;

/// Why a volume did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The range is not within the volume.
    #[error("the range lies beyond the end of the volume")]
    OutOfRange,
    /// Offset or length is no multiple of the volume's block.
    #[error("offset or length is no multiple of the volume's block size")]
    Unaligned,
    /// The volume takes no writes.
    #[error("the volume is read-only")]
    ReadOnly,
    /// Too many members are gone for these bytes: nothing was returned or acknowledged.
    #[error("more members are lost than the array's redundancy can replace")]
    TooManyLost,
    /// A member failed and redundancy could not make up for it. Which role's it was is told by the array's events, and by
    /// its state where the member has been failed for it.
    #[error("a member failed: {0}")]
    Member(#[from] OpError),
    /// A member has not answered, and may still write to the memory that was given: nothing was returned. The same read
    /// into other memory will not ask that member again.
    #[error("a member did not answer in time, and its memory can't be used again: ask with other memory")]
    Again,
    /// The volume can't do this as fast as was demanded, or at all (fast zeroes).
    #[error("the volume can't do this faster than by writing")]
    Unsupported,
    /// Redundancy is another on either side of a reshape's border.
    #[error("the array is being reshaped: its redundancy can be compared once mdadm has finished that")]
    Reshaping,
    /// The volume is stopping.
    #[error("the volume is stopping")]
    Stopping,
}
