//! Zeroes on members that make none by themselves: sent as writes where that is allowed, refused where it must be fast.

use brindle_array::{Array, RoleState, SyncMode};
use brindle_io::sim::{Model, Sim};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::common::*;

const LEVELS: [(Level, usize); 7] = [
    (Level::Linear, 2),
    (Level::Raid0, 3),
    (Level::Raid1, 2),
    (Level::Raid10, 4),
    (Level::Raid4, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

/// Disks with heads answer that they know no such operation.
fn started(level: Level, members: usize) -> (World<Sim>, Array, Vec<u8>) {
    let shape = Shape { rows: 64, in_sync: false, ..Shape::new(level, members) };
    let world = World::in_sim(&shape, Model::hdd(), 7);
    let array = open_in_sync(&world);
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

fn whole(world: &World<Sim>, array: &Array) -> Vec<u8> {
    world.read(array, 0, array.limits().size as usize).unwrap()
}

fn zero(
    world: &World<Sim>,
    array: &Array,
    at: usize,
    len: usize,
    options: ZeroOptions,
) -> Result<(), VolumeError> {
    world.io.block_on(array.write_zeroes(at as u64, len as u64, options))
}

/// Whole rows, parts of chunks at both ends, and all of the array.
fn ranges(size: usize) -> [(usize, usize); 4] {
    [(0, 512), (512, size / 2), (size / 2 + 1536, size / 4), (0, size)]
}

#[test]
fn zeroes_are_sent_to_members_that_make_none() {
    for (level, members) in LEVELS {
        for keep_allocated in [true, false] {
            let (world, array, mut content) = started(level, members);
            for (at, len) in ranges(content.len()) {
                let options = ZeroOptions { keep_allocated, ..ZeroOptions::default() };
                zero(&world, &array, at, len, options).unwrap();
                content[at..at + len].fill(0);
                assert!(whole(&world, &array) == content, "{level}: {len} at {at}");
            }
            assert!((0..members as u16).all(|role| array.state(role) == RoleState::InSync), "{level}");
            let report = world.io.block_on(array.check(SyncMode::Check, |_| ()));
            assert!(report.is_ok_and(|report| report.mismatch_sectors == 0), "{level}");
            world.stop(&array);
        }
    }
}

#[test]
fn zeroes_that_must_be_fast_are_refused_and_change_nothing() {
    for (level, members) in LEVELS {
        let (world, array, content) = started(level, members);
        for (at, len) in ranges(content.len()) {
            let options = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
            let refused = zero(&world, &array, at, len, options);
            assert_eq!(refused, Err(VolumeError::Unsupported), "{level}: {len} at {at}");
        }
        assert!(whole(&world, &array) == content, "{level}");
    }
}

#[test]
fn a_member_that_can_not_be_sent_zeroes_fails_and_the_others_hold_them() {
    for (level, members) in LEVELS.into_iter().filter(|(level, _)| level.is_redundant()) {
        let (world, array, content) = started(level, members);
        world.bench.refuse_writes(world.ids[1]);
        zero(&world, &array, 0, content.len(), ZeroOptions::default()).unwrap();
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        assert!(whole(&world, &array).iter().all(|&byte| byte == 0), "{level}");
    }
    for (level, members) in LEVELS.into_iter().filter(|(level, _)| !level.is_redundant()) {
        let (world, array, content) = started(level, members);
        world.bench.refuse_writes(world.ids[1]);
        let refused = zero(&world, &array, 0, content.len(), ZeroOptions::default());
        assert!(refused.is_err(), "{level}");
    }
}
