//! A lane: parcels from one thread to one other, in their order, and the bell of a thread that sleeps.
//!
//! | word | written by | read by | order |
//! |---|---|---|---|
//! | a place's words | the sender, while the place is free | the receiver, while it is full | by `put` and `taken` |
//! | `put` | the sender | the receiver | release after the words, acquire before them |
//! | `taken` | the receiver | the sender | release after the words, acquire before they are written again |
//! | `sleeps` | the receiver, before it sleeps and after; whoever rings takes it back first | all senders | fences, see below |
//!
//! A thread that is about to sleep stores `sleeps`, and then looks at its lanes once more. A sender puts, and then looks at `sleeps`. A fence
//! stands between the two on either side, so that one of them sees the other: no parcel is slept over. Whoever takes `sleeps` back rings in any
//! case: the receiver sleeps no more, or not for long. Nothing relies on the order of such changes, so that two senders may ring for one
//! sleep, and a model checker can show the rest (`xtask/tests/lanes.rs`).

use crate::word::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering, PLACES, WORDS, fence};

/// A message from one thread to another.
pub(crate) type Parcel = [u64; WORDS];

/// A count that one thread writes, on a line of its own.
#[repr(align(64))]
struct LaneCount(AtomicUsize);

struct Lane {
    places: Box<[[AtomicU64; WORDS]]>,
    put: LaneCount,
    taken: LaneCount,
}

/// The end of a lane that sends. There is one.
pub(crate) struct LaneMouth(Arc<Lane>);

/// The end of a lane that receives. There is one.
pub(crate) struct LaneEnd(Arc<Lane>);

/// A lane, from its mouth to its end.
pub(crate) fn lane() -> (LaneMouth, LaneEnd) {
    let place = || core::array::from_fn(|_| AtomicU64::new(0));
    let lane = Arc::new(Lane {
        places: (0..PLACES).map(|_| place()).collect(),
        put: LaneCount(AtomicUsize::new(0)),
        taken: LaneCount(AtomicUsize::new(0)),
    });
    (LaneMouth(Arc::clone(&lane)), LaneEnd(lane))
}

impl LaneMouth {
    /// Puts a parcel; false if there is no place for it.
    pub(crate) fn put(&mut self, parcel: &Parcel) -> bool {
        let Lane { places, put, taken } = &*self.0;
        let at = put.0.load(Ordering::Relaxed);
        if at.wrapping_sub(taken.0.load(Ordering::Acquire)) >= places.len() {
            return false;
        }
        for (to, word) in places[at % places.len()].iter().zip(parcel) {
            to.store(*word, Ordering::Relaxed);
        }
        put.0.store(at.wrapping_add(1), Ordering::Release);
        true
    }
}

impl LaneMouth {
    /// Whether all that was put has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.taken.0.load(Ordering::Relaxed) == self.0.put.0.load(Ordering::Relaxed)
    }
}

impl LaneEnd {
    /// Takes the oldest parcel.
    pub(crate) fn take(&mut self) -> Option<Parcel> {
        let Lane { places, put, taken } = &*self.0;
        let at = taken.0.load(Ordering::Relaxed);
        if at == put.0.load(Ordering::Acquire) {
            return None;
        }
        let from = &places[at % places.len()];
        let parcel = core::array::from_fn(|word| from[word].load(Ordering::Relaxed));
        taken.0.store(at.wrapping_add(1), Ordering::Release);
        Some(parcel)
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.taken.0.load(Ordering::Relaxed) == self.0.put.0.load(Ordering::Acquire)
    }
}

/// Whether a thread sleeps that parcels come to.
pub(crate) struct Bell {
    sleeps: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self { sleeps: AtomicBool::new(false) }
    }

    /// The thread is about to sleep: after this it looks at its lanes once more.
    pub(crate) fn about_to_sleep(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake.
    pub(crate) fn is_awake(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Whether the thread has to be woken, after something was put. Whom this tells so does wake it: others are told no more.
    pub(crate) fn needs_ringing(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        if sleeps {
            self.sleeps.store(false, Ordering::Relaxed);
        }
        sleeps
    }
}
