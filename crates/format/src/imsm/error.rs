//! Why bytes are not what they should be.

use thiserror::Error;

/// Why bytes are no metadata of a container that can be believed, or why they can't be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImsmError {
    /// Fewer bytes than the metadata have.
    #[error("Intel's RAID metadata are cut short: {have} bytes, {need} needed")]
    Short {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// There is no signature.
    #[error("there are no metadata of Intel's RAID")]
    NoSignature,
    /// The size is none that such metadata have.
    #[error("Intel's RAID metadata are damaged: they claim to have {size} bytes")]
    Size {
        /// The bytes that they claim.
        size: u32,
    },
    /// The checksum does not match the content: torn or damaged.
    #[error(
        "the checksum of Intel's RAID metadata is {found:08x}, their content sums to {expected:08x}: they are torn or damaged"
    )]
    Checksum {
        /// Checksum on disk.
        found: u32,
        /// Checksum of the bytes on disk.
        expected: u32,
    },
    /// A part runs out of the metadata.
    #[error("Intel's RAID metadata are damaged: their {what} reaches beyond their end")]
    Cut {
        /// The part.
        what: &'static str,
    },
    /// A number is too large for its field, or for any disk.
    #[error("Intel's RAID metadata are damaged: {field} is larger than any disk")]
    TooLarge {
        /// The field.
        field: &'static str,
    },
    /// A number that has no meaning.
    #[error(
        "Intel's RAID metadata have the value {value} in {field}, which this release does not know: use a later one"
    )]
    Unknown {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A number of bytes is not one of whole sectors.
    #[error("{field} of {bytes} bytes is not a multiple of the disk's sectors")]
    Unaligned {
        /// The field.
        field: &'static str,
        /// Bytes.
        bytes: u64,
    },
}
