//! A volume in RAM that remembers what was asked of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::{Io, PAGE, Slice};
use brindle_volume::{Allocation, Limits, Volume, VolumeError, Wanted, ZeroOptions, stretches};

use crate::random::Random;

/// The requests to a volume, in the order in which they were carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RamRequest {
    /// Offset and bytes.
    Read(u64, usize),
    /// Offset, bytes, FUA.
    Write(u64, usize, bool),
    /// A flush.
    Flush,
    /// Offset and bytes.
    Discard(u64, u64),
    /// Offset, bytes and how.
    Zeroes(u64, u64, ZeroOptions),
}

/// Bytes in RAM. Pages that were discarded or zeroed without `keep_allocated` are holes.
pub struct RamVolume {
    io: Io,
    limits: Limits,
    bytes: RefCell<Vec<u8>>,
    holes: RefCell<Vec<bool>>,
    /// Requests wait for a random number of turns of the executor up to this, so that they end in another order than
    /// they began.
    turns: Cell<u32>,
    chance: RefCell<Random>,
    /// The requests so far: the first 100,000 of them.
    pub asked: RefCell<Vec<RamRequest>>,
    /// The error of the next requests.
    pub error: Cell<Option<VolumeError>>,
    /// Requests that are under way.
    pub busy: Cell<usize>,
    /// Writes of which a server says that they are being received, and how many it has said that of so far.
    pub coming: Cell<(usize, usize)>,
    /// Memory of writes that have ended, while it is kept.
    kept: RefCell<Option<Vec<Slice>>>,
}

impl RamVolume {
    /// `size` zeroes, all of them holes.
    pub fn new(io: &Io, size: u64) -> Rc<Self> {
        Self::with(io, |limits| limits.size = size)
    }

    /// A volume whose limits are changed before it is made.
    pub fn with(io: &Io, change: impl FnOnce(&mut Limits)) -> Rc<Self> {
        let mut limits = Limits {
            size: 1 << 20,
            block: 512,
            preferred: 4096,
            optimal: 0,
            read_only: false,
            discard: true,
        };
        change(&mut limits);
        let size = limits.size as usize;
        Rc::new(Self {
            io: io.clone(),
            limits,
            bytes: RefCell::new(vec![0; size]),
            holes: RefCell::new(vec![true; size.div_ceil(PAGE)]),
            turns: Cell::new(0),
            chance: RefCell::new(Random::new(1)),
            asked: RefCell::default(),
            error: Cell::new(None),
            busy: Cell::new(0),
            coming: Cell::new((0, 0)),
            kept: RefCell::default(),
        })
    }

    /// From now on memory of writes is held beyond their end, as by a member that hangs; or what is held is given back.
    pub fn keep_memory(&self, keeps: bool) {
        *self.kept.borrow_mut() = keeps.then(Vec::new);
    }

    /// From now on each request waits for up to `turns` turns.
    pub fn dawdle(&self, turns: u32) {
        self.turns.set(turns);
    }

    /// Copies bytes out of it beside the server's back.
    pub fn content(&self, offset: usize, len: usize) -> Vec<u8> {
        self.bytes.borrow()[offset..offset + len].to_vec()
    }

    /// Changes the content beside the server's back.
    pub fn set_content(&self, offset: usize, from: &[u8]) {
        self.bytes.borrow_mut()[offset..offset + from.len()].copy_from_slice(from);
        self.allocate(offset as u64, from.len() as u64, true);
    }

    fn allocate(&self, offset: u64, len: u64, allocated: bool) {
        let (first, last) = if allocated {
            (offset / PAGE as u64, (offset + len).div_ceil(PAGE as u64))
        } else {
            (offset.div_ceil(PAGE as u64), (offset + len) / PAGE as u64)
        };
        if first < last {
            self.holes.borrow_mut()[first as usize..last as usize].fill(!allocated);
        }
    }

