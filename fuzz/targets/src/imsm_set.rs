//! Disks of one container, some of which lie. Input: disks (1: 2 to 6), sectors (1: 4096 if odd), level and volumes (1), how each disk is known
//! (1 each: bit 0 by number, bit 1 by serial). Then changes of metadata: disk (1: all from 200 on), place (2), value (1); checksums are
//! corrected.

use brindle_format::imsm::{
    Container, ContainerDisk, ContainerVolume, DiskSlot, DiskStatus, VolumeMap, anchor, checksum,
};
use brindle_host::{ContainerMember, ContainerOptions, ContainerSet};
use brindle_layout::Level;

use crate::feed::Feed;

const DISK: u64 = 16 << 20;
const PART: u64 = 2 << 20;
const STRIP: u64 = 64 << 10;

/// Places of checksum and size in the head.
const SUM: usize = 32;
const SIZE: usize = 36;

/// Joins the disks in two orders: either gives the same volumes, on the same disks.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let count = 2 + usize::from(feed.u8() % 5);
    let sector = if feed.u8() & 1 == 0 { 512 } else { 4096 };
    let Ok(sound) = container(count, feed.u8()).encode(sector) else { return };
    let known: Vec<u8> = (0..count).map(|_| feed.u8()).collect();
    let mut disks = vec![sound; count];
    while !feed.is_empty() {
        let (disk, place, value) = (usize::from(feed.u8()), usize::from(feed.u16()), feed.u8());
        for (at, bytes) in disks.iter_mut().enumerate() {
            if (disk >= 200 || disk % count == at)
                && let Some(byte) = bytes.get_mut(place)
            {
                *byte = value;
            }
        }
    }
    let members: Vec<ContainerMember> =
        disks.iter().zip(known).enumerate().filter_map(|(at, disk)| member(at, disk, sector)).collect();
    if members.is_empty() {
        return;
    }
    for force in [false, true] {
        let given = volumes(members.clone(), force);
        let turned = volumes(members.iter().rev().cloned().collect(), force);
        assert_eq!(given, turned, "the order of disks decides");
    }
}

/// A container of so many disks.
fn container(count: usize, shape: u8) -> Container {
    let mut container = Container::new(0x1234_5678, 7);
    let disk = |at: usize| ContainerDisk::new(serial(at), DISK, DiskStatus::CONFIGURED);
    container.disks = (0..count).map(disk).collect();
    let levels = match count {
        2 => [1, 0],
        4 => [5, 1],
        _ => [5, 0],
    };
    for number in 0..1 + shape / 16 % 2 {
        let level = levels[usize::from(shape.wrapping_add(number) % 2)];
        let mut map = VolumeMap::new(level, STRIP, (0..count as u32).map(DiskSlot).collect());
        map.offset = u64::from(number) * (PART + (1 << 20));
        map.member_size = PART + (1 << 20);
        map.domains = if level == 1 { 2 } else { 1 };
        map.stripes = PART / STRIP / u64::from(map.domains);
        let data = match level {
            0 => count,
            5 => count - 1,
            _ => count / 2,
        };
        let mut name = [0; 16];
        name[0] = b'a' + number;
        container.volumes.push(ContainerVolume::new(name, PART * data as u64, map));
    }
    container
}

fn serial(at: usize) -> [u8; 16] {
    let mut serial = *b"SERIAL0X\0\0\0\0\0\0\0\0";
    serial[6] += at as u8;
    serial
}

/// A disk as it is read, if its metadata can be.
fn member(at: usize, (disk, known): (&Vec<u8>, u8), sector: u64) -> Option<ContainerMember> {
    let mut bytes = disk.clone();
    let len = u32::from_le_bytes(bytes.get(SIZE..SIZE + 4)?.try_into().ok()?) as usize;
    let sum = checksum(&bytes[..len.min(bytes.len())]);
    bytes[SUM..SUM + 4].copy_from_slice(&sum.to_le_bytes());
    let text = || String::from_utf8_lossy(&serial(at)).trim_end_matches('\0').to_owned();
    Some(ContainerMember {
        label: format!("disk{at}"),
        size: DISK,
        sector,
        anchor: anchor(DISK, sector)?.start,
        metadata: Container::parse(&bytes, sector).ok()?,
        serial: (known & 2 != 0).then(text),
        number: (known & 1 != 0).then_some(at),
    })
}

/// Where a volume begins, how long it is, and the disks of its places.
type Place = (u64, u64, Vec<Option<String>>);

/// All volumes: where each lies, and on which disks; none where the set is refused.
fn volumes(members: Vec<ContainerMember>, force: bool) -> Option<Vec<Option<Place>>> {
    let set = ContainerSet::of(members, force).ok()?;
    let volume = |number: usize| {
        let plan = set.volume(number, ContainerOptions { force, partial: force }).ok()?;
        assert_eq!(plan.roles.len(), usize::from(plan.geometry.members()));
        assert!(plan.geometry.size() >= plan.size && plan.offset + plan.used <= DISK, "{plan:?}");
        assert!(plan.limits.iter().all(|limit| limit.forbids_writes));
        let label = |member: usize| set.members[member].label.clone();
        let mut disks: Vec<Option<String>> = plan.roles.iter().map(|role| role.member.map(label)).collect();
        let mut named: Vec<&String> = disks.iter().flatten().collect();
        named.sort();
        assert!(named.windows(2).all(|two| two[0] != two[1]), "one disk in two places: {disks:?}");
        // Mirrors of two hold the same: which is which need not be known.
        if plan.geometry.level() == Level::Raid1 {
            disks.sort();
        }
        Some((plan.offset, plan.size, disks))
    };
    Some((0..set.newest.volumes.len()).map(volume).collect())
}
