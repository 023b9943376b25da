//! Members that don't answer: given up, each in its time, and never more of them than the array can lose.

use std::rc::Rc;

use brindle_array::{Array, Device, EventKind, RoleState};
use brindle_format::md::Version;
use brindle_io::sim::{BadRange, Model, Sim, When};
use brindle_io::{Duration, Instant, Io};
use brindle_layout::{Geometry, Layout, Level};
use brindle_volume::nest;
use brindle_volume::{Volume, VolumeError};

use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

fn world(level: Level, members: usize) -> World<Sim> {
    on_drives(level, members, Version::V1_2)
}

fn hang(world: &World<Sim>, member: usize, hangs: bool) {
    world.bench.afflict(world.ids[member], |faults| faults.hangs = hangs);
}

fn failed(array: &Array, world: &World<Sim>) -> Vec<usize> {
    (0..world.ids.len()).filter(|&role| array.state(role as u16) == RoleState::Failed).collect()
}

fn elapsed(world: &World<Sim>, since: Instant) -> u64 {
    world.io.now().since(since).as_millis() as u64
}

/// Reads the first 256 KiB in such pieces, within a second; they must be those of `pattern(1)`.
fn read_soon(world: &World<Sim>, array: &Array, piece: usize, who: &str) {
    let (began, whole) = (world.io.now(), pattern(1, 256 << 10));
    for (offset, expected) in (0..).step_by(piece).zip(whole.chunks(piece)) {
        let bytes = world.read(array, offset, piece);
        let bytes = bytes.unwrap_or_else(|error| panic!("{who}: {error}, {:?}", array.events_since(0)));
        assert!(bytes == expected, "{who}: {piece} bytes at {offset}");
    }
    assert!(elapsed(world, began) < 1000, "{who}: {} ms", elapsed(world, began));
}

#[test]
fn a_member_that_hangs_at_the_first_write_is_failed_and_the_write_goes_on() {
    for (level, members) in LEVELS {
        let world = world(level, members);
        let array = open_in_sync(&world);
        hang(&world, 1, true);
        let began = world.io.now();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        assert!((20_000..22_000).contains(&elapsed(&world, began)), "{level}: {} ms", elapsed(&world, began));
        assert_eq!(failed(&array, &world), [1], "{level}");
        let kinds: Vec<_> = array.events_since(0).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds.iter().filter(|&&kind| kind == EventKind::MemberFailed).count(), 1, "{kinds:?}");
        let began = world.io.now();
        world.write(&array, 65536, &pattern(2, 65536)).unwrap();
        assert!(world.read(&array, 0, 65536).unwrap() == pattern(1, 65536), "{level}");
        assert!(world.read(&array, 65536, 65536).unwrap() == pattern(2, 65536), "{level}");
        assert!(elapsed(&world, began) < 1000, "nobody waits for it any more");
        world.stop(&array);
    }
}

#[test]
fn a_member_that_hangs_in_the_midst_of_writes_loses_none_of_them() {
    for (level, members) in LEVELS {
        for step in (0..120).step_by(if level == Level::Raid6 { 3 } else { 7 }) {
            let world = world(level, members);
            let array = open_in_sync(&world);
            let id = world.ids[step as usize % members];
            let first = world.bench.steps();
            world.bench.schedule(When::Step(first + step), id, |faults| faults.hangs = true);
            for n in 0..12u64 {
                world.write(&array, n * 20480, &pattern(n, 20480)).unwrap();
            }
            for n in 0..12u64 {
                let read = world.read(&array, n * 20480, 20480).unwrap();
                assert!(
                    read == pattern(n, 20480),
                    "{level} {step} {n}: {:?} {:?}",
                    (0..5)
                        .map(|c| read[c * 4096..][..4096] == pattern(n, 20480)[c * 4096..][..4096])
                        .collect::<Vec<_>>(),
                    array.events_since(0)
                );
            }
            world.io.block_on(array.flush()).unwrap();
            world.stop(&array);
            assert!(failed(&array, &world).len() <= 1, "{level} {step}");
        }
    }
}

#[test]
fn a_read_does_not_wait_for_a_member_that_hangs() {
    for (level, members) in LEVELS {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 256 << 10)).unwrap();
        for role in 0..members {
            hang(&world, role, true);
            read_soon(&world, &array, 16384, &format!("{level} without role {role}"));
            hang(&world, role, false);
            idle(&world, Duration::from_secs(1));
        }
        assert_eq!(failed(&array, &world), [0usize; 0], "they answered in time");
    }
}

