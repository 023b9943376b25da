//! Superblocks of every version: bytes and back, and what hostile bytes lead to.

use brindle_format::md::{
    BadBlockLog, DeviceFlags, DeviceRole, EncodeError, Endian, Features, Ppl, Reshape, SUPERBLOCK_BYTES,
    Superblock, SuperblockError, Timestamp, Uuid, Version, probe_offsets,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 64 * MIB;
const V1: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];

/// A member of a clean RAID 5 of four devices.
fn sample(version: Version) -> Superblock {
    let mut sb = Superblock::new(version, DEVICE).unwrap();
    sb.set_uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    sb.created = Timestamp { seconds: 1_700_000_000, micros: 0 };
    sb.updated = Timestamp { seconds: 1_700_000_001, micros: 0 };
    sb.level = 5;
    sb.layout = 2;
    sb.chunk = 64 << 10;
    sb.raid_disks = 4;
    sb.component_size = 32 * MIB;
    sb.events = 0x1_0000_0017;
    sb.device_number = 2;
    sb.resync_offset = None;
    if version.is_v1() {
        sb.name = "host:data".into();
        sb.device_uuid = Uuid::from_u128(42);
        sb.data_offset = if version == Version::V1_0 { 0 } else { MIB };
        sb.data_size = 60 * MIB;
    } else {
        sb.data_size = sb.super_offset;
        sb.roles = vec![DeviceRole::Spare; 4];
    }
    for (n, role) in sb.roles.iter_mut().enumerate().take(4) {
        *role = DeviceRole::Active(n as u16);
    }
    sb
}

fn encoded(sb: &Superblock) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes).unwrap();
    bytes
}

fn parse(version: Version, bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    Superblock::parse(version, bytes, DEVICE)
}

/// Everything that is public, as text: the bytes that a parsed superblock keeps are left out.
fn fields(sb: &Superblock) -> String {
    format!("{sb:#?}")
}

/// The bytes of a 1.x sample after `change`, with a checksum that is right for them.
fn forged(version: Version, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = encoded(&sample(version));
    change(&mut bytes);
    resum_v1(&mut bytes);
    bytes
}

