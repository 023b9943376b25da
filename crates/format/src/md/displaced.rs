//! Superblocks away from where a device keeps them: of a member that was copied onto a larger device, so that it ends before that does,
//! or whose partition is in no table any more.

use core::ops::Range;

use super::{Endian, MAGIC, SUPERBLOCK_BYTES, Superblock, Version, v1};

/// Each superblock that is found stands at a multiple of so many bytes of the device.
pub const STEP: u64 = 4096;

/// 0.90 keeps its superblock at a multiple of this, so many bytes before the end of the member at least.
const STEP_0_90: u64 = 64 * 1024;

/// 1.0 keeps it so many bytes before the end of the member at least.
const TAIL_1_0: u64 = 8192;

/// The bytes of the device that were the member whose superblock stands at byte `place`; `None` if `bytes` are no superblock that can
/// stand there. 1.x says where the superblock is on its member. 0.90 does not: its member is taken to begin where the device does.
pub fn member(place: u64, bytes: &[u8]) -> Option<Range<u64>> {
    let magic = bytes.first_chunk().map(|word| u32::from_le_bytes(*word))?;
    if bytes.len() < SUPERBLOCK_BYTES || (magic != MAGIC && magic != MAGIC.swap_bytes()) {
        return None;
    }
    in_0_90(place, bytes).or_else(|| in_1(place, bytes))
}

fn in_0_90(place: u64, bytes: &[u8]) -> Option<Range<u64>> {
    let end = place.checked_add(STEP_0_90).filter(|_| place.checked_rem(STEP_0_90) == Some(0))?;
    let is = |endian| Superblock::parse(Version::V0_90(endian), bytes, end).is_ok();
    [Endian::Little, Endian::Big].into_iter().any(is).then_some(0..end)
}

fn in_1(place: u64, bytes: &[u8]) -> Option<Range<u64>> {
    let (on_member, data_end) = v1::places(bytes)?;
    let start = place.checked_sub(on_member)?;
    let (version, len) = match on_member {
        0 => (Version::V1_1, data_end),
        4096 => (Version::V1_2, data_end),
        _ => (Version::V1_0, on_member.checked_add(TAIL_1_0)?),
    };
    Superblock::parse(version, bytes, len).ok()?;
    Some(start..start.checked_add(len)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: u64 = 8 << 20;

    fn superblock(version: Version) -> (u64, Vec<u8>) {
        let mut superblock = Superblock::new(version, MEMBER).unwrap();
        (superblock.level, superblock.raid_disks) = (1, 2);
        superblock.component_size = 4 << 20;
        (superblock.data_offset, superblock.data_size) = match version {
            Version::V0_90(_) => (0, 0),
            Version::V1_0 => (0, superblock.super_offset),
            Version::V1_1 | Version::V1_2 => (1 << 20, 7 << 20),
        };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        superblock.encode(&mut bytes).unwrap();
        (superblock.super_offset, bytes)
    }

    #[test]
    fn members_are_found_where_they_end() {
        for version in Version::ALL {
            let (place, bytes) = superblock(version);
            assert_eq!(member(place, &bytes), Some(0..MEMBER), "{version}");
            // 0.90 does not say where it begins.
            let moved = version.is_v1().then_some(STEP..MEMBER + STEP);
            assert_eq!(member(place + STEP, &bytes), moved, "{version}");
            let mut rotten = bytes.clone();
            rotten[20] ^= 1;
            assert_eq!(member(place, &rotten), None, "{version}");
            assert_eq!(member(place, &bytes[..4095]), None, "{version}");
        }
        let (place, bytes) = superblock(Version::V1_0);
        assert_eq!(member(place - STEP, &bytes), None);
        assert_eq!(member(u64::MAX - 4095, &bytes), None);
    }
}
