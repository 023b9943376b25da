//! The engine: arrays over members that it knows by number only.
//!
//! Nothing here names a file, a socket, a thread, a clock of its own or a random source: the same code runs in the
//! uring, the memory and the sim world.

mod array;
pub mod bitmap;
mod channel;
mod channels;
mod claims;
mod config;
mod core;
mod data;
mod detail;
mod devices;
mod events;
mod exchange;
mod grow;
mod home;
mod intent;
mod keeper;
pub mod ledger;
mod lineage;
mod no_space;
pub mod observer;
mod open;
mod placement;
mod process;
mod recovery;
mod reshape;
pub mod row_log;
mod second_devices;
mod sharing;
mod sweep;
pub mod sync_len;
mod whole;
mod write_behind;

pub use array::{Array, Border, Opening, Outcome};
pub use bitmap::BitmapFile;
/// The type behind [`Array`]. The program that counts instructions finds it here at every commit that it is built
/// against.
pub use brindle_members::events::{Cause, Operation};
pub use brindle_members::members::{Device, Flags, RoleState};
pub use brindle_members::patience::Patience;
pub use brindle_members::process::{Progress, Speeds};
pub use brindle_volume::Volume;
pub use channel::{ChannelTable, Channeled};
pub use channels::shared::Given;
pub use config::{Access, OnFull, OpenConfig, ReadPolicy, Recovery};
pub use data::report::{BadPlace, Mismatch, MismatchKind, SyncMode, SyncReport};
pub use detail::{BitmapDetail, Detail, DeviceDetail, DeviceState, RoleDetail};
pub use devices::{Removal, RemoveError};
pub use events::{Event, EventKind};
pub use grow::{GrowPlan, GrowSpec};
pub use keeper::StateChange;
pub use ledger::{
    AddError, BitmapError, BitmapSpec, DeviceUse, Failed, GrowError, Joined, LeftOut, NotTaken,
};
pub use process::{Process, ProcessDetail, ProcessError, ProcessKind};
pub use sweep::Redundancy;
pub use whole::scratch_at_home;
