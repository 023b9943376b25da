//! Opening members: regular files and block devices, past the page cache, locked against others.

mod drive;
mod error;
mod facts;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat, Statx};
use rustix::io::Errno;

use crate::op::MemberInfo;
pub use drive::Drive;
pub use error::{DeviceError, DeviceErrorKind};

/// Bytes of a sector, which no device is addressed by less than.
const SECTOR: u64 = 512;
/// The pause between attempts to get a device for itself, and how many there are: of locks, and of claims of block devices.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(25);
const LOCK_ATTEMPTS: u32 = 40;
const CLAIM_ATTEMPTS: u32 = 80;

/// The purpose for which a member is opened, which decides how it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAccess {
    /// To look at something that others may be changing: not locked at all. For reports only.
    Examine,
    /// The device is read; others may read too, and nobody may write.
    Read,
    /// Nobody else may use it; a block device that the kernel itself uses is refused.
    Write,
}

/// The identity of a device, however it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    block: bool,
    major_minor: u64,
    inode: u64,
    /// The first byte, for a part of a device.
    start: u64,
}

/// An open member. Locked for as long as it lives.
#[derive(Debug)]
pub struct OpenDevice {
    /// Counted: what asks the device in a thread keeps it open until it has returned.
    fd: Arc<OwnedFd>,
    path: PathBuf,
    info: MemberInfo,
    identity: Identity,
    access: DeviceAccess,
    direct: bool,
    /// It is a file of a file system in memory.
    in_memory: bool,
    /// It was opened by its name, which something else may have by now.
    named: bool,
    /// It is the port of a device that another reactor has, whose lock this is.
    is_port: bool,
    /// The part of the device that is opened.
    part: Option<Range<u64>>,
    /// Bytes missing at the end of a truncated device.
    lacks: u64,
    /// The backing file of a loop device, and how long it must be.
    backing: Option<(OwnedFd, u64)>,
}

impl Identity {
    pub(crate) fn of(stat: &Statx) -> Self {
        let block = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice;
        let (major, minor, inode) = match block {
            true => (stat.stx_rdev_major, stat.stx_rdev_minor, 0),
            false => (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino),
        };
        Self { block, major_minor: rustix::fs::makedev(major, minor), inode, start: 0 }
    }

    /// Whether `other` is this device, or a part of it.
    pub(crate) fn is_device_of(&self, other: &Self) -> bool {
        *self == other.of_whole()
    }

    /// The identity of the whole device, of which this may be a part.
    pub fn of_whole(&self) -> Self {
        Self { start: 0, ..*self }
    }

    /// The identity of a modelled device: equal for equal numbers.
    pub fn modelled(number: u64) -> Self {
        Self { block: true, major_minor: u64::MAX, inode: number, start: 0 }
    }

    pub(crate) fn is_block(&self) -> bool {
        self.block
    }
}

impl OpenDevice {
    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// [`DeviceErrorKind`] has them all; nothing is changed on the device.
    pub fn open(path: impl AsRef<Path>, access: DeviceAccess) -> Result<Self, DeviceError> {
        Self::open_by(path.as_ref(), access, true)
    }

