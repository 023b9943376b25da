//! State that an array's home and a channel share. The rest of either is its own thread's.
//!
//! | word | written by | read by | order |
//! |---|---|---|---|
//! | `plan` | home, before it asks channels to look | a channel: when it begins, and when it is asked | by its lock, which no request takes |
//! | questions of home, and their answers | home; the channel, once it acts by what it was asked | the other one | by the lane: release, acquire |
//! | `buckets`: which reactor has requests in which rows | whoever enters or leaves | the same | acquire, release: [`brindle_members::buckets`] |
//! | `requests` of a channel | the channel | home, for statistics | relaxed |
//! | `given` of a channel | the channel, some times a second while it has requests | home, for statistics | by its lock |
//!
//! A channel that begins looks at the plan by itself. So it finds the plan that home put there before, and is asked about whatever home puts
//! there later: home knows of it before it can begin.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brindle_io::{Duration, HandedMember, MemberCounters, MemberId, OpError};
use brindle_layout::Geometry;
use brindle_members::buckets::{Buckets, MOST};
use brindle_volume::Limits;

/// A question of home to a channel: the first word says which, the second has the number of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Look at the plan. With another word than 0 the run ends, and nothing else will be asked.
    Look,
    /// Answer as soon as there is something to [tell](Tell).
    Listen,
    /// A lease, by its part of the array, and the number by which it is given back. Answered by 1 if the channel has it.
    Lease,
    /// Give all leases back: answered when no write is under way any more.
    GiveBack,
    /// Give up all writes that wait for a device: the operations go on without their requests.
    GiveUp,
    /// A write has been [settled](Tell::Settle): its number, and 1 if its success may be acknowledged.
    Settled,
    /// Home waits for this row: writes to it that wait for more of the row wait no longer.
    Hurry,
}

impl Ask {
    const ALL: [Self; 7] =
        [Self::Look, Self::Listen, Self::Lease, Self::GiveBack, Self::GiveUp, Self::Settled, Self::Hurry];
    /// The first bytes of these questions begin here.
    const FIRST: u64 = 0xe0;

    pub(crate) fn word(self) -> u64 {
        Self::FIRST + self as u64
    }

    pub(crate) fn of(word: u64) -> Option<Self> {
        Self::ALL.get(word.checked_sub(Self::FIRST)? as usize).copied()
    }
}

/// Something that a channel tells home: the answer to [`Ask::Listen`]. The next such question says that home has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// There is no such channel any more.
    Gone,
    /// A request has found no lease of this part of the array.
    Wants(u64),
    /// The lease of this part and number is given back.
    GivesBack(u64, u64),
    /// Rows are free for which home waits.
    Freed,
    /// Writes to this device were given up, and may still land.
    Orphans(u32),
    /// None of them can any more.
    Landed(u32),
    /// The oldest write to this device has waited for so many milliseconds; 0: none has for long.
    Waits(u32, u32),
    /// A write to this unit did not come to a good end: copies may differ.
    Differs(u64),
    /// The byte of a device, or of the members' data areas, that is told of next.
    At(u64),
    /// This device has refused its part of a write there.
    Refused(u32, OpError),
    /// That was all of a write, to so many bytes of each member from there on. Home settles it, and says so under this number.
    Settle(u32, u64),
}

impl Tell {
    pub(crate) fn word(self) -> u64 {
        let (kind, value) = match self {
            Self::Gone => (0, 0),
            Self::Wants(part) => (1, part),
            Self::GivesBack(part, number) => (2, part | number << PART_BITS),
            Self::Freed => (3, 0),
            Self::Orphans(device) => (4, u64::from(device)),
            Self::Landed(device) => (5, u64::from(device)),
            Self::Waits(device, age) => (6, u64::from(device) | u64::from(age) << 24),
            Self::Differs(unit) => (7, unit),
            Self::At(place) => (8, place),
            Self::Refused(device, why) => (9, u64::from(device) | u64::from(why.code()) << 24),
            Self::Settle(number, len) => (10, u64::from(number) | len << SETTLE_BITS),
        };
        kind | value << 8
    }

    /// A channel that says anything else is gone.
    pub(crate) fn of(word: u64) -> Self {
        let value = word >> 8;
        match word & 0xff {
            1 => Self::Wants(value),
            2 => Self::GivesBack(value & (MOST_PARTS - 1), value >> PART_BITS),
            3 => Self::Freed,
            4 => Self::Orphans(value as u32),
            5 => Self::Landed(value as u32),
            6 => Self::Waits((value & 0xff_ffff) as u32, (value >> 24) as u32),
            7 => Self::Differs(value),
            8 => Self::At(value),
            9 => Self::Refused((value & 0xff_ffff) as u32, OpError::of_code((value >> 24) as u32)),
            10 => Self::Settle((value & (u64::from(SETTLE_NUMBERS) - 1)) as u32, value >> SETTLE_BITS),
            _ => Self::Gone,
        }
    }
}

