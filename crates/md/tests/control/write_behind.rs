//! Writes that lag behind on write-mostly members of RAID 1.

use brindle_array::Flags;
use brindle_array::{Array, BitmapError, BitmapSpec, OpenConfig, Recovery, RoleState, SyncMode};
use brindle_format::md::defaults::MAX_WRITE_BEHIND;
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::sync::join_all;
use brindle_layout::Level;
use brindle_md::create::{CreateSpec, NewBitmap, plan};
use brindle_volume::{Volume, VolumeError};

use crate::bitmap::on_disk;
use crate::common::*;

const CHUNK: u64 = 8192;
const LEN: usize = 4096;

/// An array of which the first member is write-mostly, slow, and may lag behind by so many writes.
fn lagging(members: usize, behind: u32) -> (World<Sim>, Array) {
    let shape = Shape { rows: 64, bitmap: Some(CHUNK), behind, ..Shape::new(Level::Raid1, members) };
    let world = World::in_sim(&shape, Model { jitter: 0, ..Model::nvme() }, 3);
    let config = OpenConfig { recovery: Recovery::Manual, ..patient() };
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    world.write(&array, 0, &pattern(1, array.limits().size as usize)).unwrap();
    world.io.block_on(array.flush()).unwrap();
    world.bench.afflict(world.ids[0], |faults| faults.slowness = 200);
    (world, array)
}

/// Operations that the slow member has not answered.
fn in_flight(world: &World<Sim>) -> usize {
    world.io.counters(world.ids[0]).in_flight
}

/// Writes at so many places; gives how many operations the slow member owed at most when one ended.
fn writes(world: &World<Sim>, array: &Array, count: u64) -> usize {
    let write = |n: u64| {
        world.write(array, n * LEN as u64, &pattern(100 + n, LEN)).unwrap();
        in_flight(world)
    };
    (0..count).map(write).max().unwrap_or(0)
}

#[test]
fn a_write_ends_when_those_have_it_that_are_not_write_mostly_and_a_flush_when_all_have() {
    for (behind, most) in [(0, 0), (1, 1), (3, 3), (256, 12)] {
        let (world, array) = lagging(3, behind);
        assert_eq!(array.detail().bitmap.unwrap().write_behind, behind);
        assert_eq!(writes(&world, &array, 12), most, "{behind} may lag");
        for n in 0..12 {
            assert!(world.read(&array, n * LEN as u64, LEN).unwrap() == pattern(100 + n, LEN));
        }
        world.io.block_on(array.flush()).unwrap();
        assert_eq!(in_flight(&world), 0, "{behind}: it has caught up");
        // Writes with FUA never lag.
        let (pool, bytes) = (world.pool.clone(), pattern(7, LEN));
        world.io.block_on(async {
            let buf = pool.alloc(LEN).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            array.write(0, [buf.all()], true).await.unwrap();
        });
        assert_eq!(in_flight(&world), 0, "{behind}");
        let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0);
        world.stop(&array);
    }
}

#[test]
fn nothing_lags_without_a_bitmap_that_says_so_or_a_member_that_is_write_mostly() {
    let (world, array) = lagging(2, 8);
    world.io.block_on(array.set_flags(world.ids[0], Flags::default())).unwrap();
    assert_eq!(writes(&world, &array, 4), 0);
    world.io.block_on(array.set_flags(world.ids[0], Flags { write_mostly: true, failfast: false })).unwrap();
    assert!(writes(&world, &array, 4) > 0);
    world.io.block_on(array.flush()).unwrap();
    world.io.block_on(array.remove_bitmap()).unwrap();
    assert_eq!(writes(&world, &array, 4), 0, "nothing tells what it lacks after a crash");
}

#[test]
fn who_lags_gives_what_was_written_last_or_waits() {
    for small in [true, false] {
        let (world, array) = lagging(2, 8);
        assert_eq!(writes(&world, &array, 4), 4);
        let len = if small { LEN } else { 256 << 10 };
        let found = world.io.block_on(async {
            let failing = array.clone();
            // The other is out of use at once; that is on record later.
            let failed = world.io.spawn(async move { failing.fail(1).await });
            world.io.yield_now().await;
            assert_eq!((array.state(1), in_flight(&world) > 0), (RoleState::Failed, true));
            let buf = world.pool.alloc(len).await;
            array.read(0, [buf.all()]).await.unwrap();
            failed.await.unwrap();
            buf.bytes()[..LEN].to_vec()
        });
        assert!(found == pattern(100, LEN), "{len} bytes");
    }
}

