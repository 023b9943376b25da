//! State that an array's home and a channel share. The rest of either is its own thread's.
//!
//! | word | written by | read by | order |
//! |---|---|---|---|
//! | `plan` | home, before it asks channels to look | a channel: when it begins, and when it is asked | by its lock, which no read takes |
//! | the question to look, and its answer | home; the channel, once it acts by what it saw | the other one | by the lane: release, acquire |
//! | `requests` of a channel | the channel | home, for statistics | relaxed |
//! | `given` of a channel | the channel, some times a second while it reads | home, for statistics | by its lock |
//!
//! A channel that begins looks at the plan by itself. So it finds the plan that home put there before, and is asked about whatever home puts
//! there later: home knows of it before it can begin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brindle_io::{Duration, HandedMember, MemberId};
use brindle_layout::Geometry;
use brindle_volume::Limits;

/// The first byte of the question by which home asks a channel to look at its plan.
pub(crate) const LOOK: u64 = 0xfd;

/// A member as a plan has it.
pub(crate) struct PlannedMember {
    /// The device, of which the channel opens a port.
    pub(crate) handed: HandedMember,
    /// The number by which home knows it.
    pub(crate) id: MemberId,
    pub(crate) data_offset: u64,
}

/// All that a channel reads a whole array by.
pub(crate) struct ChannelPlan {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    /// By role.
    pub(crate) members: Vec<PlannedMember>,
    /// Of several copies the first answers.
    pub(crate) first_copy: bool,
    /// A read that takes longer is handed to home.
    pub(crate) patience: Duration,
    /// So is one that takes this long, if other members answer in less than half of the time: where others can make up for one.
    pub(crate) early: Option<Duration>,
}

/// Reads that a member gave a channel, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Reads.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One channel's counters, on a line of their own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct ChannelCounts {
    requests: AtomicU64,
    given: Mutex<BTreeMap<MemberId, Given>>,
}

impl ChannelCounts {
    /// The channel has carried out one more read. It alone stores.
    #[inline]
    pub(crate) fn count(&self) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Reads that were carried out.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// A member has given so much more.
    pub(crate) fn add(&self, member: MemberId, more: Given) {
        let mut given = lock(&self.given);
        let sum = given.entry(member).or_default();
        (sum.reads, sum.bytes) = (sum.reads + more.reads, sum.bytes + more.bytes);
    }

    /// The sum of a member's.
    pub(crate) fn given(&self, member: MemberId) -> Given {
        lock(&self.given).get(&member).copied().unwrap_or_default()
    }
}

/// The plan of an array's channels.
pub(crate) struct SharedPlan {
    /// No other array of this process has it.
    pub(crate) number: u64,
    plan: Mutex<Option<Arc<ChannelPlan>>>,
}

impl SharedPlan {
    /// No channel reads so far.
    pub(crate) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { number: NEXT.fetch_add(1, Ordering::Relaxed), plan: Mutex::default() })
    }

    /// Channels that look from here on find this.
    pub(crate) fn put(&self, plan: Option<ChannelPlan>) {
        *lock(&self.plan) = plan.map(Arc::new);
    }

    /// The plan as home put it there last.
    pub(crate) fn get(&self) -> Option<Arc<ChannelPlan>> {
        lock(&self.plan).clone()
    }
}

/// The parts with which a reactor opens a channel.
#[derive(Clone)]
pub(crate) struct Seed {
    pub(crate) shared: Arc<SharedPlan>,
    pub(crate) counts: Arc<ChannelCounts>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