    /// Takes a descriptor of a regular file or a block device that somebody has opened; `name` is only said in messages.
    ///
    /// The file is opened anew from it: past the page cache, and locked as one that is opened by name. Two descriptors of one
    /// device exclude each other as two names do. Where this process has no right to open it, the descriptor itself is used:
    /// its lock is then shared by its duplicates. A block device is only read then, since the kernel can't be asked for it.
    ///
    /// # Errors
    /// The errors of [`OpenDevice::open`], and [`DeviceErrorKind::NotGivenFor`] if the descriptor does not allow it.
    pub fn given(
        fd: impl Into<OwnedFd>,
        name: impl Into<PathBuf>,
        access: DeviceAccess,
    ) -> Result<Self, DeviceError> {
        let (fd, name) = (fd.into(), name.into());
        let failed = |errno| DeviceError::from_errno(&name, errno);
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let block = is_block(&name, &stat)?;
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
        if let Some(lacks) = lacking(flags, access) {
            return Err(DeviceError::new(&name, DeviceErrorKind::NotGivenFor(lacks)));
        }
        refuse_read_only(&name, &stat, block, access)?;
        let again = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let (fd, direct) = match open_fd(&again, access, block, true) {
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT) if !block || access != DeviceAccess::Write => {
                (fd, flags.contains(OFlags::DIRECT))
            }
            opened => opened.map_err(failed)?,
        };
        Ok(Self { named: false, ..Self::of(fd, &name, access, direct)? })
    }

    /// Opens a part of a device, from one byte to another, to be read. It has the name of the device.
    ///
    /// # Errors
    /// The errors of [`OpenDevice::open`], [`DeviceErrorKind::PartIsRead`] if it is to be written to, [`DeviceErrorKind::NoSuchPart`] if
    /// it is not whole sectors or ends beyond the device.
    pub fn open_part(
        path: impl AsRef<Path>,
        access: DeviceAccess,
        part: Range<u64>,
    ) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        if access == DeviceAccess::Write {
            return Err(DeviceError::new(path, DeviceErrorKind::PartIsRead));
        }
        let mut device = Self::open_by(path, access, true)?;
        if !part.start.is_multiple_of(device.info.logical_block.into()) {
            // Past the page cache only whole blocks of the file system can be read.
            device = Self::open_by(path, access, false)?;
            device.info.logical_block = SECTOR as u32;
        }
        if part.is_empty() || part.end > device.info.size || !part.start.is_multiple_of(SECTOR) {
            let size = device.info.size;
            return Err(DeviceError::new(path, DeviceErrorKind::NoSuchPart { part, size }));
        }
        let len = part.end - part.start;
        device.info.size = len - len % u64::from(device.info.logical_block);
        if device.info.size == 0 {
            return Err(DeviceError::new(path, DeviceErrorKind::Empty));
        }
        device.identity.start = part.start;
        device.part = Some(part);
        Ok(device)
    }

    /// Pretends that a truncated device has `size` bytes: the missing end answers as bad sectors do. Nothing changes
    /// for a device that is long enough, or that may be written to.
    pub fn stretch(&mut self, size: u64) {
        let size = size - size % u64::from(self.info.logical_block);
        if self.access != DeviceAccess::Write && size > self.info.size {
            self.lacks += size - self.info.size;
            self.info.size = size;
        }
    }

    /// Bytes that are there: all but of one that was stretched.
    pub(crate) fn there(&self) -> u64 {
        self.info.size - self.lacks
    }

    fn open_by(path: &Path, access: DeviceAccess, direct: bool) -> Result<Self, DeviceError> {
        // Looked at before it is opened: opening can do things to tapes, watchdogs and pipes.
        let stat = rustix::fs::stat(path).map_err(|errno| DeviceError::from_errno(path, errno))?;
        let block = is_block(path, &stat)?;
        refuse_read_only(path, &stat, block, access)?;
        let opened = open_fd(path, access, block, direct);
        let (fd, direct) = opened.map_err(|errno| DeviceError::from_errno(path, errno))?;
        Self::of(fd, path, access, direct)
    }

    /// Locks what is open, and gathers its facts.
    fn of(fd: OwnedFd, path: &Path, access: DeviceAccess, direct: bool) -> Result<Self, DeviceError> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| DeviceError::from_errno(path, errno))?;
        let block = is_block(path, &stat)?;
        lock(path, &fd, access)?;
        if access == DeviceAccess::Write
            && !block
            && let Some(device) = facts::loop_over(&stat)
        {
            return Err(DeviceError::new(path, DeviceErrorKind::BacksLoop(device)));
        }
        let info = facts::gather(&fd, &stat, block).map_err(|errno| DeviceError::from_errno(path, errno))?;
        if info.size == 0 {
            return Err(DeviceError::new(path, DeviceErrorKind::Empty));
        }
        let identity = Identity {
            block,
            major_minor: if block { stat.st_rdev } else { stat.st_dev },
            inode: if block { 0 } else { stat.st_ino },
            start: 0,
        };
        let backing = if block { facts::backing(stat.st_rdev, info.size) } else { None };
        let in_memory = !block && facts::is_in_memory(&fd);
        let path = path.to_path_buf();
        Ok(Self {
            fd: Arc::new(fd),
            path,
            info,
            identity,
            access,
            direct,
            in_memory,
            named: true,
            is_port: false,
            part: None,
            lacks: 0,
            backing,
        })
    }

    /// The name that was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It was opened by its name, not given as a descriptor.
    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    /// The purpose for which it was opened.
    pub fn access(&self) -> DeviceAccess {
        self.access
    }

    /// Size, blocks, abilities. A size that is not a multiple of the logical block is rounded down.
    pub fn info(&self) -> MemberInfo {
        self.info
    }

    /// Equal for two names of one device.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The byte of the device at which it begins: 0 but for a part.
    pub(crate) fn start(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.start)
    }

    /// The byte of the device at which the member ends.
    pub(crate) fn end(&self) -> u64 {
        self.start() + self.there()
    }

    /// Bytes of it on a device that now has `size` bytes; of a part at most the part's length.
    pub(crate) fn of_part(&self, size: u64) -> u64 {
        match &self.part {
            Some(part) => size.saturating_sub(part.start).min(self.there()) + self.lacks,
            None => size.saturating_add(self.lacks),
        }
    }

    /// The file that holds what the device holds, if one does, and how long it was at least when it was opened.
    pub(crate) fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match &self.backing {
            Some((file, size)) => Some((file.as_fd(), *size)),
            None if self.identity.block => None,
            None => Some((self.fd.as_fd(), self.end())),
        }
    }

    /// Whether asking the device may hold the thread that asks until the device answers.
    ///
    /// Block devices take what they are asked and answer later. File systems need not: FUSE and network file systems
    /// take locks that a hung request holds, and ext4 waits for its journal to note when a file was last written.
    pub(crate) fn may_wait(&self) -> bool {
        !self.identity.block
    }

    /// Whether its file system keeps it in memory, and reads are copies.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// The open file, for as long as somebody has it.
    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// The same open file, to be asked by another reactor as well. `None` for lack of descriptors.
    pub(crate) fn port(&self) -> Option<Self> {
        let backing = match &self.backing {
            None => None,
            Some((file, size)) => Some((file.try_clone().ok()?, *size)),
        };
        let (fd, path, part) = (Arc::clone(&self.fd), self.path.clone(), self.part.clone());
        Some(Self { fd, path, part, backing, is_port: true, ..*self })
    }

    /// Ends the lock, on whatever other descriptor it is kept alive. That of a port is another reactor's.
    pub(crate) fn unlock(&self) {
        if self.is_port {
            return;
        }
        // Fails for what was never locked.
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    /// Transfers go past the page cache. False only on file systems that refuse to.
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Reads `len` bytes at `offset`, at any alignment. Blocks: for looking at members before a reactor runs.
    ///
    /// # Errors
    /// `UnexpectedEof` if the range is not within the device, or what the medium says.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.there());
        let Some(end) = end else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let (offset, end) = (self.start() + offset, self.start() + end);
        let block = u64::from(self.info.logical_block).max(SECTOR);
        let (first, last) = (offset / block * block, end.next_multiple_of(block));
        // O_DIRECT wants aligned memory; a page satisfies every device.
        let mut memory = vec![0; (last - first) as usize + crate::PAGE];
        let skip = memory.as_ptr().align_offset(crate::PAGE);
        let into = &mut memory[skip..][..(last - first) as usize];
        let mut done = 0;
        while first + (done as u64) < end {
            match rustix::io::pread(&self.fd, &mut into[done..], first + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => done += got,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let from = (offset - first) as usize;
        Ok(into[from..from + len].to_vec())
    }

    /// Whether the range is known to read as zeroes because a regular file holds nothing there. A false says nothing.
    ///
    /// # Errors
    /// The file system's error.
    pub fn is_hole(&self, offset: u64, len: u64) -> io::Result<bool> {
        if self.identity.block {
            return Ok(false);
        }
        let offset = self.start().saturating_add(offset);
        match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) => Ok(data >= offset.saturating_add(len)),
            Err(Errno::NXIO) => Ok(true),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for OpenDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether it is a block device; refuses what is neither that nor a regular file.
fn is_block(path: &Path, stat: &Stat) -> Result<bool, DeviceError> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(false),
        FileType::BlockDevice => return Ok(true),
        FileType::Directory => "a directory",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        _ => "of an unknown type",
    };
    Err(DeviceError::new(path, DeviceErrorKind::NotStorage(what)))
}

