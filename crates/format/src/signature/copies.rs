//! Copies that formats keep of their superblocks: where they are, by what the first one says. Whoever erases a format erases these
//! first, else tools of the format find it again by one of them.

use super::sample::Samples;
use super::{Found, Sample, Signature};

/// Copies of a format that are looked for, at most.
const MOST: usize = 4096;
const KIB: u64 = 1 << 10;

/// A place where a copy may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its first byte on the device.
    pub offset: u64,
    /// Bytes that have to be erased.
    pub len: u64,
    /// Byte within it at which its magic number is,
    pub magic_at: u64,
    /// and that number. A copy without it is none, or one that was erased.
    pub magic: &'static [u8],
}

/// The places of copies of what was found on a device of `device_bytes`, of which `samples` holds what [`needed`](super::needed) asks
/// for. What was found itself is not among them, and all of them lie on the device.
pub fn copies(found: &Found, device_bytes: u64, samples: &[Sample<'_>]) -> Vec<Copy> {
    let device = Samples { bytes: device_bytes, samples };
    let mut all = of(found, &device).unwrap_or_default();
    let lies = |copy: &Copy| copy.offset.checked_add(copy.len).is_some_and(|end| end <= device_bytes);
    let is_other = |copy: &Copy| copy.offset.checked_add(copy.magic_at) != Some(found.offset);
    all.retain(|copy| lies(copy) && is_other(copy));
    all
}

fn sector(offset: u64, magic_at: u64, magic: &'static [u8]) -> Copy {
    Copy { offset, len: 512, magic_at, magic }
}

fn of(found: &Found, device: &Samples<'_>) -> Option<Vec<Copy>> {
    let behind = |back: u64| device.bytes.checked_sub(back);
    Some(match found.signature {
        Signature::Gpt => gpt(found, device)?,
        Signature::Ext => ext(device)?,
        Signature::Xfs => xfs(device)?,
        Signature::Btrfs => [64 << 20, 256 << 30, 1 << 50]
            .map(|offset| Copy { offset, len: 4 * KIB, magic_at: 64, magic: b"_BHRfS_M" })
            .into(),
        Signature::Ntfs => vec![sector(behind(512)? & !511, 3, b"NTFS    ")],
        Signature::Vfat => fat(device)?,
        Signature::ExFat => {
            let log = u32::from(*device.at(108, 1)?.first()?).clamp(9, 12);
            vec![sector(12u64.checked_shl(log)?, 3, b"EXFAT   ")]
        }
        // The second header stands behind the first, whose size it has.
        Signature::Luks => (14..=22).map(|log| sector(1 << log, 0, b"SKUL\xba\xbe")).collect(),
        Signature::F2fs => {
            vec![Copy { offset: 4 * KIB, len: 4 * KIB, magic_at: KIB, magic: b"\x10\x20\xf5\xf2" }]
        }
        Signature::Hfs => {
            [&b"H+"[..], b"HX"].map(|magic| sector(device.bytes.saturating_sub(KIB), 0, magic)).into()
        }
        Signature::Jfs => vec![Copy { offset: 60 * KIB, len: 4 * KIB, magic_at: 0, magic: b"JFS1" }],
        Signature::Nilfs2 => {
            let offset = (device.bytes & !0xfff).checked_sub(4 * KIB)?;
            vec![Copy { offset, len: KIB, magic_at: 6, magic: b"\x34\x34" }]
        }
        Signature::Ocfs2 => [30, 32, 34, 36, 38, 40]
            .map(|log| Copy { offset: 1 << log, len: 4 * KIB, magic_at: 0, magic: b"OCFSV2" })
            .into(),
        Signature::Bcachefs => bcachefs(device)?,
        Signature::Zfs => zfs(device),
        Signature::Pool => {
            let offset = crate::pool::second_label(device.bytes);
            vec![Copy { offset, len: crate::pool::CONFIG_BYTES as u64, magic_at: 0, magic: b"BRNDPOOL" }]
        }
        _ => Vec::new(),
    })
}

/// The other header is where this one says, which is not the end of a disk that has grown.
fn gpt(found: &Found, device: &Samples<'_>) -> Option<Vec<Copy>> {
    let other = u64::from_le_bytes(device.array(found.offset.checked_add(32)?)?);
    let at = |size: u64| other.checked_mul(size);
    Some([512, 4096].into_iter().filter_map(at).map(|offset| sector(offset, 0, b"EFI PART")).collect())
}

/// Copies begin block groups: each, or those whose number is 0, 1 or a power of 3, 5 or 7.
fn ext(device: &Samples<'_>) -> Option<Vec<Copy>> {
    const SUPER: u64 = 1024;
    let field = |at: u64| device.le32(SUPER.checked_add(at)?).map(u64::from);
    let block = KIB.checked_shl(u32::try_from(field(24)?).ok()?)?;
    let (first, each, blocks) = (field(20)?, field(32)?, field(4)?);
    let groups = blocks.saturating_sub(first).div_ceil(each.max(1));
    let power = |of: u64| (1..21).map_while(move |n| of.checked_pow(n));
    let mut numbers: Vec<u64> = if field(100)? & 1 == 0 {
        (1..groups).take(MOST).collect()
    } else {
        core::iter::once(1).chain([3, 5, 7].into_iter().flat_map(power)).collect()
    };
    // Two more, where there are no others.
    numbers.extend([field(588), field(592)].into_iter().flatten());
    numbers.retain(|&n| n > 0 && n < groups);
    let copy = |n: u64| {
        let offset = n.checked_mul(each)?.checked_add(first)?.checked_mul(block)?;
        Some(Copy { offset, len: KIB, magic_at: 56, magic: b"\x53\xef" })
    };
    Some(numbers.into_iter().filter_map(copy).collect())
}

/// One begins each allocation group.
fn xfs(device: &Samples<'_>) -> Option<Vec<Copy>> {
    let field = |at| device.array(at).map(|bytes| u64::from(u32::from_be_bytes(bytes)));
    let group = field(4)?.checked_mul(field(84)?)?;
    let groups = field(88)?.min(MOST as u64);
    Some((1..groups).filter_map(|n| group.checked_mul(n)).map(|at| sector(at, 0, b"XFSB")).collect())
}

/// FAT32 has a second boot sector.
fn fat(device: &Samples<'_>) -> Option<Vec<Copy>> {
    let bytes = u64::from(u16::from_le_bytes(device.array(11)?));
    let number = u64::from(u16::from_le_bytes(device.array(50)?));
    let has = device.has(82, b"FAT32") && number > 0 && number != 0xffff;
    Some(has.then(|| sector(bytes.saturating_mul(number), 82, b"FAT32")).into_iter().collect())
}

/// A list of all superblocks stands in sector 7.
fn bcachefs(device: &Samples<'_>) -> Option<Vec<Copy>> {
    const LAYOUT: u64 = 7 * 512;
    let count = u64::from(*device.at(LAYOUT.checked_add(18)?, 1)?.first()?).min(61);
    let place = |n: u64| {
        let at = LAYOUT.checked_add(24)?.checked_add(n.checked_mul(8)?)?;
        u64::from_le_bytes(device.array(at)?).checked_mul(512)
    };
    let magic = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    let copy = |offset| Copy { offset, len: 4 * KIB, magic_at: 24, magic };
    Some((0..count).filter_map(place).map(copy).collect())
}

/// Four labels, each with a list and uberblocks of 1 KiB or more, in the order of one machine or another.
fn zfs(device: &Samples<'_>) -> Vec<Copy> {
    const LABEL: u64 = 256 * KIB;
    let end = device.bytes & !LABEL.wrapping_sub(1);
    let labels = [end.checked_sub(LABEL), end.checked_sub(2 * LABEL), Some(LABEL), Some(0)];
    let label = |label: u64| {
        let at = move |offset: u64| label.saturating_add(offset);
        let rings = (128..256u64).flat_map(move |slot| {
            let uberblock =
                move |magic| Copy { offset: at(slot.saturating_mul(KIB)), len: KIB, magic_at: 0, magic };
            [&b"\x0c\xb1\xba\0\0\0\0\0"[..], b"\0\0\0\0\0\xba\xb1\x0c"].map(uberblock)
        });
        let list = [0, 1].map(|order| Copy {
            offset: at(16 * KIB),
            len: 4 * KIB,
            magic_at: 0,
            magic: if order == 0 { b"\x01\0\0\0" } else { b"\x01\x01\0\0" },
        });
        rings.chain(list)
    };
    labels.into_iter().flatten().flat_map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{detect, needed};
    use super::*;

    fn found(bytes: u64, disk: &[u8]) -> Vec<Copy> {
        let ranges = needed(bytes).into_iter();
        let ranges: Vec<(u64, &[u8])> = ranges.map(|(at, len)| (at, &disk[at as usize..][..len])).collect();
        let samples: Vec<Sample<'_>> =
            ranges.iter().map(|&(offset, bytes)| Sample { offset, bytes }).collect();
        detect(bytes, &samples).iter().flat_map(|one| copies(one, bytes, &samples)).collect()
    }

    fn places(copies: &[Copy]) -> Vec<u64> {
        copies.iter().map(|copy| copy.offset).collect()
    }

    #[test]
    fn a_guid_table_names_its_other_header_wherever_that_is() {
        let bytes = 8 << 20;
        let mut disk = vec![0; bytes as usize];
        disk[512..520].copy_from_slice(b"EFI PART");
        disk[544..552].copy_from_slice(&9000u64.to_le_bytes());
        assert_eq!(places(&found(bytes, &disk)), [9000 * 512], "as sectors of 4 KiB it is beyond the end");
    }

    #[test]
    fn ext_has_copies_in_groups_of_powers_and_of_a_list() {
        let bytes = 64 << 20;
        let mut disk = vec![0; bytes as usize];
        let mut field = |at: usize, value: u32| disk[1024 + at..][..4].copy_from_slice(&value.to_le_bytes());
        // Blocks of 1 KiB, 64 groups of 1024 from block 1 on.
        for (at, value) in [(4, 65536), (20, 1), (24, 0), (32, 1024), (100, 1), (592, 63)] {
            field(at, value);
        }
        disk[1080..1082].copy_from_slice(b"\x53\xef");
        let mut groups: Vec<u64> =
            places(&found(bytes, &disk)).iter().map(|at| (at / 1024 - 1) / 1024).collect();
        groups.sort_unstable();
        assert_eq!(groups, [1, 3, 5, 7, 9, 25, 27, 49, 63]);
    }

    #[test]
    fn places_beyond_the_device_and_sizes_that_overflow_are_none() {
        let bytes = 1 << 20;
        let mut disk = vec![0xff; bytes as usize];
        disk[..4].copy_from_slice(b"XFSB");
        disk[1080..1082].copy_from_slice(b"\x53\xef");
        disk[1048..1052].copy_from_slice(&[6, 0, 0, 0]);
        disk[65600..65608].copy_from_slice(b"_BHRfS_M");
        let copies = found(bytes, &disk);
        assert!(copies.iter().all(|copy| copy.offset + copy.len <= bytes), "{copies:?}");
    }
}
