//! The waker that tasks are polled with: futures must not use it.
//!
//! Futures of this crate wake their task by its number ([`crate::TaskId`]). One that was made for another executor keeps
//! a waker instead, and would never be polled again: its task would hang without a word. A debug build says so at once.

use core::ptr;
use core::task::{RawWaker, RawWakerVTable, Waker};

const TABLE: RawWakerVTable = RawWakerVTable::new(|_| foreign(), |_| foreign(), |_| foreign(), |_| ());

/// For the polls of an executor.
pub(crate) fn unusable() -> Waker {
    if cfg!(debug_assertions) {
        // SAFETY: no function of the table looks at the pointer; none of them returns but the one that drops, which has
        // nothing to drop; all of them may be called on any thread.
        unsafe { Waker::from_raw(RawWaker::new(ptr::null(), &TABLE)) }
    } else {
        Waker::noop().clone()
    }
}

#[cold]
fn foreign() -> ! {
    panic!(
        "a future that was made for another executor is awaited in a task of brindle-io: nothing would ever wake it"
    )
}