#[test]
fn who_does_not_take_what_it_lags_with_fails() {
    for dies in [false, true] {
        let (world, array) = lagging(3, 8);
        world.bench.afflict(world.ids[0], |faults| {
            faults.unwritable.push(BadRange::forever(DATA_OFFSET..u64::MAX));
        });
        writes(&world, &array, 2);
        assert_eq!(array.state(0), RoleState::InSync, "it has not answered");
        if dies {
            world.bench.kill(world.ids[0]);
        }
        world.io.block_on(array.flush()).unwrap();
        assert_eq!((array.state(0), array.detail().degraded), (RoleState::Failed, 1), "dies: {dies}");
        assert!(world.read(&array, 0, LEN).unwrap() == pattern(100, LEN));
        assert!(world.superblock(1).roles[0] != world.superblock(1).roles[1], "that is on record");
    }
}

/// Writes at so many places side by side, each of its own pattern; gives how they ended.
fn side_by_side(
    world: &World<Sim>,
    array: &Array,
    places: core::ops::Range<u64>,
) -> Vec<Result<(), VolumeError>> {
    let write = |n: u64| {
        let (array, pool) = (array.clone(), world.pool.clone());
        world.io.spawn(async move {
            let buf = pool.alloc(LEN).await;
            buf.bytes_mut().copy_from_slice(&pattern(100 + n, LEN));
            array.write(n * LEN as u64, [buf.all()], false).await
        })
    };
    let writes: Vec<_> = places.map(write).collect();
    world.io.block_on(join_all(writes))
}

#[test]
fn no_more_lag_than_may_however_many_come_together() {
    for behind in [1, 3] {
        let (world, array) = lagging(3, behind);
        let ended = side_by_side(&world, &array, 0..12);
        assert!(ended.iter().all(Result::is_ok));
        assert_eq!(array.lagging().1, behind, "at most");
        assert_eq!(array.detail().bitmap.unwrap().most_lagging, behind);
        world.io.block_on(array.flush()).unwrap();
        assert_eq!(array.lagging(), (0, behind));
        world.stop(&array);
    }
}

#[test]
fn what_the_last_member_did_not_take_is_not_read_from_it() {
    let (world, array) = lagging(2, 8);
    world.bench.afflict(world.ids[0], |faults| {
        faults.unwritable.push(BadRange::forever(DATA_OFFSET..DATA_OFFSET + LEN as u64));
    });
    assert_eq!(writes(&world, &array, 2), 2);
    // It is out of use at once. That can't be put on record any more when the last member turns out not to have taken its writes.
    assert_eq!(world.io.block_on(array.fail(1)), Err(VolumeError::TooManyLost));
    assert!(world.io.block_on(array.flush()).is_err(), "an acknowledged write is lost");
    assert_eq!(array.state(0), RoleState::InSync);
    assert!(world.read(&array, 0, LEN).is_err(), "what it has there is older than what was acknowledged");
    assert!(world.read(&array, LEN as u64, LEN).unwrap() == pattern(101, LEN), "all else is served");
    assert!(world.write(&array, 0, &pattern(9, LEN)).is_err(), "nothing more is written");
}

#[test]
fn a_stop_waits_for_what_lags() {
    let (world, array) = lagging(2, 8);
    assert_eq!(writes(&world, &array, 4), 4);
    world.stop(&array);
    assert_eq!((in_flight(&world), array.lagging().0), (0, 0));
    drop(array);
    let world = world.restart(5);
    let array = world.open();
    assert!(!array.needs_resync(), "it was stopped clean");
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
}

#[test]
fn a_write_waits_for_one_that_lags_at_its_place() {
    let (world, array) = lagging(2, 8);
    for n in 0..4 {
        world.write(&array, 0, &pattern(200 + n, LEN)).unwrap();
        assert_eq!(array.lagging().0, 1, "one at a time");
    }
    world.io.block_on(array.flush()).unwrap();
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
    world.io.block_on(array.fail(1)).unwrap();
    assert!(world.read(&array, 0, LEN).unwrap() == pattern(203, LEN));
}

/// The write-behind limit in the members' bitmap superblocks.
fn on_record(world: &World<Sim>, members: usize) -> Vec<u32> {
    (0..members).map(|role| on_disk(world, role).0.write_behind).collect()
}

