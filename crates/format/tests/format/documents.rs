//! The pages of `docs/formats` and the code say the same. Names, places and widths in their tables are those of the
//! structs; a change of any byte changes the fields that the table names beside it and no other; the examples, which
//! md made, are understood.

pub(crate) mod fields;
pub(crate) mod page;
pub(crate) mod source;

use brindle_format::md::bitmap::{BitmapState, BitmapSuper, BitmapVersion};
use brindle_format::md::journal::{MetaBlock, Payload, checksum};
use brindle_format::md::ppl::{self, PplEntry, PplHeader};
use brindle_format::md::{
    BadBlockLog, DeviceRole, Endian, Features, Ppl, Reshape, Superblock, Timestamp, Uuid, Version, badblocks,
};
use fields::{check_bits, check_fields};
use page::{Bits, Example, Row, bits, examples, rows};
use source::check_layout;

const SUPERBLOCK: &str = include_str!("../../../../docs/formats/superblock.md");
const BITMAP: &str = include_str!("../../../../docs/formats/bitmap.md");
const BAD_BLOCKS: &str = include_str!("../../../../docs/formats/bad-blocks.md");
const PPL: &str = include_str!("../../../../docs/formats/ppl.md");
const JOURNAL: &str = include_str!("../../../../docs/formats/journal.md");

const DEVICE: u64 = 64 << 20;
const UUID: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);

fn named<'a>(rows: &[Row<'a>], names: &[&str]) -> Vec<Row<'a>> {
    let found: Vec<Row<'a>> = rows.iter().filter(|row| names.contains(&row.name)).cloned().collect();
    assert_eq!(found.len(), names.len(), "{names:?}");
    found
}

fn without<'a>(rows: &[Row<'a>], names: &[&str]) -> Vec<Row<'a>> {
    rows.iter().filter(|row| !names.contains(&row.name)).cloned().collect()
}

#[test]
fn tables_have_the_names_and_places_of_the_structs() {
    let v1 = include_str!("../../src/md/v1.rs");
    let v0 = include_str!("../../src/md/v0.rs");
    let ppl = include_str!("../../src/md/ppl.rs");
    let journal = include_str!("../../src/md/journal.rs");
    check_layout(&rows(SUPERBLOCK, "`Raw` in `v1.rs`"), v1, "Raw");
    check_layout(&rows(SUPERBLOCK, "`Raw` in `v0.rs`"), v0, "Raw");
    check_layout(&rows(SUPERBLOCK, "`DiskDescriptor` in `v0.rs`"), v0, "DiskDescriptor");
    check_layout(&rows(BITMAP, "`Raw` in `bitmap.rs`"), include_str!("../../src/md/bitmap.rs"), "Raw");
    check_layout(&rows(PPL, "`Raw` in `ppl.rs`"), ppl, "Raw");
    check_layout(&rows(PPL, "`RawEntry` in `ppl.rs`"), ppl, "RawEntry");
    check_layout(&rows(JOURNAL, "`RawMeta` in `journal.rs`"), journal, "RawMeta");
    check_layout(&rows(JOURNAL, "`RawPayload` in `journal.rs`"), journal, "RawPayload");
    let ppl = named(&rows(SUPERBLOCK, "`Raw` in `v1.rs`"), &["ppl.offset", "ppl.size"]);
    assert_eq!([ppl[0].offset, ppl[1].offset, ppl[1].end().unwrap()], [96, 98, 100]);
}

/// How many items a list has whose lines begin with `1. `, `2. ` and so on.
fn numbered<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
    let numbers: Vec<usize> = lines.filter_map(|line| line.split_once(". ")?.0.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "{numbers:?}");
    numbers.len()
}

#[test]
fn the_page_lists_as_many_invariants_as_the_ledger_keeps() {
    let (_, behind) = SUPERBLOCK.split_once("\n## Invariants\n").expect("a section of invariants");
    let (section, _) = behind.split_once("\n## ").expect("another section");
    let ledger = include_str!("../../../md/src/ledger/mod.rs");
    let heading = ledger.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_start);
    let rules = numbered(heading);
    assert!(rules > 5, "{rules} rules");
    assert_eq!(numbered(section.lines()), rules);
}

