//! Which array a set of devices forms, or why none.

use brindle_format::md::{
    BadBlockLog, DeviceRole, Endian, Features, SUPERBLOCK_BYTES, Superblock, Uuid, Version,
};
use brindle_layout::Level;
use brindle_md::assembly::{
    AssembleOptions, Assembly, AssemblyError, Candidate, Claim, DeviceUse, LeftOut, Limitation, assemble,
};

use crate::common::*;

fn strict(candidates: &[Candidate]) -> Result<Assembly, AssemblyError> {
    assemble(candidates, AssembleOptions::default())
}

fn refusal(candidates: &[Candidate]) -> String {
    strict(candidates).unwrap_err().to_string()
}

fn raid(level: Level, members: usize) -> brindle_md::create::CreateSpec {
    spec(level, members, Version::V1_2)
}

/// Every order of up to four things.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.len() <= 1 {
        return vec![items.to_vec()];
    }
    (0..items.len())
        .flat_map(|first| {
            let mut rest = items.to_vec();
            let head = rest.remove(first);
            orders(&rest).into_iter().map(move |tail| [vec![head.clone()], tail].concat())
        })
        .collect()
}

#[test]
fn every_level_and_version_assembles_in_any_order() {
    let levels = [
        (Level::Linear, 3),
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid4, 4),
        (Level::Raid5, 4),
        (Level::Raid6, 4),
        (Level::Raid10, 4),
    ];
    for (level, members) in levels {
        for version in VERSIONS {
            let spec = spec(level, members, version);
            let size = planned(&spec).geometry.size();
            for order in orders(&candidates(&spec)) {
                let array = strict(&order).unwrap();
                assert_eq!(array.level(), level);
                assert_eq!(array.geometry.size(), size, "{level} {version}");
                assert_eq!(array.events, 1);
                assert!(array.is_clean() && array.writable() && array.degraded().is_empty());
                let labels: Vec<_> =
                    array.roles.iter().map(|at| array.devices[at.unwrap()].label.clone()).collect();
                assert_eq!(labels, (0..members).map(|n| format!("disk{n}")).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn members_of_two_arrays_are_named_with_their_uuids() {
    let mut other = raid(Level::Raid1, 2);
    other.uuid = Uuid::from_u128(0x77);
    let mut all = candidates(&raid(Level::Raid5, 3));
    let mut foreign = candidates(&other).remove(0);
    foreign.label = "stray".into();
    all.insert(1, foreign);
    for order in orders(&all) {
        assert_eq!(
            refusal(&order),
            "the members belong to different arrays: 00000000:00000000:00000000:0000abcd 'host:data' (disk0, disk1, \
             disk2); 00000000:00000000:00000000:00000077 'host:data' (stray); give those of one"
        );
    }
}

#[test]
fn devices_that_are_no_members_are_named() {
    assert_eq!(refusal(&[]), "no members given: name the devices of the array");
    let mut all = candidates(&raid(Level::Raid1, 2));
    all.push(device("blank", 8 * MIB, &[]));
    assert_eq!(refusal(&all), "blank has no md superblock: it is not a member of an array; leave it out");
}

#[test]
fn a_damaged_superblock_is_named_with_the_damage() {
    let spec = raid(Level::Raid1, 2);
    let mut bytes = planned(&spec).superblocks[1].bytes.clone();
    bytes[200] ^= 1;
    let all = [candidates(&spec).remove(0), device("rotten", 8 * MIB, &[(4096, bytes)])];
    let message = refusal(&all);
    assert!(message.starts_with("rotten: superblock checksum is"), "{message}");
    assert!(message.ends_with("leave it out if the array can do without it"), "{message}");
}

#[test]
fn a_damaged_superblock_is_told_from_other_reasons_and_claims_a_count() {
    let spec = raid(Level::Raid1, 2);
    let rotten = |at: usize| {
        let mut bytes = planned(&spec).superblocks[1].bytes.clone();
        bytes[at] ^= 1;
        device("rotten", 8 * MIB, &[(4096, bytes)])
    };
    let claim = |candidate: &Candidate| candidate.damage().expect("damaged").1;
    // Byte 200 is the lowest of the event count, which was 1.
    assert_eq!(claim(&rotten(200)), Some(Claim { array: spec.uuid, events: 0 }));
    assert_eq!(claim(&rotten(40)), Some(Claim { array: spec.uuid, events: 1 }));
    assert!(claim(&rotten(16)).is_some_and(|claim| claim.array != spec.uuid));
    // The level, and a table of more roles than there can be: what the rest says does not count for less.
    assert_eq!(claim(&rotten(72)), claim(&rotten(40)));
    assert_eq!(claim(&rotten(222)), claim(&rotten(40)));
    // The magic number: nothing is there.
    assert!(rotten(0).damage().is_none() && rotten(0).found.is_empty());
    // An impossible value under a right checksum is no damage: it was written so.
    let mut lie = superblocks(&spec).remove(1);
    lie.raid_disks = 1;
    let lie = candidate("lie", &lie, 8 * MIB);
    assert!(matches!(lie.superblock(), Err(Some(_))) && lie.damage().is_none(), "{lie:?}");
    let cut = candidate("cut", &superblocks(&spec)[1], 6 * MIB);
    assert!(cut.superblock().is_err() && cut.damage().is_none(), "too short is another matter");
}

#[test]
fn a_truncated_member_is_named() {
    let spec = raid(Level::Raid5, 3);
    let sbs = superblocks(&spec);
    let mut all = candidates(&spec);
    all[2] = candidate("cut", &sbs[2], 6 * MIB);
    let message = refusal(&all);
    assert!(
        message.starts_with("cut: data ends at byte 8388608, but the device has 6291456 bytes"),
        "{message}"
    );
}

#[test]
fn a_member_given_twice_is_refused() {
    let mut all = candidates(&raid(Level::Raid5, 3));
    let mut copy = all[1].clone();
    copy.label = "copy".into();
    all.push(copy);
    for order in orders(&all) {
        assert_eq!(
            refusal(&order),
            "copy and disk1 are both device 1 of the array with the same event count: one device given twice, or a \
             copy; give one of them"
        );
    }
}

#[test]
fn of_two_copies_the_older_is_stale() {
    let spec = raid(Level::Raid5, 3);
    let mut all = edited(&spec, |_, sb| sb.events = 40);
    let mut old = superblocks(&spec).remove(1);
    old.events = 39;
    all.push(candidate("old", &old, 8 * MIB));
    for order in orders(&all) {
        let array = strict(&order).unwrap();
        let old = array.devices.iter().find(|d| d.label == "old").unwrap();
        assert_eq!(old.usage, DeviceUse::LeftOut { role: Some(1), why: LeftOut::Stale { events: 39 } });
        assert!(array.degraded().is_empty());
    }
}

#[test]
fn of_a_member_and_its_replacement_the_member_is_used_and_nothing_is_written_beside_one_that_lacks_bytes() {
    let mut spec = raid(Level::Raid1, 3);
    spec.size = Some(4 * MIB);
    for events in [6, 7] {
        // Device 2 is being filled with what device 1 holds.
        let all = edited(&spec, |n, sb| {
            sb.raid_disks = 2;
            sb.roles[2] = DeviceRole::Active(1);
            sb.events = if n == 2 { events } else { 6 };
            sb.features = sb.features.with(Features::REPLACEMENT, n == 2);
            sb.recovery_offset = (n == 2).then_some(MIB);
        });
        let of = |all: &[Candidate]| {
            let array = strict(all).unwrap();
            let copy = array.devices.iter().find(|d| d.label == "disk2").unwrap().usage;
            (array, copy)
        };
        for order in orders(&all) {
            let (array, copy) = of(&order);
            assert!(array.missing().is_empty() && array.degraded().is_empty() && array.writable());
            assert_eq!(copy, DeviceUse::Replacement { role: 1, upto: MIB });
        }
        // Beside a member that lacks bytes itself, it is not known what it is a copy of.
        let lacking = edited(&spec, |n, sb| {
            *sb = all[n].superblock().unwrap().0.clone();
            sb.recovery_offset = sb.recovery_offset.or((n == 1).then_some(2 * MIB));
        });
        let (array, copy) = of(&lacking);
        assert_eq!(array.limits, [Limitation::Replacement { label: "disk2".into() }]);
        assert!(array.missing().is_empty() && !array.writable());
        assert_eq!(copy, DeviceUse::LeftOut { role: Some(1), why: LeftOut::Replacement });
        let alone = strict(&[all[0].clone(), all[2].clone()]).unwrap();
        assert!(alone.missing().is_empty(), "alone it is a member");
    }
}

#[test]
fn two_devices_that_claim_one_role_are_refused() {
    let all = edited(&raid(Level::Raid1, 3), |n, sb| {
        sb.roles[2] = DeviceRole::Active(1);
        sb.roles[1] = DeviceRole::Active(1);
        sb.device_number = n as u32;
    });
    for order in orders(&all) {
        assert_eq!(
            refusal(&order),
            "disk1 and disk2 both claim role 1 with the same event count; leave one of them out"
        );
    }
}

#[test]
fn members_more_than_one_event_behind_are_left_out() {
    for (events, stale) in [(9, false), (8, true), (1, true)] {
        let all = edited(&raid(Level::Raid5, 3), |n, sb| sb.events = if n == 2 { events } else { 10 });
        for order in orders(&all) {
            let array = strict(&order).unwrap();
            assert_eq!(array.events, 10);
            assert_eq!(array.missing(), if stale { vec![2] } else { vec![] }, "{events}");
        }
    }
}

#[test]
fn the_freshest_table_tells_who_has_failed() {
    let all = edited(&raid(Level::Raid5, 3), |n, sb| {
        if n != 1 {
            sb.roles[1] = DeviceRole::Faulty;
            sb.events = 2; // the failed one is behind by 1 only
        }
    });
    for order in orders(&all) {
        let array = strict(&order).unwrap();
        assert_eq!(array.missing(), [1]);
        let failed = array.devices.iter().find(|d| d.label == "disk1").unwrap();
        assert_eq!(failed.usage, DeviceUse::LeftOut { role: Some(1), why: LeftOut::Faulty });
    }
}

#[test]
fn halves_that_were_used_apart_are_refused() {
    let all = edited(&raid(Level::Raid1, 2), |n, sb| {
        sb.roles[1 - n] = DeviceRole::Faulty;
        sb.events = 5;
    });
    for order in orders(&all) {
        assert_eq!(
            refusal(&order),
            "disk0 and disk1 each say that the other has failed: they were used apart, and differ; leave one side out"
        );
    }
    assert_eq!(strict(&all[1..]).unwrap().missing(), [0]);
    // One of them was used longer: that one counts.
    let all = edited(&raid(Level::Raid1, 2), |n, sb| {
        sb.roles[1 - n] = DeviceRole::Faulty;
        sb.events = if n == 0 { 9 } else { 5 };
    });
    for order in orders(&all) {
        assert_eq!(strict(&order).unwrap().missing(), [1]);
    }
}

#[test]
fn missing_members_are_counted_and_named() {
    let all = candidates(&raid(Level::Raid6, 6));
    assert_eq!(strict(&all[2..]).unwrap().missing(), [0, 1]);
    assert_eq!(
        refusal(&all[3..]),
        "roles 0, 1 and 2 are missing: 3 of 6 members are here, at least 4 are needed"
    );
    let all = candidates(&raid(Level::Raid0, 3));
    assert_eq!(refusal(&all[..2]), "role 2 is missing: 2 of 3 members are here, all are needed");
    let stale = edited(&raid(Level::Raid5, 3), |n, sb| sb.events = [30, 4, 30][n]);
    assert_eq!(
        refusal(&stale[..2]),
        "roles 1 and 2 are missing: 1 of 3 members are here, at least 2 are needed (left out: disk1 is out of date, \
         at event 4 of 30; --force reads them all the same)"
    );
}

#[test]
fn forced_the_least_stale_member_is_used_for_reading() {
    let events = [30, 4, 20, 30, 25];
    let all = edited(&raid(Level::Raid6, 5), |n, sb| sb.events = events[n]);
    for order in orders(&all[..4]) {
        assert!(matches!(strict(&order), Err(AssemblyError::TooFewMembers { .. })));
        let forced = assemble(&order, AssembleOptions { force: true, partial: false }).unwrap();
        assert_eq!(forced.missing(), [1, 4], "the oldest one is not needed");
        assert_eq!(forced.limits, [Limitation::Stale { labels: vec!["disk2".into()] }]);
        assert!(!forced.writable());
    }
    assert!(assemble(&all[1..], AssembleOptions { force: true, partial: false }).unwrap().limits.len() == 1);
}

#[test]
fn raid10_needs_one_copy_of_each_byte() {
    let all = candidates(&raid(Level::Raid10, 4));
    assert!(strict(&[all[0].clone(), all[2].clone()]).is_ok());
    assert!(matches!(strict(&all[..2]), Err(AssemblyError::TooFewMembers { .. })));
}

#[test]
fn spares_are_listed_and_do_not_decide() {
    let mut spec = raid(Level::Raid5, 3);
    spec.spares = vec![new_member(3, 8 * MIB)];
    let all = edited(&spec, |n, sb| sb.events = if n == 3 { 99 } else { 7 });
    for order in orders(&all) {
        let array = strict(&order).unwrap();
        assert_eq!(array.events, 7);
        let spare = array.devices.iter().find(|d| d.label == "disk3").unwrap();
        assert_eq!(spare.usage, DeviceUse::Spare);
        assert!(array.degraded().is_empty());
    }
    assert_eq!(refusal(&all[3..]), "none of the devices holds data of the array: disk3");
    let mut twice = all.clone();
    twice.push(Candidate { label: "copy".into(), ..all[3].clone() });
    assert_eq!(
        refusal(&twice),
        "copy and disk3 are both device 3 of the array with the same event count: one device given twice, or a copy; \
         give one of them"
    );
    spec.spares.push(new_member(4, 8 * MIB));
    assert_eq!(strict(&candidates(&spec)).unwrap().devices.len(), 5, "two spares are two devices");
}

#[test]
fn dirty_and_degraded_parity_needs_force() {
    let dirty = |level, n| edited(&raid(level, n), |_, sb| sb.resync_offset = Some(0));
    let all = dirty(Level::Raid6, 5);
    let whole = strict(&all).unwrap();
    assert!(!whole.is_clean() && whole.resync_offset == Some(0) && whole.limits.is_empty());
    assert_eq!(
        refusal(&all[1..]),
        "the array was not stopped cleanly and role 0 is missing: what those held can't be worked out for certain; \
         find them, or use --force to take what parity gives"
    );
    let forced = assemble(&all[1..], AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(forced.limits, [Limitation::DirtyDegraded { from: 0, presumed: Some(0) }]);
    assert!(forced.writable());
    let half = edited(&raid(Level::Raid5, 3), |_, sb| sb.resync_offset = Some(MIB));
    let forced = assemble(&half[1..], AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(forced.limits, [Limitation::DirtyDegraded { from: MIB, presumed: None }]);
    assert!(forced.is_clean());
    // A mirror's copies are each whole, and the last one differs from no other.
    for (lost, offset) in [(1, Some(0)), (2, None)] {
        let mirror = strict(&dirty(Level::Raid1, 3)[lost..]).unwrap();
        assert_eq!((mirror.in_doubt(), mirror.limits), (offset, vec![]), "without {lost}");
    }
}

#[test]
fn a_half_recovered_member_is_not_whole() {
    let all = edited(&raid(Level::Raid5, 3), |n, sb| {
        sb.recovery_offset = (n == 1).then_some(MIB);
        sb.features = sb.features.with(Features::RECOVERY_OFFSET, n == 1);
    });
    let array = strict(&all).unwrap();
    assert_eq!(array.devices[1].usage, DeviceUse::Recovering { role: 1, upto: MIB });
    assert_eq!((array.missing(), array.degraded()), (vec![], vec![1]));
    assert!(matches!(strict(&all[1..]), Err(AssemblyError::TooFewMembers { .. })));
}

#[test]
fn features_that_bind_writers_are_named_with_the_way_out() {
    type Edit = fn(&mut Superblock);
    let cases: [(Edit, &str); 3] = [
        (|sb| sb.features |= Features::PPL, "feature ppl"),
        (|sb| sb.features |= Features::CLUSTERED, "feature clustered"),
        (|sb| sb.features |= Features(0x8000), "feature bits 0x8000"),
    ];
    for (edit, name) in cases {
        let all = edited(&raid(Level::Raid5, 3), |_, sb| {
            edit(sb);
            if sb.features.contains(Features::PPL) {
                sb.ppl = Some(brindle_format::md::Ppl { offset: 4096, size: 4096 });
            }
        });
        let array = strict(&all).unwrap();
        assert!(!array.writable());
        let message = array.limits[0].to_string();
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn members_with_bad_blocks_are_used_where_there_is_redundancy() {
    let bad = |level, which: &'static [usize]| {
        edited(&raid(level, 3), move |n, sb| {
            sb.bad_block_log = Some(BadBlockLog { offset: 8192, size: 4096, shift: 0 });
            sb.features = sb.features.with(Features::BAD_BLOCKS, which.contains(&n));
        })
    };
    let array = strict(&bad(Level::Raid5, &[0, 1])).unwrap();
    assert_eq!((array.missing(), array.writable()), (vec![], true));
    assert!(strict(&bad(Level::Raid0, &[])).unwrap().writable(), "an empty log binds nobody");
    let both = bad(Level::Raid0, &[0, 1]);
    assert_eq!(
        refusal(&both),
        "disk0, disk1 have bad blocks in their log, and the array has no redundancy: use --force to read them as they \
         are"
    );
    let forced = assemble(&both, AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!((forced.missing(), forced.writable()), (vec![], false));
}

#[test]
fn members_that_disagree_are_named() {
    let all = edited(&raid(Level::Raid5, 3), |n, sb| {
        if n == 2 {
            sb.chunk = 128 << 10;
        }
    });
    assert_eq!(
        refusal(&all),
        "disk2 says chunk 131072, but disk0 says 65536; leave out the one that is wrong"
    );
    let ends = edited(&spec(Level::Raid1, 2, Version::V0_90(Endian::Little)), |n, sb| {
        if n == 1 {
            sb.version = Version::V0_90(Endian::Big);
        }
    });
    let message = refusal(&ends);
    assert!(
        message.starts_with("disk1 says byte order big-endian, but disk0 says little-endian"),
        "{message}"
    );
    let mut mixed = candidates(&raid(Level::Raid1, 2));
    mixed.truncate(1);
    let mut old = spec(Level::Raid1, 2, Version::V1_1);
    old.name = "data".into();
    mixed.push(candidates(&old).remove(1));
    let message = refusal(&mixed);
    assert!(message.starts_with("disk1 says metadata 1.1, but disk0 says 1.2"), "{message}");
}

#[test]
fn hostile_values_end_in_errors() {
    type Edit = fn(&mut Superblock);
    let cases: [(Edit, &str); 6] = [
        (|sb| sb.level = -4, "-4 is not a supported md level number"),
        (|sb| sb.layout = 0x777, "0x777 is not the number of a layout of raid5 in md's metadata"),
        (|sb| sb.chunk = 512, "impossible array: a chunk of 512 bytes is not possible"),
        (|sb| sb.chunk = 0, "impossible array: a chunk of 0 bytes"),
        (|sb| sb.component_size = 0, "impossible array: member 0 offers 0 bytes"),
        (|sb| sb.raid_disks = 1900, "roles 3, 4, 5"),
    ];
    for (edit, expected) in cases {
        let message = refusal(&edited(&raid(Level::Raid5, 3), |_, sb| edit(sb)));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn of_two_superblocks_on_a_device_the_newer_counts() {
    let new = raid(Level::Raid1, 2);
    let mut old = spec(Level::Raid5, 3, Version::V1_0);
    old.now -= 1000;
    old.uuid = Uuid::from_u128(1);
    let (fresh, left) = (planned(&new).superblocks.remove(0), planned(&old).superblocks.remove(0));
    let both = device("disk0", 8 * MIB, &[(fresh.offset, fresh.bytes), (left.offset, left.bytes)]);
    assert_eq!(both.found.len(), 2);
    assert_eq!(strict(&[both]).unwrap().uuid, new.uuid);
}

#[test]
fn a_device_without_room_for_a_superblock_is_no_candidate() {
    assert!(device("tiny", SUPERBLOCK_BYTES as u64 - 1, &[]).superblock().is_err());
}

/// Whatever superblocks say, the answer is an array that can be described or an error: never a panic.
#[test]
fn any_values_give_an_array_or_an_error() {
    let mut chance = Random::new(1);
    let mut random = move |below: u64| chance.below(below);
    let sizes = [0, 512, 4096, 65536, 3 << 12, 6 * MIB, 7 * MIB, 1 << 40, 1 << 62, u64::MAX >> 1];
    let (mut arrays, mut errors) = (0, 0);
    for round in 0..6000 {
        let level = Level::ALL[random(7) as usize];
        let members = 4 + random(2) as usize;
        let spec = spec(level, members, VERSIONS[random(4) as usize]);
        let mut sbs = superblocks(&spec);
        for _ in 0..=random(4) {
            let (which, value) = (random(14), random(u64::MAX));
            let size = sizes[random(sizes.len() as u64) as usize];
            // The same lie on all members, or on one.
            let alone = (random(3) > 0).then(|| random(members as u64) as usize);
            for (n, sb) in sbs.iter_mut().enumerate().filter(|(n, _)| alone.is_none_or(|one| one == *n)) {
                match which {
                    0 => sb.raid_disks = (value % 30) as u32,
                    1 => sb.raid_disks = (value % 3000) as u32,
                    2 => sb.level = [-5, -4, -1, 0, 1, 4, 5, 6, 10][value as usize % 9],
                    3 => sb.layout = (value as u32) >> (value % 32),
                    4 => sb.chunk = size,
                    5 => sb.component_size = size,
                    6 => sb.data_size = size,
                    7 => sb.events = value % 4,
                    8 => sb.device_number = (value % 40) as u32,
                    9 => sb.roles[n] = DeviceRole::from_code((value % 12) as u16),
                    10 => sb.roles[n] = DeviceRole::from_code(0xfff8 | (value % 8) as u16),
                    11 => sb.features |= Features(1 << (value % 32)),
                    12 => sb.recovery_offset = Some(size),
                    _ => sb.resync_offset = Some(size),
                }
            }
        }
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let found: Vec<Candidate> = sbs
            .iter()
            .enumerate()
            .filter(|(_, sb)| sb.encode(&mut bytes).is_ok())
            .map(|(n, sb)| candidate(&format!("disk{n}"), sb, 8 * MIB))
            .collect();
        match assemble(&found, AssembleOptions { force: round % 2 == 0, partial: false }) {
            Ok(array) => {
                arrays += 1;
                assert!(array.geometry.can_lose(&array.degraded()));
                assert_eq!(array.roles.len(), usize::from(array.geometry.members()));
            }
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(arrays > 500 && errors > 500, "{arrays} arrays, {errors} errors");
}

/// Members of which some were written at another time than the rest, with the same event count.
fn at_times(spec: &brindle_md::create::CreateSpec, times: &[u64]) -> Vec<Candidate> {
    edited(spec, |n, sb| {
        sb.events = 7;
        sb.updated.seconds = NOW + times[n];
    })
}

#[test]
fn members_that_were_not_written_together_are_refused() {
    let spec = raid(Level::Raid5, 4);
    for order in orders(&at_times(&spec, &[0, 5, 5, 0])) {
        let message = refusal(&order);
        assert!(
            message.starts_with("(disk0, disk3) and (disk1, disk2) have the same event count"),
            "{message}"
        );
        assert!(
            message.contains("give those that belong together") && message.contains("--force"),
            "{message}"
        );
        let forced = assemble(&order, AssembleOptions { force: true, partial: false }).unwrap();
        assert!(!forced.writable(), "what is read may be a mixture");
        assert!(matches!(&forced.limits[..], [Limitation::Apart { groups }] if groups.len() == 2));
    }
    let message = refusal(&at_times(&spec, &[3, 3, 4, 3]));
    assert!(message.starts_with("(disk0, disk1, disk3) and disk2 have"), "{message}");
    // Microseconds are as good as seconds.
    let mut near = at_times(&spec, &[0; 4]);
    near[1] =
        edited(&spec, |_, sb| (sb.events, sb.updated.seconds, sb.updated.micros) = (7, NOW, 1)).remove(1);
    assert!(refusal(&near).starts_with("(disk0, disk2, disk3) and disk1 have"));
    assert!(strict(&at_times(&spec, &[9; 4])).unwrap().writable());
}

#[test]
fn members_may_have_other_times_where_that_is_lawful() {
    let spec = raid(Level::Raid5, 4);
    // One that a crash left an event behind.
    let mut behind = at_times(&spec, &[5, 5, 5, 0]);
    behind[3] = edited(&spec, |_, sb| (sb.events, sb.updated.seconds) = (6, NOW)).remove(3);
    assert!(strict(&behind).unwrap().writable());
    // One that has failed.
    let failed = edited(&spec, |n, sb| {
        (sb.events, sb.updated.seconds) = (7, NOW + u64::from(n == 1));
        if n != 1 {
            sb.roles[1] = DeviceRole::Faulty;
        }
    });
    assert_eq!(strict(&failed).unwrap().missing(), [1]);
    // A spare that sleeps.
    let mut spec = raid(Level::Raid5, 3);
    spec.spares = vec![given(&spec)[0].clone()];
    spec.spares[0].label = "spare".into();
    let all = at_times(&spec, &[5, 5, 5, 0]);
    let array = strict(&all).unwrap();
    assert!(array.writable() && array.devices[3].usage == DeviceUse::Spare);
}
