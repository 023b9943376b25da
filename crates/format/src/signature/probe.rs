//! Formats that take more than one magic number at one place to tell.

use super::window::Device;
use super::{Found, Signature};
use crate::SECTOR;
use crate::md::{self, Endian, Version};

const KIB: u64 = 1 << 10;
/// Logical sector sizes of disks: some structures stand at a multiple of them.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// Everything that this module can tell of the device.
pub(super) fn find(device: &Device<'_>) -> Vec<Found> {
    let mut found = gpt(device);
    found.extend(md_raid(device));
    let single = [ext, mbr, lvm_pv, zfs, imsm, ddf, drbd, bios_raid];
    found.extend(single.iter().filter_map(|probe| probe(device)));
    found
}

fn bare(signature: Signature, offset: u64) -> Found {
    Found { signature, offset, label: None, uuid: None }
}

/// The magic number of ext is only 16 bits: the rest of its superblock must make sense too.
fn ext(device: &Device<'_>) -> Option<Found> {
    const SUPER: u64 = 1024;
    let magic = SUPER.wrapping_add(56);
    let log_block_size = device.le32(SUPER.wrapping_add(24))?;
    let blocks = device.le32(SUPER.wrapping_add(4))?;
    let plausible = log_block_size <= 6 && blocks != 0;
    (device.has(magic, &[0x53, 0xef]) && plausible).then(|| Found {
        label: device.text(SUPER.wrapping_add(120), 16),
        uuid: device.uuid(SUPER.wrapping_add(104)),
        ..bare(Signature::Ext, magic)
    })
}

/// Header in the second sector, its backup in the last.
fn gpt(device: &Device<'_>) -> Vec<Found> {
    let backups = SECTOR_SIZES.iter().filter_map(|size| {
        let sectors = device.bytes.checked_div(*size)?;
        sectors.checked_sub(1)?.checked_mul(*size)
    });
    let places = SECTOR_SIZES.iter().copied().chain(backups);
    places
        .filter(|place| device.has(*place, b"EFI PART"))
        .map(|place| Found { uuid: guid(device, place), ..bare(Signature::Gpt, place) })
        .collect()
}

/// Disk GUID of a GPT header: its first three fields are little-endian.
fn guid(device: &Device<'_>, header: u64) -> Option<String> {
    let bytes = device.array(header.checked_add(56)?)?;
    Some(uuid::Uuid::from_bytes_le(bytes).to_string())
}

/// Boot sectors of file systems end in the same two bytes: a partition table has only 0x00 and 0x80 as boot flags and
/// at least a partition or a disk signature.
fn mbr(device: &Device<'_>) -> Option<Found> {
    let sector = device.at(0, 512)?;
    let fat_or_ntfs =
        [(3, &b"NTFS    "[..]), (3, b"EXFAT   "), (54, b"FAT1"), (82, b"FAT32"), (3, b"-FVE-FS-")];
    if !sector.ends_with(&[0x55, 0xaa]) || fat_or_ntfs.iter().any(|(at, magic)| device.has(*at, magic)) {
        return None;
    }
    let entries = sector.get(446..510)?.chunks_exact(16);
    let valid = entries.clone().all(|e| matches!(e.first(), Some(0 | 0x80)));
    let any = entries.clone().any(|e| e.get(4).is_some_and(|kind| *kind != 0));
    let id = device.le32(440)?;
    (valid && (any || id != 0))
        .then(|| Found { uuid: (id != 0).then(|| format!("{id:08x}")), ..bare(Signature::Mbr, 510) })
}

/// A label in one of the first four sectors; it says where the physical volume's UUID stands.
fn lvm_pv(device: &Device<'_>) -> Option<Found> {
    let label = (0..4u64)
        .map(|n| n.wrapping_mul(SECTOR))
        .find(|place| device.has(*place, b"LABELONE") && device.has(place.wrapping_add(24), b"LVM2 001"))?;
    let header = device.le32(label.checked_add(20)?)?;
    let uuid = device.text(label.checked_add(u64::from(header))?, 32).filter(|u| u.is_ascii());
    Some(Found { uuid, ..bare(Signature::LvmPv, label) })
}

