//! The volumes of a container.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ImsmError, KeptBytes, VolumeMap, bytes_of, halves, sectors_of};

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawVolume {
    volume: [u8; 16],
    size_low: U32,
    size_high: U32,
    status: U32,
    reserved_blocks: U32,
    migr_priority: u8,
    num_sub_vols: u8,
    tid: u8,
    cng_master_disk: u8,
    cache_policy: U16,
    cng_state: u8,
    cng_sub_state: u8,
    my_vol_raid_dev_num: U16,
    nv_cache_mode: u8,
    nv_cache_flags: u8,
    nvc_vol_orig_family_num: U32,
    nvc_vol_raid_dev_num: U16,
    rwh_policy: u8,
    jd_serial: [u8; 16],
    filler: [u8; 13],
    curr_migr_unit_lo: U32,
    checkpoint_id: U32,
    migr_state: u8,
    migr_type: u8,
    dirty: u8,
    fs_state: u8,
    verify_errors: U16,
    bad_blocks: U16,
    curr_migr_unit_hi: U32,
    vol_filler: [u8; 12],
}

const _: () = assert!(size_of::<RawVolume>() == 112);

/// The way in which a volume closes its write hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteHole(pub u8);

impl WriteHole {
    /// As mdadm has it.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "off",
            1 => "PPL distributed",
            2 => "PPL journaling drive",
            3 => "Multiple distributed PPLs",
            4 => "Multiple PPLs on journaling drive",
            5 => "Multiple PPLs",
            6 => "Bitmap",
            _ => "unknown",
        }
    }

    /// Each member has a log of partial parity behind its data.
    pub fn has_logs(self) -> bool {
        matches!(self.0, 1 | 3)
    }

    /// A journal on another disk may hold the only copy of writes.
    pub fn has_journal(self) -> bool {
        matches!(self.0, 2 | 4)
    }
}

/// A change of a volume that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationKind {
    /// Redundancy is made true for the first time.
    Init,
    /// A disk is being rebuilt.
    Rebuild,
    /// Redundancy is compared.
    Verify,
    /// Level, strip or disks change: bytes move.
    General,
    /// The state changes.
    StateChange,
    /// Redundancy is compared, and made true.
    Repair,
}

impl MigrationKind {
    const ALL: [Self; 6] =
        [Self::Init, Self::Rebuild, Self::Verify, Self::General, Self::StateChange, Self::Repair];

    fn of(value: u8) -> Result<Self, ImsmError> {
        let unknown = ImsmError::Unknown { field: "migr_type", value: value.into() };
        Self::ALL.get(usize::from(value)).copied().ok_or(unknown)
    }

    /// As mdadm has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "initialize",
            Self::Rebuild => "rebuild",
            Self::Verify => "check",
            Self::General => "general migration",
            Self::StateChange => "state change",
            Self::Repair => "repair",
        }
    }

    fn number(self) -> u8 {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        u8::try_from(at).unwrap_or(0)
    }
}

/// A change that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The kind.
    pub kind: MigrationKind,
    /// The volume as it was: the other map has it as it will be.
    pub before: VolumeMap,
}

/// A volume of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerVolume {
    /// Its name, with zeroes at its end.
    pub name: [u8; 16],
    /// Bytes of it.
    pub size: u64,
    /// Bits of its state.
    pub status: u32,
    /// Sectors that are reserved at its beginning.
    pub reserved: u32,
    /// The priority of changes.
    pub priority: u8,
    /// Volumes that it consists of.
    pub sub_volumes: u8,
    /// The target that it is.
    pub target: u8,
    /// The disk that counts in a mirror with a plan (*CNG*).
    pub master_disk: u8,
    /// How it is cached.
    pub cache_policy: u16,
    /// The states of such a mirror.
    pub cng: [u8; 2],
    /// Its number among all volumes that the container ever had.
    pub number: u16,
    /// How it is cached in other memory.
    pub nv_cache: [u8; 2],
    /// The container of the volume that caches it.
    pub cache_family: u32,
    /// That volume.
    pub cache_volume: u16,
    /// How its write hole is closed.
    pub write_hole: WriteHole,
    /// The serial number of its journal's disk.
    pub journal_serial: [u8; 16],
    kept: KeptBytes<13>,
    /// The unit of a change that is under way.
    pub unit: u64,
    /// Counts checkpoints.
    pub checkpoint: u32,
    /// The kind of a change that is not under way.
    last_change: u8,
    /// 1: it was not stopped cleanly.
    pub dirty: u8,
    /// The state of a file system.
    pub fs_state: u8,
    /// Mismatches that a comparison found.
    pub verify_errors: u16,
    /// Bad blocks of it.
    pub bad_blocks: u16,
    vol_kept: KeptBytes<12>,
    /// Where its bytes lie; while it is changed, where they will.
    pub map: VolumeMap,
    /// A change that is under way.
    pub migration: Option<Migration>,
}