/// Makes the place of the array's first bytes unreadable on these members until it is written.
fn spoil(world: &World<Sim>, members: &[usize]) {
    for &member in members {
        let start = Shape::new(Level::Raid1, 2).data_offset();
        let bad = BadRange::until_written(start..start + (256 << 10));
        world.bench.afflict(world.ids[member], |faults| faults.unreadable.push(bad));
    }
}

#[test]
fn a_member_that_hangs_is_not_asked_again_for_what_the_others_can_make_up_for() {
    for (level, members, bad) in [(Level::Raid1, 3, 2), (Level::Raid6, 5, 3), (Level::Raid6, 4, 0)] {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 256 << 10)).unwrap();
        spoil(&world, &[bad]);
        hang(&world, 1, true);
        read_soon(&world, &array, 65536, &format!("{level} of {members}"));
        hang(&world, 1, false);
        idle(&world, Duration::from_secs(1));
        assert_eq!(failed(&array, &world), [0usize; 0], "{level}: it answered in time");
    }
}

#[test]
fn what_only_a_slow_member_can_give_is_waited_for_without_asking_it_again_and_again() {
    let cases: [(Level, usize, &[usize]); 4] = [
        (Level::Raid1, 2, &[0]),
        (Level::Raid5, 4, &[0]),
        (Level::Raid6, 5, &[0, 3]),
        (Level::Raid10, 4, &[0]),
    ];
    for (level, members, bad) in cases {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 256 << 10)).unwrap();
        hang(&world, 1, true);
        assert!(world.read(&array, 0, 256 << 10).unwrap() == pattern(1, 256 << 10), "{level}");
        // It is known as slow before the others turn out to have bad places.
        spoil(&world, bad);
        let given_up = world.io.counters(world.ids[1]).given_up;
        let began = world.io.now();
        world.bench.schedule(When::Moment(began.after(Duration::from_secs(5))), world.ids[1], |faults| {
            faults.hangs = false;
        });
        let bytes = world.read(&array, 0, 256 << 10).unwrap_or_else(|error| panic!("{level}: {error}"));
        assert!(bytes == pattern(1, 256 << 10), "{level}");
        assert!((5000..6000).contains(&elapsed(&world, began)), "{level}: {} ms", elapsed(&world, began));
        assert_eq!(world.io.counters(world.ids[1]).given_up, given_up, "{level}: not asked meanwhile");
        assert_eq!(failed(&array, &world), [0usize; 0], "{level}");
    }
}

#[test]
fn members_that_hang_together_are_not_failed_and_serve_again() {
    for (level, members) in LEVELS {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 256 << 10)).unwrap();
        for role in 0..members {
            hang(&world, role, true);
        }
        let began = world.io.now();
        assert!(matches!(world.write(&array, 0, &pattern(2, 256 << 10)), Err(VolumeError::Member { .. })));
        assert!(matches!(world.read(&array, 0, 65536), Err(VolumeError::Member { .. })), "{level}");
        assert!(
            elapsed(&world, began) < 60_000,
            "{level}: {} ms {:?}",
            elapsed(&world, began),
            array
                .events_since(0)
                .into_iter()
                .map(|e| (e.moment, e.kind, e.role, e.cause))
                .collect::<Vec<_>>()
        );
        // A write that was given up may still land, so its range must not be written again.
        assert!(matches!(world.write(&array, 0, &pattern(3, 256 << 10)), Err(VolumeError::Member { .. })));
        assert_eq!(failed(&array, &world), [0usize; 0], "{level}");
        for role in 0..members {
            hang(&world, role, false);
        }
        idle(&world, Duration::from_secs(1));
        world.write(&array, 0, &pattern(4, 256 << 10)).unwrap();
        assert!(world.read(&array, 0, 256 << 10).unwrap() == pattern(4, 256 << 10), "{level}");
        assert_eq!(failed(&array, &world), [0usize; 0], "{level}");
        world.stop(&array);
    }
}

#[test]
fn the_operator_fails_a_member_that_hangs_and_need_not_wait() {
    for (level, members) in LEVELS {
        let world = world(level, members);
        let array = open_in_sync(&world);
        hang(&world, 0, true);
        let writing = {
            let (array, pool) = (array.clone(), world.pool.clone());
            world.io.spawn(async move { write(&pool, &array, 0, &pattern(1, 65536)).await })
        };
        idle(&world, Duration::from_secs(1));
        let began = world.io.now();
        world.io.block_on(array.fail(0)).unwrap();
        world.io.block_on(writing).unwrap();
        assert!(elapsed(&world, began) < 1000, "{level}");
        assert!(world.read(&array, 0, 65536).unwrap() == pattern(1, 65536), "{level}");
        world.stop(&array);
    }
}

