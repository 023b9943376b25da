//! Finds the partition that covers a part of a device, by the table on it: a GUID table (UEFI specification, chapter
//! 5) or a DOS table with the logical partitions of its extended ones.
//!
//! Damaged tables count, too: where a checksum is wrong, all that either header of a GUID table tells is taken for a partition. Entries
//! that reach beyond the device cover nothing of it; listed they are, cut, where the table is whole. A GUID table counts as such only if
//! nothing else is partitioned in the first sector, as kernels and libblkid have it.

use core::cell::Cell;
use core::ops::Range;

use super::Signature;
use super::sample::{Sample, Samples};

/// Bytes in which a device is looked at.
pub const PAGE: usize = 4096;

/// Entries of a GUID table, where its header is damaged, and bytes of each.
const USUAL: (u32, u32) = (128, 128);
/// Bytes of a GUID table that are looked at, at most.
const LONGEST: u64 = 128 << 10;
/// Logical partitions of a DOS table that are looked at, at most.
const MOST_LOGICAL: u32 = 100;

/// A partition. Bytes of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// The kernel's number: from 1, logical partitions from 5.
    pub number: u32,
    /// Its first byte.
    pub start: u64,
    /// The first byte after the partition, or after the device, if that ends before.
    pub end: u64,
    /// Bytes of the partition that the device does not have: it was cut.
    pub lacks: u64,
    /// The table that has the partition.
    pub table: Signature,
    /// The copy of that table.
    pub copy: TableCopy,
    /// Bytes of a sector, as the table counts them.
    pub sector: u64,
}

/// The copy of a table that a partition is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableCopy {
    /// The one at the beginning, or the only one.
    First,
    /// The backup at the end, which is whole, in place of a first one that is damaged or gone.
    Backup,
    /// Neither is whole.
    Damaged,
}

/// Whether a part of a device lies within a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covering {
    /// No partition covers the place.
    Nothing,
    /// This partition covers the place.
    Partition(Partition),
    /// These bytes of the device have to be known for that: a page, or as much of it as the device has.
    Unread {
        /// Byte of the device.
        offset: u64,
        /// Bytes.
        len: usize,
    },
}

/// The partition that covers all of `range` on a device of `bytes` bytes with logical sectors of `sector`, of which `pages` are known.
/// Protective and extended entries cover nothing. Ask again with each page that is [unread](Covering::Unread).
pub fn covering(bytes: u64, sector: u64, range: Range<u64>, pages: &[Sample<'_>]) -> Covering {
    let covers = |one: &Partition| one.lacks == 0 && one.start <= range.start && range.end <= one.end;
    match all(bytes, sector, pages, false) {
        Listing::Unread { offset, len } => Covering::Unread { offset, len },
        Listing::Partitions(all) => {
            all.into_iter().find(covers).map_or(Covering::Nothing, Covering::Partition)
        }
    }
}

/// The partitions of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// Indexed by number, each once.
    Partitions(Vec<Partition>),
    /// These bytes of the device have to be known for that, as for [`Covering::Unread`].
    Unread {
        /// Byte of the device.
        offset: u64,
        /// Bytes.
        len: usize,
    },
}

/// The partitions of a device of `bytes` bytes with logical sectors of `sector`, of which `pages` are known. Ask again with each page
/// that is [unread](Listing::Unread). Where two parts of a damaged table tell of one number, it is the first that counts. A whole backup
/// counts here also where nothing is left of the first table.
pub fn list(bytes: u64, sector: u64, pages: &[Sample<'_>]) -> Listing {
    let mut listing = all(bytes, sector, pages, true);
    if let Listing::Partitions(partitions) = &mut listing {
        partitions.sort_by_key(|one| one.number);
        partitions.dedup_by_key(|one| one.number);
    }
    listing
}

fn all(bytes: u64, sector: u64, pages: &[Sample<'_>], lone_backup: bool) -> Listing {
    let samples = Samples { bytes, samples: pages };
    let device = Pages { samples, unread: Cell::new(None), lone_backup };
    let partitions = device.partitions(sector.clamp(512, 4096));
    match device.unread.get() {
        None => Listing::Partitions(partitions),
        Some(offset) => {
            Listing::Unread { offset, len: bytes.saturating_sub(offset).min(PAGE as u64) as usize }
        }
    }
}

/// An entry of a DOS table.
struct PartitionEntry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl PartitionEntry {
    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }

    fn is_protective(&self) -> bool {
        self.kind == 0xee
    }
}

/// A header of a GUID table.
struct Header {
    /// Bytes of a logical sector.
    sector: u64,
    /// Byte of the device at which its entries begin.
    table: u64,
    count: u32,
    size: u32,
    /// The table's checksums are right.
    sound: bool,
    copy: TableCopy,
}

/// Sectors of a DOS table with entries in use.
struct Entries {
    entries: Vec<PartitionEntry>,
    /// The sector ends as a table does.
    sound: bool,
}

/// A part of a device, as a table tells it.
#[derive(Clone, Copy)]
struct TablePart {
    start: u64,
    end: u64,
    /// The table is whole, so that a partition which the device does not have to its end was cut.
    sound: bool,
}

struct Pages<'a> {
    samples: Samples<'a>,
    /// The first page that was asked for and is not known.
    unread: Cell<Option<u64>>,
    /// A backup counts also where nothing is left of the first table.
    lone_backup: bool,
}

