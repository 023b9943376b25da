//! Storms: small recorded arrays under load, with drives that fail as an array can bear it, and the power going at any
//! operation; after each start every byte is held against what it may be.
//!
//! A run has up to four boots. In the first, clients ask for at least 50 things while faults strike, until the power
//! goes just before step number `cut` (see [`brindle_io::sim::When::Step`]). The second starts from what survived, by the
//! product's own assembly and without force, is read whole, made whole again, and may end in a cut too, often within its
//! first commit. The third ends well: resync, check, read, stop. Some arrays are started once more after that. The member
//! with the newest superblock may be lost between two boots, if the array can do without, and a boot may be one in which
//! nobody writes. `(seed, cut)` is all that a run depends on.

mod arrays;
mod boot;
mod content;
mod course;
mod disks;
mod files;
mod judge;
mod marks;
mod plan;
mod run;
mod second_devices;
mod stage;
mod standstill;
mod subject;
mod tally;
mod work;

pub use course::{Course, Start, Storm};
pub use judge::Failure;
pub use plan::{Planned, StormPlan};
pub use run::{Calm, Cut, calm_steps, run, run_growing};
pub use standstill::{Standstill, Waiting};
pub use subject::{Driven, Scene, Subject, drive};
pub use tally::{Condition, Strike, StrikeTally};
pub use work::Work;
