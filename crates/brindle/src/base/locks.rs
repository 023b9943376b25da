//! The locks of members, which the process's end lets go though a member hangs.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_io::device::{Identity, OpenDevice};
use rustix::fs::FlockOperation;

/// Time that a member may take to be unlocked. A file system that hangs may keep that waiting, too.
const UNLOCKING: Duration = Duration::from_millis(500);

/// The locks of the members, within reach of another thread than the one that uses them.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Vec<Lock>>);

#[derive(Debug)]
struct Lock {
    /// How messages name the device.
    path: PathBuf,
    /// The file itself: one that comes back may have the name of one that is gone.
    identity: Identity,
    fd: OwnedFd,
}

impl Locks {
    /// Remembers the lock of a device. The descriptor shares the device's lock: unlocking it here unlocks the device.
    pub(crate) fn add(&self, device: &OpenDevice) -> std::io::Result<()> {
        let fd = device.as_fd().try_clone_to_owned()?;
        let lock = Lock { path: device.path().to_owned(), identity: device.identity(), fd };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
        Ok(())
    }

    /// Unlocks all, each on a thread of its own; names those that did not come free.
    pub(crate) fn unlock(&self) -> Vec<String> {
        unlock(core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Unlocks some of the devices. This may block, so the arrays' thread must not call it.
    pub(crate) fn unlock_those(&self, devices: &[Identity]) -> Vec<String> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (those, others) =
            core::mem::take(&mut *locks).into_iter().partition(|lock| devices.contains(&lock.identity));
        *locks = others;
        drop(locks);
        unlock(those)
    }
}

fn unlock(locks: Vec<Lock>) -> Vec<String> {
    let (tell, reported) = channel();
    let mut stuck: Vec<String> = locks.iter().map(|lock| lock.path.display().to_string()).collect();
    for Lock { path, fd, .. } in locks {
        let tell = tell.clone();
        let unlock = move || {
            let _ = rustix::fs::flock(&fd, FlockOperation::Unlock);
            drop(fd);
            let _ = tell.send(path.display().to_string());
        };
        // Without a thread it can't be tried: it might never return.
        let _ = std::thread::Builder::new().spawn(unlock);
    }
    drop(tell);
    let until = Instant::now() + UNLOCKING;
    while !stuck.is_empty() {
        match reported.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(free) => stuck.retain(|path| *path != free),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    stuck
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_member_is_free_when_its_lock_is_let_go_though_the_device_stays_open() {
        let path = std::env::temp_dir().join(format!("brindle-locks-test-{}", std::process::id()));
        fs::write(&path, [0; 4096]).unwrap();
        let open = || OpenDevice::open(&path, brindle_io::device::DeviceAccess::Write);
        let device = open().unwrap();
        let locks = Locks::default();
        locks.add(&device).unwrap();
        assert!(open().is_err());
        // A file that has taken its name is another, whose lock stays.
        let moved = path.with_extension("moved");
        fs::rename(&path, &moved).unwrap();
        fs::write(&path, [0; 4096]).unwrap();
        let other = open().unwrap();
        locks.add(&other).unwrap();
        assert_eq!(locks.unlock_those(&[device.identity()]), Vec::<String>::new());
        assert!(open().is_err(), "it was not meant");
        drop(OpenDevice::open(&moved, brindle_io::device::DeviceAccess::Write).unwrap());
        assert_eq!(locks.unlock_those(&[other.identity()]), Vec::<String>::new());
        drop(open().unwrap());
        fs::remove_file(&moved).unwrap();
        let device = open().unwrap();
        locks.add(&device).unwrap();
        assert_eq!(locks.unlock(), Vec::<String>::new());
        open().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
