//! Containers of Intel's firmware RAID (imsm: Rapid Storage Technology, Matrix RAID, VROC): a table of disks and of volumes over them, at
//! the end of each disk. `docs/formats/imsm.md` draws it.
//!
//! Sizes and places are bytes here. On disk they are counted in sectors of the disk, which have 512 or 4096 bytes.

mod bad_blocks;
mod disk;
mod error;
mod identity;
mod map;
mod migration;
mod place;
mod volume;

use core::fmt;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use bad_blocks::{DefectRange, MAX_DEFECTS};
pub use disk::{ContainerDisk, DiskStatus, serial_text};
pub use error::ImsmError;
pub use identity::ImsmUuid;
pub use map::{DiskSlot, MapState, VolumeMap};
pub use migration::{MIGRATION_RECORD_BYTES, MigrationRecord};
pub use place::{MAX_MPB_BYTES, anchor, extended, migration_record};
pub use volume::{ContainerVolume, Migration, MigrationKind, WriteHole};

/// The first bytes of the anchor.
pub const SIGNATURE: &[u8; 24] = b"Intel Raid ISM Cfg Sig. ";

/// Bytes before the table of disks.
const HEAD_BYTES: usize = size_of::<RawMpb>();

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMpb {
    sig: [u8; 24],
    version: [u8; 8],
    check_sum: U32,
    mpb_size: U32,
    family_num: U32,
    generation_num: U32,
    error_log_size: U32,
    attributes: U32,
    num_disks: u8,
    num_raid_devs: u8,
    error_log_pos: u8,
    fill: u8,
    cache_size: U32,
    orig_family_num: U32,
    pwr_cycle_count: U32,
    bbm_log_size: U32,
    num_raid_devs_created: U16,
    filler1: U16,
    creation_time: U64,
    filler: [u8; 128],
}

const _: () = assert!(HEAD_BYTES == 216);

/// Bytes that have no meaning here, and are written back as they were.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeptBytes<const N: usize>([u8; N]);

impl<const N: usize> Default for KeptBytes<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for KeptBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kept")
    }
}

/// Bits that say which features a container uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerAttributes(pub u32);

impl ContainerAttributes {
    /// All bits that have a name.
    const NAMES: [(u32, &'static str); 15] = [
        (0x1, "raid0"),
        (0x2, "raid1"),
        (0x4, "raid10"),
        (0x8, "raid1e"),
        (0x10, "raid5"),
        (0x20, "cng"),
        (0x40, "expanded-strips"),
        (0x80, "raid10-of-more-than-4"),
        (0x0200_0000, "nvm-cache"),
        (0x0400_0000, "disk-of-more-than-2T"),
        (0x0800_0000, "bad-block-management"),
        (0x1000_0000, "never-use"),
        (0x2000_0000, "volume-of-more-than-2T"),
        (0x4000_0000, "never-use-2"),
        (0x8000_0000, "checksum"),
    ];

    /// The bits that mdadm takes, too.
    const SUPPORTED: u32 = 0xac00_00d7;

    /// The names of all bits that are set; those without a name by their number.
    pub fn names(self) -> Vec<String> {
        let set = (0..32u32).filter(|bit| self.0.checked_shr(*bit).is_some_and(|rest| rest & 1 == 1));
        set.map(|bit| {
            let mask = 1u32.checked_shl(bit).unwrap_or(0);
            let known = Self::NAMES.iter().find(|(number, _)| *number == mask);
            known.map_or_else(|| format!("bit-{bit}"), |(_, name)| (*name).to_owned())
        })
        .collect()
    }

    /// Those of the bits that say of the container what this release does not know how to read or keep.
    pub fn unsupported(self) -> Self {
        Self(self.0 & !Self::SUPPORTED)
    }
}

/// The metadata of one disk of a container (Intel's *MPB*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The version, behind the signature, with zeroes at its end.
    pub version: [u8; 8],
    /// The number that all disks of a container have; another is another container.
    pub family: u32,
    /// Counts each writing of the metadata.
    pub generation: u32,
    /// Bytes of a log of errors that nothing writes.
    pub error_log_size: u32,
    /// Where that begins.
    pub error_log_pos: u8,
    /// Features in use.
    pub attributes: ContainerAttributes,
    /// Mebibytes of a cache.
    pub cache_size: u32,
    /// The first family number that the container had; 0 if it is still the one that it has.
    pub original_family: u32,
    /// Counts starts.
    pub power_cycles: u32,
    /// Volumes that were ever made in it.
    pub volumes_created: u16,
    /// When it was made; 0 of mdadm's.
    pub created: u64,
    kept: KeptBytes<131>,
    /// All disks.
    pub disks: Vec<ContainerDisk>,
    /// All volumes.
    pub volumes: Vec<ContainerVolume>,
    /// Bytes between the volumes and the log of bad blocks.
    rest: Vec<u8>,
    /// The log of bad blocks, if there is one.
    pub defects: Option<Vec<DefectRange>>,
}

