//! The engine: arrays over members that it knows by number only.
//!
//! Nothing here names a file, a socket, a thread, a clock of its own or a random source: the same code runs in the
//! uring, the memory and the sim world.

mod array;
pub mod assembly;
mod behind;
mod bitmap;
mod claims;
mod clear;
mod config;
mod core;
pub mod create;
mod data;
mod detail;
mod devices;
mod events;
mod exchange;
mod grow;
pub mod hooks;
mod intent;
mod journal;
mod keeper;
pub mod ledger;
mod no_space;
mod open;
mod placement;
mod process;
mod recovery;
mod refusal;
mod reshape;
mod second_devices;
mod sharing;
mod sweep;

pub use array::{Array, Outcome};
/// The type behind [`Array`]. The program that counts instructions finds it here at every commit that it is built
/// against.
pub use assembly::BitmapFile;
pub use brindle_members::events::{Cause, Operation};
pub use brindle_members::members::{Device, RoleState};
pub use brindle_members::patience::Patience;
pub use brindle_members::process::{Progress, Speeds};
pub use brindle_volume::Volume;
pub use config::{Access, OnFull, OpenConfig, ReadPolicy, Recovery};
pub use data::report::{BadPlace, Mismatch, MismatchKind, SyncMode, SyncReport};
pub use detail::{BitmapDetail, Detail, DeviceDetail, DeviceState, RoleDetail};
pub use devices::{Removal, RemoveError};
pub use events::{Event, EventKind};
pub use keeper::StateChange;
pub use ledger::{AddError, BitmapError, BitmapSpec, Failed, Joined, NotTaken};
pub use process::{Process, ProcessDetail, ProcessError, ProcessKind};
pub use refusal::OpenError;
pub use sharing::HandOverError;
pub use sweep::Redundancy;
