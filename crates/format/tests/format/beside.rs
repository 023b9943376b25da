//! Metadata beside a superblock (bitmap, bad blocks, PPL, journal), names, and the places at which mdadm puts
//! everything.

use brindle_format::md::badblocks::{self, BadRange};
use brindle_format::md::bitmap::{self, BitmapError, BitmapState, BitmapSuper, BitmapVersion};
use brindle_format::md::defaults::{self, BitmapPlan, Consistency};
use brindle_format::md::journal::{self, JournalError, MetaBlock, Payload};
use brindle_format::md::ppl::{self, PplEntry, PplError, PplHeader};
use brindle_format::md::{
    BadBlockLog, Endian, Features, Ppl, Uuid, Version, display_uuid, full_name, parse_uuid, split_name,
};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const UUID: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);

/// The kernel's `crc32c_le`: bit by bit, no inversion at either end.
fn crc32c_le(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 },
        )
    })
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn bitmap() -> BitmapSuper {
    BitmapSuper {
        version: BitmapVersion::Clustered,
        uuid: UUID,
        events: 23,
        events_cleared: 22,
        sync_bytes: GIB + 512,
        state: BitmapState::STALE,
        chunk: 64 * MIB,
        daemon_sleep: 5,
        write_behind: 256,
        reserved_bytes: 4096,
        nodes: 4,
        cluster_name: [b'c'; 64],
    }
}

#[test]
fn bitmap_superblock_round_trips_at_the_kernels_offsets() {
    let bytes = bitmap().encode().unwrap();
    assert_eq!(BitmapSuper::parse(&bytes), Ok(bitmap()));
    assert_eq!(bitmap().bits(), 17);
    assert_eq!(&bytes[..8], b"bitm\x05\0\0\0");
    let words = [48, 52, 56, 60, 64, 68].map(|at| get32(&bytes, at));
    assert_eq!(words, [2, 64 << 20, 5, 256, 8, 4]);
    assert_eq!(&bytes[40..48], &(2 * MIB + 1).to_le_bytes());
    assert_eq!(bytes[72..136], [b'c'; 64]);
    assert_eq!(bytes[136..], [0; 120]);
}

/// The bytes that mdadm 4.6 put on each of three members for `--level=5 --bitmap=lockless --assume-clean`.
#[test]
fn a_new_lockless_bitmap_is_read_as_mdadm_wrote_it() {
    let mut bytes = [0; bitmap::BITMAP_SUPER_BYTES];
    bytes[..24]
        .copy_from_slice(b"bitm\x06\0\0\0\x50\x11\x03\x22\xe7\x2d\xa0\xac\x0e\x26\xf2\xc9\x77\x20\xcc\x8a");
    for (at, value) in [(40, 0x5800), (48, 0x18), (52, 0x0400_0000), (56, 5), (64, 0x100)] {
        put32(&mut bytes, at, value);
    }
    let expected = BitmapSuper {
        version: BitmapVersion::Lockless,
        uuid: Uuid::from_u128(0x5011_0322_e72d_a0ac_0e26_f2c9_7720_cc8a),
        events: 0,
        events_cleared: 0,
        sync_bytes: 11 * MIB,
        state: BitmapState(BitmapState::FIRST_USE.0 | BitmapState::CLEAN.0),
        chunk: 64 * MIB,
        daemon_sleep: 5,
        write_behind: 0,
        reserved_bytes: 128 * KIB,
        nodes: 0,
        cluster_name: [0; 64],
    };
    assert_eq!(BitmapSuper::parse(&bytes), Ok(expected.clone()));
    assert_eq!(expected.encode(), Some(bytes));
}

