//! Buffers: page-aligned blocks of an arena, counted, and guarded while the kernel may touch them.
//!
//! A [`Buf`] works like a `RefCell` whose other borrowers are devices: while an operation writes into it (a read from a
//! member) nobody can look, while an operation reads from it (a write to a member) nobody can change it. Breaking
//! that is a programmer's error and panics; it can't become a race with the kernel.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::arena::{Arena, PAGE};
use crate::task::{Scheduler, TaskId};

/// log2 of the largest block in pages: 32 MiB.
const MAX_ORDER: usize = 13;
/// The largest buffer, in bytes: 32 MiB, the largest request of an NBD client.
pub const MAX_BUF: usize = PAGE << MAX_ORDER;

/// The borrow state of one block; lives at the index of the block's first page.
#[derive(Default)]
struct Header {
    /// Handles to the block, slices and operations among them. 0: the block is free.
    refs: Cell<u32>,
    /// Guards and operations that read the memory.
    readers: Cell<u32>,
    /// Operations (on stretches of their own) that write to the memory.
    device_writers: Cell<u32>,
    /// Operations among them that nobody waits for any more.
    lent: Cell<u32>,
    /// A guard may change the memory.
    writer: Cell<bool>,
    order: Cell<u8>,
}

struct FreeLists {
    /// First pages of free blocks, by order.
    by_order: [Vec<u32>; MAX_ORDER + 1],
    free_bytes: usize,
}

pub(crate) struct PoolInner {
    memory: Arena,
    arena: u32,
    headers: Box<[Header]>,
    free: RefCell<FreeLists>,
    scheduler: Rc<Scheduler>,
    waiters: RefCell<VecDeque<(u64, TaskId)>>,
    next_ticket: Cell<u64>,
    /// Bytes of buffers that are lent.
    lent_bytes: Cell<usize>,
}

/// A bounded store of buffers. Cloning gives another handle to the same store.
///
/// Tasks that wait for memory are served in the order in which they asked, so a large request is not starved by
/// small ones. To stay free of deadlock a task must not wait for memory of a pool while it holds some of that pool:
/// exports, and each array, have pools of their own.
#[derive(Clone)]
pub struct Pool(pub(crate) Rc<PoolInner>);

impl Pool {
    pub(crate) fn new(bytes: usize, arena: u32, scheduler: Rc<Scheduler>) -> Self {
        let pages = bytes.div_ceil(PAGE).max(1);
        let bytes = pages * PAGE;
        let mut by_order: [Vec<u32>; MAX_ORDER + 1] = Default::default();
        let mut page = 0;
        while page < pages {
            // The largest block that is aligned here and fits.
            let order = (pages - page).ilog2().min(alignment_order(page)) as usize;
            by_order[order].push(page as u32);
            page += 1 << order;
        }
        for list in &mut by_order {
            list.reverse(); // low addresses first: `pop` takes from the end
        }
        Self(Rc::new(PoolInner {
            memory: Arena::new(pages),
            arena,
            headers: (0..pages).map(|_| Header::default()).collect(),
            free: RefCell::new(FreeLists { by_order, free_bytes: bytes }),
            scheduler,
            waiters: RefCell::default(),
            next_ticket: Cell::new(0),
            lent_bytes: Cell::new(0),
        }))
    }

    pub(crate) fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.0.memory.base(), self.0.memory.len())
    }

    /// Bytes that the pool can hand out in all.
    pub fn capacity(&self) -> usize {
        self.0.memory.len()
    }

    /// Bytes not handed out now; they may be in pieces.
    pub fn free_bytes(&self) -> usize {
        self.0.free.borrow().free_bytes
    }

    /// Somebody waits for memory.
    pub fn is_wanted(&self) -> bool {
        !self.0.waiters.borrow().is_empty()
    }

    /// Bytes of buffers that operations use which were given up: nobody can have them before those end.
    pub fn lent_bytes(&self) -> usize {
        self.0.lent_bytes.get()
    }

    /// A buffer of at least `len` bytes (its [`Buf::len`] is exactly `len`), or `None` if there is none free or
    /// others wait. The content is what the last user left.
    #[inline]
    pub fn try_alloc(&self, len: usize) -> Option<Buf> {
        if self.0.waiters.borrow().is_empty() { self.take(len) } else { None }
    }

    /// Like [`Pool::try_alloc`], but waits its turn.
    ///
    /// # Panics
    /// If `len` is more than the pool could ever give ([`MAX_BUF`], or its capacity): it would wait for ever.
    pub async fn alloc(&self, len: usize) -> Buf {
        if let Some(buf) = self.try_alloc(len) {
            return buf;
        }
        let order = order_of(len);
        assert!(
            len <= MAX_BUF && (PAGE << order) <= self.capacity(),
            "a buffer of {len} bytes can't come from a pool of {}",
            self.capacity()
        );
        let turn = Turn::join(self);
        core::future::poll_fn(|_| {
            if !turn.is_first() {
                return core::task::Poll::Pending;
            }
            match self.take(len) {
                Some(buf) => core::task::Poll::Ready(buf),
                None => core::task::Poll::Pending,
            }
        })
        .await
    }

    fn take(&self, len: usize) -> Option<Buf> {
        let order = order_of(len);
        if order > MAX_ORDER {
            return None;
        }
        let mut free = self.0.free.borrow_mut();
        let page = match free.by_order[order].pop() {
            Some(page) => page,
            None => free.split(order)?,
        };
        free.free_bytes -= PAGE << order;
        drop(free);
        let header = &self.0.headers[page as usize];
        header.order.set(order as u8);
        header.refs.set(1);
        Some(Buf { pool: Rc::clone(&self.0), page, len: len as u32 })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("capacity", &self.capacity()).field("free", &self.free_bytes()).finish()
    }
}

