//! Ranges under way, found by what they overlap, at a cost that does not grow with their number.
//!
//! A range is kept in the chains of the one or two buckets that it lies in, of buckets at least as wide as it is:
//! there are several levels of buckets, each `FANOUT` times as wide as those below. A chain has the ranges of its
//! bucket in the order of their coming. Chains are found by a hash, and buckets that share one do no harm: every
//! range met is looked at. A lookup visits each level that has ranges, nearly always one or two.
//!
//! As long as no more than `FEW` ranges are held, a walk over them costs less, and there are no chains.
//!
//! Nothing is allocated but when more ranges are held than ever before, and nothing depends on chance.

use core::num::NonZeroU32;
use core::ops::Range;

/// No entry, or no chain.
const NONE: u32 = u32::MAX;
/// As many ranges are walked rather than kept in chains.
const FEW: usize = 16;
/// log2 of how much wider the buckets of the next level are.
const FANOUT: u32 = 4;
/// Levels that widths of 64 bits may need.
const LEVELS: usize = 1 + (u64::BITS / FANOUT) as usize;
/// The order of an entry that is free.
const FREE: u64 = u64::MAX;

/// The key of a range while it is in the set; later the key may name another range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeKey(NonZeroU32);

impl RangeKey {
    /// The key of an entry.
    #[inline]
    fn of(at: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(at))
    }

    #[inline]
    fn at(self) -> u32 {
        self.0.get() - 1
    }

    /// A number below the most ranges that were ever held at once, no other's meanwhile.
    #[inline]
    pub fn index(self) -> usize {
        self.at() as usize
    }
}

/// An entry's place in a chain.
#[derive(Clone, Copy)]
struct Link {
    chain: u32,
    older: u32,
    newer: u32,
}

impl Link {
    const NONE: Self = Self { chain: NONE, older: NONE, newer: NONE };
}

#[derive(Clone, Copy)]
struct RangeEntry<T> {
    start: u64,
    end: u64,
    /// Entries that came earlier have smaller numbers.
    order: u64,
    /// The links of an entry in chains.
    links: [Link; 2],
    value: T,
}

impl<T> RangeEntry<T> {
    #[inline]
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.end
    }

    #[inline]
    fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    #[inline]
    fn link(&mut self, chain: u32) -> &mut Link {
        let second = self.links[0].chain != chain;
        &mut self.links[usize::from(second)]
    }

    #[inline]
    fn older(&self, chain: u32) -> u32 {
        self.links[usize::from(self.links[0].chain != chain)].older
    }
}

/// Ranges with a value each.
pub struct Ranges<T> {
    entries: Vec<RangeEntry<T>>,
    free: Vec<u32>,
    /// The newest of each chain. A power of two of them, and no fewer than twice the ranges; none as long as there were no
    /// more than [`FEW`] entries since no range was held.
    chains: Vec<u32>,
    /// Ranges of each level, and a bit for each level that has any: of those in chains.
    counts: [u32; LEVELS],
    levels: u32,
    next: u64,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        let (entries, free, chains) = (Vec::new(), Vec::new(), Vec::new());
        Self { entries, free, chains, counts: [0; LEVELS], levels: 0, next: 0 }
    }
}

/// The level whose buckets are as wide as the range, or just wider.
#[inline]
fn level_of(range: &Range<u64>) -> u32 {
    let most = range.end.saturating_sub(range.start).saturating_sub(1);
    (u64::BITS - most.leading_zeros()).div_ceil(FANOUT)
}

/// The buckets of a level that a range touches. An empty range touches the bucket of its start.
#[inline]
fn buckets(range: &Range<u64>, level: u32) -> (u64, u64) {
    let last = range.end.saturating_sub(1).max(range.start);
    let bucket = |at: u64| at.checked_shr(level * FANOUT).unwrap_or(0);
    (bucket(range.start), bucket(last))
}

impl<T: Copy> Ranges<T> {
    /// Takes a range in, as the newest.
    #[inline]
    pub fn insert(&mut self, range: Range<u64>, value: T) -> RangeKey {
        let (Range { start, end }, order) = (range, self.next);
        self.next += 1;
        let at = match self.free.pop() {
            Some(at) => {
                let entry = &mut self.entries[at as usize];
                (entry.start, entry.end, entry.order, entry.value) = (start, end, order, value);
                at
            }
            None => {
                self.entries.push(RangeEntry { start, end, order, links: [Link::NONE; 2], value });
                (self.entries.len() - 1) as u32
            }
        };
        if self.entries.len() > FEW {
            self.index(at, &(start..end));
        }
        RangeKey::of(at)
    }

    /// Takes a range out.
    #[inline]
    pub fn remove(&mut self, key: RangeKey) -> T {
        let chained = !self.chains.is_empty();
        if chained {
            self.unchain(key.at());
        }
        let entry = &mut self.entries[key.index()];
        // Overlaps nothing.
        (entry.start, entry.end, entry.order) = (u64::MAX, 0, FREE);
        let value = entry.value;
        self.free.push(key.at());
        if chained && self.is_empty() {
            self.restart();
        }
        value
    }

