//! A range of bytes, its limits and errors, and the promises of both sides: what an export serves and an array is.
//!
//! The contract stands at [`Volume`]. Memory and members' errors are those of `brindle-io`; who serves a volume, and which
//! array or pool it is, is unknown here. A volume can be a member ([`nest`]), and a member a volume ([`LoneMember`]).

mod distant;
mod error;
pub mod forwarded;
mod limits;
mod lone_member;
pub mod nest;
mod slices;
mod volume;

pub use distant::{Distant, Ticket};
pub use error::VolumeError;
pub use forwarded::{Forward, Forwarded};
pub use limits::Limits;
pub use lone_member::LoneMember;
pub use slices::{bytes, stretches};
pub use volume::{Allocation, Volume, Wanted, ZeroOptions, first_difference, read_again};