/// Forgotten handles and guards could take a counter round to 0, and with it the block from those who still look at it.
#[inline]
fn add_one(count: &Cell<u32>) {
    count.set(count.get().checked_add(1).expect("fewer than 2^32 handles of one buffer"));
}

/// The smallest power-of-two count of pages, as its logarithm, that holds `len` bytes.
#[inline]
fn order_of(len: usize) -> usize {
    let pages = len.div_ceil(PAGE).max(1);
    pages.next_power_of_two().trailing_zeros() as usize
}

/// log2 of the alignment of a page number in pages; page 0 is aligned to everything.
fn alignment_order(page: usize) -> u32 {
    if page == 0 { MAX_ORDER as u32 } else { page.trailing_zeros().min(MAX_ORDER as u32) }
}

impl FreeLists {
    /// Cuts a block of `order` from a larger one; joins free neighbours first if no larger one is left.
    #[cold]
    fn split(&mut self, order: usize) -> Option<u32> {
        let larger = |lists: &Self| (order..=MAX_ORDER).find(|&o| !lists.by_order[o].is_empty());
        let from = match larger(self) {
            Some(from) => from,
            None => {
                self.join();
                larger(self)?
            }
        };
        let page = self.by_order[from].pop()?;
        for o in (order..from).rev() {
            self.by_order[o].push(page + (1 << o));
        }
        Some(page)
    }

    /// Joins free buddies into larger blocks. Left undone on every free, since most blocks are used again as they are.
    fn join(&mut self) {
        for order in 0..MAX_ORDER {
            let mut pages = core::mem::take(&mut self.by_order[order]);
            pages.sort_unstable_by(|a, b| b.cmp(a));
            while let Some(page) = pages.pop() {
                let buddies = page & (1 << order) == 0 && pages.last() == Some(&(page + (1 << order)));
                if buddies {
                    pages.pop();
                    self.by_order[order + 1].push(page);
                } else {
                    self.by_order[order].push(page);
                }
            }
            self.by_order[order].reverse();
        }
    }
}

/// A place in the queue for memory; leaving it (or dropping the future) lets the next one try.
struct Turn<'a> {
    pool: &'a Pool,
    ticket: u64,
}

impl<'a> Turn<'a> {
    fn join(pool: &'a Pool) -> Self {
        let ticket = pool.0.next_ticket.get();
        pool.0.next_ticket.set(ticket + 1);
        pool.0.waiters.borrow_mut().push_back((ticket, pool.0.scheduler.current()));
        Self { pool, ticket }
    }

    fn is_first(&self) -> bool {
        self.pool.0.waiters.borrow().front().is_some_and(|&(ticket, _)| ticket == self.ticket)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiters = self.pool.0.waiters.borrow_mut();
        waiters.retain(|&(ticket, _)| ticket != self.ticket);
        if let Some(&(_, task)) = waiters.front() {
            self.pool.0.scheduler.wake(task);
        }
    }
}

/// A block of a [`Pool`]. Cloning gives another handle to the same bytes; the block goes back when the last handle,
/// slice and operation that holds it is gone.
pub struct Buf {
    pool: Rc<PoolInner>,
    page: u32,
    len: u32,
}

