//! The engine's data path on members in RAM.

mod faults;
mod mends;
mod model;
mod parity;
mod scrub;
mod striped_mirrored;
mod tight;
mod unsynced;
mod world;
