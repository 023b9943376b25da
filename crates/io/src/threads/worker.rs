//! The threads of one member.

use core::time::Duration;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

use super::{Answers, answered, lock};
use crate::op::{MemberId, OpKey, Segment};

/// Threads of a member at most: as deep as disks and flash of today need to be near their best.
const MOST: usize = 32;
/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(2);
/// Bytes of a thread's stack, which does one system call.
const STACK: usize = 128 << 10;

/// The work of one job.
pub(crate) enum Work {
    Read {
        offset: u64,
    },
    Write {
        offset: u64,
        stable: bool,
    },
    Flush,
    /// fallocate.
    Allocate {
        mode: i32,
        offset: u64,
        len: u64,
    },
    /// A look at what has a name, or at the open file.
    Stat {
        name: Option<Arc<CStr>>,
        into: *mut Statx,
    },
}

/// An operation on a member.
pub(crate) struct Errand {
    pub(crate) key: OpKey,
    pub(crate) member: MemberId,
    /// Open for as long as the job lasts.
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) work: Work,
    /// The memory of a transfer: `count` stretches.
    pub(crate) segments: *const Segment,
    pub(crate) count: u32,
}

// SAFETY: until its answer the segments, their memory and what it fills are the job's alone (see `Reactor::submit`), whatever
// thread has it; should nobody be left to take the answer, they stay for ever.
unsafe impl Send for Errand {}

pub(super) struct Workers {
    state: Mutex<Waiting>,
    more: Condvar,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Errand>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    ended: bool,
}

impl Workers {
    pub(super) fn new(answers: Arc<Answers>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), more: Condvar::new(), answers })
    }

    /// Takes a job. Fails, with its key and an error number, if the member has no thread and there can be none.
    pub(super) fn add(self: &Arc<Self>, job: Errand) -> Result<(), (OpKey, i32)> {
        let key = job.key;
        let mut state = lock(&self.state);
        if state.idle <= state.jobs.len() && state.threads < MOST {
            let workers = Arc::clone(self);
            let spawned =
                Builder::new().name("member".into()).stack_size(STACK).spawn(move || workers.work());
            match spawned {
                Ok(_) => state.threads += 1,
                // The threads that are there will come to it.
                Err(_) if state.threads > 0 => {}
                Err(_) => return Err((key, libc::ENOMEM)),
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.more.notify_one();
        Ok(())
    }

    /// Takes a job back, if no thread has begun it.
    pub(super) fn take_back(&self, key: OpKey) -> bool {
        let mut state = lock(&self.state);
        let at = state.jobs.iter().position(|job| job.key == key);
        at.and_then(|at| state.jobs.remove(at)).is_some()
    }

    /// Jobs that no thread has begun never begin; idle threads end.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.jobs.clear();
        drop(state);
        self.more.notify_all();
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            let key = job.key;
            let answer = job.run();
            // Before the answer: its receiver may close the member.
            drop(job);
            self.answers.add((key, answer));
        }
    }

    /// `None` if the thread is to end.
    fn next(&self) -> Option<Errand> {
        let mut state = lock(&self.state);
        state.idle += 1;
        let waits = |state: &mut Waiting| state.jobs.is_empty() && !state.ended;
        let waited = self.more.wait_timeout_while(state, IDLE, waits);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }
}

impl Errand {
    fn run(&self) -> i32 {
        let result = match &self.work {
            Work::Read { offset } => self.transfer(libc::SYS_preadv2, *offset, 0),
            Work::Write { offset, stable } => {
                self.transfer(libc::SYS_pwritev2, *offset, if *stable { libc::RWF_DSYNC } else { 0 })
            }
            Work::Flush => {
                rustix::fs::fdatasync(&*self.file).map(|()| 0).map_err(|errno| errno.raw_os_error())
            }
            Work::Allocate { mode, offset, len } => {
                // SAFETY: fallocate is given no memory.
                let done =
                    unsafe { libc::fallocate(self.file.as_raw_fd(), *mode, *offset as i64, *len as i64) };
                answered(done as isize)
            }
            Work::Stat { name, into } => self.stat(name.as_deref(), *into),
        };
        result.unwrap_or_else(|errno| -errno)
    }

    fn transfer(&self, call: libc::c_long, offset: u64, flags: i32) -> Result<i32, i32> {
        let (low, high) =
            (offset as libc::c_long, (offset >> 32 >> (libc::c_long::BITS - 32)) as libc::c_long);
        let fd = self.file.as_raw_fd();
        // SAFETY: a segment is an iovec; there are `count` of them, valid until the answer, and so is their memory. The file is
        // the job's.
        let moved = unsafe { libc::syscall(call, fd, self.segments, self.count as usize, low, high, flags) };
        answered(moved as isize)
    }

    fn stat(&self, name: Option<&CStr>, into: *mut Statx) -> Result<i32, i32> {
        let wanted = StatxFlags::BASIC_STATS;
        let seen = match name {
            Some(name) => statx(CWD, name, AtFlags::empty(), wanted),
            None => statx(&*self.file, c"", AtFlags::EMPTY_PATH, wanted),
        };
        let seen = seen.map_err(|errno| errno.raw_os_error())?;
        // SAFETY: the answer's memory is the job's until its answer.
        unsafe { into.write(seen) };
        Ok(0)
    }
}