#[test]
fn bitmaps_that_cannot_be_are_refused() {
    let read = |at: usize, value: u32| {
        let mut bytes = bitmap().encode().unwrap();
        put32(&mut bytes, at, value);
        BitmapSuper::parse(&bytes).unwrap_err()
    };
    assert_eq!(read(0, 0), BitmapError::NoMagic);
    assert_eq!(read(4, 7), BitmapError::UnknownVersion(7));
    for chunk in [0, 1, 256, 513, u32::MAX] {
        assert_eq!(read(52, chunk), BitmapError::Impossible { field: "chunksize", value: u64::from(chunk) });
    }
    assert!(matches!(read(44, u32::MAX), BitmapError::Impossible { field: "sync_size", .. }));
    assert_eq!(BitmapSuper::parse(&[0; 255]), Err(BitmapError::Short { have: 255 }));
    assert_eq!(BitmapSuper { sync_bytes: 511, ..bitmap() }.encode(), None);
    assert_eq!(bitmap::bytes_needed(GIB, 0), None);
}

#[test]
fn bad_blocks_are_54_bits_of_address_and_10_of_length() {
    let mut log = vec![0; 4096];
    assert!(badblocks::write(&mut log, &[]));
    assert!(log.iter().all(|b| *b == 0xff) && badblocks::is_empty(&log));
    let bad = [BadRange { offset: 512 * 7, len: 512 * 1025 }, BadRange { offset: TIB, len: 512 }];
    assert!(badblocks::write(&mut log, &bad));
    assert_eq!(log[..8], ((7u64 << 10) | 512).to_le_bytes());
    let read: Vec<BadRange> = badblocks::ranges(&log, 0).collect();
    let sectors = |offset: u64, len: u64| BadRange { offset: 512 * offset, len: 512 * len };
    assert_eq!(read, [sectors(7, 512), sectors(519, 512), sectors(1031, 1), sectors(2 << 30, 1)]);
    assert_eq!(badblocks::ranges(&log, 3).next(), Some(sectors(56, 4096)));
    assert!(!badblocks::is_empty(&log));
    // Too many ranges, or unaligned ones, leave an empty log and are refused.
    for refused in [vec![sectors(0, 1); 513], vec![BadRange { offset: 1, len: 512 }]] {
        assert!(!badblocks::write(&mut log, &refused));
        assert!(badblocks::is_empty(&log));
    }
}

fn ppl_header() -> PplHeader {
    let entry = |n: u32| PplEntry {
        data_offset: u64::from(n) * 65536,
        data_bytes: 8192,
        parity_bytes: 4096,
        parity_role: n % 3,
        checksum: 0xc0ff_ee00 + n,
    };
    PplHeader { signature: ppl::signature(UUID), generation: 77, entries: (0..148).map(entry).collect() }
}

#[test]
fn ppl_header_round_trips_with_the_kernels_checksums() {
    let header = ppl_header();
    let bytes = header.encode().unwrap();
    assert_eq!(PplHeader::parse(&bytes, UUID), Ok(header));
    assert_eq!(bytes[..512], [0xff; 512]);
    assert_eq!(get32(&bytes, 512), !crc32c_le(!0, UUID.as_bytes()));
    assert_eq!((get32(&bytes, 520), get32(&bytes, 528)), (77, 148));
    assert_eq!(
        (get32(&bytes, 536 + 24), get32(&bytes, 536 + 24 + 8), get32(&bytes, 536 + 24 + 12)),
        (128, 4096, 8192)
    );
    let mut zeroed = bytes;
    put32(&mut zeroed, 532, 0);
    assert_eq!(get32(&bytes, 532), !crc32c_le(!0, &zeroed));
}

#[test]
fn ppl_headers_that_cannot_be_trusted_are_refused() {
    let bytes = ppl_header().encode().unwrap();
    assert!(matches!(PplHeader::parse(&bytes, Uuid::nil()), Err(PplError::Foreign { .. })));
    assert!(matches!(PplHeader::parse(&[0; 4096], UUID), Err(PplError::Checksum { .. })));
    assert_eq!(PplHeader::parse(&bytes[..4095], UUID), Err(PplError::Short { have: 4095 }));
    let mut many = bytes;
    put32(&mut many, 528, 149);
    put32(&mut many, 532, 0);
    let sum = !crc32c_le(!0, &many);
    put32(&mut many, 532, sum);
    let error = PplError::Impossible { field: "entries_count", value: 149 };
    assert_eq!(PplHeader::parse(&many, UUID), Err(error.clone()));
    let mut header = ppl_header();
    header.entries.push(header.entries[0]);
    assert_eq!(header.encode(), Err(error));
}

