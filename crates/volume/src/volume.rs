//! The contract between servers of a range of bytes and its users.

use std::rc::Rc;

use brindle_io::Slice;

use crate::{Limits, Ticket, VolumeError};

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

/// Asked between the look and the write of [`Volume::compare_and_write`]: whether the write is still wanted. By default it is.
#[derive(Clone, Default)]
pub struct Wanted(Option<Rc<dyn Fn() -> bool>>);

impl Wanted {
    /// Asks this.
    pub fn asking(ask: impl Fn() -> bool + 'static) -> Self {
        Self(Some(Rc::new(ask)))
    }

    /// The answer.
    ///
    /// # Errors
    /// [`VolumeError::Again`] if the write is not wanted any more.
    pub fn check(&self) -> Result<(), VolumeError> {
        if self.0.as_ref().is_none_or(|ask| ask()) { Ok(()) } else { Err(VolumeError::Again) }
    }
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

/// A range of bytes that can be read and written: an array, the other end of a connection, or what stands in for one in
/// tests.
///
/// # Ranges
///
/// Offsets and lengths are multiples of [`Limits::block`] and end within [`Limits::size`]; else the request fails with
/// [`VolumeError::Unaligned`] or [`VolumeError::OutOfRange`] and has done nothing. The memory of a read or write is a slice or
/// a list of slices, each a multiple of the block, one after the other on the volume: one request, as if they were one
/// slice. A request of no bytes is held to the same rules, and then succeeds at once: no member is asked, and nothing is made
/// stable.
///
/// # Order
///
/// Requests may run at the same time, and have no order among each other: a caller that needs an order waits for the
/// first to return. A write, write-zeroes or discard that has returned is seen by every read that begins afterwards.
/// Where changes overlap that run at the same time, each block ends up as one of them made it, and not everywhere the
/// same one. A read beside a change finds each block as it was before or after it. No request is atomic beyond a
/// block, but [`Volume::compare_and_write`] among changes.
///
/// A flush makes stable what every change did that returned without error before the flush was called; of changes that
/// are under way meanwhile it promises nothing. With `fua` a change is stable itself when it returns, and says nothing of
/// others. What is neither may be lost when the power goes, in any order.
///
/// # Errors and what they leave
///
/// After a change that failed, each block of its range is as it was before or as it was to be. It may go from one to the
/// other until it is rewritten, since an operation that was given up may still land. (Dropped changes are described
/// below.) Nothing outside the range changes. No read returns bytes that were never written: where a volume can't tell, it
/// gives an error.
///
/// After a flush that failed, what it was to make stable may be lost. Where others can't make up for the member that
/// failed it, every later flush fails too, since nothing tells what that member has forgotten.
///
/// The first error in this order is given: [`VolumeError::ReadOnly`], [`VolumeError::Stopping`],
/// [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`], [`VolumeError::Reshaping`], and then what members answer. A member's
/// error is given only where redundancy can't make up for it, with the role that it has in the array.
///
/// # Memory
///
/// The volume borrows the memory of a request until it returns, as operations do: looking at what is being filled, or changing
/// what is being written, panics. After an error a device may still use it; its owner then just drops it, and what it holds is
/// worth nothing.
///
/// Of memory that others gave and change at any time ([`Slice::is_shared`]) nothing is borrowed: a volume never looks
/// at its bytes but by [`Slice::copy_to`] and [`Slice::put`]. What a write leaves of it is any mix of what the memory
/// held while the write was under way, byte for byte, and from then on that; redundancy is true of what was written,
/// as of any other. A read fills it, and may fill some of it more than once. Here too a device may use the memory
/// after an error, so that whoever gave it gets the error once no slice of the request [is pinned](Slice::is_pinned).
///
/// # Dropped futures
///
/// A read, flush or look at allocation can be dropped at any time: what was sent to members goes on and keeps the memory until
/// it has ended, and the volume serves others as before. A change has to be driven to its end, as a task of its own for
/// instance: dropped on its way, it is for its range what a power cut is, except that nothing notes it. Members of an
/// array may then disagree about that range until it is rewritten or repaired. Where an array with parity lacks members,
/// blocks of theirs in the rows that it touched, also beside its range, may even read as what was never written, until they
/// are rewritten themselves. Everything else, and every later request to that range, goes on as before.
///
/// Futures belong to the executor ([`brindle_io::Io`]) that the volume was made on.
#[allow(async_fn_in_trait, reason = "futures stay on their executor's thread, none needs to be Send")]
pub trait Volume {
    /// Size, alignment and abilities. The same as long as the volume lives.
    fn limits(&self) -> Limits;

    /// Fills `into`, a slice or a list of some, from `offset`.
    ///
    /// # Errors
    /// - [`VolumeError::Stopping`], [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`].
    /// - [`VolumeError::TooManyLost`]: the bytes were on members that are gone, more than others make up for.
    /// - [`VolumeError::Member`]: a member in use did not give its part, nor could it be computed from others; with
    ///   `TimedOut`, it has not answered and no other member can.
    /// - [`VolumeError::Again`]: other memory would be filled; see [`read_again`].
    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError>;