    /// Puts a new entry into chains.
    #[inline]
    fn index(&mut self, at: u32, range: &Range<u64>) {
        if 2 * (self.entries.len() - self.free.len()) > self.chains.len() {
            self.rebuild();
        } else {
            self.enchain(at, range);
        }
    }

    /// No range is held: begins anew, with what memory there is.
    #[cold]
    fn restart(&mut self) {
        self.entries.clear();
        self.free.clear();
        self.chains.clear();
    }

    /// Forgets all ranges.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// No range is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// The range of a key.
    #[inline]
    pub fn range(&self, key: RangeKey) -> Range<u64> {
        self.entries[key.at() as usize].range()
    }

    /// The range's value.
    #[inline]
    pub fn get(&self, key: RangeKey) -> &T {
        &self.entries[key.index()].value
    }

    /// The range's value, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: RangeKey) -> &mut T {
        &mut self.entries[key.index()].value
    }

    /// The place in the order of entry: earlier ones have smaller numbers.
    pub fn order(&self, key: RangeKey) -> u64 {
        self.entries[key.index()].order
    }

    /// The newest of those that overlap a range.
    #[inline]
    pub fn last_over(&self, range: &Range<u64>) -> Option<RangeKey> {
        self.newest(range, &[], |entry| entry.overlaps(range))
    }

    /// The newest of those that came before a range, overlap it and have a value that `fits`.
    #[inline]
    pub fn last_before(&self, key: RangeKey, fits: impl Fn(&T) -> bool) -> Option<RangeKey> {
        let me = &self.entries[key.index()];
        let range = me.range();
        let test =
            |entry: &RangeEntry<T>| entry.order < me.order && entry.overlaps(&range) && fits(&entry.value);
        self.newest(&range, &me.links, test)
    }

    /// All that overlap a range, oldest first.
    pub fn over(&self, range: &Range<u64>) -> Vec<RangeKey> {
        let held = self.entries.iter().enumerate().filter(|(_, e)| e.order != FREE && e.overlaps(range));
        let mut keys: Vec<RangeKey> = held.map(|(at, _)| RangeKey::of(at as u32)).collect();
        keys.sort_unstable_by_key(|&key| self.order(key));
        keys
    }

    /// The newest entry that passes the test, which fails for all that do not overlap `range`. `links` are of the entry
    /// before which it came, whose level and range these are; without any, all are looked at.
    #[inline]
    fn newest(
        &self,
        range: &Range<u64>,
        links: &[Link],
        test: impl Fn(&RangeEntry<T>) -> bool,
    ) -> Option<RangeKey> {
        if self.chains.is_empty() {
            return self.newest_of_few(range, &test);
        }
        let own = if links.is_empty() { NONE } else { level_of(range) };
        let (mut found, mut levels) = (NONE, self.levels);
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            if level == own {
                for link in links.iter().filter(|link| link.chain != NONE) {
                    found = self.newest_of(link.chain, link.older, found, &test);
                }
                continue;
            }
            let (first, last) = buckets(range, level);
            if last - first > self.entries.len() as u64 {
                return self.newest_of_all(&test);
            }
            for bucket in first..=last {
                let chain = self.chain(level, bucket);
                found = self.newest_of(chain, self.chains[chain as usize], found, &test);
            }
        }
        (found != NONE).then_some(RangeKey::of(found))
    }

    #[inline]
    fn newest_of_few(&self, range: &Range<u64>, test: &impl Fn(&RangeEntry<T>) -> bool) -> Option<RangeKey> {
        let mut found = None;
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.overlaps(range) && test(entry) && found.is_none_or(|(order, _)| entry.order > order) {
                found = Some((entry.order, at));
            }
        }
        found.map(|(_, at)| RangeKey::of(at as u32))
    }

    /// The newest in a chain, from `at` on, that passes the test; `found` if that is newer.
    #[inline]
    fn newest_of(&self, chain: u32, mut at: u32, found: u32, test: &impl Fn(&RangeEntry<T>) -> bool) -> u32 {
        while at != NONE {
            let entry = &self.entries[at as usize];
            if found != NONE && entry.order <= self.entries[found as usize].order {
                return found;
            }
            if test(entry) {
                return at;
            }
            at = entry.older(chain);
        }
        found
    }

    /// As [`Ranges::newest`], for a range so wide that it touches more buckets than there are entries.
    #[cold]
    fn newest_of_all(&self, test: &impl Fn(&RangeEntry<T>) -> bool) -> Option<RangeKey> {
        let held = self.entries.iter().enumerate().filter(|(_, entry)| entry.order != FREE && test(entry));
        held.max_by_key(|(_, entry)| entry.order).map(|(at, _)| RangeKey::of(at as u32))
    }

    /// The chain of a bucket.
    #[inline]
    fn chain(&self, level: u32, bucket: u64) -> u32 {
        let mixed = (bucket << 5 | u64::from(level)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - self.chains.len().trailing_zeros())) as u32
    }

    /// Puts an entry, the newest of all, at the end of its chains.
    #[inline]
    fn enchain(&mut self, at: u32, range: &Range<u64>) {
        let level = level_of(range);
        self.counts[level as usize] += 1;
        self.levels |= 1 << level;
        self.entries[at as usize].links[1] = Link::NONE;
        let (first, last) = buckets(range, level);
        let chain = self.chain(level, first);
        self.append(at, 0, chain);
        if first != last {
            let second = self.chain(level, last);
            if second != chain {
                self.append(at, 1, second);
            }
        }
    }

    #[inline]
    fn unchain(&mut self, at: u32) {
        let entry = &self.entries[at as usize];
        let (links, level) = (entry.links, level_of(&entry.range()) as usize);
        for Link { chain, older, newer } in links.into_iter().filter(|link| link.chain != NONE) {
            match newer {
                NONE => self.chains[chain as usize] = older,
                newer => self.entries[newer as usize].link(chain).older = older,
            }
            if older != NONE {
                self.entries[older as usize].link(chain).newer = newer;
            }
        }
        self.counts[level] -= 1;
        if self.counts[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    #[inline]
    fn append(&mut self, at: u32, which: usize, chain: u32) {
        let older = core::mem::replace(&mut self.chains[chain as usize], at);
        if older != NONE {
            self.entries[older as usize].link(chain).newer = at;
        }
        self.entries[at as usize].links[which] = Link { chain, older, newer: NONE };
    }

    /// Puts all into chains, of which there are twice as many as before.
    #[cold]
    fn rebuild(&mut self) {
        let count = (2 * self.chains.len()).max(4 * FEW);
        self.chains.clear();
        self.chains.resize(count, NONE);
        (self.counts, self.levels) = ([0; LEVELS], 0);
        let held = self.entries.iter().enumerate().filter(|(_, entry)| entry.order != FREE);
        let mut ats: Vec<u32> = held.map(|(at, _)| at as u32).collect();
        ats.sort_unstable_by_key(|&at| self.entries[at as usize].order);
        for at in ats {
            let range = self.entries[at as usize].range();
            self.enchain(at, &range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum RangeStep {
        Insert(Range<u64>, bool),
        Remove(usize),
    }

    fn range() -> impl Strategy<Value = Range<u64>> {
        let len = prop_oneof![
            6 => Just(1u64),
            4 => 1..40u64,
            1 => 0..1u64,
            2 => 40..5000u64,
            1 => (1u64 << 20)..(1 << 50),
        ];
        let start = prop_oneof![8 => 0..64u64, 3 => 0..5000u64, 1 => u64::MAX - 100..u64::MAX];
        (start, len).prop_map(|(start, len)| start..start.saturating_add(len))
    }

    fn steps() -> impl Strategy<Value = Vec<RangeStep>> {
        let step = prop_oneof![
            3 => (range(), any::<bool>()).prop_map(|(range, value)| RangeStep::Insert(range, value)),
            2 => any::<prop::sample::Index>().prop_map(|at| RangeStep::Remove(at.index(1 << 16))),
        ];
        prop::collection::vec(step, 0..300)
    }

    fn over(a: &Range<u64>, b: &Range<u64>) -> bool {
        a.start < b.end && b.start < a.end
    }

    proptest! {
        #[test]
        fn a_walk_of_a_list_finds_the_same(steps in steps(), asked in prop::collection::vec(range(), 4)) {
            let mut ranges = Ranges::default();
            // In the order of coming.
            let mut list: Vec<(RangeKey, Range<u64>, bool)> = Vec::new();
            for step in steps {
                match step {
                    RangeStep::Insert(range, value) => {
                        list.push((ranges.insert(range.clone(), value), range, value));
                    }
                    RangeStep::Remove(at) if !list.is_empty() => {
                        let (key, _, value) = list.remove(at % list.len());
                        prop_assert_eq!(ranges.remove(key), value);
                    }
                    RangeStep::Remove(_) => {}
                }
                prop_assert_eq!(ranges.is_empty(), list.is_empty());
                for asked in &asked {
                    let all: Vec<_> = list.iter().filter(|e| over(&e.1, asked)).map(|e| e.0).collect();
                    prop_assert_eq!(ranges.last_over(asked), all.last().copied());
                    prop_assert_eq!(ranges.over(asked), all);
                }
                for (at, (key, range, _)) in list.iter().enumerate() {
                    let before = list[..at].iter().rev().find(|e| e.2 && over(&e.1, range));
                    prop_assert_eq!(ranges.last_before(*key, |value| *value), before.map(|e| e.0));
                }
            }
        }
    }

    #[test]
    fn what_is_held_at_once_says_how_much_memory_is_kept() {
        let mut ranges = Ranges::default();
        for at in 0..10_000u64 {
            let held: Vec<_> = (0..40).map(|n| ranges.insert(at + n..at + n + 1, ())).collect();
            held.into_iter().for_each(|key| ranges.remove(key));
        }
        assert!(ranges.is_empty());
        assert_eq!(
            (ranges.entries.capacity(), ranges.free.capacity(), ranges.chains.capacity()),
            (64, 64, 128)
        );
    }
}
