//! Superblocks in whose writing the power went: told from rotten ones by their first sector.

use brindle_format::md::{
    DeviceFlags, DeviceRole, Endian, SUPERBLOCK_BYTES, Superblock, SuperblockError, Timestamp, Uuid, Version,
};

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 64 * MIB;
const SECTORS: usize = SUPERBLOCK_BYTES / 512;

/// Member 2 of a mirror of `members` devices.
fn member(version: Version, members: u32) -> Superblock {
    let mut sb = Superblock::new(version, DEVICE).unwrap();
    sb.level = 1;
    sb.raid_disks = members;
    sb.component_size = 32 * MIB;
    sb.events = 17;
    sb.device_number = 2;
    sb.resync_offset = None;
    if version.is_v1() {
        sb.data_offset = if version == Version::V1_0 { 0 } else { MIB };
        sb.data_size = 60 * MIB;
        sb.roles = vec![DeviceRole::Spare; (members as usize).next_multiple_of(256) + 128];
    } else {
        sb.data_size = sb.super_offset;
        sb.roles = vec![DeviceRole::Spare; members as usize];
    }
    for (n, role) in sb.roles.iter_mut().enumerate().take(members as usize) {
        *role = DeviceRole::Active(n as u16);
    }
    read_back(&sb)
}

/// As read from a disk.
fn read_back(sb: &Superblock) -> Superblock {
    Superblock::parse(sb.version, &encoded(sb), DEVICE).unwrap()
}

fn encoded(sb: &Superblock) -> [u8; SUPERBLOCK_BYTES] {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes).unwrap();
    bytes
}

/// The next state, with another role for one device.
fn next(sb: &Superblock, number: usize, role: DeviceRole) -> Superblock {
    let mut sb = sb.clone();
    sb.events += 1;
    sb.resync_offset = if sb.is_clean() { Some(0) } else { None };
    sb.updated = Timestamp { seconds: 1_800_000_000, micros: 0 };
    sb.roles[number] = role;
    sb
}

/// Arrays of which a superblock has several sectors, with a device whose role is in another than the first.
fn wide() -> Vec<(Superblock, usize)> {
    let v0 = [Endian::Little, Endian::Big].map(|endian| (member(Version::V0_90(endian), 27), 19));
    let v1 = [Version::V1_0, Version::V1_1, Version::V1_2].map(|version| (member(version, 700), 641));
    v0.into_iter().chain(v1).collect()
}

#[test]
fn every_mixture_of_sectors_of_two_states_is_reported() {
    for (before, number) in wide() {
        let failed = next(&before, number, DeviceRole::Faulty);
        let back = next(&failed, number, DeviceRole::Active(number as u16));
        let spare = read_back(&next(&before, number, DeviceRole::Spare));
        let taken = next(&spare, number, DeviceRole::Active(number as u16));
        for (old, new) in [(&before, &failed), (&failed, &back), (&spare, &taken)] {
            let (old_bytes, new_bytes) = (encoded(old), encoded(new));
            let mut torn = 0;
            for mixture in 0..1u32 << SECTORS {
                let mut bytes = old_bytes;
                for sector in (0..SECTORS).filter(|sector| mixture >> sector & 1 == 1) {
                    let range = sector * 512..(sector + 1) * 512;
                    bytes[range.clone()].copy_from_slice(&new_bytes[range]);
                }
                let head = if mixture & 1 == 1 { new } else { old };
                let parsed = Superblock::parse(old.version, &bytes, DEVICE);
                if parsed.is_err() {
                    assert!(matches!(parsed, Err(SuperblockError::Checksum { .. })));
                    torn += 1;
                }
                let read = parsed.ok().or_else(|| Superblock::parse_torn(old.version, &bytes, DEVICE));
                let read = read.unwrap_or_else(|| panic!("{:?} {mixture:b}", old.version));
                assert_eq!((read.events, read.resync_offset), (head.events, head.resync_offset));
                assert_eq!((read.role(), read.device_number), (old.role(), 2));
                assert_eq!(read.updated, head.updated);
            }
            assert_eq!(
                torn, 128,
                "half of the mixtures have the first sector of one and the role of the other"
            );
        }
    }
}

