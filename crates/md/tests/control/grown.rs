//! Arrays that get another size while they are used: what is on record, whenever the power goes.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::{Array, EventKind, GrowError, GrowPlan, GrowSpec, OpenConfig, Recovery, SyncMode};
use brindle_format::md::{Superblock, Version};
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim, When};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::bitmap::on_disk;
use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4)];

const LARGEST: GrowSpec = GrowSpec::Size { component: None, assume_clean: false, force: false };

fn size(component: u64, force: bool) -> GrowSpec {
    GrowSpec::Size { component: Some(component), assume_clean: false, force }
}

fn quickly() -> OpenConfig {
    OpenConfig { daemon_sleep: Some(Duration::from_millis(1)), ..patient() }
}

fn open(world: &World<Sim>) -> Array {
    world.try_open(world.assembly().unwrap(), quickly()).unwrap()
}

fn grow(world: &World<Sim>, array: &Array, spec: GrowSpec) -> Result<GrowPlan, GrowError> {
    world.io.block_on(array.grow(spec))
}

fn mismatches(world: &World<Sim>, array: &Array) -> u64 {
    world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors
}

/// Members whose room beyond the array holds anything, each something else.
fn with_noise(shape: &Shape, model: Model, seed: u64) -> World<Sim> {
    let world = World::in_sim(shape, model, seed);
    for (n, sb) in world.superblocks().into_iter().enumerate() {
        let end = sb.data_offset + sb.component_size;
        let len = sb.data_offset + sb.data_size - end;
        world.bench.poke(world.ids[n], end, &pattern(n as u64 + 1, len as usize));
    }
    world
}

fn components(world: &World<Sim>) -> Vec<u64> {
    world.superblocks().iter().map(|sb| sb.component_size).collect()
}

#[test]
fn an_array_takes_what_room_its_members_have_and_keeps_its_content() {
    for (level, members) in LEVELS {
        for (version, table) in METADATA {
            for bitmap in [None, Some(8192)] {
                let what = format!("{level} {version} {table} {bitmap:?}");
                let shape = Shape { bitmap, ..Shape::new(level, members) }.metadata(version, table);
                let world = with_noise(&shape, Model::nvme(), 3);
                let array = open(&world);
                let (before, old_len, handle) = (array.limits().size, array.sync_len(), array.clone());
                let content = pattern(9, before as usize);
                world.write(&array, 0, &content).unwrap();
                let plan = grow(&world, &array, LARGEST).unwrap_or_else(|error| panic!("{what}: {error}"));
                let after = handle.limits().size;
                assert!(after > before && plan.to.size() == after, "{what}: {before} {after}");
                assert_eq!(world.read(&handle, 0, before as usize).unwrap(), content, "{what}");
                let kinds: Vec<_> = array.events_since(0).into_iter().map(|event| event.kind).collect();
                assert_eq!(kinds, [EventKind::Grown], "{what}");
                let component = array.detail().component_size;
                assert_eq!(components(&world), vec![component; members], "{what}");
                assert!(array.needs_resync(), "{what}");
                assert!(matches!(grow(&world, &array, LARGEST), Err(GrowError::InDoubt)), "{what}");
                // The new part is used at once, the old one is in sync.
                world.write(&array, after - 4096, &pattern(4, 4096)).unwrap();
                if bitmap.is_some() {
                    let (head, set) = on_disk(&world, 0);
                    // Of the old part nothing is in doubt.
                    let is_new = |bit: &u64| (bit + 1) * head.chunk > old_len;
                    assert!(!set.is_empty() && set.iter().all(is_new), "{what}: {set:?}");
                    assert_eq!(head.sync_bytes, array.sync_len(), "{what}");
                }
                let resynced = world.io.block_on(array.resync(|_| ())).unwrap();
                assert!(resynced.mismatch_sectors > 0, "{what}: it held anything");
                assert_eq!(mismatches(&world, &array), 0, "{what}");
                world.stop(&array);
                drop((array, handle));
                let world = world.restart(4);
                let array = open(&world);
                assert!(!array.needs_resync() && array.limits().size == after, "{what}");
                assert_eq!(world.read(&array, 0, before as usize).unwrap(), content, "{what}");
                assert_eq!(world.read(&array, after - 4096, 4096).unwrap(), pattern(4, 4096), "{what}");
            }
        }
    }
}

