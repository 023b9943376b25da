//! Formats that a magic number at a fixed place tells, with label and UUID at fixed places.

use super::sample::Samples;
use super::{Found, Signature};

/// How a format keeps its label or UUID.
#[derive(Clone, Copy)]
enum Field {
    /// Nowhere, or nowhere simple.
    None,
    /// Text: its length in bytes and its offset.
    Text(u64, usize),
    /// UTF-16 text: its length in units and its offset.
    Text16(u64, usize),
    /// A UUID of 16 bytes.
    Uuid(u64),
    /// A serial number of four bytes, written as `1234-ABCD`.
    Serial(u64),
    /// A serial number of eight bytes, written as `0123456789ABCDEF`.
    LongSerial(u64),
}

struct Magic {
    signature: Signature,
    offset: u64,
    magic: &'static [u8],
    label: Field,
    uuid: Field,
}

const fn plain(signature: Signature, offset: u64, magic: &'static [u8]) -> Magic {
    Magic { signature, offset, magic, label: Field::None, uuid: Field::None }
}

const fn named(signature: Signature, offset: u64, magic: &'static [u8], label: Field, uuid: Field) -> Magic {
    Magic { signature, offset, magic, label, uuid }
}

/// Absolute places; superblocks at 1024, 4096, 32768 and 65536 are written as a sum.
const MAGICS: &[Magic] = &[
    named(Signature::Xfs, 0, b"XFSB", Field::Text(108, 12), Field::Uuid(32)),
    named(Signature::Btrfs, 65536 + 64, b"_BHRfS_M", Field::Text(65536 + 299, 256), Field::Uuid(65536 + 32)),
    named(Signature::Luks, 0, b"LUKS\xba\xbe\x00\x01", Field::None, Field::Text(168, 40)),
    named(Signature::Luks, 0, b"LUKS\xba\xbe\x00\x02", Field::Text(24, 48), Field::Text(168, 40)),
    named(Signature::Swap, 4096 - 10, b"SWAPSPACE2", Field::Text(1024 + 28, 16), Field::Uuid(1024 + 12)),
    named(Signature::Swap, 8192 - 10, b"SWAPSPACE2", Field::Text(1024 + 28, 16), Field::Uuid(1024 + 12)),
    named(Signature::Swap, 16384 - 10, b"SWAPSPACE2", Field::Text(1024 + 28, 16), Field::Uuid(1024 + 12)),
    named(Signature::Swap, 65536 - 10, b"SWAPSPACE2", Field::Text(1024 + 28, 16), Field::Uuid(1024 + 12)),
    plain(Signature::Swap, 4096 - 10, b"SWAP-SPACE"),
    named(Signature::Ntfs, 3, b"NTFS    ", Field::None, Field::LongSerial(72)),
    plain(Signature::Refs, 0, b"\0\0\0ReFS\0"),
    named(Signature::Vfat, 82, b"FAT32", Field::Text(71, 11), Field::Serial(67)),
    named(Signature::Vfat, 54, b"FAT16", Field::Text(43, 11), Field::Serial(39)),
    named(Signature::Vfat, 54, b"FAT12", Field::Text(43, 11), Field::Serial(39)),
    named(Signature::ExFat, 3, b"EXFAT   ", Field::None, Field::Serial(100)),
    named(
        Signature::Pool,
        crate::pool::LABEL,
        b"BRNDPOOL",
        Field::Text(crate::pool::LABEL + 72, 64),
        Field::Uuid(crate::pool::LABEL + 16),
    ),
    plain(Signature::BitLocker, 3, b"-FVE-FS-"),
    plain(Signature::Squashfs, 0, b"hsqs"),
    plain(Signature::Squashfs, 0, b"sqsh"),
    named(Signature::Erofs, 1024, b"\xe2\xe1\xf5\xe0", Field::Text(1024 + 64, 16), Field::Uuid(1024 + 48)),
    named(Signature::Iso9660, 32768 + 1, b"CD001", Field::Text(32768 + 40, 32), Field::None),
    plain(Signature::Udf, 32768 + 1, b"BEA01"),
    named(
        Signature::F2fs,
        1024,
        b"\x10\x20\xf5\xf2",
        Field::Text16(1024 + 124, 512),
        Field::Uuid(1024 + 108),
    ),
    named(Signature::Reiserfs, 65536 + 52, b"ReIsErFs", Field::None, Field::None),
    named(
        Signature::Reiserfs,
        65536 + 52,
        b"ReIsEr2Fs",
        Field::Text(65536 + 100, 16),
        Field::Uuid(65536 + 84),
    ),
    named(
        Signature::Reiserfs,
        65536 + 52,
        b"ReIsEr3Fs",
        Field::Text(65536 + 100, 16),
        Field::Uuid(65536 + 84),
    ),
    plain(Signature::Reiserfs, 65536, b"ReIsEr4\0"),
    named(Signature::Gfs2, 65536, b"\x01\x16\x19\x70\0\0\0\x01", Field::None, Field::Uuid(65536 + 256)),
    plain(Signature::Ocfs2, 1024, b"OCFSV2"),
    plain(Signature::Ocfs2, 2048, b"OCFSV2"),
    plain(Signature::Ocfs2, 4096, b"OCFSV2"),
    plain(Signature::Ocfs2, 8192, b"OCFSV2"),
    named(
        Signature::Nilfs2,
        1024,
        b"\x02\0\0\0\0\0\x34\x34",
        Field::Text(1024 + 168, 80),
        Field::Uuid(1024 + 152),
    ),
    plain(Signature::Ufs, 8192 + 1372, b"\x54\x19\x01\0"),
    plain(Signature::Ufs, 65536 + 1372, b"\x19\x01\x54\x19"),
    plain(Signature::BiosRaid, 4608 + 32, b"\xf0\x16\x78\x5a"),
    plain(Signature::BiosRaid, 4608 + 32, b"\xfd\x16\x78\x5a"),
    named(Signature::Jfs, 32768, b"JFS1", Field::Text(32768 + 152, 16), Field::Uuid(32768 + 136)),
    named(Signature::Apfs, 32, b"NXSB", Field::None, Field::Uuid(72)),
    plain(Signature::Hfs, 1024, b"H+\x00\x04"),
    plain(Signature::Hfs, 1024, b"HX\x00\x05"),
    named(
        Signature::Bcache,
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        Field::Text(4096 + 72, 32),
        Field::Uuid(4096 + 40),
    ),
    named(
        Signature::Bcachefs,
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        Field::Text(4096 + 72, 32),
        Field::Uuid(4096 + 56),
    ),
    plain(Signature::Stratis, 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    plain(Signature::Stratis, 4608 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    plain(Signature::DmIntegrity, 0, b"integrt\0"),
    named(Signature::DmVerity, 0, b"verity\0\0", Field::None, Field::Uuid(16)),
    plain(Signature::Vdo, 0, b"dmvdo001"),
    named(Signature::BlueStore, 0, b"bluestore block device\n", Field::None, Field::Text(23, 36)),
    named(Signature::OracleAsm, 32, b"ORCLDISK", Field::Text(40, 24), Field::None),
    plain(Signature::Vmfs, 1 << 20, b"\x0d\xd0\x01\xc0"),
];

/// Everything in the table that stands on the device.
pub(super) fn find(device: &Samples<'_>) -> Vec<Found> {
    let present = MAGICS.iter().filter(|m| device.has(m.offset, m.magic));
    present
        .map(|m| Found {
            signature: m.signature,
            offset: m.offset,
            label: read(device, m.label),
            uuid: read(device, m.uuid),
        })
        .collect()
}

fn read(device: &Samples<'_>, field: Field) -> Option<String> {
    match field {
        Field::None => None,
        Field::Text(offset, len) => device.text(offset, len),
        Field::Text16(offset, units) => device.text16(offset, units),
        Field::Uuid(offset) => device.uuid(offset),
        Field::Serial(offset) => {
            let serial = device.le32(offset)?;
            Some(format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff))
        }
        Field::LongSerial(offset) => {
            device.array(offset).map(|bytes| format!("{:016X}", u64::from_le_bytes(bytes)))
        }
    }
}
