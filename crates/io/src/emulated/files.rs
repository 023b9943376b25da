//! The file behind an emulated member, by way of the page cache.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::device::{DeviceAccess, DeviceError, OpenDevice};
use crate::op::{OpKind, OpView, Segment};

/// A file or block device, opened a second time.
#[derive(Debug)]
pub struct BufferedFile {
    fd: OwnedFd,
    /// Whether the file system can be asked for what is in memory only.
    has_nowait: bool,
    iovecs: Vec<libc::iovec>,
}

impl BufferedFile {
    /// The file of an open device, reopened to go through the page cache.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of(device: &OpenDevice) -> Result<Self, DeviceError> {
        let write = device.access() == DeviceAccess::Write;
        let flags = OFlags::CLOEXEC | if write { OFlags::RDWR } else { OFlags::RDONLY };
        // The same file, whatever its name leads to by now.
        let path = format!("/proc/self/fd/{}", device.as_fd().as_raw_fd());
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let fd = opened.map_err(|errno| DeviceError::from_errno(device.path(), errno))?;
        Ok(Self { fd, has_nowait: true, iovecs: Vec::new() })
    }

    /// Carries out a read or write at once: bytes moved. None of what is the ring's to do: all that may take long, and all that
    /// fails, since the ring knows what an error means for the member.
    ///
    /// # Safety
    /// The segments are valid, nobody else writes to them, and nobody reads them if they are filled, but for shared memory.
    pub(super) unsafe fn carry_out(&mut self, op: OpView<'_>) -> Option<u64> {
        let iovec = |segment: &Segment| libc::iovec { iov_base: segment.base.cast(), iov_len: segment.len };
        self.iovecs.clear();
        self.iovecs.extend(op.segments.iter().map(iovec));
        let (fd, count) = (self.fd.as_raw_fd(), self.iovecs.len() as i32);
        let moved = match op.kind {
            OpKind::Read { offset, .. } => {
                let flags = if self.has_nowait { libc::RWF_NOWAIT } else { 0 };
                // SAFETY: the caller's promise; the list lives until the call returns.
                unsafe { libc::preadv2(fd, self.iovecs.as_ptr(), count, offset as i64, flags) }
            }
            OpKind::Write { offset, fua: false, .. } => {
                // SAFETY: as above.
                unsafe { libc::pwritev2(fd, self.iovecs.as_ptr(), count, offset as i64, 0) }
            }
            _ => return None,
        };
        if moved >= 0 {
            let moved = moved as u64;
            let read = matches!(op.kind, OpKind::Read { .. });
            // The rest is on the disk, or beyond an end that has come nearer: the ring tells them apart.
            return if read && moved < op.len { None } else { Some(moved) };
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EOPNOTSUPP) if self.has_nowait && matches!(op.kind, OpKind::Read { .. }) => {
                self.has_nowait = false;
                // SAFETY: the caller's promise.
                unsafe { self.carry_out(op) }
            }
            _ => None,
        }
    }
}

/// Timers of this thread are no later than the kernel can help: its usual slack is 50 microseconds.
pub(super) fn wake_in_time() {
    // SAFETY: a number of this thread is set, and nothing is pointed to. Without it answers come a little later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
