//! How an array runs: what whoever opens it may choose.

use crate::patience::Patience;

/// Which copy of a mirrored array answers a read.
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
}

/// What becomes of a member that has no room for a write where it lives: a file on a full file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// It stays in use. The write is refused with that error, and what it may have changed in part is made true once
    /// there is room.
    #[default]
    Wait,
    /// It is failed as md does, if the array can do without it.
    Fail,
}

/// How an array runs.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Memory for parity and reconstruction, in bytes; raised to what the array's width needs.
    pub scratch_bytes: usize,
    /// Which copy answers a read.
    pub read_policy: ReadPolicy,
    /// Changes are refused.
    pub read_only: bool,
    /// What becomes of a member that has no room.
    pub on_full: OnFull,
    /// How long members may take.
    pub patience: Patience,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scratch_bytes: 64 << 20,
            read_policy: ReadPolicy::default(),
            read_only: false,
            on_full: OnFull::default(),
            patience: Patience::default(),
        }
    }
}
