//! Messages from other threads to a task: requests of the control thread, and results of threads that wait for
//! devices.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use brindle_io::{Io, Remote, TaskId};

/// A mailbox whose messages a task of `io` takes.
pub fn mailbox<T: Send + 'static>(io: &Io) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Mutex::new(Shared { queue: VecDeque::new(), waits: None }));
    let receiver = Receiver { shared: Arc::clone(&shared), io: io.clone() };
    (Sender { shared, remote: io.remote() }, receiver)
}

/// Does `work` in a thread of its own, which may wait. Without a thread there is no answer in time, and that is said.
pub fn on_thread<T: Send + 'static>(
    io: &Io,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = T> + 'static {
    let (sender, receiver) = mailbox(io);
    let _ = std::thread::Builder::new().name(name.into()).spawn(move || sender.send(work()));
    async move { receiver.next().await }
}

struct Shared<T> {
    queue: VecDeque<T>,
    /// The task that waits for the next.
    waits: Option<TaskId>,
}

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of any thread. A handle: cloning gives the same.
pub struct Sender<T> {
    shared: Arc<Mutex<Shared<T>>>,
    remote: Remote,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), remote: self.remote.clone() }
    }
}

impl<T: Send + 'static> Sender<T> {
    /// Never waits. A message that is never taken is dropped with the mailbox.
    pub fn send(&self, message: T) {
        let waits = {
            let mut shared = lock(&self.shared);
            shared.queue.push_back(message);
            shared.waits.take()
        };
        if let Some(task) = waits {
            self.remote.run(move |io| io.wake(task));
        }
    }
}

/// The task's end.
pub struct Receiver<T> {
    shared: Arc<Mutex<Shared<T>>>,
    io: Io,
}

impl<T> Receiver<T> {
    /// Waits for the next message. One task at a time may wait.
    pub async fn next(&self) -> T {
        core::future::poll_fn(|_| {
            let mut shared = lock(&self.shared);
            match shared.queue.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    shared.waits = Some(self.io.current_task());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn messages_of_other_threads_come_in_their_order() {
        let io = Io::new(Box::new(Memory::new()));
        let (sender, receiver) = mailbox(&io);
        let thread = std::thread::spawn(move || (0..100).for_each(|number| sender.send(number)));
        let taken = io.block_on(async {
            let mut taken = Vec::new();
            while taken.len() < 100 {
                taken.push(receiver.next().await);
            }
            taken
        });
        thread.join().unwrap();
        assert_eq!(taken, (0..100).collect::<Vec<u32>>());
        io.shutdown();
    }
}
