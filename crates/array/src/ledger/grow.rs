//! Another shape of an array that runs, as its record is to say it, and the reasons why it keeps the one that it has.

use brindle_io::MemberId;
use brindle_layout::{Geometry, GeometryError, Layout, Level};
use brindle_volume::VolumeError;

use super::limit::Limit;

/// The room that a member has for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The name in messages.
    pub label: String,
    /// Bytes.
    pub bytes: u64,
}

/// A shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// Bytes of a chunk; 0 where the level has none.
    pub chunk: u64,
    /// Bytes used of each member.
    pub component: u64,
    /// By role, the present role of the member that is to fill it, if one is.
    pub roles: Vec<Option<u16>>,
}

/// The beginning of a reshape into rows of more members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The devices of the new roles, in their order: spares so far. None of them where only a plan is asked for.
    pub devices: Vec<MemberId>,
    /// Bytes by which data begin earlier afterwards, on each member.
    pub shift: u64,
}

impl Form {
    /// Where bytes live by it.
    ///
    /// # Errors
    /// There is no such array.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        Geometry::new(self.level, self.layout, self.chunk, &vec![self.component; self.roles.len()])
    }
}

/// The reason why an array keeps its shape. Except for the last variant nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// Members of the level are used as they are, or data would move.
    #[error(
        "{level} can't be given another size here, since its data would move or its members differ: mdadm --grow may do it; else make another array, and copy"
    )]
    Level {
        /// The level.
        level: Level,
    },
    /// The size is what it is already.
    #[error(
        "each member gives {component} bytes already, and {label} has no room for more: replace it by a larger device first"
    )]
    Largest {
        /// Bytes used of each member.
        component: u64,
        /// The member with the least room.
        label: String,
    },
    /// The size that is asked for is the present one.
    #[error("each member gives {component} bytes already: there is nothing to change")]
    Same {
        /// Bytes used of each member.
        component: u64,
    },
    /// The size that is asked for is more than a member has.
    #[error("{label} has room for {room} bytes of data, not for {wanted}: give a smaller --size, or max")]
    Small {
        /// The member with the least room.
        label: String,
        /// Bytes that it has.
        room: u64,
        /// Bytes that were asked for.
        wanted: u64,
    },
    /// The size is smaller than the present one.
    #[error(
        "a size of {wanted} bytes cuts {lost} bytes off the end of the array: make what stands on it smaller first, then give --force"
    )]
    Shrinks {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes of the array that would go.
        lost: u64,
    },
    /// The size does not make an array.
    #[error("a size of {wanted} bytes is less than one unit of {unit} bytes: give a larger --size")]
    Tiny {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes.
        unit: u64,
    },
    /// The record can't say such a size.
    #[error("{label}: the array's metadata can't say that size: {why}; a smaller --size may do")]
    Encode {
        /// The device.
        label: String,
        /// The reason, in the words of the record's format.
        why: String,
    },
    /// A role has no member that holds all.
    #[error(
        "role {role} has no member that holds all of its data: add a device, and wait for its recovery first"
    )]
    Missing {
        /// The role.
        role: u16,
    },
    /// Only mirrors have as many members as one likes.
    #[error(
        "{level} can't be given another number of members here, since its data would move: mdadm --grow --raid-devices may do it"
    )]
    Members {
        /// The level.
        level: Level,
    },
    /// Fewer members have less room.
    #[error("an array of {level} is not made of fewer members: make another array, and copy")]
    Fewer {
        /// The level.
        level: Level,
    },
    /// There is no room for rows that are moved.
    #[error(
        "{label} has {room} bytes in front of its data, and {need} are needed to move data without a backup: `mdadm --grow --raid-devices --backup-file` does it"
    )]
    NoRoomBefore {
        /// The device with the least room.
        label: String,
        /// Bytes that it has.
        room: u64,
        /// Bytes that are needed.
        need: u64,
    },
    /// The number of members is the present one.
    #[error("the array has {count} members already: there is nothing to change")]
    SameMembers {
        /// Roles.
        count: u16,
    },
    /// A mirror has two members at least.
    #[error("{count} members are too few for a mirror: give 2 or more to --raid-devices")]
    TooFew {
        /// Roles.
        count: u16,
    },
    /// New members have no device.
    #[error(
        "the array has {has} spares for {wanted} new members: add devices first, or name them with --add"
    )]
    Spares {
        /// New members.
        wanted: usize,
        /// Spares.
        has: usize,
    },
    /// The level is the present one.
    #[error("the array is of {level} already: there is nothing to change")]
    SameLevel {
        /// The level.
        level: Level,
    },
    /// No chunk divides the size of members.
    #[error("{component} bytes of each member are no multiple of 4096: give it a --size that is one first")]
    NoChunk {
        /// Bytes used of each member.
        component: u64,
    },
    /// Data would move.
    #[error(
        "an array of {from} as this one is does not become {to} here, since its data would move: mdadm --grow --level may do it"
    )]
    Moves {
        /// The present level.
        from: Level,
        /// The level that is asked for.
        to: Level,
    },
    /// 0.90 numbers members by their roles.
    #[error(
        "metadata 0.90 can't say that here: change it to 1.0 with `brindle update --update=metadata` first"
    )]
    Metadata,
    /// A member is being replaced.
    #[error("the member of role {role} is being replaced: wait for the end of that first")]
    Replacing {
        /// The role.
        role: u16,
    },
    /// Redundancy is in doubt.
    #[error("the array is not in sync everywhere: wait for the end of its resync first")]
    InDoubt,
    /// A process is under way.
    #[error("a {process} of the array is under way: wait for its end, or stop it")]
    Busy {
        /// The process.
        process: String,
    },
    /// Another change of this kind is under way.
    #[error("the array is being given another shape already: wait for the end of that")]
    Growing,
    /// The bitmap stands in a file, which is no longer than it has to be.
    #[error(
        "{file} has the array's write-intent bitmap: take it away first with --bitmap none, and make a new one afterwards"
    )]
    BitmapFile {
        /// The file.
        file: String,
    },
    /// The bitmap has no room, however large its chunks.
    #[error(
        "{label} has no room for the write-intent bitmap of the larger array: take the bitmap away first with --bitmap none"
    )]
    BitmapRoom {
        /// The device.
        label: String,
    },
    /// Parity is logged.
    #[error(
        "the array keeps a log of its parity, which knows one shape only: mdadm --grow can take that away first"
    )]
    Logged,
    /// The array is read-only.
    #[error("the array can't be written to: {}", limits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ReadOnly {
        /// The reasons.
        limits: Vec<Limit>,
    },
    /// The record has one shape only.
    #[error(
        "the metadata of the array is of a kind whose shape is not changed here: let the tool change it that made the array"
    )]
    Unrecorded,
    /// There is no such array.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The array could not record the change.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
