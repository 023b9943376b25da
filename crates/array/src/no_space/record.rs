//! The keeper's account of writes that found no space: which ranges are in doubt, and which members are full.

use core::ops::Range;

use brindle_io::OpError;
use brindle_members::events::Cause;

use crate::events::{EventKind, Note};
use crate::keeper::Keeper;

impl Keeper {
    /// Notes that writes to a range (counted as a resync counts) found no space on these members: its redundancy is
    /// unknown from now on. True if no task tries to bring it in sync yet: the caller begins one.
    #[must_use]
    pub(crate) fn note_no_space(&self, range: Range<u64>, members: &[(u16, Cause)]) -> bool {
        self.presumed.void_in(range.clone());
        self.await_space(range, members)
    }

    /// The same, where what is lost is given by P as before.
    #[must_use]
    pub(crate) fn await_space(&self, range: Range<u64>, members: &[(u16, Cause)]) -> bool {
        self.sync_map.doubt_range(range.clone());
        self.awaiting_space.ranges.add(range);
        self.channels.look(false);
        for &(role, why) in members {
            // A member that did not answer gets its event when it is given up.
            if why.error != Some(OpError::TimedOut) {
                self.report_full(role, why);
            }
        }
        !self.awaiting_space.retried.replace(true)
    }

    /// Reports that a member has no space: once, until there is space again.
    pub(crate) fn report_full(&self, role: u16, why: Cause) {
        if self.awaiting_space.roles.borrow_mut().insert(role) {
            self.note_member(role, EventKind::Full, why, None);
        }
    }

    /// The ranges that still have to be brought in sync once there is space.
    pub(crate) fn awaiting_space(&self) -> Vec<Range<u64>> {
        let mut ranges = self.awaiting_space.ranges.all.borrow_mut();
        ranges.retain(|range| !self.sync_map.holds(range));
        ranges.clone()
    }

    /// Some range has to be.
    pub(crate) fn awaits_space(&self) -> bool {
        !self.awaiting_space().is_empty()
    }

    /// The task that brings such ranges in sync has ended; `done` if all of them are.
    pub(crate) fn retry_ends(&self, done: bool) {
        self.awaiting_space.retried.set(false);
        if !done {
            return;
        }
        for role in core::mem::take(&mut *self.awaiting_space.roles.borrow_mut()) {
            let label = self.label(role);
            self.note(Note { role: Some(role), label, ..Note::of(EventKind::SpaceAgain) });
        }
    }
}