impl Buf {
    #[inline]
    fn header(&self) -> &Header {
        &self.pool.headers[self.page as usize]
    }

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        // SAFETY: `page` is the index of a page of the arena, so the address stays within its allocation.
        unsafe { self.pool.memory.base().add(self.page as usize * PAGE) }
    }

    pub(crate) fn arena(&self) -> u32 {
        self.pool.arena
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// A buffer of zero bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A handle to a part of the buffer.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of a buffer of {}", self.len);
        Slice { buf: self.clone(), start: range.start as u32, len: (range.end - range.start) as u32 }
    }

    /// A handle to all of it.
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
        assert!(
            !header.writer.get() && header.device_writers.get() == 0,
            "the buffer is being written to: look at it after the operation has completed"
        );
        add_one(&header.readers);
        Bytes { buf: self, start: 0, len: self.len() }
    }

    /// Changes the bytes.
    ///
    /// # Panics
    /// While any operation uses the buffer or another guard lives.
    #[inline]
    pub fn bytes_mut(&self) -> BytesMut<'_> {
        let header = self.header();
        assert!(
            !header.writer.get() && header.device_writers.get() == 0 && header.readers.get() == 0,
            "the buffer is in use: change it after the operation has completed"
        );
        header.writer.set(true);
        BytesMut { buf: self, start: 0, len: self.len() }
    }

    /// An operation that was given up may still touch the memory: a device fills it, or reads it.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.header().lent.get() > 0
    }

    /// Nobody waits any more for an operation that uses the buffer.
    pub(crate) fn lend(&self) {
        let (header, lent) = (self.header(), &self.pool.lent_bytes);
        if header.lent.get() == 0 {
            lent.set(lent.get() + (PAGE << header.order.get()));
        }
        add_one(&header.lent);
    }

    /// Such an operation has ended.
    pub(crate) fn given_back(&self) {
        let (header, lent) = (self.header(), &self.pool.lent_bytes);
        header.lent.set(header.lent.get() - 1);
        if header.lent.get() == 0 {
            lent.set(lent.get() - (PAGE << header.order.get()));
        }
    }

    /// An operation begins to read (`into == false`) or to write (`into == true`) the memory.
    #[inline]
    pub(crate) fn device_begins(&self, into: bool) {
        let header = self.header();
        assert!(!header.writer.get(), "the buffer is being changed: drop the guard before submitting");
        if into {
            assert!(header.readers.get() == 0, "the buffer is being read: a device can't fill it now");
            add_one(&header.device_writers);
        } else {
            add_one(&header.readers);
        }
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
        Self { pool: Rc::clone(&self.pool), page: self.page, len: self.len }
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        let header = self.header();
        let left = header.refs.get() - 1;
        header.refs.set(left);
        if left == 0 {
            let order = header.order.get() as usize;
            let mut free = self.pool.free.borrow_mut();
            free.by_order[order].push(self.page);
            free.free_bytes += PAGE << order;
            drop(free);
            if let Some(&(_, task)) = self.pool.waiters.borrow().front() {
                self.pool.scheduler.wake(task);
            }
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// A handle to a part of a [`Buf`]: what operations and volumes are given.
#[derive(Clone)]
pub struct Slice {
    pub(crate) buf: Buf,
    start: u32,
    len: u32,
}

impl Slice {
    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// A slice of zero bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// See [`Buf::is_lent`]; of the whole buffer that the slice is of.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.buf.is_lent()
    }

    /// A part of the part; the range counts from this slice's start.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of a slice of {}", self.len);
        Slice {
            buf: self.buf.clone(),
            start: self.start + range.start as u32,
            len: (range.end - range.start) as u32,
        }
    }

    /// Looks at the bytes; panics as [`Buf::bytes`] does.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        let mut bytes = self.buf.bytes();
        bytes.start = self.start as usize;
        bytes.len = self.len as usize;
        bytes
    }

    /// Changes the bytes; panics as [`Buf::bytes_mut`] does: the guard is of the whole buffer.
    #[inline]
    pub fn bytes_mut(&self) -> BytesMut<'_> {
        let mut bytes = self.buf.bytes_mut();
        bytes.start = self.start as usize;
        bytes.len = self.len as usize;
        bytes
    }

    /// Copies `from` to the bytes from `at` on, as a device would: other operations may be filling other parts of the
    /// same buffer meanwhile, which no guard allows. `from` must not be of the same buffer.
    ///
    /// # Panics
    /// If the bytes don't fit, while a guard or an operation looks at the buffer, or if it is lent.
    pub fn put(&self, at: usize, from: &[u8]) {
        assert!(
            at <= self.len() && from.len() <= self.len() - at,
            "{} bytes at {at} of {self:?}",
            from.len()
        );
        assert!(
            !self.is_lent(),
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

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        // SAFETY: `start` is within the buffer's block.
        unsafe { self.buf.base().add(self.start as usize) }
    }

    pub(crate) fn from_parts(buf: Buf, start: usize, len: usize) -> Self {
        Self { buf, start: start as u32, len: len as u32 }
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({}+{} of {:?})", self.start, self.len, self.buf)
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
