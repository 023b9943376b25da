//! Processes over a whole array: one at a time, and seen, paused, slowed and stopped by others.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;

use brindle_array::{
    Array, Device, EventKind, OpenConfig, Process, ProcessError, ProcessKind, Progress, RoleState, Speeds,
    SyncMode, SyncReport,
};
use brindle_format::md::Version;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, Task};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::common::*;

/// An array on new drives, which hold anything: 40 MiB of each, ten windows.
fn in_doubt() -> (World<Sim>, Array) {
    let shape = Shape::new(Level::Raid5, 3);
    let shape = Shape { rows: 40 * MIB / shape.chunk, in_sync: false, ..shape };
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let array = world.open();
    (world, array)
}

/// A resync that is under way, and what others have of it.
fn spawned(world: &World<Sim>, array: &Array) -> (Task<Result<SyncReport, ProcessError>>, Process) {
    let resync = world.io.spawn(array.resync(|_| ()));
    (resync, array.process().expect("a process"))
}

fn progress(array: &Array) -> Progress {
    array.detail().process.expect("a process").progress
}

#[test]
fn an_array_has_one_process_at_a_time() {
    let (world, array) = in_doubt();
    assert!(array.process().is_none() && array.detail().process.is_none());
    let resync = array.resync(|_| ());
    // It is seen from the call on, before anything is done.
    let seen = array.detail().process.expect("a process");
    assert_eq!((seen.kind, seen.progress.position, seen.paused), (ProcessKind::Resync, 0, false));
    assert_eq!(seen.progress.total, array.sync_len());
    world.io.block_on(async {
        for mode in [SyncMode::Check, SyncMode::Repair] {
            assert_eq!(array.check(mode, |_| ()).await, Err(ProcessError::Busy(ProcessKind::Resync)));
        }
        assert_eq!(array.resync(|_| ()).await, Err(ProcessError::Busy(ProcessKind::Resync)));
        resync.await.unwrap();
        assert!(array.process().is_none(), "it has ended");
        let check = array.check(SyncMode::Check, |_| ());
        assert_eq!(array.detail().process.expect("a process").kind, ProcessKind::Check);
        drop(check);
        assert!(array.process().is_none(), "it was dropped");
        let repair = array.check(SyncMode::Repair, |_| ());
        assert_eq!(array.detail().process.expect("a process").kind, ProcessKind::Repair);
        assert_eq!(repair.await.unwrap().mismatch_sectors, 0);
    });
    world.stop(&array);
}

#[test]
fn a_process_that_is_paused_begins_nothing_until_it_is_resumed() {
    let (world, array) = in_doubt();
    world.io.block_on(async {
        let (resync, process) = spawned(&world, &array);
        while progress(&array).position == 0 {
            world.io.sleep(Duration::from_millis(1)).await;
        }
        process.pause();
        world.io.sleep(Duration::from_secs(1)).await;
        let (at, requests) = (progress(&array).position, world.io.counters(world.ids[0]));
        assert!(at > 0 && at < array.sync_len(), "{at}");
        world.io.sleep(Duration::from_secs(3600)).await;
        assert_eq!(progress(&array).position, at);
        let later = world.io.counters(world.ids[0]);
        assert_eq!((later.reads, later.writes), (requests.reads, requests.writes));
        assert!(array.detail().process.expect("a process").paused && array.needs_resync());
        process.resume();
        resync.await.unwrap();
        assert!(!array.needs_resync());
        // The handle of a process that has ended still tells how far it came.
        assert_eq!(process.progress().position, array.sync_len());
    });
    world.stop(&array);
}

