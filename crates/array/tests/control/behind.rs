//! Writes that lag behind on write-mostly members of RAID 1.

use brindle_array::{Array, OpenConfig, Recovery, RoleState, SyncMode};
use brindle_format::md::DeviceFlags;
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_layout::Level;
use brindle_volume::Volume;

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
fn owed(world: &World<Sim>) -> usize {
    world.io.counters(world.ids[0]).in_flight
}

/// Writes at so many places; gives how many operations the slow member owed at most when one ended.
fn writes(world: &World<Sim>, array: &Array, count: u64) -> usize {
    let write = |n: u64| {
        world.write(array, n * LEN as u64, &pattern(100 + n, LEN)).unwrap();
        owed(world)
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
        assert_eq!(owed(&world), 0, "{behind}: it has caught up");
        // What is to be stable does not lag.
        let (pool, bytes) = (world.pool.clone(), pattern(7, LEN));
        world.io.block_on(async {
            let buf = pool.alloc(LEN).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            array.write(0, [buf.all()], true).await.unwrap();
        });
        assert_eq!(owed(&world), 0, "{behind}");
        let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0);
        world.stop(&array);
    }
}

#[test]
fn nothing_lags_without_a_bitmap_that_says_so_or_a_member_that_is_write_mostly() {
    let (world, array) = lagging(2, 8);
    world.io.block_on(array.set_flags(world.ids[0], DeviceFlags::default())).unwrap();
    assert_eq!(writes(&world, &array, 4), 0);
    world
        .io
        .block_on(array.set_flags(world.ids[0], DeviceFlags { write_mostly: true, failfast: false }))
        .unwrap();
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
            assert_eq!((array.state(1), owed(&world) > 0), (RoleState::Failed, true));
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

#[test]
fn a_crash_leaves_bits_of_what_lags() {
    let (world, array) = lagging(2, 8);
    idle(&world, Duration::from_secs(30));
    assert!(on_disk(&world, 1).1.is_empty(), "all is clear at first");
    // Its bits are waited for: they stand on all members first.
    writes(&world, &array, 4);
    assert_eq!(
        (owed(&world) > 0, on_disk(&world, 1).1),
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
