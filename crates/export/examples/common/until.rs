//! Waits for the end of standard input.

use core::future::poll_fn;
use core::task::Poll;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_io::Io;

/// Waits until standard input has ended.
pub(crate) async fn input_ends(io: &Io) {
    let (task, ended) = (io.current_task(), Arc::<AtomicBool>::default());
    let (remote, tell) = (io.remote(), Arc::clone(&ended));
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Release);
        remote.run(move |io| io.wake(task));
    });
    poll_fn(|_| if ended.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }).await;
}
