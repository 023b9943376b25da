//! Runs jobs on volumes, in any world: the reactor's time is what is measured.

mod copy;
mod index;
mod outcome;
mod pace;
mod phases;
mod replay;
mod work;
mod written;

pub use index::index;
pub use outcome::{Live, Outcome, RunError, Trouble, WhyNot};
pub use pace::OwnTime;
pub use phases::{Terms, memory_for, run};
pub use replay::{Replayed, replay};