impl Pages<'_> {
    fn partitions(&self, sector: u64) -> Vec<Partition> {
        let Entries { entries: first, sound } = self.entries(0);
        let guid = || self.guid(sector, first.iter().any(PartitionEntry::is_protective));
        let dos = first.iter().any(|entry| !entry.is_protective());
        let mut all =
            if dos && !first.iter().any(PartitionEntry::is_protective) { Vec::new() } else { guid() };
        for (number, entry) in (1..).zip(&first) {
            if entry.is_extended() {
                self.logical(sector, entry, &mut all);
            } else if !entry.is_protective() {
                all.extend(self.dos(number, sector, entry.start, entry.sectors, sound));
            }
        }
        all
    }

    /// A partition that begins behind the table, and on the device.
    fn partition(&self, part: TablePart) -> Option<Partition> {
        let TablePart { start, end, sound } = part;
        let there = end.min(self.samples.bytes);
        (0 < start && start < there && (sound || there == end)).then_some(Partition {
            number: 0,
            start,
            end: there,
            lacks: end.saturating_sub(there),
            table: Signature::Mbr,
            copy: TableCopy::First,
            sector: 0,
        })
    }

    fn dos(&self, number: u32, sector: u64, start: u64, sectors: u64, sound: bool) -> Option<Partition> {
        let end = start.checked_add(sectors)?.checked_mul(sector)?;
        let partition = self.partition(TablePart { start: start.checked_mul(sector)?, end, sound })?;
        Some(Partition { number, sector, ..partition })
    }

    /// The entries in use of the DOS table in a sector at this byte. A sector without the two last bytes counts as a
    /// table only if its flags make sense.
    fn entries(&self, at: u64) -> Entries {
        let none = Entries { entries: Vec::new(), sound: false };
        let Some(sector) = self.bytes(at, 512) else { return none };
        let table = sector.get(446..510).unwrap_or_default();
        let flagged = table.chunks_exact(16).all(|entry| matches!(entry.first(), Some(0 | 0x80)));
        let sound = sector.ends_with(&[0x55, 0xaa]);
        if !sound && !flagged {
            return none;
        }
        let entry = |bytes: &[u8]| {
            let (kind, start, sectors) = (*bytes.get(4)?, le32(bytes, 8)?, le32(bytes, 12)?);
            (kind != 0 && sectors != 0).then_some(PartitionEntry {
                kind,
                start: start.into(),
                sectors: sectors.into(),
            })
        };
        Entries { entries: table.chunks_exact(16).filter_map(entry).collect(), sound: sound && flagged }
    }

    /// The chain of tables in an extended partition: each has a partition, placed from itself on, and the place of the next, from the
    /// start of the extended one on.
    fn logical(&self, sector: u64, extended: &PartitionEntry, all: &mut Vec<Partition>) {
        let mut next = 0u64;
        for number in (5..).take(MOST_LOGICAL as usize) {
            let here = extended.start.saturating_add(next);
            let Entries { entries, sound } = self.entries(here.saturating_mul(sector));
            let own = entries.iter().find(|entry| !entry.is_extended());
            all.extend(
                own.and_then(|own| {
                    self.dos(number, sector, here.checked_add(own.start)?, own.sectors, sound)
                }),
            );
            match entries.iter().find(|entry| entry.is_extended()) {
                // A chain goes on behind the partitions that it has named.
                Some(link) if link.start > next => next = link.start,
                _ => return,
            }
        }
    }

    /// The partitions of a GUID table: those of a sound header; where there is none, of all that can be found.
    fn guid(&self, sector: u64, protected: bool) -> Vec<Partition> {
        let mut damaged = Vec::new();
        for sector in [sector, 512, 4096] {
            let last = self.samples.bytes.checked_div(sector).and_then(|all| all.checked_sub(1));
            let primary = self.header(sector, sector);
            // A signature at the end of a device whose first sectors are empty may be left over from earlier use.
            let known = protected || primary.is_some();
            let backup = last
                .filter(|_| known || self.lone_backup)
                .and_then(|last| self.header(last.saturating_mul(sector), sector))
                .filter(|header| known || header.sound)
                .map(|header| Header { copy: TableCopy::Backup, ..header });
            for header in [primary, backup].into_iter().flatten() {
                if header.sound {
                    return self.listed(&header);
                }
                damaged.extend(self.listed(&header));
            }
        }
        if damaged.is_empty() && protected {
            let table = sector.saturating_mul(2);
            let (count, size) = USUAL;
            let copy = TableCopy::First;
            damaged = self.listed(&Header { sector, table, count, size, sound: false, copy });
        }
        damaged
    }

    /// The header at this byte, which is a sector's.
    fn header(&self, at: u64, sector: u64) -> Option<Header> {
        let bytes = self.bytes(at, 512)?;
        if !bytes.starts_with(b"EFI PART") {
            return None;
        }
        let (count, size) = (le32(&bytes, 80)?, le32(&bytes, 84)?);
        let len = usize::try_from(le32(&bytes, 12)?).ok()?;
        let mut summed = bytes.get(..len).filter(|_| len >= 92).unwrap_or_default().to_vec();
        summed.get_mut(16..20).unwrap_or_default().fill(0);
        let whole =
            Some(crc32(&summed)) == le32(&bytes, 16) && le64(&bytes, 24)?.checked_mul(sector) == Some(at);
        let table = le64(&bytes, 72)?.checked_mul(sector).filter(|table| *table < self.samples.bytes);
        let fits = (128..=PAGE as u32).contains(&size)
            && size.is_multiple_of(8)
            && u64::from(count).saturating_mul(size.into()) <= LONGEST;
        let (Some(table), true) = (table, fits) else {
            // Where they are as a rule: behind the first header, before the last.
            let (count, size) = USUAL;
            let before = at.saturating_sub(u64::from(count).saturating_mul(size.into()));
            let table = if at == sector { sector.saturating_mul(2) } else { before };
            return Some(Header { sector, table, count, size, sound: false, copy: TableCopy::First });
        };
        let entries = self.bytes(table, count.saturating_mul(size) as usize);
        let sound = whole && entries.is_some_and(|entries| Some(crc32(&entries)) == le32(&bytes, 88));
        Some(Header { sector, table, count, size, sound, copy: TableCopy::First })
    }

    fn listed(&self, header: &Header) -> Vec<Partition> {
        let len = header.count.saturating_mul(header.size) as usize;
        let Some(entries) = self.bytes(header.table, len) else { return Vec::new() };
        let partition = |(number, entry): (u32, &[u8])| {
            let used = entry.get(..16)?.iter().any(|byte| *byte != 0);
            let start = le64(entry, 32)?.checked_mul(header.sector)?;
            let end = le64(entry, 40)?.checked_add(1)?.checked_mul(header.sector)?;
            let Header { sector, sound, .. } = *header;
            let partition = self.partition(TablePart { start, end, sound }).filter(|_| used)?;
            let copy = if sound { header.copy } else { TableCopy::Damaged };
            Some(Partition { number, table: Signature::Gpt, copy, sector, ..partition })
        };
        (1..).zip(entries.chunks_exact(header.size.max(1) as usize)).filter_map(partition).collect()
    }

    /// Bytes of the device, if all of their pages are known; else one of those is missed.
    fn bytes(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.samples.bytes)?;
        let mut bytes = Vec::with_capacity(len);
        let mut at = offset;
        while at < end {
            let page = at & !(PAGE as u64).wrapping_sub(1);
            let upto = end.min(page.saturating_add(PAGE as u64));
            let Some(part) = self.samples.at(at, upto.saturating_sub(at) as usize) else {
                self.unread.set(self.unread.get().or(Some(page)));
                return None;
            };
            bytes.extend_from_slice(part);
            at = upto;
        }
        Some(bytes)
    }
}

/// The checksum of GUID tables (ISO 3309).
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let turn = |sum: u32, _| if sum & 1 == 0 { sum >> 1 } else { (sum >> 1) ^ 0xedb8_8320 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), turn))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
