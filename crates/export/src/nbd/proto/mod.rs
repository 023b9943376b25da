//! Bytes to structs and back, and what a request may ask: no I/O, no panic, whatever a peer sends.
//!
//! All numbers on the wire are big-endian. Names and values: the protocol's own document,
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

mod option;
pub(super) mod reader;
mod reply;
mod request;
mod terms;

pub use option::{
    ClientFlags, InfoRequest, MetaQuery, OptionHeader, OptionReply, OptionReplyHeader, export_name_reply,
    greeting, info_block_size, info_export, info_text, meta_context, option_reply, server_entry,
};
pub use reply::{ChunkHeader, Errno, SimpleReply, StatusExtent, error_payload, merge_extent};
pub use request::Request;
pub use terms::{Command, Terms};

/// First eight bytes of the server: `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Newstyle, and the start of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Start of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// The longest string (names, queries, messages) that the protocol allows. Bytes.
pub const MAX_STRING: usize = 4096;
/// The longest option data that is looked at; more is thrown away and answered with `NBD_REP_ERR_TOO_BIG`. Bytes.
pub const MAX_OPTION: usize = 16 * 1024;

/// Handshake flags of the server and client flags: the same two bits.
pub mod handshake_flags {
    /// Options are answered, errors too.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The 124 zeroes after `NBD_OPT_EXPORT_NAME`'s answer are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of the handshake.
pub mod option_code {
    /// Choose an export, the old way: there is no reply for errors.
    pub const EXPORT_NAME: u32 = 1;
    /// End the handshake.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Begin TLS.
    pub const STARTTLS: u32 = 5;
    /// Tell about an export.
    pub const INFO: u32 = 6;
    /// Choose an export.
    pub const GO: u32 = 7;
    /// Replies to reads are to be structured.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Pieces of information about an export, in `INFO` and `GO`.
pub mod info_code {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// A description, for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what a client may ask of an export.
pub mod transmission_flags {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Flush works.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Forced unit access works.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Trim works.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Write-zeroes works.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads may ask not to be fragmented.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection counts for all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Write-zeroes may ask to fail rather than be slow.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands of the transmission phase.
pub mod command_code {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the data follow the request.
    pub const WRITE: u16 = 1;
    /// Disconnect.
    pub const DISC: u16 = 2;
    /// Make completed writes stable.
    pub const FLUSH: u16 = 3;
    /// Discard.
    pub const TRIM: u16 = 4;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tell which ranges are allocated.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flags {
    /// Reply when stable.
    pub const FUA: u16 = 1 << 0;
    /// Write-zeroes: keep the range allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Read: one chunk.
    pub const DF: u16 = 1 << 2;
    /// Block status: one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Write-zeroes: quick or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks of structured replies.
pub mod chunk_type {
    /// The end of a reply that has nothing more to say.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents of a metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 0x8001;
}

/// Flag of a reply's last chunk.
pub const CHUNK_DONE: u16 = 1 << 0;

/// The only metadata context that is offered.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number for [`BASE_ALLOCATION`], chosen freely.
pub const BASE_ALLOCATION_ID: u32 = 1;