/// Four labels of 256 KiB, two at either end; the second half of each is a ring of uberblocks of at least 1 KiB.
fn zfs(device: &Device<'_>) -> Option<Found> {
    const LABEL: u64 = 256 * KIB;
    let end = device.bytes & !LABEL.wrapping_sub(1);
    let labels = [Some(0), end.checked_sub(LABEL), end.checked_sub(2 * LABEL)];
    let slots = labels
        .into_iter()
        .flatten()
        .flat_map(|label| (128..256u64).map(move |kib| label.saturating_add(kib.wrapping_mul(KIB))));
    let magic = 0x00ba_b10c_u64;
    let mut hits = slots
        .filter(|slot| device.has(*slot, &magic.to_le_bytes()) || device.has(*slot, &magic.to_be_bytes()));
    hits.next().map(|slot| bare(Signature::Zfs, slot))
}

/// Anchor in the last sector but one.
fn imsm(device: &Device<'_>) -> Option<Found> {
    let places = SECTOR_SIZES.iter().filter_map(|size| device.bytes.checked_sub(size.checked_mul(2)?));
    let place = places.into_iter().find(|place| device.has(*place, b"Intel Raid ISM Cfg Sig. "))?;
    Some(bare(Signature::Imsm, place))
}

/// Anchor header in the last sector.
fn ddf(device: &Device<'_>) -> Option<Found> {
    let places = SECTOR_SIZES.iter().filter_map(|size| device.bytes.checked_sub(*size));
    let place = places.into_iter().find(|place| device.has(*place, &0xde11_de11_u32.to_be_bytes()))?;
    Some(bare(Signature::Ddf, place))
}

/// Internal metadata: a big-endian block in the last 4 KiB, one magic number for each version from 0.7 to 9. Old
/// versions did not round its place.
fn drbd(device: &Device<'_>) -> Option<Found> {
    let ends = [device.bytes & !0xfff, device.bytes];
    let mut places = ends.into_iter().filter_map(|end| end.checked_sub(4 * KIB)?.checked_add(60));
    let known =
        |place: &u64| matches!(device.array(*place).map(u32::from_be_bytes), Some(0x8374_026a..=0x8374_026d));
    places.find(known).map(|place| bare(Signature::Drbd, place))
}

/// Controllers that keep their metadata so many bytes from the end.
fn bios_raid(device: &Device<'_>) -> Option<Found> {
    const PROMISE: &[u8] = b"Promise Technology, Inc.";
    const PROMISE_SECTORS: [u64; 12] = [63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951];
    const OTHERS: [(u64, &[u8]); 5] = [
        (512, b"$XIDE$"),
        (1024, b"NVIDIA  "),
        (256, b"DPTM"),
        (11 * 512, b"\xf3\x16\x78\x5a"),
        (11 * 512, b"\xfd\x16\x78\x5a"),
    ];
    let promise = PROMISE_SECTORS.iter().map(|back| (back.saturating_mul(SECTOR), PROMISE));
    let mut places =
        promise.chain(OTHERS).filter_map(|(back, magic)| Some((device.bytes.checked_sub(back)?, magic)));
    places.find(|(place, magic)| device.has(*place, magic)).map(|(place, _)| bare(Signature::BiosRaid, place))
}

/// Every version at its place. The magic number is enough: a damaged superblock is still somebody's.
fn md_raid(device: &Device<'_>) -> Vec<Found> {
    let present = md::probe_offsets(device.bytes).filter(|probe| {
        let little = probe.version != Version::V0_90(Endian::Big);
        let word = |n: u32| if little { n.to_le_bytes() } else { n.to_be_bytes() };
        let major = u32::from(probe.version.is_v1());
        device.has(probe.offset, &word(md::MAGIC)) && device.has(probe.offset.saturating_add(4), &word(major))
    });
    present
        .map(|probe| {
            let bytes = device.at(probe.offset, probe.len).unwrap_or_default();
            let read = md::Superblock::parse(probe.version, bytes, device.bytes).ok();
            Found {
                label: read.as_ref().map(|sb| sb.name.clone()).filter(|name| !name.is_empty()),
                uuid: read.map(|sb| md::display_uuid(sb.set_uuid).to_string()),
                ..bare(Signature::MdRaid, probe.offset)
            }
        })
        .collect()
}
