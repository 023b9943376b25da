//! A range of bytes, its limits, its errors, and what both sides of it can rely on: what an export serves and an array is.
//!
//! The contract stands at [`Volume`]. Memory and members' errors are those of `brindle-io`; who serves a volume, and what
//! it is made of, is unknown here.

mod error;
mod limits;
mod slices;
mod volume;

pub use error::VolumeError;
pub use limits::Limits;
pub use slices::{bytes, stretches};
pub use volume::{Allocation, Volume, ZeroOptions, first_difference, read_again};
