//! Superblocks away from where a device keeps them: of a member that was copied onto a larger device, so that it ends before that does,
//! or whose partition is in no table any more.

use core::ops::Range;

use super::{Endian, MAGIC, SUPERBLOCK_BYTES, Superblock, Version, v1};

/// Each superblock that is found stands at a multiple of so many bytes of the device: partitions of old begin at odd sectors.
pub const STEP: u64 = 512;

/// 0.90 keeps its superblock at a multiple of this from the beginning of the member, so many bytes before its end at least.
const STEP_0_90: u64 = 64 * 1024;

/// 1.0 keeps it so many bytes before the end of the member at least.
const TAIL_1_0: u64 = 8192;

/// Chunks of which the size of a member of 0.90 may be a multiple, at most.
const MAX_CHUNK: u64 = 1 << 30;

/// Partitions begin at multiples of a mebibyte, or of the sectors of a track that disks once had.
const GRIDS: [u64; 2] = [1 << 20, 63 * 512];

/// The bytes of a device that are a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Displaced {
    /// The superblock says where they lie, or they begin with the device.
    Known(Range<u64>),
    /// 0.90 does not say where its member begins: these fit the size that it uses, and begin where partitions do.
    BySize(Range<u64>),
    /// They fit the size, but no partition begins there as a rule: only content that is known there makes it likely.
    Unlikely(Range<u64>),
    /// Nothing tells where the member begins. It ends at this byte of the device at least.
    Unknown(u64),
}

/// The bytes of the device that were the member whose superblock stands at byte `place`; `None` if `bytes` are no superblock that can
/// stand there. 1.x says where the superblock is on its member. 0.90 does not: its member begins so far before the superblock as it
/// uses bytes, or a little before that, since levels with chunks use whole ones.
pub fn member(place: u64, bytes: &[u8]) -> Option<Displaced> {
    let magic = bytes.first_chunk().map(|word| u32::from_le_bytes(*word))?;
    if bytes.len() < SUPERBLOCK_BYTES || (magic != MAGIC && magic != MAGIC.swap_bytes()) {
        return None;
    }
    in_0_90(place, bytes).or_else(|| in_1(place, bytes).map(Displaced::Known))
}

fn in_0_90(place: u64, bytes: &[u8]) -> Option<Displaced> {
    let end = place.checked_add(STEP_0_90)?;
    let on = |device: u64| {
        let parse = |endian| Superblock::parse(Version::V0_90(endian), bytes, device).ok();
        [Endian::Little, Endian::Big].into_iter().find_map(parse)
    };
    // Any device will do that is large enough.
    let superblock = on(end.checked_next_multiple_of(STEP_0_90)?)?;
    let fits = |start: &u64| end.checked_sub(*start).and_then(on).is_some();
    let Some(nearest) =
        place.checked_sub(superblock.component_size).filter(|_| superblock.component_size > 0)
    else {
        let is_whole = place.checked_rem(STEP_0_90) == Some(0);
        return Some(if is_whole { Displaced::Unlikely(0..end) } else { Displaced::Unknown(end) });
    };
    if superblock.component_size.checked_rem(STEP_0_90) != Some(0) {
        return Some(Displaced::Unknown(end));
    }
    // Whole chunks are used: as many steps may lie between them and the superblock as a chunk has, but one.
    let steps = superblock.chunk.min(MAX_CHUNK).checked_div(STEP_0_90).unwrap_or(0).max(1);
    let starts = (0..steps).filter_map(|step| nearest.checked_sub(step.checked_mul(STEP_0_90)?));
    let is_usual = |start: &u64| GRIDS.iter().any(|grid| start.checked_rem(*grid) == Some(0));
    let usual = starts.filter(is_usual).find(fits);
    Some(match usual {
        Some(0) => Displaced::Known(0..end),
        Some(start) => Displaced::BySize(start..end),
        None if fits(&nearest) => Displaced::Unlikely(nearest..end),
        None => Displaced::Unknown(end),
    })
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
        superblock.component_size = if version.is_v1() { 4 << 20 } else { MEMBER - STEP_0_90 };
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
            assert_eq!(member(place, &bytes), Some(Displaced::Known(0..MEMBER)), "{version}");
            let moved = (1 << 20)..MEMBER + (1 << 20);
            // 0.90 does not say where it begins.
            let moved = if version.is_v1() { Displaced::Known(moved) } else { Displaced::BySize(moved) };
            assert_eq!(member(place + (1 << 20), &bytes), Some(moved), "{version}");
            let mut rotten = bytes.clone();
            rotten[20] ^= 1;
            assert_eq!(member(place, &rotten), None, "{version}");
            assert_eq!(member(place, &bytes[..4095]), None, "{version}");
        }
        let (place, bytes) = superblock(Version::V1_0);
        assert_eq!(member(place - STEP, &bytes), None);
        assert_eq!(member(u64::MAX - 4095, &bytes), None);
    }

    #[test]
    fn a_member_of_0_90_begins_where_its_size_says_if_partitions_begin_there() {
        let stands = |component: u64, chunk: u64, place: u64| {
            let (_, mut bytes) = superblock(Version::V0_90(Endian::Little));
            let mut superblock = Superblock::parse(Version::V0_90(Endian::Little), &bytes, MEMBER).unwrap();
            (superblock.component_size, superblock.chunk) = (component, chunk);
            superblock.encode(&mut bytes).unwrap();
            member(place, &bytes).unwrap()
        };
        let (component, step) = (MEMBER - STEP_0_90, STEP_0_90);
        let (track, mib) = (63 * 512, 1 << 20);
        assert_eq!(stands(component, 0, component + track), Displaced::BySize(track..MEMBER + track));
        // A sector beside each place where partitions begin.
        let odd = component + mib + 512;
        assert_eq!(stands(component, 0, odd), Displaced::Unlikely(mib + 512..odd + step));
        // Of chunks of 512 KiB it uses whole ones.
        let chunk = 512 << 10;
        let (used, place) = (component - component % chunk, component + mib);
        assert_eq!(stands(used, chunk, place), Displaced::BySize(mib..place + step));
        assert_eq!(stands(used, 0, place), Displaced::Unlikely(place - used..place + step));
        assert_eq!(stands(component - 4096, 0, place), Displaced::Unknown(place + step));
    }
}