/// Some drivers refuse to open such a device for writing, others only to write.
fn refuse_read_only(path: &Path, stat: &Stat, block: bool, access: DeviceAccess) -> Result<(), DeviceError> {
    match block && access == DeviceAccess::Write && facts::is_read_only(stat.st_rdev) {
        true => Err(DeviceError::new(path, DeviceErrorKind::ReadOnly)),
        false => Ok(()),
    }
}

/// The right that a descriptor with these flags does not give.
fn lacking(flags: OFlags, access: DeviceAccess) -> Option<&'static str> {
    match flags & OFlags::RWMODE {
        _ if flags.contains(OFlags::PATH) => Some("reading"),
        OFlags::WRONLY => Some("reading"),
        OFlags::RDONLY if access == DeviceAccess::Write => Some("writing"),
        _ => None,
    }
}

fn open_fd(path: &Path, access: DeviceAccess, block: bool, direct: bool) -> Result<(OwnedFd, bool), Errno> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
    flags |= if access == DeviceAccess::Write { OFlags::RDWR } else { OFlags::RDONLY };
    if access == DeviceAccess::Write && block {
        // Claims the device as a mount or a kernel array does; EBUSY if one of those has it.
        flags |= OFlags::EXCL;
    }
    let first = if direct { flags | OFlags::DIRECT } else { flags };
    match claim(path, first) {
        Ok(fd) => Ok((fd, direct)),
        // The file system has no direct I/O.
        Err(Errno::INVAL) => claim(path, flags).map(|fd| (fd, false)),
        Err(errno) => Err(errno),
    }
}

