//! How far an executor has come, as another thread may see it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The progress of an executor. Only the executor's own thread changes it.
#[derive(Default)]
pub(crate) struct Pulse {
    /// The task that is polled, or was last.
    current: AtomicU32,
    turns: AtomicU64,
    /// Tasks are being driven.
    driven: AtomicBool,
    /// Types of the tasks' futures, by the numbers of the tasks.
    names: Mutex<Vec<&'static str>>,
}

/// The tasks of an executor are being driven for as long as this lives.
pub(crate) struct Driven<'a>(&'a Pulse);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.driven.store(false, Ordering::Relaxed);
    }
}

impl Pulse {
    #[inline]
    pub(crate) fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// A task is polled.
    #[inline]
    pub(crate) fn polls(&self, task: u32) {
        self.current.store(task, Ordering::Relaxed);
    }

    /// A turn begins.
    #[inline]
    pub(crate) fn turned(&self) {
        // There is one writer: no operation that locks memory is needed.
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Tasks are driven from now on, until the result is dropped; `name` is the type of the first one's future.
    pub(crate) fn drive(&self, name: &'static str) -> Driven<'_> {
        self.begins(0, name);
        self.turned();
        self.driven.store(true, Ordering::Relaxed);
        Driven(self)
    }

    /// A task begins; `name` is its future's type.
    pub(crate) fn begins(&self, task: u32, name: &'static str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let at = task as usize;
        if at >= names.len() {
            names.resize(at + 1, "");
        }
        names[at] = name;
    }

    /// Turns so far, while tasks are being driven.
    pub(crate) fn turns(&self) -> Option<u64> {
        self.driven.load(Ordering::Relaxed).then(|| self.turns.load(Ordering::Relaxed))
    }

    /// The type of the future that is polled, or was last.
    pub(crate) fn name(&self) -> &'static str {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(self.current() as usize).copied().unwrap_or_default()
    }
}
