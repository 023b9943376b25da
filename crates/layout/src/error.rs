//! Errors in a level, a layout or a geometry.

use alloc::string::String;

use crate::{Layout, Level, MAX_CHUNK, MIN_CHUNK};

/// A level that [`Level`] does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLevel {
    /// Not a spelling of a level.
    #[error("'{0}' is not a RAID level; use linear, 0, 1, 4, 5, 6 or 10")]
    Name(String),
    /// Not a level number in md's metadata (multipath, faulty and containers have their own, and are not
    /// supported).
    #[error("{0} is not a supported md level number; -1 (linear), 0, 1, 4, 5, 6 and 10 are")]
    Number(i32),
}

/// A layout that does not exist for its level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLayout {
    /// Not a spelling of a layout of this level.
    #[error("'{name}' is not a layout of {level}; {}", hint(*level))]
    Name {
        /// The level whose layout was asked for.
        level: Level,
        /// The name as given.
        name: String,
    },
    /// Not a layout number of this level in md's metadata.
    #[error("{number:#x} is not the number of a layout of {level} in md's metadata")]
    Number {
        /// The level whose layout was asked for.
        level: Level,
        /// The number as found.
        number: u32,
    },
}

fn hint(level: Level) -> &'static str {
    match level {
        Level::Linear | Level::Raid1 => "this level has no layouts",
        Level::Raid0 => "use original or alternate",
        Level::Raid4 => "the parity of this level is always on the last member",
        Level::Raid5 => {
            "use left-symmetric, right-symmetric, left-asymmetric, right-asymmetric, parity-first or parity-last"
        }
        Level::Raid6 => "use left-symmetric or another of RAID 5's, a ddf-* layout, or one that ends in -6",
        Level::Raid10 => "use n2, f2 or o2, or another number of copies",
    }
}

/// Why no array can have the geometry that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Fewer members than the level needs.
    #[error("{level} needs at least {min} members, not {members}; name more")]
    TooFewMembers {
        /// The level.
        level: Level,
        /// Members given.
        members: usize,
        /// Members needed.
        min: u16,
    },
    /// More members than the level allows.
    #[error("{level} takes at most {max} members, not {members}; name fewer")]
    TooManyMembers {
        /// The level.
        level: Level,
        /// Members given.
        members: usize,
        /// Members allowed.
        max: u16,
    },
    /// The layout belongs to another level.
    #[error("{layout} is not a layout of {level}; {}", hint(*level))]
    LayoutOfOtherLevel {
        /// The level.
        level: Level,
        /// The layout that does not fit the level.
        layout: Layout,
    },
    /// RAID 0 over members of different sizes, without a word on which of its two historical layouts it has.
    #[error("the members differ in size, so the layout of this raid0 must be given: original or alternate")]
    Raid0LayoutUnknown,
    /// The chunk is not a multiple of 4 KiB, or is too small or too large.
    #[error("a chunk of {chunk} bytes is not possible; use a multiple of {MIN_CHUNK} up to {MAX_CHUNK}")]
    Chunk {
        /// Chunk given, in bytes.
        chunk: u64,
    },
    /// The chunk of this level must be a power of two.
    #[error(
        "the chunk of {level} must be a power of two, and {chunk} bytes are not; use for example 65536 or 524288"
    )]
    ChunkNotPowerOfTwo {
        /// The level.
        level: Level,
        /// Chunk given, in bytes.
        chunk: u64,
    },
    /// A member has no room for even one chunk (or, where there are no chunks, one sector) of each of its
    /// roles.
    #[error("member {member} offers {size} bytes, but at least {needed} are needed: use a larger one")]
    MemberTooSmall {
        /// Index of the smallest member.
        member: u16,
        /// Bytes that the member offers.
        size: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The array or a member would be larger than 2^63 - 1 bytes, the most a block device can have.
    #[error("the array would be larger than 2^63 - 1 bytes; use fewer or smaller members")]
    TooLarge,
    /// RAID 10 with fewer than two copies of each byte, or more copies than members.
    #[error(
        "{layout} keeps {copies} copies, but {members} members allow 2 to {members}; choose another layout, or name more members"
    )]
    Copies {
        /// The layout.
        layout: Layout,
        /// Copies of each byte in the layout.
        copies: u16,
        /// Members given.
        members: u16,
    },
    /// On this number of members, md would put two copies on one member, or two chunks in one place.
    #[error(
        "{layout} on {members} members puts two copies on one member or two chunks in one place; data in such an array can't be trusted"
    )]
    CopiesCollide {
        /// The layout.
        layout: Layout,
        /// Members given.
        members: u16,
    },
}