/// Numbers of writes that are being settled, which are used in turn: more than there can be at a time. The bits above are for the length, of a
/// window of rows.
pub(crate) const SETTLE_NUMBERS: u32 = 1 << SETTLE_BITS;
const SETTLE_BITS: u32 = 24;

const PART_BITS: u32 = 20;
/// Most parts that an array is divided into for leases: with more of them home writes.
pub(crate) const MOST_PARTS: u64 = 1 << PART_BITS;

/// A unit of buckets: two reactors can't write to the same one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 64 KiB of the array.
    Bytes,
    /// A row of data with parity.
    Row,
}

impl Unit {
    /// How many bytes or rows it has, as a power of two.
    const fn shift(self) -> u32 {
        match self {
            Self::Bytes => 16,
            Self::Row => 0,
        }
    }
}

/// The units of a range of bytes or rows that is not empty; `None` if it is too wide.
#[inline]
pub(crate) fn units(range: &Range<u64>, unit: Unit) -> Option<Range<u64>> {
    let units = range.start >> unit.shift()..((range.end - 1) >> unit.shift()) + 1;
    (units.end - units.start <= MOST).then_some(units)
}

/// The bytes of a unit.
pub(crate) fn bytes_of_unit(unit: u64) -> Range<u64> {
    let shift = Unit::Bytes.shift();
    unit << shift..(unit + 1) << shift
}

/// How channels write.
pub(crate) struct PlannedWrites {
    /// Bytes of a part of the array of which a channel has a lease when it writes there.
    pub(crate) part: u64,
    /// Of an array with copies or parity: rows that reactors hold against each other.
    pub(crate) buckets: Option<Arc<Buckets>>,
    /// Memory for parity, in bytes; 0 without.
    pub(crate) scratch: usize,
}

/// A member as a plan has it.
pub(crate) struct PlannedMember {
    /// The device, of which the channel opens a port.
    pub(crate) handed: HandedMember,
    /// The number by which home knows it.
    pub(crate) id: MemberId,
    pub(crate) data_offset: u64,
}

/// All that a channel reads and writes an array by.
pub(crate) struct ChannelPlan {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    /// By role; `None` for those that the array lacks.
    pub(crate) members: Vec<Option<PlannedMember>>,
    /// Of several copies the first answers.
    pub(crate) first_copy: bool,
    /// A read that takes longer is handed to home, which is told of a write that does.
    pub(crate) patience: Duration,
    /// The longer time that flushes, discards and zeroes may take than writes.
    pub(crate) slow_for: Duration,
    /// A read is also handed over that takes this long, if other members answer in less than half of the time: where others can make up for
    /// one.
    pub(crate) early: Option<Duration>,
    /// `None`: home writes.
    pub(crate) writes: Option<PlannedWrites>,
}

/// Requests of a channel that a member has carried out, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Reads.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

impl Given {
    /// The requests that a port has carried out so far.
    pub(crate) fn of(counters: &MemberCounters) -> Self {
        let MemberCounters { reads, bytes_read, writes, bytes_written, .. } = *counters;
        Self { reads, bytes_read, writes, bytes_written }
    }

    /// Those that have come since.
    pub(crate) fn less(self, before: Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }

    /// The sum.
    pub(crate) fn and(self, more: Self) -> Self {
        self.with(more, u64::wrapping_add)
    }

    fn with(self, other: Self, change: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            reads: change(self.reads, other.reads),
            bytes_read: change(self.bytes_read, other.bytes_read),
            writes: change(self.writes, other.writes),
            bytes_written: change(self.bytes_written, other.bytes_written),
        }
    }
}

/// One channel's counters, on a line of their own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct ChannelCounts {
    requests: AtomicU64,
    given: Mutex<BTreeMap<MemberId, Given>>,
}

impl ChannelCounts {
    /// The channel has carried out one more request. It alone stores.
    #[inline]
    pub(crate) fn count(&self) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests that were carried out.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// A member has given so much more.
    pub(crate) fn add(&self, member: MemberId, more: Given) {
        let mut given = lock(&self.given);
        let sum = given.entry(member).or_default();
        *sum = sum.and(more);
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
    /// The number of the reactor in the crew.
    pub(crate) to: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_told_what_a_channel_says() {
        let device = (1 << 24) - 1;
        let refused = OpError::PLAIN.into_iter().chain([OpError::Medium(5), OpError::Medium(121)]);
        let all = refused.map(|why| Tell::Refused(device, why)).chain([
            Tell::Gone,
            Tell::Wants(MOST_PARTS - 1),
            Tell::GivesBack(MOST_PARTS - 1, (1 << 30) - 1),
            Tell::Freed,
            Tell::Orphans(device),
            Tell::Landed(device),
            Tell::Waits(device, u32::MAX),
            Tell::Differs((1 << 48) - 1),
            Tell::At((1 << 56) - 1),
            Tell::Settle(SETTLE_NUMBERS - 1, u64::from(u32::MAX)),
        ]);
        all.for_each(|tell| assert_eq!(Tell::of(tell.word()), tell));
    }
}
