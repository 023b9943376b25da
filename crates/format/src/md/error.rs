//! Errors in md metadata.

use thiserror::Error;

/// A text that names no metadata version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("unknown metadata version; use 0.90, 1.0, 1.1 or 1.2")]
pub struct UnknownVersion;

/// Why bytes are not a superblock that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuperblockError {
    /// Fewer bytes than the superblock needs.
    #[error("superblock is cut short: {have} bytes, {need} needed")]
    Short {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The magic number is not md's: no superblock of this version here.
    #[error("no md superblock here")]
    NoMagic,
    /// md's magic number with a version that is not the one asked for.
    #[error("superblock says version {major}.{minor}, which does not belong at this place")]
    WrongVersion {
        /// Major version on disk.
        major: u32,
        /// Minor version on disk (0.90 only, else 0).
        minor: u32,
    },
    /// The checksum does not match the content.
    #[error(
        "superblock checksum is {found:08x}, its content sums to {expected:08x}: the superblock is damaged"
    )]
    Checksum {
        /// Checksum on disk.
        found: u32,
        /// Checksum of the bytes on disk.
        expected: u32,
    },
    /// The superblock says that it stands elsewhere: a copy of another device, or a partition seen from its disk.
    #[error("superblock was written for byte {recorded}, but stands at byte {actual}")]
    Misplaced {
        /// Offset that the superblock claims, in bytes.
        recorded: u64,
        /// Offset at which it was found, in bytes.
        actual: u64,
    },
    /// A value that no array can have.
    #[error("superblock field {field} has the impossible value {value}")]
    Impossible {
        /// The field's name in the documentation of the format.
        field: &'static str,
        /// Raw value on disk, in the unit of the format.
        value: u64,
    },
    /// The superblock describes an area that ends beyond the device: the device or its image is truncated.
    #[error(
        "{area} ends at byte {end}, but the device has {device_bytes} bytes: it is truncated or too small"
    )]
    BeyondDevice {
        /// The area that ends beyond the device.
        area: &'static str,
        /// First byte after the area.
        end: u64,
        /// Size of the device.
        device_bytes: u64,
    },
    /// The superblock of a partition, seen from the disk at whose end the partition ends: 0.90 does not say where it stands.
    #[error(
        "the superblock at its end is that of partition {number}, which the {table} on it has there: name that partition, or \
         remove the table if it is out of date"
    )]
    OfPartition {
        /// The partition.
        number: u32,
        /// The table that has it.
        table: crate::kind::Signature,
    },
    /// Two areas of the device share bytes.
    #[error("{area} overlaps the superblock")]
    Overlap {
        /// The area that overlaps.
        area: &'static str,
    },
}

impl SuperblockError {
    /// There is a superblock at its place, and it does not hold what was written there: rot, or a write that was cut. What
    /// can't be, but has the right checksum, was written so.
    pub fn is_damage(&self) -> bool {
        // A table longer than there can be has no checksum to compare.
        matches!(self, Self::Checksum { .. } | Self::Impossible { field: "max_dev", .. })
    }
}

/// Why a superblock cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The output buffer is smaller than the structure.
    #[error("buffer of {have} bytes is too small, {need} needed")]
    Buffer {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// A value that this metadata version cannot hold (too large, or no multiple of its unit).
    #[error("metadata {version} cannot record {field} {value}")]
    Unrepresentable {
        /// Metadata version.
        version: super::Version,
        /// The field's name.
        field: &'static str,
        /// The value, as in the neutral struct.
        value: i128,
    },
    /// More devices than the version can describe.
    #[error("metadata {version} can describe {max} devices, not {devices}")]
    TooManyDevices {
        /// Metadata version.
        version: super::Version,
        /// Devices in the role table.
        devices: usize,
        /// Devices that fit.
        max: usize,
    },
    /// The array's name is longer than 32 bytes, or the version keeps no names.
    #[error("array name of {len} bytes does not fit: metadata {version} keeps {max}")]
    Name {
        /// Metadata version.
        version: super::Version,
        /// Bytes of the name.
        len: usize,
        /// Bytes that fit.
        max: usize,
    },
    /// The metadata version has no field for the value.
    #[error("metadata {version} has no place for {what}")]
    Unsupported {
        /// Metadata version.
        version: super::Version,
        /// The thing that was asked for.
        what: &'static str,
    },
}
