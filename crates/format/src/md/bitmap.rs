//! Write-intent bitmap: a superblock of 256 bytes, then one bit per chunk.
//!
//! After `bitmap_super_t` of the kernel's `drivers/md/md-bitmap.c`; everything is little-endian, except that the bits
//! of version 3 stand in words of the host's byte order.

use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Uuid;
use crate::SECTOR;

/// First word of a bitmap superblock: `bitm`.
pub const BITMAP_MAGIC: u32 = 0x6d74_6962;

/// Bytes of the superblock; the bits follow.
pub const BITMAP_SUPER_BYTES: usize = 256;

/// Seconds between two flushes of a write-intent bitmap.
pub const BITMAP_DAEMON_SLEEP: u32 = 5;

/// Version of a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BitmapVersion {
    /// 3: bits in words of the host's byte order.
    HostEndian,
    /// 4: bits in little-endian words. The usual one.
    LittleEndian,
    /// 5: one bitmap for each node of a cluster, one behind the other.
    Clustered,
    /// 6: the lockless bitmap (kernels from 6.18): a byte of state per chunk, not a bit.
    Lockless,
}

impl BitmapVersion {
    /// The number on disk.
    pub const fn number(self) -> u32 {
        match self {
            Self::HostEndian => 3,
            Self::LittleEndian => 4,
            Self::Clustered => 5,
            Self::Lockless => 6,
        }
    }

    const fn from_number(number: u32) -> Option<Self> {
        match number {
            3 => Some(Self::HostEndian),
            4 => Some(Self::LittleEndian),
            5 => Some(Self::Clustered),
            6 => Some(Self::Lockless),
            _ => None,
        }
    }
}

/// State bits of a bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BitmapState(pub u32);

impl BitmapState {
    /// Out of date, or could not be read: every bit counts as set.
    pub const STALE: Self = Self(1 << 1);
    /// A write of the bitmap failed.
    pub const WRITE_ERROR: Self = Self(1 << 2);
    /// Lockless: not yet initialised by the kernel.
    pub const FIRST_USE: Self = Self(1 << 3);
    /// Lockless: the array was created as clean.
    pub const CLEAN: Self = Self(1 << 4);

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why bytes are no bitmap superblock that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BitmapError {
    /// Fewer bytes than the superblock has.
    #[error("bitmap superblock is cut short: {have} bytes, {BITMAP_SUPER_BYTES} needed")]
    Short {
        /// Bytes given.
        have: usize,
    },
    /// The magic number is missing.
    #[error("no write-intent bitmap here")]
    NoMagic,
    /// A version that is not known.
    #[error("write-intent bitmap has the unknown version {0}")]
    UnknownVersion(u32),
    /// A value that no bitmap can have.
    #[error("bitmap field {field} has the impossible value {value}")]
    Impossible {
        /// The field's name in the documentation of the format.
        field: &'static str,
        /// Raw value on disk.
        value: u64,
    },
}

/// `bitmap_super_t`.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    version: U32,
    uuid: [u8; 16],
    events: U64,
    events_cleared: U64,
    sync_size: U64,
    state: U32,
    chunksize: U32,
    daemon_sleep: U32,
    write_behind: U32,
    sectors_reserved: U32,
    nodes: U32,
    cluster_name: [u8; 64],
    pad: [u8; 120],
}

const _: () = assert!(size_of::<Raw>() == BITMAP_SUPER_BYTES);

/// Superblock of a write-intent bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitmapSuper {
    /// Version: how the bits are kept.
    pub version: BitmapVersion,
    /// UUID of the array: see [`Superblock::bitmap_uuid`](super::Superblock::bitmap_uuid).
    pub uuid: Uuid,
    /// Event count at which the bitmap was last written.
    pub events: u64,
    /// Event count up to which cleared bits count: a member older than this needs a full recovery.
    pub events_cleared: u64,
    /// Bytes that the bitmap covers: the component, or for RAID 10 the whole array.
    pub sync_bytes: u64,
    /// State bits.
    pub state: BitmapState,
    /// Bytes that one bit stands for; a power of two of at least 512.
    pub chunk: u64,
    /// Seconds between two flushes of the bitmap.
    pub daemon_sleep: u32,
    /// Writes that may be under way to write-mostly members after acknowledgement; 0: none.
    pub write_behind: u32,
    /// Bytes reserved for the bitmap; 0 if not recorded.
    pub reserved_bytes: u64,
    /// Nodes of the cluster (version 5), else 0.
    pub nodes: u32,
    /// Name of the cluster (version 5), zero-filled.
    pub cluster_name: [u8; 64],
}

