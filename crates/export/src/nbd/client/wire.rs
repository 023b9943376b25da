//! Messages of a client and to a client as bytes: no I/O, no panic, whatever a server sends.

use super::error::Breach;
use crate::nbd::proto::reader::Reader;
use crate::nbd::proto::{
    BASE_ALLOCATION_ID, CHUNK_DONE, ChunkHeader, OptionHeader, SimpleReply, StatusExtent, chunk_type,
};

/// The longest payload of a chunk that a client takes: the largest read and its offset. Bytes.
pub const MAX_CHUNK: usize = 8 + (32 << 20);

/// The longest payload of any other chunk: extents, or an error's message. Bytes.
pub const MAX_SMALL_CHUNK: usize = 64 * 1024;

/// An option with its data.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OptionHeader { option, len: data.len() as u32 }.encode().to_vec();
    bytes.extend(data);
    bytes
}

/// Data of `INFO` and `GO`: an export's name, and which pieces of information are wanted
/// (see [`crate::nbd::proto::info_code`]).
pub fn info_request(name: &[u8], wants: &[u16]) -> Vec<u8> {
    let mut data = Vec::new();
    string(&mut data, name);
    data.extend((wants.len() as u16).to_be_bytes());
    data.extend(wants.iter().flat_map(|info| info.to_be_bytes()));
    data
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: an export's name, and what is asked for.
pub fn meta_query(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = Vec::new();
    string(&mut data, name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| string(&mut data, query));
    data
}

fn string(data: &mut Vec<u8>, text: &[u8]) {
    data.extend((text.len() as u32).to_be_bytes());
    data.extend(text);
}

/// The first bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A simple reply; data follow if it answers a read without error.
    Simple(SimpleReply),
    /// A chunk; `len` bytes of payload follow.
    Chunk(ChunkHeader),
}

impl Head {
    /// Reads a head and tells its bytes; `None` if more are needed.
    ///
    /// # Errors
    /// [`Breach::NoReply`]; [`Breach::Shape`] for a chunk of more than [`MAX_CHUNK`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Breach> {
        let Some(first) = bytes.first_chunk::<{ SimpleReply::BYTES }>() else { return Ok(None) };
        if let Some(simple) = SimpleReply::decode(first) {
            return Ok(Some((Self::Simple(simple), SimpleReply::BYTES)));
        }
        let Some(first) = bytes.first_chunk::<{ ChunkHeader::BYTES }>() else {
            let magic = crate::nbd::proto::CHUNK_MAGIC.to_be_bytes();
            return if bytes.starts_with(&magic) { Ok(None) } else { Err(Breach::NoReply) };
        };
        match ChunkHeader::decode(first) {
            None => Err(Breach::NoReply),
            Some(chunk) if chunk.len as usize > MAX_CHUNK => Err(Breach::Shape),
            Some(chunk) => Ok(Some((Self::Chunk(chunk), ChunkHeader::BYTES))),
        }
    }

    /// The request that is answered.
    pub fn cookie(&self) -> u64 {
        match self {
            Self::Simple(simple) => simple.cookie,
            Self::Chunk(chunk) => chunk.cookie,
        }
    }
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple reply: the request is done, or has failed if the error is not 0.
    Simple {
        /// The request's.
        cookie: u64,
        /// 0 or a [`crate::nbd::proto::Errno`].
        error: u32,
    },
    /// The answer to a read.
    Data {
        /// The request's.
        cookie: u64,
        /// The chunk's offset; `None` from a simple reply.
        offset: Option<u64>,
        /// The bytes read.
        data: Vec<u8>,
    },
    /// An error in a chunk.
    Error {
        /// The request's.
        cookie: u64,
        /// A [`crate::nbd::proto::Errno`].
        error: u32,
        /// The server's message for people.
        message: String,
    },
    /// The answer to a block status request.
    Status {
        /// The request's.
        cookie: u64,
        /// From the request's offset on.
        extents: Vec<StatusExtent>,
    },
}

impl Reply {
    /// The request that is answered.
    pub fn cookie(&self) -> u64 {
        match *self {
            Self::Simple { cookie, .. }
            | Self::Data { cookie, .. }
            | Self::Error { cookie, .. }
            | Self::Status { cookie, .. } => cookie,
        }
    }

    /// The error in the reply, or 0.
    pub fn error(&self) -> u32 {
        match *self {
            Self::Simple { error, .. } | Self::Error { error, .. } => error,
            Self::Data { .. } | Self::Status { .. } => 0,
        }
    }

    /// Reads a whole reply and tells its bytes; `None` if more are needed. `read` is asked for the length of the read
    /// that a simple reply's cookie means: `Some(0)` if it means another request, `None` if none.
    ///
    /// # Errors
    /// As [`Head::decode`] and [`Reply::of_chunk`]; [`Breach::Cookie`] if `read` knows no request.
    pub fn decode(
        bytes: &[u8],
        read: impl FnOnce(u64) -> Option<usize>,
    ) -> Result<Option<(Self, usize)>, Breach> {
        let Some((head, start)) = Head::decode(bytes)? else { return Ok(None) };
        let len = match head {
            Head::Simple(SimpleReply { cookie, error: 0 }) => read(cookie).ok_or(Breach::Cookie)?,
            Head::Simple(_) => 0,
            Head::Chunk(chunk) => chunk.len as usize,
        };
        let Some(payload) = bytes.get(start..start + len) else { return Ok(None) };
        let reply = match head {
            Head::Simple(SimpleReply { cookie, error: 0 }) if len > 0 => {
                Self::Data { cookie, offset: None, data: payload.to_vec() }
            }
            Head::Simple(SimpleReply { cookie, error }) => Self::Simple { cookie, error },
            Head::Chunk(chunk) => Self::of_chunk(&chunk, payload)?,
        };
        Ok(Some((reply, start + len)))
    }

    /// Reads the payload of a chunk, which must be its reply's only one: Brindle's server sends no others, and clients
    /// set `DF`.
    ///
    /// # Errors
    /// [`Breach::Shape`].
    pub fn of_chunk(chunk: &ChunkHeader, payload: &[u8]) -> Result<Self, Breach> {
        let cookie = chunk.cookie;
        if chunk.flags & CHUNK_DONE == 0 {
            return Err(Breach::Shape);
        }
        let mut from = Reader(payload);
        match chunk.kind {
            chunk_type::NONE if payload.is_empty() => Ok(Self::Simple { cookie, error: 0 }),
            chunk_type::OFFSET_DATA => {
                let offset = Some(from.u64().ok_or(Breach::Shape)?);
                Ok(Self::Data { cookie, offset, data: from.0.to_vec() })
            }
            chunk_type::BLOCK_STATUS => {
                let context = from.u32().ok_or(Breach::Shape)?;
                let (extents, rest) = from.0.as_chunks::<{ StatusExtent::BYTES }>();
                if context != BASE_ALLOCATION_ID || extents.is_empty() || !rest.is_empty() {
                    return Err(Breach::Shape);
                }
                Ok(Self::Status { cookie, extents: extents.iter().map(StatusExtent::decode).collect() })
            }
            kind if kind >> 15 == 1 => {
                let error = from.u32().filter(|&error| error != 0).ok_or(Breach::Shape)?;
                let len = from.u16().ok_or(Breach::Shape)?;
                let message = from.bytes(usize::from(len)).ok_or(Breach::Shape)?;
                Ok(Self::Error { cookie, error, message: String::from_utf8_lossy(message).into_owned() })
            }
            _ => Err(Breach::Shape),
        }
    }
}
