//! Pools: volumes in a log over members, with a checksum for every block.
//!
//! A pool has vdevs, each of members with up to three parity blocks for each stripe. What is written goes into batches of whole
//! stripes, in segments of the members' units; a map says where each block of each volume is and what it sums to. Nothing is written
//! in place, so that parity is true at any moment. The format stands in `docs/formats/pool.md`.
//!
//! The engine asks members through crate `members` alone, and sees time and chance only as they are handed to it.

mod core;
mod damage;
mod events;
mod history;
mod log;
mod opening;
mod pool;
mod read;
mod record;
mod role;
mod run;
mod spares;
mod store;
mod upkeep;
mod volume;

pub use crate::core::{PoolConfig, Written};
pub use damage::{Damage, DamagedRange};
pub use events::PoolEvent;
pub use opening::create::{
    PoolCreateError, PoolSpec, VdevSpec, capacity, check_name, clear, create, create_of, plan,
};
pub use opening::labels::{FoundConfig, MemberHead, head_of, label_of, pools_named, youngest_of};
pub use opening::look::{Chosen, Looked, PoolOpenError, Returning, WrongLabel, choose, look};
pub use opening::open::{How, Lacking, Prepared, open, open_chosen, prepare};
pub use opening::replay::Recovered;
pub use opening::returned::{MemberError, Replacement};
pub use opening::whose::{Belonging, Holder};
pub use pool::{Busy, MapUse, Pool, PoolChangeError, PoolMember, PoolStatus, ResilverProgress};
pub use role::Role;
pub use spares::SpareDevice;
pub use upkeep::scrubs::{Checked, Scrub, ScrubError, ScrubKind, Scrubbed};
pub use volume::PoolVolume;