/// An independent 1.x checksum, by the definition: 32-bit words, carries added at the end.
fn resum_v1(bytes: &mut [u8]) {
    bytes[216..220].fill(0);
    let max_dev = u32::from_le_bytes(bytes[220..224].try_into().unwrap()) as usize;
    let covered = (256 + 2 * max_dev).min(bytes.len());
    let mut sum = 0u64;
    for word in bytes[..covered].chunks(4) {
        sum += word.iter().enumerate().map(|(i, b)| u64::from(*b) << (8 * i)).sum::<u64>();
    }
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[216..220].copy_from_slice(&folded.to_le_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn every_version_round_trips() {
    for version in Version::ALL {
        let sb = sample(version);
        let bytes = encoded(&sb);
        let read = parse(version, &bytes).unwrap();
        assert_eq!(fields(&read), fields(&sb), "{version}");
        assert_eq!(encoded(&read), bytes, "{version}: a rewrite changes nothing");
    }
}

#[test]
fn places_are_those_of_the_kernel() {
    let offsets = |bytes| Version::ALL.map(|v| v.superblock_offset(bytes));
    // 100 MiB and 5 sectors: rounding shows. 1.2, 1.1, 1.0, 0.90 twice.
    let v0 = Some(100 * MIB - 65536);
    assert_eq!(offsets(100 * MIB + 5 * 512), [Some(4096), Some(0), Some(100 * MIB - 8192), v0, v0]);
    assert_eq!(offsets(100 * MIB + 4096)[2], Some(100 * MIB - 4096));
    assert_eq!(offsets(0), [None; 5]);
    assert_eq!(offsets(8191), [None, Some(0), None, None, None]);
    assert_eq!(offsets(65535)[3], None);
    assert_eq!(offsets(65536)[3], Some(0));
    for probe in probe_offsets(u64::MAX) {
        assert!(probe.offset.checked_add(probe.len as u64).is_some());
    }
}

#[test]
fn offsets_on_disk_are_those_of_md_p_h() {
    let mut sb = sample(Version::V1_2);
    sb.bitmap_offset = Some(4096);
    sb.recovery_offset = Some(512 * 0x1122);
    sb.bad_block_log = Some(BadBlockLog { offset: -4096, size: 4096, shift: 0 });
    sb.flags = DeviceFlags { write_mostly: true, failfast: true };
    sb.logical_block_size = 4096;
    sb.corrected_reads = 7;
    let bytes = encoded(&sb);
    let at32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let at64 = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((at32(0), at32(4), at32(8), at32(12)), (0xa92b_4efc, 1, 3, 0));
    assert_eq!(&bytes[32..42], b"host:data\0");
    assert_eq!((at64(64), at32(72), at32(76)), (1_700_000_000, 5, 2));
    assert_eq!((at64(80), at32(88), at32(92), at32(96)), (65536, 128, 4, 8));
    assert_eq!((at64(128), at64(136), at64(144), at64(152)), (2048, 60 * 2048, 8, 0x1122));
    assert_eq!((at32(160), at32(164)), (2, 7));
    assert_eq!((bytes[184], bytes[185], &bytes[186..188]), (3, 0, &[8, 0][..]));
    assert_eq!(at32(188) as i32, -8);
    assert_eq!((at64(192), at64(200), at64(208)), (1_700_000_001, 0x1_0000_0017, u64::MAX));
    assert_eq!((at32(220), at32(224)), (128, 4096));
    assert_eq!(bytes[256..266], [0, 0, 1, 0, 2, 0, 3, 0, 0xff, 0xff]);
    let mut resummed = bytes.clone();
    resum_v1(&mut resummed);
    assert_eq!(resummed, bytes);
}

#[test]
fn offsets_of_0_90_are_those_of_md_p_h_in_both_byte_orders() {
    let little = encoded(&sample(Version::V0_90(Endian::Little)));
    let big = encoded(&sample(Version::V0_90(Endian::Big)));
    let le = |word: usize| u32::from_le_bytes(little[4 * word..4 * word + 4].try_into().unwrap());
    let be = |word: usize| u32::from_be_bytes(big[4 * word..4 * word + 4].try_into().unwrap());
    // Every word is the same number, except that the halves of the event counts change places.
    for word in 0..1024 {
        let twin = match word {
            39 | 41 => word + 1,
            40 | 42 => word - 1,
            _ => word,
        };
        assert_eq!(le(word), be(twin), "word {word}");
    }
    assert_eq!((le(0), le(1), le(2)), (0xa92b_4efc, 0, 90));
    assert_eq!((le(5), le(13), le(14), le(15)), (0x0011_2233, 0x4455_6677, 0x8899_aabb, 0xccdd_eeff));
    assert_eq!((le(7), le(8), le(9), le(10)), (5, 32 << 10, 4, 4));
    assert_eq!((le(33), le(34), le(35), le(36), le(37)), (1, 4, 4, 0, 0));
    assert_eq!((le(39), le(40), le(41), le(42)), (0x17, 1, 0x17, 1));
    assert_eq!((le(64), le(65)), (2, 64 << 10));
    let disk = |n: usize| [le(128 + 32 * n), le(131 + 32 * n), le(132 + 32 * n)];
    assert_eq!([disk(0), disk(1), disk(3), disk(4)], [[0, 0, 6], [1, 1, 6], [3, 3, 6], [0, 0, 0]]);
    assert_eq!((le(992), le(995), le(996)), (2, 2, 6));
}

#[test]
fn a_rewrite_keeps_what_is_not_known() {
    for version in V1 {
        // Unused bytes, an unknown feature, a name that is not UTF-8, a bitmap offset without its feature.
        let bytes = forged(version, |b| {
            b[4000] = 0xab;
            b[240] = 0xcd;
            b[11] = 0x80;
            b[33] = 0xff;
            put32(b, 96, 77);
        });
        let mut sb = parse(version, &bytes).unwrap();
        assert_eq!(sb.features.unknown(), 0x8000_0000);
        assert_eq!(sb.features.to_string(), "unknown bits 0x80000000");
        assert_eq!(sb.name, "h\u{fffd}st:data");
        assert_eq!(encoded(&sb), bytes);
        sb.events += 1;
        let mut wanted = bytes.clone();
        put64(&mut wanted, 200, sb.events);
        resum_v1(&mut wanted);
        assert_eq!(encoded(&sb), wanted, "only event count and checksum change");
    }
    let version = Version::V0_90(Endian::Little);
    let mut bytes = encoded(&sample(version));
    put32(&mut bytes, 4 * (128 + 1), 8); // major and minor of disk 0
    put32(&mut bytes, 4 * (128 + 2), 17);
    put32(&mut bytes, 4 * 11, 3); // preferred minor
    let old = u32::from_le_bytes(bytes[152..156].try_into().unwrap());
    put32(&mut bytes, 152, old.wrapping_add(8 + 17 + 3));
    let mut sb = parse(version, &bytes).unwrap();
    assert_eq!(encoded(&sb), bytes);
    sb.roles[0] = DeviceRole::Faulty;
    let out = encoded(&sb);
    let word = |n: usize| u32::from_le_bytes(out[4 * n..4 * n + 4].try_into().unwrap());
    assert_eq!([word(128), word(129), word(130), word(132)], [0, 8, 17, 1]);
    assert_eq!((word(34), word(36), word(11)), (3, 1, 3), "active, failed, preferred minor");
}

#[test]
fn a_0_90_checkpoint_counts_only_with_its_event_count() {
    let version = Version::V0_90(Endian::Little);
    let mut sb = sample(version);
    sb.resync_offset = Some(3 * MIB);
    let mut bytes = encoded(&sb);
    assert_eq!(parse(version, &bytes).unwrap().resync_offset, Some(3 * MIB));
    let sum = u32::from_le_bytes(bytes[152..156].try_into().unwrap());
    put32(&mut bytes, 4 * 41, 0x18);
    put32(&mut bytes, 152, sum + 1);
    assert_eq!(parse(version, &bytes).unwrap().resync_offset, Some(0));
}

#[test]
fn damage_is_told_from_absence() {
    for version in Version::ALL {
        let bytes = encoded(&sample(version));
        assert_eq!(parse(version, &[0; SUPERBLOCK_BYTES]), Err(SuperblockError::NoMagic));
        assert!(matches!(parse(version, &bytes[..255]), Err(SuperblockError::Short { .. })));
        let mut damaged = bytes.clone();
        damaged[70] ^= 4;
        assert!(matches!(parse(version, &damaged), Err(SuperblockError::Checksum { .. })), "{version}");
        let mut other = bytes.clone();
        other[if version == Version::V0_90(Endian::Big) { 7 } else { 4 }] = 9;
        assert!(matches!(parse(version, &other), Err(SuperblockError::WrongVersion { major: 9, .. })));
    }
    for version in V1 {
        let bytes = encoded(&sample(version));
        for wrong in V1.into_iter().filter(|v| *v != version) {
            assert!(matches!(parse(wrong, &bytes), Err(SuperblockError::Misplaced { .. })));
        }
    }
}

#[test]
fn values_that_no_array_has_are_refused() {
    let impossible = |field: &'static str, value: u64| SuperblockError::Impossible { field, value };
    let version = Version::V1_2;
    let read = |at: usize, value: u32| parse(version, &forged(version, |b| put32(b, at, value)));
    let read64 = |at: usize, value: u64| parse(version, &forged(version, |b| put64(b, at, value)));
    assert_eq!(read(220, 1921), Err(impossible("max_dev", 1921)));
    assert_eq!(read(220, u32::MAX), Err(impossible("max_dev", u64::from(u32::MAX))));
    assert_eq!(read(72, 7), Err(impossible("level", 7)));
    assert_eq!(read(92, 0), Err(impossible("raid_disks", 0)));
    assert_eq!(read(92, u32::MAX), Err(impossible("raid_disks", u64::from(u32::MAX))));
    assert_eq!(read(92, 2), Err(impossible("dev_roles", 2)));
    for features in [4096, 1024 | 1, 1024 | 512, 2048 | 1, 1024 | 2048] {
        assert_eq!(read(8, features), Err(impossible("feature_map", u64::from(features))));
    }
    let journal = forged(version, |b| b[260..262].copy_from_slice(&[0xfd, 0xff]));
    assert_eq!(parse(version, &journal), Err(impossible("feature_map", 0)));
    for (at, field) in [(80, "size"), (128, "data_offset"), (136, "data_size"), (144, "super_offset")] {
        assert_eq!(read64(at, u64::MAX), Err(impossible(field, u64::MAX)));
        assert_eq!(read64(at, 1 << 54), Err(impossible(field, 1 << 54)));
    }
    assert_eq!(read64(208, u64::MAX - 1), Err(impossible("resync_offset", u64::MAX - 1)));
    assert_eq!(read64(136, 9), Err(impossible("data_size", 9)));
    assert_eq!(read64(80, 60 * 2048 + 1), Err(impossible("size", 60 * 2048 + 1)));
    assert_eq!(read64(128, 9), Err(SuperblockError::Overlap { area: "data" }));
    let end = 64 * MIB + MIB;
    let beyond = SuperblockError::BeyondDevice { area: "data", end, device_bytes: DEVICE };
    assert_eq!(read64(136, 64 * 2048), Err(beyond));
    assert_eq!(read64(144, 16), Err(SuperblockError::Misplaced { recorded: 8192, actual: 4096 }));
    let shift = forged(version, |b| {
        put32(b, 8, 4 | 64);
        put32(b, 124, (-2047i32) as u32);
    });
    assert_eq!(parse(version, &shift), Err(SuperblockError::Overlap { area: "data after the reshape" }));
    let shift = forged(version, |b| {
        put32(b, 8, 4 | 64);
        put32(b, 124, 64 * 2048);
    });
    assert_eq!(parse(version, &shift), Err(SuperblockError::Overlap { area: "data after the reshape" }));
    for (at, field, value) in [
        (112, "delta_disks", 4),
        (112, "delta_disks", (-1920i32) as u32),
        (112, "delta_disks", 1 << 31),
        (100, "new_level", 2),
    ] {
        let bytes = forged(version, |b| {
            put32(b, 8, Features::RESHAPE_ACTIVE.0);
            put32(b, at, value);
        });
        assert_eq!(parse(version, &bytes), Err(impossible(field, u64::from(value))));
    }
    let shift = forged(version, |b| b[185] = 64);
    assert_eq!(parse(version, &shift), Err(impossible("bblog_shift", 64)));
}

/// `mdadm --create --metadata=1.0 --data-offset=1M` writes a data size that ignores the offset.
#[test]
fn a_data_size_of_1_0_may_overlap_where_it_is_not_used() {
    let version = Version::V1_0;
    let sized = |component: u64| {
        forged(version, |b| {
            put64(b, 80, component / 512);
            put64(b, 128, MIB / 512);
            put64(b, 136, (DEVICE - 16384) / 512);
        })
    };
    assert!(parse(version, &sized(DEVICE - 8192 - MIB)).is_ok());
    assert_eq!(parse(version, &sized(DEVICE - 4096 - MIB)), Err(SuperblockError::Overlap { area: "data" }));
    assert!(matches!(parse(version, &sized(DEVICE - MIB + 512)), Err(SuperblockError::BeyondDevice { .. })));
    let linear = forged(version, |b| {
        put32(b, 72, u32::MAX);
        put64(b, 128, MIB / 512);
        put64(b, 136, (DEVICE - 16384) / 512);
    });
    assert!(matches!(parse(version, &linear), Err(SuperblockError::BeyondDevice { .. })));
}

#[test]
fn a_truncated_image_is_named() {
    for version in [Version::V1_1, Version::V1_2] {
        let bytes = encoded(&sample(version));
        let error = Superblock::parse(version, &bytes, 32 * MIB).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data ends at byte 63963136, but the device has 33554432 bytes: it is truncated or too small"
        );
    }
}

#[test]
fn what_a_version_cannot_record_is_refused_and_nothing_is_written() {
    let mut out = vec![0x5a; SUPERBLOCK_BYTES];
    let mut refuse = |sb: &Superblock| {
        let error = sb.encode(&mut out).unwrap_err();
        assert!(out.iter().all(|b| *b == 0x5a));
        error
    };
    for version in V1 {
        let mut sb = sample(version);
        sb.name = "n".repeat(33);
        assert_eq!(refuse(&sb), EncodeError::Name { version, len: 33, max: 32 });
        let mut sb = sample(version);
        sb.data_offset += 1;
        assert!(matches!(refuse(&sb), EncodeError::Unrepresentable { field: "data_offset", .. }));
        let mut sb = sample(version);
        sb.roles = vec![DeviceRole::Spare; 1921];
        assert_eq!(refuse(&sb), EncodeError::TooManyDevices { version, devices: 1921, max: 1920 });
        let mut sb = sample(version);
        sb.bitmap_offset = Some(4096);
        sb.ppl = Some(Ppl { offset: 4096, size: 4096 });
        assert!(matches!(refuse(&sb), EncodeError::Unsupported { .. }));
    }
    let version = Version::V0_90(Endian::Little);
    let mut sb = sample(version);
    sb.name = "x".into();
    assert_eq!(refuse(&sb), EncodeError::Name { version, len: 1, max: 0 });
    let mut sb = sample(version);
    sb.roles = vec![DeviceRole::Spare; 28];
    assert_eq!(refuse(&sb), EncodeError::TooManyDevices { version, devices: 28, max: 27 });
    let mut sb = sample(version);
    sb.roles[0] = DeviceRole::Active(27);
    assert!(matches!(refuse(&sb), EncodeError::Unrepresentable { field: "raid_disk", value: 27, .. }));
    let mut sb = sample(version);
    sb.recovery_offset = Some(0);
    assert!(matches!(refuse(&sb), EncodeError::Unsupported { what: "a recovery offset", .. }));
    let mut sb = sample(version);
    sb.component_size = 1 << 42;
    assert!(matches!(refuse(&sb), EncodeError::Unrepresentable { field: "size", .. }));
    let error = sample(version).encode(&mut [0; 4095]).unwrap_err();
    assert_eq!(error, EncodeError::Buffer { have: 4095, need: 4096 });
}

fn any_role() -> impl Strategy<Value = DeviceRole> {
    prop_oneof![(0u16..4).prop_map(DeviceRole::Active), Just(DeviceRole::Spare), Just(DeviceRole::Faulty),]
}

prop_compose! {
    fn any_common()(
        version in prop::sample::select(&Version::ALL[..]),
        uuid in any::<u128>(),
        level in prop::sample::select(&[-1, 0, 1, 4, 5, 6, 10][..]),
        layout in any::<u32>(),
        chunk_kib in 0u64..65536,
        size_kib in 0u64..60 << 10,
        events in any::<u64>(),
        resync in proptest::option::of(0u64..1 << 20),
        roles in proptest::collection::vec(any_role(), 4..20),
        flags in any::<(bool, bool)>(),
    ) -> Superblock {
        let mut sb = sample(version);
        sb.set_uuid = Uuid::from_u128(uuid);
        sb.level = level;
        sb.layout = layout;
        sb.chunk = chunk_kib << 10;
        sb.component_size = size_kib << 10;
        sb.events = events;
        sb.resync_offset = resync.map(|sectors| sectors * 512);
        sb.device_number = 2;
        sb.roles = roles;
        sb.flags = DeviceFlags { write_mostly: flags.0, failfast: flags.1 };
        if !version.is_v1() {
            sb.data_size = sb.super_offset;
        }
        sb
    }
}

prop_compose! {
    fn any_reshape()(
        position in 0u64..1 << 40,
        new_level in prop::sample::select(&[0, 5, 6, 10][..]),
        new_layout in any::<u32>(),
        chunk in 0u64..1 << 20,
        delta_disks in -3i32..4,
    ) -> Reshape {
        Reshape { position: position * 512, new_level, new_layout, new_chunk: chunk * 512, delta_disks, new_offset: None }
    }
}

prop_compose! {
    fn any_superblock()(
        common in any_common(),
        micros in 0u32..1 << 24,
        offsets in any::<(i16, i32, i32)>(),
        place in 0u8..3,
        log in proptest::option::of((1u16.., 0u8..64)),
        recovery in proptest::option::of(0u64..1 << 40),
        reshape in proptest::option::of(any_reshape()),
        moved in proptest::option::of(0i32..1 << 20),
        device in any::<(u128, u32, u32)>(),
    ) -> Superblock {
        let mut sb = common;
        sb.reshape = reshape;
        sb.features = sb.features.with(Features::RESHAPE_ACTIVE, reshape.is_some());
        if !sb.version.is_v1() {
            return sb;
        }
        if let Some(reshape) = &mut sb.reshape {
            let end = if sb.version == Version::V1_0 { sb.super_offset } else { DEVICE };
            let room = (end - sb.data_offset - sb.component_size) / 512;
            reshape.new_offset = moved.map(|sectors| (i64::from(sectors) % (room as i64 + 1)) * 512);
            sb.features = sb.features.with(Features::NEW_OFFSET, moved.is_some());
        }
        sb.created.micros = micros;
        match place {
            1 => {
                sb.bitmap_offset = Some(i64::from(offsets.1) * 512);
                sb.features |= Features::BITMAP_OFFSET;
            }
            2 => {
                sb.ppl = Some(Ppl { offset: i64::from(offsets.0) * 512, size: 512 });
                sb.features |= Features::MULTIPLE_PPLS;
            }
            _ => {}
        }
        sb.bad_block_log = log
            .filter(|_| offsets.2 != 0)
            .map(|(size, shift)| BadBlockLog { offset: i64::from(offsets.2) * 512, size: u64::from(size) * 512, shift });
        sb.recovery_offset = recovery.map(|sectors| sectors * 512);
        sb.features = sb.features.with(Features::RECOVERY_OFFSET, recovery.is_some());
        sb.device_uuid = Uuid::from_u128(device.0);
        sb.corrected_reads = device.1;
        sb.logical_block_size = device.2;
        sb
    }
}

/// Any byte of a block, those that mean something more often.
fn any_place() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..300, 512usize..1024, 3968usize..4096, 0usize..4096]
}

