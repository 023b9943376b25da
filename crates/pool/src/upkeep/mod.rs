//! Work that a pool does of its own accord: checkpoints, records of the table of segments, cleaning, resilvering; and the check of all that
//! counts.

pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod checkpoints;
pub(crate) mod clean;
pub(crate) mod cleaner;
pub(crate) mod copying;
mod end;
mod raise;
mod reap;
pub(crate) mod resilver;
pub(crate) mod resilvering;
pub(crate) mod reuse;
pub(crate) mod scrubs;
mod tree;
