//! Servers that put a [`brindle_volume::Volume`] on the wire, one module each.
//!
//! They run as tasks of the volume's own executor: no thread, no lock, no file descriptor is known here. What has nothing
//! to do with a protocol (who is let in, memory, patience) is in `session`, once for all of them.

pub mod access;
pub mod fuse;
mod gate;
pub mod iscsi;
pub mod nbd;
mod pieces;
mod rates;
pub mod scsi;
pub mod session;
pub mod tls;

pub use gate::Gate;
pub use rates::Rates;
pub use session::{Config, ConnectionStats, Counters, MemoryShare, Security};
