//! Requests of the transmission phase.

use super::REQUEST_MAGIC;
use super::reader::Reader;

/// A request's header, as sent: nothing is checked but the magic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// See [`super::command_flags`].
    pub flags: u16,
    /// See [`super::command_code`].
    pub command: u16,
    /// The client's name for the request; replies carry it.
    pub cookie: u64,
    /// First byte on the export.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Request {
    /// Bytes of a header on the wire.
    pub const BYTES: usize = 28;

    /// Reads a header; `None` if it does not begin with [`REQUEST_MAGIC`]: the stream is out of step for good.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: from.u16()?,
            command: from.u16()?,
            cookie: from.u64()?,
            offset: from.u64()?,
            len: from.u32()?,
        })
    }

    /// The header as a client sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}
