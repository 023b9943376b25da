//! A flush that is acknowledged has made stable what was written, whatever becomes of other flushes meanwhile.

use brindle_array::{Array, OpenConfig, RoleState, StateChange};
use brindle_format::md::{DeviceRole, Endian, Version};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, OpError, Task};
use brindle_layout::Level;
use brindle_md::assembly::AssemblyError;
use brindle_volume::{Volume, VolumeError};

use crate::common::*;

/// A drive whose caches a power cut empties.
fn drive() -> Model {
    Model { volatile_cache: true, jitter: 0, ..Model::sata_ssd() }
}

fn world(level: Level, members: usize) -> World<Sim> {
    World::in_sim(&Shape::new(level, members).metadata(Version::V1_2, 0), drive(), 7)
}

/// The array as the next start finds it, after a power cut or the end of the process.
fn next(world: &World<Sim>, power_cut: bool) -> World<Sim> {
    if power_cut {
        let cut = async { world.bench.cut_power() };
        world.io.block_on(world.bench.until_end(&world.io, cut));
    }
    World::over(world.bench.restart(11), world.ids.clone(), Version::V1_2)
}

/// A write, and a flush that member 0 fails while member 1 takes its time.
async fn one_flush_fails(world: &World<Sim>, array: &Array) -> Task<Result<(), VolumeError>> {
    write(&world.pool, array, 0, &pattern(1, 65536)).await.unwrap();
    world.bench.afflict(world.ids[0], |faults| faults.failing_flushes = 1);
    world.bench.afflict(world.ids[1], |faults| faults.slowness = 1000);
    let other = array.clone();
    let slow = world.io.spawn(async move { other.flush().await });
    world.io.sleep(Duration::from_micros(1)).await;
    world.bench.afflict(world.ids[1], |faults| faults.slowness = 1);
    slow
}

#[test]
fn a_flush_waits_for_the_failure_of_another_to_be_recorded() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 5)] {
        for wait in [0, 5_000] {
            let world = world(level, members);
            let array = world.open();
            world.io.block_on(async {
                drop(one_flush_fails(&world, &array).await);
                world.io.sleep(Duration::from_micros(wait)).await;
                // Member 0 takes this one: what it lost before is lost all the same.
                array.flush().await.unwrap();
            });
            assert_eq!(array.state(0), RoleState::Failed, "{level}");
            let reported = world.superblock(1);
            assert_eq!(
                reported.role_of(0),
                DeviceRole::Faulty,
                "{level}: recorded before the acknowledgement"
            );
            drop(array);
            let found = next(&world, true);
            let assembly = found
                .assembly_with(brindle_md::assembly::AssembleOptions { force: true, partial: false })
                .unwrap();
            assert!(assembly.missing().contains(&0), "{level}");
            let array = found.try_open(assembly, patient()).unwrap();
            assert_eq!(found.read(&array, 0, 65536).unwrap(), pattern(1, 65536), "{level}");
        }
    }
}

#[test]
fn a_member_that_failed_a_flush_is_failed_while_the_others_still_work_on_it() {
    let world = world(Level::Raid1, 3);
    let array = world.open();
    world.io.block_on(async {
        let slow = one_flush_fails(&world, &array).await;
        world.io.sleep(Duration::from_millis(50)).await;
        assert_eq!(world.io.in_flight(), 1, "member 1 takes a second");
        assert_eq!(array.state(0), RoleState::Failed);
        slow.await.unwrap();
    });
}

#[test]
fn each_member_that_failed_a_flush_is_failed_while_the_others_still_work_on_it() {
    let world = world(Level::Raid6, 5);
    let array = world.open();
    world.io.block_on(async {
        write(&world.pool, &array, 0, &pattern(1, 65536)).await.unwrap();
        world.bench.afflict(world.ids[2], |faults| (faults.failing_flushes, faults.slowness) = (1, 10));
        let slow = one_flush_fails(&world, &array).await;
        world.io.sleep(Duration::from_millis(50)).await;
        assert_eq!((array.state(0), array.state(2)), (RoleState::Failed, RoleState::Failed));
        slow.await.unwrap();
    });
}

