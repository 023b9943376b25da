//! The table of a container's disks.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ImsmError, KeptBytes, bytes_of, sectors_of};

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDisk {
    serial: [u8; 16],
    total_blocks_lo: U32,
    scsi_id: U32,
    status: U32,
    owner_cfg_num: U32,
    total_blocks_hi: U32,
    filler: [u8; 12],
}

const _: () = assert!(size_of::<RawDisk>() == 48);

/// The state of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatus(pub u32);

impl DiskStatus {
    /// Not in use by a volume.
    pub const SPARE: Self = Self(1);
    /// A member of each volume.
    pub const CONFIGURED: Self = Self(2);
    /// Out of use.
    pub const FAILED: Self = Self(4);
    /// It has the write journal of volumes.
    pub const JOURNAL: Self = Self(0x0200_0000);

    /// The disk is not in use by a volume.
    pub fn is_spare(self) -> bool {
        self.0 & Self::SPARE.0 != 0
    }

    /// The disk is a member of each volume.
    pub fn is_configured(self) -> bool {
        self.0 & Self::CONFIGURED.0 != 0
    }

    /// The disk is out of use.
    pub fn is_failed(self) -> bool {
        self.0 & Self::FAILED.0 != 0
    }

    /// The disk has the write journal of volumes.
    pub fn is_journal(self) -> bool {
        self.0 & Self::JOURNAL.0 != 0
    }
}

/// A disk of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDisk {
    /// Its serial number, or the last part of it, with zeroes at its end.
    pub serial: [u8; 16],
    /// Bytes of it, without those at its end that are kept free.
    pub size: u64,
    /// Its place on the bus; all ones if it is not there.
    pub scsi_id: u32,
    /// Its state.
    pub status: DiskStatus,
    /// The configuration that it came from.
    pub owner: u32,
    kept: KeptBytes<12>,
}

impl ContainerDisk {
    /// A disk of that serial number and size.
    pub fn new(serial: [u8; 16], size: u64, status: DiskStatus) -> Self {
        Self { serial, size, scsi_id: 0, status, owner: 0, kept: KeptBytes::default() }
    }

    pub(super) fn parse(bytes: &[u8], sector: u64) -> Result<(Self, &[u8]), ImsmError> {
        let (raw, rest) =
            RawDisk::read_from_prefix(bytes).map_err(|_| ImsmError::Cut { what: "table of disks" })?;
        let disk = Self {
            serial: raw.serial,
            size: bytes_of(raw.total_blocks_lo, raw.total_blocks_hi, sector, "total_blocks")?,
            scsi_id: raw.scsi_id.get(),
            status: DiskStatus(raw.status.get()),
            owner: raw.owner_cfg_num.get(),
            kept: KeptBytes(raw.filler),
        };
        Ok((disk, rest))
    }

    pub(super) fn encode(&self, sector: u64, to: &mut Vec<u8>) -> Result<(), ImsmError> {
        let (total_blocks_lo, total_blocks_hi) = sectors_of(self.size, sector, "total_blocks")?;
        let raw = RawDisk {
            serial: self.serial,
            total_blocks_lo,
            scsi_id: U32::new(self.scsi_id),
            status: U32::new(self.status.0),
            owner_cfg_num: U32::new(self.owner),
            total_blocks_hi,
            filler: self.kept.0,
        };
        to.extend_from_slice(raw.as_bytes());
        Ok(())
    }
}

/// A serial number or a name as text: up to its first zero, with what can't be shown written out.
pub fn serial_text(bytes: &[u8; 16]) -> String {
    let text: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}
