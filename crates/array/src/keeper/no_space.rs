//! Writes that failed on members which stay in use, for lack of space or because they did not answer.
//!
//! A full file system is no failure of a member: what it holds it can read, and it takes writes in place. The write
//! that found no room is refused with that error. It may have reached some members and not others, or in part. So the
//! redundancy of its range is unknown until all of it has been brought in sync again. Until then mirrors are read there
//! from their first copy, parity is not used, and the array is not marked clean beyond the range's start. Where
//! parity stands for lost blocks, that would lose them: `data/parity/undo.rs` takes such a write back.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeSet;

use crate::events::{EventKind, Note};
use brindle_io::OpError;
use brindle_members::events::Cause;

use super::Keeper;

/// The most ranges that are kept apart; further ones are joined with the gaps between.
const MOST: usize = 1024;

/// The ranges to be brought in sync again once there is space.
#[derive(Default)]
pub(super) struct AwaitingSpace {
    /// Sorted; none touches another.
    ranges: RefCell<Vec<Range<u64>>>,
    roles: RefCell<BTreeSet<u16>>,
    retried: Cell<bool>,
}

impl AwaitingSpace {
    fn add(&self, range: Range<u64>) {
        let mut ranges = self.ranges.borrow_mut();
        let first = ranges.partition_point(|known| known.end < range.start);
        let last = ranges.partition_point(|known| known.start <= range.end);
        let joined = ranges[first..last]
            .iter()
            .fold(range, |joined, known| joined.start.min(known.start)..joined.end.max(known.end));
        ranges.splice(first..last, [joined]);
        if let (true, Some(first), Some(last)) = (ranges.len() > MOST, ranges.first(), ranges.last()) {
            let all = first.start..last.end;
            ranges.clear();
            ranges.push(all);
        }
    }
}

impl Keeper {
    /// Notes that writes to a range (counted as a resync counts) found no space on these members: its redundancy is
    /// unknown from now on. True if no task tries to bring it in sync yet: the caller begins one.
    #[must_use]
    pub(crate) fn no_room(&self, range: Range<u64>, members: &[(u16, Cause)]) -> bool {
        self.sync_map.doubt_range(range.clone());
        self.awaiting_space.add(range);
        for &(role, why) in members {
            // A member that did not answer gets its event when it is given up.
            if why.error != Some(OpError::TimedOut) {
                self.tell_full(role, why);
            }
        }
        !self.awaiting_space.retried.replace(true)
    }

    /// Reports that a member has no space: once, until there is space again.
    pub(crate) fn tell_full(&self, role: u16, why: Cause) {
        if self.awaiting_space.roles.borrow_mut().insert(role) {
            self.note_member(role, EventKind::Full, why, None);
        }
    }

    /// The ranges that still have to be brought in sync once there is space.
    pub(crate) fn awaiting_space(&self) -> Vec<Range<u64>> {
        let mut ranges = self.awaiting_space.ranges.borrow_mut();
        ranges.retain(|range| !self.sync_map.holds(range));
        ranges.clone()
    }

    /// The task that makes such ranges true has ended; `done` if all of them are true again.
    pub(crate) fn room_ends(&self, done: bool) {
        self.awaiting_space.retried.set(false);
        if !done {
            return;
        }
        for role in core::mem::take(&mut *self.awaiting_space.roles.borrow_mut()) {
            let label = self.label(role);
            self.note(Note { role: Some(role), label, ..Note::of(EventKind::RoomAgain) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_touch() {
        let awaiting_space = AwaitingSpace::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 25), (35, 50), (0, 1)] {
            awaiting_space.add(start..end);
        }
        assert_eq!(*awaiting_space.ranges.borrow(), [0..1, 10..25, 30..60]);
        awaiting_space.add(0..100);
        awaiting_space.add(200..300);
        assert_eq!(*awaiting_space.ranges.borrow(), [0..100, 200..300]);
        (0..2 * MOST as u64).for_each(|n| awaiting_space.add(1000 + 10 * n..1005 + 10 * n));
        assert!(awaiting_space.ranges.borrow().len() <= MOST, "memory is bounded");
    }
}
