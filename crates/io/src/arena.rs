//! Memory that devices read and write: pages of the kernel's own giving, and the arenas that are registered of them.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use std::alloc::{Layout, handle_alloc_error};
use std::os::fd::BorrowedFd;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::time::Instant;

/// Buffers start at multiples of this, and their capacity is a power-of-two multiple of it. Bytes.
pub const PAGE: usize = 4096;

/// The time for arenas that need no look.
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
    /// The source of the memory.
    pub kind: Source,
    /// For how much.
    pub bytes: usize,
    /// ENOMEM: too few huge pages are reserved and free, or the address space is full.
    pub errno: i32,
}

/// Why memory from outside is refused, or a part of it can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// The file may be made shorter at any time, and an access beyond its end would kill the process: it is no memfd
    /// with the seal `F_SEAL_SHRINK`.
    #[error("the file is not sealed against being made shorter (F_SEAL_SHRINK of a memfd)")]
    Unsealed,
    /// The range is empty, or not within the file or the memory that was given.
    #[error("the range is not within the memory that was given, which has {0} bytes")]
    OutOfRange(u64),
    /// The range does not begin and end at multiples of this: of the file's pages, or of a volume's block.
    #[error("offset or length is not a multiple of {0}")]
    Unaligned(u64),
    /// The kernel does not map it (errno): the descriptor can't be read and written (EACCES), writes are sealed (EPERM),
    /// there are not so many huge pages, or the address space has no room for it (ENOMEM).
    #[error("the file can't be mapped (errno {0})")]
    Refused(i32),
}

impl From<rustix::io::Errno> for NotGiven {
    fn from(why: rustix::io::Errno) -> Self {
        Self::Refused(why.raw_os_error())
    }
}

/// The kind of file system that huge pages are files of; its block is a page.
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Whole pages of zeroes; only touched ones cost memory. The allocator would fill them all with zeroes by hand, for the
/// sake of their alignment: 64 MiB of that take longer than all else that opening an array does.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    kept: KeptArena,
}

/// The treatment of pages that are no longer used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptArena {
    /// The pages go back to the kernel.
    No,
    /// The pages stay: huge pages are reserved for the pool, and memory of others may be in use by them.
    Yes,
    /// The memory is another executor's, and only lent.
    Lent,
}

