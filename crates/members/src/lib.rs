//! Members of an owner: asked, waited for, looked at, and given up.
//!
//! Members stand in roles, and are devices that the reactor knows by number. Who owns them ([`set::Owner`]) decides what
//! becomes of them and keeps that on record: an array, a pool, or whoever else keeps bytes on more than one device. Nothing here
//! knows a level, the format of a record, or md.

pub mod bad_blocks;
pub mod change;
pub mod copies;
mod device;
pub mod door;
pub mod errors;
pub mod events;
mod flush;
pub mod flushes;
mod grown;
pub mod lock;
pub mod members;
pub mod patience;
pub mod peers;
pub mod presence;
pub mod process;
pub mod scratch;
pub mod set;
mod settle;
pub mod spans;
pub mod straight;
pub mod turn;
pub mod watch;
pub mod yielding;
