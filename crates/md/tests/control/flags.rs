//! Flags of members: honoured, changed while the array runs, and found by the next run. Read errors that are borne.

use brindle_array::{Array, DeviceState, EventKind, OpenConfig, RemoveError, RoleState};
use brindle_format::md::{DeviceFlags, Endian, Version};
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim, When};
use brindle_layout::Level;
use brindle_md::treatment;

use crate::common::*;

const WRITE_MOSTLY: DeviceFlags = DeviceFlags { write_mostly: true, failfast: false };
const FAILFAST: DeviceFlags = DeviceFlags { write_mostly: false, failfast: true };

/// Flags stand in one sector, or in two others than the first.
const METADATA: [Version; 2] = [Version::V1_2, Version::V0_90(Endian::Little)];

/// Rows of 4 KiB, and so 4 MiB of each member.
const ROWS: u64 = 1024;

fn made(level: Level, members: usize, version: Version) -> (World<Sim>, Array, Vec<u8>) {
    let shape = Shape { rows: ROWS, ..Shape::new(level, members) }.metadata(version, 0);
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let array = world.open();
    let content = pattern(3, 1 << 20);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

fn flag(world: &World<Sim>, array: &Array, member: usize, flags: DeviceFlags) {
    world.io.block_on(array.set_flags(world.ids[member], treatment(flags))).unwrap();
}

fn reads(world: &World<Sim>, member: usize) -> u64 {
    world.ids.get(member).map_or(0, |&id| world.io.counters(id).reads)
}

/// Small reads and one that is split; gives how many operations each of the first three members was sent.
fn read_all(world: &World<Sim>, array: &Array, content: &[u8]) -> [u64; 3] {
    let before = [0, 1, 2].map(|member| reads(world, member));
    for at in (0..content.len()).step_by(16 << 10) {
        assert!(world.read(array, at as u64, 4096).unwrap() == content[at..at + 4096]);
    }
    assert!(world.read(array, 0, content.len()).unwrap() == content);
    let mut now = [0, 1, 2].map(|member| reads(world, member));
    now.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
    now
}

#[test]
fn a_write_mostly_member_is_read_when_no_other_can_answer() {
    for version in METADATA {
        let (world, array, content) = made(Level::Raid1, 3, version);
        assert!(read_all(&world, &array, &content).iter().all(|&reads| reads > 0), "{version}");
        flag(&world, &array, 0, WRITE_MOSTLY);
        assert_eq!(world.superblock(0).flags, WRITE_MOSTLY, "{version}: on record at once");
        let read = read_all(&world, &array, &content);
        assert!(read[0] == 0 && read[1] > 0 && read[2] > 0, "{version}: {read:?}");
        world.stop(&array);
        drop(array);

        let world = world.restart(8);
        let array = world.open();
        assert_eq!(array.detail().devices[0].flags, treatment(WRITE_MOSTLY), "{version}");
        assert_eq!(read_all(&world, &array, &content)[0], 0, "{version}: the next run knows it, too");
        world.bench.spoil(world.ids[1], world.superblock(1).data_offset, 4096);
        let before = reads(&world, 0);
        assert!(world.read(&array, 0, 4096).unwrap() == content[..4096]);
        assert_eq!(reads(&world, 0), before, "{version}: there is another copy still");
        world.io.block_on(array.fail(1)).unwrap();
        world.bench.kill(world.ids[2]);
        assert!(read_all(&world, &array, &content)[0] > 0, "{version}");
        flag(&world, &array, 0, DeviceFlags::default());
        world.stop(&array);
        assert_eq!(world.superblock(0).flags, DeviceFlags::default(), "{version}");
    }
}

#[test]
fn a_failfast_member_fails_at_its_first_read_error_unless_it_is_the_last() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4)] {
        for flags in [DeviceFlags::default(), FAILFAST] {
            let (world, array, content) = made(level, members, Version::V1_2);
            let start = world.superblock(0).data_offset;
            flag(&world, &array, 0, flags);
            world.bench.afflict(world.ids[0], |faults| {
                faults.unreadable.push(BadRange::until_written(start..start + (256 << 10)));
            });
            (0..8).for_each(|_| _ = read_all(&world, &array, &content));
            let failed = array.state(0) == RoleState::Failed;
            assert_eq!(failed, flags.failfast, "{level}");
        }
        let (world, array, content) = made(level, members, Version::V1_2);
        flag(&world, &array, 0, FAILFAST);
        world.io.block_on(array.fail(1)).unwrap();
        world.bench.spoil(world.ids[0], world.superblock(0).data_offset, 4096);
        assert!(world.read(&array, 0, 4096).is_err());
        assert_eq!(array.state(0), RoleState::InSync, "{level}: nobody else has its data");
        assert!(world.read(&array, 64 << 10, 4096).unwrap() == content[64 << 10..][..4096]);
    }
}

