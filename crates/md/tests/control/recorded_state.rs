//! State on disk: dirty before the first write, clean after idle time and on stop, failures before acknowledgements.

use brindle_array::{Access, DeviceState, OpenConfig, RoleState};
use brindle_format::md::{DeviceRole, Features, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, Assembly, AssemblyError, DeviceUse, LeftOut};
use brindle_volume::{Volume, VolumeError};

use crate::common::*;

/// Redundant levels with members and how many of those may be lost from the start of the roles.
const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

fn each(test: impl Fn(Level, World)) {
    for (level, members) in REDUNDANT {
        for version in VERSIONS {
            let mut spec = spec(level, members, version);
            spec.roles.iter_mut().flatten().for_each(|member| member.info.size = 3 * MIB);
            test(level, World::create(&spec));
        }
    }
}

fn clean(sbs: &[Superblock]) -> bool {
    sbs.iter().all(Superblock::is_clean)
}

fn events(sbs: &[Superblock]) -> Vec<u64> {
    sbs.iter().map(|sb| sb.events).collect()
}

#[test]
fn dirty_before_the_first_write_and_clean_after_stop() {
    each(|level, world| {
        let array = world.open();
        assert_eq!(world.read(&array, 0, 4096).unwrap(), vec![0; 4096]);
        assert_eq!(events(&world.superblocks()), vec![1; world.ids.len()], "a read changes nothing");
        world.write(&array, 8192, &pattern(1, 65536)).unwrap();
        let sbs = world.superblocks();
        // Twice: a bitmap's file that is not here may have the next count, and must be behind when it is given.
        assert!(
            sbs.iter()
                .all(|sb| sb.resync_offset == Some(0) && sb.events == 3 && sb.updated == sbs[0].updated)
        );
        assert_eq!(array.detail().state_words(), "active");
        world.write(&array, 0, &pattern(2, 4096)).unwrap();
        assert_eq!(events(&world.superblocks()), vec![3; world.ids.len()], "{level}: marked once");
        world.stop(&array);
        assert!(clean(&world.superblocks()));
        assert_eq!(events(&world.superblocks()), vec![4; world.ids.len()]);
        assert_eq!(world.write(&array, 0, &[0; 512]), Err(VolumeError::Stopping));
        assert_eq!(world.read(&array, 0, 512), Err(VolumeError::Stopping));
        let again = world.reboot();
        let array = again.open();
        assert!(!array.needs_resync());
        assert_eq!(again.read(&array, 8192, 65536).unwrap(), pattern(1, 65536));
    });
}

#[test]
fn the_mark_is_on_all_members_before_any_data() {
    // A member that takes no writes at all: the superblock is refused first, and the failure recorded.
    each(|level, world| {
        let array = world.open();
        world.bench.refuse_writes(world.ids[1]);
        world.write(&array, 0, &pattern(3, 4096)).unwrap();
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        for n in [0, 2] {
            let sb = world.superblock(n);
            assert_eq!((sb.role_of(1), sb.resync_offset), (DeviceRole::Faulty, Some(0)));
            assert_eq!(sb.events, 4, "refused, written without it, and once more");
        }
        assert!(world.superblock(1).is_clean() && world.superblock(1).events == 1);
    });
}

#[test]
fn clean_after_idle_time_and_dirty_again() {
    each(|_, world| {
        let config =
            OpenConfig { idle: Duration::from_millis(5), ..OpenConfig::new(Access::ReadWrite, || NOW) };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        let quiet = world.io.tasks_alive();
        for round in 1..=2 {
            world.write(&array, 0, &pattern(round, 4096)).unwrap();
            world.io.block_on(async {
                while array.detail().active {
                    world.io.sleep(Duration::from_millis(1)).await;
                }
                while world.io.tasks_alive() > quiet {
                    world.io.sleep(Duration::from_millis(1)).await;
                }
            });
            let sbs = world.superblocks();
            assert!(clean(&sbs));
            assert_eq!(events(&sbs), vec![2 + 2 * round; sbs.len()]);
        }
    });
}

#[test]
fn a_clock_that_shows_more_than_a_superblock_can_hold_stands_at_the_end() {
    each(|level, world| {
        let version = world.superblock(0).version;
        let last = if version.is_v1() { (1 << 40) - 1 } else { u32::MAX.into() };
        for (shows, holds) in [(last - 1, last - 1), (last, last), (last + 1, last), (u64::MAX, last)] {
            let config = OpenConfig { wall_clock: std::rc::Rc::new(move || shows), ..patient() };
            let array = world.try_open(world.assembly().unwrap(), config).unwrap();
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            world.stop(&array);
            let updated = world.superblock(0).updated;
            assert_eq!((updated.seconds, updated.micros), (holds, 0), "{level} {version}");
            assert!(array.detail().degraded == 0);
        }
    });
}

