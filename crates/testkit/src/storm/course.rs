//! All that a storm of an array depends on, and its outcome.

use super::judge::Failure;
use super::plan::{Planned, StormPlan};
use super::tally::StrikeTally;

/// How a boot after the first begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The member with the newest superblock has been lost, if the array can do without.
    pub newest_lost: bool,
    /// No writes are made in the boot.
    pub reads_only: bool,
}

/// All that a storm depends on.
#[derive(Clone, Debug)]
pub struct Course {
    /// The array and its load.
    pub plan: StormPlan,
    /// Indexed by boot, the faults that strike. The array must be able to bear them.
    pub faults: Vec<Vec<Planned>>,
    /// Indexed by boot, the step before which the power goes; a boot without ends well, or as soon as its work is done.
    pub cuts: Vec<Option<u64>>,
    /// Drives that died stay dead over a power cut.
    pub stays_dead: bool,
    /// Indexed by boot, how it begins; that of the first does not count.
    pub starts: Vec<Start>,
    /// An array that was stopped is started once more.
    pub again: bool,
    /// Steps of the first boot if nothing goes wrong: how soon an array has to be whole once faults end depends on it.
    pub calm: Option<u64>,
}

/// The outcome of a storm.
#[derive(Debug)]
pub struct Storm {
    /// The promise that was broken, if one was.
    pub failure: Option<Failure>,
    /// The boot in which it was.
    pub boot: u64,
    /// Power cuts that happened.
    pub cuts: u64,
    /// Starts that had to be forced: dirty and degraded, as md wants it.
    pub forced: u64,
    /// Spares that have taken the place of a member.
    pub recovered: u64,
    /// Members that were away and were re-added.
    pub returned: u64,
    /// Counts of faults by the condition of the array.
    pub tally: StrikeTally,
    /// Steps of the first boot.
    pub steps: u64,
    /// Steps of it before which superblocks were being written, if the storm is a calm one.
    pub changing: Vec<u64>,
    /// A digest of all that happened.
    pub trace: u64,
}
