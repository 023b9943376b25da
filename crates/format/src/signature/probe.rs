//! Formats that take more than one magic number at one place to tell.

use super::sample::Samples;
use super::{Found, Signature, bare, zfs};
use crate::SECTOR;
use crate::md::{self, Endian, Version};

const KIB: u64 = 1 << 10;
/// Logical sector sizes of disks: some structures stand at a multiple of them.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// Finds all signatures that this module knows.
pub(super) fn find(device: &Samples<'_>) -> Vec<Found> {
    let mut found = gpt(device);
    found.extend(md_raid(device));
    let single = [ext, mbr, lvm_pv, zfs::find, imsm, ddf, drbd, bios_raid];
    found.extend(single.iter().filter_map(|probe| probe(device)));
    found
}

/// The magic number of ext is only 16 bits: the rest of its superblock must make sense too.
fn ext(device: &Samples<'_>) -> Option<Found> {
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
fn gpt(device: &Samples<'_>) -> Vec<Found> {
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
fn guid(device: &Samples<'_>, header: u64) -> Option<String> {
    let bytes = device.array(header.checked_add(56)?)?;
    Some(uuid::Uuid::from_bytes_le(bytes).to_string())
}

/// Boot sectors of file systems end in the same two bytes: a partition table has only 0x00 and 0x80 as boot flags and
/// at least a partition or a disk signature.
fn mbr(device: &Samples<'_>) -> Option<Found> {
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
fn lvm_pv(device: &Samples<'_>) -> Option<Found> {
    let label = (0..4u64)
        .map(|n| n.wrapping_mul(SECTOR))
        .find(|place| device.has(*place, b"LABELONE") && device.has(place.wrapping_add(24), b"LVM2 001"))?;
    let header = device.le32(label.checked_add(20)?)?;
    let uuid = device.text(label.checked_add(u64::from(header))?, 32).and_then(|text| lvm_uuid(&text));
    Some(Found { uuid, ..bare(Signature::LvmPv, label) })
}

/// A UUID with dashes, as LVM's tools write it; `None` if the text is not one.
fn lvm_uuid(text: &str) -> Option<String> {
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let dashes = [6, 10, 14, 18, 22, 26];
    let mut uuid = String::with_capacity(38);
    for (place, letter) in text.char_indices() {
        if dashes.contains(&place) {
            uuid.push('-');
        }
        uuid.push(letter);
    }
    Some(uuid)
}

/// Anchor in the last sector but one. A table of its disks, 48 bytes each, stands between it and the first array's name.
fn imsm(device: &Samples<'_>) -> Option<Found> {
    const FAMILY: u64 = 0x40;
    const DISK_COUNT: u64 = 0x38;
    const DISKS: u64 = 0xd8;
    let mut places = SECTOR_SIZES.iter().filter_map(|size| device.bytes.checked_sub(size.checked_mul(2)?));
    let place = places.find(|place| device.has(*place, b"Intel Raid ISM Cfg Sig. "))?;
    let field = |offset: u64| place.saturating_add(offset);
    let [disks, arrays] = device.array(field(DISK_COUNT)).unwrap_or_default();
    let name = field(DISKS.saturating_add(u64::from(disks).saturating_mul(48)));
    Some(Found {
        label: (arrays > 0).then(|| device.text(name, 16)).flatten(),
        uuid: device.le32(field(FAMILY)).map(|family| format!("{family:08x}")),
        ..bare(Signature::Imsm, place)
    })
}

/// Anchor header in the last sector; some of Adaptec's stand before 128 KiB of their own. The specification is
/// big-endian, but not all controllers are.
fn ddf(device: &Samples<'_>) -> Option<Found> {
    const MAGIC: u32 = 0xde11_de11;
    const GUID: u64 = 8;
    const ADAPTEC: u64 = 257 * SECTOR;
    let mut places =
        SECTOR_SIZES.into_iter().chain([ADAPTEC]).filter_map(|back| device.bytes.checked_sub(back));
    let place = places
        .find(|place| device.has(*place, &MAGIC.to_be_bytes()) || device.has(*place, &MAGIC.to_le_bytes()))?;
    let guid = device.at(place.saturating_add(GUID), 24).map(|guid| {
        let words =
            guid.chunks(4).map(|word| word.iter().map(|byte| format!("{byte:02X}")).collect::<String>());
        words.collect::<Vec<_>>().join(":")
    });
    Some(Found { uuid: guid, ..bare(Signature::Ddf, place) })
}

/// Internal metadata: a big-endian block in the last 4 KiB, one magic number for each version from 0.7 to 9. Old
/// versions did not round its place.
fn drbd(device: &Samples<'_>) -> Option<Found> {
    let ends = [device.bytes & !0xfff, device.bytes];
    let mut places = ends.into_iter().filter_map(|end| end.checked_sub(4 * KIB)?.checked_add(60));
    let known =
        |place: &u64| matches!(device.array(*place).map(u32::from_be_bytes), Some(0x8374_026a..=0x8374_026d));
    places.find(known).map(|place| bare(Signature::Drbd, place))
}

/// Controllers that keep their metadata a fixed distance from the end.
fn bios_raid(device: &Samples<'_>) -> Option<Found> {
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

/// Every version at its place. The magic number is enough: a damaged superblock still marks a member.
fn md_raid(device: &Samples<'_>) -> Vec<Found> {
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
