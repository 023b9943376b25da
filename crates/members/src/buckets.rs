//! Rows that reactors hold against each other: a word for each bucket of rows, which one reactor at a time has.
//!
//! Within a reactor a [`RangeLock`](crate::lock::RangeLock) keeps requests apart, row by row. Reactors are kept apart by bucket: a bucket is the
//! reactor's that has requests in it, and others find it taken. Only home waits, as it may for any row. The others never do: a request
//! that finds its bucket taken is handed to home. So no two of them wait for each other, however many buckets a request needs.
//!
//! | bits of a word | meaning | written by |
//! |---|---|---|
//! | 0 to 22 | requests that are in the bucket | the reactor that has it, by compare and exchange |
//! | 23 | home waits: no other reactor enters any more | home; the reactor that leaves last tells home of it |
//! | 24 to 31 | the reactor that has the bucket, if the count is not 0 | whoever enters an empty bucket |
//!
//! Entering acquires, and leaving releases. All of a bucket is one word, so no order between words matters: home sees a request, or finds the
//! bucket empty, or has marked it before the request leaves and is told (`xtask/tests/buckets.rs` tries every order).

use core::ops::Range;

use crate::word::{AtomicU32, BUCKETS, Ordering};

/// The number of home among the reactors of a crew.
const HOME: u32 = 0;
const OWNER: u32 = 24;
const WANTED: u32 = 1 << 23;
const COUNT: u32 = WANTED - 1;

/// The most units that a range may span: whoever wants more has all of it some other way.
pub const MOST: u64 = 64;

/// Buckets of units. Which rows or bytes are a unit is their user's to say.
pub struct Buckets {
    words: Box<[AtomicU32]>,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { words: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Buckets {
    fn word(&self, unit: u64) -> &AtomicU32 {
        let mixed = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.words[mixed as usize % BUCKETS]
    }

    /// Reactor `me`, which is not home, enters the buckets of all these units; false, and nothing changes, if another has one of them, or
    /// home waits for one. Then units in which it was last and home waits are told to `freed`.
    #[inline]
    pub fn enter(&self, me: usize, units: Range<u64>, freed: impl FnMut(u64)) -> bool {
        for unit in units.clone() {
            if !self.enter_one(me as u32, unit) {
                self.leave(units.start..unit, freed);
                return false;
            }
        }
        true
    }

    #[inline]
    fn enter_one(&self, me: u32, unit: u64) -> bool {
        let word = self.word(unit);
        let mut now = word.load(Ordering::Relaxed);
        loop {
            if now & WANTED != 0 || now & COUNT != 0 && now >> OWNER != me {
                return false;
            }
            let next = me << OWNER | ((now & COUNT) + 1);
            match word.compare_exchange_weak(now, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    /// Home enters the bucket of a unit; false if another reactor has it, which will tell when it has left.
    #[inline]
    pub fn enter_home(&self, unit: u64) -> bool {
        let word = self.word(unit);
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let is_free = now & COUNT == 0 || now >> OWNER == HOME;
            let next = if is_free { HOME << OWNER | ((now & COUNT) + 1) } else { now | WANTED };
            match word.compare_exchange_weak(now, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return is_free,
                Err(other) => now = other,
            }
        }
    }

    /// The reactor beside home that has the bucket of a unit, if one does.
    pub fn reactor(&self, unit: u64) -> Option<usize> {
        let now = self.word(unit).load(Ordering::Relaxed);
        (now & COUNT != 0 && now >> OWNER != HOME).then_some((now >> OWNER) as usize)
    }

    /// Leaves the buckets of units that were entered. `freed` is told of each that was left last and for which home waits.
    #[inline]
    pub fn leave(&self, units: Range<u64>, mut freed: impl FnMut(u64)) {
        for unit in units {
            let before = self.word(unit).fetch_sub(1, Ordering::Release);
            if before & COUNT == 1 && before & WANTED != 0 {
                freed(unit);
            }
        }
    }
}
