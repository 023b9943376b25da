//! md's arrays on the engine: assembly from devices, creation, changes of superblocks, and the record of a running array.
//!
//! The engine (`brindle-array`) knows no format. This crate gives it members in their states and a ledger, which are
//! superblocks, with a bitmap and logs of bad blocks beside them.

pub mod assembly;
mod bitmap;
pub mod create;
mod flags;
mod journal;
mod ledger;
mod open;
mod ppl;
mod refusal;
mod reshape_sides;
pub mod update;

pub use flags::{recorded, treatment};
pub use open::open;
pub use refusal::OpenError;