#[test]
fn how_many_may_lag_is_set_while_it_runs_and_stands_in_each_bitmap() {
    let (world, array) = lagging(3, 0);
    let mostly = Flags { write_mostly: true, failfast: false };
    world.io.block_on(array.set_flags(world.ids[0], mostly)).unwrap();
    assert_eq!((writes(&world, &array, 4), on_record(&world, 3)), (0, vec![0; 3]));
    world.io.block_on(array.set_write_behind(2)).unwrap();
    assert_eq!((on_record(&world, 3), writes(&world, &array, 8)), (vec![2; 3], 2));
    // Writes that lag already are waited for.
    world.io.block_on(array.set_write_behind(0)).unwrap();
    world.io.block_on(array.flush()).unwrap();
    assert_eq!((on_record(&world, 3), writes(&world, &array, 4)), (vec![0; 3], 0));
    world.io.block_on(array.remove_bitmap()).unwrap();
    assert_eq!(world.io.block_on(array.set_write_behind(2)), Err(BitmapError::Absent));
    let spec = BitmapSpec { chunk: Some(CHUNK), write_behind: Some(MAX_WRITE_BEHIND), file: None };
    world.io.block_on(array.set_bitmap(spec)).unwrap();
    assert_eq!((on_record(&world, 3), writes(&world, &array, 8)), (vec![MAX_WRITE_BEHIND; 3], 8));
    world.stop(&array);
    drop(array);
    let array = world.restart(6).open();
    assert_eq!(array.detail().bitmap.unwrap().write_behind, MAX_WRITE_BEHIND);
}

#[test]
fn a_member_that_can_not_be_told_how_many_may_lag_fails() {
    let (world, array) = lagging(3, 1);
    world.bench.kill(world.ids[2]);
    world.io.block_on(array.set_write_behind(7)).unwrap();
    assert_eq!((array.state(2), on_record(&world, 2)), (RoleState::Failed, vec![7; 2]));
}

#[test]
fn write_behind_is_refused_where_md_knows_none() {
    let set = |level, members, count| {
        let shape = Shape { rows: 64, bitmap: Some(CHUNK), ..Shape::new(level, members) };
        let world = World::in_sim(&shape, Model { jitter: 0, ..Model::nvme() }, 3);
        let array = world.open();
        world.io.block_on(array.set_write_behind(count)).unwrap_err()
    };
    let count = MAX_WRITE_BEHIND + 1;
    assert_eq!(set(Level::Raid1, 2, count), BitmapError::TooManyWriteBehind { count });
    assert_eq!(set(Level::Raid10, 4, 1), BitmapError::WriteBehind { level: Level::Raid10 });
    assert_eq!(set(Level::Raid5, 3, 1), BitmapError::WriteBehind { level: Level::Raid5 });
    let shape = Shape { rows: 64, bitmap: Some(CHUNK), behind: 1, ..Shape::new(Level::Raid1, 2) };
    let of = |spec: &CreateSpec| plan(spec).unwrap_err().to_string();
    assert!(of(&CreateSpec { write_behind: count, ..shape.spec() }).contains("at most 16383"));
    assert!(of(&CreateSpec { bitmap: NewBitmap::Usual, ..shape.spec() }).contains("--bitmap internal"));
    assert!(of(&CreateSpec { bitmap: NewBitmap::None, ..shape.spec() }).contains("--bitmap internal"));
    let shape = Shape { rows: 64, bitmap: Some(CHUNK), ..Shape::new(Level::Raid10, 4) };
    assert!(of(&CreateSpec { write_behind: 1, ..shape.spec() }).contains("raid10"));
}

#[test]
fn a_crash_leaves_bits_of_what_lags() {
    let (world, array) = lagging(2, 8);
    idle(&world, Duration::from_secs(30));
    assert!(on_disk(&world, 1).1.is_empty(), "all is clear at first");
    // Its bits are waited for: they stand on all members first.
    writes(&world, &array, 4);
    assert_eq!(
        (in_flight(&world) > 0, on_disk(&world, 1).1),
        (true, vec![0, 1]),
        "bits are set as long as it lags"
    );
    world.bench.cut_power();
    drop(array);
    let world = world.restart(4);
    let array = world.open();
    assert!(array.needs_resync());
    world.io.block_on(array.resync(|_| ())).unwrap();
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
}
