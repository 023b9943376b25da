//! Future events by their time: a calendar queue (R. Brown, 1988), a wheel of short stretches of time. Most events of
//! drives lie in the near future; finding the first should not take longer the more of them there are.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stretches of the wheel. A power of two.
const SLOTS: u64 = 1024;
/// Nanoseconds of a stretch at first, as a power of two.
const NARROWEST: u32 = 8;
/// The widest stretch: the wheel holds some hours then.
const WIDEST: u32 = 36;

/// Entries in order: a time, a tie-breaker for equal times, and the event.
pub(super) struct Agenda<T> {
    /// The stretch that comes first has the last of its entries first, the others have them as they came.
    wheel: Vec<Vec<(u64, u64, T)>>,
    /// The slots that hold anything, but for the first.
    filled: [u64; SLOTS as usize / 64],
    /// Number of the stretch that comes first, counted from moment 0.
    first: u64,
    width: u32,
    in_wheel: usize,
    /// Entries later than the end of the wheel.
    later: BinaryHeap<Reverse<(u64, u64, T)>>,
}

impl<T: Copy + Ord> Agenda<T> {
    pub(super) fn new() -> Self {
        Self {
            wheel: (0..SLOTS).map(|_| Vec::new()).collect(),
            filled: [0; SLOTS as usize / 64],
            first: 0,
            width: NARROWEST,
            in_wheel: 0,
            later: BinaryHeap::new(),
        }
    }

    pub(super) fn push(&mut self, at: u64, tie: u64, what: T) {
        let (entry, slot) = ((at, tie, what), at >> self.width);
        if slot >= self.first + SLOTS {
            self.later.push(Reverse(entry));
            if self.later.len() > 2 * self.in_wheel + SLOTS as usize && self.width < WIDEST {
                self.widen();
            }
            return;
        }
        self.in_wheel += 1;
        // It may come before the stretch that was first at the last look.
        if slot <= self.first {
            let first = &mut self.wheel[(self.first % SLOTS) as usize];
            let place = first.partition_point(|other| *other > entry);
            first.insert(place, entry);
            return;
        }
        let slot = slot % SLOTS;
        self.wheel[slot as usize].push(entry);
        self.filled[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// When the next thing happens.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.wheel[(self.first % SLOTS) as usize].is_empty() {
            self.turn();
        }
        self.wheel[(self.first % SLOTS) as usize].last().map(|entry| entry.0)
    }

    /// Takes the entry whose time [`Agenda::next`] gave last, if it gave any and nothing was added since.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        let (at, _, what) = self.wheel[(self.first % SLOTS) as usize].pop()?;
        self.in_wheel -= 1;
        Some((at, what))
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(T) -> bool) {
        self.again(self.width, keep);
    }

    /// Goes on to the next stretch that holds anything.
    #[inline(never)]
    fn turn(&mut self) {
        self.first = match (self.in_wheel, self.later.peek()) {
            (0, None) => return,
            (0, Some(Reverse(entry))) => entry.0 >> self.width,
            _ => self.first + self.ahead(),
        };
        let slot = self.first % SLOTS;
        self.filled[slot as usize / 64] &= !(1 << (slot % 64));
        self.wheel[slot as usize].sort_unstable_by(|a, b| b.cmp(a));
        while let Some(&Reverse(entry)) = self.later.peek()
            && entry.0 >> self.width < self.first + SLOTS
        {
            self.later.pop();
            self.push(entry.0, entry.1, entry.2);
        }
    }

    /// How many stretches on the next one is that holds anything.
    fn ahead(&self) -> u64 {
        let words = self.filled.len() as u64;
        let from = (self.first + 1) % SLOTS;
        let (word, bit) = (from / 64, from % 64);
        for n in 0..=words {
            let at = (word + n) % words;
            let mut bits = self.filled[at as usize];
            if n == 0 {
                bits &= u64::MAX << bit;
            }
            if bits != 0 {
                let slot = at * 64 + u64::from(bits.trailing_zeros());
                return 1 + (slot + SLOTS - from) % SLOTS;
            }
        }
        0
    }

    /// Widens the wheel's stretches: too many events lie beyond its end.
    fn widen(&mut self) {
        self.again(self.width + 1, |_| true);
    }

    /// Puts all into a wheel of this width that is to be kept.
    fn again(&mut self, width: u32, keep: impl Fn(T) -> bool) {
        let mut all: Vec<_> = self.wheel.iter_mut().flat_map(|slot| slot.drain(..)).collect();
        all.extend(self.later.drain().map(|entry| entry.0));
        all.retain(|entry| keep(entry.2));
        self.filled = [0; SLOTS as usize / 64];
        self.in_wheel = 0;
        self.first = all.iter().map(|entry| entry.0).min().unwrap_or(0) >> width;
        self.width = width;
        // Not by way of `push`, which would come back here.
        let (near, far) = all.into_iter().partition(|entry| entry.0 >> width < self.first + SLOTS);
        let (near, far): (Vec<_>, Vec<_>) = (near, far);
        self.later.extend(far.into_iter().map(Reverse));
        near.into_iter().for_each(|(at, tie, what)| self.push(at, tie, what));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take<T: Copy + Ord>(agenda: &mut Agenda<T>) -> Option<(u64, T)> {
        agenda.next()?;
        agenda.pop()
    }

    proptest! {
        /// As a list that is always in order: near and far, at one moment and before what was looked at last.
        #[test]
        fn all_comes_in_order(
            steps in prop::collection::vec((0u32..44, any::<u64>(), 0u64..3, 0u8..8), 1..400),
        ) {
            let (mut agenda, mut model, mut now) = (Agenda::new(), Vec::new(), 0u64);
            for (number, (scale, far, tie, act)) in steps.into_iter().enumerate() {
                match act {
                    0 | 1 => {
                        model.sort_unstable();
                        let wanted = (!model.is_empty()).then(|| model.remove(0));
                        let found = take(&mut agenda);
                        prop_assert_eq!(found, wanted.map(|(at, _, what)| (at, what)));
                        now = found.map_or(now, |(at, _)| now.max(at));
                    }
                    2 => prop_assert_eq!(agenda.next(), model.iter().map(|entry: &(u64, u64, usize)| entry.0).min()),
                    3 if number % 7 == 0 => {
                        agenda.retain(|what| what % 2 == 0);
                        model.retain(|entry| entry.2 % 2 == 0);
                    }
                    _ => {
                        let at = now + far % (1 << scale);
                        agenda.push(at, tie, number);
                        model.push((at, tie, number));
                    }
                }
            }
            model.sort_unstable();
            for (at, _, what) in model {
                prop_assert_eq!(take(&mut agenda), Some((at, what)));
            }
            prop_assert_eq!((agenda.next(), take(&mut agenda)), (None, None));
        }
    }

    #[test]
    fn a_wheel_that_is_too_small_grows() {
        let mut agenda = Agenda::new();
        (0..5000u64).for_each(|n| agenda.push(n * 1_000_000, 0, n));
        assert!(agenda.width > NARROWEST && agenda.later.len() <= 2 * agenda.in_wheel + SLOTS as usize);
        assert!((0..5000).all(|n| take(&mut agenda) == Some((n * 1_000_000, n))));
        agenda.push(u64::MAX, 0, 1);
        agenda.clear();
        assert_eq!(take(&mut agenda), None);
        agenda.push(u64::MAX, 0, 1);
        assert_eq!(take(&mut agenda), Some((u64::MAX, 1)));
    }
}
