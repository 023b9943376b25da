//! Superblocks that somebody made up. Most of these were found by the fuzzer `assemble`.

use brindle_array::ProcessError;
use brindle_format::md::{DeviceRole, Features, Version};
use brindle_layout::Level;
use brindle_md::assembly::{
    AssembleOptions, AssemblyError, Candidate, DeviceUse, LeftOut, Limitation, assemble,
};

use crate::common::*;

const FORCE: AssembleOptions = AssembleOptions { force: true, partial: false };

/// The superblock that decides calls a member what calls itself a journal: nothing says that there is room for data.
#[test]
fn a_journal_that_another_calls_a_member_holds_no_data() {
    let spec = spec(Level::Raid5, 3, Version::V1_2);
    let members = edited(&spec, |n, sb| {
        sb.features |= Features::JOURNAL;
        sb.events = if n == 2 { 9 } else { 10 };
        if n == 2 {
            sb.roles[2] = DeviceRole::Journal;
            (sb.data_size, sb.journal_tail) = (64 << 10, Some(0));
        }
    });
    let array = assemble(&members, FORCE).unwrap();
    assert_eq!(array.devices[2].usage, DeviceUse::LeftOut { role: None, why: LeftOut::Faulty });
    assert_eq!(array.missing(), [2]);
}

/// The superblock that decides knows neither a journal nor a third member.
#[test]
fn of_what_the_table_calls_a_spare_a_journal_is_one_and_a_member_none() {
    let spec = spec(Level::Raid5, 3, Version::V1_2);
    for journal in [true, false] {
        let members = edited(&spec, |n, sb| {
            sb.features = sb.features.with(Features::JOURNAL, journal);
            sb.events = if n == 2 { 9 } else { 10 };
            if n != 2 {
                sb.roles[2] = DeviceRole::Spare;
            } else if journal {
                sb.roles[2] = DeviceRole::Journal;
                (sb.data_size, sb.journal_tail) = (64 << 10, Some(0));
            }
        });
        let array = assemble(&members, FORCE).unwrap();
        let member = DeviceUse::LeftOut { role: Some(2), why: LeftOut::Faulty };
        assert_eq!(array.devices[2].usage, if journal { DeviceUse::Journal } else { member });
        assert_eq!(array.missing(), [2]);
    }
}

#[test]
fn an_event_count_that_cannot_go_on_is_served_read_only() {
    let spec = spec(Level::Raid1, 2, Version::V1_2);
    for events in [u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX] {
        let members = edited(&spec, |_, sb| sb.events = events);
        let array = assemble(&members, AssembleOptions::default()).unwrap();
        assert_eq!(array.limits, [Limitation::Events { events }]);
        assert!(!array.writable());
    }
    let members = edited(&spec, |_, sb| sb.events = u64::MAX / 2);
    assert!(assemble(&members, AssembleOptions::default()).unwrap().writable());
}

/// Both orders of the candidates give one and the same outcome.
fn either_way(mut members: Vec<Candidate>) -> Result<Vec<(String, DeviceUse)>, AssemblyError> {
    let mut uses = Vec::new();
    for _ in 0..2 {
        let array = assemble(&members, FORCE)?;
        let mut found: Vec<_> = array.devices.into_iter().map(|d| (d.label, d.usage)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        uses.push(found);
        members.reverse();
    }
    assert_eq!(uses[0], uses[1]);
    Ok(uses.swap_remove(0))
}

#[test]
fn of_two_equals_that_missed_writes_none_is_forced_in() {
    let spec = spec(Level::Raid5, 3, Version::V1_2);
    let mut members = edited(&spec, |n, sb| sb.events = if n == 0 { 10 } else { 5 });
    let mut twin = members[1].clone();
    twin.label = "twin".into();
    members.push(twin);
    for _ in 0..2 {
        let error = assemble(&members, FORCE).unwrap_err();
        assert!(matches!(error, AssemblyError::SameDevice { number: 1, .. }), "{error}");
        members.reverse();
    }
}

#[test]
fn the_newest_of_three_has_the_role_whatever_the_order() {
    let spec = spec(Level::Raid1, 2, Version::V1_2);
    let mut members = edited(&spec, |n, sb| sb.events = 10 + n as u64);
    let copies = edited(&spec, |_, sb| sb.events = 10);
    // The two that are equal meet before the newest is seen, or after.
    for label in ["copy", "another"] {
        members.insert(1, Candidate { label: label.into(), ..copies[1].clone() });
    }
    let uses = either_way(members).unwrap();
    let stale = DeviceUse::LeftOut { role: Some(1), why: LeftOut::Stale { events: 10 } };
    let of = |label: &str| uses.iter().find(|(l, _)| l == label).unwrap().1;
    assert_eq!(of("disk1"), DeviceUse::Active { role: 1 });
    assert_eq!((of("copy"), of("another")), (stale, stale));
}

/// Where a resync stopped is read from disk: beyond the end nothing is left to do.
#[test]
fn a_resync_that_claims_to_have_come_beyond_the_end_ends() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid10] {
        for beyond in [512, 1 << 20, 1 << 62] {
            let world = World::create(&spec(level, 4, Version::V1_2));
            for member in 0..4 {
                world.change(member, |sb| {
                    let end = sb.component_size * if level == Level::Raid10 { 2 } else { 1 };
                    sb.resync_offset = Some(end + beyond);
                });
            }
            let array = world.open();
            let done: Result<_, ProcessError> = world.io.block_on(array.resync(|_| {}));
            assert_eq!(done.unwrap().mismatch_sectors, 0);
            assert!(!array.needs_resync());
            world.stop(&array);
        }
    }
}

/// A mirror of so many copies needs but one; the memory to compare them is not the superblock's to choose.
#[test]
fn a_mirror_that_claims_hundreds_of_copies_gets_no_more_memory() {
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    for member in 0..2 {
        world.change(member, |sb| {
            sb.raid_disks = 1920;
            sb.resync_offset = Some(0);
        });
    }
    world.bench.poke(world.ids[0], 2 * MIB, &[1; 512]);
    let array = world.open();
    assert_eq!(array.geometry().members(), 1920);
    let report = world.io.block_on(array.resync(|_| {})).unwrap();
    assert_eq!(report.mismatch_sectors, 8, "blocks of a page each");
    world.stop(&array);
}