#[test]
fn a_process_keeps_to_its_pace() {
    let (world, array) = in_doubt();
    world.io.block_on(async {
        let (resync, process) = spawned(&world, &array);
        process.set_pace(NonZeroU64::new(MIB));
        world.io.sleep(Duration::from_secs(21)).await;
        let reached = progress(&array).position;
        let most = 21 * MIB + (4 << 20);
        assert!(reached >= 16 * MIB && reached <= most, "{reached} bytes in 21 s at a MiB/s");
        // A slow one hears of a better pace before its next window is due.
        process.set_pace(NonZeroU64::new(1));
        world.io.sleep(Duration::from_secs(1)).await;
        let begun = world.io.now();
        process.set_pace(None);
        resync.await.unwrap();
        assert!(world.io.now().since(begun) < Duration::from_secs(60));
    });
    world.stop(&array);
}

#[test]
fn speeds_of_the_array_are_those_of_processes_that_begin() {
    let shape = Shape { rows: 4, ..Shape::new(Level::Raid5, 3) };
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let speeds = |pace, floor| Speeds { pace: NonZeroU64::new(pace), floor: NonZeroU64::new(floor) };
    let config = OpenConfig { speeds: speeds(MIB, 7), ..patient() };
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    let begun = || {
        let check = array.check(SyncMode::Check, |_| ());
        let detail = array.detail().process.expect("a process");
        drop(check);
        Speeds { pace: detail.pace, floor: detail.floor }
    };
    assert_eq!(begun(), speeds(MIB, 7));
    array.set_speeds(speeds(0, 9));
    assert_eq!((begun(), array.speeds()), (speeds(0, 9), speeds(0, 9)));
    world.stop(&array);
}

#[test]
fn a_process_tells_how_fast_it_goes_and_when_it_will_end() {
    let (world, array) = in_doubt();
    world.io.block_on(async {
        let (resync, process) = spawned(&world, &array);
        assert_eq!((process.detail().speed, process.detail().left()), (None, None), "nothing is known yet");
        process.set_pace(NonZeroU64::new(MIB));
        world.io.sleep(Duration::from_secs(1)).await;
        // The first window, of 4 MiB, has ended.
        assert_eq!((process.detail().progress.position, process.detail().speed), (4 * MIB, Some(MIB)));
        assert_eq!(process.detail().left(), Some(Duration::from_secs(36)));
        process.pause();
        assert_eq!((process.detail().speed, process.detail().left()), (None, None));
        world.io.sleep(Duration::from_secs(1000)).await;
        process.resume();
        world.io.sleep(Duration::from_secs(21)).await;
        let (detail, begun) = (process.detail(), world.io.now());
        let speed = detail.speed.expect("what was halted does not count");
        assert!((MIB * 9 / 10..=MIB).contains(&speed), "{speed}");
        let left = detail.left().expect("a speed").as_secs_f64();
        resync.await.unwrap();
        let took = world.io.now().since(begun).as_secs_f64();
        assert!((took - 5.0..took + 5.0).contains(&left), "{left} s told, {took} s taken");
    });
    world.stop(&array);
}

#[test]
fn a_process_that_is_stopped_keeps_what_it_has_done() {
    let (world, array) = in_doubt();
    world.io.block_on(async {
        let (resync, process) = spawned(&world, &array);
        while progress(&array).position == 0 {
            world.io.sleep(Duration::from_millis(1)).await;
        }
        process.stop();
        assert_eq!(resync.await, Err(ProcessError::Interrupted));
        assert!(array.process().is_none());
        let kept = array.detail().resync_offset.expect("not all is done");
        assert!(kept > 0 && kept == process.progress().position);
        assert_eq!(world.superblock(0).resync_offset, Some(kept));
        let next = array.resync(|_| ());
        assert_eq!(progress(&array).position, kept, "the next goes on from there");
        // Stopped while it is paused.
        let process = array.process().expect("a process");
        process.pause();
        let next = world.io.spawn(next);
        world.io.yield_now().await;
        process.stop();
        assert_eq!(next.await, Err(ProcessError::Interrupted));
    });
    world.stop(&array);
}

