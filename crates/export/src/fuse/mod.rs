//! Volumes as files: the kernel's FUSE protocol, by an open /dev/fuse. `docs/protocols/fuse.md` draws the messages.
//!
//! | part | does |
//! |---|---|
//! | [`proto`] | bytes to calls, and answers to bytes; no I/O |
//! | `folder` | the files of a mount: the volume, and one for each of its partitions |
//! | `connection` | a mount: one task receives calls, some carry them out, one sends answers |
//! | [`Server`] | the exports that can be mounted; memory, limits and patience are those of every protocol (`crate::session`) |
//!
//! A mount is one client. Its files are as large as what they show, and can't grow. All they are asked goes to the volume: no page of
//! them is kept by the kernel, so that other clients of the volume see what is written, and requests are as large as programs make them.

mod connection;
mod folder;
pub mod proto;
mod server;

pub use server::{MountError, Mounting, Server};
