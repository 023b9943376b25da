//! What tests, fuzzers and storms share, so that there is one of each: worlds with arrays in them, an oracle of what
//! each sector may hold, a guard of what members are sent, a guest that changes the memory it gives, a generator of load, faults that an array can bear, and what a
//! test does that can't run.
//!
//! No part of the product. Everything that looks like chance comes from a seed.

pub mod browser;
pub mod certificates;
pub mod client;
pub mod conformance;
pub mod container;
pub mod faults;
pub mod guard;
pub mod guest;
pub mod hang;
pub mod hosts;
pub mod load;
pub mod oracle;
pub mod pair;
pub mod ram;
pub mod random;
pub mod running;
pub mod shape;
pub mod skip;
pub mod stamp;
pub mod storm;
pub mod world;
