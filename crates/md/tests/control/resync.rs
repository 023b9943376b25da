//! Redundancy brought in sync after a crash, and compared.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::{Access, Array, OpenConfig, SyncMode};
use brindle_format::md::{Superblock, Version};
use brindle_io::sync::{Either, race};
use brindle_layout::{Family, Level, ParityRows};
use brindle_volume::VolumeError;

use crate::common::*;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

/// Members of `size` bytes whose redundancy is in doubt from the start, and disagrees in places.
fn crashed(level: Level, members: usize, version: Version, size: u64) -> World {
    let mut spec = spec(level, members, version);
    spec.roles.iter_mut().flatten().for_each(|member| member.info.size = size);
    let world = World::create(&spec);
    let array = world.open();
    world.write(&array, 0, &pattern(7, 1 << 20)).unwrap();
    drop(array);
    let data = planned(&spec).data_offset;
    for (n, at) in [(0, 0), (1, 300_000), (members - 1, 65536)] {
        world.bench.poke(world.ids[n], data + at, &pattern(n as u64 + 40, 9000));
    }
    world
}

fn mismatches(world: &World, array: &Array) -> u64 {
    world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors
}

#[test]
fn a_resync_brings_redundancy_in_sync_and_the_array_clean() {
    for (level, members) in REDUNDANT {
        for version in VERSIONS {
            let world = crashed(level, members, version, 3 * MIB);
            let array = world.open();
            assert!(array.needs_resync());
            assert!(mismatches(&world, &array) > 0, "{level}");
            let mut last = None;
            let report = world.io.block_on(array.resync(|progress| last = Some(progress))).unwrap();
            assert!(report.mismatch_sectors > 0 && report.unverified == 0);
            let last = last.unwrap();
            assert_eq!((last.position, last.total), (array.sync_len(), array.sync_len()));
            assert!(!array.needs_resync());
            assert!(world.superblocks().iter().all(Superblock::is_clean), "{level} {version}");
            assert_eq!(mismatches(&world, &array), 0);
            world.stop(&array);
            let found = world.reboot();
            let array = found.open();
            assert!(!array.needs_resync());
            assert_eq!(mismatches(&found, &array), 0);
        }
    }
}

#[test]
fn a_check_changes_nothing_and_a_repair_needs_the_right_to() {
    let world = crashed(Level::Raid6, 5, Version::V1_2, 3 * MIB);
    let before: Vec<_> = (0..5).map(|n| world.image(n)).collect();
    let config = OpenConfig::new(Access::ReadOnly, || NOW);
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert!(report.mismatch_sectors > 0 && !report.places.is_empty());
    assert_eq!(world.io.block_on(array.resync(|_| ())), Err(VolumeError::ReadOnly.into()));
    assert_eq!(world.io.block_on(array.check(SyncMode::Repair, |_| ())), Err(VolumeError::ReadOnly.into()));
    assert!(before == (0..5).map(|n| world.image(n)).collect::<Vec<_>>());
}

/// Resyncs until `windows` are done, then drops the resync.
fn resync_partly(world: &World, array: &Array, windows: u32) {
    let done = Rc::new(Cell::new(0));
    world.io.block_on(async {
        let seen = Rc::clone(&done);
        let resync = array.resync(move |_| seen.set(seen.get() + 1));
        let enough = async {
            while done.get() < windows {
                world.io.yield_now().await;
            }
        };
        assert!(matches!(race(resync, enough).await, Either::Second(())));
    });
}

#[test]
fn a_resync_goes_on_where_it_was_ended() {
    for level in [Level::Raid5, Level::Raid10] {
        let world = crashed(level, 4, Version::V1_2, 40 * MIB);
        let array = world.open();
        resync_partly(&world, &array, 3);
        let reached = array.detail().resync_offset.unwrap();
        assert!(reached >= 8 * MIB && reached < array.sync_len());
        world.stop(&array);
        // The windows that were under way have ended; with parity they count as progress.
        let reached = array.detail().resync_offset.unwrap().max(reached);
        assert!(reached < array.sync_len());
        assert!(world.superblocks().iter().all(|sb| sb.resync_offset == Some(reached)));
        let found = world.reboot();
        let array = found.open();
        let mut first = None;
        found.io.block_on(array.resync(|progress| first = first.or(Some(progress.position)))).unwrap();
        assert!(first.unwrap() > reached);
        assert_eq!(mismatches(&found, &array), 0);
    }
}

#[test]
fn checkpoints_are_recorded_on_the_way() {
    let world = crashed(Level::Raid5, 3, Version::V1_2, 40 * MIB);
    let array = world.open();
    resync_partly(&world, &array, 3);
    drop(array); // killed
    let offset = world.superblock(0).resync_offset.unwrap();
    assert!(offset >= 4 * MIB, "{offset}");
}

#[test]
fn writes_during_a_resync_are_safe_and_void_the_checkpoint() {
    let world = crashed(Level::Raid5, 4, Version::V1_2, 40 * MIB);
    let array = world.open();
    resync_partly(&world, &array, 2);
    world.write(&array, 50 << 20, &pattern(9, 4096)).unwrap();
    assert_eq!(world.superblock(1).resync_offset, Some(0), "a crash now must begin anew");
    let writers: Vec<_> = (0..20u64)
        .map(|n| {
            let (array, pool) = (array.clone(), world.pool.clone());
            world.io.spawn(async move { write(&pool, &array, n * 5_000_192, &pattern(n, 12_288)).await })
        })
        .collect();
    world.io.block_on(async {
        array.resync(|_| ()).await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
    });
    assert_eq!(mismatches(&world, &array), 0);
    world.stop(&array);
    assert!(world.superblocks().iter().all(Superblock::is_clean));
    let array = world.reboot();
    let opened = array.open();
    for n in 0..20 {
        assert_eq!(array.read(&opened, n * 5_000_192, 12_288).unwrap(), pattern(n, 12_288));
    }
}

