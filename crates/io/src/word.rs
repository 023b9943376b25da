//! The words of lanes, and how many of them there are. Apart from lanes, so that a test can put those of a model checker in their place.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Words of a parcel: a line of the cache.
pub(crate) const WORDS: usize = 8;
/// The most executors that ask each other: one bit of a word for each.
pub const MOST_OF_A_CREW: usize = 64;
/// Parcels of a lane. Whatever finds no place waits where it is sent.
pub(crate) const PLACES: usize = 256;
