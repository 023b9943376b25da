//! Why an assembled array is not opened.

use brindle_format::md::EncodeError;
use brindle_io::OpError;

use crate::assembly::{BitmapFault, Limitation, PplFault};

/// Why an assembled array can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The array uses what this release can't honour while writing.
    #[error("the array can't be written to: {}; open it read-only", reasons(limits))]
    ReadOnly {
        /// The reasons.
        limits: Vec<Limitation>,
    },
    /// The devices given are not those that were assembled.
    #[error("{given} devices were opened, but {expected} assembled")]
    Count {
        /// Devices given.
        given: usize,
        /// Devices of the assembly.
        expected: usize,
    },
    /// A device's superblock can't be read any more.
    #[error("{label}: the superblock can't be read: {error}")]
    Read {
        /// The device.
        label: String,
        /// The reason.
        error: OpError,
    },
    /// The bad blocks of a member are not known.
    #[error("{label}: the log of its bad blocks can't be read: {error}; serve the array without this member")]
    BadBlocks {
        /// The device.
        label: String,
        /// The reason.
        error: OpError,
    },
    /// A device has changed since it was looked at.
    #[error(
        "{label} has changed since its superblock was read; make sure that nobody else uses it, and try again"
    )]
    Changed {
        /// The device.
        label: String,
    },
    /// The device has larger sectors than the one on which the member was made.
    #[error(
        "{label}: its data begin at byte {offset}, which is within a sector of {block} bytes: the member was made on smaller sectors; copy it to such a device, or to a file"
    )]
    Misaligned {
        /// The device.
        label: String,
        /// Where its data begin.
        offset: u64,
        /// Its logical block.
        block: u32,
    },
    /// The journal holds writes that have not reached the members, or can't be read or understood.
    #[error(
        "{label}: the journal holds writes that have not reached the members (feature journal), which this release can't replay; let mdadm assemble the array once, or use --force to read it without them"
    )]
    Journal {
        /// The journal device.
        label: String,
    },
    /// A partial parity log that tells what a missing member holds is damaged.
    #[error(
        "{label}: its partial parity log (feature ppl) tells what the missing member holds, and is damaged: {why}; find that member, or use --force to read without what is damaged"
    )]
    Ppl {
        /// The member.
        label: String,
        /// The damage.
        why: PplFault,
    },
    /// The file that was given with the members can't be the array's write-intent bitmap.
    #[error(
        "{label} can't be the array's write-intent bitmap, since {why}; give the right file, or none: without one all of an array that was not stopped cleanly is resynced"
    )]
    Bitmap {
        /// The file.
        label: String,
        /// The reason.
        why: BitmapFault,
    },
    /// A superblock could not be written back.
    #[error("{label}: {why}")]
    Encode {
        /// The device.
        label: String,
        /// The reason.
        why: EncodeError,
    },
}

fn reasons(limits: &[Limitation]) -> String {
    let forbidding = limits.iter().filter(|limit| limit.forbids_writes());
    forbidding.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
