//! Actions that commands lead to.

use super::cdb::Command;
use super::copy;
use super::identity::Identity;
use super::reservation::{Kind, Out, Parameters};
use super::sense::{Sense, Status};

/// The action for a command. Offsets and lengths are bytes of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The command has ended so.
    End(Status),
    /// The command is answered with bytes.
    Answer(Vec<u8>),
    /// Parameters are to come, so many bytes, and then [`Unit::parameters`](super::Unit::parameters) says more.
    Parameters {
        /// Their bytes.
        len: usize,
        /// The command.
        command: Command,
    },
    /// Bytes are read and sent.
    Read {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Bytes come and are written; with `verify`, they are then read and compared.
    Write {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The data are stable when the command is answered.
        fua: bool,
        /// The data are read back.
        verify: bool,
    },
    /// Bytes are read, and compared with `sent` bytes that come: none, as many, or a block.
    Verify {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Bytes that come.
        sent: u64,
    },
    /// Bytes come, are ORed with those of the volume, and the result is written.
    OrWrite {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The data are stable when the command is answered.
        fua: bool,
    },
    /// Twice as many bytes come: if the first half equals the volume's content, the second half is written.
    CompareAndWrite {
        /// The first byte.
        offset: u64,
        /// Number of bytes that are compared.
        len: u64,
        /// The data are stable when the command is answered.
        fua: bool,
    },
    /// A block comes, or none, which stands for zeroes, and is written to all of a range.
    WriteSame {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Bytes that come.
        sent: u64,
        /// Zeroes need not be stored.
        unmap: bool,
        /// The data are stable when the command is answered.
        fua: bool,
    },
    /// Ranges (offset and bytes) are of no use any more.
    Discard(Vec<(u64, u64)>),
    /// Earlier writes are made stable.
    Flush,
    /// Reports which blocks are stored, in this many bytes at most.
    Allocation {
        /// The first byte.
        offset: u64,
        /// Bytes of the answer.
        most: usize,
    },
    /// Registrations change: [`Unit::change`](super::Unit::change).
    Reserve {
        /// The service action.
        action: Out,
        /// The type.
        kind: Result<Kind, Sense>,
        /// Keys.
        parameters: Parameters,
    },
    /// Bytes are copied among units.
    Copy(copy::CopyJob),
}

impl Action {
    /// Bytes that the initiator is to send.
    pub fn data_out(&self) -> u64 {
        match self {
            Self::Parameters { len, .. } => *len as u64,
            Self::Write { len, .. } | Self::OrWrite { len, .. } => *len,
            Self::Verify { sent, .. } | Self::WriteSame { sent, .. } => *sent,
            Self::CompareAndWrite { len, .. } => 2 * len,
            _ => 0,
        }
    }
}

/// The other units of a server, as far as a command may see them.
pub trait Units {
    /// The first for which `is_it`: its index, and the bytes of its logical blocks.
    fn find(&self, is_it: &dyn Fn(&Identity) -> bool) -> Option<(usize, u32)>;
    /// Logical unit numbers of the target.
    fn luns(&self) -> Vec<u64>;
    /// Relative identifiers of its ports.
    fn ports(&self) -> Vec<u16>;
    /// Whether the initiator may read only.
    fn only_reads(&self) -> bool {
        false
    }
}
