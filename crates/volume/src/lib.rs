//! What an export serves: a range of bytes.

use brindle_io::{OpError, Slice};

/// What a volume asks of whoever uses it. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the volume.
    pub size: u64,
    /// Offsets and lengths are multiples of this: 512 or 4096.
    pub block: u32,
    /// Smallest write that costs no read: the physical block of the members, or the chunk.
    pub preferred: u32,
    /// Data bytes of a full row: writes of such ranges are the fastest. 0 if there are no rows.
    pub optimal: u64,
    /// Writes, discards and write-zeroes are refused.
    pub read_only: bool,
    /// Discards reach the members.
    pub discard: bool,
}

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
    /// A member failed and redundancy could not make up for it.
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

/// How zeroes may be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroOptions {
    /// Complete only when stable.
    pub fua: bool,
    /// The range must stay allocated (NBD's NO_HOLE).
    pub keep_allocated: bool,
    /// Fail with [`VolumeError::Unsupported`] at once rather than write zeroes slowly (NBD's FAST_ZERO).
    pub fast_only: bool,
}

/// A stretch of a volume, for block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Bytes from the asked offset (or the previous stretch's end).
    pub len: u64,
    /// Nothing is stored here.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

/// A range of bytes that can be read and written: an array, or what stands in for one in tests.
///
/// Requests may run at the same time; overlapping ones are ordered by the volume, in some order. A request that
/// fails has no effect that a later read could see as bytes that were never written.
#[allow(async_fn_in_trait, reason = "futures stay on their executor's thread, none needs to be Send")]
pub trait Volume {
    /// Size, alignment and abilities.
    fn limits(&self) -> Limits;

    /// Fills `into` from `offset`.
    ///
    /// After an error a device may still write to `into`, whose owner then just drops it.
    ///
    /// # Errors
    /// [`VolumeError::Again`] where other memory would be filled; see [`read_again`].
    async fn read(&self, offset: u64, into: Slice) -> Result<(), VolumeError>;

    /// Writes `from` at `offset`; with `fua`, to stable storage before it returns.
    async fn write(&self, offset: u64, from: Slice, fua: bool) -> Result<(), VolumeError>;

    /// Makes every write that returned before this call stable.
    async fn flush(&self) -> Result<(), VolumeError>;

    /// The range's content is of no use any more. May do nothing.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError>;

    /// Makes the range read as zeroes.
    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError>;

    /// Appends at least one stretch that begins at `offset`, and at most as many as cover `len` bytes.
    /// The default knows nothing: all is data.
    async fn allocation(
        &self,
        _offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        found.push(Allocation { len, hole: false, zero: false });
        Ok(())
    }
}

/// Reads `len` bytes at `offset` into memory that `fresh` gives: other memory each time that a member keeps what it was
/// given.
///
/// # Errors
/// As [`Volume::read`], but never [`VolumeError::Again`].
pub async fn read_again(
    volume: &impl Volume,
    offset: u64,
    mut fresh: impl AsyncFnMut() -> Slice,
) -> Result<Slice, VolumeError> {
    loop {
        let into = fresh().await;
        match volume.read(offset, into.clone()).await {
            Err(VolumeError::Again) => {}
            read => return read.map(|()| into),
        }
    }
}
