//! Work on an array beside its clients.

use brindle_array::SyncMode;

/// One thing that may be done with an array while clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The array is checked, repaired, or searched for wrong members.
    Scrub(SyncMode),
    /// A member that works is replaced.
    Replace,
    /// Members leave and come back.
    Leave,
    /// Flags of members are changed.
    Flags,
}