#[test]
fn flags_of_0_90_that_were_being_changed_are_those_of_the_first_sector() {
    let (none, both) = (DeviceFlags::default(), DeviceFlags { write_mostly: true, failfast: true });
    for endian in [Endian::Little, Endian::Big] {
        let before = member(Version::V0_90(endian), 27);
        for (from, to) in [(none, both), (both, none), (DeviceFlags { failfast: false, ..both }, none)] {
            let mut old = before.clone();
            old.flags = from;
            let old = read_back(&old);
            let mut new = old.clone();
            (new.flags, new.events) = (to, old.events + 1);
            let (old_bytes, new_bytes) = (encoded(&old), encoded(&new));
            for mixture in 0..1u32 << SECTORS {
                let mut bytes = old_bytes;
                for sector in (0..SECTORS).filter(|sector| mixture >> sector & 1 == 1) {
                    let range = sector * 512..(sector + 1) * 512;
                    bytes[range.clone()].copy_from_slice(&new_bytes[range]);
                }
                let head = if mixture & 1 == 1 { &new } else { &old };
                let whole = Superblock::parse(old.version, &bytes, DEVICE).ok();
                let read = whole.or_else(|| Superblock::parse_torn(old.version, &bytes, DEVICE));
                let read = read.unwrap_or_else(|| panic!("{from:?} to {to:?}, {mixture:b}"));
                assert_eq!((read.events, read.flags), (head.events, head.flags), "{mixture:b}");
                assert!(read.bytes()[..] == encoded(head), "{mixture:b}");
            }
        }
    }
}

#[test]
fn a_table_that_a_spare_was_just_added_to_is_reported() {
    for endian in [Endian::Little, Endian::Big] {
        let before = member(Version::V0_90(endian), 19);
        let mut after = next(&before, 0, DeviceRole::Active(0));
        after.roles.push(DeviceRole::Spare);
        assert_eq!(read_back(&after).roles.len(), 20);
        for (old, new) in [(&before, &after), (&after, &before)] {
            let mut bytes = encoded(old);
            bytes[..512].copy_from_slice(&encoded(new)[..512]);
            assert!(Superblock::parse(old.version, &bytes, DEVICE).is_err());
            let read = Superblock::parse_torn(old.version, &bytes, DEVICE).unwrap();
            assert_eq!((read.events, read.roles.len()), (new.events, old.roles.len()));
            assert!(read.bytes()[..] == encoded(new));
        }
    }
}

#[test]
fn a_rotten_superblock_is_not_taken_for_a_torn_one() {
    for (sb, _) in wide() {
        let bytes = encoded(&sb);
        for at in (0..SUPERBLOCK_BYTES).step_by(41) {
            for bit in [0, 6] {
                let mut rotten = bytes;
                rotten[at] ^= 1 << bit;
                // Rot of but the role of another device can't be told, and does no harm: the rest is proven.
                if let Some(mut found) = Superblock::parse_torn(sb.version, &rotten, DEVICE) {
                    let differ = |&n: &usize| found.roles[n] != sb.roles[n];
                    let other: Vec<usize> = (0..sb.roles.len()).filter(differ).collect();
                    assert!(at >= 512 && other.len() == 1 && other[0] != 2, "{:?}: byte {at}", sb.version);
                    found.roles.clone_from(&sb.roles);
                    assert_eq!(format!("{found:?}"), format!("{sb:?}"));
                }
            }
        }
    }
}

#[test]
fn one_sector_is_never_torn() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut sb = member(version, 8);
        sb.roles.truncate(128);
        let sb = Superblock::parse(version, &encoded(&sb), DEVICE).unwrap();
        let new = encoded(&next(&sb, 5, DeviceRole::Faulty));
        assert_eq!(encoded(&sb)[512..], new[512..]);
        let mut rotten = new;
        rotten[200] ^= 1;
        assert_eq!(Superblock::parse_torn(version, &rotten, DEVICE), None);
    }
}

#[test]
fn two_roles_changed_at_once_are_not_guessed() {
    for (sb, number) in wide() {
        let mut new = next(&sb, number, DeviceRole::Faulty);
        new.roles[number - 7] = DeviceRole::Faulty;
        let mut bytes = encoded(&sb);
        bytes[..512].copy_from_slice(&encoded(&new)[..512]);
        assert_eq!(Superblock::parse_torn(sb.version, &bytes, DEVICE), None);
    }
}

