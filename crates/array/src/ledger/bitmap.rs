//! Why an array is not given a write-intent bitmap, or its own not taken away.

use brindle_format::md::EncodeError;
use brindle_format::md::defaults::MOST_BEHIND;
use brindle_layout::Level;
use brindle_volume::VolumeError;

use crate::assembly::Limitation;

/// How a write-intent bitmap is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitmapSpec {
    /// Bytes to a bit, a power of two; `None`: as mdadm chooses.
    pub chunk: Option<u64>,
    /// Writes that may be under way to write-mostly members when whoever asked is told that they have ended: of RAID 1, at most
    /// [`MOST_BEHIND`]; 0: none.
    pub write_behind: u32,
}

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
    /// Only RAID 1 has members that may lag.
    #[error("write-behind is for raid1, and this is {level}: leave --write-behind out")]
    WriteBehind {
        /// The level.
        level: Level,
    },
    /// md has no more.
    #[error("--write-behind {count} is too many: at most {MOST_BEHIND} writes may be under way")]
    TooManyBehind {
        /// Writes that were asked for.
        count: u32,
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
