//! The control side of the engine: assembly, creation, state on disk, resync, arrays in arrays.

mod assembly;
mod common;
mod crash;
mod create;
mod dropped;
mod hostile;
mod journal;
mod life;
mod mdadm;
mod nested;
mod reshape;
mod resync;
mod torn;
mod world;