#[test]
fn nothing_is_read_of_a_member_that_has_failed_while_another_is_slow() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid6, 5)] {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(2, 256 << 10)).unwrap();
        world.io.block_on(array.fail(0)).unwrap();
        world.write(&array, 0, &pattern(1, 256 << 10)).unwrap();
        hang(&world, 1, true);
        read_soon(&world, &array, 256 << 10, &format!("{level} until it is known as slow"));
        for piece in [4096, 65536, 256 << 10] {
            read_soon(&world, &array, piece, &format!("{level} without role 0"));
        }
        hang(&world, 1, false);
    }
}

#[test]
fn busy_disks_are_not_taken_for_slow_ones() {
    // With 64 requests in flight on each, a read of a disk takes longer than the patience with reads; but all do.
    let world =
        World::in_sim(&Shape { rows: 64, in_sync: false, ..Shape::new(Level::Raid5, 4) }, Model::hdd(), 3);
    let array = open_in_sync(&world);
    let done = Rc::new(core::cell::Cell::new(0));
    let tasks: Vec<_> = (0..256u64)
        .map(|n| {
            let (array, pool, io, done) =
                (array.clone(), world.pool.clone(), world.io.clone(), Rc::clone(&done));
            world.io.spawn(async move {
                let end = io.now().after(Duration::from_secs(20));
                let mut at = n;
                while io.now() < end {
                    at = (at * 2_654_435_761 + 97) % 64;
                    read(&pool, &array, at * 4096, 4096).await.unwrap();
                    done.set(done.get() + 1);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| world.io.block_on(task));
    let judged = [EventKind::Slow, EventKind::GivenUp, EventKind::MemberFailed];
    let judgements = array.events_since(0).into_iter().filter(|event| judged.contains(&event.kind));
    assert_eq!(judgements.count(), 0, "{} reads", done.get());
}

#[test]
fn stopping_ends_although_a_member_hangs() {
    for (level, members) in LEVELS {
        let world = world(level, members);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        hang(&world, 1, true);
        let began = world.io.now();
        world.stop(&array);
        assert!(elapsed(&world, began) < 25_000, "{level}: {} ms", elapsed(&world, began));
        assert_eq!(failed(&array, &world), [1], "{level}");
    }
}

#[test]
fn an_array_that_is_a_member_is_not_given_up_while_it_deals_with_a_member_of_its_own() {
    let sim = Sim::new(5);
    let io = Io::new(Box::new(sim.clone()));
    let pool = io.pool(8 << 20);
    let drives: Vec<_> = (0..6).map(|_| sim.add_blank_drive(Model::nvme(), 1 << 20)).collect();
    let place = |id| Some(Device { id, data_offset: 0 });
    let geometry =
        |level, sizes: &[u64]| Geometry::new(level, Layout::default_for(level), 64 << 10, sizes).unwrap();
    let inner: Vec<_> = drives
        .chunks(3)
        .map(|ids| {
            let geometry = geometry(Level::Raid5, &[1 << 20; 3]);
            in_memory(&io, geometry, ids.iter().map(|&id| place(id)).collect())
        })
        .collect();
    let ids: Vec<_> = inner.iter().map(|array| nest::serve(&io, array.clone(), 8)).collect();
    let geometry = geometry(Level::Raid0, &[2 << 20; 2]);
    let outer = in_memory(&io, geometry, ids.iter().map(|&id| place(id)).collect());
    io.block_on(async {
        write(&pool, &outer, 0, &pattern(1, 1 << 20)).await.unwrap();
        sim.afflict(drives[1], |faults| faults.hangs = true);
        let began = io.now();
        assert!(read(&pool, &outer, 0, 1 << 20).await.unwrap() == pattern(1, 1 << 20));
        assert!(io.now().since(began) < Duration::from_secs(5), "answered from redundancy");
        write(&pool, &outer, 0, &pattern(2, 1 << 20)).await.unwrap();
        assert!(read(&pool, &outer, 0, 1 << 20).await.unwrap() == pattern(2, 1 << 20));
    });
    assert_eq!(inner[0].state(1), RoleState::Failed);
    assert!((0..2).all(|role| outer.state(role) == RoleState::InSync));
    io.shutdown();
}
