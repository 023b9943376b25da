//! Writes that members refuse. A place that is bad costs no member: the write goes elsewhere. A member that takes no writes at all is
//! done without. One whose file system is full stays, and writes are refused until there is room.

use core::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use brindle_io::{Duration, Instant};

/// Writes in a row that a member may refuse before it is done without, where that can be.
const BORNE: u8 = 3;
/// The time after which a member is asked again that had no room.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// The time after which there is room again for good, if no member was full meanwhile.
const QUIET: Duration = Duration::from_secs(5);

/// Refusals of all members.
pub(crate) struct Refusals {
    /// Writes in a row that each member refused.
    counts: Vec<Cell<u8>>,
    any: Cell<bool>,
    /// The member that had no room, and when it is asked again.
    holds: Cell<Option<(u16, Instant)>>,
    /// Members that were full, and when the last of them was.
    full: RefCell<BTreeSet<u16>>,
    last: Cell<Option<Instant>>,
}

impl Refusals {
    pub(crate) fn new(members: u16) -> Self {
        let counts = (0..members).map(|_| Cell::new(0)).collect();
        Self {
            counts,
            any: Cell::new(false),
            holds: Cell::new(None),
            full: RefCell::default(),
            last: Cell::new(None),
        }
    }

    /// A member refused one more write. True if it has refused more in a row than are borne.
    pub(crate) fn count(&self, role: u16) -> bool {
        self.any.set(true);
        let count = self.counts.get(usize::from(role));
        count.is_some_and(|count| {
            count.set(count.get().saturating_add(1));
            count.get() >= BORNE
        })
    }

    /// A member had no room. True if that is news.
    pub(crate) fn is_full(&self, role: u16, now: Instant) -> bool {
        self.any.set(true);
        self.holds.set(Some((role, now.after(PAUSE))));
        self.last.set(Some(now));
        self.full.borrow_mut().insert(role)
    }

    /// The member that has no room, as far as is known. The first caller after a pause is to find out.
    pub(crate) fn holds(&self, now: Instant) -> Option<u16> {
        let (role, until) = self.holds.get()?;
        if now < until {
            return Some(role);
        }
        self.holds.set(Some((role, now.after(PAUSE))));
        None
    }

    /// Some member has no room, as far as is known.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        self.holds.get().is_some_and(|(_, until)| now < until)
    }

    /// All members took a write. Gives members that have room again.
    #[inline]
    pub(crate) fn taken(&self, now: impl FnOnce() -> Instant) -> Vec<u16> {
        if self.any.get() { self.forget(now()) } else { Vec::new() }
    }

    #[cold]
    fn forget(&self, now: Instant) -> Vec<u16> {
        self.counts.iter().for_each(|count| count.set(0));
        self.holds.set(None);
        if self.last.get().is_some_and(|last| now < last.after(QUIET)) {
            return Vec::new();
        }
        self.any.set(false);
        self.last.set(None);
        core::mem::take(&mut *self.full.borrow_mut()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_may_refuse_some_writes_but_not_all() {
        let refusals = Refusals::new(2);
        let now = || Instant::from_nanos(0);
        assert!(!refusals.count(1) && !refusals.count(1));
        assert_eq!(refusals.taken(now), []);
        assert!(!refusals.count(1) && !refusals.count(0) && !refusals.count(1) && refusals.count(1));
    }

    #[test]
    fn a_member_without_room_is_asked_now_and_then() {
        let refusals = Refusals::new(3);
        let at = |millis: u64| Instant::from_nanos(0).after(Duration::from_millis(millis));
        assert_eq!(refusals.holds(at(0)), None);
        assert!(refusals.is_full(2, at(0)) && !refusals.is_full(2, at(0)));
        assert_eq!(
            (refusals.holds(at(900)), refusals.holds(at(1000)), refusals.holds(at(1001))),
            (Some(2), None, Some(2))
        );
        // A place that it has already is no sign of room.
        assert_eq!((refusals.taken(|| at(1100)), refusals.holds(at(1101))), (vec![], None));
        assert!(!refusals.is_full(2, at(1200)));
        assert_eq!(refusals.taken(|| at(9000)), [2]);
    }
}
