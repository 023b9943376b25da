//! Devices that come to an array while it runs.

use brindle_io::{MemberId, OpError};
use brindle_volume::VolumeError;
use uuid::Uuid;

/// A device that is to become one of an array.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// How messages name it.
    pub label: String,
    /// The reactor's number.
    pub id: MemberId,
    /// Bytes of it.
    pub bytes: u64,
    /// Its identity, random.
    pub uuid: Uuid,
    /// It may become a spare, if it is not taken again as the member that it was.
    pub or_spare: bool,
}

/// The part that an added device gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It waits to replace a member; all of it is written anew then.
    Spare {
        /// Of a device of this array: why it is not taken again as the member that it was.
        why: Option<NotTaken>,
    },
    /// The member that it was, which is given what was written while it was away.
    Member {
        /// Its role.
        role: u16,
    },
}

/// Why a device is not taken again as the member of an array that it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// It was none.
    #[error("it was no device of this array")]
    Stranger,
    /// It filled no role.
    #[error("it filled no role when it left")]
    NoRole,
    /// It was being written when the power went, or is not the only one.
    #[error("its superblock can't be relied on")]
    Unsure,
    /// It did not hold all that it should.
    #[error("it had not been rebuilt to its end when it left")]
    Unfinished,
    /// 0.90 has no word for a member that is brought up to date.
    #[error("metadata 0.90 can't say that a member is being brought up to date")]
    Metadata,
    /// Nothing tells what it missed.
    #[error("the array has no write-intent bitmap, which would tell what it has missed")]
    NoBitmap,
    /// The array has another shape than when it left.
    #[error("it was a member of an array of another shape: {field} {says}, which is {now} now")]
    Shape {
        /// The field that differs.
        field: &'static str,
        /// Its value on the device.
        says: String,
        /// and what the array says.
        now: String,
    },
    /// Another device has its role, or had it since.
    #[error("another device has filled role {role} since it left")]
    Filled {
        /// The role.
        role: u16,
    },
    /// The bitmap does not tell any more of all that it missed.
    #[error(
        "it has been away for too long: it is at event {events}, and bits of the bitmap were cleared at event {cleared}"
    )]
    Behind {
        /// Its event count.
        events: u64,
        /// The count at which bits were cleared last.
        cleared: u64,
    },
    /// It may have been written to without the others.
    #[error("it may have been used without the others: its superblock does not know them as they are")]
    Apart,
    /// Its device has no room where the bitmap stands.
    #[error("it has no room where the write-intent bitmap stands")]
    Room,
}

impl NotTaken {
    /// A word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::NoRole => "no-role",
            Self::Unsure => "unsure",
            Self::Unfinished => "unfinished",
            Self::Metadata => "metadata",
            Self::NoBitmap => "no-bitmap",
            Self::Shape { .. } => "shape",
            Self::Filled { .. } => "filled",
            Self::Behind { .. } => "behind",
            Self::Apart => "apart",
            Self::Room => "room",
        }
    }
}

/// Why a device does not become one of an array. But for the last three nothing has been written to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// It is one already.
    #[error("{label} is a device of the array already")]
    Known {
        /// The device.
        label: String,
    },
    /// It was to be taken again as the member that it was, and can't be.
    #[error("{label} can't be re-added: {why}")]
    NotTaken {
        /// The device.
        label: String,
        /// Why.
        why: NotTaken,
    },
    /// It belongs to another array.
    #[error(
        "{label} belongs to the array {array}{}: it would be lost to that one; use --force if it may be",
        named(name)
    )]
    Foreign {
        /// The device.
        label: String,
        /// The other array's identity, as its format writes it,
        array: String,
        /// and its name.
        name: String,
    },
    /// It has no room for what a member holds.
    #[error(
        "{label} is too small: it has {has} bytes, and the array uses {need} of each member beside what describes it; give a larger one"
    )]
    Small {
        /// The device.
        label: String,
        /// Its bytes.
        has: u64,
        /// Bytes that the array uses of each member.
        need: u64,
    },
    /// Its sectors are larger than those that the array promises.
    #[error(
        "{label} has sectors of {block} bytes, but the array takes requests of {least}: give one with smaller sectors, or stop the array and add it then"
    )]
    Blocks {
        /// The device.
        label: String,
        /// Bytes of its sectors.
        block: u32,
        /// Bytes of the smallest request.
        least: u32,
    },
    /// The superblocks have no room for one more.
    #[error(
        "the array's superblocks have room for {most} devices, and all of it is taken: remove one before {label} is added"
    )]
    Full {
        /// The device.
        label: String,
        /// Devices at most.
        most: usize,
    },
    /// The array has no redundancy, so that nothing could be rebuilt.
    #[error("{label} is of no use to an array without redundancy")]
    NoRedundancy {
        /// The device.
        label: String,
    },
    /// The array's state is kept by a record that can't add devices.
    #[error("{label} can't be added: the array's state is not kept in superblocks")]
    Unrecorded {
        /// The device.
        label: String,
    },
    /// A superblock could not be made for it.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// Why, in the words of the record's format.
        why: String,
    },
    /// It can't be read or written.
    #[error("{label}: {error}")]
    Device {
        /// The device.
        label: String,
        /// Why.
        error: OpError,
    },
    /// The array could not record it.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" '{}'", name.escape_debug()) }
}
