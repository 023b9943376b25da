//! Calls to a device or a file system that may never return.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Waits for work in a thread of its own, but not longer than `patience`: then `None`. The thread ends when it has its
/// answer, or with the process.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (tell, reported) = mpsc::channel();
    // An answer that comes too late finds no listener.
    thread::Builder::new().name("ask".into()).spawn(move || drop(tell.send(work())))?;
    Ok(reported.recv_timeout(patience).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_answered_in_time_is_not_waited_for() {
        assert_eq!(within(Duration::from_secs(60), || 7).unwrap(), Some(7));
        let (_hold, held) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || held.recv().is_ok()).unwrap(), None);
    }
}
