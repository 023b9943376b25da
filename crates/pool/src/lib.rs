//! Pools: volumes in a log over members, with a checksum for every block.
//!
//! A pool has vdevs, each of members with up to three parity blocks for each stripe. What is written goes into batches of whole
//! stripes, in segments of the members' units; a map says where each block of each volume is and what it sums to. Nothing is written
//! in place, so that parity is true at any moment. The format stands in `docs/formats/pool.md`.
//!
//! The engine asks members through crate `members` alone, and sees time and chance only as they are handed to it.

mod check;
mod checkpoint;
mod clean;
mod core;
mod create;
mod damage;
mod events;
mod leaf;
mod log;
mod look;
mod map;
mod open;
mod owed;
mod pool;
mod queue;
mod read;
mod record;
mod refusals;
mod replay;
mod returned;
mod reuse;
mod room;
mod space;
mod stripe;
mod table;
mod volume;

pub use crate::check::Checked;
pub use crate::core::{PoolConfig, Written};
pub use create::{PoolCreateError, PoolSpec, VdevSpec, capacity, check_name, clear, create, plan};
pub use damage::{Damage, DamagedRange};
pub use events::PoolEvent;
pub use look::{Chosen, DamagedLabel, Looked, PoolOpenError, Returning, choose, look, name_of};
pub use open::{How, Lacking, Prepared, member_name, open, open_chosen, prepare};
pub use pool::{Busy, Pool, PoolChangeError, PoolMember, PoolStatus};
pub use replay::Recovered;
pub use volume::PoolVolume;
