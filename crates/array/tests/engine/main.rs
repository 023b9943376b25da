//! The engine's data path on members in RAM.

mod striped_mirrored;
mod world;
