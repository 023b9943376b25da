//! The stripes that md keeps in memory, with what is known of their pages.

use core::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_volume::VolumeError;

use super::roles::Roles;
use super::rules::Written;

/// Lists by which md finds stripes that are not in use: each has an equal share of them.
const LISTS: u64 = 8;

/// A request that waits for stripes to be written.
pub(super) struct Waiting {
    /// Stripes that are not written yet.
    pub(super) open: Cell<usize>,
    pub(super) failed: Cell<Option<VolumeError>>,
    pub(super) done: Notify,
}

/// A stripe in memory.
#[derive(Default)]
pub(super) struct KeptStripe {
    /// Pages whose content is there.
    pub(super) held: Roles,
    /// Pages that are being read.
    pub(super) coming: Roles,
    /// Pages that are to be written, by requests that wait.
    pub(super) to_write: Written,
    /// One of them wants it on stable storage.
    pub(super) fua: bool,
    /// These requests.
    pub(super) waiters: Vec<Rc<Waiting>>,
    /// A write to it is under way.
    pub(super) is_written: bool,
    /// Requests that use it: it stays.
    users: u32,
    /// When it was last used.
    since: u64,
}

/// Stripes by their number.
#[derive(Default)]
pub(super) struct Cache {
    stripes: BTreeMap<u64, KeptStripe>,
    /// Stripes not in use, by list, from the one that has been so for longest.
    idle: [BTreeMap<u64, u64>; LISTS as usize],
    /// Stripes of each list.
    counts: [usize; LISTS as usize],
    clock: u64,
    /// Stripes of a list at most, but for those in use.
    most: usize,
}

impl Cache {
    /// Room for so many stripes.
    pub(super) fn new(stripes: u32) -> Self {
        Self { most: stripes as usize / LISTS as usize, ..Self::default() }
    }

    /// Begins a use of a stripe. Where it takes another's place, that has been idle for longest.
    pub(super) fn enter(&mut self, number: u64) -> &mut KeptStripe {
        let list = (number % LISTS) as usize;
        match self.stripes.get(&number) {
            Some(entry) => {
                self.idle[list].remove(&entry.since);
            }
            None => {
                self.counts[list] += 1;
                self.shrink(list);
            }
        }
        let entry = self.stripes.entry(number).or_default();
        entry.users += 1;
        entry
    }

    /// A stripe in use.
    pub(super) fn at(&mut self, number: u64) -> &mut KeptStripe {
        self.stripes.entry(number).or_default()
    }

    /// Ends a use.
    pub(super) fn leave(&mut self, number: u64) {
        let list = (number % LISTS) as usize;
        self.clock += 1;
        let entry = self.stripes.entry(number).or_default();
        entry.users -= 1;
        if entry.users == 0 {
            entry.since = self.clock;
            self.idle[list].insert(self.clock, number);
        }
        self.shrink(list);
    }

    /// More stripes than there is room for are in memory only while all are in use.
    fn shrink(&mut self, list: usize) {
        while self.counts[list] > self.most {
            let Some((_, oldest)) = self.idle[list].pop_first() else { return };
            self.stripes.remove(&oldest);
            self.counts[list] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stripe_that_was_idle_for_longest_gives_way() {
        let mut cache = Cache::new(256);
        let holds = |cache: &mut Cache, number: u64| {
            let held = !cache.enter(number).held.is_empty();
            cache.leave(number);
            held
        };
        let fill = |cache: &mut Cache, numbers: core::ops::Range<u64>| {
            numbers.for_each(|number| {
                cache.enter(number).held.add(0);
                cache.leave(number);
            });
        };
        fill(&mut cache, 0..256);
        assert!(holds(&mut cache, 0) && holds(&mut cache, 255));
        fill(&mut cache, 256..257);
        assert!(holds(&mut cache, 0) && !holds(&mut cache, 8), "the oldest of its list");
        // Stripes in use stay, however many there are.
        (0..600).for_each(|number| cache.enter(number).held.add(1));
        (0..600).for_each(|number| assert!(cache.at(number).held.has(1)));
        (0..600).for_each(|number| cache.leave(number));
        assert!(!holds(&mut cache, 0) && holds(&mut cache, 599));
    }
}
