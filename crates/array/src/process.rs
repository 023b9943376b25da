//! Background processes over a whole array. An array has one at a time, as md has one `sync_action`.

use std::fmt;

use brindle_members::process;

/// A process of an array.
pub type Process = process::Process<ProcessKind>;
/// The present state of a process of an array. Its position is counted as [`Array::sync_len`](crate::Array::sync_len)
/// is; for a recovery, in bytes of the member's data area.
pub type ProcessDetail = process::ProcessDetail<ProcessKind>;
/// Why a process of an array did not come to its end.
pub type ProcessError = process::ProcessError<ProcessKind>;

/// The kind of a process, in md's words for `sync_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// Brings redundancy in sync from where it is in doubt on.
    Resync,
    /// Compares redundancy everywhere.
    Check,
    /// Compares redundancy everywhere, and brings it in sync.
    Repair,
    /// Rebuilds a member's content from the others.
    Recovery,
    /// Copies a member onto the device that is to replace it. To md that is a recovery, too.
    Replacement,
    /// Moves data into rows of more members. Its position is a byte of the array.
    Reshape,
}

impl fmt::Display for ProcessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resync => "resync",
            Self::Check => "check",
            Self::Repair => "repair",
            Self::Recovery | Self::Replacement => "recover",
            Self::Reshape => "reshape",
        })
    }
}