fn meta_block() -> MetaBlock {
    MetaBlock {
        sequence: 0x1_0000_0002,
        position: 64 * KIB,
        payloads: vec![
            Payload::Data { offset: 3 * MIB, flags: 0, checksums: vec![1, 2, 3] },
            Payload::Parity { offset: MIB, flags: 1, checksums: vec![4, 5] },
            Payload::Flush { flags: 1, stripes: vec![4096, 8192] },
        ],
    }
}

#[test]
fn journal_blocks_round_trip_with_the_kernels_checksums() {
    for block in [meta_block(), MetaBlock::empty(9)] {
        let bytes = block.encode(UUID).unwrap();
        assert_eq!(MetaBlock::parse(&bytes, UUID), Ok(block));
        let mut zeroed = bytes;
        put32(&mut zeroed, 4, 0);
        let seed = crc32c_le(!0, UUID.as_bytes());
        assert_eq!(get32(&bytes, 4), crc32c_le(seed, &zeroed));
        assert_eq!(journal::checksum(UUID, &zeroed), get32(&bytes, 4));
    }
    let bytes = meta_block().encode(UUID).unwrap();
    assert_eq!((get32(&bytes, 0), bytes[8], get32(&bytes, 12)), (0x6433_c509, 1, 32 + 28 + 24 + 24));
    assert_eq!((get32(&bytes, 24), get32(&bytes, 36), get32(&bytes, 40)), (128, 24, 3 * 2048));
    assert_eq!(get32(&MetaBlock::empty(9).encode(UUID).unwrap(), 12), 32);
}

#[test]
fn journal_blocks_that_cannot_be_trusted_are_refused() {
    let bytes = meta_block().encode(UUID).unwrap();
    let forged = |at: usize, value: u32| {
        let mut bytes = bytes;
        put32(&mut bytes, at, value);
        put32(&mut bytes, 4, 0);
        let sum = journal::checksum(UUID, &bytes);
        put32(&mut bytes, 4, sum);
        MetaBlock::parse(&bytes, UUID).unwrap_err()
    };
    assert_eq!(forged(0, 1), JournalError::NoMagic);
    assert_eq!(forged(8, 2), JournalError::UnknownVersion(2));
    for size in [0, 31, 33, 4097, u32::MAX] {
        assert!(matches!(forged(12, size), JournalError::Impossible { .. }), "{size}");
    }
    assert_eq!(forged(36, u32::MAX), JournalError::Impossible { field: "size", value: u64::from(u32::MAX) });
    assert_eq!(forged(36, 25), JournalError::Impossible { field: "size", value: 25 });
    assert_eq!(forged(32, 9), JournalError::Impossible { field: "type", value: 9 });
    assert!(matches!(MetaBlock::parse(&bytes, Uuid::nil()), Err(JournalError::Checksum { .. })));
    assert_eq!(MetaBlock::parse(&bytes[1..], UUID), Err(JournalError::Short { have: 4095 }));
    let long = Payload::Flush { flags: 0, stripes: vec![0; 600] };
    assert_eq!(MetaBlock { payloads: vec![long], ..MetaBlock::empty(1) }.encode(UUID), None);
}

