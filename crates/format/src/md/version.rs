//! Metadata versions and where each keeps its superblock.

use core::fmt;
use core::str::FromStr;

use super::{SUPERBLOCK_BYTES, error::UnknownVersion};

/// Byte order of a 0.90 superblock: that of the host which wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first: x86, ARM, RISC-V.
    Little,
    /// Most significant byte first: older POWER, SPARC, MIPS, s390.
    Big,
}

/// Version of md metadata; it decides where the superblock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// 0.90: near the end of the device, in the byte order of its host, at most 27 devices.
    V0_90(Endian),
    /// 1.0: near the end of the device, data starts at 0.
    V1_0,
    /// 1.1: at the start of the device.
    V1_1,
    /// 1.2: 4 KiB from the start of the device; mdadm's default.
    V1_2,
}

/// Round 0.90 devices down to this and keep the superblock in the last whole one (`MD_RESERVED_BYTES`).
const RESERVED_0_90: u64 = 64 * 1024;

impl Version {
    /// Every version, in the order in which a device should be probed: newest and least ambiguous first.
    pub const ALL: [Self; 5] =
        [Self::V1_2, Self::V1_1, Self::V1_0, Self::V0_90(Endian::Little), Self::V0_90(Endian::Big)];

    /// Byte offset of the superblock on a device of `device_bytes`, or `None` if the device is too small to hold one.
    ///
    /// 0.90: the last whole 64 KiB block that is followed by less than another (`(size & !65535) - 65536`).
    /// 1.0: at least 8 KiB from the end, rounded down to 4 KiB.
    pub fn superblock_offset(self, device_bytes: u64) -> Option<u64> {
        let offset = match self {
            Self::V0_90(_) => (device_bytes & !(RESERVED_0_90 - 1)).checked_sub(RESERVED_0_90)?,
            Self::V1_0 => device_bytes.checked_sub(8192)? & !4095,
            Self::V1_1 => 0,
            Self::V1_2 => 4096,
        };
        let end = offset.checked_add(SUPERBLOCK_BYTES as u64)?;
        (end <= device_bytes).then_some(offset)
    }

    /// Bytes to read or write at [`superblock_offset`](Self::superblock_offset).
    pub fn superblock_bytes(self) -> usize {
        SUPERBLOCK_BYTES
    }

    /// Whether this is one of the 1.x versions.
    pub fn is_v1(self) -> bool {
        !matches!(self, Self::V0_90(_))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V0_90(_) => "0.90",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        })
    }
}

impl FromStr for Version {
    type Err = UnknownVersion;

    /// Reads `0.90`, `1.0`, `1.1` or `1.2`; a parsed 0.90 is little-endian, as every current host writes it.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        match text {
            "0.90" | "0.9" | "0" => Ok(Self::V0_90(Endian::Little)),
            "1.0" => Ok(Self::V1_0),
            "1.1" => Ok(Self::V1_1),
            "1.2" => Ok(Self::V1_2),
            _ => Err(UnknownVersion),
        }
    }
}

/// One place where a superblock may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Version to hand to [`Superblock::parse`](super::Superblock::parse) with the bytes found.
    pub version: Version,
    /// Byte offset on the device.
    pub offset: u64,
    /// Bytes to read at that place.
    pub len: usize,
}

/// Every place where a device of `device_bytes` may keep a superblock.
///
/// The caller reads each range and hands the bytes to [`Superblock::parse`](super::Superblock::parse). The two byte
/// orders of 0.90 share a place, so that range comes twice.
pub fn probe_offsets(device_bytes: u64) -> impl Iterator<Item = Probe> {
    Version::ALL.into_iter().filter_map(move |version| {
        let offset = version.superblock_offset(device_bytes)?;
        Some(Probe { version, offset, len: version.superblock_bytes() })
    })
}
