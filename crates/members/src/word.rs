//! The words of buckets, and how many there are. Apart from them, so that a test can put those of a model checker in their place.

pub(crate) use core::sync::atomic::{AtomicU32, Ordering};

/// Buckets of an array.
pub(crate) const BUCKETS: usize = 4096;