    /// Whether there is something to change.
    fn is_change(&self, offset: u64, len: u64) -> Result<bool, VolumeError> {
        self.limits.check_change()?;
        self.limits.check(offset, len)?;
        Ok(len > 0)
    }

    async fn begin(&self, asked: RamRequest) -> Result<Busy<'_>, VolumeError> {
        self.busy.set(self.busy.get() + 1);
        let busy = Busy(self);
        if self.turns.get() > 0 {
            let turns = self.chance.borrow_mut().below(u64::from(self.turns.get()) + 1);
            for _ in 0..turns {
                self.io.yield_now().await;
            }
        }
        let mut log = self.asked.borrow_mut();
        if log.len() < 100_000 {
            log.push(asked);
        }
        self.error.get().map_or(Ok(busy), Err)
    }
}

struct Busy<'a>(&'a RamVolume);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

impl Volume for RamVolume {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn comes(&self, _: u64, _: u64) -> Option<usize> {
        let (now, all) = self.coming.get();
        self.coming.set((now + 1, all + 1));
        Some(0)
    }

    fn came(&self, _: usize) {
        let (now, all) = self.coming.get();
        self.coming.set((now - 1, all));
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        let len = self.limits.check_list(offset, into)?;
        if len == 0 {
            return Ok(());
        }
        let _busy = self.begin(RamRequest::Read(offset, len as usize)).await?;
        for (at, slice) in stretches(offset, into) {
            let at = at as usize;
            slice.put(0, &self.bytes.borrow()[at..at + slice.len()]);
        }
        Ok(())
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        self.limits.check_change()?;
        let len = self.limits.check_list(offset, from)?;
        if len == 0 {
            return Ok(());
        }
        let _busy = self.begin(RamRequest::Write(offset, len as usize, fua)).await?;
        for (at, slice) in stretches(offset, from) {
            let mut bytes = vec![0; slice.len()];
            slice.copy_to(&mut bytes);
            self.set_content(at as usize, &bytes);
        }
        if let Some(kept) = &mut *self.kept.borrow_mut() {
            kept.extend_from_slice(from);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.begin(RamRequest::Flush).await.map(|_| ())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if !self.is_change(offset, len)? {
            return Ok(());
        }
        let _busy = self.begin(RamRequest::Discard(offset, len)).await?;
        self.bytes.borrow_mut()[offset as usize..(offset + len) as usize].fill(0);
        self.allocate(offset, len, false);
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        if !self.is_change(offset, len)? {
            return Ok(());
        }
        let _busy = self.begin(RamRequest::Zeroes(offset, len, options)).await?;
        if options.fast_only && len > 1 << 20 {
            return Err(VolumeError::Unsupported);
        }
        self.bytes.borrow_mut()[offset as usize..(offset + len) as usize].fill(0);
        self.allocate(offset, len, options.keep_allocated);
        Ok(())
    }

    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        self.limits.check_change()?;
        let len = self.limits.check_list(offset, core::slice::from_ref(expected))?;
        if new.len() != expected.len() || scratch.len() != expected.len() {
            return Err(VolumeError::Unaligned);
        }
        if len == 0 {
            return Ok(None);
        }
        let _busy = self.begin(RamRequest::Write(offset, len as usize, fua)).await?;
        scratch.put(0, &self.bytes.borrow()[offset as usize..(offset + len) as usize]);
        let differs = brindle_volume::first_difference(expected, scratch);
        if differs.is_none() {
            wanted.check()?;
            let bytes = new.bytes().to_vec();
            self.set_content(offset as usize, &bytes);
        }
        Ok(differs.map(|at| at as u64))
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.limits.check(offset, len)?;
        let holes = self.holes.borrow();
        let mut at = offset;
        while at < offset + len {
            let page = at / PAGE as u64;
            let next = ((page + 1) * PAGE as u64).min(offset + len);
            let hole = holes[page as usize];
            found.push(Allocation { len: next - at, hole, zero: hole });
            at = next;
        }
        Ok(())
    }
}