#[test]
fn a_damaged_superblock_claims_what_the_whole_one_says() {
    let all = [Version::V0_90(Endian::Little), Version::V0_90(Endian::Big), Version::V1_0, Version::V1_2];
    for version in all {
        let mut sb = member(version, 8);
        sb.set_uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        sb.events = 0x0102_0304_0506_0708;
        let mut bytes = encoded(&sb);
        assert_eq!(Superblock::parse(version, &bytes, DEVICE).unwrap().events, sb.events);
        // A level that does not exist, and a checksum that says so.
        bytes[if version.is_v1() { 73 } else { 29 }] ^= 0x55;
        let why = Superblock::parse(version, &bytes, DEVICE).unwrap_err();
        assert!(why.is_damage(), "{why}");
        assert_eq!(Superblock::claimed(version, &bytes), Some((sb.set_uuid, sb.events)), "{version}");
        assert_eq!(Superblock::claimed(version, &bytes[..100]), None);
    }
}

#[test]
fn a_spare_that_took_a_role_and_fails_in_it_is_reported() {
    for endian in [Endian::Little, Endian::Big] {
        let mut before = member(Version::V0_90(endian), 3);
        before.roles.push(DeviceRole::Spare);
        // All in one run: what is read from a disk is what stood there when it began.
        let failed = next(&read_back(&before), 1, DeviceRole::Faulty);
        let taken = next(&failed, 3, DeviceRole::Active(1));
        let again = next(&taken, 3, DeviceRole::Faulty);
        for (old, new) in [(&taken, &again), (&again, &taken)] {
            let mut bytes = encoded(old);
            bytes[..512].copy_from_slice(&encoded(new)[..512]);
            assert!(Superblock::parse(old.version, &bytes, DEVICE).is_err());
            let read = Superblock::parse_torn(old.version, &bytes, DEVICE).unwrap();
            assert_eq!(read.events, new.events);
            assert!(read.bytes()[..] == encoded(new));
        }
    }
}

#[test]
fn a_member_that_fails_beside_its_replacement_is_reported() {
    let mut before = member(Version::V1_2, 700);
    // The replacement has the role too, and a number that a spare had.
    before.roles[740] = DeviceRole::Active(641);
    let before = read_back(&before);
    let failed = next(&before, 641, DeviceRole::Faulty);
    for (old, new) in [(&before, &failed), (&failed, &before)] {
        let mut bytes = encoded(old);
        bytes[..512].copy_from_slice(&encoded(new)[..512]);
        assert!(Superblock::parse(old.version, &bytes, DEVICE).is_err());
        let read = Superblock::parse_torn(old.version, &bytes, DEVICE).unwrap();
        assert_eq!(read.events, new.events);
    }
}

/// All mixtures of the sectors of two blocks, and which of the two the first one is of.
fn mixtures(old: &[u8; SUPERBLOCK_BYTES], new: &[u8; SUPERBLOCK_BYTES]) -> Vec<(bool, Vec<u8>)> {
    let differ: Vec<usize> =
        (0..SECTORS).filter(|n| old[n * 512..][..512] != new[n * 512..][..512]).collect();
    let mixed = |mixture: u32| {
        let mut bytes = old.to_vec();
        for (_, sector) in differ.iter().enumerate().filter(|(bit, _)| mixture >> bit & 1 == 1) {
            bytes[sector * 512..][..512].copy_from_slice(&new[sector * 512..][..512]);
        }
        (mixture & 1 == 1, bytes)
    };
    (0..1 << differ.len()).map(mixed).collect()
}

