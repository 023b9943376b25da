//! The change of the recorded state that is under way.

use core::cell::Cell;

/// A change of the state on disk that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// To dirty, before the first write.
    Dirty,
    /// To clean, or how far a resync has come: members are flushed, then superblocks written.
    Clean,
    /// The progress of a member that is being rebuilt, or that it is in sync.
    Recovery,
    /// A member has failed.
    Failure,
}

/// A guard: the change ends when it is dropped.
#[must_use]
pub(crate) struct Changing<'a>(&'a Cell<Option<StateChange>>);

impl<'a> Changing<'a> {
    pub(super) fn begin(now: &'a Cell<Option<StateChange>>, change: StateChange) -> Self {
        now.set(Some(change));
        Self(now)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