#[test]
fn data_offsets_are_mdadms() {
    let sectors = |version, bytes, chunk, ppl| {
        let consistency = if ppl { Consistency::Ppl } else { Consistency::Resync };
        defaults::data_offset(version, bytes, chunk, consistency) / 512
    };
    let default = |bytes| sectors(Version::V1_2, bytes, 512 * KIB, false);
    // Measured with mdadm 4.2 and later on devices of these sizes.
    assert_eq!(sectors(Version::V1_2, 64 * MIB, 64 * KIB, false), 2048);
    assert_eq!(sectors(Version::V1_2, 64 * MIB, 0, false), 2048);
    assert_eq!(default(64 * MIB), 4096);
    assert_eq!(sectors(Version::V1_2, 64 * MIB, 64 * KIB, true), 4096);
    assert_eq!(default(8 * GIB), 18432);
    assert_eq!(default(512 * GIB), 264_192);
    assert_eq!(default(16 * TIB), 264_192);
    assert_eq!(sectors(Version::V1_0, TIB, 512 * KIB, false), 0);
    assert_eq!(sectors(Version::V0_90(Endian::Little), TIB, 512 * KIB, false), 0);
}

#[test]
fn bitmap_space_and_role_table_are_mdadms() {
    let space = |bytes| defaults::bitmap_space(bytes) / KIB;
    assert_eq!([space(0), space(64 * KIB - 1), space(64 * KIB), space(8 * GIB)], [0, 0, 4, 4]);
    assert_eq!([space(9 * GIB), space(200 * GIB), space(201 * GIB)], [64, 64, 128]);
    let entries = [1, 128, 129, 384, 385, 1920, 1921].map(defaults::max_dev);
    assert_eq!(entries, [Some(128), Some(128), Some(384), Some(384), Some(640), Some(1920), None]);
    assert_eq!(defaults::max_dev(usize::MAX), None);
}

#[test]
fn areas_stand_where_mdadm_puts_them() {
    let place = |version, offset, size, consistency| {
        let p = defaults::place(version, 64 * MIB, offset, size, consistency).unwrap();
        (p.data_size, p.bad_block_log.map(|l| l.offset), p.bitmap_offset, p.ppl.map(|l| l.offset))
    };
    let k = |n: i64| Some(n * 1024);
    let bitmap = Consistency::Bitmap { bytes: 8 * KIB };
    let size = 60 * MIB;
    assert_eq!(place(Version::V1_2, MIB, size, Consistency::Resync), (63 * MIB, k(8), None, None));
    assert_eq!(place(Version::V1_2, MIB, size, bitmap), (63 * MIB, k(12), k(4), None));
    assert_eq!(place(Version::V1_1, 2 * MIB, size, Consistency::Ppl), (62 * MIB, k(1028), None, k(4)));
    let end = 64 * MIB - 8 * KIB;
    assert_eq!(place(Version::V1_0, 0, size, Consistency::Resync), (end - 8 * KIB, k(-4), None, None));
    assert_eq!(place(Version::V1_0, 0, size, bitmap), (end - 12 * KIB, k(-4), k(-12), None));
    assert_eq!(place(Version::V1_0, 0, size, Consistency::Ppl), (end - MIB - 4 * KIB, k(-4), None, k(-1028)));
    let v0 = Version::V0_90(Endian::Little);
    assert_eq!(place(v0, 0, size, bitmap), (64 * MIB - 64 * KIB, None, k(4), None));
    // Reserved space gives way to data that want it, used space does not.
    assert_eq!(place(Version::V1_0, 0, end, Consistency::Resync), (end, None, None, None));
    assert_eq!(defaults::place(Version::V1_0, 64 * MIB, 0, end, bitmap), None);
    assert_eq!(place(Version::V1_2, 16 * KIB, MIB, Consistency::Resync).1, k(8));
    assert_eq!(defaults::place(Version::V1_2, 64 * MIB, 8 * KIB, MIB, bitmap), None);
    assert_eq!(defaults::place(Version::V1_2, 64 * MIB, 4 * KIB, MIB, Consistency::Resync), None);
    assert_eq!(defaults::place(Version::V1_2, 64 * MIB, MIB, 64 * MIB, Consistency::Resync), None);
}

