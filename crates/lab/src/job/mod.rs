//! fio's job files and its options: text in, typed jobs out. Pure: who calls it brings files and environment along.
//!
//! fio's HOWTO explains each option. `docs/fio.md` lists the options that are understood, and those that are accepted
//! without effect.

mod defaults;
mod environment;
mod error;
mod expression;
mod given;
mod ignored;
mod names;
mod number;
mod options;
mod parse;
mod pattern;
mod split;
mod table;
mod text;
mod verify;

pub use defaults::DEFAULTS;
pub use environment::Surroundings;
pub use error::{JobError, JobErrorKind, SettingPlace};
pub use given::Given;
pub use ignored::{OTHER_WORK, TAKEN, Taken};
pub use options::{
    Blocks, DIRECTIONS, Direction, Distribution, Each, IoPattern, Job, JobExtent, Kinds, Logs, PERCENTILES,
    Shape, Unified, Zone,
};
pub use parse::{JobPlan, Note, parse, parse_words};
pub use pattern::Pattern;
pub use table::{HONOURED, Honoured};
pub use verify::Verify;
