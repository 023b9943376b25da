//! Why an array can't be created.

use brindle_format::md::defaults::MAX_WRITE_BEHIND;
use brindle_format::md::{EncodeError, Version, defaults};
use brindle_layout::{GeometryError, Level};

use crate::assembly::Roles;

use super::{CONSISTENCY, CreateSpec, NewMember};

/// A device without room for its part of the array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{label} has {have} bytes, of which {available} could hold data; {needed} are needed: use a larger device, or a smaller --size, --chunk or --data-offset"
)]
pub struct TooSmall {
    /// The device.
    pub label: String,
    /// Its size in bytes.
    pub have: u64,
    /// Bytes beside the metadata.
    pub available: u64,
    /// Bytes of data that the device would have to hold.
    pub needed: u64,
}

impl TooSmall {
    pub(super) fn of(spec: &CreateSpec, member: &NewMember, data_offset: u64, needed: u64) -> Self {
        let have = member.info.size;
        let available = defaults::available(spec.version, have, data_offset, CONSISTENCY).unwrap_or(0);
        Self { label: member.label.clone(), have, available, needed: needed.max(1) }
    }

    /// The error for a device without room for its superblock.
    pub(super) fn superblock(spec: &CreateSpec, size: u64) -> Self {
        let member = spec.roles.iter().flatten().chain(&spec.spares).find(|member| member.info.size == size);
        let label = member.map_or_else(String::new, |member| member.label.clone());
        Self { label, have: size, available: 0, needed: 1 }
    }
}

/// Why an array can't be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// No device for any role.
    #[error("at least one member must be a device; not all can be missing")]
    NoMembers,
    /// More devices than the metadata can describe.
    #[error("metadata {version} can describe {max} devices, not {count}; use 1.2 or fewer devices")]
    TooManyDevices {
        /// The version.
        version: Version,
        /// Members and spares.
        count: usize,
        /// Devices that fit.
        max: usize,
    },
    /// A spare could never replace anything.
    #[error("{level} has no redundancy, so spares are of no use; make them members or leave them out")]
    SparesWithoutRedundancy {
        /// The level.
        level: Level,
    },
    /// More members are missing than the level tolerates.
    #[error("{level} can't be created with {} missing; give more devices", Roles(roles))]
    TooManyMissing {
        /// The level.
        level: Level,
        /// The missing roles.
        roles: Vec<u16>,
    },
    /// With a member missing, the other parity can't be brought in sync without a resync that md refuses.
    #[error(
        "{level} with a missing member that leaves redundancy would be dirty and degraded, which md refuses to start; give all members, leave out one more, or use --assume-clean after zeroing them"
    )]
    MissingNeedsAssumeClean {
        /// The level.
        level: Level,
    },
    /// The name does not fit.
    #[error("the name '{name}' has {len} bytes; at most 32 without zero bytes are possible")]
    Name {
        /// The name.
        name: String,
        /// Its bytes.
        len: usize,
    },
    /// 0.90 keeps no names.
    #[error("metadata 0.90 keeps no name; leave --name out or use 1.2")]
    NameIn090,
    /// 0.90 keeps no data offset.
    #[error("metadata 0.90 always has its data at 0, not {offset}; leave --data-offset out or use 1.2")]
    DataOffsetIn090 {
        /// The offset asked for.
        offset: u64,
    },
    /// The data would not start on a block.
    #[error("a data offset of {offset} is not a multiple of {unit}; give one that is")]
    DataOffsetUnaligned {
        /// The offset asked for.
        offset: u64,
        /// The unit of which the value must be a multiple.
        unit: u64,
    },
    /// 0.90 counts the size of a member in 32 bits of KiB.
    #[error(
        "metadata 0.90 can use at most 4 TiB of a member, not {size} bytes; use 1.2, or say with --size how much to use"
    )]
    SizeIn090 {
        /// The size asked for, or that of the smallest member if none was.
        size: u64,
    },
    /// 0.90 has no place for the layout of a RAID 0 over members of different sizes.
    #[error("metadata 0.90 can't tell the layout of a raid0 over members of different sizes; use 1.2")]
    ZonesIn090,
    /// These levels use all of each member.
    #[error("{level} uses all of each member; leave --size out")]
    SizeWithoutRedundancy {
        /// The level.
        level: Level,
    },
    /// Less than one chunk of each member.
    #[error("a size of {size} bytes is less than one chunk of {unit}; use more")]
    SizeBelowChunk {
        /// The size asked for.
        size: u64,
        /// The least.
        unit: u64,
    },
    /// Only RAID 1 has members of which one can be spared reads.
    #[error("{label} can't be write-mostly in an array of {level}: only raid1 supports that; leave it out")]
    WriteMostly {
        /// The device.
        label: String,
        /// The level.
        level: Level,
    },
    /// Only RAID 1 has members that may lag.
    #[error("write-behind is for raid1, and this is {level}: leave --write-behind out")]
    WriteBehind {
        /// The level.
        level: Level,
    },
    /// Write-behind needs a bitmap: it alone names the writes that a member lacks.
    #[error(
        "write-behind needs a write-intent bitmap, and the array would have none: give --bitmap internal, or leave --write-behind out"
    )]
    WriteBehindUnmarked,
    /// md has no more.
    #[error("--write-behind {count} is too many: at most {MAX_WRITE_BEHIND} writes may be under way")]
    TooManyWriteBehind {
        /// Writes that were asked for.
        count: u32,
    },
    /// RAID 1 has no chunks.
    #[error("raid1 has no chunks; leave --chunk out")]
    ChunkWithoutStripes,
    /// The level has no redundancy, so a bitmap is of no use.
    #[error("{level} has no redundancy, so a write-intent bitmap is of no use; leave --bitmap out")]
    BitmapWithoutRedundancy {
        /// The level.
        level: Level,
    },
    /// There is no space for that many bits.
    #[error(
        "there is no room for a write-intent bitmap{}; use a {} for --bitmap-chunk, or --bitmap none",
        chunk.map_or_else(String::new, |chunk| format!(" with chunks of {chunk} bytes")),
        if chunk.is_some_and(|chunk| u32::try_from(chunk).is_err()) { "power of two up to 2G" } else { "larger power of two" }
    )]
    BitmapChunk {
        /// Bytes to a bit, as asked for.
        chunk: Option<u64>,
    },
    /// A device has too little room.
    #[error(transparent)]
    Small(#[from] TooSmall),
    /// No array can have this shape.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The metadata can't record the array.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
