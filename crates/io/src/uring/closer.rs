//! Closing members without waiting for their devices.

use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::device::OpenDevice;

/// Unlocks and closes devices. Closing a file can wait for its file system; so that no member waits for another, each such
/// one has a thread. Those that have not ended within `patience` are left behind.
pub(super) fn close(devices: impl IntoIterator<Item = OpenDevice>, patience: Duration) {
    let until = Instant::now() + patience;
    let (done, ended) = channel::<()>();
    for device in devices {
        if !device.may_wait() {
            device.unlock();
            drop(device);
            continue;
        }
        let done = done.clone();
        let close = move || {
            // The ring may keep the file open for a while.
            device.unlock();
            drop(device);
            drop(done);
        };
        // Without a thread the file is closed here and now: the closure is dropped.
        let _ = Builder::new().name("close-member".into()).spawn(close);
    }
    drop(done);
    // Nothing is ever sent: it ends when the last thread has.
    let _ = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
}

/// Leaves a device to what asks it still. Threads that ask share its file, which is closed, and its lock ended, with
/// the last of them; what the kernel was asked through the ring may end at an unknown time.
pub(super) fn leave(device: Option<OpenDevice>, to_threads: bool) {
    if to_threads {
        // Should the last of them return just now, the file is closed here, which can wait: so not in this thread. Without
        // another one it stays open until the process ends.
        let kept = core::mem::ManuallyDrop::new(device);
        let close = move || drop(core::mem::ManuallyDrop::into_inner(kept));
        let _ = Builder::new().name("leave-member".into()).spawn(close);
    } else {
        core::mem::forget(device);
    }
}