/// Member 0 fails the flush that the array is marked clean with, while member 1 takes much longer for it; two versions of
/// the same bytes have been written, of which only the first was flushed.
async fn marking_clean_fails(world: &World<Sim>, array: &Array) {
    write(&world.pool, array, 0, &pattern(1, 65536)).await.unwrap();
    array.flush().await.unwrap();
    write(&world.pool, array, 0, &pattern(2, 65536)).await.unwrap();
    world.bench.afflict(world.ids[0], |faults| faults.failing_flushes = 1);
    world.bench.afflict(world.ids[1], |faults| faults.slowness = 100);
    while array.state_change() != Some(StateChange::Clean) {
        world.io.sleep(Duration::from_micros(10)).await;
    }
    world.io.sleep(Duration::from_millis(10)).await;
}

/// Marked clean soon after the last write.
fn open_hasty(world: &World<Sim>) -> Array {
    let config = OpenConfig { idle: Duration::from_millis(20), ..patient() };
    world.try_open(world.assembly().unwrap(), config).unwrap()
}

const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 5)];

#[test]
fn nothing_is_read_of_a_member_that_failed_the_flush_before_the_array_is_marked_clean() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let array = open_hasty(&world);
        world.io.block_on(async {
            marking_clean_fails(&world, &array).await;
            assert_eq!(array.state(0), RoleState::Failed, "{level}: known although member 1 is not done");
            for _ in 0..members {
                let found = read(&world.pool, &array, 0, 65536).await.unwrap();
                assert!(found == pattern(2, 65536), "{level}: it has forgotten this");
            }
        });
    }
}

#[test]
fn a_flush_is_acknowledged_after_a_failure_met_by_marking_clean_is_recorded() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let array = open_hasty(&world);
        world.io.block_on(async {
            marking_clean_fails(&world, &array).await;
            array.flush().await.unwrap();
        });
        assert_eq!(world.superblock(1).role_of(0), DeviceRole::Faulty, "{level}");
        drop(array);
        let found = next(&world, true);
        let forced = brindle_md::assembly::AssembleOptions { force: true, partial: false };
        let array = found.try_open(found.assembly_with(forced).unwrap(), patient()).unwrap();
        assert!(found.read(&array, 0, 65536).unwrap() == pattern(2, 65536), "{level}");
    }
}

#[test]
fn no_cut_leaves_a_clean_array_of_members_that_failed_the_flush_before() {
    // Roles beyond the first sector change one at a time: two failures take two updates, and each may be torn.
    for (version, table) in [(Version::V1_0, 1000), (Version::V0_90(Endian::Little), 0)] {
        let shape = Shape::new(Level::Raid6, 4).metadata(version, table);
        let (mut clean, mut doubtful) = (0, 0);
        for seed in 0..8 {
            for cut in 0.. {
                let world = World::in_sim(&shape, Model { tear_unit: 512, ..drive() }, seed);
                let array = world.open();
                world.write(&array, 0, &pattern(1, 65536)).unwrap();
                for member in [0, 2] {
                    world.bench.afflict(world.ids[member], |faults| faults.failing_flushes = 1);
                }
                world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
                let stopped = world.io.block_on(world.bench.until_end(&world.io, array.stop()));
                drop(array);
                let found = World::over(world.bench.restart(11), world.ids.clone(), version);
                match found.assembly() {
                    Ok(assembly) if assembly.is_clean() => {
                        assert_eq!(assembly.degraded(), [0, 2], "{version}, seed {seed}, cut {cut}");
                        clean += 1;
                    }
                    Ok(_) | Err(AssemblyError::DirtyDegraded { .. }) => doubtful += 1,
                    Err(error) => panic!("{version}, seed {seed}, cut {cut}: {error}"),
                }
                if stopped.is_some() {
                    break;
                }
            }
        }
        assert!(clean > 8 && doubtful > 8, "{version}: {clean} and {doubtful}");
    }
}