#[test]
fn an_array_whose_process_is_paused_or_slow_can_be_stopped() {
    for slow in [false, true] {
        let (world, array) = in_doubt();
        world.io.block_on(async {
            let (resync, process) = spawned(&world, &array);
            if slow {
                process.set_pace(NonZeroU64::new(1));
            } else {
                process.pause();
            }
            world.io.sleep(Duration::from_secs(1)).await;
            array.stop().await.unwrap();
            assert_eq!(resync.await, Err(VolumeError::Stopping.into()));
        });
    }
}

/// An array in memory without its first member, and a drive to take that role.
fn lacking(level: Level, members: usize) -> (World<Sim>, Array, Device, Vec<u8>) {
    let world = on_drives(level, members, Version::V1_2);
    let geometry = world.assembly().unwrap().geometry;
    let device = |&id| Some(Device { id, data_offset: DATA_OFFSET });
    let whole = in_memory(&world.io, geometry.clone(), world.ids.iter().map(device).collect());
    let content = pattern(5, whole.limits().size as usize);
    world.write(&whole, 0, &content).unwrap();
    world.stop(&whole);
    let devices = world.ids.iter().enumerate().map(|(n, id)| device(id).filter(|_| n > 0)).collect();
    let array = in_memory(&world.io, geometry, devices);
    let size = world.io.member_info(world.ids[1]).unwrap().size;
    let id = world.bench.add_drive(Model::nvme(), size);
    (world, array, Device { id, data_offset: DATA_OFFSET }, content)
}

#[test]
fn a_recovery_is_seen_and_in_the_end_the_member_is_counted_on() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)] {
        let (world, array, device, content) = lacking(level, members);
        let total = array.geometry().member_size();
        let mut positions = Vec::new();
        world.io.block_on(async {
            let recovery = array.recover(0, device, |progress| positions.push(progress.position));
            let seen = array.detail().process.expect("a process");
            assert_eq!((seen.kind, seen.kind.to_string().as_str()), (ProcessKind::Recovery, "recover"));
            assert_eq!((seen.progress.position, seen.progress.total), (0, total), "{level}");
            assert_eq!(array.state(0), RoleState::Recovering(0));
            let busy = array.check(SyncMode::Check, |_| ()).await;
            assert_eq!(busy, Err(ProcessError::Busy(ProcessKind::Recovery)));
            recovery.await.unwrap();
        });
        assert!(positions.len() > 1 && positions.is_sorted() && positions.last() == Some(&total), "{level}");
        assert_eq!((array.state(0), array.detail().degraded), (RoleState::InSync, 0), "{level}");
        let kinds: Vec<_> = array.events_since(0).iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::RecoveryBegun, EventKind::RecoveryEnded]);
        // The rebuilt member's content makes up for the next failure.
        world.bench.kill(world.ids[1]);
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
        assert_eq!(world.io.block_on(array.recover(0, device, |_| ())), Err(VolumeError::OutOfRange.into()));
    }
}

#[test]
fn a_recovery_is_paused_slowed_stopped_and_goes_on_from_there() {
    let (world, array, device, content) = lacking(Level::Raid5, 3);
    let total = array.geometry().member_size();
    world.io.block_on(async {
        let recovery = world.io.spawn(array.recover(0, device, |_| ()));
        let process = array.process().expect("a process");
        process.pause();
        world.io.sleep(Duration::from_secs(1)).await;
        assert!(process.detail().paused && process.progress().position < total);
        process.set_pace(NonZeroU64::new(total / 10));
        process.resume();
        world.io.sleep(Duration::from_secs(3)).await;
        let RoleState::Recovering(upto) = array.state(0) else { panic!("it takes 10 s") };
        assert!(upto > 0 && upto < total && upto == process.progress().position);
        process.stop();
        assert_eq!(recovery.await, Err(ProcessError::Interrupted));
        let mut first = None;
        array.recover(0, device, |progress| _ = first.get_or_insert(progress.position)).await.unwrap();
        assert!(first.is_some_and(|first| first > upto), "what was done stays done");
    });
    assert_eq!(array.state(0), RoleState::InSync);
    world.bench.kill(world.ids[2]);
    assert!(world.read(&array, 0, content.len()).unwrap() == content);
}

