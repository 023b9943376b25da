//! The ring itself: set-up, sending, waiting, taking completions.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, squeue};

use crate::op::{OpKey, SocketId};

/// Entries of the submission queue: what one `io_uring_enter` can send.
const SUBMISSIONS: u32 = 512;
/// Entries of the completion queue; the kernel keeps what does not fit.
pub(super) const COMPLETIONS: u32 = 4096;

/// How long replies that were just sent may hold up other completions, in microseconds. Most are taken at once, and then the
/// next request comes.
const REPLIES_MAY_TAKE: u32 = 50;

/// Entries that are sent a turn later where tasks are ready: with what those ask for, and with the wait for it all.
const FEW: u32 = 4;

/// Reasons why a ring can't be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// No such system call: an old kernel, or a sandbox that hides it.
    #[error(
        "this kernel has no io_uring; use --reactor threads, or Linux 5.19 or newer in a container that does not hide it"
    )]
    Missing,
    /// Forbidden by a sysctl or a sandbox.
    #[error(
        "io_uring is forbidden here; use --reactor threads, set the sysctl kernel.io_uring_disabled to 0, or allow it in the container's seccomp profile"
    )]
    Forbidden,
    /// The kernel does not know flags that a ring is made with.
    #[error("the io_uring of this kernel is older than Linux 5.19; use --reactor threads, or a newer kernel")]
    TooOld,
    /// Not enough descriptors or memory.
    #[error(
        "io_uring can't be set up: {0}; raise the limit of open files (ulimit -n) or locked memory (ulimit -l)"
    )]
    Limit(io::Error),
    /// Anything else.
    #[error("io_uring can't be set up: {0}")]
    Failed(io::Error),
}

impl UringError {
    /// There is no io_uring for this process at all, as opposed to one for which something else is missing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Missing | Self::Forbidden | Self::TooOld)
    }
}

impl From<io::Error> for UringError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden,
            Some(libc::EINVAL) => Self::TooOld,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Self::Limit(error),
            _ => Self::Failed(error),
        }
    }
}

/// The origin of a completion: the kernel carries it as the entry's user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Op(OpKey),
    Wake,
    Cancel(SocketId),
    /// The calling off of an operation, which answers for itself.
    GiveUp,
}

impl Token {
    pub(super) fn to_bits(self) -> u64 {
        match self {
            Self::Op(key) => u64::from(key.0),
            Self::Wake => 1 << 32,
            Self::Cancel(socket) => 2 << 32 | u64::from(socket.0),
            Self::GiveUp => 3 << 32,
        }
    }

    fn from_bits(bits: u64) -> Self {
        match bits >> 32 {
            0 => Self::Op(OpKey(bits as u32)),
            1 => Self::Wake,
            2 => Self::Cancel(SocketId(bits as u32)),
            _ => Self::GiveUp,
        }
    }
}

/// How long to wait for a completion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Not,
    For(Duration),
    Endless,
}

pub(super) struct Ring {
    uring: IoUring,
    /// Entries that the full submission queue had no room for.
    backlog: VecDeque<squeue::Entry>,
    /// Replies to clients among the entries to be sent: they complete while they are sent, and nobody waits for that. To return for
    /// them would be a system call for each, so that the ring waits for one completion more.
    replies: u32,
    /// The last turn sent nothing, since tasks were ready.
    put_off: bool,
    /// Whether the kernel can wait for several completions for a while, and for one after it (Linux 6.12).
    waits_for_several: bool,
    /// Whether the kernel reads and writes several stretches of one registered buffer (Linux 6.15).
    pub(super) vectors_in_arenas: bool,
}

impl Ring {
    pub(super) fn new() -> Result<Self, UringError> {
        let uring = build()?;
        let mut probe = io_uring::Probe::new();
        let probed = uring.submitter().register_probe(&mut probe).is_ok();
        let vectors_in_arenas = probed
            && probe.is_supported(io_uring::opcode::ReadvFixed::CODE)
            && probe.is_supported(io_uring::opcode::WritevFixed::CODE);
        let waits_for_several = uring.params().is_feature_min_timeout();
        Ok(Self {
            uring,
            backlog: VecDeque::new(),
            replies: 0,
            put_off: false,
            waits_for_several,
            vectors_in_arenas,
        })
    }

