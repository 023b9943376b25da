//! The stop of a content: it is begun once, and each order to stop waits for the same end.

use std::cell::{Cell, RefCell};

use brindle_io::Io;
use brindle_io::sync::Notify;
use brindle_volume::VolumeError;

use crate::error::HostError;

/// The stop of a content, from before it begins.
pub(super) struct ContentStop {
    has_begun: Cell<bool>,
    end: RefCell<Option<Result<(), HostError>>>,
    changed: Notify,
}

impl ContentStop {
    /// It has not begun.
    pub(super) fn new(io: &Io) -> Self {
        Self { has_begun: Cell::new(false), end: RefCell::default(), changed: Notify::new(io) }
    }

    /// Begins it; false if it was begun before.
    pub(super) fn begins(&self) -> bool {
        !self.has_begun.replace(true)
    }

    /// It has begun, and may have ended.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Notes its end.
    pub(super) fn ends(&self, stopped: Result<(), VolumeError>) {
        *self.end.borrow_mut() = Some(stopped.map_err(HostError::Stop));
        self.changed.notify();
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) -> Result<(), HostError> {
        self.changed.until(|| self.end.borrow().clone()).await
    }

    /// Whether it has ended well; `None` until it has ended.
    pub(super) fn has_ended_well(&self) -> Option<bool> {
        self.end.borrow().as_ref().map(Result::is_ok)
    }
}
