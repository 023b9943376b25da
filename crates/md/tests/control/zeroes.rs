//! Zeroes: made by the members, or sent as writes to those that make none, or refused where it must be fast.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{Array, Device, RoleState, SyncMode};
use brindle_io::OpKind;
use brindle_io::sim::{Model, Sim};
use brindle_layout::{Geometry, Layout, Level};
use brindle_testkit::shape::info;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::common::*;

/// Disks with heads answer that they know no such operation.
fn started(level: Level, members: usize) -> (World<Sim>, Array, Vec<u8>) {
    started_on(Model::hdd(), &Shape { rows: 64, ..Shape::new(level, members) })
}

fn started_on(model: Model, shape: &Shape) -> (World<Sim>, Array, Vec<u8>) {
    let world = World::in_sim(&Shape { in_sync: false, ..shape.clone() }, model, 7);
    let array = open_in_sync(&world);
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

fn zero<B: Bench>(
    world: &World<B>,
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
    for (level, members) in EVERY_LEVEL {
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
    for (level, members) in EVERY_LEVEL {
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
    for (level, members) in EVERY_LEVEL.into_iter().filter(|(level, _)| level.is_redundant()) {
        let (world, array, content) = started(level, members);
        world.bench.refuse_writes(world.ids[1]);
        zero(&world, &array, 0, content.len(), ZeroOptions::default()).unwrap();
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        assert!(whole(&world, &array).iter().all(|&byte| byte == 0), "{level}");
    }
    for (level, members) in EVERY_LEVEL.into_iter().filter(|(level, _)| !level.is_redundant()) {
        let (world, array, content) = started(level, members);
        world.bench.refuse_writes(world.ids[1]);
        let refused = zero(&world, &array, 0, content.len(), ZeroOptions::default());
        assert!(refused.is_err(), "{level}");
    }
}

#[test]
fn more_zeroes_than_are_sent_at_a_time_are_sent_to_the_last_and_no_further() {
    // More than 4 MiB, and no multiple of what one write of zeroes holds.
    let shape = Shape { rows: 1024 + 64 + 1, ..Shape::new(Level::Raid1, 2) };
    let (world, array, mut content) = started_on(Model::hdd(), &shape);
    let len = content.len() - 1024;
    zero(&world, &array, 512, len, ZeroOptions::default()).unwrap();
    content[512..512 + len].fill(0);
    assert!(whole(&world, &array) == content);
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
}

#[test]
fn parts_of_wide_rows_are_zeroed_to_their_ends_and_no_further() {
    let shape = Shape { chunk: 512 << 10, rows: 2, ..Shape::new(Level::Raid5, 3) };
    let world = World::of(&shape);
    let array = world.open();
    for (at, len) in [(100 << 10, 600 << 10), (100 << 10, (1 << 20) + (700 << 10))] {
        let mut content = pattern(3, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        zero(&world, &array, at, len, ZeroOptions::default()).unwrap();
        content[at..at + len].fill(0);
        assert!(whole(&world, &array) == content, "{len} at {at}");
    }
}

#[test]
fn zeroes_are_made_fast_where_members_can_but_for_parts_of_rows_with_parity() {
    for (level, members) in EVERY_LEVEL {
        let world = World::of(&Shape { rows: 64, ..Shape::new(level, members) });
        let array = world.open();
        let mut content = pattern(5, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        let row = array.geometry().row_bytes().max(4096) as usize;
        let parity = matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6);
        for (at, len) in [(row - 512, 512 + row), (row, row + 512), (row - 512, row + 1024), (row, 2 * row)] {
            let options = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
            let made = zero(&world, &array, at, len, options);
            if parity && (at, len) != (row, 2 * row) {
                assert_eq!(made, Err(VolumeError::Unsupported), "{level}: {len} at {at}");
            } else {
                assert_eq!(made, Ok(()), "{level}: {len} at {at}");
                content[at..at + len].fill(0);
            }
            assert!(whole(&world, &array) == content, "{level}: {len} at {at}");
        }
    }
}

#[test]
fn zeroes_with_fua_are_stable_once_they_are_acknowledged() {
    for (level, members) in EVERY_LEVEL {
        let model = Model { volatile_cache: true, ..Model::nvme() };
        let (world, array, mut content) =
            started_on(model, &Shape { rows: 64, ..Shape::new(level, members) });
        world.io.block_on(array.flush()).unwrap();
        for (at, len) in ranges(content.len()) {
            let options = ZeroOptions { fua: true, ..ZeroOptions::default() };
            zero(&world, &array, at, len, options).unwrap();
            content[at..at + len].fill(0);
            world.ids.iter().for_each(|&id| world.bench.forget_unflushed(id));
            assert!(whole(&world, &array) == content, "{level}: {len} at {at}");
        }
    }
}

/// The engine asks for 256 MiB at a time.
#[test]
fn a_long_range_is_zeroed_and_discarded_to_its_end_and_no_further() {
    const ROUND: u64 = 256 << 20;
    let world = World::of(&Shape { chunk: 1 << 20, rows: 133, ..Shape::new(Level::Raid0, 2) });
    let array = world.open();
    let (start, end) = (4 << 20, (4 << 20) + ROUND + (2 << 20));
    let places = [start - 4096, start, start + ROUND - 4096, start + ROUND, end - 4096, end];
    for zeroes in [false, true] {
        places.iter().for_each(|&at| world.write(&array, at, &pattern(at, 4096)).unwrap());
        let done = if zeroes {
            world.io.block_on(array.write_zeroes(start, end - start, ZeroOptions::default()))
        } else {
            world.io.block_on(array.discard(start, end - start))
        };
        done.unwrap();
        for at in places {
            let due = if (start..end).contains(&at) { vec![0; 4096] } else { pattern(at, 4096) };
            assert!(world.read(&array, at, 4096).unwrap() == due, "zeroes: {zeroes}, {at}");
        }
    }
}

#[test]
fn members_are_told_whether_zeroes_may_free_their_room() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid5] {
        let world = World::of(&Shape::new(level, 3));
        let reported = Rc::new(RefCell::new(Vec::new()));
        let served = |_: usize| {
            let (served, reported) = (world.io.serve_member(info(1 << 20)), Rc::clone(&reported));
            let member = served.member();
            drop(world.io.spawn(async move {
                loop {
                    let mut request = served.next().await;
                    let op = request.take();
                    if let Some(OpKind::WriteZeroes { may_unmap, .. }) = op.map(|op| op.kind) {
                        reported.borrow_mut().push(may_unmap);
                    }
                    request.complete(Ok(()));
                }
            }));
            Some(Device { id: member, data_offset: 0 })
        };
        let geometry = Geometry::new(level, Layout::default_for(level), 4096, &[1 << 20; 3]).unwrap();
        let array = in_memory(&world.io, geometry, (0..3).map(served).collect());
        for keep_allocated in [true, false] {
            let options = ZeroOptions { keep_allocated, ..ZeroOptions::default() };
            zero(&world, &array, 0, array.limits().size as usize, options).unwrap();
            assert_eq!(reported.take(), [!keep_allocated; 3], "{level}");
        }
    }
}

#[test]
fn zeroes_are_refused_where_a_member_is_lost_that_nothing_makes_up_for() {
    let shape = Shape { rows: 64, ..Shape::new(Level::Raid0, 2) };
    let (world, array, content) = started_on(Model::nvme(), &shape);
    world.bench.kill(world.ids[1]);
    world.read(&array, 0, content.len()).unwrap_err();
    assert_eq!(array.state(1), RoleState::Failed);
    let refused = zero(&world, &array, 0, content.len(), ZeroOptions::default());
    assert_eq!(refused, Err(VolumeError::TooManyLost));
}