#[test]
fn a_killed_process_leaves_an_array_that_needs_a_resync() {
    each(|level, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 8192)).unwrap();
        drop(array);
        let found = world.reboot();
        assert_eq!(found.assembly().unwrap().resync_offset, Some(0));
        let array = found.open();
        assert!(array.needs_resync());
        assert_eq!(array.detail().state_words(), "clean, resync pending");
        found.write(&array, 0, &pattern(2, 8192)).unwrap();
        found.stop(&array);
        assert!(!clean(&found.superblocks()), "stopping does not make it in sync");
        // Copies are known to be the same where they have been written.
        let same = if matches!(level, Level::Raid1 | Level::Raid10) { 8192 } else { 0 };
        assert!(found.reboot().assembly().unwrap().resync_offset.is_some_and(|offset| offset <= same));
    });
}

#[test]
fn a_failure_is_recorded_before_the_write_is_acknowledged() {
    each(|_, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        world.bench.kill(world.ids[0]);
        world.write(&array, 0, &pattern(2, 65536)).unwrap();
        // Nothing but the acknowledgement has happened since.
        for n in 1..world.ids.len() {
            let sb = world.superblock(n);
            assert_eq!((sb.events, sb.role_of(0)), (5, DeviceRole::Faulty));
        }
        assert_eq!(world.superblock(0).events, 3, "further behind than md tolerates");
        assert_eq!(array.detail().state_words(), "active, degraded");
        assert_eq!(array.detail().devices[0].state, DeviceState::Failed);
        world.stop(&array);
    });
}

/// Parity arrays that were dirty and degraded need force; mirrors do not.
fn assembled_by_force(level: Level, world: &World) -> Assembly {
    let strict = world.assembly();
    if matches!(level, Level::Raid1 | Level::Raid10) {
        return strict.unwrap();
    }
    assert!(matches!(strict, Err(AssemblyError::DirtyDegraded { .. })));
    world.assembly_with(AssembleOptions { force: true, partial: false }).unwrap()
}

#[test]
fn a_member_that_comes_back_stale_is_left_out() {
    each(|level, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 0, &pattern(2, 65536)).unwrap();
        drop(array); // killed
        let found = world.reboot();
        let assembly = assembled_by_force(level, &found);
        assert_eq!(assembly.missing(), [1]);
        // Two events lie between: with one md would take it for a member in sync.
        let why = LeftOut::Stale { events: 3 };
        assert_eq!(assembly.devices[1].usage, DeviceUse::LeftOut { role: Some(1), why });
        let array = found.try_open(assembly, patient()).unwrap();
        assert_eq!(found.read(&array, 0, 65536).unwrap(), pattern(2, 65536));
        found.write(&array, 4096, &pattern(3, 4096)).unwrap();
        // Of the others there is something left to compare.
        assert_eq!(array.needs_resync(), level != Level::Raid5);
        found.io.block_on(array.resync(|_| ())).unwrap();
        found.stop(&array);
        assert_eq!(array.detail().devices[1].state, DeviceState::LeftOut(why));
        let stale = found.reboot().assembly().unwrap().devices[1].usage;
        assert_eq!(stale, DeviceUse::LeftOut { role: Some(1), why });
    });
}

#[test]
fn a_member_that_was_away_is_not_taken_for_one_in_sync() {
    each(|level, world| {
        let part = world.reboot().without(&[2]);
        let array = part.open();
        part.write(&array, 0, &pattern(5, 4096)).unwrap();
        assert_eq!(part.superblock(0).events, 3, "two ahead: beyond md's tolerance");
        world.bring(&part, &[(0, 0), (1, 1)]);
        (2..part.ids.len()).for_each(|n| world.bring(&part, &[(n, n + 1)]));
        let assembly = assembled_by_force(level, &world);
        assert_eq!(assembly.missing(), [2], "it is behind");
        // Once is enough: the next run finds it recorded.
        let part = part.reboot();
        let array = part.try_open(assembled_by_force(level, &part), patient()).unwrap();
        part.write(&array, 0, &pattern(6, 4096)).unwrap();
        assert_eq!(part.superblock(0).events, 5);
    });
}

#[test]
fn a_member_failed_without_any_write_is_too_far_behind_to_come_back() {
    each(|level, world| {
        let array = world.open();
        world.io.block_on(array.fail(1)).unwrap();
        assert_eq!((world.superblock(0).events, world.superblock(1).events), (3, 1), "{level}");
        world.stop(&array);
        assert_eq!(world.superblock(0).events, 3, "{level}: stopping had nothing to add");
        assert!(world.superblock(0).is_clean());
    });
}

