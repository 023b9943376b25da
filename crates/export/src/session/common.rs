//! The words of requests' memory that several reactors have together. Each writes its own line, and reads those of others when it has too little.
//!
//! | word | written by | read by | order |
//! |---|---|---|---|
//! | `held` | a reactor, with each request that it admits or ends | others, when a request does not fit | relaxed |
//! | `stuck`, `wanted` | a reactor, in each round of its patrol, and when who waits there changes | others, by the same occasions | relaxed |
//! | `first` | a reactor, when who waits there changes | others that see its bit in `waiting`, before they admit | relaxed |
//! | `waiting` | each reactor its own bit, when somebody begins to wait there for others, and when nobody does any more | all, with each request | relaxed |
//! | `next` | whoever begins to wait | the same | relaxed |
//!
//! A value that is seen late admits a request too early, or has one wait for longer. It is not slept over: who waits is in the budget of the arenas as well
//! (`brindle_io::BudgetShare`), and whoever changes one of these words in favour of others has them look again by that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use brindle_io::{BudgetShare, Io, Pool};

/// The number of no request.
const NOBODY: u64 = u64::MAX;

/// The part of one reactor in the memory for requests that several have together. It goes to the reactor's thread.
pub struct MemoryShare {
    common: CommonMemory,
    budget: BudgetShare,
}

impl MemoryShare {
    /// The parts of so many reactors in `bytes` bytes. Each may have all of them, as long as the others don't.
    ///
    /// # Panics
    /// If there are more than [`brindle_io::MOST_OF_A_CREW`].
    pub fn of(bytes: usize, count: usize) -> Vec<Self> {
        let budgets = BudgetShare::of(bytes, count);
        CommonMemory::of(count).zip(budgets).map(|(common, budget)| Self { common, budget }).collect()
    }

    /// The pool, and the words that belong to it.
    pub(super) fn used(self, io: &Io) -> (Pool, CommonMemory) {
        (io.pool_within(self.budget), self.common)
    }
}

/// Words by which a reactor tells others, on lines of its own.
#[repr(align(128))]
struct ReactorMemory {
    /// Bytes that requests of its clients hold.
    held: AtomicUsize,
    /// Bytes that others can't have as long as clients don't move.
    stuck: AtomicUsize,
    /// The number of its first request that waits for memory of others and will get it; [`NOBODY`].
    first: AtomicU64,
    /// A client that moves waits for memory of others.
    wanted: AtomicBool,
}

struct AllMemory {
    reactors: Vec<Arc<ReactorMemory>>,
    /// Reactors on which somebody waits for memory of others, a bit for each.
    waiting: AtomicU64,
    next: AtomicU64,
}

/// A reactor's side of the memory for requests.
pub(super) struct CommonMemory {
    mine: Arc<ReactorMemory>,
    all: Arc<AllMemory>,
    bit: u64,
}

impl CommonMemory {
    fn of(count: usize) -> impl Iterator<Item = Self> {
        let line = |_| {
            Arc::new(ReactorMemory {
                held: AtomicUsize::new(0),
                stuck: AtomicUsize::new(0),
                first: AtomicU64::new(NOBODY),
                wanted: AtomicBool::new(false),
            })
        };
        let reactors = (0..count).map(line).collect();
        let all = Arc::new(AllMemory { reactors, waiting: AtomicU64::new(0), next: AtomicU64::new(0) });
        (0..count).map(move |number| Self {
            mine: Arc::clone(&all.reactors[number]),
            all: Arc::clone(&all),
            bit: 1 << number,
        })
    }

    /// Of a reactor that has its memory for itself.
    pub(super) fn alone() -> Self {
        Self::of(1).next().expect("one was asked for")
    }

    /// No other reactor has a part.
    pub(super) fn is_alone(&self) -> bool {
        self.all.reactors.len() == 1
    }

    fn others(&self) -> impl Iterator<Item = &ReactorMemory> {
        self.all.reactors.iter().filter(|one| !Arc::ptr_eq(one, &self.mine)).map(|one| &**one)
    }

    /// Requests of clients here hold so many bytes more.
    #[inline]
    pub(super) fn holds(&self, bytes: usize) {
        self.mine.held.store(self.mine.held.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Requests of clients here hold so many bytes less.
    #[inline]
    pub(super) fn holds_less(&self, bytes: usize) {
        self.mine.held.store(self.mine.held.load(Ordering::Relaxed) - bytes, Ordering::Relaxed);
    }

    /// No client here holds any memory.
    pub(super) fn holds_nothing(&self) -> bool {
        self.mine.held.load(Ordering::Relaxed) == 0
    }

    /// No client of any reactor does.
    pub(super) fn nobody_holds_any(&self) -> bool {
        self.holds_nothing() && self.others().all(|other| other.held.load(Ordering::Relaxed) == 0)
    }

    /// Sets the bytes that clients here keep from others which don't move.
    pub(super) fn are_stuck(&self, bytes: usize) {
        self.mine.stuck.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that clients of all reactors hold which don't move.
    pub(super) fn stuck(&self) -> usize {
        self.all.reactors.iter().map(|one| one.stuck.load(Ordering::Relaxed)).sum()
    }

    /// A number for a request that waits: lower than those of all that come later.
    pub(super) fn next(&self) -> u64 {
        self.all.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Somebody waits on another reactor for memory of others.
    #[inline]
    pub(super) fn others_wait(&self) -> bool {
        self.all.waiting.load(Ordering::Relaxed) & !self.bit != 0
    }

    /// Tells others whether somebody waits here for memory of theirs.
    pub(super) fn waits(&self, waits: bool) {
        if waits {
            self.all.waiting.fetch_or(self.bit, Ordering::Relaxed);
        } else {
            self.all.waiting.fetch_and(!self.bit, Ordering::Relaxed);
        }
    }

    /// Whether a request on another reactor that came before `place` waits for memory of others, and will get it.
    #[inline]
    pub(super) fn another_is_before(&self, place: u64) -> bool {
        self.others_wait() && self.others().any(|other| other.first.load(Ordering::Relaxed) < place)
    }

    /// Tells others of the first request that waits here, and whether a client that moves is among those that wait. Says whether a request that they
    /// may have waited for is before them no more.
    pub(super) fn publish(&self, first: Option<u64>, wanted: bool) -> bool {
        self.mine.wanted.store(wanted, Ordering::Relaxed);
        let first = first.unwrap_or(NOBODY);
        let before = self.mine.first.load(Ordering::Relaxed);
        self.mine.first.store(first, Ordering::Relaxed);
        before < first
    }

    /// Another reactor has a client that moves and waits for memory of others.
    pub(super) fn is_wanted_elsewhere(&self) -> bool {
        self.others().any(|other| other.wanted.load(Ordering::Relaxed))
    }
}
