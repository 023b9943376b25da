//! The control side of the engine: assembly, creation, state on disk, resync, arrays in arrays.

mod assembly;
mod common;
mod cramped;
mod crash;
mod create;
mod cuts;
mod dropped;
mod events;
mod flushes;
mod forced;
mod full;
mod held;
mod hostile;
mod journal;
mod life;
mod mdadm;
mod nested;
mod pace;
mod patience;
mod presence;
mod process;
mod reshape;
mod resync;
mod torn;
mod unreadable;
mod zeroes;
