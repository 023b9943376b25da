//! Processors: the time that a thread has used of them, and the one to which it is pinned.

use std::io;

use crate::time::Duration;

/// The clock of a thread's processor time. Any thread may look at it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of this thread.
    ///
    /// # Errors
    /// The kernel has none.
    pub fn own() -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: the thread is this one, and so is there; the clock's number is written to a place for it.
        match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } {
            0 => Ok(Self(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Processor time that the thread has used; none once it has ended.
    pub fn used(self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a place for it.
        let got = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        let seconds = if got == 0 { u64::try_from(time.tv_sec).unwrap_or(0) } else { 0 };
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// Pins this thread, and those that it begins from now on, to a core.
///
/// # Errors
/// The core is not there, or not for this process.
pub fn pin_to(core: u16) -> io::Result<()> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut set = [0 as libc::c_ulong; (u16::MAX as usize + 1) / BITS];
    let at = usize::from(core);
    set[at / BITS] = 1 << (at % BITS);
    // SAFETY: the kernel reads as many bytes as there are of the set; 0 is this thread.
    let pinned = unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) };
    if pinned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
