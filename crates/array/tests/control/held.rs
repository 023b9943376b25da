//! Writes that were given up, and may still land on a member that the array can't do without.

use brindle_io::sim::Model;
use brindle_io::{Duration, OpError};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::common::{Shape, World, pattern, write};

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
    let silent = Err(VolumeError::Member(OpError::TimedOut));
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
    let silent = Err(VolumeError::Member(OpError::TimedOut));
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
