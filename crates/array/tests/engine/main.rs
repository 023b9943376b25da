//! The engine's data path on members in RAM.

mod costs;
mod faults;
mod holes;
mod joined;
mod mends;
mod model;
mod parity;
mod promised;
mod row_logs;
mod scrub;
mod second_devices;
mod shared;
mod striped_mirrored;
mod tight;
mod unsynced;
mod world;