impl BitmapSuper {
    /// The superblock of a new bitmap over `sync_bytes`, as mdadm makes it, for an array at this event count.
    pub fn new(uuid: Uuid, events: u64, sync_bytes: u64, chunk: u64) -> Self {
        Self {
            version: BitmapVersion::LittleEndian,
            uuid,
            events,
            events_cleared: events,
            sync_bytes,
            state: BitmapState::default(),
            chunk,
            daemon_sleep: BITMAP_DAEMON_SLEEP,
            write_behind: 0,
            reserved_bytes: 0,
            nodes: 0,
            cluster_name: [0; 64],
        }
    }

    /// Reads a bitmap superblock.
    ///
    /// # Errors
    ///
    /// [`BitmapError::NoMagic`] if there is none. If it cannot be trusted: [`BitmapError::Short`],
    /// [`BitmapError::UnknownVersion`], [`BitmapError::Impossible`]. The checks are the kernel's.
    pub fn parse(bytes: &[u8]) -> Result<Self, BitmapError> {
        let (raw, _) = Raw::ref_from_prefix(bytes).map_err(|_| BitmapError::Short { have: bytes.len() })?;
        if raw.magic.get() != BITMAP_MAGIC {
            return Err(BitmapError::NoMagic);
        }
        let number = raw.version.get();
        let version = BitmapVersion::from_number(number).ok_or(BitmapError::UnknownVersion(number))?;
        let chunk = raw.chunksize.get();
        if !chunk.is_power_of_two() || u64::from(chunk) < SECTOR {
            return Err(BitmapError::Impossible { field: "chunksize", value: u64::from(chunk) });
        }
        let sync_size = raw.sync_size.get();
        let sync_bytes = sync_size
            .checked_mul(SECTOR)
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or(BitmapError::Impossible { field: "sync_size", value: sync_size })?;
        Ok(Self {
            version,
            uuid: Uuid::from_bytes(raw.uuid),
            events: raw.events.get(),
            events_cleared: raw.events_cleared.get(),
            sync_bytes,
            state: BitmapState(raw.state.get()),
            chunk: u64::from(chunk),
            daemon_sleep: raw.daemon_sleep.get(),
            write_behind: raw.write_behind.get(),
            reserved_bytes: u64::from(raw.sectors_reserved.get()).saturating_mul(SECTOR),
            nodes: raw.nodes.get(),
            cluster_name: raw.cluster_name,
        })
    }

    /// The 256 bytes of the superblock; `None` if a size is not a whole number of sectors or does not fit its field.
    pub fn encode(&self) -> Option<[u8; BITMAP_SUPER_BYTES]> {
        let sectors = |bytes: u64| (bytes.checked_rem(SECTOR) == Some(0)).then_some(bytes / SECTOR);
        Some(zerocopy::transmute!(Raw {
            magic: U32::new(BITMAP_MAGIC),
            version: U32::new(self.version.number()),
            uuid: self.uuid.into_bytes(),
            events: U64::new(self.events),
            events_cleared: U64::new(self.events_cleared),
            sync_size: U64::new(sectors(self.sync_bytes)?),
            state: U32::new(self.state.0),
            chunksize: U32::new(u32::try_from(self.chunk).ok()?),
            daemon_sleep: U32::new(self.daemon_sleep),
            write_behind: U32::new(self.write_behind),
            sectors_reserved: U32::new(u32::try_from(sectors(self.reserved_bytes)?).ok()?),
            nodes: U32::new(self.nodes),
            cluster_name: self.cluster_name,
            pad: [0; 120],
        }))
    }

    /// Bits (bytes of state in version 6) of the bitmap.
    pub fn bits(&self) -> u64 {
        bits_needed(self.sync_bytes, self.chunk).unwrap_or(0)
    }
}

/// Bits for a bitmap over `sync_bytes` with `chunk` bytes to a bit; `None` if `chunk` is 0.
pub fn bits_needed(sync_bytes: u64, chunk: u64) -> Option<u64> {
    (chunk != 0).then(|| sync_bytes.div_ceil(chunk))
}

/// Bytes for superblock and bits; `None` if `chunk` is 0.
pub fn bytes_needed(sync_bytes: u64, chunk: u64) -> Option<u64> {
    bits_needed(sync_bytes, chunk)?.div_ceil(8).checked_add(BITMAP_SUPER_BYTES as u64)
}
