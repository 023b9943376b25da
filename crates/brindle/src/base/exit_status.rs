//! Exit statuses that tell of something other than success or failure.

/// Exit status of `brindle check` when redundancy does not agree, and of `brindle repair` when it was left so.
pub(crate) const MISMATCH: u8 = 3;
/// Exit status of `brindle check` and `brindle repair` when all readable places agree, but members have unreadable
/// ones.
pub(crate) const UNREADABLE: u8 = 4;
/// Exit status of `brindle check` and `brindle repair` when nothing is known to be wrong, but not all could be compared, or nothing,
/// since members are missing.
pub(crate) const INCOMPLETE: u8 = 5;
/// Exit status of `brindle sweep` when none of its points could be measured or simulated.
pub(crate) const NO_POINT: u8 = 6;
/// Exit status of `brindle calibrate` when it made a model of measurements that the model does not meet, or that are not the drive's.
pub(crate) const UNTRUSTED: u8 = 7;
/// Exit status of `brindle cat` when it wrote what can be had of an array that lacks more members than it can do without.
pub(crate) const PARTIAL: u8 = 8;
