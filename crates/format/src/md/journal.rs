//! Journal of a RAID 4, 5 or 6 array (`raid5-cache`): a log of meta blocks, each followed by the data it describes.
//!
//! After `struct r5l_meta_block` and its payloads in the kernel's `md_p.h`, and `drivers/md/raid5-cache.c`. Every meta
//! block takes 4 KiB; everything is little-endian.

use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Uuid;
use crate::SECTOR;

/// First word of a meta block.
pub const JOURNAL_MAGIC: u32 = 0x6433_c509;

/// Bytes of a meta block, and of the blocks of data and parity that follow it.
pub const JOURNAL_BLOCK_BYTES: usize = 4096;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = size_of::<RawMeta>();
/// A checksum stands for 8 sectors, a stripe in a flush list takes 8 bytes: either way `size` counts eights.
const UNIT: u32 = 8;
const TYPE_DATA: u16 = 0;
const TYPE_PARITY: u16 = 1;
const TYPE_FLUSH: u16 = 2;

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMeta {
    magic: U32,
    checksum: U32,
    version: u8,
    pad1: u8,
    pad2: U16,
    meta_size: U32,
    seq: U64,
    position: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPayload {
    r#type: U16,
    flags: U16,
    /// Data and parity: sectors. Flush: bytes of the list of stripes.
    size: U32,
}

/// Why bytes are no meta block that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Fewer bytes than a block has.
    #[error("journal block is cut short: {have} bytes, {JOURNAL_BLOCK_BYTES} needed")]
    Short {
        /// Bytes given.
        have: usize,
    },
    /// The magic number is missing: the log ends here.
    #[error("no journal block here")]
    NoMagic,
    /// A version that is not known.
    #[error("journal block has the unknown version {0}")]
    UnknownVersion(u8),
    /// The checksum does not match content and array: torn, damaged or of another array.
    #[error("journal block checksum is {found:08x}, content and array UUID sum to {expected:08x}")]
    Checksum {
        /// Checksum on disk.
        found: u32,
        /// Checksum of the bytes on disk.
        expected: u32,
    },
    /// A value that no block can have.
    #[error("journal field {field} has the impossible value {value}")]
    Impossible {
        /// The field's name in the documentation of the format.
        field: &'static str,
        /// Raw value on disk.
        value: u64,
    },
}

/// The description in a meta block of the blocks that follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Data of the array: `checksums.len()` blocks follow.
    Data {
        /// Byte of the array.
        offset: u64,
        /// Flags, as on disk.
        flags: u16,
        /// CRC-32C of each block, seeded with the array's UUID.
        checksums: Vec<u32>,
    },
    /// Parity of a stripe: one block (P), or two (P and Q), follow.
    Parity {
        /// Byte of each member at which the stripe stands.
        offset: u64,
        /// Flags, as on disk.
        flags: u16,
        /// CRC-32C of each block, seeded with the array's UUID.
        checksums: Vec<u32>,
    },
    /// Stripes whose logged data have reached the members.
    Flush {
        /// Flags, as on disk.
        flags: u16,
        /// Byte of each member at which each stripe stands.
        stripes: Vec<u64>,
    },
}

/// One meta block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaBlock {
    /// Sequence number: the next meta block has the next.
    pub sequence: u64,
    /// Byte of the journal's data area at which this block stands.
    pub position: u64,
    /// The descriptions of the blocks that follow.
    pub payloads: Vec<Payload>,
}

/// Checksum over a block of the journal of the array with that UUID.
pub fn checksum(set_uuid: Uuid, block: &[u8]) -> u32 {
    // The kernel chains its raw CRC from the UUID to the block without the final inversion.
    !crc32c::crc32c_append(crc32c::crc32c(set_uuid.as_bytes()), block)
}

impl MetaBlock {
    /// The first block of an empty journal, as mdadm writes it: no payload. The sequence number should be random.
    pub fn empty(sequence: u64) -> Self {
        Self { sequence, position: 0, payloads: Vec::new() }
    }

    /// Reads a meta block of the journal of the array with that UUID.
    ///
    /// # Errors
    ///
    /// [`JournalError::NoMagic`] where the log ends. For a block that cannot be trusted: [`JournalError::Short`],
    /// [`JournalError::UnknownVersion`], [`JournalError::Checksum`], [`JournalError::Impossible`].
    pub fn parse(bytes: &[u8], set_uuid: Uuid) -> Result<Self, JournalError> {
        let block = bytes.get(..JOURNAL_BLOCK_BYTES).ok_or(JournalError::Short { have: bytes.len() })?;
        let (head, rest) =
            RawMeta::ref_from_prefix(block).map_err(|_| JournalError::Short { have: bytes.len() })?;
        if head.magic.get() != JOURNAL_MAGIC {
            return Err(JournalError::NoMagic);
        }
        if head.version != VERSION {
            return Err(JournalError::UnknownVersion(head.version));
        }
        let (found, expected) = (head.checksum.get(), block_checksum(head, rest, set_uuid));
        if found != expected {
            return Err(JournalError::Checksum { found, expected });
        }
        let size = head.meta_size.get();
        let mut rest = (size as usize)
            .checked_sub(HEAD_BYTES)
            .and_then(|len| rest.get(..len))
            .ok_or(JournalError::Impossible { field: "meta_size", value: u64::from(size) })?;
        let mut payloads = Vec::new();
        while !rest.is_empty() {
            let (payload, after) = payload(rest)?;
            payloads.push(payload);
            rest = after;
        }
        let position = bytes_of("position", head.position.get())?;
        Ok(Self { sequence: head.seq.get(), position, payloads })
    }

