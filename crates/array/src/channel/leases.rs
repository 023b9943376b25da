//! The leases that a channel has.

use core::cell::{Cell, RefCell};
use core::ops::Range;

use crate::channels::shared::MOST_PARTS;

/// States of a part. Any other is that of one that is held, by the number of its lease.
const NONE: u32 = u32::MAX;
const WANTED: u32 = u32::MAX - 1;

/// Looks for which a lease is kept that is not used while others are: some five seconds. Clients that write at random places come back to a
/// part after a while, and a bit of the bitmap stays for as long anyway.
const KEPT: u32 = 40;

/// The leases of an open channel, by the part of the array.
pub(super) struct HeldLeases {
    part: u64,
    states: Vec<Cell<u32>>,
    /// The number of the last look before each part was used.
    used: Vec<Cell<u32>>,
    /// Parts that are held or wanted.
    some: RefCell<Vec<u32>>,
    /// Writes under way that began since the last look, and those that began before it: by the number of the look, modulo 2.
    under_way: [Cell<u32>; 2],
    /// Some lease has been used since the last look.
    busy: Cell<bool>,
    look: Cell<u32>,
}

/// A write that goes on within leases.
pub(super) struct Within<'a> {
    leases: &'a HeldLeases,
    count: usize,
}

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        let count = &self.leases.under_way[self.count];
        count.set(count.get() - 1);
    }
}

impl HeldLeases {
    /// None, of an array of `size` bytes with such parts; `None` if there are too many of them.
    pub(super) fn new(size: u64, part: u64) -> Option<Self> {
        let count = size.div_ceil(part);
        let each = |value: u32| (0..count).map(|_| Cell::new(value)).collect();
        (count <= MOST_PARTS).then(|| Self {
            part,
            states: each(NONE),
            used: each(0),
            some: RefCell::default(),
            under_way: Default::default(),
            busy: Cell::new(false),
            look: Cell::new(0),
        })
    }

    /// A write of a range of bytes begins, if all of its parts are held. `wants` is told of each that is not, once.
    #[inline]
    pub(super) fn begin(&self, range: &Range<u64>, wants: impl FnMut(u64)) -> Option<Within<'_>> {
        let parts = range.start / self.part..(range.end - 1) / self.part + 1;
        let is_held = |state: &Cell<u32>| state.get() < WANTED;
        let places = parts.start as usize..parts.end as usize;
        if !self.states[places.clone()].iter().all(is_held) {
            self.want(parts, wants);
            return None;
        }
        let look = self.look.get();
        self.used[places].iter().for_each(|used| used.set(look));
        self.busy.set(true);
        let count = look as usize % 2;
        self.under_way[count].set(self.under_way[count].get() + 1);
        Some(Within { leases: self, count })
    }

    #[cold]
    fn want(&self, parts: Range<u64>, mut wants: impl FnMut(u64)) {
        for part in parts {
            let state = &self.states[part as usize];
            if state.get() == NONE {
                state.set(WANTED);
                self.some.borrow_mut().push(part as u32);
                wants(part);
            }
        }
    }

    /// The lease of a part has come; false if there is no such part.
    pub(super) fn has_come(&self, part: u64, number: u64) -> bool {
        let Some(state) = self.states.get(part as usize) else { return false };
        if state.get() == NONE {
            self.some.borrow_mut().push(part as u32);
        }
        state.set(number as u32);
        // It is wanted by a write that has not come yet.
        self.used[part as usize].set(self.look.get());
        self.busy.set(true);
        true
    }

    /// All are given back, and none is wanted.
    pub(super) fn clear(&self) {
        self.some.borrow_mut().drain(..).for_each(|part| self.states[part as usize].set(NONE));
    }

    /// Looks, and gives back, by part and number, what is of no use: all if none was used since the last look, so that the array is marked
    /// clean; else those that were not for [`KEPT`] looks. A part that home has not lent is wanted no more. Whether any are left.
    ///
    /// As long as a write is under way that began before the last look nothing is known of its leases.
    pub(super) fn give_back_unused(&self, mut give_back: impl FnMut(u64, u64)) -> bool {
        let look = self.look.get();
        if self.under_way[(look as usize + 1) % 2].get() > 0 {
            return true;
        }
        self.look.set(look.wrapping_add(1));
        let most = if self.busy.replace(false) { KEPT } else { 0 };
        let mut some = self.some.borrow_mut();
        some.retain(|&part| {
            let state = &self.states[part as usize];
            let number = state.get();
            let unused = look.wrapping_sub(self.used[part as usize].get());
            if number < WANTED && unused < most {
                return true;
            }
            if number < WANTED {
                give_back(u64::from(part), u64::from(number));
            }
            state.set(NONE);
            false
        });
        !some.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The leases that one look gives back, and whether any are left.
    fn look(leases: &HeldLeases) -> (Vec<(u64, u64)>, bool) {
        let mut given = Vec::new();
        let any = leases.give_back_unused(|part, number| given.push((part, number)));
        (given, any)
    }

    #[test]
    fn a_lease_is_wanted_once_until_home_had_time_to_lend_it() {
        let leases = HeldLeases::new(100, 10).expect("few parts");
        let wanted = RefCell::new(Vec::new());
        let hold = |range| leases.begin(&range, |part| wanted.borrow_mut().push(part)).is_some();
        assert!(!hold(5..25) && !hold(0..30));
        assert_eq!(*wanted.borrow(), [0, 1, 2]);
        assert!(leases.has_come(0, 7) && leases.has_come(1, 8) && !leases.has_come(10, 9));
        assert!(hold(0..20) && !hold(0..21));
        assert_eq!(*wanted.borrow(), [0, 1, 2], "it was asked for");
        assert_eq!(look(&leases), (vec![], true));
        assert!(!hold(20..21));
        assert_eq!(*wanted.borrow(), [0, 1, 2, 2]);
        leases.clear();
        assert!(!hold(0..1));
    }

    #[test]
    fn all_are_given_back_when_a_look_finds_none_used_and_one_when_it_was_not_for_long() {
        let leases = HeldLeases::new(100, 10).expect("few parts");
        let hold = |range| leases.begin(&range, |_| {}).is_some();
        assert!(leases.has_come(0, 7) && leases.has_come(1, 8));
        for _ in 0..KEPT {
            assert!(hold(10..11));
            assert_eq!(look(&leases), (vec![], true));
        }
        assert!(hold(10..11));
        assert_eq!(look(&leases), (vec![(0, 7)], true));
        assert_eq!(look(&leases), (vec![(1, 8)], false));
        assert!(!hold(10..11));
    }

    #[test]
    fn a_lease_is_kept_as_long_as_a_write_goes_on_within_it() {
        let leases = HeldLeases::new(100, 100).expect("few parts");
        assert!(leases.has_come(0, 1));
        let write = leases.begin(&(0..10), |_| {}).expect("it is held");
        assert!((0..5).all(|_| look(&leases) == (vec![], true)));
        drop(write);
        assert!(leases.begin(&(0..10), |_| {}).is_some(), "it is held still");
    }
}