#[test]
fn less_patience_is_had_with_a_failfast_member() {
    for (flags, failed) in [(DeviceFlags::default(), false), (FAILFAST, true)] {
        let (world, array, content) = made(Level::Raid1, 2, Version::V1_2);
        flag(&world, &array, 0, flags);
        world.bench.afflict(world.ids[0], |faults| faults.hangs = true);
        let wait = patient().patience.answer / 2;
        world.io.block_on(async {
            let writing = write(&world.pool, &array, 0, &content[..4096]);
            brindle_io::sync::race(writing, world.io.sleep(wait)).await;
        });
        assert_eq!(array.state(0) == RoleState::Failed, failed, "{flags:?}");
    }
}

#[test]
fn flags_are_refused_to_what_is_no_device_of_the_array() {
    let (world, array, _) = made(Level::Raid1, 2, Version::V1_2);
    let other = world.bench.add_drive(Model::nvme(), 1 << 20);
    assert_eq!(world.io.block_on(array.set_flags(other, treatment(FAILFAST))), Err(RemoveError::Unknown));
    world.io.block_on(array.fail(1)).unwrap();
    let before = world.superblock(1);
    assert_eq!(
        world.io.block_on(array.set_flags(world.ids[1], treatment(FAILFAST))),
        Err(RemoveError::Unknown)
    );
    assert_eq!(world.superblock(1), before);
    assert_eq!(array.detail().devices[1].state, DeviceState::Failed);
}

#[test]
fn flags_of_a_device_that_fails_meanwhile_are_not_acknowledged() {
    let (world, array, _) = made(Level::Raid1, 2, Version::V1_2);
    world.bench.kill(world.ids[1]);
    assert_eq!(array.state(1), RoleState::InSync, "nobody has asked it yet");
    assert_eq!(
        world.io.block_on(array.set_flags(world.ids[1], treatment(FAILFAST))),
        Err(RemoveError::Unknown)
    );
    assert_eq!(array.state(1), RoleState::Failed);
    flag(&world, &array, 0, FAILFAST);
}

#[test]
fn whenever_the_power_goes_flags_are_old_or_new_and_every_superblock_can_be_read() {
    for (version, seed) in (0..10).flat_map(|seed| METADATA.map(|version| (version, seed))) {
        // A member fails beside it, which is another change of the superblock.
        for fails in [false, true] {
            for step in 0.. {
                let world =
                    World::in_sim(&Shape::new(Level::Raid5, 3).metadata(version, 0), Model::nvme(), seed);
                let array = world.open();
                let (sim, io) = (world.bench.clone(), world.io.clone());
                sim.cut_power_at(When::Step(sim.steps() + step));
                let done = io.block_on(async {
                    let failing = array.clone();
                    let failed = io.spawn(async move {
                        if fails {
                            failing.fail(2).await.unwrap();
                        }
                    });
                    let both = async {
                        let set = array.set_flags(world.ids[0], treatment(WRITE_MOSTLY)).await;
                        (set.unwrap(), failed.await)
                    };
                    sim.until_end(&io, both).await
                });
                drop(array);
                let world = world.restart(8);
                let assembly =
                    world.assembly().unwrap_or_else(|why| panic!("{version} {seed} {step}: {why}"));
                let out = assembly.degraded();
                assert!(out.is_empty() || fails && out == [2], "{version} {seed} {step}: {out:?}");
                let flags = assembly.devices[0].superblock.flags;
                let known = flags == WRITE_MOSTLY || done.is_none() && flags == DeviceFlags::default();
                assert!(known, "{version} {seed} {step}: {flags:?}");
                if done.is_some() {
                    break;
                }
            }
        }
    }
}

