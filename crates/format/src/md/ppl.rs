//! Partial parity log (RAID 5): a header of 4 KiB, then the partial parity of the writes that were under way.
//!
//! After `struct ppl_header` of the kernel's `md_p.h`, and `drivers/md/raid5-ppl.c`. The partial parity of the entries follows
//! the header one behind the other, `parity_bytes` each, in the order of the entries.

use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Uuid;
use crate::SECTOR;

/// Bytes of a header with its table of entries.
pub const PPL_HEADER_BYTES: usize = 4096;

/// Entries that fit a header.
pub const PPL_MAX_ENTRIES: usize = 148;

const RESERVED: usize = 512;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    data_sector: U64,
    pp_size: U32,
    data_size: U32,
    parity_disk: U32,
    checksum: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    reserved: [u8; RESERVED],
    signature: U32,
    padding: U32,
    generation: U64,
    entries_count: U32,
    checksum: U32,
    entries: [RawEntry; PPL_MAX_ENTRIES],
    /// The rest of the page behind 148 entries of 24 bytes.
    tail: [u8; 8],
}

const _: () = assert!(size_of::<Raw>() == PPL_HEADER_BYTES);

/// Why bytes are no PPL header that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PplError {
    /// Fewer bytes than a header has.
    #[error("PPL header is cut short: {have} bytes, {PPL_HEADER_BYTES} needed")]
    Short {
        /// Bytes given.
        have: usize,
    },
    /// The checksum does not match the content: empty, torn or damaged.
    #[error("PPL header checksum is {found:08x}, its content sums to {expected:08x}")]
    Checksum {
        /// Checksum on disk.
        found: u32,
        /// Checksum of the bytes on disk.
        expected: u32,
    },
    /// The header belongs to another array.
    #[error("PPL header has signature {found:08x}, this array's is {expected:08x}")]
    Foreign {
        /// Signature on disk.
        found: u32,
        /// Signature of the array.
        expected: u32,
    },
    /// A value that no header can have, or that cannot be written.
    #[error("PPL field {field} has the impossible value {value}")]
    Impossible {
        /// The field's name in the documentation of the format.
        field: &'static str,
        /// Raw value.
        value: u64,
    },
}

/// One write that was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PplEntry {
    /// First byte of the array that was written.
    pub data_offset: u64,
    /// Bytes of data that were written.
    pub data_bytes: u32,
    /// Bytes of partial parity that the log holds for it; 0 if the stripes were written whole.
    pub parity_bytes: u32,
    /// Role of the member that holds the parity.
    pub parity_role: u32,
    /// CRC-32C of the partial parity.
    pub checksum: u32,
}

/// Header of a partial parity log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PplHeader {
    /// Identifies the array: see [`signature`].
    pub signature: u32,
    /// Grows with each header; of several, the one with the highest generation counts.
    pub generation: u64,
    /// Writes under way.
    pub entries: Vec<PplEntry>,
}

/// Signature of the logs of an array: CRC-32C of its UUID.
pub fn signature(set_uuid: Uuid) -> u32 {
    crc32c::crc32c(set_uuid.as_bytes())
}

/// Checksum of an entry's partial parity.
pub fn parity_checksum(parity: &[u8]) -> u32 {
    crc32c::crc32c(parity)
}

impl PplHeader {
    /// Reads a header of the array with that UUID.
    ///
    /// # Errors
    ///
    /// [`PplError::Checksum`] for a header that was never written or only in part: what it logged was not under way.
    /// [`PplError::Short`]; [`PplError::Foreign`] for one of another array; [`PplError::Impossible`] for a count of entries or
    /// a place that can't be.
    pub fn parse(bytes: &[u8], set_uuid: Uuid) -> Result<Self, PplError> {
        let (raw, _) = Raw::ref_from_prefix(bytes).map_err(|_| PplError::Short { have: bytes.len() })?;
        let (found, expected) = (raw.checksum.get(), checksum(raw));
        if found != expected {
            return Err(PplError::Checksum { found, expected });
        }
        let (found, expected) = (raw.signature.get(), signature(set_uuid));
        if found != expected {
            return Err(PplError::Foreign { found, expected });
        }
        let count = raw.entries_count.get();
        let entries = raw
            .entries
            .get(..count as usize)
            .ok_or(PplError::Impossible { field: "entries_count", value: u64::from(count) })?;
        let entries = entries.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { signature: raw.signature.get(), generation: raw.generation.get(), entries })
    }

    /// The 4096 bytes of the header.
    ///
    /// # Errors
    ///
    /// [`PplError::Impossible`] for more than [`PPL_MAX_ENTRIES`] entries or a data offset off its sector.
    pub fn encode(&self) -> Result<[u8; PPL_HEADER_BYTES], PplError> {
        let mut raw = Raw::new_zeroed();
        raw.reserved = [0xff; RESERVED];
        raw.signature.set(self.signature);
        raw.generation.set(self.generation);
        let len = self.entries.len();
        let table = raw
            .entries
            .get_mut(..len)
            .ok_or(PplError::Impossible { field: "entries_count", value: len as u64 })?;
        for (to, from) in table.iter_mut().zip(&self.entries) {
            *to = raw_entry(from)?;
        }
        raw.entries_count.set(len as u32);
        raw.checksum.set(checksum(&raw));
        Ok(zerocopy::transmute!(raw))
    }
}

/// CRC-32C of the header, its checksum taken as 0.
fn checksum(raw: &Raw) -> u32 {
    let mut raw = raw.clone();
    raw.checksum.set(0);
    crc32c::crc32c(raw.as_bytes())
}

fn entry(raw: &RawEntry) -> Result<PplEntry, PplError> {
    let sector = raw.data_sector.get();
    let impossible = PplError::Impossible { field: "data_sector", value: sector };
    Ok(PplEntry {
        data_offset: sector.checked_mul(SECTOR).ok_or(impossible)?,
        data_bytes: raw.data_size.get(),
        parity_bytes: raw.pp_size.get(),
        parity_role: raw.parity_disk.get(),
        checksum: raw.checksum.get(),
    })
}

fn raw_entry(entry: &PplEntry) -> Result<RawEntry, PplError> {
    if entry.data_offset.checked_rem(SECTOR) != Some(0) {
        return Err(PplError::Impossible { field: "data_sector", value: entry.data_offset });
    }
    Ok(RawEntry {
        data_sector: U64::new(entry.data_offset / SECTOR),
        pp_size: U32::new(entry.parity_bytes),
        data_size: U32::new(entry.data_bytes),
        parity_disk: U32::new(entry.parity_role),
        checksum: U32::new(entry.checksum),
    })
}