/// Reads of 4 KiB at random places, `depth` at a time, until the flag says that it is enough; counts them.
async fn read_about(io: Io, array: Array, depth: u64, stop: Rc<Cell<bool>>) -> u64 {
    let places = array.limits().size / 4096;
    let readers = (0..depth).map(|seed| {
        let (array, pool, stop) = (array.clone(), io.pool(4096), Rc::clone(&stop));
        io.spawn(async move {
            let (buf, mut random, mut done) = (pool.alloc(4096).await, Random::new(seed), 0);
            while !stop.get() {
                array.read(random.below(places) * 4096, buf.all()).await.unwrap();
                done += 1;
            }
            done
        })
    });
    join_all(readers.collect::<Vec<_>>()).await.into_iter().sum()
}

/// Reads of clients in a second, while `work` goes on or for `span`; and how long that took.
fn rates(
    world: &World<Sim>,
    array: &Array,
    depth: u64,
    work: Option<SyncMode>,
    span: Duration,
) -> (u64, Duration) {
    let (stop, io) = (Rc::new(Cell::new(false)), world.io.clone());
    let reading = io.spawn(read_about(io.clone(), array.clone(), depth, Rc::clone(&stop)));
    io.block_on(async {
        let begun = io.now();
        match work {
            Some(mode) => assert_eq!(array.check(mode, |_| ()).await.unwrap().mismatch_sectors, 0),
            None => io.sleep(span).await,
        }
        stop.set(true);
        let took = io.now().since(begun);
        (reading.await * 1_000_000_000 / took.as_nanos() as u64, took)
    })
}

#[test]
fn clients_keep_half_of_their_rate_and_the_process_a_third_of_its_speed() {
    // A spinning disk has a queue of its own, in which many clients' requests stand before the process's: it goes on all the
    // same.
    for (model, mib, least) in [(Model::nvme(), 48, 30), (Model::sata_ssd(), 48, 30), (Model::hdd(), 16, 2)] {
        let shape = Shape::new(Level::Raid6, 6);
        let shape = Shape { rows: mib * MIB / shape.chunk, ..shape };
        let world = World::in_sim(&shape, model, 7);
        let array = open_in_sync(&world);
        let (_, alone) = rates(&world, &array, 0, Some(SyncMode::Check), Duration::ZERO);
        for depth in [1, 32] {
            let (idle, _) = rates(&world, &array, depth, None, alone);
            let (both, took) = rates(&world, &array, depth, Some(SyncMode::Check), Duration::ZERO);
            let (clients, process) = (both * 100 / idle, alone.as_nanos() * 100 / took.as_nanos());
            let seen =
                format!("{depth} at a time: clients {clients} % of {idle} a second, the process {process} %");
            assert!(clients >= 50 && process >= least, "{seen}");
        }
    }
}

#[test]
fn a_process_with_a_floor_does_not_rest_below_it() {
    let shape = Shape::new(Level::Raid6, 6);
    let world = World::in_sim(&Shape { rows: 48 * MIB / shape.chunk, ..shape }, Model::nvme(), 7);
    let array = open_in_sync(&world);
    let took = |floor: Option<u64>| {
        let stop = Rc::new(Cell::new(false));
        let reading = world.io.spawn(read_about(world.io.clone(), array.clone(), 8, Rc::clone(&stop)));
        world.io.block_on(async {
            let (begun, check) = (world.io.now(), array.check(SyncMode::Check, |_| ()));
            array.process().expect("a process").set_floor(floor.and_then(NonZeroU64::new));
            check.await.unwrap();
            stop.set(true);
            reading.await;
            world.io.now().since(begun)
        })
    };
    let (resting, kept) = (took(None), took(Some(u64::MAX)));
    assert!(kept * 3 < resting * 2, "{kept:?} with a floor, {resting:?} without");
}
