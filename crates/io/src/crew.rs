//! Executors that ask each other: a lane for each ordered pair of them, and a bell for each.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::lane::{Bell, LaneEnd, LaneMouth, Parcel, lane};
use crate::reactor::Unpark;
use crate::word::{MOST_OF_A_CREW, PLACES};

/// The place of an executor among those that ask each other. It goes to the executor's thread, which takes it
/// ([`crate::Io::join`]).
pub struct Berth(Crew);

impl Berth {
    /// Berths of so many executors, numbered from 0.
    pub fn crew(count: usize) -> Vec<Self> {
        let bells: Vec<_> = (0..count).map(|_| Arc::new(CrewBell::new())).collect();
        let mut crews: Vec<_> = (0..count).map(|me| Crew::new(me, &bells)).collect();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            if from != to {
                let (mouth, end) = lane();
                crews[from].out[to].get_mut().mouth = Some(mouth);
                crews[to].lanes.get_mut()[from] = Some(end);
            }
        }
        crews.into_iter().map(Self).collect()
    }

    /// The number of the executor.
    pub fn number(&self) -> usize {
        self.0.me
    }

    /// The executor takes its place; `unpark` wakes it.
    pub(crate) fn taken(self, unpark: Unpark) -> Crew {
        // Nobody else sets it: there is one berth of this number.
        let _ = self.0.bells[self.0.me].unpark.set(unpark);
        self.0
    }
}

struct CrewBell {
    bell: Bell,
    /// Turns so far, which the thread counts, and others see.
    turns: AtomicU64,
    /// Wakes the thread. Missing until it has taken its place: then it looks at its lanes before it first sleeps.
    unpark: OnceLock<Unpark>,
}

impl CrewBell {
    fn new() -> Self {
        Self { bell: Bell::new(), turns: AtomicU64::new(0), unpark: OnceLock::new() }
    }
}

/// The way to another executor.
struct Out {
    mouth: Option<LaneMouth>,
    /// Parcels for which the lane has no place.
    waiting: VecDeque<Parcel>,
}

/// An executor's place among those that ask each other.
pub(crate) struct Crew {
    me: usize,
    bells: Vec<Arc<CrewBell>>,
    /// By the number of the other executor.
    out: Vec<RefCell<Out>>,
    lanes: RefCell<Vec<Option<LaneEnd>>>,
    /// Executors to which something was sent since their bells were last looked at, a bit for each.
    fresh: Cell<u64>,
    /// Parcels sent, and wake-ups of others.
    pub(crate) counts: Cell<(u64, u64)>,
    /// Parcels that come are left where they are.
    pub(crate) is_late: Cell<bool>,
}

impl Crew {
    fn new(me: usize, bells: &[Arc<CrewBell>]) -> Self {
        assert!(bells.len() <= MOST_OF_A_CREW, "a crew of {}", bells.len());
        let out = || RefCell::new(Out { mouth: None, waiting: VecDeque::new() });
        Self {
            me,
            bells: bells.to_vec(),
            out: bells.iter().map(|_| out()).collect(),
            lanes: RefCell::new(bells.iter().map(|_| None).collect()),
            fresh: Cell::new(0),
            counts: Cell::default(),
            is_late: Cell::new(false),
        }
    }

    /// Sends a parcel. Its receiver is woken when the task that sends it has had its turn, with others of that turn.
    ///
    /// # Panics
    /// If there is no other executor of that number.
    pub(crate) fn send(&self, to: usize, parcel: &Parcel) {
        let out = &mut *self.out[to].borrow_mut();
        let mouth = out.mouth.as_mut().expect("an executor asks others, not itself");
        if !out.waiting.is_empty() || !mouth.put(parcel) {
            out.waiting.push_back(*parcel);
        }
        self.fresh.set(self.fresh.get() | 1 << to);
        let (sent, rung) = self.counts.get();
        self.counts.set((sent + 1, rung));
    }

    /// Takes the next parcel that has come from `from`.
    fn take(&self, from: usize) -> Option<Parcel> {
        self.lanes.borrow_mut()[from].as_mut()?.take()
    }

    /// Hands over the parcels that have come, with the numbers of their senders.
    pub(crate) fn take_all(&self, mut to: impl FnMut(usize, &Parcel)) {
        if self.is_late.get() {
            return;
        }
        for from in 0..self.bells.len() {
            let mut taken = 0;
            while taken < 2 * PLACES
                && let Some(parcel) = self.take(from)
            {
                taken += 1;
                to(from, &parcel);
            }
            if taken >= PLACES {
                // The lane was full, and its sender may wait for a place.
                self.fresh.set(self.fresh.get() | 1 << from);
            }
        }
    }

