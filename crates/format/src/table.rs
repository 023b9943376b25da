//! The partition table of a disk that is a member: a GUID table (UEFI specification, chapter 5) with one partition of a type of its own.
//!
//! It stands where the pool leaves a disk alone, at either end. Installers, partitioners and `blkid` see by it that the disk is in use.
//! The pool itself never reads it.

use uuid::Uuid;

use crate::pool::LEFT_ALONE;
use crate::signature::partitions::crc32;

/// The type of the partition.
pub const TYPE: Uuid = Uuid::from_u128(0x43e4_d00b_a67f_4518_8936_3cb2_aaa1_1432);
/// Its name.
const NAME: &str = "Brindle pool member";
/// Entries of a table, and bytes of each.
const ENTRIES: usize = 128;
const ENTRY: usize = 128;
const TABLE: usize = ENTRIES * ENTRY;
/// Bytes of a header that count, and where they hold checksums.
const HEADER: usize = 92;
const HEADER_SUM: usize = 16;

/// A part of a table: the byte of the disk at which it begins, and its bytes.
pub type Part = (u64, Vec<u8>);

/// Sectors of entries.
fn entry_sectors(sector: u64) -> u64 {
    (TABLE as u64).div_ceil(sector.max(512))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

/// The table of a disk of `bytes` bytes with logical sectors of `sector`: its parts in the order in which they are to be written, so that
/// a power cut leaves none that counts or all of it. Nothing if the disk is too small for one.
pub fn table(bytes: u64, sector: u64, disk: Uuid, partition: Uuid) -> Vec<Part> {
    let sectors = bytes.checked_div(sector).unwrap_or(0);
    let behind = entry_sectors(sector).saturating_add(1);
    let room = bytes & !0xfff;
    let (Some(last), Some(end)) = (sectors.checked_sub(1), room.checked_sub(LEFT_ALONE)) else {
        return Vec::new();
    };
    if end <= LEFT_ALONE || !matches!(sector, 512 | 4096) {
        return Vec::new();
    }
    let count = |bytes: u64| bytes.checked_div(sector).unwrap_or(0);
    let (first, end) = (count(LEFT_ALONE), count(end));
    let entries = entries(first, end.saturating_sub(1), partition);
    let header = |here: u64, other: u64, at: u64| {
        let usable = (behind.saturating_add(1), sectors.saturating_sub(behind).saturating_sub(1));
        header(&entries, disk, [here, other], usable, at, sector)
    };
    let backup = last.saturating_sub(entry_sectors(sector));
    vec![
        (backup.saturating_mul(sector), entries.clone()),
        (last.saturating_mul(sector), header(last, 1, backup)),
        (sector.saturating_mul(2), entries.clone()),
        (sector, header(1, last, 2)),
        (0, protective(sectors, sector)),
    ]
}

/// The entries: one that is used.
fn entries(first: u64, last: u64, partition: Uuid) -> Vec<u8> {
    let mut entries = vec![0; TABLE];
    put(&mut entries, 0, &TYPE.to_bytes_le());
    put(&mut entries, 16, &partition.to_bytes_le());
    put(&mut entries, 32, &first.to_le_bytes());
    put(&mut entries, 40, &last.to_le_bytes());
    let name: Vec<u8> = NAME.encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(&mut entries, 56, &name);
    entries
}

/// A header in its sector: where it and the other one are, the sectors that partitions may take, and where its entries are.
fn header(
    entries: &[u8],
    disk: Uuid,
    [here, other]: [u64; 2],
    usable: (u64, u64),
    at: u64,
    sector: u64,
) -> Vec<u8> {
    let mut header = vec![0; usize::try_from(sector).unwrap_or(512)];
    put(&mut header, 0, b"EFI PART");
    put(&mut header, 8, &0x0001_0000u32.to_le_bytes());
    put(&mut header, 12, &(HEADER as u32).to_le_bytes());
    put(&mut header, 24, &here.to_le_bytes());
    put(&mut header, 32, &other.to_le_bytes());
    put(&mut header, 40, &usable.0.to_le_bytes());
    put(&mut header, 48, &usable.1.to_le_bytes());
    put(&mut header, 56, &disk.to_bytes_le());
    put(&mut header, 72, &at.to_le_bytes());
    put(&mut header, 80, &(ENTRIES as u32).to_le_bytes());
    put(&mut header, 84, &(ENTRY as u32).to_le_bytes());
    put(&mut header, 88, &crc32(entries).to_le_bytes());
    let sum = crc32(header.get(..HEADER).unwrap_or_default());
    put(&mut header, HEADER_SUM, &sum.to_le_bytes());
    header
}

/// The DOS table before it, which says that all of the disk is taken.
fn protective(sectors: u64, sector: u64) -> Vec<u8> {
    let mut first = vec![0; usize::try_from(sector).unwrap_or(512)];
    let len = u32::try_from(sectors.saturating_sub(1)).unwrap_or(u32::MAX);
    // From cylinder 0, head 0, sector 2 to the last that can be said.
    put(&mut first, 446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    put(&mut first, 458, &len.to_le_bytes());
    put(&mut first, 510, &[0x55, 0xaa]);
    first
}

/// Whether a disk whose first bytes these are has such a table, and no other partition.
pub fn is_own(head: &[u8], sector: u64) -> bool {
    let Ok(sector) = usize::try_from(sector) else { return false };
    let header = head.get(sector..).unwrap_or_default();
    let entries = head.get(sector.saturating_mul(2)..).and_then(|rest| rest.get(..TABLE));
    let Some((first, others)) = entries.and_then(|entries| entries.split_at_checked(ENTRY)) else {
        return false;
    };
    header.starts_with(b"EFI PART")
        && first.starts_with(&TYPE.to_bytes_le())
        && others.iter().all(|b| *b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::partitions::{Listing, list};
    use crate::signature::{Sample, Signature, detect};

    fn disk(bytes: u64, sector: u64) -> Vec<u8> {
        let mut disk = vec![0; bytes as usize];
        for (at, part) in table(bytes, sector, Uuid::from_u128(1), Uuid::from_u128(2)) {
            disk[at as usize..][..part.len()].copy_from_slice(&part);
        }
        disk
    }

    #[test]
    fn a_table_stands_where_the_pool_leaves_the_disk_alone_and_covers_the_rest() {
        for sector in [512, 4096] {
            // Not a multiple of 4 KiB where sectors are smaller.
            let bytes = (8 << 20) + sector;
            let disk = disk(bytes, sector);
            assert!(
                disk[LEFT_ALONE as usize..][..(8 << 20) - 2 * LEFT_ALONE as usize].iter().all(|b| *b == 0)
            );
            let sample = [Sample { offset: 0, bytes: &disk }];
            let Listing::Partitions(found) = list(bytes, sector, &sample) else { panic!("all is known") };
            assert_eq!(found.len(), 1);
            let end = (bytes & !0xfff) - LEFT_ALONE;
            assert_eq!((found[0].start, found[0].end), (LEFT_ALONE, end));
            let places = detect(bytes, &sample);
            let places: Vec<_> = places.iter().map(|found| (found.signature, found.offset)).collect();
            let all = [(Signature::Mbr, 510), (Signature::Gpt, sector), (Signature::Gpt, bytes - sector)];
            assert_eq!(places, all);
            assert!(is_own(&disk[..LEFT_ALONE as usize], sector));
        }
    }

    #[test]
    fn each_header_counts_without_the_other() {
        let bytes = 4 << 20;
        for lost in [512, bytes - 512] {
            let mut disk = disk(bytes, 512);
            disk[lost as usize..][..512].fill(0);
            let Listing::Partitions(found) = list(bytes, 512, &[Sample { offset: 0, bytes: &disk }]) else {
                panic!("all is known")
            };
            assert_eq!(found.len(), 1, "without the header at {lost}");
        }
    }

    #[test]
    fn tables_of_others_and_disks_without_room_are_told_from_it() {
        let mut disk = disk(4 << 20, 512);
        assert!(!is_own(&disk, 4096) && !is_own(&[], 512));
        disk[1024 + ENTRY] = 1;
        assert!(!is_own(&disk, 512), "there is another partition");
        disk[1024 + ENTRY] = 0;
        disk[1024] ^= 1;
        assert!(!is_own(&disk, 512), "it is of another type");
        assert!(table(64 << 10, 512, TYPE, TYPE).is_empty() && table(0, 512, TYPE, TYPE).is_empty());
    }
}