    /// The 4096 bytes of the block; `None` if the payloads do not fit or an offset is off its sector.
    pub fn encode(&self, set_uuid: Uuid) -> Option<[u8; JOURNAL_BLOCK_BYTES]> {
        let mut body = Vec::new();
        for payload in &self.payloads {
            put(&mut body, payload)?;
        }
        let size = HEAD_BYTES.checked_add(body.len())?;
        let mut head = RawMeta {
            magic: U32::new(JOURNAL_MAGIC),
            checksum: U32::ZERO,
            version: VERSION,
            pad1: 0,
            pad2: U16::ZERO,
            meta_size: U32::new(u32::try_from(size).ok()?),
            seq: U64::new(self.sequence),
            position: U64::new(sectors_of(self.position)?),
        };
        let mut block = [0; JOURNAL_BLOCK_BYTES];
        block.get_mut(HEAD_BYTES..size)?.copy_from_slice(&body);
        let sum = block_checksum(&head, block.get(HEAD_BYTES..)?, set_uuid);
        head.checksum.set(sum);
        block.first_chunk_mut::<HEAD_BYTES>()?.copy_from_slice(head.as_bytes());
        Some(block)
    }
}

/// Checksum of a meta block, its own field taken as 0.
fn block_checksum(head: &RawMeta, rest: &[u8], set_uuid: Uuid) -> u32 {
    let mut head = head.clone();
    head.checksum = U32::ZERO;
    let seed = crc32c::crc32c(set_uuid.as_bytes());
    !crc32c::crc32c_append(crc32c::crc32c_append(seed, head.as_bytes()), rest)
}

fn bytes_of(field: &'static str, sectors: u64) -> Result<u64, JournalError> {
    sectors.checked_mul(SECTOR).ok_or(JournalError::Impossible { field, value: sectors })
}

fn sectors_of(bytes: u64) -> Option<u64> {
    (bytes.checked_rem(SECTOR) == Some(0)).then_some(bytes / SECTOR)
}

/// Reads one payload; also returns what follows it.
fn payload(bytes: &[u8]) -> Result<(Payload, &[u8]), JournalError> {
    let (head, rest) = RawPayload::ref_from_prefix(bytes)
        .map_err(|_| JournalError::Impossible { field: "payload", value: bytes.len() as u64 })?;
    let (kind, flags, size) = (head.r#type.get(), head.flags.get(), head.size.get());
    let impossible = JournalError::Impossible { field: "size", value: u64::from(size) };
    if !size.is_multiple_of(UNIT) {
        return Err(impossible);
    }
    if kind == TYPE_FLUSH {
        let count = (size / UNIT) as usize;
        let (list, rest) = <[U64]>::ref_from_prefix_with_elems(rest, count).map_err(|_| impossible)?;
        let stripes = list.iter().map(|s| bytes_of("flush_stripes", s.get())).collect::<Result<_, _>>()?;
        return Ok((Payload::Flush { flags, stripes }, rest));
    }
    let (location, rest) = U64::ref_from_prefix(rest).map_err(|_| impossible.clone())?;
    let offset = bytes_of("location", location.get())?;
    let blocks = (size / UNIT) as usize;
    let (list, rest) = <[U32]>::ref_from_prefix_with_elems(rest, blocks).map_err(|_| impossible)?;
    let checksums = list.iter().map(|c| c.get()).collect();
    match kind {
        TYPE_DATA => Ok((Payload::Data { offset, flags, checksums }, rest)),
        TYPE_PARITY => Ok((Payload::Parity { offset, flags, checksums }, rest)),
        _ => Err(JournalError::Impossible { field: "type", value: u64::from(kind) }),
    }
}

/// Appends one payload.
fn put(body: &mut Vec<u8>, payload: &Payload) -> Option<()> {
    let (kind, flags, count) = match payload {
        Payload::Data { flags, checksums, .. } => (TYPE_DATA, flags, checksums.len()),
        Payload::Parity { flags, checksums, .. } => (TYPE_PARITY, flags, checksums.len()),
        Payload::Flush { flags, stripes } => (TYPE_FLUSH, flags, stripes.len()),
    };
    let size = u32::try_from(count).ok()?.checked_mul(UNIT)?;
    let head = RawPayload { r#type: U16::new(kind), flags: U16::new(*flags), size: U32::new(size) };
    body.extend_from_slice(head.as_bytes());
    match payload {
        Payload::Data { offset, checksums, .. } | Payload::Parity { offset, checksums, .. } => {
            body.extend_from_slice(&sectors_of(*offset)?.to_le_bytes());
            body.extend(checksums.iter().flat_map(|c| c.to_le_bytes()));
        }
        Payload::Flush { stripes, .. } => {
            for stripe in stripes {
                body.extend_from_slice(&sectors_of(*stripe)?.to_le_bytes());
            }
        }
    }
    Some(())
}
