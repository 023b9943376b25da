//! Why bytes are not what they should be.

use thiserror::Error;

/// Why bytes are no structure of a pool that can be believed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Fewer bytes than the structure has.
    #[error("the pool's {what} is cut short: {have} bytes, {need} needed")]
    Short {
        /// The structure.
        what: &'static str,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The magic number is wrong.
    #[error("there is no {what} of a pool")]
    Magic {
        /// The structure.
        what: &'static str,
    },
    /// The checksum does not match the content: torn or damaged.
    #[error("the checksum of the pool's {what} is {found:08x}, its content sums to {expected:08x}")]
    Checksum {
        /// The structure.
        what: &'static str,
        /// Checksum on disk.
        found: u32,
        /// Checksum of the bytes on disk.
        expected: u32,
    },
    /// A later version.
    #[error("the pool's {what} has version {version}, and this release knows version 2: use a later release")]
    Version {
        /// The structure.
        what: &'static str,
        /// Version on disk.
        version: u32,
    },
    /// An earlier version, of which there was no release.
    #[error(
        "the pool's {what} has version {version}, which builds of 0.1.0 knew before version 2 took its place: serve it with such a build (`brindle serve DEVICES`), and copy each volume into a new pool (`nbdcopy nbd://HOST/POOL/VOLUME nbd://HOST/NEW/VOLUME`)"
    )]
    Older {
        /// The structure.
        what: &'static str,
        /// Version on disk.
        version: u32,
    },
    /// A value that this release gives no meaning.
    #[error(
        "the pool's {what} has the value {value} in {field}, which this release does not know: use a later release"
    )]
    Unknown {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Raw value.
        value: u64,
    },
    /// Structures that should say the same do not.
    #[error("the {what} name different pools or members")]
    Contradicts {
        /// The structures.
        what: &'static str,
    },
    /// The structure belongs to another pool, or to another place.
    #[error("the pool's {what} belongs elsewhere: another pool, another place or another time")]
    Foreign {
        /// The structure.
        what: &'static str,
    },
    /// A value that can't be.
    #[error("the pool's {what} has the impossible value {value} in {field}")]
    Impossible {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Raw value.
        value: u64,
    },
    /// More of something than the structure holds.
    #[error("{count} {what} are too many: {most} fit")]
    TooMany {
        /// The things that are too many.
        what: &'static str,
        /// The count.
        count: u64,
        /// The most that fit.
        most: u64,
    },
}

impl PoolError {
    /// A value that this release gives no meaning.
    pub fn unknown(what: &'static str, field: &'static str, value: impl Into<u64>) -> Self {
        Self::Unknown { what, field, value: value.into() }
    }

    /// The structure is whole, and of a version that this release does not read.
    pub fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::Older { .. } | Self::Unknown { .. })
    }
}

/// A value that can't be.
pub(super) fn impossible(what: &'static str, field: &'static str, value: impl Into<u64>) -> PoolError {
    PoolError::Impossible { what, field, value: value.into() }
}
