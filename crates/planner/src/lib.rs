//! Plans arrays for a need: capacity, speed, and how likely data is lost. Pure: no file, no clock, no chance that is
//! not from a seed.
//!
//! [`configurations`] lists what a number of drives can be made into, [`figures()`] says what each comes to, [`conflicts`] which
//! needs exclude each other, [`recommend`] which one to take. The formulas and their sources stand in `docs/planner.md`.

pub mod advice;
mod candidates;
mod choose;
mod configuration;
mod disk;
mod figures;
mod fraction;
mod lethal_sets;
mod link;
mod load;
mod parse;
mod queued;
mod raidz;
pub mod reliability;
mod requirements;
mod risk;
mod speed;
mod table;
#[cfg(test)]
mod testing;

pub use candidates::configurations;
pub use choose::{Goal, compare, recommend};
pub use configuration::{Configuration, MadeAs, Part, Scheme};
pub use disk::{Disk, DiskError, Set};
pub use figures::{Figures, Terms, figures};
pub use fraction::{Fraction, FractionError};
pub use lethal_sets::{Losses, losses};
pub use load::Load;
pub use parse::{ParseError, Said, counts, number, second_set, size};
pub use queued::{DEPTHS, Queued};
pub use raidz::{Allocation, AllocationError};
pub use requirements::{Conflict, Need, conflicts};
pub use risk::{Risk, cases};
pub use speed::{Speed, speed};
pub use table::{all_columns, is_of_the_table, published};
