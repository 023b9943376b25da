//! The points of a sweep are run here: in virtual time on all cores, or on devices that somebody gives up, each array made anew.

mod cores;
mod measured;
mod nested;
mod simulated;

use brindle_layout::UnknownLevel;

pub use cores::on_all;
pub use measured::{Bench, Came, FILE, Measuring, timed};
pub use nested::Nested;
pub use simulated::Simulating;

/// Words of a point that mean nothing.
#[derive(Debug, thiserror::Error)]
pub enum PointError {
    /// No such level.
    #[error("--level {level}: {why}")]
    Level {
        /// As it was said.
        level: String,
        /// The reason.
        why: UnknownLevel,
    },
    /// No such count.
    #[error("--members {0}: no count")]
    Members(String),
    /// A name that can't be joined with others.
    #[error("--level {inner}+0: '{name}' has a '+' in its name, which joins members: link to it by another")]
    Joined {
        /// The level of the arrays that are members.
        inner: String,
        /// The name.
        name: String,
    },
}