    /// Sends what has waited for a place, and wakes those that sleep and have got something.
    pub(crate) fn ring(&self) {
        let mut fresh = self.fresh.take();
        while fresh != 0 {
            let to = fresh.trailing_zeros() as usize;
            fresh &= fresh - 1;
            let out = &mut *self.out[to].borrow_mut();
            while let (Some(parcel), Some(mouth)) = (out.waiting.front(), &mut out.mouth)
                && mouth.put(parcel)
            {
                out.waiting.pop_front();
            }
            if !out.waiting.is_empty() {
                self.fresh.set(self.fresh.get() | 1 << to);
            }
            if self.bells[to].bell.needs_ringing() {
                let (sent, rung) = self.counts.get();
                self.counts.set((sent, rung + 1));
                self.bells[to].unpark.get().inspect(|unpark| unpark());
            }
        }
    }

    /// Whether nothing has come that was not taken.
    pub(crate) fn has_nothing(&self) -> bool {
        self.is_late.get() || self.lanes.borrow().iter().flatten().all(LaneEnd::is_empty)
    }

    /// The executor is about to sleep; false if it must not, for something has come.
    pub(crate) fn may_sleep(&self) -> bool {
        let bell = &self.bells[self.me].bell;
        bell.about_to_sleep();
        let may = self.has_nothing();
        if !may {
            bell.is_awake();
        }
        may
    }

    /// Whether each executor of the crew has parcels from this one that it has not taken.
    pub(crate) fn untaken(&self) -> Vec<bool> {
        let is_untaken =
            |out: &Out| !out.waiting.is_empty() || out.mouth.as_ref().is_some_and(|mouth| !mouth.is_empty());
        self.out.iter().map(|out| is_untaken(&out.borrow())).collect()
    }

    /// Turns of each executor of the crew.
    pub(crate) fn turns(&self) -> Vec<u64> {
        self.bells.iter().map(|bell| bell.turns.load(Ordering::Relaxed)).collect()
    }

    /// The executor is awake.
    pub(crate) fn awake(&self) {
        let CrewBell { bell, turns, .. } = &*self.bells[self.me];
        bell.is_awake();
        turns.store(turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::WORDS;

    #[test]
    fn parcels_come_in_their_order_and_wait_for_a_place() {
        let (mut mouth, mut end) = lane();
        assert!(end.is_empty());
        for number in 0..PLACES as u64 {
            assert!(mouth.put(&[number; WORDS]));
        }
        assert!(!mouth.put(&[7; WORDS]), "all places are taken");
        assert!(!end.is_empty());
        assert_eq!(end.take(), Some([0; WORDS]));
        assert!(mouth.put(&[PLACES as u64; WORDS]));
        for number in 1..=PLACES as u64 {
            assert_eq!(end.take(), Some([number; WORDS]));
        }
        assert_eq!(end.take(), None);
    }

    /// Two threads that sleep between any two parcels: a wake-up that is lost would leave both asleep.
    #[test]
    fn no_parcel_is_slept_over() {
        const ROUNDS: u64 = 100_000;
        let ((mut to, mut their_end), (mut back, mut end)) = (lane(), lane());
        let (bell, their_bell) = (Arc::new(Bell::new()), Arc::new(Bell::new()));
        let me = std::thread::current();
        let (my_bell, theirs) = (Arc::clone(&bell), Arc::clone(&their_bell));
        let next = |end: &mut LaneEnd, bell: &Bell| loop {
            if let Some(parcel) = end.take() {
                return parcel;
            }
            bell.about_to_sleep();
            if end.is_empty() {
                std::thread::park();
            }
            bell.is_awake();
        };
        let other = std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let parcel = next(&mut their_end, &theirs);
                assert!(back.put(&parcel));
                if my_bell.needs_ringing() {
                    me.unpark();
                }
            }
        });
        for round in 0..ROUNDS {
            assert!(to.put(&[round; WORDS]));
            if their_bell.needs_ringing() {
                other.thread().unpark();
            }
            assert_eq!(next(&mut end, &bell), [round; WORDS]);
        }
        other.join().expect("it has ended well");
    }
}
