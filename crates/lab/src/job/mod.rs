//! fio's job files and its options: text in, typed jobs out. Pure: who calls it brings files and environment along.
//!
//! fio's HOWTO explains each option. `docs/fio.md` lists the options that are understood, and those that are accepted
//! without effect.

mod defaults;
mod error;
mod expression;
mod given;
mod names;
mod number;
mod options;
mod parse;
mod pattern;
mod split;
mod surroundings;
mod table;
mod taken;
mod text;

pub use defaults::DEFAULTS;
pub use error::{JobError, JobErrorKind, SettingPlace};
pub use given::Given;
pub use options::{
    Blocks, DIRECTIONS, Direction, Distribution, Each, IoPattern, Job, JobExtent, Kinds, Logs, PERCENTILES,
    Shape, Unified, Verify, Zone,
};
pub use parse::{JobPlan, Note, parse, parse_words};
pub use surroundings::Surroundings;
pub use table::{HONOURED, Honoured};
pub use taken::{OTHER_WORK, TAKEN, Taken};
