//! Settings of an array's run, chosen when it is opened.

use std::rc::Rc;

use brindle_io::Duration;
use brindle_members::patience::Patience;
use brindle_members::process::Speeds;

use crate::observer::MakeObserver;
use crate::row_log::MakeRowLog;

/// Permission to write to the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not one byte of any member is changed.
    #[default]
    ReadOnly,
    /// Everything.
    ReadWrite,
}

/// The choice of the copy of a mirrored array that answers a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The member with the least work in flight, and one that answers much slower than another seldom; large reads are
    /// split over all copies but those.
    #[default]
    LeastOutstanding,
    /// The first copy that can be read.
    First,
    /// The copies in turn; large reads are split over all copies.
    RoundRobin,
    /// Chunk by chunk, the first copy whose member has nothing in flight, else the one whose member was last sent to
    /// the nearest place; RAID 1 stays with a stream. md does so where members have heads, and RAID 10 did with any before Linux 5.4;
    /// predictions of md need it.
    Nearest,
    /// Chunk by chunk, the first copy of those whose members have the fewest reads in flight; RAID 1 stays with a stream. md does so
    /// where members have no heads; predictions of md need it.
    FewestPending,
}

/// The treatment of a member that refuses a write for lack of space (ENOSPC): a file on a full file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The member stays in use. The write is refused with that error, and what it may have changed in part is brought in sync once
    /// there is room.
    #[default]
    Wait,
    /// The member is failed as md does, if the array can do without it.
    Fail,
}

/// When members that are lost are rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// By command ([`Array::recover`](crate::Array::recover)).
    #[default]
    Manual,
    /// Recovery begins as soon as the array has a device for it: a spare, or one that an earlier run has rebuilt in
    /// part.
    Automatic,
}

/// How an array is opened.
#[derive(Clone)]
pub struct OpenConfig {
    /// Permission to write to the members.
    pub access: Access,
    /// Memory for parity and reconstruction, in bytes; raised to what the array's width needs.
    pub scratch_bytes: usize,
    /// The choice of the copy of a mirrored array that answers a read.
    pub read_policy: ReadPolicy,
    /// Time that members may take.
    pub patience: Patience,
    /// Time without writes after which the array is marked clean; md waits 200 ms.
    pub idle: Duration,
    /// Time between two rounds that clear bits of the write-intent bitmap; `None`: as the bitmap says, 5 s as a rule.
    pub daemon_sleep: Option<Duration>,
    /// Members are flushed before pages of the write-intent bitmap are written to them, as md does (`REQ_PREFLUSH`). Nothing that is
    /// promised needs it; predictions of md do.
    pub flush_before_bitmap: bool,
    /// The treatment of a member that refuses a write for lack of space.
    pub on_full: OnFull,
    /// When members that are lost are rebuilt.
    pub recovery: Recovery,
    /// Read errors of a member that redundancy makes up for and that are borne; the count becomes half each hour. One
    /// more error, and the member is failed if the array can do without it. This is md's `max_read_errors`, which is
    /// 20. md's RAID 4, 5 and 6 bear as many errors as there are stripes in their cache (256 as a rule), and never
    /// forget one.
    pub read_errors: u32,
    /// Speed limits of processes over the whole array, unless they are [changed](crate::Array::set_speeds) later.
    pub speeds: Speeds,
    /// Logs that put more on record before bytes change than the dirty mark and the bitmap.
    pub logs: Vec<MakeRowLog>,
    /// Observers of changes.
    pub observers: Vec<MakeObserver>,
    /// Seconds since 1970, for the superblocks: the engine reads no clock.
    pub wall_clock: Rc<dyn Fn() -> u64>,
}

impl OpenConfig {
    /// The usual [`OpenConfig::read_errors`].
    pub const READ_ERRORS: u32 = 20;

    /// The defaults, with a clock that shows seconds since 1970.
    pub fn new(access: Access, wall_clock: impl Fn() -> u64 + 'static) -> Self {
        Self {
            access,
            scratch_bytes: 64 << 20,
            read_policy: ReadPolicy::default(),
            patience: Patience::default(),
            idle: Duration::from_millis(200),
            daemon_sleep: None,
            flush_before_bitmap: false,
            on_full: OnFull::default(),
            recovery: Recovery::default(),
            read_errors: Self::READ_ERRORS,
            speeds: Speeds::default(),
            logs: Vec::new(),
            observers: Vec::new(),
            wall_clock: Rc::new(wall_clock),
        }
    }

    /// Changes are refused.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }
}
