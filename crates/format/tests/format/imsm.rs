//! Intel's containers: what is parsed is written again to the byte, what is damaged is refused, and the page and the code say the same.

#![allow(clippy::unwrap_used)]

use brindle_format::imsm::{
    Container, ContainerAttributes, ContainerDisk, ContainerVolume, DefectRange, DiskSlot, DiskStatus,
    ImsmError, MAX_DEFECTS, MapState, Migration, MigrationKind, MigrationRecord, VolumeMap, WriteHole,
    anchor, checksum, extended, migration_record, serial_text,
};
use proptest::prelude::*;

use super::documents::fields::check_fields;
use super::documents::page::rows;
use super::documents::source::check_layout;

const PAGE: &str = include_str!("../../../../docs/formats/imsm.md");

fn padded(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// A container in which everything is there that can be.
fn full(sector: u64) -> Container {
    let slots = || (0..3).map(DiskSlot).collect();
    let mut map = VolumeMap::new(5, 128 * sector, slots());
    (map.offset, map.member_size, map.stripes, map.domains) = (0, 1 << 30, 77, 1);
    map.state = MapState::Degraded;
    let mut first = ContainerVolume::new(padded("first"), 3 << 30, map.clone());
    first.migration = Some(Migration { kind: MigrationKind::Rebuild, before: map.clone() });
    (first.unit, first.dirty, first.write_hole) = (5, 1, WriteHole(1));
    map.offset = 1 << 30;
    let second = ContainerVolume::new(padded("second"), 3 << 30, map);
    let disk = |text: &str| ContainerDisk::new(padded(text), 10 << 30, DiskStatus::CONFIGURED);
    let mut container = Container::new(0x1234_5678, 9);
    container.disks = ["AAA", "BBB", "CCC"].map(disk).to_vec();
    container.volumes = vec![first, second];
    container.defects = Some(vec![DefectRange { disk: 1, offset: 5 * sector, len: 3 * sector }; 2]);
    container
}

/// Corrects the checksum.
fn sum(bytes: &mut [u8]) {
    let len = (u32::from_le_bytes(bytes[36..40].try_into().unwrap()) as usize).min(bytes.len());
    let sum = checksum(&bytes[..len]);
    bytes[32..36].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_container_is_read_as_it_was_written_on_disks_of_either_kind() {
    for sector in [512, 4096] {
        let container = full(sector);
        let bytes = container.encode(sector).unwrap();
        assert_eq!(Container::bytes(&bytes[..512]), Ok(bytes.len()));
        let read = Container::parse(&bytes, sector).unwrap();
        assert_eq!(read, container, "{sector}");
        assert_eq!(read.encode(sector).unwrap(), bytes);
        assert_eq!(read.check_sum(sector).unwrap(), checksum(&bytes));
        // Bytes behind the metadata are not theirs.
        let more = [&bytes[..], &[7; 100]].concat();
        assert_eq!(Container::parse(&more, sector), Ok(container));
    }
}

#[test]
fn metadata_that_are_damaged_are_refused_with_the_reason() {
    let bytes = full(512).encode(512).unwrap();
    let parse = |bytes: &[u8]| Container::parse(bytes, 512);
    assert_eq!(parse(&bytes[..100]), Err(ImsmError::Short { have: 100, need: 216 }));
    assert_eq!(parse(&bytes[..300]), Err(ImsmError::Short { have: 300, need: bytes.len() }));
    let changed = |at: usize, value: &[u8], summed: bool| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        if summed {
            sum(&mut bytes);
        }
        parse(&bytes)
    };
    assert_eq!(changed(0, b"J", false), Err(ImsmError::NoSignature));
    assert!(matches!(changed(100, &[1], false), Err(ImsmError::Checksum { .. })));
    assert_eq!(changed(36, &[0xff; 4], true), Err(ImsmError::Size { size: u32::MAX }));
    assert_eq!(changed(36, &[0; 4], true), Err(ImsmError::Size { size: 0 }));
    assert!(changed(56, &[255], true).is_err() && changed(57, &[255], true).is_err());
    assert!(matches!(changed(72, &[0xff; 4], true), Err(ImsmError::Cut { what: "log of bad blocks" })));
    // A disk of 2^64 sectors.
    let disk = 216 + 32;
    assert_eq!(changed(disk, &[0xff; 4], true), Err(ImsmError::TooLarge { field: "total_blocks" }));
}

#[test]
fn attributes_that_nothing_here_knows_have_their_names() {
    let attributes = ContainerAttributes(0x8200_0028);
    assert_eq!(attributes.names(), ["raid1e", "cng", "nvm-cache", "checksum"]);
    assert_eq!(attributes.unsupported().names(), ["raid1e", "cng", "nvm-cache"]);
    assert_eq!(ContainerAttributes(0x0001_0000).unsupported().names(), ["bit-16"]);
    assert_eq!(ContainerAttributes(0xac00_00d7).unsupported(), ContainerAttributes(0));
}

#[test]
fn metadata_stand_before_the_end_of_the_disk() {
    assert_eq!(anchor(1 << 20, 512), Some((1 << 20) - 1024..(1 << 20) - 512));
    assert_eq!(migration_record(1 << 20, 512), Some((1 << 20) - 512..1 << 20));
    assert_eq!(extended(1 << 20, 512, 512), Some((1 << 20) - 1024..(1 << 20) - 1024));
    assert_eq!(extended(1 << 20, 512, 513), Some((1 << 20) - 1536..(1 << 20) - 1024));
    assert_eq!(extended(1 << 20, 4096, 5000), Some((1 << 20) - 12288..(1 << 20) - 8192));
    assert_eq!((anchor(1000, 512), extended(1024, 512, 600)), (None, None));
}

#[test]
fn uuids_are_those_that_mdadm_makes() {
    let mut container = full(512);
    (container.family, container.original_family) = (0x1234_5678, 0);
    let family = container.uuid();
    container.original_family = 0x1234_5678;
    assert_eq!(container.uuid(), family);
    assert_ne!(container.volume_uuid(0), container.volume_uuid(1));
    assert_eq!(container.volume_uuid(2), None);
    assert_eq!(serial_text(&padded("AB C")), "AB C");
}

#[test]
fn a_record_of_a_change_is_read_as_it_was_written() {
    assert_eq!(MigrationRecord::parse(&[0; 512], 512), Ok(None));
    assert!(MigrationRecord::parse(&[0; 100], 512).is_err());
    let mut bytes: Vec<u8> = (1..=128).collect();
    // The places of high words: more would be larger than any disk.
    for at in [40, 52, 56] {
        bytes[at..at + 4].fill(0);
    }
    for sector in [512, 4096] {
        let record = MigrationRecord::parse(&bytes, sector).unwrap().unwrap();
        assert_eq!(record.encode(sector).unwrap()[..], bytes);
    }
}

#[test]
fn a_log_of_bad_blocks_has_room_for_so_many() {
    let mut container = full(512);
    container.defects = Some(vec![DefectRange { disk: 0, offset: 512, len: 256 * 512 }; MAX_DEFECTS]);
    let bytes = container.encode(512).unwrap();
    assert_eq!(Container::parse(&bytes, 512), Ok(container.clone()));
    container.defects.as_mut().unwrap().push(DefectRange { disk: 0, offset: 512, len: 512 });
    assert_eq!(container.encode(512), Err(ImsmError::TooLarge { field: "entry_count" }));
    container.defects = Some(vec![DefectRange { disk: 0, offset: 100, len: 512 }]);
    assert!(matches!(container.encode(512), Err(ImsmError::Unaligned { .. })));
}

proptest! {
    #[test]
    fn whatever_is_accepted_is_written_back_to_the_byte(
        changes in prop::collection::vec((32usize..2000, any::<u8>()), 1..6),
        large in any::<bool>(),
    ) {
        let sector = if large { 4096 } else { 512 };
        let mut bytes = full(sector).encode(sector).unwrap();
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        sum(&mut bytes);
        if let Ok(read) = Container::parse(&bytes, sector) {
            let len = Container::bytes(&bytes).unwrap();
            prop_assert_eq!(&read.encode(sector).unwrap()[..], &bytes[..len]);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), sector in any::<u64>()) {
        let mut signed = b"Intel Raid ISM Cfg Sig. ".to_vec();
        signed.extend_from_slice(&bytes);
        for bytes in [&bytes, &signed] {
            let _ = Container::parse(bytes, sector);
            let _ = MigrationRecord::parse(bytes, sector);
        }
        let _ = (anchor(sector, 512), extended(512, sector, 5), extended(sector, 0, 5));
    }
}

#[test]
fn the_tables_of_the_page_have_the_names_and_places_of_the_structs() {
    for (name, source) in [
        ("RawMpb", include_str!("../../src/imsm/mod.rs")),
        ("RawDisk", include_str!("../../src/imsm/disk.rs")),
        ("RawVolume", include_str!("../../src/imsm/volume.rs")),
        ("RawMap", include_str!("../../src/imsm/map.rs")),
        ("RawLog", include_str!("../../src/imsm/bad_blocks.rs")),
        ("RawDefect", include_str!("../../src/imsm/bad_blocks.rs")),
        ("RawMigration", include_str!("../../src/imsm/migration.rs")),
    ] {
        check_layout(&rows(PAGE, &format!("`{name}`")), source, name);
    }
}

#[test]
fn fields_stand_where_the_page_draws_them() {
    let bytes = full(512).encode(512).unwrap();
    let parse = |bytes: &[u8]| Container::parse(bytes, 512);
    let (disk, volume, map) = (216, 216 + 3 * 48, 216 + 3 * 48 + 112);
    check_fields(&rows(PAGE, "`RawMpb`"), 0, &bytes, sum, parse);
    check_fields(&rows(PAGE, "`RawDisk`"), disk + 48, &bytes, sum, |bytes| {
        parse(bytes).map(|all| all.disks[1].clone())
    });
    check_fields(&rows(PAGE, "`RawVolume`"), volume, &bytes, sum, |bytes| {
        parse(bytes).map(|all| all.volumes[0].clone())
    });
    check_fields(&rows(PAGE, "`RawMap`"), map, &bytes, sum, |bytes| {
        parse(bytes).map(|all| all.volumes[0].map.clone())
    });
    let log = bytes.len() - 24;
    check_fields(&rows(PAGE, "`RawLog`"), log, &bytes, sum, |bytes| parse(bytes).map(|all| all.defects));
    check_fields(&rows(PAGE, "`RawDefect`"), log + 8, &bytes, sum, |bytes| {
        parse(bytes).map(|all| all.defects.unwrap()[0])
    });
    // High halves with more in them than zeroes would be larger than any disk.
    let is_high = |byte: &u8| (41..=44).contains(byte) || (53..=60).contains(byte);
    let record: Vec<u8> = (1..=128).map(|byte| if is_high(&byte) { 0 } else { byte }).collect();
    let parse = |bytes: &[u8]| MigrationRecord::parse(bytes, 512).map(Option::unwrap);
    check_fields(&rows(PAGE, "`RawMigration`"), 0, &record, |_| {}, parse);
}
