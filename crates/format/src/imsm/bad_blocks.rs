//! The log of bad blocks of a container: one for all of its disks.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ImsmError;

/// The first word of a log.
const MAGIC: u32 = 0xabad_b10c;

/// The most ranges that a log has room for.
pub const MAX_DEFECTS: usize = 254;

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLog {
    signature: U32,
    entry_count: U32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDefect {
    marked_count: u8,
    disk_ordinal: u8,
    defective_block_start_lo: U16,
    defective_block_start_hi: U32,
}

const _: () = assert!(size_of::<RawDefect>() == 8);

/// Sectors of a disk that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefectRange {
    /// The number of the disk in the container's table.
    pub disk: u8,
    /// The first bad byte of the disk.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

pub(super) fn parse(bytes: &[u8], sector: u64) -> Result<Vec<DefectRange>, ImsmError> {
    let cut = || ImsmError::Cut { what: "log of bad blocks" };
    let (raw, mut rest) = RawLog::read_from_prefix(bytes).map_err(|_| cut())?;
    if raw.signature.get() != MAGIC {
        return Err(ImsmError::Unknown { field: "the log of bad blocks", value: raw.signature.get().into() });
    }
    let count = usize::try_from(raw.entry_count.get()).ok().filter(|count| *count <= MAX_DEFECTS);
    let mut all = Vec::new();
    for _ in
        0..count.ok_or(ImsmError::Unknown { field: "entry_count", value: raw.entry_count.get().into() })?
    {
        let (entry, behind) = RawDefect::read_from_prefix(rest).map_err(|_| cut())?;
        let first = u64::from(entry.defective_block_start_hi.get()).checked_shl(16).unwrap_or(0)
            | u64::from(entry.defective_block_start_lo.get());
        let large = ImsmError::TooLarge { field: "defective_block_start" };
        let len = u64::from(entry.marked_count).saturating_add(1).saturating_mul(sector);
        let offset = first.checked_mul(sector).ok_or(large)?;
        all.push(DefectRange { disk: entry.disk_ordinal, offset, len });
        rest = behind;
    }
    if rest.is_empty() {
        Ok(all)
    } else {
        Err(ImsmError::Unknown { field: "bbm_log_size", value: bytes.len() as u64 })
    }
}

pub(super) fn encode(defects: &[DefectRange], sector: u64) -> Result<Vec<u8>, ImsmError> {
    let count = u32::try_from(defects.len()).ok().filter(|_| defects.len() <= MAX_DEFECTS);
    let count = count.ok_or(ImsmError::TooLarge { field: "entry_count" })?;
    let mut bytes = RawLog { signature: U32::new(MAGIC), entry_count: U32::new(count) }.as_bytes().to_vec();
    for DefectRange { disk, offset, len } in defects {
        let whole = |bytes: u64| bytes.checked_div(sector).filter(|_| bytes.checked_rem(sector) == Some(0));
        let unaligned = |field, bytes| ImsmError::Unaligned { field, bytes };
        let first = whole(*offset).ok_or(unaligned("defective_block_start", *offset))?;
        let count = whole(*len).and_then(|count| count.checked_sub(1));
        let count = count.ok_or(unaligned("marked_count", *len))?;
        let large = |field| ImsmError::TooLarge { field };
        let high = u32::try_from(first.checked_shr(16).unwrap_or(0));
        let [a, b, ..] = first.to_le_bytes();
        let raw = RawDefect {
            marked_count: u8::try_from(count).map_err(|_| large("marked_count"))?,
            disk_ordinal: *disk,
            defective_block_start_lo: U16::from_bytes([a, b]),
            defective_block_start_hi: U32::new(high.map_err(|_| large("defective_block_start"))?),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    Ok(bytes)
}
