//! A look at a member itself: how large it is now, and whether its name still leads to it.
//!
//! Both are asked of the kernel as operations, since a file system may take its time to answer; only the size of a block
//! device, which the kernel always knows, is read at once.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::ioctl::{Getter, ioctl, opcode::read};

use crate::device::{Identity, OpenDevice};
use crate::op::{OpError, PathTarget, Probe};
use crate::threads::Work;

/// `BLKGETSIZE64` of `linux/fs.h`: `_IOR(0x12, 114, size_t)`, which fills 64 bits whatever `size_t` is.
const BLKGETSIZE64: rustix::ioctl::Opcode = read::<usize>(0x12, 114);

/// The device as which a member was opened.
pub(super) struct Origin {
    fd: RawFd,
    /// Absolute, so that it means the same whatever the process's directory.
    name: Arc<CStr>,
    identity: Identity,
    /// The name is its own, so that it is asked for, too.
    named: bool,
}

impl Origin {
    pub(super) fn of(device: &OpenDevice) -> Self {
        let path = std::path::absolute(device.path()).unwrap_or_else(|_| device.path().to_path_buf());
        // One that is asked for was opened by this name, so that there is no zero in it.
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default().into();
        let (fd, identity, named) = (device.as_fd().as_raw_fd(), device.identity(), device.is_named());
        Self { fd, name, identity, named }
    }
}

/// A look under way: a file is looked at itself, and then what has its name; of a block device the name suffices. What was given
/// as a descriptor has no name that says anything.
pub(super) struct Look {
    answer: Statx,
    size: u64,
    /// The file has a name somewhere.
    linked: bool,
    by_name: bool,
}

impl Look {
    pub(super) fn new(origin: &Origin) -> Self {
        // SAFETY: a `Statx` is plain numbers.
        let answer = unsafe { core::mem::zeroed() };
        Self { answer, size: 0, linked: true, by_name: origin.named && origin.identity.is_block() }
    }

    /// A look at how long a file is, and nothing else.
    pub(super) fn at_size(origin: &Origin) -> Self {
        Self { by_name: false, ..Self::new(origin) }
    }

    /// The length that the kernel has found.
    pub(super) fn size(&self) -> u64 {
        self.answer.stx_size
    }

    /// The next entry for the kernel. The answer's memory is in use until the completion.
    pub(super) fn entry(&mut self, origin: &Origin) -> squeue::Entry {
        let into: *mut types::statx = (&raw mut self.answer).cast();
        let wanted = StatxFlags::BASIC_STATS.bits();
        let entry = if self.by_name {
            opcode::Statx::new(types::Fd(libc::AT_FDCWD), origin.name.as_ptr(), into)
        } else {
            let flags = AtFlags::EMPTY_PATH.bits() as i32;
            opcode::Statx::new(types::Fd(origin.fd), c"".as_ptr(), into).flags(flags)
        };
        entry.mask(wanted).build()
    }

    /// The work of a thread for this origin.
    pub(super) fn work(&mut self, origin: &Origin) -> Work {
        let name = self.by_name.then(|| Arc::clone(&origin.name));
        Work::Stat { name, into: &raw mut self.answer }
    }

    /// The kernel has answered: what the member is, or `None` if there is more to ask.
    pub(super) fn answered(
        &mut self,
        device: &OpenDevice,
        result: Result<u32, i32>,
    ) -> Option<Result<Probe, OpError>> {
        let origin = device.identity();
        if !self.by_name {
            if let Err(errno) = result {
                return Some(Err(OpError::Medium(errno)));
            }
            (self.size, self.linked) = (self.answer.stx_size, self.answer.stx_nlink > 0);
            self.by_name = device.is_named();
            if self.by_name {
                return None;
            }
        }
        let place = match result {
            _ if !device.is_named() => PathTarget::There,
            Ok(_) if Identity::of(&self.answer).is_device_of(&origin) => PathTarget::There,
            Ok(_) => PathTarget::Replaced,
            Err(libc::ENOENT | libc::ENOTDIR) => PathTarget::Deleted,
            // The way there is closed to us: the file itself knows best.
            Err(_) if self.linked => PathTarget::There,
            Err(_) => PathTarget::Deleted,
        };
        if origin.is_block() {
            match size_of(device) {
                Ok(size) => self.size = size,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(Probe { size: device.of_part(self.size), place }))
    }
}

/// Bytes by which a device's file is shorter than it was when it was opened, as far as the kernel knows: the file
/// system itself is not asked, so that nothing waits for one that hangs. Zero if there is no file.
pub(super) fn lacks(device: &OpenDevice) -> u64 {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    device.file().map_or(0, |(file, size)| {
        let now = rustix::fs::statx(file, c"", flags, StatxFlags::SIZE);
        now.map_or(0, |now| size.saturating_sub(now.stx_size))
    })
}

/// Bytes of a block device: a number that the kernel keeps. No lock is taken and no device asked.
pub(super) fn size_of(device: &OpenDevice) -> Result<u64, OpError> {
    // SAFETY: the kernel writes 64 bits.
    let size = unsafe { ioctl(device.as_fd(), Getter::<BLKGETSIZE64, u64>::new()) };
    let size = size.map_err(|errno| OpError::Medium(errno.raw_os_error()))?;
    // A loop device stays as large as it is when its file is cut.
    Ok(size.min(device.end().saturating_sub(lacks(device))))
}
