//! The engine's data path on members in RAM, and on modelled drives.

mod concurrent_writes;
mod costs;
mod faults;
mod guarantees;
mod holes;
mod in_memory;
mod little_memory;
mod model;
mod parity;
mod read_errors;
mod row_logs;
mod scrub;
mod second_devices;
mod shared;
mod sim;
mod streams;
mod striped_mirrored;
mod unsynced;
mod world;
