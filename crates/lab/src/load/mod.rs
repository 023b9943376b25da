//! The requests that a job asks for, from a seed: the same job, range and seed give the same requests. Pure.

mod checksum;
mod content;
mod cover;
mod draw;
mod header;
mod permutation;
mod places;
mod random;
mod skew;

pub use content::{BlockContent, Mismatch};
pub use places::{Load, Range, RangeError, Request};
