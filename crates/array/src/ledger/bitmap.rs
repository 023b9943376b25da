//! Why an array is not given a write-intent bitmap, or its own not taken away.

use brindle_format::md::EncodeError;
use brindle_layout::Level;
use brindle_volume::VolumeError;

use crate::assembly::Limitation;

/// Why the bitmap of an array stays as it is. But for the last nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BitmapError {
    /// There is one.
    #[error(
        "the array has a write-intent bitmap already; to give it another, remove this one first, with --bitmap none"
    )]
    Present,
    /// There is none.
    #[error("the array has no write-intent bitmap; --bitmap internal gives it one")]
    Absent,
    /// There is nothing that a bitmap could tell.
    #[error("{level} has no redundancy, so a write-intent bitmap is of no use")]
    NoRedundancy {
        /// The level.
        level: Level,
    },
    /// The array uses what this release can't honour while writing.
    #[error("the array can't be written to: {}", limits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ReadOnly {
        /// The reasons.
        limits: Vec<Limitation>,
    },
    /// It does not fit.
    #[error(
        "{label} has no room for a write-intent bitmap{}: there are {room} bytes between its superblock and what else stands on it; {}",
        chunk.map_or(String::new(), |chunk| format!(" with {chunk} bytes to a bit")),
        if chunk.is_some() { "use a larger power of two for --bitmap-chunk" } else { "make the array anew with --bitmap internal, or replace that device" }
    )]
    Room {
        /// The device.
        label: String,
        /// Bytes to a bit, if they were given.
        chunk: Option<u64>,
        /// Bytes that there are.
        room: u64,
    },
    /// A member is being given what it missed, which the bitmap tells.
    #[error(
        "{label} is being given what it missed, which only the bitmap tells: remove the bitmap once that has come to its end, or fail that member first"
    )]
    Guides {
        /// The member.
        label: String,
    },
    /// What keeps the array's state has no place for it.
    #[error("the array's state is not kept in superblocks, which alone can name a bitmap")]
    Unrecorded,
    /// A superblock could not be made that says so.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// Why.
        why: EncodeError,
    },
    /// The array could not record it.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
