//! Buffers: page-aligned blocks of a pool's store, counted, and guarded while the kernel may touch them.
//!
//! A [`Buf`] works like a `RefCell` whose other borrowers are devices: while an operation writes into it (a read from a
//! member) nobody can look, while an operation reads from it (a write to a member) nobody can change it. Breaking
//! that is a programmer's error and panics; it can't become a race with the kernel.

use core::cell::Cell;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::rc::Rc;

use crate::arena::PAGE;
use crate::racing;
use crate::store::{Header, Store};

/// The length of a buffer of shared memory, which ends only where the memory does. No other is as long.
const SHARED: u32 = u32::MAX;

/// Forgotten handles and guards could take a counter round to 0, and with it the block from those who still look at it.
#[inline]
fn add_one(count: &Cell<u32>) {
    count.set(count.get().checked_add(1).expect("fewer than 2^32 handles of one buffer"));
}

/// The smallest power-of-two count of pages, as its logarithm, that holds `len` bytes.
#[inline]
pub(crate) fn order_of(len: usize) -> usize {
    let pages = len.div_ceil(PAGE).max(1);
    pages.next_power_of_two().trailing_zeros() as usize
}

/// A block of a [`crate::Pool`]. Cloning gives another handle to the same bytes; the block goes back when the last handle,
/// slice and operation that holds it is gone.
pub struct Buf {
    store: Rc<Store>,
    /// From its first page on.
    extent: BufExtent,
}

/// Where something begins, and its bytes. One word, so that a buffer's handle is two and travels in registers: halves are
/// put together in memory, and copied from there before the processor has them in one piece, for which it waits some 5 ns.
#[derive(Clone, Copy)]
pub(crate) struct BufExtent(u64);

impl BufExtent {
    #[inline]
    fn new(start: u32, len: u32) -> Self {
        Self(u64::from(start) << 32 | u64::from(len))
    }

    #[inline]
    fn of(range: Range<usize>) -> Self {
        Self::new(range.start as u32, (range.end - range.start) as u32)
    }

    #[inline]
    fn start(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn len(self) -> u32 {
        self.0 as u32
    }
}

impl Buf {
    /// A block of at least `len` bytes, if there is one free.
    #[inline]
    pub(crate) fn take(store: &Rc<Store>, len: usize) -> Option<Self> {
        let order = order_of(len);
        let page = store.take(order)?;
        let header = store.header(page);
        header.order.set(order as u8);
        header.refs.set(1);
        Some(Self { store: Rc::clone(store), extent: BufExtent::new(page, len as u32) })
    }

    /// Shared memory from a page on: `start` bytes on, as far as the memory goes, are the caller's to cut slices from.
    pub(crate) fn of_shared(store: &Rc<Store>, page: u32) -> Self {
        store.hold_shared(page);
        let buf = Self { store: Rc::clone(store), extent: BufExtent::new(page, SHARED) };
        add_one(&buf.header().refs);
        buf
    }

    /// All of the memory that another executor has lent to a store, of which this is the first handle.
    pub(crate) fn of_lent(store: &Rc<Store>, shared: bool) -> Self {
        let len = if shared { SHARED } else { store.bytes() as u32 };
        Self { store: Rc::clone(store), extent: BufExtent::new(0, len) }
    }

    /// Whether others change the bytes at any time.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.extent.len() == SHARED
    }

    /// Where `len` bytes at an address are, if they are in the buffer.
    pub(crate) fn place_of(&self, base: *const u8, len: usize) -> Option<usize> {
        let start = base.addr().checked_sub(self.base().addr().get())?;
        let within = start <= self.len() && len <= self.len() - start;
        (within && (!self.is_shared() || self.store.place_of(base, len).is_some())).then_some(start)
    }