impl Region {
    /// Maps `bytes`, rounded up to at least one page.
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
        let (page, huge, kept) = match source {
            Source::Pages => (PAGE, MapFlags::empty(), KeptArena::No),
            Source::HugePages => (huge_page(), MapFlags::HUGETLB, KeptArena::Yes),
        };
        let bytes = bytes.max(1).next_multiple_of(page);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping, at a place of the kernel's choice, changes no memory that is in use.
        let mapped = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE | huge) };
        let errno = |why: rustix::io::Errno| NoMemory { kind: source, bytes, errno: why.raw_os_error() };
        let base: *mut c_void = mapped.map_err(errno)?;
        let base = NonNull::new(base.cast()).ok_or(NoMemory { kind: source, bytes, errno: 0 })?;
        Ok(Self { base, bytes, kept })
    }

    /// A range of a file that others have mapped too, and change at any time. Nobody may refer to its bytes.
    ///
    /// # Errors
    /// [`NotGiven`].
    pub(crate) fn of_file(file: BorrowedFd<'_>, range: Range<u64>) -> Result<Self, NotGiven> {
        let seals = fcntl_get_seals(file).map_err(|_| NotGiven::Unsealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(NotGiven::Unsealed);
        }
        // From here on it does not become shorter.
        let holds = fstat(file)?.st_size as u64;
        if range.is_empty() || range.end > holds {
            return Err(NotGiven::OutOfRange(holds));
        }
        let about = fstatfs(file)?;
        let page = if about.f_type == HUGETLBFS_MAGIC { about.f_bsize as u64 } else { PAGE as u64 };
        if !(range.start | range.end).is_multiple_of(page) {
            return Err(NotGiven::Unaligned(page));
        }
        let bytes = usize::try_from(range.end - range.start).map_err(|_| NotGiven::OutOfRange(holds))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place of the kernel's choice, changes no memory that is in use.
        let mapped = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, file, range.start) }?;
        let base = NonNull::new(mapped.cast()).ok_or(NotGiven::Refused(0))?;
        Ok(Self { base, bytes, kept: KeptArena::Yes })
    }

    /// Memory of another executor, which this is not the owner of: none yet.
    pub(crate) fn lent() -> Self {
        Self { base: NonNull::dangling(), bytes: 0, kept: KeptArena::Lent }
    }

    /// Memory of another executor takes the place of that which was lent before.
    pub(crate) fn lend(&mut self, base: NonNull<u8>, bytes: usize) {
        assert!(self.kept == KeptArena::Lent, "the region is this executor's own");
        (self.base, self.bytes) = (base, bytes);
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

    /// Gives the pages of a part back to the kernel, unless they are kept or locked in memory: a server of its own host locks all that
    /// it has. They hold anything when they are next touched.
    ///
    /// # Safety
    /// Nobody refers to the bytes of the part, and no device uses them.
    ///
    /// # Panics
    /// If it is not within the region.
    pub(crate) unsafe fn forget(&self, at: usize, len: usize) {
        let part = self.part(at, len);
        if self.kept != KeptArena::No {
            return;
        }
        // SAFETY: the part is of this mapping, which stays, and its bytes are nobody's: the caller's promise.
        let forgotten = unsafe { madvise(part.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        // Of whole pages this error says that they are locked.
        debug_assert!((at | len).is_multiple_of(PAGE), "{len} bytes at {at} are no whole pages");
        debug_assert!(matches!(forgotten, Ok(()) | Err(Errno::INVAL)), "{forgotten:?}");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.kept == KeptArena::Lent {
            return;
        }
        // SAFETY: mapped by a constructor with this length; parts that were cut from the region hold its owner.
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

/// The reactor's side of arenas: it registers each one with the kernel. The executor holds it weakly, as long as the
/// reactor lives.
pub(crate) trait Registrar {
    fn register(&self, arena: u32, memory: NonNull<[u8]>);
    fn unregister(&self, arena: u32);
    fn shared(&self, memory: NonNull<[u8]>);
    fn unshared(&self, memory: NonNull<[u8]>);
}

/// The arenas of an executor: numbered stretches of memory in use.
pub(crate) struct Arenas {
    registrar: Box<dyn Registrar>,
    /// Numbers that were given back.
    free: RefCell<Vec<u32>>,
    /// Numbers given out so far.
    numbers: Cell<u32>,
    bytes: Cell<usize>,
    /// When arenas are next checked for disuse; [`NEVER`] as long as no buffer is given back.
    pub(crate) next_look: Cell<Instant>,
    /// Another executor waits for what is unused: it ends in this turn.
    pub(crate) is_wanted: Cell<bool>,
}

impl Arenas {
    pub(crate) fn new(registrar: Box<dyn Registrar>) -> Self {
        let (free, numbers, bytes) = Default::default();
        Self { registrar, free, numbers, bytes, next_look: Cell::new(NEVER), is_wanted: Cell::new(false) }
    }

    /// Another executor waits for what is unused.
    pub(crate) fn looks_at_once(&self) {
        self.is_wanted.set(true);
        self.next_look.set(SOON);
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

    /// Bytes of this memory change by others' hands from now on.
    pub(crate) fn share(&self, memory: NonNull<[u8]>) {
        self.registrar.shared(memory);
    }

    /// The memory ends.
    pub(crate) fn unshare(&self, memory: NonNull<[u8]>) {
        self.registrar.unshared(memory);
    }

    /// Arenas in use.
    pub(crate) fn count(&self) -> usize {
        self.numbers.get() as usize - self.free.borrow().len()
    }

    /// Bytes of all arenas.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_locked_in_memory_stay() {
        let region = Region::new(2 * PAGE);
        let bytes = region.base().as_ptr();
        // SAFETY: the region is mapped, and nobody else refers to it.
        unsafe {
            bytes.write(7);
            rustix::mm::mlock(bytes.cast(), PAGE).expect("a page may be locked");
            region.forget(0, PAGE);
            assert_eq!(bytes.read(), 7);
            rustix::mm::munlock(bytes.cast(), PAGE).expect("it was locked");
            region.forget(0, 2 * PAGE);
            assert_eq!(bytes.read(), 0);
        }
    }
}
