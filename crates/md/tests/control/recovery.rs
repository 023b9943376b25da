//! Spares that take the place of members: rebuilt, put on record, and found there by the next run.

use std::num::NonZeroU64;

use brindle_array::{
    Access, AddError, Array, DeviceState, OpenConfig, ProcessError, Recovery, Removal, RemoveError,
    RoleState, SyncMode,
};
use brindle_format::md::{DeviceRole, Features, Uuid, Version, display_uuid};
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_md::assembly::DeviceUse;
use brindle_volume::Volume;

use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];

/// An array with spares, and what it holds.
fn with_spares(shape: &Shape, spares: usize) -> (World<Sim>, Array, Vec<u8>) {
    of_rows(64, shape, spares)
}

fn of_rows(rows: u64, shape: &Shape, spares: usize) -> (World<Sim>, Array, Vec<u8>) {
    let world = World::in_sim(&Shape { rows, spares, ..shape.clone() }, Model::nvme(), 7);
    let array = world.open();
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

fn each(test: impl Fn(World<Sim>, Array, Vec<u8>, Version)) {
    for (level, members) in LEVELS {
        for (version, table) in METADATA {
            let (world, array, content) =
                with_spares(&Shape::new(level, members).metadata(version, table), 1);
            test(world, array, content, version);
        }
    }
}

/// Has the first spare take the place of the member of a role.
fn replace(world: &World<Sim>, array: &Array, role: u16) -> Result<(), ProcessError> {
    world.io.block_on(async {
        array.fail(role).await.unwrap();
        array.recover(role, array.spares()[0], |_| ()).await
    })
}

#[test]
fn a_spare_that_was_rebuilt_is_a_member_in_the_next_run() {
    each(|world, array, content, version| {
        let spare = world.ids.len() - 1;
        let before = world.superblock(spare);
        assert_eq!((before.role(), array.spares().len()), (DeviceRole::Spare, 1), "{version}");
        replace(&world, &array, 1).unwrap();
        assert_eq!((array.state(1), array.detail().degraded), (RoleState::InSync, 0), "{version}");
        let detail = array.detail();
        assert_eq!(detail.roles[1].device, Some(spare));
        assert_eq!((detail.devices[1].role, detail.devices[1].state), (Some(1), DeviceState::Failed));
        assert_eq!(detail.devices[spare].state, DeviceState::InSync);
        let now = world.superblock(spare);
        assert_eq!((now.role(), now.recovery_offset), (DeviceRole::Active(1), None), "{version}");
        assert!(array.spares().is_empty());
        world.stop(&array);
        drop(array);
        let world = world.restart(8);
        let assembly = world.assembly().unwrap();
        assert_eq!(assembly.roles[1], Some(spare), "{version}");
        assert!(assembly.degraded().is_empty() && assembly.is_clean(), "{version}");
        let array = world.open();
        assert_eq!(world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors, 0);
        world.io.block_on(array.fail(0)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{version}");
    });
}

#[test]
fn a_recovery_that_was_stopped_goes_on_where_its_superblock_says() {
    each(|world, array, content, version| {
        let spare = world.ids.len() - 1;
        world.io.block_on(array.fail(1)).unwrap();
        let recovery = world.io.spawn(array.recover(1, array.spares()[0], |_| ()));
        let total = array.geometry().member_size();
        array.process().unwrap().set_pace(NonZeroU64::new(total / 10));
        let upto = world.io.block_on(async {
            world.io.sleep(Duration::from_secs(5)).await;
            let RoleState::Recovering(upto) = array.state(1) else { panic!("it takes 10 s") };
            assert!(upto > 0 && upto < total);
            array.stop().await.unwrap();
            recovery.await.unwrap_err();
            upto
        });
        drop(array);
        let world = world.restart(8);
        let assembly = world.assembly().unwrap();
        let usage = assembly.devices[spare].usage;
        if !version.is_v1() {
            // It has no place for that: the spare is rebuilt from its start.
            assert_eq!((usage, assembly.roles[1]), (DeviceUse::Spare, None));
            return;
        }
        assert!(world.superblock(spare).features.contains(Features::RECOVERY_OFFSET));
        let DeviceUse::Recovering { role: 1, upto: found } = usage else { panic!("{version}: {usage:?}") };
        assert!(found >= upto && found < total, "{version}: {found} of {upto}");
        let array = world.open();
        assert_eq!(array.state(1), RoleState::Recovering(found));
        let device = brindle_array::Device {
            id: world.ids[spare],
            data_offset: assembly.devices[spare].superblock.data_offset,
        };
        let mut first = None;
        world
            .io
            .block_on(array.recover(1, device, |progress| _ = first.get_or_insert(progress.position)))
            .unwrap();
        assert!(first.is_some_and(|first| first > found), "{version}: what was done stays done");
        world.io.block_on(array.fail(0)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{version}");
    });
}

#[test]
fn how_far_a_recovery_has_come_is_recorded_again_and_again() {
    let (world, array, _) = with_spares(&Shape::new(Level::Raid5, 3), 1);
    let spare = world.ids.len() - 1;
    let mut offsets = Vec::new();
    world.io.block_on(array.fail(1)).unwrap();
    let recovery =
        array.recover(1, array.spares()[0], |_| offsets.push(world.superblock(spare).recovery_offset));
    world.io.block_on(recovery).unwrap();
    assert!(offsets.is_sorted() && offsets.contains(&Some(0)), "{offsets:?}");
    offsets.dedup();
    assert!(offsets.len() >= 16, "{offsets:?}");
}

fn automatic() -> OpenConfig {
    OpenConfig { recovery: Recovery::Automatic, ..patient() }
}

/// Waits until the array is whole.
fn made_whole(world: &World<Sim>, array: &Array) {
    world.io.block_on(async {
        while array.detail().degraded > 0 {
            world.io.sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_member_that_fails_is_replaced_by_a_spare_without_a_word() {
    for (level, members) in LEVELS {
        let (world, array, content) = with_spares(&Shape::new(level, members), 1);
        world.stop(&array);
        drop(array);
        let world = world.restart(8);
        let spare = world.ids.len() - 1;
        let array = world.try_open(world.assembly().unwrap(), automatic()).unwrap();
        world.bench.kill(world.ids[0]);
        world.write(&array, 0, &content).unwrap();
        made_whole(&world, &array);
        assert_eq!(array.detail().roles[0].device, Some(spare), "{level}");
        world.io.block_on(array.fail(1)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
        world.stop(&array);
    }
}

#[test]
fn nothing_is_rebuilt_by_who_only_looks_or_was_not_told_to() {
    for config in [OpenConfig { access: Access::ReadOnly, ..automatic() }, patient()] {
        let (world, array, _) = with_spares(&Shape::new(Level::Raid5, 3), 1);
        world.stop(&array);
        drop(array);
        let world = world.restart(8).without(&[0]);
        let before = world.superblocks();
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        idle(&world, Duration::from_secs(60));
        assert_eq!((array.state(0), array.spares().len()), (RoleState::Missing, 1));
        assert_eq!(world.superblocks(), before);
    }
}

#[test]
fn an_array_that_is_opened_without_a_member_rebuilds_it_and_goes_on_with_what_was_begun() {
    for (level, members) in LEVELS {
        let (world, array, content) = with_spares(&Shape::new(level, members), 1);
        world.stop(&array);
        drop(array);
        let mut world = world.restart(8).without(&[0]);
        let mut upto = 0;
        for life in 0..4 {
            let array = world.try_open(world.assembly().unwrap(), automatic()).unwrap();
            let spare = world.ids.len() - 1;
            let reached = || match array.state(0) {
                RoleState::Recovering(upto) => Some(upto),
                _ => None,
            };
            world.io.block_on(async {
                while reached().is_none_or(|now| life < 3 && now <= upto) && array.detail().degraded > 0 {
                    world.io.sleep(Duration::from_micros(10)).await;
                }
            });
            let now = reached().unwrap_or(u64::MAX);
            assert!(now >= upto, "{level}: {now} of {upto}");
            upto = now;
            if life == 3 {
                made_whole(&world, &array);
                world.io.block_on(array.fail(1)).unwrap();
                assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
            }
            world.stop(&array);
            assert!(world.superblock(spare).role() == DeviceRole::Active(0), "{level}");
            drop(array);
            world = world.restart(9 + life);
        }
    }
}

/// A drive like the others.
fn another(world: &World<Sim>) -> MemberId {
    world.bench.add_drive(Model::nvme(), world.io.member_info(world.ids[0]).unwrap().size)
}

#[test]
fn a_device_that_was_added_replaces_a_member_and_what_was_removed_is_known_no_more() {
    each(|mut world, array, content, version| {
        let (new, number) = (another(&world), world.ids.len());
        let uuid = Uuid::from_u128(0x1234);
        world.io.block_on(array.add(new, "new", uuid, false)).unwrap();
        world.ids.push(new);
        let (sb, other) = (world.superblock(number), world.superblock(0));
        assert_eq!((sb.role(), sb.events, sb.set_uuid), (DeviceRole::Spare, other.events, other.set_uuid));
        assert_eq!((sb.data_offset, sb.component_size), (other.data_offset, other.component_size));
        assert_eq!(sb.device_uuid, if version.is_v1() { uuid } else { Uuid::nil() });
        assert_eq!((array.spares().len(), other.roles.len()), (2, sb.roles.len()), "{version}");
        // The first spare goes, so that the new device is the one that takes over.
        let first = world.ids[number - 1];
        assert_eq!(world.io.block_on(array.remove(Removal::Device(first))), Ok(vec![first]));
        replace(&world, &array, 1).unwrap();
        assert_eq!(array.detail().roles[1].device.map(|at| array.detail().devices[at].id), Some(new));
        let failed = world.ids[1];
        assert_eq!(world.io.block_on(array.remove(Removal::Failed)), Ok(vec![failed]));
        assert_eq!(world.io.block_on(array.remove(Removal::Failed)), Ok(vec![]));
        assert_eq!((array.detail().degraded, array.detail().devices.len()), (0, number - 1));
        world.stop(&array);
        drop(array);
        // The next run finds a complete array from all its devices, whatever they held before.
        let world = world.restart(8);
        let assembly = world.assembly().unwrap();
        assert_eq!(assembly.roles[1], Some(number), "{version}");
        assert!(assembly.degraded().is_empty() && assembly.is_clean(), "{version}");
        let usage = assembly.devices[1].usage;
        assert!(matches!(usage, DeviceUse::LeftOut { role: Some(1), .. }), "{version}: {usage:?}");
        let array = world.open();
        world.io.block_on(array.fail(0)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{version}");
    });
}

#[test]
fn a_device_that_is_of_no_use_is_refused_by_name_and_left_as_it_is() {
    let (world, array, _) = with_spares(&Shape::new(Level::Raid5, 3), 1);
    let size = world.io.member_info(world.ids[0]).unwrap().size;
    let foreign = another(&world);
    let mut other = world.superblock(0);
    other.set_uuid = Uuid::from_u128(0xffff);
    world.bench.poke(foreign, other.super_offset, &encoded(&other));
    let small = world.bench.add_drive(Model::nvme(), size / 2);
    let large_sectors = Model { logical_block: 4096, tear_unit: 4096, ..Model::nvme() };
    let large_sectors = world.bench.add_drive(large_sectors, size);
    let add = |id, force| world.io.block_on(array.add(id, "it", Uuid::from_u128(9), force));
    let before: Vec<u64> = world.ids.iter().map(|&id| world.io.counters(id).writes).collect();
    assert!(matches!(add(world.ids[0], true), Err(AddError::Known { .. })));
    assert!(matches!(add(world.ids[3], true), Err(AddError::Known { .. })), "a spare is one, too");
    assert!(
        matches!(add(foreign, false), Err(AddError::Foreign { array, .. }) if array == display_uuid(other.set_uuid).to_string())
    );
    assert!(matches!(add(small, true), Err(AddError::Small { has, .. }) if has == size / 2));
    assert!(matches!(add(large_sectors, true), Err(AddError::Blocks { block: 4096, .. })));
    for id in [foreign, small, large_sectors] {
        assert_eq!(world.io.counters(id).writes, 0);
    }
    assert_eq!(world.ids.iter().map(|&id| world.io.counters(id).writes).collect::<Vec<_>>(), before);
    assert!(matches!(
        world.io.block_on(array.remove(Removal::Device(world.ids[0]))),
        Err(RemoveError::InUse { .. })
    ));
    assert_eq!(world.io.block_on(array.remove(Removal::Device(foreign))), Err(RemoveError::Unknown));
    add(foreign, true).unwrap();
    let broken = another(&world);
    world.bench.afflict(broken, |faults| faults.unwritable.push(BadRange::forever(0..u64::MAX)));
    assert!(matches!(add(broken, false), Err(AddError::Device { .. })));
    assert_eq!(array.detail().devices.len(), 5, "it is none of the array's");
    // One that has failed, and is there, is not gone.
    world.io.block_on(array.fail(1)).unwrap();
    assert_eq!(world.io.block_on(array.detached()), []);
    world.bench.kill(foreign);
    assert_eq!(world.io.block_on(array.remove(Removal::Detached)), Ok(vec![foreign]));
    world.stop(&array);
}

#[test]
fn two_members_are_rebuilt_with_one_look_at_the_others() {
    let (world, array, content) = with_spares(&Shape::new(Level::Raid6, 5), 2);
    let io = &world.io;
    io.block_on(async {
        array.fail(0).await.unwrap();
        array.fail(3).await.unwrap();
        let reads = || [1, 2, 4].map(|n: usize| io.counters(world.ids[n]).bytes_read);
        let (before, spares) = (reads(), array.spares());
        array.recover_all(&[(0, spares[0]), (3, spares[1])], |_| ()).await.unwrap();
        let read: Vec<u64> = reads().iter().zip(before).map(|(now, then)| now - then).collect();
        assert_eq!(read, [array.geometry().member_size(); 3], "each byte once");
        assert_eq!(array.detail().degraded, 0);
        array.fail(1).await.unwrap();
        array.fail(2).await.unwrap();
    });
    assert!(world.read(&array, 0, content.len()).unwrap() == content);
}

/// The part that the first spare holds by then is not written again.
#[test]
fn a_spare_that_comes_while_another_is_rebuilt_is_rebuilt_with_it() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid6, 5)] {
        let (world, array, content) = of_rows(512, &Shape::new(level, members), 1);
        world.stop(&array);
        drop(array);
        let mut world = world.restart(8);
        let array = world.try_open(world.assembly().unwrap(), automatic()).unwrap();
        let (new, first, total) = (another(&world), world.ids[members], array.geometry().member_size());
        let reached = || match array.state(0) {
            RoleState::Recovering(upto) => upto,
            _ => 0,
        };
        let survivor = world.ids[2];
        let (upto, before) = world.io.block_on(async {
            array.fail(0).await.unwrap();
            array.fail(1).await.unwrap();
            while reached() < total / 3 {
                world.io.sleep(Duration::from_micros(10)).await;
            }
            let before = world.io.counters(survivor).bytes_read;
            array.add(new, "new", Uuid::from_u128(9), false).await.unwrap();
            (reached(), before)
        });
        world.ids.push(new);
        assert!(upto < total, "{level}: it comes too late");
        made_whole(&world, &array);
        // A few windows were under way, and superblocks are written.
        let some = total / 3;
        let read = world.io.counters(survivor).bytes_read - before;
        assert!(read <= total + some, "{level}: {read} of {total} read in one pass");
        for spare in [first, new] {
            let written = world.io.counters(spare).bytes_written;
            assert!(written <= total + some, "{level}: {written} of {total} written to each once");
        }
        world.io.block_on(array.fail(2)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
        world.stop(&array);
    }
}

#[test]
fn of_two_that_are_rebuilt_one_may_fail() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid6, 5)] {
        let (world, array, content) = with_spares(&Shape::new(level, members), 2);
        world.io.block_on(async {
            array.fail(0).await.unwrap();
            array.fail(1).await.unwrap();
            let spares = array.spares();
            let recovery = world.io.spawn(array.recover_all(&[(0, spares[0]), (1, spares[1])], |_| ()));
            array.process().unwrap().set_pace(NonZeroU64::new(array.geometry().member_size() / 10));
            world.io.sleep(Duration::from_secs(4)).await;
            world.bench.kill(spares[0].id);
            recovery.await.unwrap();
        });
        assert_eq!((array.state(0), array.state(1)), (RoleState::Failed, RoleState::InSync), "{level}");
        world.io.block_on(array.fail(2)).unwrap();
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
    }
}

#[test]
fn a_spare_that_failed_when_it_was_taken_in_stays_out_in_the_next_run() {
    for (version, table) in METADATA {
        let (world, array, content) = with_spares(&Shape::new(Level::Raid10, 4).metadata(version, table), 1);
        world.io.block_on(array.fail(1)).unwrap();
        let recovery = world.io.spawn(array.recover(1, array.spares()[0], |_| ()));
        idle(&world, Duration::from_micros(300));
        assert!(matches!(array.state(1), RoleState::Recovering(_)), "{version}: {:?}", array.state(1));
        let place = world.superblock(4).super_offset;
        let refused = BadRange::forever(place..place + 4096);
        world.bench.afflict(world.ids[4], |faults| faults.unwritable.push(refused));
        world.io.block_on(recovery).unwrap_err();
        world.stop(&array);
        drop(array);
        let world = world.restart(8);
        world.bench.afflict(world.ids[4], |faults| faults.unwritable.clear());
        let assembly = world.assembly().unwrap();
        let usage = assembly.devices[4].usage;
        assert!(matches!(usage, DeviceUse::LeftOut { .. }), "{version}: {usage:?}");
        let array = world.try_open(assembly, automatic()).unwrap();
        world.write(&array, 0, &content).unwrap();
        let sbs = world.superblocks();
        assert_eq!(sbs[0].roles.get(4).copied(), Some(DeviceRole::Faulty), "{version}");
        // The user removes the failed device and adds it again as new.
        world.io.block_on(array.remove(Removal::Device(world.ids[4]))).unwrap();
        world.io.block_on(array.add(world.ids[4], "it", Uuid::from_u128(9), false)).unwrap();
        made_whole(&world, &array);
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{version}");
        world.stop(&array);
    }
}
