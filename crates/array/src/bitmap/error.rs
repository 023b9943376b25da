//! Reasons why a write-intent bitmap can't be added or removed.

use brindle_io::OpError;
use brindle_layout::Level;
use brindle_volume::VolumeError;

use super::BitmapFile;
use crate::ledger::limit::Limit;

/// The largest limit of write-behind.
pub const MAX_WRITE_BEHIND: u32 = 16383;

/// How a write-intent bitmap is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitmapSpec {
    /// The file in which it is to stand, from its first byte on; `None`: beside each superblock.
    pub file: Option<BitmapFile>,
    /// Bytes to a bit, a power of two; `None`: as mdadm chooses.
    pub chunk: Option<u64>,
    /// Limit of write-behind, of RAID 1, at most [`MAX_WRITE_BEHIND`]; 0: none; `None`: the limit of the bitmap that this
    /// one replaces.
    pub write_behind: Option<u32>,
}

/// The reason why an array's bitmap stays as it is. Except for the last variant nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BitmapError {
    /// It has its bitmap there already, with chunks of that size.
    #[error(
        "the array has a write-intent bitmap already{}; --bitmap-chunk gives it another chunk, --bitmap none takes it away",
        file.as_ref().map_or_else(|| " beside each superblock".to_owned(), |file| format!(", in {file}"))
    )]
    Present {
        /// The file that has it, if one does.
        file: Option<String>,
    },
    /// A file has one bitmap.
    #[error(
        "{label} has the array's write-intent bitmap, and can't have another beside it: name another file, or take this one away first, with --bitmap none"
    )]
    SameFile {
        /// The file.
        label: String,
    },
    /// The chunk size is impossible.
    #[error(
        "{label} can't have a write-intent bitmap{}: a chunk is a power of two from 512 bytes to 2 GiB, and a bitmap has at most 4 MiB; give another --bitmap-chunk",
        chunk.map_or(String::new(), |chunk| format!(" with {chunk} bytes to a bit"))
    )]
    FileChunk {
        /// The file.
        label: String,
        /// Bytes to a bit, if they were given.
        chunk: Option<u64>,
    },
    /// The file can't hold a bitmap.
    #[error("{label} can't have a write-intent bitmap: {error}; name another file")]
    File {
        /// The file.
        label: String,
        /// The reason.
        error: OpError,
    },
    /// The array has no bitmap.
    #[error("the array has no write-intent bitmap; --bitmap internal or a file gives it one")]
    Absent,
    /// The level has no redundancy, so a bitmap is of no use.
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
    #[error("--write-behind {count} is too many: at most {MAX_WRITE_BEHIND} writes may be under way")]
    TooManyWriteBehind {
        /// The limit that was asked for.
        count: u32,
    },
    /// The array uses what this release can't honour while writing.
    #[error("the array can't be written to: {}", limits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ReadOnly {
        /// The reasons.
        limits: Vec<Limit>,
    },
    /// The bitmap does not fit.
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
        /// Bytes of free room.
        room: u64,
    },
    /// A member is being recovered by the bitmap.
    #[error(
        "{label} is being recovered by the bitmap: remove the bitmap once the recovery has ended, or fail that member first"
    )]
    Guides {
        /// The member.
        label: String,
    },
    /// The array's state is kept by a record that has no place for a bitmap.
    #[error("the array's state is not kept in superblocks, which alone can name a bitmap")]
    Unrecorded,
    /// A superblock with the change could not be made.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// Why, in the words of the record's format.
        why: String,
    },
    /// The array could not record the change.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