#[test]
fn components_are_whole_chunks() {
    let component = |version, bytes, chunk| {
        let offset = defaults::data_offset(version, bytes, chunk, Consistency::Resync);
        let available = defaults::available(version, bytes, offset, Consistency::Resync)?;
        defaults::component_size(version, available, chunk)
    };
    let v0 = Version::V0_90(Endian::Little);
    assert_eq!(component(Version::V1_2, 64 * MIB, 512 * KIB), Some(62 * MIB));
    assert_eq!(component(Version::V1_2, 64 * MIB + 63 * KIB, 0), Some(63 * MIB));
    assert_eq!(component(Version::V1_0, 64 * MIB, 64 * KIB), Some(64 * MIB - 64 * KIB));
    assert_eq!(component(v0, 64 * MIB, 0), Some(64 * MIB - 64 * KIB));
    assert_eq!(component(v0, 4 * TIB, 0), Some(4 * TIB - 64 * KIB));
    // mdadm refuses this: "devices too large".
    assert_eq!(component(v0, 5 * TIB, 0), None);
    assert_eq!(component(Version::V1_2, 2 * MIB, 512 * KIB), None);
    assert_eq!(component(v0, 64 * KIB, 0), None);
    assert_eq!(defaults::data_offset(Version::V1_2, 0, 0, Consistency::Resync), MIB);
}

#[test]
fn bitmaps_are_planned_as_mdadm_does() {
    let plan = |bytes, room, chunk| defaults::bitmap_plan(bytes, room, chunk);
    let at = |chunk, bytes| Some(BitmapPlan { chunk, bytes });
    assert_eq!(plan(60 * MIB, 4 * KIB, None), at(64 * MIB, 4 * KIB));
    assert_eq!(plan(100 * GIB, 64 * KIB, None), at(64 * MIB, 4 * KIB));
    assert_eq!(plan(16 * TIB, 128 * KIB, None), at(64 * MIB, 36 * KIB));
    assert_eq!(plan(GIB, 4 * KIB, Some(64 * KIB)), at(64 * KIB, 4 * KIB));
    assert_eq!(plan(GIB, 4 * KIB, Some(16 * KIB)), None, "does not fit");
    assert_eq!(plan(GIB, 4 * KIB, Some(96 * KIB)), None, "no power of two");
    assert_eq!(plan(GIB, 256, None), None, "no room");
    let default = |version, bytes| defaults::default_bitmap(version, bytes, bytes);
    assert_eq!(default(Version::V1_2, 60 * MIB), at(64 * MIB, 4 * KIB));
    assert_eq!(default(Version::V1_2, 16 * TIB), at(64 * MIB, 36 * KIB));
    // 4 KiB are kept free beside a small component, and all bits of 0.90 fit 60 KiB.
    assert_eq!(default(Version::V1_0, 32 * KIB), None);
    assert_eq!(default(Version::V0_90(Endian::Little), 4 * TIB - 64 * KIB), at(64 * MIB, 12 * KIB));
}

#[test]
fn names_and_uuids_are_mdadms() {
    assert_eq!(split_name("host:data"), (Some("host"), "data"));
    assert_eq!(split_name("data"), (None, "data"));
    assert_eq!(split_name(":data"), (None, ":data"));
    assert_eq!(full_name("host", "data"), "host:data");
    assert_eq!(full_name("host", "other:data"), "other:data");
    assert_eq!(full_name("", "data"), "data");
    assert_eq!(full_name("a-host-with-a-name", "of-thirteen-b"), "of-thirteen-b");
    let text = "01234567:89abcdef:fedcba98:76543210";
    assert_eq!(display_uuid(UUID).to_string(), text);
    assert_eq!(parse_uuid(text), Some(UUID));
    assert_eq!(parse_uuid(&UUID.to_string()), Some(UUID));
    for wrong in ["", "0123", "01234567:89abcdef:fedcba98:7654321g", &format!("{text}0")] {
        assert_eq!(parse_uuid(wrong), None);
    }
}

