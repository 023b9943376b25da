//! The engine: arrays over members that it knows by number only.
//!
//! Nothing here names a file, a socket, a thread, a clock of its own or a random source: the same code runs in the
//! uring, the memory and the sim world.

mod array;
pub mod assembly;
mod bad_blocks;
mod behind;
mod bitmap;
mod change;
mod clear;
mod config;
mod copies;
mod core;
pub mod create;
mod data;
mod detail;
mod devices;
mod door;
mod errors;
mod events;
mod flushes;
mod grow;
pub mod hooks;
mod intent;
mod journal;
mod keeper;
pub mod ledger;
mod members;
pub mod nest;
mod open;
mod owner;
mod patience;
mod peers;
mod placement;
mod presence;
mod process;
mod recovery;
mod refusal;
mod reshape;
mod room;
mod scratch;
mod seats;
mod set;
mod sharing;
mod sweep;
mod turn;
mod watch;
mod yielding;

pub use array::{Array, Outcome};
/// What an [`Array`] is. The program that counts instructions finds it here at every commit that it is built against.
pub use assembly::BitmapFile;
pub use brindle_volume::Volume;
pub use config::{Access, OnFull, OpenConfig, ReadPolicy, Recovery};
pub use data::report::{BadPlace, Mismatch, MismatchKind, SyncMode, SyncReport};
pub use detail::{BitmapDetail, Detail, DeviceDetail, DeviceState, RoleDetail};
pub use devices::{Removal, RemoveError};
pub use events::{Cause, Event, EventKind, Operation};
pub use keeper::StateChange;
pub use ledger::{AddError, BitmapError, BitmapSpec, Failed, Joined, NotTaken};
pub use members::{Device, RoleState};
pub use patience::Patience;
pub use process::{Process, ProcessDetail, ProcessError, ProcessKind, Progress, Speeds};
pub use refusal::OpenError;
pub use sharing::HandOverError;
pub use sweep::Redundancy;