    #[inline]
    fn header(&self) -> &Header {
        self.store.header(self.extent.start())
    }

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.store.at(self.extent.start())
    }

    /// Where a part of the buffer begins.
    #[inline]
    pub(crate) fn base_of(&self, part: BufExtent) -> NonNull<u8> {
        debug_assert!(self.is_shared() || part.start() as usize + part.len() as usize <= self.len());
        // SAFETY: extents but those of buffers themselves come from `slice` and `part` alone, which hold them against the
        // buffer, and go about beside that buffer: the part is within its block.
        unsafe { self.base().add(part.start() as usize) }
    }

    /// The arena that holds a part of the buffer; [`crate::arena::NO_ARENA`] if no single one does.
    #[inline]
    pub(crate) fn arena_of(&self, part: BufExtent) -> u32 {
        let first = self.extent.start() as usize * PAGE + part.start() as usize;
        self.store.arena_of(first, part.len() as usize)
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.extent.len() as usize
    }

    /// A buffer of zero bytes.
    pub fn is_empty(&self) -> bool {
        self.extent.len() == 0
    }

    /// A handle to a part of the buffer.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} of a buffer of {}",
            self.extent.len()
        );
        Slice { buf: self.clone(), extent: BufExtent::of(range) }
    }

    /// A slice of the whole buffer.
    #[inline]
    pub fn all(&self) -> Slice {
        self.slice(0..self.len())
    }

    /// Looks at the bytes.
    ///
    /// # Panics
    /// While an operation fills the buffer or a [`Buf::bytes_mut`] guard lives.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        let header = self.header();
        if header.writer.get() || header.device_writers.get() > 0 {
            self.refuse("the buffer is being written to: look at it after the operation has completed");
        }
        add_one(&header.readers);
        Bytes { buf: self, start: 0, len: self.len() }
    }

    /// Changes the bytes.
    ///
    /// # Panics
    /// While any operation uses the buffer or another guard lives.
    #[inline]
    pub fn bytes_mut(&self) -> BytesMut<'_> {
        self.try_bytes_mut().unwrap_or_else(|| {
            self.refuse("the buffer is in use: change it after the operation has completed")
        })
    }

    /// The bytes, to be changed; `None` while an operation or a guard uses the buffer, and for shared memory.
    #[inline]
    pub fn try_bytes_mut(&self) -> Option<BytesMut<'_>> {
        let header = self.header();
        if header.writer.get() || header.device_writers.get() > 0 || header.readers.get() > 0 {
            return None;
        }
        header.writer.set(true);
        Some(BytesMut { buf: self, start: 0, len: self.len() })
    }

    #[cold]
    fn refuse(&self, why: &str) -> ! {
        assert!(
            !self.is_shared(),
            "others change this memory: copy what is to be looked at (Slice::copy_to)"
        );
        panic!("{why}")
    }

    /// An operation that was given up may still touch the memory: a device fills it, or reads it.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.header().pinned.get() > 0
    }

    /// Marks the addresses, with their bytes, that an operation uses which was given up.
    pub(crate) fn lend(&self, used: impl Iterator<Item = (*const u8, usize)>) {
        if self.is_shared() {
            return self.ranges(used).for_each(|range| self.store.lend(range));
        }
        let (header, pinned) = (self.header(), &self.store.pinned_bytes);
        if header.pinned.get() == 0 {
            pinned.set(pinned.get() + (PAGE << header.order.get()));
        }
        add_one(&header.pinned);
    }

    /// Ends the pin of an operation that has completed.
    pub(crate) fn given_back(&self, used: impl Iterator<Item = (*const u8, usize)>) {
        if self.is_shared() {
            return self.ranges(used).for_each(|range| self.store.given_back(&range));
        }
        let (header, pinned) = (self.header(), &self.store.pinned_bytes);
        header.pinned.set(header.pinned.get() - 1);
        if header.pinned.get() == 0 {
            pinned.set(pinned.get() - (PAGE << header.order.get()));
        }
    }

    /// Ranges of the used memory that lie in the same shared memory.
    fn ranges(&self, used: impl Iterator<Item = (*const u8, usize)>) -> impl Iterator<Item = Range<usize>> {
        used.filter_map(|(base, len)| self.store.place_of(base, len).map(|at| at..at + len))
    }

    /// An operation begins to read (`into == false`) or to write (`into == true`) the memory.
    #[inline]
    pub(crate) fn device_begins(&self, into: bool) {
        let header = self.header();
        if header.writer.get() {
            return self.begins_beside_writer(into);
        }
        if into {
            assert!(header.readers.get() == 0, "the buffer is being read: a device can't fill it now");
            add_one(&header.device_writers);
        } else {
            add_one(&header.readers);
        }
    }

    /// Shared memory may be written while it is read: the party that changes it coordinates its users itself.
    #[cold]
    fn begins_beside_writer(&self, into: bool) {
        assert!(self.is_shared(), "the buffer is being changed: drop the guard before submitting");
        let header = self.header();
        add_one(if into { &header.device_writers } else { &header.readers });
    }

    #[inline]
    pub(crate) fn device_ends(&self, into: bool) {
        let count = if into { &self.header().device_writers } else { &self.header().readers };
        count.set(count.get() - 1);
    }
}