/// A member of a mirror whose device `number` is to be in role `place`: it is a spare, or has the role already, and who had
/// that place before is a failed device, or nobody.
fn before_an_exchange(own: u32, place: u16, number: usize, was: [DeviceRole; 2], majors: bool) -> Superblock {
    let mut sb = member(Version::V0_90(Endian::Little), 4);
    (sb.device_number, sb.roles[usize::from(place)]) = (own, was[0]);
    sb.roles.resize(number + 1, DeviceRole::Vacant);
    sb.roles[number] = was[1];
    let mut bytes = encoded(&sb);
    if majors {
        // As a kernel leaves them: the sum of all words is in the first sector.
        let mut added = 0;
        let is_used = |&at: &usize| !matches!(bytes[512 + at * 128 + 16], 0 | 9) || at == number;
        let used: Vec<usize> = (0..27).filter(is_used).chain([27]).collect();
        for at in used {
            let at = 512 + at * 128;
            (bytes[at + 4], bytes[at + 8]) = (8, 16 + (at / 128) as u8);
            added += 8 + u32::from(bytes[at + 8]);
            if at == 512 + 128 * usize::from(place) {
                // Write-mostly.
                bytes[at + 17] |= 2;
                added += 0x200;
            }
        }
        let own = 512 + own as usize * 128;
        added = added - u32::from(bytes[3968 + 8]) + u32::from(bytes[own + 8]);
        bytes[3968 + 8] = bytes[own + 8];
        let sum = u32::from_le_bytes(bytes[152..156].try_into().unwrap());
        bytes[152..156].copy_from_slice(&(sum + added).to_le_bytes());
    }
    Superblock::parse(sb.version, &bytes, DEVICE).unwrap()
}

/// The entries at the two places before a device takes that of role 1, and the later state of the number that it had.
fn kinds() -> [([DeviceRole; 2], DeviceRole); 3] {
    use DeviceRole::{Active, Faulty, Spare, Vacant};
    [([Faulty, Spare], Faulty), ([Vacant, Spare], Vacant), ([Vacant, Active(1)], Vacant)]
}

const NUMBERS: [usize; 4] = [4, 5, 9, 26];

#[test]
fn a_device_that_takes_the_place_of_a_role_is_reported_by_the_others() {
    for (was, left) in kinds() {
        for (own, number, majors) in NUMBERS.into_iter().flat_map(|n| [0, 2, 3].map(|own| (own, n, n > 5))) {
            let old = before_an_exchange(own, 1, number, was, majors);
            let mut new = next(&old, 1, DeviceRole::Active(1));
            new.roles[number] = left;
            for (is_new, bytes) in mixtures(&encoded(&old), &encoded(&new)) {
                let what = format!("{was:?} to {left:?}, {own} sees {number}");
                let whole = Superblock::parse(old.version, &bytes, DEVICE).ok();
                let read = whole.or_else(|| Superblock::parse_torn(old.version, &bytes, DEVICE));
                let read = read.unwrap_or_else(|| panic!("{what}"));
                assert_eq!((read.device_number, read.role()), (own, old.role()), "{what}");
                assert_eq!(read.events, if is_new { new.events } else { old.events }, "{what}");
            }
        }
    }
}

#[test]
fn a_device_that_takes_the_place_of_a_role_tells_of_itself() {
    let mut unsure = 0;
    for (was, left) in kinds() {
        for (number, majors) in NUMBERS.into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let mut old = before_an_exchange(number as u32, 1, number, was, majors);
            old.flags.write_mostly = number != 5;
            let old = read_back(&old);
            let mut new = next(&old, 1, DeviceRole::Active(1));
            (new.roles[number], new.device_number) = (left, 1);
            for (is_new, bytes) in mixtures(&encoded(&old), &encoded(&new)) {
                let what = format!("{was:?} to {left:?}, {number}, {majors}, {is_new}");
                let whole = Superblock::parse(old.version, &bytes, DEVICE).ok().filter(|sb| !sb.is_mixed());
                let read = whole.or_else(|| Superblock::parse_torn(old.version, &bytes, DEVICE));
                let read = read.unwrap_or_else(|| panic!("{what}"));
                let (head, other) = if is_new { (&new, &old) } else { (&old, &new) };
                assert_eq!((read.events, read.flags), (head.events, head.flags), "{what}");
                // Where the sum is that of another device's change, what is there counts; and where more than sums would be
                // needed to tell its number, it has another that nobody has.
                let vague = majors
                    && read.role() == old.role()
                    && old.role_of(read.device_number) == DeviceRole::Spare;
                let is = |sb: &Superblock| (read.device_number, read.role()) == (sb.device_number, sb.role());
                assert!(is(head) || is(other) || vague, "{what}: {} {}", read.device_number, read.role());
                unsure += u32::from(!is(head));
            }
        }
    }
    assert!(unsure < 60, "{unsure} of {}", NUMBERS.len() * 2 * 3 * 16);
}