/// Reads places of the first member that can't be read, one after the other, far enough apart to count each.
fn meet_errors(world: &World<Sim>, array: &Array, places: core::ops::Range<u64>) {
    let start = world.superblock(0).data_offset;
    for place in places.map(|n| n * (128 << 10)) {
        world.bench.spoil(world.ids[0], start + place, 4096);
        let ranges = array.array_ranges(0, place..place + 4096);
        // Whichever copy or row it is in, a check meets it.
        let at = ranges.first().map_or(0, |range| range.start);
        world.read(array, at, 4096).unwrap();
        let window = (place & !0xffff, 64 << 10);
        let mode = brindle_array::SyncMode::Check;
        let (pos, len) = if matches!(array.geometry().level(), Level::Raid1 | Level::Raid10) {
            (at & !0xffff, window.1)
        } else {
            window
        };
        world.io.block_on(array.sync_window(pos, len, mode)).unwrap();
    }
}

#[test]
fn as_many_read_errors_are_borne_as_is_asked_for_and_hours_forgive() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)] {
        let (world, array, _) = made(level, members, Version::V1_2);
        world.stop(&array);
        drop(array);
        let world = world.restart(8);
        let config = OpenConfig { read_errors: 4, ..patient() };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        meet_errors(&world, &array, 0..4);
        assert_eq!((array.read_errors(0), array.state(0)), (4, RoleState::InSync), "{level}");
        idle(&world, Duration::from_secs(3601));
        assert_eq!(array.read_errors(0), 2, "{level}");
        meet_errors(&world, &array, 4..6);
        assert_eq!((array.read_errors(0), array.state(0)), (4, RoleState::InSync), "{level}");
        meet_errors(&world, &array, 6..7);
        assert_eq!(array.state(0), RoleState::Failed, "{level}");
        let corrected = array.events_since(0).into_iter().filter(|e| e.kind == EventKind::Corrected).count();
        assert_eq!(corrected, 6, "{level}: each was mended");
    }
}

#[test]
fn a_member_that_grows_slow_is_reported_and_so_is_that_it_is_over() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid5, 4)] {
        let (world, array, content) = made(level, members, Version::V1_2);
        let load = |seconds: u64| {
            for _ in 0..seconds {
                for at in (0..content.len()).step_by(32 << 10) {
                    world.write(&array, at as u64, &content[at..at + 4096]).unwrap();
                    world.read(&array, at as u64, 4096).unwrap();
                }
                idle(&world, Duration::from_secs(1));
            }
        };
        let reported = || {
            let events = array.events_since(0).into_iter();
            let kinds = events.filter(|e| matches!(e.kind, EventKind::Slower | EventKind::AsFastAgain));
            kinds.map(|event| (event.kind, event.role)).collect::<Vec<_>>()
        };
        load(40);
        assert_eq!(reported(), [], "{level}");
        world.bench.afflict(world.ids[1], |faults| faults.slowness = 100);
        load(60);
        assert_eq!(reported(), [(EventKind::Slower, Some(1))], "{level}");
        assert!(array.detail().devices[1].slower.is_some_and(|times| times >= 8), "{level}");
        world.bench.afflict(world.ids[1], |faults| faults.slowness = 0);
        load(60);
        let expected = [(EventKind::Slower, Some(1)), (EventKind::AsFastAgain, Some(1))];
        assert_eq!((reported(), array.detail().devices[1].slower), (expected.to_vec(), None), "{level}");
    }
}