impl Clone for Buf {
    #[inline]
    fn clone(&self) -> Self {
        add_one(&self.header().refs);
        Self { store: Rc::clone(&self.store), extent: self.extent }
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        let header = self.header();
        let left = header.refs.get() - 1;
        header.refs.set(left);
        if left == 0 {
            self.store.give(self.extent.start(), header.order.get().into());
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_shared() {
            f.write_str("shared memory")
        } else {
            write!(f, "Buf({} bytes)", self.extent.len())
        }
    }
}

/// A handle to a part of a [`Buf`]: what operations and volumes are given.
#[derive(Clone)]
pub struct Slice {
    pub(crate) buf: Buf,
    /// From the buffer's byte on.
    extent: BufExtent,
}

impl Slice {
    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.extent.len() as usize
    }

    /// A slice of zero bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extent.len() == 0
    }

    /// See [`Buf::is_pinned`]; of the whole buffer that the slice is of. Of shared memory it is these bytes that count.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.buf.is_pinned() && self.is_pinned_itself()
    }

    #[cold]
    fn is_pinned_itself(&self) -> bool {
        let first = self.buf.extent.start() as usize * PAGE + self.start();
        !self.is_shared() || self.buf.store.lends(&(first..first + self.len()))
    }

    /// Whether others may change the bytes at any time: the owner of given memory (see [`crate::Given`]). Devices may
    /// read and fill it; tasks copy it first ([`Slice::copy_to`]), and look at the copy.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.buf.is_shared()
    }

    /// A part of the part; the range counts from this slice's start.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end, "{range:?}");
        Slice { buf: self.buf.clone(), extent: self.part(range.start, range.end - range.start) }
    }

    /// Where `len` bytes from `start` on, of the slice, are in the buffer.
    ///
    /// # Panics
    /// If they are not within the slice.
    #[inline]
    pub(crate) fn part(&self, start: usize, len: usize) -> BufExtent {
        assert!(start <= self.len() && len <= self.len() - start, "{len} bytes at {start} of {}", self.len());
        BufExtent::new(self.extent.start() + start as u32, len as u32)
    }

    /// First byte, of the buffer.
    #[inline]
    fn start(&self) -> usize {
        self.extent.start() as usize
    }

    /// Looks at the bytes; panics as [`Buf::bytes`] does, and where the slice [is shared](Slice::is_shared).
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        let mut bytes = self.buf.bytes();
        bytes.start = self.start();
        bytes.len = self.len();
        bytes
    }

    /// Changes the bytes; panics as [`Buf::bytes_mut`] does, since the guard is of the whole buffer, and where the slice [is
    /// shared](Slice::is_shared).
    #[inline]
    pub fn bytes_mut(&self) -> BytesMut<'_> {
        self.part_of(self.buf.bytes_mut())
    }

    /// See [`Buf::try_bytes_mut`], of the whole buffer that the slice is of.
    #[inline]
    pub fn try_bytes_mut(&self) -> Option<BytesMut<'_>> {
        self.buf.try_bytes_mut().map(|bytes| self.part_of(bytes))
    }

    #[inline]
    fn part_of<'a>(&self, mut bytes: BytesMut<'a>) -> BytesMut<'a> {
        bytes.start = self.start();
        bytes.len = self.len();
        bytes
    }

    /// Copies `from` to the bytes from `at` on, as a device would: other operations may be filling other parts of the
    /// same buffer meanwhile, which no guard allows. `from` must not be of the same buffer.
    ///
    /// # Panics
    /// If the bytes don't fit; unless the slice [is shared](Slice::is_shared), also while a guard or an operation looks at
    /// the buffer, or if it is pinned.
    pub fn put(&self, at: usize, from: &[u8]) {
        assert!(
            at <= self.len() && from.len() <= self.len() - at,
            "{} bytes at {at} of {self:?}",
            from.len()
        );
        if self.is_shared() {
            // SAFETY: the range is within the memory, which nobody has a reference to, so that `from` is of other memory.
            return unsafe { racing::store(from, self.base().as_ptr().add(at)) };
        }
        assert!(
            !self.is_pinned(),
            "a device that was given up may still write to the buffer: take other memory"
        );
        self.buf.device_begins(true);
        // SAFETY: the range is within the block, and no guard of this buffer lives (checked just now), so no
        // reference to its bytes does. `from` is a reference, hence memory of no live operation or other buffer.
        unsafe {
            core::ptr::copy_nonoverlapping(from.as_ptr(), self.base().as_ptr().add(at), from.len());
        }
        self.buf.device_ends(true);
    }

    /// Copies the bytes. Of shared memory each is one that it had meanwhile.
    ///
    /// # Panics
    /// If `into` is not as long; unless the slice [is shared](Slice::is_shared), as [`Slice::bytes`].
    pub fn copy_to(&self, into: &mut [u8]) {
        assert_eq!(into.len(), self.len(), "{self:?}");
        if self.is_shared() {
            // SAFETY: the range is within the memory, which nobody has a reference to.
            unsafe { racing::load(self.base().as_ptr(), into) };
        } else {
            into.copy_from_slice(&self.bytes());
        }
    }

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.buf.base_of(self.extent)
    }

    /// The whole buffer.
    #[inline]
    pub(crate) fn extent(&self) -> BufExtent {
        self.extent
    }

    pub(crate) fn from_parts(buf: Buf, start: usize, len: usize) -> Self {
        Self { buf, extent: BufExtent::of(start..start + len) }
    }
}

