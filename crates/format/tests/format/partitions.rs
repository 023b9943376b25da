//! Which partition covers a part of a device: every table, whole and damaged, and what covers nothing.

#![allow(clippy::unwrap_used)]

use std::ops::Range;

use brindle_format::signature::partitions::{Covering, Listing, PAGE, Partition, TableCopy, covering, list};
use brindle_format::signature::{Sample, Signature};

const SECTOR: usize = 512;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;

/// The signature found, having read only the pages that were asked for.
fn asked(disk: &[u8], sector: u64, range: Range<u64>) -> Option<(u32, Signature)> {
    let mut pages: Vec<(u64, &[u8])> = Vec::new();
    loop {
        let known: Vec<Sample<'_>> =
            pages.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        match covering(disk.len() as u64, sector, range.clone(), &known) {
            Covering::Nothing => return None,
            Covering::Partition(Partition { number, start, end, table, lacks, .. }) => {
                assert_eq!(lacks, 0);
                assert!(start <= range.start && range.end <= end && end <= disk.len() as u64);
                return Some((number, table));
            }
            Covering::Unread { offset, len } => {
                assert!(offset.is_multiple_of(PAGE as u64) && len <= PAGE);
                assert!(pages.iter().all(|(known, _)| *known != offset), "asked for again");
                pages.push((offset, &disk[offset as usize..offset as usize + len]));
            }
        }
    }
}

/// Of the last MiB but 64 KiB.
fn at_the_end(disk: &[u8]) -> Option<(u32, Signature)> {
    asked(disk, 512, SIZE - MIB..SIZE - MIB / 16)
}

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Entries of a DOS table in a sector: kind, start and length in sectors.
fn dos(disk: &mut [u8], sector: usize, entries: &[(u8, u32, u32)]) {
    let at = sector * SECTOR;
    disk[at + 446..at + 510].fill(0);
    for (number, (kind, start, len)) in entries.iter().enumerate() {
        let entry = at + 446 + 16 * number;
        disk[entry + 4] = *kind;
        put(disk, entry + 8, &start.to_le_bytes());
        put(disk, entry + 12, &len.to_le_bytes());
    }
    put(disk, at + 510, &[0x55, 0xaa]);
}

fn blank() -> Vec<u8> {
    vec![0; SIZE as usize]
}

const ALL: u32 = (SIZE / 512) as u32;

#[test]
fn a_partition_of_a_dos_table_covers_what_lies_in_it_and_protective_and_extended_ones_nothing() {
    let mut disk = blank();
    assert_eq!(at_the_end(&disk), None);
    let reported = |disk: &mut Vec<u8>, entries: &[(u8, u32, u32)]| {
        dos(disk, 0, entries);
        at_the_end(disk)
    };
    assert_eq!(reported(&mut disk, &[(0x83, 2048, ALL - 2048)]), Some((1, Signature::Mbr)));
    assert_eq!(reported(&mut disk, &[(0x83, 8, 8), (0x83, 2048, ALL - 2048)]), Some((2, Signature::Mbr)));
    assert_eq!(reported(&mut disk, &[(0x83, 2048, ALL - 2048 - 256)]), None, "it ends before");
    assert_eq!(reported(&mut disk, &[(0x83, ALL - 2047, 2047)]), None, "it begins behind");
    assert_eq!(reported(&mut disk, &[(0x83, 2048, ALL - 2047)]), None, "it is no partition of this disk");
    assert_eq!(reported(&mut disk, &[(0x83, 0, ALL)]), None, "the table is no part of a partition");
    assert_eq!(reported(&mut disk, &[(0xee, 1, ALL - 1)]), None);
    assert_eq!(reported(&mut disk, &[(0x05, 2048, ALL - 2048)]), None);
    // A flag that can't be, or the end of the sector gone: damaged, but the entries are there.
    dos(&mut disk, 0, &[(0x83, 2048, ALL - 2048)]);
    disk[446] = 0x13;
    assert_eq!(at_the_end(&disk), Some((1, Signature::Mbr)));
    disk[446] = 0;
    disk[510] = 0;
    assert_eq!(at_the_end(&disk), Some((1, Signature::Mbr)));
}

