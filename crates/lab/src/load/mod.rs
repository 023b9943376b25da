//! The requests that a job asks for, from a seed: the same job, range and seed give the same requests. Pure.

mod chance;
mod content;
mod cover;
mod draw;
mod permutation;
mod places;
mod skew;

pub use content::{Content, Mismatch};
pub use places::{Load, Range, RangeError, Request};
