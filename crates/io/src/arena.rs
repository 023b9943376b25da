//! Memory that devices read and write: pages of the kernel's own giving, and the arenas that are registered of them.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::alloc::{Layout, handle_alloc_error};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::time::Instant;

/// Buffers start at multiples of this, and their capacity is a power-of-two multiple of it. Bytes.
pub const PAGE: usize = 4096;

/// When nothing is to be looked at.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// A buffer was given back: the next turn says when to look.
pub(crate) const SOON: Instant = Instant::from_nanos(0);
/// The number of no arena.
pub(crate) const NO_ARENA: u32 = u32::MAX;

/// Where the memory of a pool comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Pages of this process.
    #[default]
    Pages,
    /// Huge pages of this process, of the kernel's default size, from those that the administrator has reserved
    /// (`/proc/sys/vm/nr_hugepages`): all of them are claimed at once, so that none is missing later.
    HugePages,
}

/// Why a source gives no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?} can't give {bytes} bytes (errno {errno})")]
pub struct NoMemory {
    /// Who was asked.
    pub kind: Source,
    /// For how much.
    pub bytes: usize,
    /// ENOMEM: not so many huge pages are reserved and free, or the address space is full.
    pub errno: i32,
}

/// Whole pages of zeroes, of which only those cost memory that were touched. The allocator would fill them all with
/// zeroes by hand, for the sake of their alignment: 64 MiB of that take longer than all else that opening an array does.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    source: Source,
}

impl Region {
    /// `bytes`, rounded up to pages, of which there is at least one.
    pub(crate) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(PAGE), PAGE);
        let layout = layout.expect("memory is smaller than the address space");
        Self::of(Source::Pages, layout.size()).unwrap_or_else(|_| handle_alloc_error(layout))
    }

    /// `bytes` of a source, rounded up to its pages.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn of(source: Source, bytes: usize) -> Result<Self, NoMemory> {
        let (page, huge) = match source {
            Source::Pages => (PAGE, MapFlags::empty()),
            Source::HugePages => (huge_page(), MapFlags::HUGETLB),
        };
        let bytes = bytes.max(1).next_multiple_of(page);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping, at a place of the kernel's choice, changes no memory that is in use.
        let mapped = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE | huge) };
        let errno = |why: rustix::io::Errno| NoMemory { kind: source, bytes, errno: why.raw_os_error() };
        let base: *mut c_void = mapped.map_err(errno)?;
        let base = NonNull::new(base.cast()).ok_or(NoMemory { kind: source, bytes, errno: 0 })?;
        Ok(Self { base, bytes, source })
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it is not within the region.
    pub(crate) fn part(&self, at: usize, len: usize) -> NonNull<[u8]> {
        assert!(at <= self.bytes && len <= self.bytes - at, "{len} bytes at {at} of {}", self.bytes);
        // SAFETY: `at` is within the mapping.
        NonNull::slice_from_raw_parts(unsafe { self.base.add(at) }, len)
    }

    /// Gives the pages of a part back to the kernel: they are zeroes when they are next touched.
    ///
    /// # Safety
    /// Nobody refers to the bytes of the part, and no device uses them.
    ///
    /// # Panics
    /// If it is not within the region.
    pub(crate) unsafe fn forget(&self, at: usize, len: usize) {
        let part = self.part(at, len);
        if self.source == Source::HugePages {
            // They stay reserved for the pool: others could have them when it needs them again.
            return;
        }
        // SAFETY: the part is of this mapping, which stays, and its bytes are nobody's: the caller's promise.
        let forgotten = unsafe { madvise(part.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        debug_assert!(forgotten.is_ok(), "{forgotten:?}");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever cut something from the region holds its owner.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Bytes of a huge page of the kernel's default size; 2 MiB where it does not say.
fn huge_page() -> usize {
    let said = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = said.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.map_or(2 << 20, |kib| kib << 10)
}

/// Who is told of arenas: the reactor, as long as the executor has it.
pub(crate) trait Registrar {
    fn register(&self, arena: u32, memory: NonNull<[u8]>);
    fn unregister(&self, arena: u32);
}

/// The arenas of an executor: numbered stretches of memory in use.
pub(crate) struct Arenas {
    registrar: Box<dyn Registrar>,
    /// Numbers that were given back.
    free: RefCell<Vec<u32>>,
    /// Numbers given out so far.
    numbers: Cell<u32>,
    bytes: Cell<usize>,
    /// When it is next to be looked which ones nobody needs; [`NEVER`] as long as no buffer is given back.
    pub(crate) next_look: Cell<Instant>,
}

impl Arenas {
    pub(crate) fn new(registrar: Box<dyn Registrar>) -> Self {
        let (free, numbers, bytes) = Default::default();
        Self { registrar, free, numbers, bytes, next_look: Cell::new(NEVER) }
    }

    /// Takes memory into use, and gives it a number: the lowest ones are used again and again.
    pub(crate) fn begin(&self, memory: NonNull<[u8]>) -> u32 {
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let number = self.numbers.get();
            self.numbers.set(number + 1);
            number
        });
        self.bytes.set(self.bytes.get() + memory.len());
        self.registrar.register(number, memory);
        number
    }

    /// Ends an arena of `bytes` bytes that no operation and no buffer uses.
    pub(crate) fn end(&self, arena: u32, bytes: usize) {
        self.registrar.unregister(arena);
        self.free.borrow_mut().push(arena);
        self.bytes.set(self.bytes.get() - bytes);
    }

    /// Arenas in use.
    pub(crate) fn count(&self) -> usize {
        self.numbers.get() as usize - self.free.borrow().len()
    }

    /// Bytes of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }
}