#[test]
fn logical_partitions_are_counted_from_five_and_a_chain_without_end_ends() {
    let mut disk = blank();
    dos(&mut disk, 0, &[(0x83, 8, 8), (0x0f, 2048, ALL - 2048)]);
    dos(&mut disk, 2048, &[(0x83, 8, 800), (0x05, 1024, 4096)]);
    dos(&mut disk, 2048 + 1024, &[(0x83, 8, ALL - 2048 - 1024 - 8)]);
    assert_eq!(at_the_end(&disk), Some((6, Signature::Mbr)));
    dos(&mut disk, 2048 + 1024, &[(0x83, 8, 8), (0x05, 1024, 4096)]);
    assert_eq!(at_the_end(&disk), None);
    dos(&mut disk, 2048 + 1024, &[(0x83, 8, 8), (0x05, 0, 4096)]);
    assert_eq!(at_the_end(&disk), None);
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8)
            .fold(sum ^ u32::from(*byte), |sum: u32, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// A GUID table with one partition, the third, and its backup.
fn gpt(disk: &mut [u8], sector: usize, first: u64, last: u64) {
    let all = disk.len() / sector;
    dos(disk, 0, &[(0xee, 1, ALL - 1)]);
    let mut entries = vec![0; 128 * 128];
    put(&mut entries, 256, &[7; 16]);
    put(&mut entries, 256 + 32, &first.to_le_bytes());
    put(&mut entries, 256 + 40, &last.to_le_bytes());
    let table = entries.len() / sector;
    for (here, entries_at) in [(1, 2), (all - 1, all - 1 - table)] {
        let mut header = vec![0; sector];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c\0\0\0");
        put(&mut header, 24, &(here as u64).to_le_bytes());
        put(&mut header, 72, &(entries_at as u64).to_le_bytes());
        put(&mut header, 80, &[128, 0, 0, 0, 128]);
        put(&mut header, 88, &crc32(&entries).to_le_bytes());
        let sum = crc32(&header[..92]);
        put(&mut header, 16, &sum.to_le_bytes());
        put(disk, here * sector, &header);
        put(disk, entries_at * sector, &entries);
    }
}

#[test]
fn a_guid_table_counts_whole_and_damaged_and_by_its_backup() {
    let third = Some((3, Signature::Gpt));
    let (mut whole, last) = (blank(), u64::from(ALL) - 34);
    gpt(&mut whole, 512, 2048, last);
    assert_eq!(at_the_end(&whole), third);
    let damaged = |places: &[usize]| {
        let mut disk = whole.clone();
        places.iter().for_each(|place| disk[*place] ^= 1);
        at_the_end(&disk)
    };
    let (primary, backup, entries) = (512, SIZE as usize - 512, 1024);
    assert_eq!(damaged(&[primary]), third, "the backup has it");
    assert_eq!(damaged(&[primary + 40]), third);
    assert_eq!(damaged(&[primary + 40, backup + 40]), third, "neither sum is right");
    assert_eq!(damaged(&[primary, backup]), third, "there is no header at all");
    assert_eq!(damaged(&[entries + 256 + 41]), third, "an entry of the first is wrong");
    assert_eq!(damaged(&[510, primary + 40]), third, "nor is the first sector what it should be");
    // A table that lies on the array, and one that an earlier use has left at the end of the disk.
    let mut inside = blank();
    gpt(&mut inside, 512, 2048, last - 2048);
    assert_eq!(at_the_end(&inside), None);
    let mut left = whole.clone();
    left[..MIB as usize].fill(0);
    assert_eq!(at_the_end(&left), None);
    // Sectors of 4096 bytes, whatever the device says of its own.
    let mut large = blank();
    gpt(&mut large, 4096, 256, SIZE / 4096 - 6);
    assert_eq!((at_the_end(&large), asked(&large, 4096, SIZE - MIB..SIZE - MIB / 16)), (third, third));
}

#[test]
fn a_header_that_tells_nonsense_is_taken_for_damaged() {
    let mut disk = blank();
    gpt(&mut disk, 512, 2048, u64::from(ALL) - 34);
    for (at, bytes) in
        [(72, &[0xff; 8][..]), (80, &[0xff; 4]), (84, &[0; 4]), (84, &[0xff; 4]), (12, &[0xff; 4])]
    {
        let mut disk = disk.clone();
        put(&mut disk, 512 + at, bytes);
        put(&mut disk, SIZE as usize - 512 + at, bytes);
        assert_eq!(at_the_end(&disk), Some((3, Signature::Gpt)), "{at}");
    }
}

/// Number, bytes that are there, bytes that lack, and copy of the table, of each partition of a disk.
fn listed(disk: &[u8]) -> Vec<(u32, u64, u64, TableCopy)> {
    match list(disk.len() as u64, 512, &[Sample { offset: 0, bytes: disk }]) {
        Listing::Partitions(all) => {
            all.iter().map(|one| (one.number, one.end - one.start, one.lacks, one.copy)).collect()
        }
        Listing::Unread { .. } => panic!("all is known"),
    }
}

#[test]
fn a_partition_within_which_the_device_ends_is_listed_as_cut() {
    let cut = (SIZE - 2 * MIB) as usize;
    let mut guid = blank();
    gpt(&mut guid, 512, 2048, u64::from(ALL) - 2049);
    let (whole, left) = (SIZE - 2 * MIB, SIZE - 3 * MIB);
    assert_eq!(listed(&guid), [(3, whole, 0, TableCopy::First)]);
    assert_eq!(listed(&guid[..cut]), [(3, left, MIB, TableCopy::First)]);
    assert_eq!(listed(&guid[..MIB as usize]), [], "nothing of it is left");
    let mut disk = blank();
    dos(&mut disk, 0, &[(0x83, 2048, ALL - 2048)]);
    assert_eq!(listed(&disk[..cut]), [(1, left, 2 * MIB, TableCopy::First)]);
    // A table that is damaged tells nothing of what is not there.
    disk[510] = 0;
    assert_eq!(listed(&disk[..cut]), []);
}

#[test]
fn a_backup_is_listed_where_the_first_table_is_gone_if_it_is_whole() {
    for sector in [512, 4096] {
        let mut disk = blank();
        gpt(&mut disk, sector, MIB / sector as u64, (SIZE - MIB) / sector as u64 - 1);
        disk[..34 * sector].fill(0);
        assert_eq!(listed(&disk), [(3, SIZE - 2 * MIB, 0, TableCopy::Backup)], "{sector}");
        let header = SIZE as usize - sector;
        disk[header + 40] ^= 1;
        assert_eq!(listed(&disk), [], "{sector}");
    }
}
