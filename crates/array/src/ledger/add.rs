//! Devices that come to an array while it runs.

use brindle_io::{MemberId, OpError};
use brindle_volume::VolumeError;
use uuid::Uuid;

/// A device that is to become one of an array.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// The name in messages.
    pub label: String,
    /// The reactor's number.
    pub id: MemberId,
    /// Bytes of the device.
    pub bytes: u64,
    /// The device's identity, random.
    pub uuid: Uuid,
    /// The device may become a spare if it can't be re-added.
    pub or_spare: bool,
}

/// The part that an added device gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The device becomes a spare; all of it is rewritten when it replaces a member.
    Spare {
        /// The reason why a former member of this array is not re-added.
        why: Option<NotTaken>,
    },
    /// The device becomes the member that it was, and gets the writes that it missed.
    Member {
        /// The device's role.
        role: u16,
    },
}

/// Why a device is not re-added as the member of an array that it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The device was never a member.
    #[error("it was not a device of this array")]
    Stranger,
    /// The device filled no role.
    #[error("it filled no role when it left")]
    NoRole,
    /// The superblock may be torn, or another device claims the same place.
    #[error("its superblock can't be relied on")]
    Unsure,
    /// The device had not been rebuilt to its end.
    #[error("its rebuild had not finished when it left")]
    Unfinished,
    /// 0.90 has no word for a member that is brought up to date.
    #[error("metadata 0.90 can't record that a member is being recovered")]
    Metadata,
    /// There is no bitmap, which would show the writes that the device missed.
    #[error("the array has no write-intent bitmap, which would tell what it has missed")]
    NoBitmap,
    /// The array has another shape than when it left.
    #[error("it was a member of an array of another shape: {field} {says}, which is {now} now")]
    Shape {
        /// The field that differs.
        field: &'static str,
        /// The device's value on the device.
        says: String,
        /// and what the array says.
        now: String,
    },
    /// Data of the array are being moved.
    #[error("data of the array are being moved, and have moved since it left: it can come back as a spare")]
    Moving,
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
        /// The device's event count.
        events: u64,
        /// The count at which bits were cleared last.
        cleared: u64,
    },
    /// The device may have been written to without the others.
    #[error("it may have been used without the others: its superblock disagrees with theirs")]
    Apart,
    /// The device's device has no room where the bitmap stands.
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
            Self::Moving => "moving",
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
    /// The device is one already.
    #[error("{label} is a device of the array already")]
    Known {
        /// The device.
        label: String,
    },
    /// The device can't be re-added as the request wants.
    #[error("{label} can't be re-added: {why}")]
    NotTaken {
        /// The device.
        label: String,
        /// The reason.
        why: NotTaken,
    },
    /// The device belongs to another array.
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
    /// The device has no room for what a member holds.
    #[error(
        "{label} is too small: it has {has} bytes, and the array uses {need} of each member beside what describes it; give a larger one"
    )]
    Small {
        /// The device.
        label: String,
        /// The device's bytes.
        has: u64,
        /// Bytes that the array uses of each member.
        need: u64,
    },
    /// The device's sectors are larger than those that the array promises.
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
    #[error("the array has no redundancy, so {label} would be of no use as a spare: leave it out")]
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
    /// A superblock for the device could not be made.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// Why, in the words of the record's format.
        why: String,
    },
    /// The device can't be read or written.
    #[error("{label}: {error}")]
    Device {
        /// The device.
        label: String,
        /// The reason.
        error: OpError,
    },
    /// The array could not record the device.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" '{}'", name.escape_debug()) }
}