    pub(super) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.uring.submitter()
    }

    /// Takes an entry, to be sent with the next [`Ring::enter`] or before.
    ///
    /// # Safety
    /// The memory that the entry points to must stay valid until its completion.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry, token: Token) {
        let entry = entry.user_data(token.to_bits());
        if self.backlog.is_empty() {
            // SAFETY: the caller's promise.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.flush();
        }
        self.backlog.push_back(entry);
        self.drain_backlog();
    }

    /// The entry that was pushed last sends a reply to a client.
    #[inline]
    pub(super) fn note_reply(&mut self) {
        self.replies += 1;
    }

    fn drain_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: promised when the entry came in.
            if unsafe { self.uring.submission().push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Submits the full queue, without waiting.
    #[cold]
    fn flush(&mut self) {
        let count = self.uring.submission().len() as u32;
        // SAFETY: no argument is passed, and the entries were promised to be valid.
        let sent = unsafe { self.uring.submitter().enter::<libc::sigset_t>(count, 0, 0, None) };
        check(sent);
    }

    /// Sends what was pushed and waits for a completion; does neither if neither is needed.
    pub(super) fn enter(&mut self, wait: Wait) {
        self.drain_backlog();
        while !self.backlog.is_empty() {
            let before = self.backlog.len();
            self.flush();
            self.drain_backlog();
            if self.backlog.len() == before {
                break; // the kernel wants completions to be taken first
            }
        }
        let has_completions = !self.uring.completion().is_empty();
        let queue = self.uring.submission();
        let (count, behind) = (queue.len() as u32, queue.taskrun() || queue.cq_overflow());
        drop(queue);
        let wait = if has_completions || !self.backlog.is_empty() { Wait::Not } else { wait };
        if wait == Wait::Not && count == 0 && !behind {
            return;
        }
        let is_quick = wait == Wait::Not && !has_completions && !behind && count <= FEW;
        self.put_off = is_quick && !self.put_off;
        if self.put_off {
            return;
        }
        let submitter = self.uring.submitter();
        let replies = core::mem::take(&mut self.replies);
        let several = if self.waits_for_several { replies as usize } else { 0 };
        let result = match wait {
            Wait::Not => {
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: no argument is passed, and the entries were promised to be valid.
                unsafe { submitter.enter::<libc::sigset_t>(count, 0, flags, None) }
            }
            Wait::Endless if several > 0 => {
                submitter.submit_with_args(1 + several, &SubmitArgs::new().min_wait_usec(REPLIES_MAY_TAKE))
            }
            Wait::Endless => submitter.submit_and_wait(1),
            Wait::For(span) => {
                let timeout = Timespec::from(span);
                let args = SubmitArgs::new().timespec(&timeout);
                if several > 0 && span > Duration::from_millis(1) {
                    submitter.submit_with_args(1 + several, &args.min_wait_usec(REPLIES_MAY_TAKE))
                } else {
                    submitter.submit_with_args(1, &args)
                }
            }
        };
        check(result);
    }

    /// Takes all completions.
    #[inline]
    pub(super) fn reap(&mut self, into: &mut Vec<(Token, i32)>) {
        let answers = self.uring.completion();
        into.extend(answers.map(|answer| (Token::from_bits(answer.user_data()), answer.result())));
    }
}

/// The best ring that the kernel has.
fn build() -> io::Result<IoUring> {
    match build_sized(SUBMISSIONS, COMPLETIONS) {
        // Since Linux 6.14 the rings count as locked memory, of which a user may have as little as 64 KiB.
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => build_sized(64, 256),
        other => other,
    }
}

fn build_sized(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for deferred in [true, false] {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions).setup_submit_all().setup_taskrun_flag();
        if deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        match builder.build(submissions) {
            Ok(uring) => return Ok(uring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Ignores errors that only ask for a retry.
fn check(result: io::Result<usize>) {
    let Err(error) = result else { return };
    match error.raw_os_error() {
        Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
        _ => {
            // The kernel may own buffers that nothing can wait for any more, so that unwinding would free them.
            eprintln!("brindle: io_uring_enter: {error}: the ring is lost");
            std::process::abort();
        }
    }
}
