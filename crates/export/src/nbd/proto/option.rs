//! Messages of the handshake.

use super::reader::Reader;
use super::{MAGIC, MAX_STRING, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake_flags as flag, info_code};

/// The server's greeting: both magics and its handshake flags.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(flag::FIXED_NEWSTYLE | flag::NO_ZEROES).to_be_bytes());
    bytes
}

/// The client's answer to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// The client wants no zeroes after `NBD_OPT_EXPORT_NAME`'s answer.
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// Reads the flags; `None` if there is one that the server has not offered: it must hang up then.
    pub fn decode(bytes: [u8; 4]) -> Option<Self> {
        let flags = u32::from_be_bytes(bytes);
        let (fixed, no_zeroes) = (u32::from(flag::FIXED_NEWSTYLE), u32::from(flag::NO_ZEROES));
        (flags & !(fixed | no_zeroes) == 0).then_some(Self { no_zeroes: flags & no_zeroes != 0 })
    }
}

/// The start of an option; `len` bytes of data follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// See [`super::option_code`].
    pub option: u32,
    /// Bytes of data.
    pub len: u32,
}

impl OptionHeader {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// Reads a header; `None` if it does not begin with [`OPTION_MAGIC`].
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Reader(bytes);
        let magic = from.u64()?;
        let header = Self { option: from.u32()?, len: from.u32()? };
        (magic == OPTION_MAGIC).then_some(header)
    }

    /// The header as a client sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// The answer to an option.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionReply {
    /// Done.
    Ack = 1,
    /// An export, to `LIST`.
    Server = 2,
    /// A piece of information, to `INFO` and `GO`.
    Info = 3,
    /// A metadata context.
    MetaContext = 4,
    /// The option is not known here.
    ErrUnsup = 1 << 31 | 1,
    /// The option is known, its data are wrong.
    ErrInvalid = 1 << 31 | 3,
    /// TLS has to be started first.
    ErrTlsRequired = 1 << 31 | 5,
    /// There is no such export.
    ErrUnknown = 1 << 31 | 6,
    /// The data are longer than is looked at.
    ErrTooBig = 1 << 31 | 9,
}

/// The start of a reply to an option; `len` bytes follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: u32,
    /// An [`OptionReply`].
    pub reply: u32,
    /// Bytes of data.
    pub len: u32,
}

impl OptionReplyHeader {
    /// Bytes on the wire.
    pub const BYTES: usize = 20;

    /// Reads a header; `None` if it does not begin with [`OPTION_REPLY_MAGIC`].
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut from = Reader(bytes);
        let magic = from.u64()?;
        let header = Self { option: from.u32()?, reply: from.u32()?, len: from.u32()? };
        (magic == OPTION_REPLY_MAGIC).then_some(header)
    }
}

/// Appends a reply to `option` with its data.
pub fn option_reply(into: &mut Vec<u8>, option: u32, reply: OptionReply, data: &[u8]) {
    into.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    into.extend(option.to_be_bytes());
    into.extend((reply as u32).to_be_bytes());
    into.extend((data.len() as u32).to_be_bytes());
    into.extend(data);
}

/// Data of [`OptionReply::Server`]: an export's name and what it is.
pub fn server_entry(name: &str, description: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(description.as_bytes());
    data
}

/// Data of [`OptionReply::Info`]: size and transmission flags.
pub fn info_export(size: u64, flags: u16) -> [u8; 12] {
    let mut data = [0; 12];
    data[..2].copy_from_slice(&info_code::EXPORT.to_be_bytes());
    data[2..10].copy_from_slice(&size.to_be_bytes());
    data[10..].copy_from_slice(&flags.to_be_bytes());
    data
}

/// Data of [`OptionReply::Info`]: name or description.
pub fn info_text(code: u16, text: &str) -> Vec<u8> {
    let mut data = code.to_be_bytes().to_vec();
    data.extend(text.as_bytes());
    data
}

/// Data of [`OptionReply::Info`]: smallest, preferred and largest request, in bytes.
pub fn info_block_size(min: u32, preferred: u32, max: u32) -> [u8; 14] {
    let mut data = [0; 14];
    data[..2].copy_from_slice(&info_code::BLOCK_SIZE.to_be_bytes());
    data[2..6].copy_from_slice(&min.to_be_bytes());
    data[6..10].copy_from_slice(&preferred.to_be_bytes());
    data[10..].copy_from_slice(&max.to_be_bytes());
    data
}

/// Data of [`OptionReply::MetaContext`].
pub fn meta_context(id: u32, name: &str) -> Vec<u8> {
    let mut data = id.to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data
}

/// The answer to `NBD_OPT_EXPORT_NAME`: no header, and after it the transmission phase.
pub fn export_name_reply(size: u64, flags: u16, no_zeroes: bool) -> Vec<u8> {
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    if !no_zeroes {
        bytes.extend([0; 124]);
    }
    bytes
}

/// Data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// The export's name; empty for the default one.
    pub name: &'a [u8],
    /// The client wants the name.
    pub wants_name: bool,
    /// The client wants the description.
    pub wants_description: bool,
    /// The client wants the block sizes.
    pub wants_block_size: bool,
}

impl<'a> InfoRequest<'a> {
    /// Reads the data; `None` if they are not well-formed.
    pub fn decode(data: &'a [u8]) -> Option<Self> {
        let mut from = Reader(data);
        let name = from.string()?;
        let count = from.u16()?;
        let mut wanted = Self { name, wants_name: false, wants_description: false, wants_block_size: false };
        for _ in 0..count {
            match from.u16()? {
                info_code::NAME => wanted.wants_name = true,
                info_code::DESCRIPTION => wanted.wants_description = true,
                info_code::BLOCK_SIZE => wanted.wants_block_size = true,
                _ => {}
            }
        }
        (from.is_empty() && name.len() <= MAX_STRING).then_some(wanted)
    }
}

/// Data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// The export's name; empty for the default one.
    pub name: &'a [u8],
    /// The metadata contexts asked for, such as `base:allocation`.
    pub queries: Vec<&'a [u8]>,
}

impl<'a> MetaQuery<'a> {
    /// Reads the data; `None` if they are not well-formed.
    pub fn decode(data: &'a [u8]) -> Option<Self> {
        let mut from = Reader(data);
        let name = from.string()?;
        let count = from.u32()?;
        let mut queries = Vec::new();
        // Each query takes four bytes at least, so a count that lies ends the loop, not the memory.
        for _ in 0..count {
            queries.push(from.string()?);
        }
        let short = name.len() <= MAX_STRING && queries.iter().all(|query| query.len() <= MAX_STRING);
        (from.is_empty() && short).then_some(Self { name, queries })
    }
}
