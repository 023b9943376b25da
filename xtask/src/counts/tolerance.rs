//! How far a count may be from another before that counts as a change.

/// Per cent that a count may be above what it is held against.
pub(crate) const TOLERANCE: u64 = 3;

/// Whether `now` is above `held` by more than the tolerance.
pub(crate) fn above(held: u64, now: u64) -> bool {
    now * 100 > held * (100 + TOLERANCE)
}

/// Whether `now` is above `base` by so much that it had better be accepted: near the tolerance, chance would decide.
pub(crate) fn nearly_above(base: u64, now: u64) -> bool {
    now * 100 > base * (100 + TOLERANCE - 1)
}

/// Whether `now` is below `held` by more than the tolerance.
pub(crate) fn below(held: u64, now: u64) -> bool {
    now * 100 < held * (100 - TOLERANCE)
}