#[test]
fn a_named_size_is_kept_and_a_smaller_one_needs_force() {
    for (level, members) in LEVELS {
        let shape = Shape { bitmap: Some(4096), ..Shape::new(level, members) };
        let world = with_noise(&shape, Model::nvme(), 3);
        let array = open(&world);
        let component = array.detail().component_size;
        let content = pattern(9, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        let too_much = grow(&world, &array, size(64 << 20, false));
        assert!(matches!(too_much, Err(GrowError::Small { .. })), "{level}: {too_much:?}");
        let same = grow(&world, &array, size(component, false));
        assert_eq!(same, Err(GrowError::Same { component }), "{level}");
        let smaller = grow(&world, &array, size(component / 2, false));
        assert!(matches!(smaller, Err(GrowError::Shrinks { .. })), "{level}: {smaller:?}");
        grow(&world, &array, size(component / 2, true)).unwrap();
        assert!(!array.needs_resync(), "{level}: nothing has come");
        let now = array.limits().size;
        assert_eq!(now, content.len() as u64 / 2, "{level}");
        assert_eq!(world.read(&array, 0, now as usize).unwrap(), content[..now as usize], "{level}");
        assert_eq!(world.read(&array, now, 512), Err(VolumeError::OutOfRange), "{level}");
        grow(&world, &array, size(component, false)).unwrap();
        assert_eq!(array.limits().size, content.len() as u64, "{level}");
        world.io.block_on(array.resync(|_| ())).unwrap();
        assert_eq!(mismatches(&world, &array), 0, "{level}");
        world.stop(&array);
    }
}

#[test]
fn a_bitmap_without_room_gets_larger_chunks() {
    let shape = Shape { bitmap: Some(4096), rows: 512, ..Shape::new(Level::Raid5, 3) };
    let world = with_noise(&shape, Model::nvme(), 3);
    // The log of bad blocks stands right behind the bitmap: no bit more has room.
    let (head, _) = on_disk(&world, 0);
    (0..3).for_each(|n| {
        world.change(n, |sb: &mut Superblock| {
            let mut log = sb.bad_block_log.unwrap();
            log.offset = sb.bitmap_offset.unwrap() + 512;
            sb.bad_block_log = Some(log);
        });
    });
    let array = open(&world);
    let taken = grow(&world, &array, LARGEST);
    taken.unwrap_or_else(|error| panic!("{error}"));
    let bitmap = array.detail().bitmap.unwrap();
    assert!(bitmap.chunk >= head.chunk, "{bitmap:?}");
    world.io.block_on(array.resync(|_| ())).unwrap();
    world.stop(&array);
}

#[test]
fn requests_wait_for_the_change_and_none_fails() {
    for (level, members) in LEVELS {
        for bitmap in [None, Some(8192)] {
            let shape = Shape { bitmap, rows: 64, ..Shape::new(level, members) };
            let world = with_noise(&shape, Model::sata_ssd(), 3);
            let array = open(&world);
            let size = array.limits().size;
            let done = Rc::new(Cell::new(0_u32));
            let lanes: Vec<_> = (0..6_u64)
                .map(|lane| {
                    let (array, pool, done) = (array.clone(), world.pool.clone(), Rc::clone(&done));
                    world.io.spawn(async move {
                        let mut random = Random::stream(lane, 5);
                        let blocks = size / 4096 / 6;
                        for round in 0..60 {
                            let at = (lane * blocks + random.below(blocks)) * 4096;
                            let bytes = pattern(lane * 1000 + round, 4096);
                            write(&pool, &array, at, &bytes).await.unwrap();
                            if round % 7 == 0 {
                                array.flush().await.unwrap();
                            }
                            assert_eq!(read(&pool, &array, at, 4096).await.unwrap(), bytes);
                            done.set(done.get() + 1);
                        }
                    })
                })
                .collect();
            world.io.block_on(async {
                let io = array.clone();
                for step in 1..=4 {
                    world.io.sleep(Duration::from_millis(2)).await;
                    let before = done.get();
                    let component = array.detail().component_size + 4096 * step;
                    let spec =
                        GrowSpec::Size { component: Some(component), assume_clean: false, force: false };
                    io.grow(spec).await.unwrap_or_else(|error| panic!("{level} {before}: {error}"));
                    array.resync(|_| ()).await.unwrap();
                }
                brindle_io::sync::join_all(lanes).await;
            });
            assert!(array.limits().size > size, "{level}");
            assert_eq!(mismatches(&world, &array), 0, "{level}");
            world.stop(&array);
        }
    }
}

#[test]
fn a_write_that_was_being_received_is_carried_out_in_the_new_shape() {
    let shape = Shape { rows: 64, ..Shape::new(Level::Raid5, 3) };
    let world = with_noise(&shape, Model::nvme(), 3);
    let array = open(&world);
    (0..6).for_each(|n| world.write(&array, n * 4096, &pattern(n, 4096)).unwrap());
    let coming = array.comes(6 * 4096, 4096);
    assert!(coming.is_some(), "writes follow each other");
    grow(&world, &array, LARGEST).unwrap();
    let next = array.comes(6 * 4096, 4096);
    world.write(&array, 6 * 4096, &pattern(6, 4096)).unwrap();
    coming.into_iter().chain(next).for_each(|stream| array.came(stream));
    (7..12).for_each(|n| world.write(&array, n * 4096, &pattern(n, 4096)).unwrap());
    assert_eq!(world.read(&array, 6 * 4096, 4096).unwrap(), pattern(6, 4096));
    world.stop(&array);
}

/// The power goes before each step in turn; gives how many there were, and how often either size was found.
fn cut_everywhere(
    level: Level,
    members: usize,
    version: Version,
    table: usize,
    bitmap: Option<u64>,
) -> [u64; 3] {
    let mut found = [0; 3];
    for cut in 1.. {
        let what = format!("{level} {version} {table} {bitmap:?} cut {cut}");
        let shape = Shape { bitmap, ..Shape::new(level, members) }.metadata(version, table);
        // Members that forget what was not flushed.
        let world = with_noise(&shape, Model { flush_latency: 150_000, ..Model::sata_ssd() }, cut);
        let array = open(&world);
        let (before, component) = (array.limits().size, array.detail().component_size);
        let content = pattern(9, before as usize);
        world.write(&array, 0, &content).unwrap();
        world.io.block_on(array.flush()).unwrap();
        world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
        let grown = world.io.block_on(world.bench.until_end(&world.io, array.grow(LARGEST)));
        if let Some(grown) = grown {
            assert!(grown.is_ok(), "{what}: {grown:?}");
            return found;
        }
        drop(array);
        found[0] = cut;
        let world = world.restart(cut + 1);
        let assembly = world.assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(assembly.degraded().is_empty() && assembly.writable(), "{what}: {:?}", assembly.limits);
        let array = world.try_open(assembly, quickly()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let size = array.limits().size;
        let is_old = array.detail().component_size == component;
        assert!(size >= before && is_old == (size == before), "{what}: {size}");
        found[1 + usize::from(!is_old)] += 1;
        assert_eq!(world.read(&array, 0, before as usize).unwrap(), content, "{what}");
        if array.needs_resync() {
            world.io.block_on(array.resync(|_| ())).unwrap();
        }
        assert_eq!(mismatches(&world, &array), 0, "{what}");
        world.write(&array, size - 4096, &pattern(cut, 4096)).unwrap();
        // All say the same from the next record on, and it goes on growing.
        let own = array.detail().component_size;
        assert_eq!(components(&world), vec![own; members], "{what}");
        if is_old {
            grow(&world, &array, LARGEST).unwrap_or_else(|error| panic!("{what}: {error}"));
            world.io.block_on(array.resync(|_| ())).unwrap();
        }
        assert_eq!(mismatches(&world, &array), 0, "{what}");
        assert_eq!(world.read(&array, size - 4096, 4096).unwrap(), pattern(cut, 4096), "{what}");
        world.stop(&array);
    }
    found
}

#[test]
fn whenever_the_power_goes_the_array_starts_with_either_size_and_its_content() {
    for (n, (level, members)) in LEVELS.into_iter().enumerate() {
        for bitmap in [None, Some(8192)] {
            let (version, table) = METADATA[(n + usize::from(bitmap.is_some())) % METADATA.len()];
            let [cuts, old, new] = cut_everywhere(level, members, version, table, bitmap);
            assert!(cuts > 10 && old > 5 && new > 0, "{level} {bitmap:?}: {cuts} {old} {new}");
        }
    }
}

fn members(count: u16) -> GrowSpec {
    GrowSpec::Members { count, coming: 0 }
}

fn level(level: Level) -> GrowSpec {
    GrowSpec::Level { level, coming: 0 }
}

fn automatic() -> OpenConfig {
    OpenConfig { recovery: Recovery::Automatic, ..quickly() }
}

fn rebuilt(world: &World<Sim>, array: &Array) {
    for _ in 0..1000 {
        if array.detail().degraded == 0 && array.process().is_none() {
            return;
        }
        idle(world, Duration::from_millis(5));
    }
    panic!("{:?}", array.detail());
}

/// Opens an array with spares, and fills it.
fn filled(shape: &Shape, seed: u64) -> (World<Sim>, Array, Vec<u8>) {
    let world = World::in_sim(shape, Model::nvme(), seed);
    let array = world.try_open(world.assembly().unwrap(), automatic()).unwrap();
    let content = pattern(9, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    (world, array, content)
}

#[test]
fn a_mirror_gets_members_and_loses_them() {
    for (version, table) in [METADATA[0], METADATA[1], METADATA[2]] {
        for bitmap in [None, Some(8192)] {
            let what = format!("{version} {bitmap:?}");
            let shape = Shape { bitmap, spares: 1, ..Shape::new(Level::Raid1, 2) }.metadata(version, table);
            let (world, array, content) = filled(&shape, 3);
            let refused = grow(&world, &array, members(4));
            assert_eq!(refused, Err(GrowError::Spares { wanted: 2, has: 1 }), "{what}");
            assert_eq!(grow(&world, &array, members(2)), Err(GrowError::SameMembers { count: 2 }), "{what}");
            assert_eq!(grow(&world, &array, members(1)), Err(GrowError::TooFew { count: 1 }), "{what}");
            let plan = grow(&world, &array, members(3)).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((plan.to.members(), array.geometry().members()), (3, 3), "{what}");
            rebuilt(&world, &array);
            assert_eq!(
                world.superblocks().iter().map(|sb| sb.raid_disks).collect::<Vec<_>>(),
                [3; 3],
                "{what}"
            );
            assert!(!array.needs_resync() && mismatches(&world, &array) == 0, "{what}");
            // The first goes: the others move up.
            world.io.block_on(array.fail(0)).unwrap();
            grow(&world, &array, members(2)).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(array.detail().degraded, 0, "{what}");
            world.write(&array, 4096, &pattern(1, 4096)).unwrap();
            world.stop(&array);
            drop(array);
            let world = world.restart(4);
            let assembly = world.assembly().unwrap();
            assert_eq!((assembly.missing(), assembly.geometry.members()), (vec![], 2), "{what}");
            let array = world.try_open(assembly, quickly()).unwrap();
            assert_eq!(world.read(&array, 0, 4096).unwrap(), content[..4096], "{what}");
            assert_eq!(world.read(&array, 4096, 4096).unwrap(), pattern(1, 4096), "{what}");
            assert_eq!(mismatches(&world, &array), 0, "{what}");
        }
    }
}

#[test]
fn a_mirror_without_lost_members_gives_its_last_ones_away_as_spares() {
    let (world, array, content) = filled(&Shape::new(Level::Raid1, 3), 3);
    grow(&world, &array, members(2)).unwrap();
    assert_eq!((array.detail().degraded, array.spares().len()), (0, 1));
    assert_eq!(whole(&world, &array), content);
    world.stop(&array);
    drop(array);
    let world = world.restart(4);
    let assembly = world.assembly().unwrap();
    assert_eq!((assembly.missing(), assembly.geometry.members()), (vec![], 2));
}

#[test]
fn a_pair_of_mirrors_becomes_a_raid5_and_back() {
    for (version, table) in [METADATA[0], METADATA[1], METADATA[2], METADATA[3]] {
        for bitmap in [None, Some(8192)] {
            let what = format!("{version} {bitmap:?}");
            let shape = Shape { bitmap, ..Shape::new(Level::Raid1, 2) }.metadata(version, table);
            let (world, array, content) = filled(&shape, 3);
            let plan = grow(&world, &array, level(Level::Raid5));
            let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((plan.to.level(), plan.to.size()), (Level::Raid5, content.len() as u64), "{what}");
            assert!(
                plan.to.chunk() >= 4096 && content.len().is_multiple_of(plan.to.chunk() as usize),
                "{what}"
            );
            assert_eq!((whole(&world, &array), array.needs_resync()), (content.clone(), false), "{what}");
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            world.write(&array, 4096, &pattern(1, 8192)).unwrap();
            let size = array.limits().size;
            world.stop(&array);
            drop(array);
            let world = world.restart(4);
            let array = open(&world);
            assert_eq!(array.geometry().level(), Level::Raid5, "{what}");
            grow(&world, &array, level(Level::Raid1)).unwrap();
            assert_eq!((array.geometry().level(), array.limits().size), (Level::Raid1, size), "{what}");
            assert_eq!(world.read(&array, 4096, 8192).unwrap(), pattern(1, 8192), "{what}");
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            let refused = grow(&world, &array, level(Level::Raid6));
            assert!(matches!(refused, Err(GrowError::Moves { .. })), "{what}: {refused:?}");
            world.stop(&array);
        }
    }
}

#[test]
fn a_raid5_becomes_a_raid6_with_q_on_a_member_more_and_back() {
    for layout in [
        "left-symmetric",
        "left-asymmetric",
        "right-symmetric",
        "right-asymmetric",
        "parity-first",
        "parity-last",
    ] {
        for bitmap in [None, Some(8192)] {
            let what = format!("{layout} {bitmap:?}");
            let shape = Shape { bitmap, spares: 1, ..Shape::new(Level::Raid5, 3).layout(layout) };
            let (world, array, content) = filled(&shape, 3);
            let plan = grow(&world, &array, level(Level::Raid6));
            let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((plan.to.members(), plan.to.size()), (4, content.len() as u64), "{what}");
            world.write(&array, 0, &pattern(2, 4096)).unwrap();
            rebuilt(&world, &array);
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            assert_eq!(world.read(&array, 4096, 8192).unwrap(), content[4096..3 * 4096], "{what}");
            // Two may be lost now.
            world.io.block_on(array.fail(0)).unwrap();
            world.io.block_on(array.fail(1)).unwrap();
            assert_eq!(world.read(&array, 0, 4096).unwrap(), pattern(2, 4096), "{what}");
            assert_eq!(world.read(&array, 4096, 8192).unwrap(), content[4096..3 * 4096], "{what}");
            world.stop(&array);
            // And back, of one that has all of them.
            let (world, array, content) = filled(&shape, 4);
            grow(&world, &array, level(Level::Raid6)).unwrap();
            rebuilt(&world, &array);
            grow(&world, &array, level(Level::Raid5)).unwrap();
            assert_eq!((array.detail().degraded, array.spares().len()), (0, 1), "{what}");
            assert_eq!(whole(&world, &array), content, "{what}");
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            world.stop(&array);
        }
    }
}

/// The power goes before each step of a change by which no byte moves; gives how many there were, and how often the new shape was found.
fn cut_changes(shape: &Shape, spec: GrowSpec) -> (u64, u64) {
    let mut new = 0;
    for cut in 1.. {
        let what = format!("{shape} {spec:?} cut {cut}");
        let world = World::in_sim(shape, Model { flush_latency: 150_000, ..Model::sata_ssd() }, cut);
        let array = open(&world);
        let content = pattern(9, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        world.io.block_on(array.flush()).unwrap();
        let before = array.geometry().clone();
        world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
        let grown = world.io.block_on(world.bench.until_end(&world.io, array.grow(spec)));
        if let Some(grown) = grown {
            assert!(grown.is_ok(), "{what}: {grown:?}");
            return (cut, new);
        }
        drop(array);
        let world = world.restart(cut + 1);
        let assembly = world.assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(assembly.writable(), "{what}: {:?}", assembly.limits);
        new += u64::from(assembly.geometry != before);
        let array = world.try_open(assembly, automatic()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(whole(&world, &array) == content, "{what}");
        if array.needs_resync() {
            world.io.block_on(array.resync(|_| ())).unwrap();
        }
        world.write(&array, 0, &pattern(cut, 4096)).unwrap();
        rebuilt(&world, &array);
        assert_eq!(mismatches(&world, &array), 0, "{what}");
        let levels: Vec<_> =
            world.superblocks().iter().map(|sb| (sb.level, sb.raid_disks, sb.layout)).collect();
        assert!(levels.iter().all(|level| *level == levels[0]), "{what}: {levels:?}");
        world.stop(&array);
    }
    (0, new)
}

#[test]
fn whenever_the_power_goes_an_array_of_another_level_or_more_members_starts_with_its_content() {
    let mirror = Shape::new(Level::Raid1, 2);
    let five = Shape { spares: 1, ..Shape::new(Level::Raid5, 3) };
    let pair = Shape::new(Level::Raid5, 2);
    let changes = [
        (Shape { spares: 1, ..mirror.clone() }, members(3)),
        (Shape::new(Level::Raid1, 3), members(2)),
        (mirror, level(Level::Raid5)),
        (pair, level(Level::Raid1)),
        (five.clone(), level(Level::Raid6)),
        (five.clone().layout("parity-first"), level(Level::Raid6)),
        (five.layout("parity-last"), level(Level::Raid6)),
    ];
    for (shape, spec) in changes {
        for bitmap in [None, Some(8192)] {
            let shape = Shape { bitmap, ..shape.clone() };
            let (cuts, new) = cut_changes(&shape, spec);
            assert!(cuts > 8 && new > 0, "{shape} {spec:?}: {cuts} {new}");
        }
    }
}
