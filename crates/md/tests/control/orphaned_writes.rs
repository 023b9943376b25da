//! Writes that were given up, and may still land on a member that the array can't do without.

use brindle_array::RoleState;
use brindle_io::sim::Model;
use brindle_io::{Duration, OpError};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::common::{Shape, World, open_in_sync, pattern, write};

#[test]
fn nothing_is_recorded_while_a_write_that_was_given_up_may_still_land() {
    let world = World::in_sim(&Shape { rows: 64, ..Shape::new(Level::Raid1, 2) }, Model::nvme(), 7);
    let array = world.open();
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    world.io.block_on(array.fail(0)).unwrap();
    // One write takes minutes, and all that comes after it takes as long as ever.
    let slowness = |times| world.bench.afflict(world.ids[1], |faults| faults.slowness = times);
    slowness(10_000_000);
    let writing = {
        let (array, pool) = (array.clone(), world.pool.clone());
        world.io.spawn(async move { write(&pool, &array, 0, &pattern(2, 4096)).await })
    };
    world.io.block_on(world.io.sleep(Duration::from_millis(1)));
    slowness(0);
    let silent = Err(VolumeError::of_member(1, OpError::TimedOut));
    assert_eq!(world.io.block_on(writing), silent);
    let before = world.superblock(1);
    assert_eq!(world.io.block_on(array.flush()), silent);
    assert_eq!(world.io.block_on(array.stop()), silent);
    assert!(world.superblock(1) == before && before.resync_offset.is_some(), "it stays dirty");
    // It has landed: what could not be recorded then is recorded now.
    world.io.block_on(world.io.sleep(Duration::from_secs(600)));
    world.stop(&array);
    assert!(world.superblock(1).events > before.events);
}

#[test]
fn nothing_is_recorded_while_a_superblock_that_was_given_up_may_still_land() {
    let world = World::in_sim(&Shape { rows: 64, ..Shape::new(Level::Raid1, 2) }, Model::nvme(), 7);
    let array = world.open();
    world.io.block_on(array.fail(0)).unwrap();
    let silent = Err(VolumeError::of_member(1, OpError::TimedOut));
    let hangs = |hangs| world.bench.afflict(world.ids[1], |faults| faults.hangs = hangs);
    // The superblock that is to mark it dirty does not come back.
    hangs(true);
    assert_eq!(world.write(&array, 0, &pattern(1, 4096)), silent);
    let given_up = world.io.now();
    assert_eq!(world.write(&array, 0, &pattern(2, 4096)), silent);
    assert_eq!(world.io.now(), given_up, "nothing was sent to wait for");
    assert_eq!(world.io.block_on(array.stop()), silent);
    // It lands: what could not be recorded then is recorded now.
    hangs(false);
    world.io.block_on(world.io.sleep(Duration::from_secs(1)));
    let landed = world.superblock(1);
    assert_eq!(landed.resync_offset, Some(0));
    world.stop(&array);
    assert!(world.superblock(1).is_clean() && world.superblock(1).events == landed.events + 1);
}

#[test]
fn only_the_member_on_which_a_write_may_still_land_is_held_back() {
    let world = World::in_sim(&Shape { rows: 64, ..Shape::new(Level::Raid0, 2) }, Model::nvme(), 7);
    let array = world.open();
    world.write(&array, 0, &pattern(1, 8192)).unwrap();
    let hangs = |hangs| world.bench.afflict(world.ids[1], |faults| faults.hangs = hangs);
    let silent = Err(VolumeError::of_member(1, OpError::TimedOut));
    hangs(true);
    assert_eq!(world.write(&array, 4096, &pattern(2, 4096)), silent);
    let given_up = world.io.now();
    assert_eq!(world.write(&array, 4096, &pattern(3, 4096)), silent);
    assert_eq!(world.io.now(), given_up, "nothing was sent to wait for");
    world.write(&array, 0, &pattern(4, 4096)).unwrap();
    hangs(false);
    world.io.block_on(world.io.sleep(Duration::from_secs(1)));
    assert_eq!(world.read(&array, 4096, 4096).unwrap(), pattern(2, 4096), "what was given up has landed");
    world.write(&array, 4096, &pattern(5, 4096)).unwrap();
    assert_eq!(world.read(&array, 0, 8192).unwrap(), [pattern(4, 4096), pattern(5, 4096)].concat());
    world.stop(&array);
}

#[test]
fn a_member_that_stays_silent_though_nothing_more_is_asked_of_it_fails_once_the_others_have_answered() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid10, 4)] {
        let shape = Shape { rows: 64, in_sync: false, ..Shape::new(level, members) };
        let world = World::in_sim(&shape, Model::nvme(), 7);
        let array = open_in_sync(&world);
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        // One write takes half a minute, that of member 1 some minutes, and all that comes after it as long as ever.
        let slowness = |times: &dyn Fn(usize) -> u32| {
            let afflict = |role| world.bench.afflict(world.ids[role], |faults| faults.slowness = times(role));
            (0..members).for_each(afflict);
        };
        slowness(&|role| if role == 1 { 10_000_000 } else { 1_500_000 });
        let (other, pool) = (array.clone(), world.pool.clone());
        let writing = world.io.spawn(async move { write(&pool, &other, 0, &pattern(2, 65536)).await });
        world.io.block_on(world.io.sleep(Duration::from_millis(1)));
        slowness(&|_| 0);
        let written = world.io.block_on(writing);
        let silent =
            matches!(written, Err(VolumeError::Member { role: Some(0 | 1), error: OpError::TimedOut }));
        assert!(silent, "{level}: {written:?}");
        assert_eq!(array.state(1), RoleState::InSync, "{level}: they were silent together");
        world.io.block_on(world.io.sleep(Duration::from_secs(60)));
        assert_eq!(array.state(1), RoleState::Failed, "{level}");
        world.write(&array, 0, &pattern(3, 65536)).unwrap();
        assert!(world.read(&array, 0, 65536).unwrap() == pattern(3, 65536), "{level}");
        world.stop(&array);
    }
}
