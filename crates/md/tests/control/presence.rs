//! Members' devices that are cut short, deleted or replaced while an array uses them.

use brindle_array::{Array, EventKind, RoleState};
use brindle_format::md::{Endian, Version};
use brindle_io::sim::{BadRange, Sim};
use brindle_io::{Duration, OpError, PathTarget};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::common::*;

const BYTES: usize = 128 << 10;

/// An array in sync whose first bytes were written.
fn written(level: Level, members: usize) -> (World<Sim>, Array) {
    let world = on_drives(level, members, Version::V1_2);
    let array = open_in_sync(&world);
    world.write(&array, 0, &pattern(1, BYTES)).unwrap();
    (world, array)
}

#[test]
fn a_member_that_was_cut_short_is_failed_within_ten_seconds_and_its_bytes_come_from_the_others() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let (world, array) = written(level, members);
        world.bench.truncate(world.ids[1], 0);
        idle(&world, Duration::from_secs(10));
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        let failed = array.events_since(0).into_iter().find(|event| event.kind == EventKind::MemberFailed);
        assert_eq!(failed.and_then(|event| event.cause?.error), Some(OpError::Truncated), "{level}");
        assert!(world.read(&array, 0, BYTES).unwrap() == pattern(1, BYTES), "{level}");
        world.stop(&array);
    }
}

/// The kernel's errors for a disk that was pulled are those of a full file system, and of a device that knows no zeroes.
#[test]
fn a_member_that_was_pulled_is_failed_and_no_client_sees_an_error() {
    let levels =
        [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 5), (Level::Raid10, 4)];
    // Each is the first that is asked for after that.
    for ((level, members), first) in
        levels.into_iter().flat_map(|level| (0..6).map(move |first| (level, first)))
    {
        let (world, array) = written(level, members);
        world.bench.pull(world.ids[1]);
        for n in 0..6 {
            let done = match (first + n) % 6 {
                0 => world.write(&array, 4096, &pattern(1, BYTES)[4096..12288]),
                1 => world.read(&array, 0, BYTES).map(drop),
                2 => world.io.block_on(array.flush()),
                3 => world.io.block_on(array.write_zeroes(BYTES as u64, 64 << 10, ZeroOptions::default())),
                4 => world.io.block_on(array.discard(BYTES as u64, 64 << 10)),
                _ => world.write(&array, 0, &pattern(1, BYTES)),
            };
            assert_eq!(done, Ok(()), "{level}, first {first}, then {n}");
        }
        idle(&world, Duration::from_millis(1250));
        assert_eq!(array.state(1), RoleState::Failed, "{level} {first}");
        let events = array.events_since(0);
        assert!(events.iter().all(|event| event.kind != EventKind::Full), "{level} {first}: {events:?}");
        let failed: Vec<_> = events.iter().filter(|event| event.kind == EventKind::MemberFailed).collect();
        let why = failed[0].cause.and_then(|cause| cause.error);
        assert!(matches!(why, Some(OpError::Gone | OpError::Truncated)), "{level} {first}: {why:?}");
        assert!(failed.len() == 1 && failed[0].role == Some(1), "{failed:?}");
        assert!(world.read(&array, 0, BYTES).unwrap() == pattern(1, BYTES), "{level}");
        world.stop(&array);
        assert_eq!(world.superblock(0).device_in_role(1), None, "{level}: on record");
    }
}

#[test]
fn no_write_makes_a_member_long_again_before_it_is_found_out() {
    // With 0.90 and 1.0 the superblock is the last that a member holds: written, it would leave a hole below it.
    for version in [Version::V0_90(Endian::Little), Version::V1_0, Version::V1_2] {
        for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
            let world = on_drives(level, members, version);
            let array = open_in_sync(&world);
            world.write(&array, 0, &pattern(1, BYTES)).unwrap();
            world.stop(&array);
            let array = world.open();
            world.bench.truncate(world.ids[1], 0);
            // The first write marks the array dirty.
            world.write(&array, 0, &pattern(2, 4096)).unwrap();
            assert_eq!(array.state(1), RoleState::Failed, "{level} {version}");
            assert!(
                world.image(1).iter().all(|byte| *byte == 0),
                "{level} {version}: not even its superblock"
            );
            let mut expected = pattern(1, BYTES);
            expected[..4096].copy_from_slice(&pattern(2, 4096));
            assert!(world.read(&array, 0, BYTES).unwrap() == expected, "{level} {version}");
            world.stop(&array);
        }
    }
}

