//! Metadata of Intel's containers. Input: size of the disk (8 bytes, then 1 to shift it by), its sectors (1: 4096 if odd), then the
//! metadata, whose checksum is corrected; the last 128 bytes once more as the record of a change.

use brindle_format::imsm::{
    Container, ImsmError, MAX_MPB_BYTES, MIGRATION_RECORD_BYTES, MigrationRecord, anchor, checksum, extended,
    migration_record,
};

use brindle_host::{ContainerMember, ContainerOptions, ContainerSet, VolumeRole};

use crate::feed::Feed;

/// Bytes of the head at which checksum and size stand.
const SUM: usize = 32;
const SIZE: usize = 36;

/// Parses whatever it is given: what is accepted is written back to the byte, and takes no more memory than its bytes.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let size = feed.u64() >> (feed.u8() % 64);
    let sector = if feed.u8() & 1 == 0 { 512 } else { 4096 };
    let mut bytes = feed.0.to_vec();
    check(&bytes, sector);
    if let Some(len) = bytes.get(SIZE..SIZE + 4) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let sum = checksum(&bytes[..len.min(bytes.len())]);
        bytes[SUM..SUM + 4].copy_from_slice(&sum.to_le_bytes());
    }
    if let Some(len) = check(&bytes, sector)
        && let Some(rest) = extended(size, sector, len)
    {
        let anchor = anchor(size, sector).expect("what stands before it");
        let record = migration_record(size, sector).expect("what stands behind it");
        assert!(rest.end == anchor.start && anchor.end == record.start && record.end <= size);
        assert!(rest.end - rest.start + sector >= len as u64);
    }
    if let Ok(metadata) = Container::parse(&bytes, sector) {
        set(&metadata, size, sector);
    }
    let record = &bytes[bytes.len().saturating_sub(MIGRATION_RECORD_BYTES)..];
    if let Ok(Some(read)) = MigrationRecord::parse(record, sector) {
        assert_eq!(read.encode(sector).expect("what was read can be written")[..], *record);
    }
}

/// The bytes of the metadata, if they are accepted.
fn check(bytes: &[u8], sector: u64) -> Option<usize> {
    let read = match Container::parse(bytes, sector) {
        Ok(read) => read,
        Err(why) => {
            assert!(!matches!(why, ImsmError::Unaligned { .. }), "{why}");
            return None;
        }
    };
    let len = Container::bytes(bytes).expect("what was parsed");
    assert!(len <= MAX_MPB_BYTES && len <= bytes.len());
    assert_eq!(read.encode(sector).expect("what was read can be written"), bytes[..len]);
    for volume in 0..=read.volumes.len() {
        assert_eq!(read.volume_uuid(volume).is_some(), volume < read.volumes.len());
    }
    let _ = (read.attributes.unsupported().names(), read.version_text(), read.is_spare());
    Some(len)
}

/// The container of two disks that say the same, or of which one is a step behind: whatever comes of it lies on the disks.
fn set(metadata: &Container, size: u64, sector: u64) {
    let disk = |number: usize, metadata: Container| ContainerMember {
        label: format!("disk{number}"),
        size,
        sector,
        anchor: anchor(size, sector).map_or(0, |anchor| anchor.start),
        metadata,
        serial: None,
        number: Some(number),
    };
    let mut older = metadata.clone();
    older.generation = older.generation.saturating_sub(1);
    for force in [false, true] {
        let disks = vec![disk(0, metadata.clone()), disk(1, older.clone())];
        let Ok(set) = ContainerSet::of(disks, force) else { continue };
        for number in 0..=metadata.volumes.len() {
            let Ok(plan) = set.volume(number, ContainerOptions { force, partial: force }) else { continue };
            assert_eq!(plan.roles.len(), usize::from(plan.geometry.members()));
            assert!(
                plan.geometry.size() >= plan.size && plan.used <= metadata.volumes[number].map.member_size
            );
            let on_disk = |role: &VolumeRole| role.member.is_none() || plan.offset + plan.used <= size;
            assert!(plan.roles.iter().all(on_disk), "{plan:?}");
            assert!(plan.limits.iter().all(|limit| limit.forbids_writes));
            let _ = plan.description(&set);
        }
    }
}
