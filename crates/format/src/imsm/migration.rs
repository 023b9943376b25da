//! The record of a change that moves bytes: in the last sector of the first two disks.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ImsmError, KeptBytes, bytes_of, halves, sectors_of};

/// Bytes of a record.
pub const MIGRATION_RECORD_BYTES: usize = size_of::<RawMigration>();

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMigration {
    rec_status: U32,
    curr_migr_unit_lo: U32,
    family_num: U32,
    ascending_migr: U32,
    blocks_per_unit: U32,
    dest_depth_per_unit: U32,
    ckpt_area_pba_lo: U32,
    dest_1st_member_lba_lo: U32,
    num_migr_units_lo: U32,
    post_migr_vol_cap: U32,
    post_migr_vol_cap_hi: U32,
    ckpt_read_disk_num: U32,
    curr_migr_unit_hi: U32,
    ckpt_area_pba_hi: U32,
    dest_1st_member_lba_hi: U32,
    num_migr_units_hi: U32,
    filler: [u8; 64],
}

const _: () = assert!(MIGRATION_RECORD_BYTES == 128);

/// How far a change has come that moves bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationRecord {
    /// 1: the unit is in the area of copies; 2: it was moved, and the area is free.
    pub status: u32,
    /// The unit that it has come to.
    pub unit: u64,
    /// The container.
    pub family: u32,
    /// 1: from the beginning to the end.
    pub ascending: u32,
    /// Bytes of a unit.
    pub unit_size: u64,
    /// Bytes of each disk that a unit takes afterwards.
    pub depth: u64,
    /// The byte of the disk at which the area of copies begins.
    pub copies: u64,
    /// The byte of the disk at which the first unit goes.
    pub first: u64,
    /// Units in all.
    pub units: u64,
    /// Bytes of the volume afterwards.
    pub size: u64,
    /// The disk that has the copies.
    pub copies_disk: u32,
    kept: KeptBytes<64>,
}

impl MigrationRecord {
    /// Parses the record of a disk with sectors of `sector` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`ImsmError::Short`], [`ImsmError::TooLarge`].
    pub fn parse(bytes: &[u8], sector: u64) -> Result<Option<Self>, ImsmError> {
        let short = ImsmError::Short { have: bytes.len(), need: MIGRATION_RECORD_BYTES };
        let (raw, _) = RawMigration::read_from_prefix(bytes).map_err(|_| short)?;
        if raw.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let single = |number: U32, field| bytes_of(number, U32::new(0), sector, field);
        let joined =
            |low: U32, high: U32| u64::from(high.get()).checked_shl(32).unwrap_or(0) | u64::from(low.get());
        Ok(Some(Self {
            status: raw.rec_status.get(),
            unit: joined(raw.curr_migr_unit_lo, raw.curr_migr_unit_hi),
            family: raw.family_num.get(),
            ascending: raw.ascending_migr.get(),
            unit_size: single(raw.blocks_per_unit, "blocks_per_unit")?,
            depth: single(raw.dest_depth_per_unit, "dest_depth_per_unit")?,
            copies: bytes_of(raw.ckpt_area_pba_lo, raw.ckpt_area_pba_hi, sector, "ckpt_area_pba")?,
            first: bytes_of(
                raw.dest_1st_member_lba_lo,
                raw.dest_1st_member_lba_hi,
                sector,
                "dest_1st_member_lba",
            )?,
            units: joined(raw.num_migr_units_lo, raw.num_migr_units_hi),
            size: bytes_of(raw.post_migr_vol_cap, raw.post_migr_vol_cap_hi, sector, "post_migr_vol_cap")?,
            copies_disk: raw.ckpt_read_disk_num.get(),
            kept: KeptBytes(raw.filler),
        }))
    }

    /// The bytes of the record.
    ///
    /// # Errors
    /// [`ImsmError::Unaligned`], [`ImsmError::TooLarge`].
    pub fn encode(&self, sector: u64) -> Result<[u8; MIGRATION_RECORD_BYTES], ImsmError> {
        let single = |bytes: u64, field| match sectors_of(bytes, sector, field)? {
            (low, high) if high.get() == 0 => Ok(low),
            _ => Err(ImsmError::TooLarge { field }),
        };
        let (curr_migr_unit_lo, curr_migr_unit_hi) = halves(self.unit);
        let (num_migr_units_lo, num_migr_units_hi) = halves(self.units);
        let (ckpt_area_pba_lo, ckpt_area_pba_hi) = sectors_of(self.copies, sector, "ckpt_area_pba")?;
        let (dest_1st_member_lba_lo, dest_1st_member_lba_hi) =
            sectors_of(self.first, sector, "dest_1st_member_lba")?;
        let (post_migr_vol_cap, post_migr_vol_cap_hi) = sectors_of(self.size, sector, "post_migr_vol_cap")?;
        let raw = RawMigration {
            rec_status: U32::new(self.status),
            curr_migr_unit_lo,
            family_num: U32::new(self.family),
            ascending_migr: U32::new(self.ascending),
            blocks_per_unit: single(self.unit_size, "blocks_per_unit")?,
            dest_depth_per_unit: single(self.depth, "dest_depth_per_unit")?,
            ckpt_area_pba_lo,
            dest_1st_member_lba_lo,
            num_migr_units_lo,
            post_migr_vol_cap,
            post_migr_vol_cap_hi,
            ckpt_read_disk_num: U32::new(self.copies_disk),
            curr_migr_unit_hi,
            ckpt_area_pba_hi,
            dest_1st_member_lba_hi,
            num_migr_units_hi,
            filler: self.kept.0,
        };
        let mut bytes = [0; MIGRATION_RECORD_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        Ok(bytes)
    }
}