#[test]
fn stopping_ends_a_resync() {
    let world = crashed(Level::Raid6, 5, Version::V1_2, 40 * MIB);
    let array = world.open();
    let other = array.clone();
    world.io.block_on(async {
        let resync = world.io.spawn(async move { other.resync(|_| ()).await });
        while array.detail().resync_offset == Some(0) {
            world.io.yield_now().await;
        }
        array.stop().await.unwrap();
        assert_eq!(resync.await, Err(VolumeError::Stopping.into()));
    });
    let offset = world.superblock(0).resync_offset.unwrap();
    assert!(offset > 0 && offset < array.sync_len());
}

#[test]
fn a_member_lost_during_a_resync() {
    for (level, ends_clean) in [(Level::Raid1, true), (Level::Raid6, false)] {
        let world = crashed(level, 4, Version::V1_2, 40 * MIB);
        let array = world.open();
        resync_partly(&world, &array, 2);
        world.bench.kill(world.ids[2]);
        let report = world.io.block_on(array.resync(|_| ())).unwrap();
        assert_eq!(array.needs_resync(), !ends_clean, "{level}: {report:?}");
        assert_eq!(array.detail().degraded, 1);
        world.stop(&array);
        assert_eq!(world.superblock(0).is_clean(), ends_clean);
    }
}

#[test]
fn the_last_copy_of_a_mirror_needs_no_resync() {
    let world = crashed(Level::Raid1, 3, Version::V1_2, 8 * MIB).without(&[0]);
    assert!(world.open().needs_resync(), "two may differ");
    let world = world.without(&[0]);
    let array = world.open();
    assert_eq!((array.needs_resync(), array.detail().degraded), (false, 2));
    world.stop(&array);
    assert!(world.superblock(0).is_clean());
}

fn rows(array: &Array) -> ParityRows {
    match array.geometry().family() {
        Family::Parity(map) => map.clone(),
        _ => unreachable!("levels with parity"),
    }
}

/// Parity that is lost needs not be brought in sync.
#[test]
fn raid_4_without_parity_is_clean_after_a_resync() {
    let world = crashed(Level::Raid4, 4, Version::V1_2, 8 * MIB);
    let array = world.open();
    world.bench.kill(world.ids[usize::from(rows(&array).row(0).p())]);
    let report = world.io.block_on(array.resync(|_| ())).unwrap();
    assert_eq!((report.unverified, array.needs_resync(), array.detail().degraded), (0, false, 1));
    world.stop(&array);
    assert!(world.superblock(0).is_clean());
}

#[test]
fn what_can_not_be_read_does_not_end_a_resync() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let world = crashed(level, members, Version::V1_2, 8 * MIB);
        let data = world.superblock(0).data_offset;
        let array = world.open();
        let map = rows(&array);
        let (bad, start) = (map.row(20), map.row_offset(20));
        // A sector of data, which nothing can give back, and one of parity, which is recomputed.
        world.bench.spoil(world.ids[usize::from(bad.data_member(1))], data + start + 8192, 512);
        world.bench.spoil(world.ids[usize::from(map.row(3).p())], data + map.row_offset(3), 512);
        let report = world.io.block_on(array.resync(|_| ())).unwrap();
        assert_eq!(report.unverified, 512, "{level}");
        assert_eq!(array.detail().resync_offset, Some(start));

        // Other places of the row can still be written.
        let row = 20 * map.row_data_bytes();
        let (in_lost, in_bad) = (row + 8192, row + map.chunk() + 8192);
        world.write(&array, in_lost - 512, &pattern(3, 1536)).unwrap();
        assert_eq!(world.read(&array, in_lost - 512, 1536).unwrap(), pattern(3, 1536));

        // All but this sector's columns can lose a member.
        let lost = bad.data_member(0);
        world.io.block_on(array.fail(lost)).unwrap();
        for at in (row - map.row_data_bytes()..row + 2 * map.row_data_bytes()).step_by(512) {
            let unknown = at == in_lost || at == in_bad;
            assert_eq!(world.read(&array, at, 512).is_err(), unknown, "{level}: {at}");
        }
        assert_eq!(world.read(&array, in_lost + 512, 512).unwrap(), pattern(3, 1536)[1024..]);
        // Writing the lost data anew makes them readable, and the array in sync.
        world.write(&array, in_bad, &pattern(1, 512)).unwrap();
        assert!(world.read(&array, in_lost, 512).is_err() && array.needs_resync());
        world.write(&array, in_lost, &pattern(2, 512)).unwrap();
        assert_eq!(world.read(&array, in_bad, 512).unwrap(), pattern(1, 512));
        assert_eq!(world.read(&array, in_lost, 512).unwrap(), pattern(2, 512));
        assert!(!array.needs_resync());
        world.stop(&array);
        assert!(world.superblock(usize::from(bad.p())).is_clean());
    }
}