#[test]
fn a_short_read_of_a_member_that_was_cut_short_is_no_bad_block() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let (world, array) = written(level, members);
        world.bench.truncate(world.ids[0], 0);
        assert!(world.read(&array, BYTES as u64 / 2, BYTES / 2).unwrap() == pattern(1, BYTES)[BYTES / 2..]);
        assert!(world.read(&array, 0, BYTES).unwrap() == pattern(1, BYTES), "{level}");
        idle(&world, Duration::from_millis(1250));
        assert_eq!(array.state(0), RoleState::Failed, "{level}");
        world.stop(&array);
    }
}

#[test]
fn what_cannot_be_replaced_is_an_error_and_no_zeroes() {
    let world = on_drives(Level::Raid0, 2, Version::V1_2);
    let array = world.open();
    world.write(&array, 0, &pattern(1, BYTES)).unwrap();
    world.bench.truncate(world.ids[0], 0);
    idle(&world, Duration::from_millis(1250));
    assert!(world.read(&array, 0, BYTES).is_err());
    // A write to the other member's part does not bring the first back.
    let _refused = world.write(&array, BYTES as u64 - 4096, &pattern(2, 4096));
    assert!(world.read(&array, 0, 4096).is_err());
}

#[test]
fn deleted_and_replaced_files_go_on_serving_and_are_reported() {
    let kinds = [(PathTarget::Deleted, EventKind::Deleted), (PathTarget::Replaced, EventKind::Replaced)];
    for ((place, kind), loaded) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let world = on_drives(Level::Raid5, 3, Version::V1_2);
        let array = open_in_sync(&world);
        world.bench.afflict(world.ids[2], |faults| faults.place = place);
        if loaded {
            // Within a second, and the tick of who looks.
            for _ in 0..125 {
                world.read(&array, 0, 4096).unwrap();
                idle(&world, Duration::from_millis(10));
            }
        } else {
            idle(&world, Duration::from_secs(10));
        }
        let reported: Vec<_> = array.events_since(0).into_iter().filter(|event| event.kind == kind).collect();
        assert_eq!(reported.iter().map(|event| event.role).collect::<Vec<_>>(), [Some(2)], "once");
        assert_eq!(array.detail().roles[2].place, place);
        world.write(&array, 0, &pattern(1, BYTES)).unwrap();
        assert_eq!(array.state(2), RoleState::InSync);
        world.stop(&array);
    }
}

#[test]
fn of_a_last_member_nothing_more_is_read_once_it_is_shorter_and_all_if_it_only_takes_no_superblock() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for cut in [false, true] {
            let (world, array) = written(level, members);
            world.stop(&array);
            let array = world.open();
            world.io.block_on(array.fail(0)).unwrap();
            let last = world.ids[1];
            if cut {
                // Of what it still holds, too: it is not the member that it was.
                world.bench.truncate(last, world.superblock(1).data_offset + BYTES as u64);
            } else {
                let superblock = BadRange::forever(0..world.superblock(1).data_offset);
                world.bench.afflict(last, |faults| faults.unwritable.push(superblock));
            }
            assert_eq!(world.write(&array, 0, &pattern(2, 4096)), Err(VolumeError::TooManyLost));
            assert_eq!(array.detail().state_words(), "broken, degraded");
            let found = world.read(&array, 0, BYTES);
            assert_eq!(found.is_ok_and(|found| found == pattern(1, BYTES)), !cut, "{level}, cut: {cut}");
        }
    }
}
