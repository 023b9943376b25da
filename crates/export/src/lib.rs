//! Servers that put a [`brindle_array::Volume`] on the wire, one module each.
//!
//! They run as tasks of the volume's own executor: no thread, no lock, no file descriptor is known here.

pub mod nbd;