/// A superblock in which everything is there that can be at the same time.
fn full(version: Version) -> Superblock {
    let mut sb = Superblock::new(version, DEVICE).unwrap();
    (sb.set_uuid, sb.level, sb.layout, sb.chunk, sb.raid_disks) = (UUID, 5, 2, 65536 * 3, 5);
    (sb.component_size, sb.events, sb.device_number) = (3 << 20, 77, 1);
    (sb.created, sb.updated) =
        (Timestamp { seconds: 1000, micros: 0 }, Timestamp { seconds: 2000, micros: 0 });
    sb.resync_offset = Some(3 << 12);
    sb.flags.write_mostly = true;
    let reshape = Reshape {
        position: 3 << 20,
        new_level: 5,
        new_layout: 2,
        new_chunk: 65536 * 3,
        delta_disks: 1,
        new_offset: None,
    };
    sb.roles = (0..5).map(DeviceRole::Active).collect();
    sb.bitmap_offset = Some(4096);
    sb.reshape = Some(reshape);
    if version.is_v1() {
        sb.name = "host:a name of all the 32 bytes ".into();
        (sb.data_offset, sb.data_size, sb.device_uuid) = (3 << 20, 32 << 20, UUID);
        sb.roles.resize(128, DeviceRole::Spare);
        sb.recovery_offset = Some(3 << 12);
        sb.bad_block_log = Some(BadBlockLog { offset: 3 << 12, size: 3 << 12, shift: 0 });
        sb.reshape = Some(Reshape { new_offset: Some(3 << 12), ..reshape });
        sb.corrected_reads = 3;
    } else {
        sb.data_size = sb.super_offset;
    }
    sb
}

fn bytes_of(sb: &Superblock) -> Vec<u8> {
    let mut bytes = vec![0; sb.version.superblock_bytes()];
    sb.encode(&mut bytes).unwrap();
    bytes
}

