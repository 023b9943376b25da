//! Superblocks of every version: bytes and back, and what hostile bytes lead to.

use brindle_format::md::{
    DeviceRole, SUPERBLOCK_BYTES, Superblock, SuperblockError, Timestamp, Uuid, Version,
};

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 64 * MIB;

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

/// Everything that is public, as text: the bytes that a parsed superblock keeps are left out.
fn fields(sb: &Superblock) -> String {
    format!("{sb:#?}")
}