impl ContainerVolume {
    /// A clean volume of that name.
    pub fn new(name: [u8; 16], size: u64, map: VolumeMap) -> Self {
        Self {
            name,
            size,
            status: 0,
            reserved: 0,
            priority: 0,
            sub_volumes: 0,
            target: 0,
            master_disk: 0,
            cache_policy: 0,
            cng: [0; 2],
            number: 0,
            nv_cache: [0; 2],
            cache_family: 0,
            cache_volume: 0,
            write_hole: WriteHole(0),
            journal_serial: [0; 16],
            kept: KeptBytes::default(),
            unit: 0,
            checkpoint: 0,
            last_change: 0,
            dirty: 0,
            fs_state: 0,
            verify_errors: 0,
            bad_blocks: 0,
            vol_kept: KeptBytes::default(),
            map,
            migration: None,
        }
    }

    pub(super) fn parse(bytes: &[u8], sector: u64) -> Result<(Self, &[u8]), ImsmError> {
        let cut = ImsmError::Cut { what: "table of volumes" };
        let (raw, rest) = RawVolume::read_from_prefix(bytes).map_err(|_| cut)?;
        let (map, mut rest) = VolumeMap::parse(rest, sector)?;
        let migration = match raw.migr_state {
            0 => None,
            1 => {
                let (before, behind) = VolumeMap::parse(rest, sector)?;
                rest = behind;
                Some(Migration { kind: MigrationKind::of(raw.migr_type)?, before })
            }
            value => return Err(ImsmError::Unknown { field: "migr_state", value: value.into() }),
        };
        let unit = u64::from(raw.curr_migr_unit_hi.get()).checked_shl(32).unwrap_or(0)
            | u64::from(raw.curr_migr_unit_lo.get());
        let volume = Self {
            name: raw.volume,
            size: bytes_of(raw.size_low, raw.size_high, sector, "size")?,
            status: raw.status.get(),
            reserved: raw.reserved_blocks.get(),
            priority: raw.migr_priority,
            sub_volumes: raw.num_sub_vols,
            target: raw.tid,
            master_disk: raw.cng_master_disk,
            cache_policy: raw.cache_policy.get(),
            cng: [raw.cng_state, raw.cng_sub_state],
            number: raw.my_vol_raid_dev_num.get(),
            nv_cache: [raw.nv_cache_mode, raw.nv_cache_flags],
            cache_family: raw.nvc_vol_orig_family_num.get(),
            cache_volume: raw.nvc_vol_raid_dev_num.get(),
            write_hole: WriteHole(raw.rwh_policy),
            journal_serial: raw.jd_serial,
            kept: KeptBytes(raw.filler),
            unit,
            checkpoint: raw.checkpoint_id.get(),
            last_change: if migration.is_some() { 0 } else { raw.migr_type },
            dirty: raw.dirty,
            fs_state: raw.fs_state,
            verify_errors: raw.verify_errors.get(),
            bad_blocks: raw.bad_blocks.get(),
            vol_kept: KeptBytes(raw.vol_filler),
            map,
            migration,
        };
        Ok((volume, rest))
    }

    pub(super) fn encode(&self, sector: u64, to: &mut Vec<u8>) -> Result<(), ImsmError> {
        let (size_low, size_high) = sectors_of(self.size, sector, "size")?;
        let (curr_migr_unit_lo, curr_migr_unit_hi) = halves(self.unit);
        let ([cng_state, cng_sub_state], [nv_cache_mode, nv_cache_flags]) = (self.cng, self.nv_cache);
        let kind = self.migration.as_ref().map_or(self.last_change, |change| change.kind.number());
        let raw = RawVolume {
            volume: self.name,
            size_low,
            size_high,
            status: U32::new(self.status),
            reserved_blocks: U32::new(self.reserved),
            migr_priority: self.priority,
            num_sub_vols: self.sub_volumes,
            tid: self.target,
            cng_master_disk: self.master_disk,
            cache_policy: U16::new(self.cache_policy),
            cng_state,
            cng_sub_state,
            my_vol_raid_dev_num: U16::new(self.number),
            nv_cache_mode,
            nv_cache_flags,
            nvc_vol_orig_family_num: U32::new(self.cache_family),
            nvc_vol_raid_dev_num: U16::new(self.cache_volume),
            rwh_policy: self.write_hole.0,
            jd_serial: self.journal_serial,
            filler: self.kept.0,
            curr_migr_unit_lo,
            checkpoint_id: U32::new(self.checkpoint),
            migr_state: u8::from(self.migration.is_some()),
            migr_type: kind,
            dirty: self.dirty,
            fs_state: self.fs_state,
            verify_errors: U16::new(self.verify_errors),
            bad_blocks: U16::new(self.bad_blocks),
            curr_migr_unit_hi,
            vol_filler: self.vol_kept.0,
        };
        to.extend_from_slice(raw.as_bytes());
        self.map.encode(sector, to)?;
        self.migration.as_ref().map_or(Ok(()), |change| change.before.encode(sector, to))
    }

    /// It was not stopped cleanly.
    pub fn is_dirty(&self) -> bool {
        self.dirty & 1 != 0
    }
}