/// Corrects the checksum, as the page describes it: words added in 64 bits, the halves added.
fn sum_words(bytes: &mut [u8], at: usize, len: usize, big: bool) {
    bytes[at..at + 4].fill(0);
    let word = |b: &[u8]| {
        let mut four = [0; 4];
        four[..b.len()].copy_from_slice(b);
        if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    let sum: u64 = bytes[..len].chunks(4).map(|b| u64::from(word(b))).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[at..at + 4].copy_from_slice(&if big { sum.to_be_bytes() } else { sum.to_le_bytes() });
}

fn sum_v1(bytes: &mut [u8]) {
    let max_dev = u32::from_le_bytes(bytes[220..224].try_into().unwrap()) as usize;
    // Beyond 1920 entries there are no bytes to sum; the value is refused before the checksum is looked at.
    sum_words(bytes, 216, (256 + 2 * max_dev.min(1920)).min(bytes.len()), false);
}

#[test]
fn fields_of_a_superblock_1_stand_where_the_page_draws_them() {
    let version = Version::V1_2;
    let parse = |bytes: &[u8]| Superblock::parse(version, bytes, DEVICE);
    let all = rows(SUPERBLOCK, "`Raw` in `v1.rs`");
    let elsewhere = ["ppl.offset", "ppl.size", "journal_tail"];
    check_fields(&without(&all, &elsewhere), 0, &bytes_of(&full(version)), sum_v1, parse);

    let mut sb = full(version);
    sb.bitmap_offset = None;
    sb.ppl = Some(Ppl { offset: 3 << 12, size: 3 << 12 });
    check_fields(&named(&all, &elsewhere[..2]), 0, &bytes_of(&sb), sum_v1, parse);

    let mut sb = full(version);
    sb.roles[1] = DeviceRole::Journal;
    sb.recovery_offset = None;
    sb.journal_tail = Some(3 << 12);
    sb.features |= Features::JOURNAL;
    check_fields(&named(&all, &elsewhere[2..]), 0, &bytes_of(&sb), sum_v1, parse);
}

#[test]
fn fields_of_a_superblock_0_90_stand_where_the_page_draws_them() {
    let all = rows(SUPERBLOCK, "`Raw` in `v0.rs`");
    let disk = rows(SUPERBLOCK, "`DiskDescriptor` in `v0.rs`");
    for endian in [Endian::Little, Endian::Big] {
        let version = Version::V0_90(endian);
        let parse = |bytes: &[u8]| Superblock::parse(version, bytes, DEVICE);
        let sum = |bytes: &mut [u8]| sum_words(bytes, 152, 4096, endian == Endian::Big);
        let bytes = bytes_of(&full(version));
        check_fields(&all, 0, &bytes, sum, parse);
        // The descriptor of this device.
        check_fields(&disk, 512 + 128, &bytes, sum, parse);
    }
}

#[test]
fn fields_of_a_bitmap_stand_where_the_page_draws_them() {
    let bitmap = BitmapSuper {
        version: BitmapVersion::LittleEndian,
        uuid: UUID,
        events: 7,
        events_cleared: 5,
        sync_bytes: 3 << 20,
        state: BitmapState(2),
        chunk: 65536,
        daemon_sleep: 5,
        write_behind: 3,
        reserved_bytes: 3 << 12,
        nodes: 0,
        cluster_name: [0; 64],
    };
    let mut bytes = bitmap.encode().unwrap();
    // A chunk is a power of two: no change of one bit leads to another.
    let chunk = named(&rows(BITMAP, "`Raw` in `bitmap.rs`"), &["chunksize"])[0].offset;
    let others = without(&rows(BITMAP, "`Raw` in `bitmap.rs`"), &["chunksize"]);
    check_fields(&others, 0, &bytes, |_| {}, BitmapSuper::parse);
    bytes[chunk..chunk + 4].copy_from_slice(&0x0080_0000u32.to_le_bytes());
    assert_eq!(BitmapSuper::parse(&bytes), Ok(BitmapSuper { chunk: 8 << 20, ..bitmap }));
}

#[test]
fn fields_of_a_partial_parity_log_stand_where_the_page_draws_them() {
    let entry =
        PplEntry { data_offset: 3 << 12, data_bytes: 8192, parity_bytes: 4096, parity_role: 2, checksum: 9 };
    let header = PplHeader { signature: ppl::signature(UUID), generation: 7, entries: vec![entry; 3] };
    let bytes = header.encode().unwrap();
    let sum = |bytes: &mut [u8]| {
        bytes[532..536].fill(0);
        let sum = ppl::parity_checksum(&bytes[..4096]);
        bytes[532..536].copy_from_slice(&sum.to_le_bytes());
    };
    let parse = |bytes: &[u8]| PplHeader::parse(bytes, UUID);
    check_fields(&rows(PPL, "`Raw` in `ppl.rs`"), 0, &bytes, sum, parse);
    // The checksum of an entry is another than the header's.
    let entry = rows(PPL, "`RawEntry` in `ppl.rs`");
    check_fields(&entry, 536 + 24, &bytes, sum, parse);
}

#[test]
fn fields_of_a_journal_stand_where_the_page_draws_them() {
    let payloads = vec![
        Payload::Data { offset: 3 << 12, flags: 0, checksums: vec![1, 2] },
        Payload::Flush { flags: 1, stripes: vec![3 << 12, 5 << 12] },
        Payload::Parity { offset: 3 << 12, flags: 0, checksums: vec![1, 2] },
    ];
    let bytes = MetaBlock { sequence: 7, position: 3 << 12, payloads }.encode(UUID).unwrap();
    let sum = |bytes: &mut [u8]| {
        bytes[4..8].fill(0);
        let sum = checksum(UUID, &bytes[..4096]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    };
    let parse = |bytes: &[u8]| MetaBlock::parse(bytes, UUID);
    check_fields(&rows(JOURNAL, "`RawMeta` in `journal.rs`"), 0, &bytes, sum, parse);
    let all = rows(JOURNAL, "`RawPayload` in `journal.rs`");
    // The list of the first and the last payload is as long as their size says: another size runs into what follows.
    let size = named(&all, &["size"])[0].offset;
    let (data, flush, parity) = (32, 32 + 24, 32 + 24 + 24);
    for payload in [data, flush, parity] {
        assert_eq!(bytes[payload + size..payload + size + 4], 16u32.to_le_bytes());
    }
    let listed = ["size", "flush_stripes"];
    check_fields(&without(&all, &listed), data, &bytes, sum, parse);
    check_fields(&without(&all, &listed), parity, &bytes, sum, parse);
    check_fields(&without(&all, &["size", "location", "checksum"]), flush, &bytes, sum, parse);
}

/// A log of these entries, and one beside that ends it.
fn log_of(entries: &[u64]) -> Vec<u8> {
    let mut log = vec![0xff; 512];
    for (slot, entry) in log.chunks_exact_mut(8).zip(entries) {
        slot.copy_from_slice(&entry.to_le_bytes());
    }
    log
}

#[test]
fn bits_of_a_bad_block_entry_are_those_that_the_page_draws() {
    let all = bits(BAD_BLOCKS, "BadRange");
    let of = |field: &str| all.iter().find(|row| row.field == field).unwrap().bits;
    let (length, address) = (of("len"), of("offset"));
    let entry = |first: u64, units: u64| first << address.0 | units << length.0;
    let ranges = |entries: &[u64], shift| badblocks::ranges(&log_of(entries), shift).collect::<Vec<_>>();
    // No change of one bit makes the length nothing.
    let (number, other) = (entry(2148, 3), entry(0x1234, 7));
    for shift in [0, 3] {
        let unit = 512 << shift;
        let others = ranges(&[other], shift);
        assert_eq!((others[0].offset, others[0].len), (0x1234 * unit, 7 * unit));
        check_bits(&all, number, |number| {
            let read = ranges(&[number, other], shift);
            assert_eq!((read.len(), &read[1..]), (2, &*others), "what stands behind {number:#x}");
            read[0]
        });
        // Each bit counts as much as its place in the row says.
        for Bits { bits: (low, high), field, .. } in &all {
            for bit in *low..=*high {
                let read = ranges(&[number ^ (1 << bit)], shift)[0];
                let (value, first) = match *field {
                    "len" => (read.len, 3 * unit),
                    _ => (read.offset, 2148 * unit),
                };
                assert_eq!(
                    value,
                    ((first / unit) ^ (1 << (bit - low))).saturating_mul(unit),
                    "{field} bit {bit}"
                );
            }
        }
    }
}

#[test]
fn a_bad_block_log_ends_where_the_page_says() {
    let all = bits(BAD_BLOCKS, "BadRange");
    for rule in
        ["An entry of all ones ends the list; an empty log is all ones.", "one of length 0 is not a range"]
    {
        assert!(BAD_BLOCKS.contains(rule), "{rule}");
    }
    let count = |entries: &[u64]| badblocks::ranges(&log_of(entries), 0).count();
    let entry = 2148 << 10 | 8;
    assert!(badblocks::is_empty(&log_of(&[])));
    assert_eq!(count(&[entry, u64::MAX, entry]), 1);
    assert_eq!(count(&[entry; 64]), 64, "a full log has no end mark");
    // All ones but for one bit is a range, whichever bit it is, and what follows counts.
    for bit in 0..64 {
        assert_eq!(count(&[!(1 << bit), entry]), 2, "bit {bit}");
    }
    // Of length 0, and it ends nothing.
    let (low, high) = all.iter().find(|row| row.field == "len").unwrap().bits;
    let length = (low..=high).fold(0, |mask, bit| mask | 1u64 << bit);
    assert_eq!(count(&[!length, entry]), 1);
}

#[test]
fn the_examples_are_understood() {
    let of = |page| -> Vec<Example<'_>> { examples(page) };
    let superblocks = of(SUPERBLOCK);
    assert_eq!(superblocks.len(), 2);
    for example in &superblocks {
        let version: Version = example.attribute("version").parse().unwrap();
        let device = example.attribute("device").parse().unwrap();
        let sb = Superblock::parse(version, &example.bytes, device).unwrap();
        assert_eq!((sb.role(), sb.is_clean()), (DeviceRole::Active(0), true));
        assert_eq!(bytes_of(&sb), example.bytes, "written back to the byte");
    }
    let bitmap = BitmapSuper::parse(&of(BITMAP)[0].bytes).unwrap();
    assert_eq!((bitmap.bits(), bitmap.chunk, bitmap.events), (240, 65536, 2));
    let log: Vec<_> =
        badblocks::ranges(&of(BAD_BLOCKS)[0].bytes, 0).map(|r| (r.offset / 512, r.len / 512)).collect();
    assert_eq!(log, [(2148, 8)]);
    let example = &of(PPL)[0];
    let header = PplHeader::parse(&example.bytes, example.attribute("uuid").parse().unwrap()).unwrap();
    let entry = header.entries[0];
    assert_eq!((header.entries.len(), entry.data_offset, entry.parity_role), (1, 0x18 * 512, 2));
    assert_eq!(entry.checksum, ppl::parity_checksum(&[0; 4096]));
    let example = &of(JOURNAL)[0];
    let block = MetaBlock::parse(&example.bytes, example.attribute("uuid").parse().unwrap()).unwrap();
    assert_eq!((block.position, block.payloads.len()), (0x10 * 512, 2));
}
