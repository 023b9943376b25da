//! The seam in all its worlds, by subject. What counts for a whole process is in `handed.rs`.

mod asking;
mod budget;
mod conformance;
mod counters;
mod device;
mod executor;
mod given_up;
mod holes;
mod hung_file;
mod lingering;
mod lost_time;
mod probe;
mod sim;
mod turns;
mod watch;