impl Container {
    /// A container of these numbers without disks and volumes.
    pub fn new(family: u32, generation: u32) -> Self {
        Self {
            version: *b"1.3.00\0\0",
            family,
            generation,
            error_log_size: 0,
            error_log_pos: 0,
            attributes: ContainerAttributes(0x8000_0000),
            cache_size: 0,
            original_family: family,
            power_cycles: 1,
            volumes_created: 0,
            created: 0,
            kept: KeptBytes::default(),
            disks: Vec::new(),
            volumes: Vec::new(),
            rest: Vec::new(),
            defects: None,
        }
    }

    /// Bytes of the metadata, by the first sector of it.
    ///
    /// # Errors
    /// [`ImsmError::Short`], [`ImsmError::NoSignature`], [`ImsmError::Size`].
    pub fn bytes(anchor: &[u8]) -> Result<usize, ImsmError> {
        let raw = head(anchor)?;
        let size = raw.mpb_size.get();
        let fits = |bytes: &usize| (HEAD_BYTES..=MAX_MPB_BYTES).contains(bytes);
        usize::try_from(size).ok().filter(fits).ok_or(ImsmError::Size { size })
    }

    /// Parses the metadata, from its anchor on, of a disk with sectors of `sector` bytes.
    ///
    /// # Errors
    /// Each kind of [`ImsmError`] but [`ImsmError::Unaligned`].
    pub fn parse(bytes: &[u8], sector: u64) -> Result<Self, ImsmError> {
        let len = Self::bytes(bytes)?;
        let short = ImsmError::Short { have: bytes.len(), need: len };
        let bytes = bytes.get(..len).ok_or(short)?;
        let raw = head(bytes)?;
        let expected = checksum(bytes);
        if raw.check_sum.get() != expected {
            return Err(ImsmError::Checksum { found: raw.check_sum.get(), expected });
        }
        let (_, mut rest) = bytes.split_at_checked(HEAD_BYTES).ok_or(ImsmError::Cut { what: "head" })?;
        let mut disks = Vec::with_capacity(usize::from(raw.num_disks).min(bytes.len()));
        for _ in 0..raw.num_disks {
            let (disk, behind) = ContainerDisk::parse(rest, sector)?;
            disks.push(disk);
            rest = behind;
        }
        let log = usize::try_from(raw.bbm_log_size.get()).ok().and_then(|log| rest.len().checked_sub(log));
        let log = log.ok_or(ImsmError::Cut { what: "log of bad blocks" })?;
        let (mut rest, log) =
            rest.split_at_checked(log).ok_or(ImsmError::Cut { what: "log of bad blocks" })?;
        let mut volumes = Vec::new();
        for _ in 0..raw.num_raid_devs {
            let (volume, behind) = ContainerVolume::parse(rest, sector)?;
            volumes.push(volume);
            rest = behind;
        }
        let defects = if log.is_empty() { None } else { Some(bad_blocks::parse(log, sector)?) };
        let mut kept = [0; 131];
        let from = [raw.fill].into_iter().chain(raw.filler1.to_bytes()).chain(raw.filler);
        kept.iter_mut().zip(from).for_each(|(to, byte)| *to = byte);
        Ok(Self {
            version: raw.version,
            family: raw.family_num.get(),
            generation: raw.generation_num.get(),
            error_log_size: raw.error_log_size.get(),
            error_log_pos: raw.error_log_pos,
            attributes: ContainerAttributes(raw.attributes.get()),
            cache_size: raw.cache_size.get(),
            original_family: raw.orig_family_num.get(),
            power_cycles: raw.pwr_cycle_count.get(),
            volumes_created: raw.num_raid_devs_created.get(),
            created: raw.creation_time.get(),
            kept: KeptBytes(kept),
            disks,
            volumes,
            rest: rest.to_vec(),
            defects,
        })
    }

