//! The points of a sweep are run here: in virtual time on all cores, or on devices that somebody gives up, each array created again.

mod cores;
mod measured;
mod nested;
mod simulated;

use brindle_layout::UnknownLevel;

pub use cores::on_all;
pub use measured::{Bench, Came, FILE, Measuring, timed};
pub use nested::Nested;
pub use simulated::Simulating;

/// Errors in the words of a point.
#[derive(Debug, thiserror::Error)]
pub enum PointError {
    /// The level is unknown.
    #[error("--level {level}: {why}")]
    Level {
        /// The text that was given.
        level: String,
        /// The reason.
        why: UnknownLevel,
    },
    /// The number of members is not a number.
    #[error("--members {0}: write a number, as in 4")]
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