#[test]
fn beyond_tolerance_nothing_is_written_and_reads_go_on() {
    let world = World::create(&spec(Level::Raid10, 4, Version::V1_2));
    let array = world.open();
    world.write(&array, 0, &pattern(1, 4 * 65536)).unwrap();
    world.bench.kill(world.ids[1]);
    world.write(&array, 0, &pattern(2, 4096)).unwrap();
    let before = world.superblocks();
    world.bench.refuse_writes(world.ids[0]);
    assert_eq!(world.write(&array, 0, &pattern(3, 4096)), Err(VolumeError::TooManyLost));
    assert_eq!(
        world.write(&array, 65536, &pattern(3, 4096)),
        Err(VolumeError::TooManyLost),
        "the healthy pair too"
    );
    assert_eq!(world.read(&array, 65536, 65536).unwrap(), pattern(1, 4 * 65536)[65536..2 * 65536]);
    assert_eq!(array.detail().state_words(), "broken, degraded");
    assert!(world.io.block_on(array.stop()).is_err());
    assert_eq!(world.superblocks(), before, "not one superblock has changed");
    let found = world.reboot().without(&[1]);
    assert!(found.assembly().is_ok(), "the array can be assembled as it was");
}

#[test]
fn an_operator_can_not_fail_the_last_copy() {
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    let array = world.open();
    world.io.block_on(async {
        array.fail(0).await.unwrap();
        assert_eq!(array.fail(1).await, Err(VolumeError::TooManyLost));
        assert_eq!(array.fail(7).await, Err(VolumeError::OutOfRange));
    });
    assert_eq!(world.superblock(1).role_of(0), DeviceRole::Faulty);
    assert!(world.superblock(1).is_clean(), "nothing was written, so nothing is dirty");
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    world.stop(&array);
}

#[test]
fn read_only_changes_not_one_byte() {
    each(|level, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        drop(array);
        let found = world.reboot();
        let before: Vec<_> = (0..found.ids.len()).map(|n| found.image(n)).collect();
        let config = OpenConfig::new(Access::ReadOnly, || NOW);
        let array = found.try_open(found.assembly().unwrap(), config).unwrap();
        if matches!(level, Level::Raid1 | Level::Raid10) {
            found.bench.spoil(found.ids[0], 0, 3 * MIB); // nor is a bad sector mended
        }
        assert_eq!(found.read(&array, 0, 65536).unwrap(), pattern(1, 65536));
        assert_eq!(found.write(&array, 0, &[0; 512]), Err(VolumeError::ReadOnly));
        assert_eq!(found.io.block_on(array.discard(0, 4096)), Err(VolumeError::ReadOnly));
        assert_eq!(found.io.block_on(array.fail(0)), Err(VolumeError::ReadOnly));
        found.stop(&array);
        let after: Vec<_> = (0..found.ids.len()).map(|n| found.image(n)).collect();
        assert!(before == after);
    });
}

#[test]
fn a_device_that_changed_since_is_refused() {
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    let assembly = world.assembly().unwrap();
    let first = world.open();
    world.write(&first, 0, &[1; 512]).unwrap();
    let error = world.try_open(assembly.clone(), patient()).map(|_| ()).unwrap_err();
    let message = "member0 has changed since its superblock was read; make sure that nobody else uses it, and try again";
    assert_eq!(error.to_string(), message);
    world.bench.kill(world.ids[0]);
    let error = world.try_open(assembly, patient()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "member0: the superblock can't be read: the device is gone");
}

#[test]
fn features_that_bind_writers_allow_reading_only() {
    let spec = spec(Level::Raid1, 2, Version::V1_2);
    let world = World::create(&spec);
    for n in 0..2 {
        let mut sb = world.superblock(n);
        sb.features |= Features::CLUSTERED | Features(0x8000);
        let mut bytes = vec![0; 4096];
        sb.encode(&mut bytes).unwrap();
        world.bench.poke(world.ids[n], 4096, &bytes);
    }
    let assembly = world.assembly().unwrap();
    let error = world.try_open(assembly.clone(), patient()).map(|_| ()).unwrap_err();
    assert!(matches!(&error, OpenError::ReadOnly { limits } if limits.len() == 2));
    let message = error.to_string();
    assert!(message.starts_with("the array can't be written to: the array is clustered"), "{message}");
    let array = world.try_open(assembly, OpenConfig::new(Access::ReadOnly, || NOW)).unwrap();
    assert_eq!(world.read(&array, 0, 512).unwrap(), [0; 512]);
    assert_eq!(array.detail().limits.len(), 2);
}

#[test]
fn spares_keep_step_and_may_go() {
    let mut spec = spec(Level::Raid1, 2, Version::V1_2);
    spec.spares = vec![new_member(2, 8 * MIB)];
    let world = World::create(&spec);
    let array = world.open();
    world.write(&array, 0, &[1; 512]).unwrap();
    assert_eq!(events(&world.superblocks()), [3, 3, 3]);
    assert_eq!(array.detail().devices[2].state, DeviceState::Spare);
    world.bench.kill(world.ids[2]);
    world.stop(&array);
    assert_eq!(array.detail().devices[2].state, DeviceState::Failed);
    assert_eq!(array.detail().degraded, 0);
    assert!(world.superblock(0).is_clean());
}