#[test]
fn versions_and_features_have_names() {
    for version in Version::ALL.into_iter().filter(|v| *v != Version::V0_90(Endian::Big)) {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    assert!("1.3".parse::<Version>().is_err());
    assert_eq!(Features::KNOWN.names().count(), Features::KNOWN.0.count_ones() as usize);
    let some = Features::BITMAP_OFFSET | Features::JOURNAL | Features(1 << 20);
    assert_eq!(some.to_string(), "bitmap, journal, unknown bits 0x100000");
    assert_eq!(Features::NONE.to_string(), "none");
    assert_eq!(some.without(Features::KNOWN), Features(1 << 20));
}

proptest! {
    #[test]
    fn noise_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..5000), shift in any::<u8>(), kind in 0u8..4) {
        match kind {
            1 if bytes.len() >= 4096 => ppl_checksum(&mut bytes),
            2 if bytes.len() >= 4096 => journal_checksum(&mut bytes),
            3 if bytes.len() >= 256 => bytes[..8].copy_from_slice(b"bitm\x04\0\0\0"),
            _ => {}
        }
        let _ = BitmapSuper::parse(&bytes).map(|b| b.encode());
        let _ = PplHeader::parse(&bytes, UUID).map(|h| h.encode());
        let _ = MetaBlock::parse(&bytes, UUID).map(|b| b.encode(UUID));
        prop_assert!(badblocks::ranges(&bytes, shift).count() <= bytes.len() / 8);
    }

    #[test]
    fn placements_never_overlap(
        version in prop::sample::select(&Version::ALL[..]),
        device in any::<u64>(),
        small in 0u64..8 * MIB,
        use_small in any::<bool>(),
        chunk in prop::sample::select(&[0, 4 * KIB, 64 * KIB, 512 * KIB, 64 * MIB][..]),
        consistency in prop_oneof![
            Just(Consistency::Resync),
            Just(Consistency::Ppl),
            (1u64..33).prop_map(|n| Consistency::Bitmap { bytes: n * 4 * KIB }),
        ],
    ) {
        let device = if use_small { small } else { device };
        let offset = defaults::data_offset(version, device, chunk, consistency);
        let Some(available) = defaults::available(version, device, offset, consistency) else { return Ok(()) };
        let Some(size) = defaults::component_size(version, available, chunk) else { return Ok(()) };
        let Some(p) = defaults::place(version, device, offset, size, consistency) else { return Ok(()) };
        let at = |offset: i64, len: u64| {
            let from = p.super_offset.checked_add_signed(offset).unwrap();
            (from, from + len)
        };
        let mut areas = vec![(p.super_offset, p.super_offset + 4096), (p.data_offset, p.data_offset + p.data_size)];
        areas.extend(p.bad_block_log.map(|BadBlockLog { offset, size, .. }| at(offset, size)));
        areas.extend(p.ppl.map(|Ppl { offset, size }| at(offset, size)));
        if let (Some(offset), Consistency::Bitmap { bytes }) = (p.bitmap_offset, consistency) {
            areas.push(at(offset, bytes));
        }
        areas.sort_unstable();
        prop_assert!(areas.is_sorted_by(|a, b| a.1 <= b.0), "{areas:?}");
        prop_assert!(areas.last().unwrap().1 <= device);
        prop_assert!(p.data_size >= size);
    }
}

fn ppl_checksum(bytes: &mut [u8]) {
    put32(bytes, 512, ppl::signature(UUID));
    put32(bytes, 532, 0);
    let sum = ppl::parity_checksum(&bytes[..4096]);
    put32(bytes, 532, sum);
}

fn journal_checksum(bytes: &mut [u8]) {
    put32(bytes, 0, journal::JOURNAL_MAGIC);
    put32(bytes, 4, 0);
    bytes[8] = 1;
    put32(bytes, 12, 32 + u32::from(bytes[12]) * 8);
    let sum = journal::checksum(UUID, &bytes[..4096]);
    put32(bytes, 4, sum);
}
