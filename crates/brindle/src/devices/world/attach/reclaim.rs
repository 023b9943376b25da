//! A server whose clients are the file systems of its own host.
//!
//! When memory is short the kernel writes dirty pages to the device, and waits for the server. The server must not wait for memory that
//! only these writes would free. So its thread is made one of those whose requests for memory start no writing, and its pages stay. Nor may
//! it be what the kernel ends to have memory: its file systems would fail.

use std::fs;
use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};

/// Where the kernel is told how soon a process is ended when memory is short, and the number by which it is among the last.
const ENDED: &str = "/proc/self/oom_score_adj";
const LAST: i32 = -900;

/// Prepares the calling thread, and those that it starts from now on, for serving a device of its own host.
///
/// # Errors
/// The rights are missing: the text says which, and what to do.
pub(super) fn serve_own_host() -> Result<(), String> {
    let mut lacking = Vec::new();
    if let Err(why) = configure_io_flusher_behavior(true) {
        lacking.push(format!("to be a flusher of I/O needs CAP_SYS_RESOURCE ({why})"));
    }
    if let Err(why) = lock_memory() {
        lacking.push(format!("to keep its memory needs CAP_IPC_LOCK and LimitMEMLOCK=infinity ({why})"));
    }
    if let Err(why) = be_ended_last() {
        lacking.push(format!("to be among the last that are ended for it needs CAP_SYS_RESOURCE ({why})"));
    }
    if lacking.is_empty() { Ok(()) } else { Err(lacking.join("; ")) }
}

/// Keeps pages in memory once they are used. With a limit nothing is locked: all that came after it would have no memory.
fn lock_memory() -> rustix::io::Result<()> {
    if getrlimit(Resource::Memlock).current.is_some() {
        setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

/// Keeps what a service manager has said, if that is as good.
fn be_ended_last() -> io::Result<()> {
    let now = fs::read_to_string(ENDED)?.trim().parse().unwrap_or(0);
    if now > LAST { fs::write(ENDED, LAST.to_string()) } else { Ok(()) }
}