#[test]
fn striped_arrays_have_no_state_to_keep() {
    for level in [Level::Linear, Level::Raid0] {
        let world = World::create(&spec(level, 3, Version::V1_2));
        let array = world.open();
        world.write(&array, 0, &pattern(1, 3 * 65536)).unwrap();
        assert_eq!(events(&world.superblocks()), [1, 1, 1]);
        world.stop(&array);
        assert!(clean(&world.superblocks()));
        let found = world.reboot();
        assert_eq!(found.read(&found.open(), 0, 3 * 65536).unwrap(), pattern(1, 3 * 65536));
        let lacking = found.without(&[1]).assembly_with(AssembleOptions { force: true, partial: false });
        assert!(matches!(lacking, Err(AssemblyError::TooFewMembers { .. })));
    }
}

#[test]
fn many_writers_wait_for_one_mark() {
    let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
    let array = world.open();
    let writers: Vec<_> = (0..16u64)
        .map(|n| {
            let (array, pool) = (array.clone(), world.pool.clone());
            world.io.spawn(async move { write(&pool, &array, n * 4096, &pattern(n, 4096)).await })
        })
        .collect();
    world.io.block_on(async {
        for writer in writers {
            writer.await.unwrap();
        }
    });
    assert_eq!(events(&world.superblocks()), [3, 3]);
    world.stop(&array);
}

#[test]
fn a_member_moved_to_sectors_that_its_data_offset_does_not_fit_is_named() {
    // mdadm makes such members, if --data-offset asks for it.
    for (shift, fits) in [(1024, false), (0, true)] {
        let world = World::create(&spec(Level::Raid1, 2, Version::V1_2));
        for n in 0..2 {
            let mut sb = world.superblock(n);
            sb.data_offset += shift;
            sb.data_size -= shift;
            sb.component_size = MIB;
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            sb.encode(&mut bytes).unwrap();
            world.bench.poke(world.ids[n], sb.super_offset, &bytes);
        }
        world.bench.set_info(world.ids[1], |info| info.logical_block = 4096);
        match world.try_open(world.assembly().unwrap(), patient()) {
            Ok(_) => assert!(fits),
            Err(error) => {
                assert!(matches!(error, OpenError::Misaligned { block: 4096, .. }), "{error}");
                assert!(!fits && error.to_string().starts_with("member1: "));
            }
        }
    }
}

#[test]
fn a_member_that_is_gone_when_a_clean_array_is_stopped_is_recorded_as_failed() {
    each(|level, world| {
        let array = world.open();
        world.bench.kill(world.ids[1]);
        world.stop(&array);
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        let sbs = world.superblocks();
        assert_eq!(sbs[0].role_of(1), DeviceRole::Faulty, "{level}");
        assert!(sbs[0].is_clean() && sbs[0].events >= sbs[1].events + 2, "{level}: {:?}", events(&sbs));
    });
}

/// Each redundant level on modelled drives.
fn each_on_drives(test: impl Fn(Level, World<Sim>)) {
    for (level, members) in REDUNDANT {
        test(level, World::in_sim(&Shape::new(level, members), Model::nvme(), 7));
    }
}

#[test]
fn writes_with_little_time_between_them_keep_the_array_dirty() {
    each_on_drives(|level, world| {
        let config = OpenConfig { idle: Duration::from_millis(20), ..patient() };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        for _ in 0..40 {
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            idle(&world, Duration::from_millis(5));
        }
        assert_eq!(events(&world.superblocks()), vec![3; world.ids.len()], "{level}: marked once");
        assert_eq!(array.state_change(), None, "{level}: nothing is being written any more");
        idle(&world, Duration::from_millis(100));
        assert!(clean(&world.superblocks()), "{level}");
    });
}

#[test]
fn stop_waits_for_a_write_that_is_under_way() {
    each_on_drives(|level, world| {
        let array = world.open();
        world.write(&array, 0, &pattern(1, 4096)).unwrap();
        let (pool, writer) = (world.pool.clone(), array.clone());
        let written = world.io.spawn(async move { write(&pool, &writer, 0, &pattern(2, 4096)).await });
        world.io.block_on(async {
            while world.io.in_flight() == 0 {
                world.io.yield_now().await;
            }
            array.stop().await.unwrap();
            written.await.unwrap();
        });
        assert!(clean(&world.superblocks()), "{level}");
        drop(array);
        let array = world.open();
        assert_eq!(world.read(&array, 0, 4096).unwrap(), pattern(2, 4096), "{level}");
    });
}
