//! The leases that a channel has.

use core::cell::{Cell, RefCell};
use core::ops::Range;

/// Most parts that an array is divided into: with more of them home writes.
const MOST: u64 = 1 << 20;

/// States of a part. Any other is that of one that was not used since the last look, by the number of its lease.
const NONE: u32 = u32::MAX;
const WANTED: u32 = u32::MAX - 1;
const USED: u32 = 1 << 31;

/// The leases of an open channel, by the part of the array.
pub(super) struct HeldLeases {
    part: u64,
    states: Vec<Cell<u32>>,
    /// Parts that are held or wanted.
    some: RefCell<Vec<u32>>,
    /// Writes under way: those that began since the last look are counted in one, those before it in the other.
    under_way: [Cell<u32>; 2],
    now: Cell<usize>,
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
        let states = || (0..count).map(|_| Cell::new(NONE)).collect();
        (count <= MOST).then(|| Self {
            part,
            states: states(),
            some: RefCell::default(),
            under_way: Default::default(),
            now: Cell::new(0),
        })
    }

    /// A write of a range of bytes begins, if all of its parts are held. `wants` is told of each that is not, once.
    #[inline]
    pub(super) fn begin(&self, range: &Range<u64>, wants: impl FnMut(u64)) -> Option<Within<'_>> {
        let parts = range.start / self.part..(range.end - 1) / self.part + 1;
        let is_held = |state: &Cell<u32>| state.get() < WANTED;
        let states = &self.states[parts.start as usize..parts.end as usize];
        if !states.iter().all(is_held) {
            self.want(parts, wants);
            return None;
        }
        states.iter().for_each(|state| state.set(state.get() | USED));
        let count = self.now.get();
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
        state.set(number as u32 | USED);
        true
    }

    /// All are given back, and none is wanted.
    pub(super) fn clear(&self) {
        self.some.borrow_mut().drain(..).for_each(|part| self.states[part as usize].set(NONE));
    }

    /// Gives back those that have not been used since the last time, and forgets what was wanted: home had a reason. Whether any are left.
    /// As long as a write is under way that began before the last time nothing is known of its leases.
    pub(super) fn give_back_unused(&self, mut give_back: impl FnMut(u64)) -> bool {
        let before = 1 - self.now.get();
        if self.under_way[before].get() > 0 {
            return true;
        }
        self.now.set(before);
        let mut some = self.some.borrow_mut();
        some.retain(|&part| {
            let state = &self.states[part as usize];
            let now = state.get();
            match now {
                NONE => return false,
                WANTED => {}
                _ if now & USED != 0 => {
                    state.set(now & !USED);
                    return true;
                }
                _ => give_back(u64::from(now)),
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

    #[test]
    fn a_lease_is_wanted_once_and_given_back_when_a_look_finds_it_unused() {
        let leases = HeldLeases::new(100, 10).expect("few parts");
        let wanted = RefCell::new(Vec::new());
        let hold = |range| leases.begin(&range, |part| wanted.borrow_mut().push(part)).is_some();
        assert!(!hold(5..25) && !hold(0..30));
        assert_eq!(*wanted.borrow(), [0, 1, 2]);
        assert!(leases.has_come(0, 7) && leases.has_come(1, 8) && !leases.has_come(10, 9));
        assert!(hold(0..20) && !hold(0..21));
        let given = RefCell::new(Vec::new());
        let look = || leases.give_back_unused(|number| given.borrow_mut().push(number));
        assert!(look());
        assert!(hold(10..11));
        assert!(look());
        assert_eq!(*given.borrow(), [7]);
        assert!(!look() && !hold(10..11));
        assert_eq!(*given.borrow(), [7, 8]);
        leases.clear();
        assert!(!look());
    }

    #[test]
    fn a_lease_is_kept_as_long_as_a_write_goes_on_within_it() {
        let leases = HeldLeases::new(100, 100).expect("few parts");
        assert!(leases.has_come(0, 1));
        let write = leases.begin(&(0..10), |_| {}).expect("it is held");
        let look = || leases.give_back_unused(|number| panic!("{number} is in use"));
        assert!((0..5).all(|_| look()));
        drop(write);
        assert!(leases.begin(&(0..10), |_| {}).is_some(), "it is held still");
    }
}
