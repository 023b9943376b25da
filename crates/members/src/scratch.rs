//! An array's memory for parity and reconstruction.

use core::cell::{Cell, RefCell};

use brindle_io::sync::{Either, Notify, race};
use brindle_io::{Buf, Io, Pool};

/// A pool that is replaced when devices that don't answer keep too much of it.
///
/// Memory that was given to a device is not used again until the device has let go of it. A task that needs more than
/// is left would wait for that device, whether or not it is of the array any more.
pub struct Scratch {
    io: Io,
    pool: RefCell<Pool>,
    /// Times that the pool may still be replaced: a member can keep one.
    spare: Cell<u16>,
    renewed: Notify,
    /// A task waited for memory at the last look.
    wanted: Cell<bool>,
}

impl Scratch {
    /// `bytes` of memory for an array of `members`.
    pub fn new(io: &Io, bytes: usize, members: u16) -> Self {
        let (pool, renewed) = (RefCell::new(io.pool(bytes)), Notify::new(io));
        Self { io: io.clone(), pool, spare: Cell::new(members), renewed, wanted: Cell::new(false) }
    }

    /// Bytes that can be handed out in all.
    pub fn capacity(&self) -> usize {
        self.pool.borrow().capacity()
    }

    /// A buffer, if there is one free and no task waits; see [`Pool::try_alloc`].
    #[inline]
    pub fn try_alloc(&self, len: usize) -> Option<Buf> {
        self.pool.borrow().try_alloc(len)
    }

    /// A buffer; waits its turn. See [`Pool::alloc`].
    #[inline]
    pub async fn alloc(&self, len: usize) -> Buf {
        match self.try_alloc(len) {
            Some(buf) => buf,
            None => self.wait(len).await,
        }
    }

    #[cold]
    async fn wait(&self, len: usize) -> Buf {
        loop {
            let (pool, spare) = (self.pool.borrow().clone(), self.spare.get());
            let replaced = self.renewed.until(|| (self.spare.get() != spare).then_some(()));
            if let Either::First(buf) = race(Box::pin(pool.alloc(len)), replaced).await {
                return buf;
            }
        }
    }

    /// Takes a new pool if devices that were given up keep most of this one, or if they keep some and the rest is too
    /// fragmented for the tasks that wait. Called now and then.
    pub fn renew_if_pinned(&self) {
        let pool = self.pool.borrow().clone();
        let pinned = pool.pinned_bytes();
        let wanted = pool.is_wanted();
        let starved = self.wanted.replace(wanted) && wanted;
        if self.spare.get() == 0 || pinned == 0 || pinned * 2 < pool.capacity() && !starved {
            return;
        }
        self.pool.replace(self.io.pool(pool.capacity()));
        self.spare.set(self.spare.get() - 1);
        self.renewed.notify();
    }
}