    /// The bytes of the metadata on a disk with sectors of `sector` bytes.
    ///
    /// # Errors
    /// [`ImsmError::Unaligned`]: a place that is no multiple of a sector; [`ImsmError::TooLarge`]: a number that has no room;
    /// [`ImsmError::Size`].
    pub fn encode(&self, sector: u64) -> Result<Vec<u8>, ImsmError> {
        let mut bytes = vec![0; HEAD_BYTES];
        for disk in &self.disks {
            disk.encode(sector, &mut bytes)?;
        }
        for volume in &self.volumes {
            volume.encode(sector, &mut bytes)?;
        }
        bytes.extend_from_slice(&self.rest);
        let log = self.defects.as_ref().map(|defects| bad_blocks::encode(defects, sector)).transpose()?;
        let log = log.unwrap_or_default();
        bytes.extend_from_slice(&log);
        let large = |field| ImsmError::TooLarge { field };
        let size = u32::try_from(bytes.len()).map_err(|_| large("mpb_size"))?;
        if bytes.len() > MAX_MPB_BYTES {
            return Err(ImsmError::Size { size });
        }
        let mut kept = self.kept.0.into_iter();
        let mut next = || kept.next().unwrap_or(0);
        let raw = RawMpb {
            sig: *SIGNATURE,
            version: self.version,
            check_sum: U32::new(0),
            mpb_size: U32::new(size),
            family_num: U32::new(self.family),
            generation_num: U32::new(self.generation),
            error_log_size: U32::new(self.error_log_size),
            attributes: U32::new(self.attributes.0),
            num_disks: u8::try_from(self.disks.len()).map_err(|_| large("num_disks"))?,
            num_raid_devs: u8::try_from(self.volumes.len()).map_err(|_| large("num_raid_devs"))?,
            error_log_pos: self.error_log_pos,
            fill: next(),
            cache_size: U32::new(self.cache_size),
            orig_family_num: U32::new(self.original_family),
            pwr_cycle_count: U32::new(self.power_cycles),
            bbm_log_size: U32::new(u32::try_from(log.len()).map_err(|_| large("bbm_log_size"))?),
            num_raid_devs_created: U16::new(self.volumes_created),
            filler1: U16::from_bytes([next(), next()]),
            creation_time: U64::new(self.created),
            filler: core::array::from_fn(|_| next()),
        };
        bytes.iter_mut().zip(raw.as_bytes()).for_each(|(to, byte)| *to = *byte);
        let sum = checksum(&bytes).to_le_bytes();
        bytes.iter_mut().skip(SUM_AT).zip(sum).for_each(|(to, byte)| *to = byte);
        Ok(bytes)
    }

    /// The checksum that the metadata have on disk: disks of one state have the same.
    ///
    /// # Errors
    /// As of [`Container::encode`].
    pub fn check_sum(&self, sector: u64) -> Result<u32, ImsmError> {
        Ok(checksum(&self.encode(sector)?))
    }

    /// The disk is one of no volume: its own metadata says nothing else.
    pub fn is_spare(&self) -> bool {
        matches!(&self.disks[..], [disk] if disk.status.is_spare()) && self.volumes.is_empty()
    }

    /// The version as text.
    pub fn version_text(&self) -> String {
        let text = self.version.iter().take_while(|byte| **byte != 0);
        text.map(|byte| char::from(*byte)).collect()
    }
}

/// Byte of the metadata at which their checksum stands.
const SUM_AT: usize = 32;

/// The sum of all words but the checksum itself.
pub fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)));
    let others = words.enumerate().filter(|(at, _)| *at != SUM_AT / 4);
    others.fold(0, |sum, (_, word)| sum.wrapping_add(word))
}

fn head(bytes: &[u8]) -> Result<RawMpb, ImsmError> {
    let short = ImsmError::Short { have: bytes.len(), need: HEAD_BYTES };
    let (raw, _) = RawMpb::read_from_prefix(bytes).map_err(|_| short)?;
    if raw.sig == *SIGNATURE { Ok(raw) } else { Err(ImsmError::NoSignature) }
}

/// Joins the two halves of a number of sectors, and gives bytes.
fn bytes_of(low: U32, high: U32, sector: u64, field: &'static str) -> Result<u64, ImsmError> {
    let sectors = u64::from(high.get()).checked_shl(32).unwrap_or(0) | u64::from(low.get());
    sectors.checked_mul(sector).ok_or(ImsmError::TooLarge { field })
}

/// The two halves of the number of sectors that so many bytes are.
fn sectors_of(bytes: u64, sector: u64, field: &'static str) -> Result<(U32, U32), ImsmError> {
    let sectors = bytes.checked_div(sector).filter(|_| bytes.checked_rem(sector) == Some(0));
    let sectors = sectors.ok_or(ImsmError::Unaligned { field, bytes })?;
    Ok(halves(sectors))
}

fn halves(number: u64) -> (U32, U32) {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    (U32::from_bytes([a, b, c, d]), U32::from_bytes([e, f, g, h]))
}