    /// Writes `from`, a slice or a list of some, at `offset`; with `fua`, to stable storage before it returns.
    ///
    /// # Errors
    /// - [`VolumeError::ReadOnly`], [`VolumeError::Stopping`], [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`],
    ///   [`VolumeError::Reshaping`].
    /// - [`VolumeError::TooManyLost`]: members are gone, or failed during the write, and the rest can't hold it; or it could
    ///   not be recorded that they are.
    /// - [`VolumeError::Member`]: a member in use did not take its part, and the array can't do without it. With
    ///   `NoSpace` there was no space for the write, and the member stays in use. The same if data could not be read
    ///   that parity needs.
    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError>;

    /// A write of this range is being received. Writes that have come may wait for it, if they cost less together. Gives the number of the
    /// stream that it belongs to, which [`Volume::came`] is told once when the write has been received, or is not any more.
    fn comes(&self, _offset: u64, _len: u64) -> Option<usize> {
        None
    }

    /// See [`Volume::comes`].
    fn came(&self, _stream: usize) {}

    /// Makes every change stable that returned before this call. A volume that is read-only or stopping flushes too.
    ///
    /// # Errors
    /// - [`VolumeError::TooManyLost`]: members failed it, or before, and the rest does not hold all that was written.
    /// - [`VolumeError::Member`]: a member without which the array can't do failed it, now or earlier; with `TimedOut`, it
    ///   has writes to end that were given up, and nothing was flushed.
    /// - [`VolumeError::Stopping`]: the volume has ended before that a member failed could be recorded, or is of another
    ///   process that ends.
    async fn flush(&self) -> Result<(), VolumeError>;

    /// The range's content is of no use any more: reads of it may give anything, and something else each time, until it is
    /// rewritten. May do nothing, for all of the range or for parts; that a member can't discard is no error.
    ///
    /// # Errors
    /// - [`VolumeError::ReadOnly`], [`VolumeError::Stopping`], [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`],
    ///   [`VolumeError::Reshaping`], also where discards do nothing.
    /// - [`VolumeError::TooManyLost`], [`VolumeError::Member`]: as of [`Volume::write`], where redundancy has to stay true
    ///   and so zeroes are made.
    /// - [`VolumeError::Unsupported`]: a volume of another process does not know discards.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError>;

    /// Makes the range read as zeroes.
    ///
    /// # Errors
    /// - As of [`Volume::write`], and with `fua` as of [`Volume::flush`].
    /// - [`VolumeError::Unsupported`]: with [`ZeroOptions::fast_only`], some of it would have to be written. Nothing has been
    ///   done then. Without it only from a volume of another process that does not know write-zeroes.
    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError>;

    /// Writes `new` at `offset` if the volume holds `expected` there, and else tells the first byte that differs,
    /// counted from `offset`. No change of anybody comes between the look and the write: others that overlap come
    /// before or after both. A read beside it finds each block as before or after, as beside any write. A power cut
    /// may leave some of its blocks written and others not, so that only one of a single block is atomic then, too.
    ///
    /// `scratch` is memory for what is there now. All three have the same size, and are not the memory of others.
    ///
    /// # Errors
    /// - [`VolumeError::Unaligned`], also where the three differ in size; as of [`Volume::read`] and of [`Volume::write`].
    /// - [`VolumeError::Again`]: other memory is wanted for `scratch`, or the write is not [`Wanted`] any more. Nothing was written.
    /// - [`VolumeError::Unsupported`]: a volume that is not this process's alone, or of no use to initiators. The default.
    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        let _ = (offset, expected, new, scratch, fua, wanted);
        Err(VolumeError::Unsupported)
    }

    /// A ticket with which another executor of the crew, of this number, carries out some requests of the volume by itself. `None`: all are
    /// carried out where the volume is, which is the default.
    fn ticket(&self, to: usize) -> Option<Ticket> {
        let _ = to;
        None
    }

    /// Returns once all changes have ended that other executors had begun by themselves before this. By default there are none.
    async fn others_ended(&self) {}

    /// Appends stretches that begin at `offset`, one after the other, and cover no more than `len` bytes: at least one, if
    /// `len` is not 0. The default knows nothing: all is data.
    ///
    /// # Errors
    /// - [`VolumeError::Unaligned`], [`VolumeError::OutOfRange`].
    /// - [`VolumeError::Member`], [`VolumeError::Stopping`], [`VolumeError::Unsupported`]: a volume of another process does
    ///   not tell.
    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.limits().check(offset, len)?;
        if len > 0 {
            found.push(Allocation { len, hole: false, zero: false });
        }
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

/// The first byte in which two stretches of memory of one size differ.
pub fn first_difference(a: &Slice, b: &Slice) -> Option<usize> {
    let (a, b) = (a.bytes(), b.bytes());
    // Comparing the whole memory at once is fastest if it is equal.
    if *a == *b { None } else { a.iter().zip(b.iter()).position(|(a, b)| a != b) }
}
