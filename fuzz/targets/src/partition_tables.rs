//! GUID tables with their backups, each with checksums that are right. Input: size of the device in MiB (1: 1 to 64), sectors (1: 4096 if odd).
//! Then for the first table and for the backup: kind (1: gone, damaged in its head, damaged in its entries, else whole), partitions (1: up to
//! 8), and of each its first sector and its length (2 each).

use brindle_format::signature::partitions::{Listing, Partition, TableCopy, list};

use crate::feed::Feed;
use crate::partitions::known;

/// Bytes of an entry, and entries of a table.
const ENTRY: usize = 128;
const ENTRIES: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gone,
    BadHead,
    BadEntries,
    Whole,
}

/// A table as it was drawn: its bytes, and its partitions as `first..end`, in sectors.
struct Table {
    kind: Kind,
    head: Vec<u8>,
    entries: Vec<u8>,
    parts: Vec<(u64, u64)>,
}

/// A whole table is the one that counts, the first one before the backup; what it has on the device is listed.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let size = (1 + u64::from(feed.u8() % 64)) << 20;
    let sector = if feed.u8() & 1 == 0 { 512 } else { 4096 };
    let (last, rows) = (size / sector - 1, (ENTRY * ENTRIES) as u64 / sector);
    let first = table(&mut feed, (1, 2, last));
    let backup = table(&mut feed, (last, last - rows, 1));
    let patches = [
        (sector, &first.head[..]),
        (2 * sector, &first.entries[..]),
        ((last - rows) * sector, &backup.entries[..]),
        (last * sector, &backup.head[..]),
    ];
    let listed = known(size, &patches, |pages| match list(size, sector, pages) {
        Listing::Unread { offset, len } => Err((offset, len)),
        Listing::Partitions(all) => Ok(all),
    });
    for one in &listed {
        assert!(0 < one.start && one.start < one.end && one.end <= size, "{one:?}");
    }
    let counts = match (first.kind, backup.kind) {
        (Kind::Whole, _) => Some((&first, TableCopy::First)),
        (_, Kind::Whole) => Some((&backup, TableCopy::Backup)),
        _ => None,
    };
    match counts {
        Some((table, copy)) => are_those(&listed, table, copy, sector),
        None => assert!(listed.iter().all(|one| one.copy == TableCopy::Damaged), "{listed:?}"),
    }
}

/// The partitions that are listed are those of the table that begin and end on the device.
fn are_those(listed: &[Partition], table: &Table, copy: TableCopy, sector: u64) {
    for one in listed {
        assert!(one.copy == copy && one.sector == sector, "{one:?}");
        let (from, to) = table.parts[one.number as usize - 1];
        assert!(one.start == from * sector && one.end + one.lacks == to * sector, "{one:?}: {from} to {to}");
    }
}

/// A table whose head is in sector `own`, and whose entries begin in sector `at`.
fn table(feed: &mut Feed<'_>, (own, at, other): (u64, u64, u64)) -> Table {
    let kind = match feed.u8() % 8 {
        0 => Kind::Gone,
        1 => Kind::BadHead,
        2 => Kind::BadEntries,
        _ => Kind::Whole,
    };
    let count = feed.u8() % 9;
    let parts: Vec<(u64, u64)> = (0..count)
        .map(|_| {
            let first = u64::from(feed.u16());
            (first, first + 1 + u64::from(feed.u16()))
        })
        .collect();
    if kind == Kind::Gone {
        return Table { kind, head: Vec::new(), entries: Vec::new(), parts };
    }
    let mut entries = vec![0; ENTRY * ENTRIES];
    for (entry, (first, end)) in entries.chunks_mut(ENTRY).zip(&parts) {
        entry[..16].fill(0xaf);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&(end - 1).to_le_bytes());
    }
    let mut head = vec![0; 92];
    head[..8].copy_from_slice(b"EFI PART");
    let words: [(usize, u32); 4] = [(8, 0x0001_0000), (12, 92), (80, ENTRIES as u32), (84, ENTRY as u32)];
    words.iter().for_each(|(at, word)| head[*at..at + 4].copy_from_slice(&word.to_le_bytes()));
    for (place, value) in [(24, own), (32, other), (72, at)] {
        head[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    head[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
    let sum = crc32(&head);
    head[16..20].copy_from_slice(&sum.to_le_bytes());
    match kind {
        Kind::BadHead => head[40] ^= 1,
        Kind::BadEntries => entries[ENTRY - 1] ^= 1,
        Kind::Gone | Kind::Whole => {}
    }
    Table { kind, head, entries, parts }
}

/// The checksum of GUID tables, after ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let turn = |sum: u32, _| if sum & 1 == 0 { sum >> 1 } else { (sum >> 1) ^ 0xedb8_8320 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), turn))
}
