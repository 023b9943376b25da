//! Tools that tests, fuzzers and storms share, so that there is one of each. Worlds with arrays in them; an oracle of
//! the values that each sector may hold; a guard of the writes that members are sent. A guest that changes the memory
//! it gives; a generator of load; faults that an array can bear; and the rules for a test that can't run.
//!
//! No part of the product. Everything that looks like chance comes from a seed.

pub mod browser;
pub mod certificates;
pub mod client;
pub mod conformance;
pub mod container;
pub mod crew;
pub mod door;
pub mod faults;
pub mod guard;
pub mod guest;
pub mod hang;
pub mod hosts;
pub mod load;
pub mod mount_client;
pub mod oracle;
pub mod pair;
pub mod pools;
pub mod ram;
pub mod random;
pub mod redo;
pub mod running;
pub mod shape;
pub mod skip;
pub mod stamp;
pub mod storm;
pub mod volumes;
pub mod widening;
pub mod world;
