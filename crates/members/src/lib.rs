//! Members of an owner: operations on them, timeouts, looks at their devices, and failures.
//!
//! Members stand in roles, and are devices that the reactor knows by number. Their owner ([`set::Owner`]: an array, a
//! pool, or any other) decides about them and keeps that on record. Nothing here knows a level, the format of a
//! record, or md.

mod append_list;
pub mod bad_blocks;
pub mod buckets;
pub mod change;
pub mod copies;
mod device;
pub mod direct;
pub mod door;
pub mod errors;
pub mod events;
mod flush;
pub mod flushes;
pub mod lock;
pub mod members;
pub mod patience;
pub mod peers;
pub mod presence;
pub mod process;
mod role_devices;
pub mod scratch;
pub mod set;
mod settle;
pub mod spans;
pub mod turn;
pub mod watch;
pub mod windows;
mod word;
pub mod yielding;
