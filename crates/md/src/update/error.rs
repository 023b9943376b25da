//! Why the superblocks of an array can't be changed.

use brindle_format::md::{EncodeError, Version};

use crate::assembly::{AssemblyError, Roles};

/// Why the superblocks of an array can't be changed. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The devices form no array.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// Members that the array had when it was used last.
    #[error(
        "{} of the array was there when it was used last, and would keep its superblock as it is: name it too, or leave it behind with --force",
        Roles(roles)
    )]
    Missing {
        /// Their roles.
        roles: Vec<u16>,
    },
    /// The power went while a superblock was written.
    #[error(
        "{label}: the power went while its superblock was written: serve the array once, which mends that"
    )]
    Torn {
        /// The device.
        label: String,
    },
    /// A device on which the change is not possible.
    #[error("{label}: {why}")]
    Unfit {
        /// The device.
        label: String,
        /// The reason, and the way out.
        why: &'static str,
    },
    /// 0.90 keeps no names.
    #[error("metadata 0.90 keeps no name and no host: --update=metadata changes it to 1.0, which does")]
    NoName,
    /// A name that does not fit.
    #[error("the name '{}' has {len} bytes; 1 to 32 are possible, 31 with a host, and no zero bytes", name.escape_debug())]
    Name {
        /// The name.
        name: String,
        /// Its bytes.
        len: usize,
    },
    /// Levels without redundancy.
    #[error("the level has no redundancy that could be brought in sync")]
    NothingToSync,
    /// Levels whose content depends on the sizes of members.
    #[error(
        "the level uses all of each member: with another size its data would be looked for in other places"
    )]
    SizesCount,
    /// Superblocks at the end of the device.
    #[error(
        "metadata {version} stands at the end of the device: one that has grown has no superblock that is found; only 1.1 and 1.2 can be told of a new size"
    )]
    AtTheEnd {
        /// The version.
        version: Version,
    },
    /// 0.90 keeps no bad blocks.
    #[error(
        "metadata 0.90 has no log of bad blocks: --update=metadata changes it to 1.0, which can have one"
    )]
    NoBadBlocks,
    /// Nothing to be converted.
    #[error("the array has metadata {version} already: only 0.90 is changed, to 1.0")]
    Converted {
        /// The version.
        version: Version,
    },
    /// A superblock can't be written as it would be.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
