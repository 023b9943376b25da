//! The engine's data path on members in RAM.

mod model;
mod striped_mirrored;
mod world;