#[test]
fn the_array_is_marked_clean_only_with_the_failure_of_a_flush_under_way() {
    let world = world(Level::Raid1, 2);
    let array = world.open();
    world.io.block_on(async {
        drop(one_flush_fails(&world, &array).await);
        array.stop().await.unwrap();
    });
    let reported = world.superblock(1);
    assert!(reported.is_clean() && reported.role_of(0) == DeviceRole::Faulty);
    assert!(!world.superblock(0).is_clean() && world.superblock(0).events + 1 < reported.events);
}

#[test]
fn without_redundancy_a_failed_flush_stays_an_error_until_the_array_is_stopped() {
    for level in [Level::Raid0, Level::Linear] {
        let world = world(level, 2);
        let array = world.open();
        let failed = Err(VolumeError::of_member(0, OpError::Medium(5)));
        world.io.block_on(async {
            let slow = one_flush_fails(&world, &array).await;
            // The other one has been taken by both, but what was lost before is lost.
            assert_eq!(array.flush().await, failed, "{level}");
            assert_eq!(slow.await, failed);
            assert_eq!(array.flush().await, failed);
            assert_eq!(array.stop().await, failed);
        });
        drop(array);
        let again = next(&world, false);
        let array = again.open();
        again.io.block_on(array.flush()).unwrap();
    }
}

#[test]
fn without_redundancy_stop_tells_of_the_flush_that_failed_it() {
    for level in [Level::Raid0, Level::Linear] {
        let world = world(level, 2);
        let array = world.open();
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        world.bench.afflict(world.ids[0], |faults| faults.failing_flushes = 1);
        assert_eq!(
            world.io.block_on(array.stop()),
            Err(VolumeError::of_member(0, OpError::Medium(5))),
            "{level}"
        );
    }
}

#[test]
fn a_mirror_whose_last_copy_fails_a_flush_takes_no_writes_and_is_not_marked_clean() {
    let world = world(Level::Raid1, 2);
    let array = world.open();
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    world.io.block_on(array.fail(1)).unwrap();
    world.bench.afflict(world.ids[0], |faults| faults.failing_flushes = 1);
    assert_eq!(world.io.block_on(array.flush()), Err(VolumeError::TooManyLost));
    assert_eq!(world.io.block_on(array.flush()), Err(VolumeError::TooManyLost));
    assert_eq!(world.write(&array, 0, &pattern(1, 4096)), Err(VolumeError::TooManyLost));
    assert_eq!(world.io.block_on(array.stop()), Err(VolumeError::TooManyLost));
    assert!(!world.superblock(0).is_clean());
}

/// A member's answer does not count once it has failed, even if it came before the failure: the member may have lost
/// writes by then.
#[test]
fn a_read_takes_nothing_from_a_member_that_fails_a_flush_before_the_read_is_done() {
    let world = world(Level::Raid5, 3);
    let array = world.open();
    world.io.block_on(async {
        write(&world.pool, &array, 0, &pattern(1, 65536)).await.unwrap();
        array.flush().await.unwrap();
        write(&world.pool, &array, 0, &pattern(2, 65536)).await.unwrap();
        world.bench.afflict(world.ids[1], |faults| (faults.failing_flushes, faults.slowness) = (1, 10));
        let other = array.clone();
        let flush = world.io.spawn(async move { other.flush().await });
        world.io.sleep(Duration::from_micros(1)).await;
        // It has forgotten already, and says so when the flush ends; one of the others keeps the read waiting until then.
        world.bench.afflict(world.ids[1], |faults| faults.slowness = 1);
        world.bench.forget_unflushed(world.ids[1]);
        world.bench.afflict(world.ids[2], |faults| faults.slowness = 1000);
        let found = read(&world.pool, &array, 0, 65536).await.unwrap();
        assert!(found == pattern(2, 65536));
        flush.await.unwrap();
    });
    assert_eq!(array.state(1), RoleState::Failed);
}