/// Makes the checksum right again, so that flipped bytes reach the checks behind it.
fn resum(version: Version, bytes: &mut [u8]) {
    match version {
        Version::V0_90(endian) => {
            bytes[152..156].fill(0);
            let words = bytes.chunks_exact(4).map(|w| match endian {
                Endian::Little => u32::from_le_bytes(w.try_into().unwrap()),
                Endian::Big => u32::from_be_bytes(w.try_into().unwrap()),
            });
            let sum: u64 = words.map(u64::from).sum();
            let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
            bytes[152..156].copy_from_slice(&match endian {
                Endian::Little => sum.to_le_bytes(),
                Endian::Big => sum.to_be_bytes(),
            });
        }
        _ => resum_v1(bytes),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_superblock_round_trips(sb in any_superblock()) {
        let bytes = encoded(&sb);
        let read = parse(sb.version, &bytes).unwrap();
        prop_assert_eq!(fields(&read), fields(&sb));
        prop_assert!(encoded(&read) == bytes);
    }

    /// Flipped bytes under a right checksum lead to an error, or to a superblock that encodes to the same bytes.
    #[test]
    fn flipped_bytes_never_panic(
        sb in any_superblock(),
        flips in proptest::collection::vec((any_place(), any::<u8>()), 1..6),
        repair in any::<bool>(),
        device_bytes in prop_oneof![Just(DEVICE), any::<u64>()],
    ) {
        let mut bytes = encoded(&sb);
        for (at, value) in flips {
            bytes[at] ^= value;
        }
        if repair {
            resum(sb.version, &mut bytes);
        }
        for version in Version::ALL {
            if let Ok(read) = Superblock::parse(version, &bytes, device_bytes) {
                let mut again = vec![0; SUPERBLOCK_BYTES];
                prop_assert_eq!(read.encode(&mut again), Ok(()));
                // Of the checksum of 0.90 only the sum of its halves is compared, as the kernel does: it may be another one.
                let mut summed = bytes.clone();
                resum(version, &mut summed);
                let change = again.iter().zip(&summed).position(|(a, b)| a != b);
                prop_assert_eq!(change, None, "{}", fields(&read));
            }
        }
    }

    #[test]
    fn noise_of_any_length_never_panics(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..4200),
        magic in any::<bool>(),
        device_bytes in any::<u64>(),
    ) {
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        }
        for version in Version::ALL {
            prop_assert!(Superblock::parse(version, &bytes, device_bytes).is_err());
        }
    }
}
