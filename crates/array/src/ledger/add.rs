//! Devices that come to an array while it runs.

use brindle_format::md::{EncodeError, Uuid, display_uuid};
use brindle_io::{MemberId, OpError};
use brindle_volume::VolumeError;

/// A device that is to become one of an array.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// How messages name it.
    pub label: String,
    /// The reactor's number.
    pub id: MemberId,
    /// Bytes of it.
    pub bytes: u64,
    /// Its identity, random; not recorded in 0.90.
    pub uuid: Uuid,
    /// Bytes at which md superblocks stand on it: they are overwritten, so that nobody finds two.
    pub old_superblocks: Vec<u64>,
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
    /// It belongs to another array.
    #[error(
        "{label} belongs to the array {}{}: it would be lost to that one; use --force if it may be",
        display_uuid(*array), named(name)
    )]
    Foreign {
        /// The device.
        label: String,
        /// The other array's identity,
        array: Uuid,
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
    /// What keeps the array's state can't take in devices.
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
        /// Why.
        why: EncodeError,
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
