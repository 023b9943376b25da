//! The engine: arrays over members that it knows by number only.
//!
//! Nothing here names a file, a socket, a thread, a clock of its own or a random source: the same code runs in the
//! uring, the memory and the sim world.

mod array;
pub mod assembly;
pub mod create;
mod data;
mod detail;
mod journal;
mod keeper;
mod members;
pub mod nest;
mod open;
mod reshape;
mod sync;
mod volume;

pub use array::{Array, Config, ReadPolicy};
pub use data::sync::{Mismatch, MismatchKind, SyncMode, SyncReport};
pub use detail::{Detail, DeviceDetail, DeviceState, RoleDetail};
pub use members::{Device, RoleState};
pub use open::{Access, OpenConfig, OpenError};
pub use sync::Progress;
pub use volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions};
