//! Where the bytes of a volume lie: one map, or two while it is changed.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ImsmError, KeptBytes, bytes_of, halves, sectors_of};

/// The mark in an entry of the table of members that this one does not hold its data.
const REBUILD: u32 = 1 << 24;

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMap {
    pba_of_lba0_lo: U32,
    blocks_per_member_lo: U32,
    num_data_stripes_lo: U32,
    blocks_per_strip: U16,
    map_state: u8,
    raid_level: u8,
    num_members: u8,
    num_domains: u8,
    failed_disk_num: u8,
    ddf: u8,
    pba_of_lba0_hi: U32,
    blocks_per_member_hi: U32,
    num_data_stripes_hi: U32,
    filler: [u8; 16],
}

const _: () = assert!(size_of::<RawMap>() == 48);

/// The state of a volume by one of its maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapState {
    /// All members hold their data.
    Normal,
    /// Redundancy was never made true.
    Uninitialised,
    /// Members are missing that it can do without.
    Degraded,
    /// Members are missing that it can't do without.
    Failed,
}

impl MapState {
    const ALL: [Self; 4] = [Self::Normal, Self::Uninitialised, Self::Degraded, Self::Failed];

    fn of(value: u8) -> Result<Self, ImsmError> {
        let unknown = ImsmError::Unknown { field: "map_state", value: value.into() };
        Self::ALL.get(usize::from(value)).copied().ok_or(unknown)
    }

    /// As mdadm has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Uninitialised => "uninitialized",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Uninitialised => 1,
            Self::Degraded => 2,
            Self::Failed => 3,
        }
    }
}

/// The disk in a place of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSlot(pub u32);

impl DiskSlot {
    /// The number of the disk in the container's table.
    pub fn disk(self) -> usize {
        usize::try_from(self.0 & (REBUILD - 1)).unwrap_or(usize::MAX)
    }

    /// The disk does not hold all of its data.
    pub fn is_rebuilt(self) -> bool {
        self.0 & REBUILD != 0
    }
}

/// Where the bytes of a volume lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMap {
    /// The byte of each disk at which its part begins.
    pub offset: u64,
    /// Bytes of each disk that the volume takes.
    pub member_size: u64,
    /// Rows of strips.
    pub stripes: u64,
    /// Bytes of a strip (md: chunk).
    pub strip: u64,
    /// The state.
    pub state: MapState,
    /// The level as the format counts it: a 1 of more than two disks is RAID 10.
    pub level: u8,
    /// Copies of each byte, or disks of which one byte each is parity.
    pub domains: u8,
    /// The disk that failed last; 255 if none did.
    pub failed_disk: u8,
    /// Always 1.
    pub ddf: u8,
    kept: KeptBytes<16>,
    /// The disk of each place.
    pub slots: Vec<DiskSlot>,
}

impl VolumeMap {
    /// A map of these disks in normal state.
    pub fn new(level: u8, strip: u64, slots: Vec<DiskSlot>) -> Self {
        Self {
            offset: 0,
            member_size: 0,
            stripes: 0,
            strip,
            state: MapState::Normal,
            level,
            domains: 1,
            failed_disk: 255,
            ddf: 1,
            kept: KeptBytes::default(),
            slots,
        }
    }

    pub(super) fn parse(bytes: &[u8], sector: u64) -> Result<(Self, &[u8]), ImsmError> {
        let cut = || ImsmError::Cut { what: "map of a volume" };
        let (raw, mut rest) = RawMap::read_from_prefix(bytes).map_err(|_| cut())?;
        let mut slots = Vec::with_capacity(usize::from(raw.num_members).min(rest.len()));
        // There is room for one, even if there are none.
        for at in 0..raw.num_members.max(1) {
            let (slot, behind) = U32::read_from_prefix(rest).map_err(|_| cut())?;
            if at < raw.num_members {
                slots.push(DiskSlot(slot.get()));
            } else if slot.get() != 0 {
                return Err(ImsmError::Unknown { field: "disk_ord_tbl", value: slot.get().into() });
            }
            rest = behind;
        }
        let stripes = u64::from(raw.num_data_stripes_hi.get()).checked_shl(32).unwrap_or(0)
            | u64::from(raw.num_data_stripes_lo.get());
        let map = Self {
            offset: bytes_of(raw.pba_of_lba0_lo, raw.pba_of_lba0_hi, sector, "pba_of_lba0")?,
            member_size: bytes_of(
                raw.blocks_per_member_lo,
                raw.blocks_per_member_hi,
                sector,
                "blocks_per_member",
            )?,
            stripes,
            strip: u64::from(raw.blocks_per_strip.get())
                .checked_mul(sector)
                .ok_or(ImsmError::TooLarge { field: "blocks_per_strip" })?,
            state: MapState::of(raw.map_state)?,
            level: raw.raid_level,
            domains: raw.num_domains,
            failed_disk: raw.failed_disk_num,
            ddf: raw.ddf,
            kept: KeptBytes(raw.filler),
            slots,
        };
        Ok((map, rest))
    }

    pub(super) fn encode(&self, sector: u64, to: &mut Vec<u8>) -> Result<(), ImsmError> {
        let large = |field| ImsmError::TooLarge { field };
        let (pba_of_lba0_lo, pba_of_lba0_hi) = sectors_of(self.offset, sector, "pba_of_lba0")?;
        let (blocks_per_member_lo, blocks_per_member_hi) =
            sectors_of(self.member_size, sector, "blocks_per_member")?;
        let (num_data_stripes_lo, num_data_stripes_hi) = halves(self.stripes);
        let (strip, more) = sectors_of(self.strip, sector, "blocks_per_strip")?;
        let strip = u16::try_from(strip.get()).ok().filter(|_| more.get() == 0);
        let raw = RawMap {
            pba_of_lba0_lo,
            blocks_per_member_lo,
            num_data_stripes_lo,
            blocks_per_strip: U16::new(strip.ok_or(large("blocks_per_strip"))?),
            map_state: self.state.number(),
            raid_level: self.level,
            num_members: u8::try_from(self.slots.len()).map_err(|_| large("num_members"))?,
            num_domains: self.domains,
            failed_disk_num: self.failed_disk,
            ddf: self.ddf,
            pba_of_lba0_hi,
            blocks_per_member_hi,
            num_data_stripes_hi,
            filler: self.kept.0,
        };
        to.extend_from_slice(raw.as_bytes());
        if self.slots.is_empty() {
            to.extend_from_slice(&[0; 4]);
        }
        self.slots.iter().for_each(|slot| to.extend_from_slice(&slot.0.to_le_bytes()));
        Ok(())
    }
}