/// A list of one.
impl AsRef<[Slice]> for Slice {
    #[inline]
    fn as_ref(&self) -> &[Slice] {
        core::slice::from_ref(self)
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({}+{} of {:?})", self.start(), self.len(), self.buf)
    }
}

/// A look at a buffer's bytes.
pub struct Bytes<'a> {
    buf: &'a Buf,
    start: usize,
    len: usize,
}

impl Deref for Bytes<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is within the block; the `readers` count keeps guards and devices from writing to it.
        unsafe { core::slice::from_raw_parts(self.buf.base().as_ptr().add(self.start), self.len) }
    }
}

impl Drop for Bytes<'_> {
    #[inline]
    fn drop(&mut self) {
        self.buf.device_ends(false);
    }
}

/// A right to change a buffer's bytes.
pub struct BytesMut<'a> {
    buf: &'a Buf,
    start: usize,
    len: usize,
}

impl Deref for BytesMut<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is within the block; `writer` keeps every other guard and device away.
        unsafe { core::slice::from_raw_parts(self.buf.base().as_ptr().add(self.start), self.len) }
    }
}

impl DerefMut for BytesMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `&mut self` makes this the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.buf.base().as_ptr().add(self.start), self.len) }
    }
}

impl Drop for BytesMut<'_> {
    #[inline]
    fn drop(&mut self) {
        self.buf.header().writer.set(false);
    }
}