/// Opens it. The kernel keeps the claim of a process that has ended until its ring has, which is a moment later; a mount or an array of the
/// kernel keeps it for longer than anybody waits.
fn claim(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let is_taken = || rustix::fs::stat(path).is_ok_and(|stat| facts::is_taken(stat.st_rdev));
    let mut patience = CLAIM_ATTEMPTS;
    loop {
        match open_unnoticed(path, flags) {
            Err(Errno::BUSY) if flags.contains(OFlags::EXCL) && patience > 0 && !is_taken() => {
                patience -= 1;
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Opens it so that reading leaves its access time, which costs a look at each read, and now and then a write to the file system that holds
/// it. The kernel allows that to its owner and to root alone.
fn open_unnoticed(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    }
}

/// Locks against other Brindles; a lock on a block device is also udev's sign to leave it alone.
fn lock(path: &Path, fd: &OwnedFd, access: DeviceAccess) -> Result<(), DeviceError> {
    let operation = match access {
        DeviceAccess::Examine => return Ok(()),
        DeviceAccess::Read => FlockOperation::NonBlockingLockShared,
        DeviceAccess::Write => FlockOperation::NonBlockingLockExclusive,
    };
    // udev holds a shared lock while it probes a device that has just appeared or been written to, and the kernel
    // keeps what a killed process had in its ring for a moment after the process is gone.
    let mut patience = LOCK_ATTEMPTS;
    loop {
        match rustix::fs::flock(fd, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(PAUSE);
            }
            Err(Errno::WOULDBLOCK) => return Err(DeviceError::new(path, DeviceErrorKind::Busy)),
            Err(errno) => return Err(DeviceError::from_errno(path, errno)),
        }
    }
}
