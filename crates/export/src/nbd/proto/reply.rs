//! Replies of the transmission phase.

use super::reader::Reader;
use super::{CHUNK_MAGIC, SIMPLE_REPLY_MAGIC};

/// The errors that the protocol knows.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// `NBD_EPERM`: the export takes no writes.
    Perm = 1,
    /// `NBD_EIO`.
    Io = 5,
    /// `NBD_EINVAL`.
    Invalid = 22,
    /// `NBD_ENOSPC`.
    NoSpace = 28,
    /// `NBD_EOVERFLOW`.
    Overflow = 75,
    /// `NBD_ENOTSUP`: no faster than writing.
    NotSupported = 95,
    /// `NBD_ESHUTDOWN`.
    Shutdown = 108,
}

impl Errno {
    /// The message for a person at the other end.
    pub fn message(self) -> &'static str {
        match self {
            Self::Perm => "the export is read-only",
            Self::Io => "the array could not give or take the data",
            Self::Invalid => "invalid range, alignment, command or flags",
            Self::NoSpace => "beyond the end of the export, or no space left",
            Self::Overflow => "larger than the advertised maximum",
            Self::NotSupported => "not as fast as demanded",
            Self::Shutdown => "the server is stopping",
        }
    }
}

/// A simple reply's header. Data follow it if it answers a read without error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// 0 or an [`Errno`].
    pub error: u32,
    /// The request's.
    pub cookie: u64,
}

impl SimpleReply {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// The header as a server sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// Reads a header; `None` if it begins with another magic.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Reader(bytes);
        let magic = from.u32()?;
        let reply = Self { error: from.u32()?, cookie: from.u64()? };
        (magic == SIMPLE_REPLY_MAGIC).then_some(reply)
    }
}

/// The header of one chunk of a structured reply. `len` bytes of payload follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// [`super::CHUNK_DONE`] on a reply's last chunk.
    pub flags: u16,
    /// See [`super::chunk_type`].
    pub kind: u16,
    /// The request's.
    pub cookie: u64,
    /// Bytes of payload.
    pub len: u32,
}

impl ChunkHeader {
    /// Bytes on the wire.
    pub const BYTES: usize = 20;

    /// The header as a server sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Reads a header; `None` if it begins with another magic.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Reader(bytes);
        let magic = from.u32()?;
        let header = Self { flags: from.u16()?, kind: from.u16()?, cookie: from.u64()?, len: from.u32()? };
        (magic == CHUNK_MAGIC).then_some(header)
    }
}

/// The first six bytes of an error chunk's payload; the [`Errno::message`] follows.
pub fn error_payload(error: Errno) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&(error as u32).to_be_bytes());
    bytes[4..].copy_from_slice(&(error.message().len() as u16).to_be_bytes());
    bytes
}

/// A stretch of `base:allocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Bytes; not 0.
    pub len: u32,
    /// Nothing is stored here.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

impl StatusExtent {
    /// Bytes on the wire.
    pub const BYTES: usize = 8;

    /// The descriptor as a server sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let flags = u32::from(self.hole) | u32::from(self.zero) << 1;
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.len.to_be_bytes());
        bytes[4..].copy_from_slice(&flags.to_be_bytes());
        bytes
    }

    /// Reads a descriptor; flags that are not known are left aside.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let mut from = Reader(bytes);
        let (len, flags) = (from.u32().unwrap_or(0), from.u32().unwrap_or(0));
        Self { len, hole: flags & 1 != 0, zero: flags & 2 != 0 }
    }
}

/// Appends an extent to a list, or lengthens the last one if it is of the same kind; `false` if the list already has
/// `most` extents.
pub fn merge_extent(list: &mut Vec<StatusExtent>, next: StatusExtent, most: usize) -> bool {
    if let Some(last) = list.last_mut()
        && (last.hole, last.zero) == (next.hole, next.zero)
        && let Some(len) = last.len.checked_add(next.len)
    {
        last.len = len;
        return true;
    }
    if list.len() >= most {
        return false;
    }
    list.push(next);
    true
}
