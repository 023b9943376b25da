//! Members that have no room where they live: the write is refused, nothing is lost, and all goes on when there is room.

use std::collections::BTreeMap;

use brindle_array::{Array, EventKind, OnFull, OpenConfig, RoleState, SyncMode};
use brindle_format::md::{DeviceRole, Version};
use brindle_io::sim::{Model as Drive, Sim};
use brindle_io::{Duration, OpError};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::common::*;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 5)];

/// The error of a write for which the member of this role has no space.
pub(crate) fn full(role: usize) -> Result<(), VolumeError> {
    Err(VolumeError::of_member(role as u16, OpError::NoSpace))
}

/// Some member has no room, and which one is told.
pub(crate) fn is_full(reported: Result<(), VolumeError>) -> bool {
    matches!(reported, Err(VolumeError::Member { role: Some(_), error: OpError::NoSpace }))
}

fn world(level: Level, members: usize) -> World<Sim> {
    world_of(&Shape { rows: 64, ..Shape::new(level, members) })
}

/// An array on new sparse files.
pub(crate) fn world_of(shape: &Shape) -> World<Sim> {
    let model = Drive { volatile_cache: true, jitter: 0, ..Drive::sata_ssd() };
    let sim = Sim::new(3);
    // Sparse files: what was never written reads as zeroes.
    let carry = |(offset, bytes): (u64, Vec<u8>)| {
        let id = sim.add_blank_drive(model, shape.device_bytes());
        sim.poke(id, offset, &bytes);
        id
    };
    let ids = shape.superblocks().into_iter().map(carry).collect();
    World::over(sim, ids, shape.version)
}

/// There is no room for anything new on these members, or there is again.
pub(crate) fn room(world: &World<Sim>, members: &[usize], is_there: bool) {
    for &member in members {
        world.bench.afflict(world.ids[member], |faults| faults.full = (!is_there).then_some(0..u64::MAX));
    }
}

/// The required content of sectors that no refused write has touched since they were written.
type Model = BTreeMap<u64, Vec<u8>>;

/// Writes pieces of all sizes; gives how many were refused.
fn fill(world: &World<Sim>, array: &Array, rounds: u64, model: &mut Model) -> u32 {
    fill_up_to(32 << 10, world, array, rounds, model)
}

/// [`fill`] with sizes up to `most`, 512 times a power of two.
fn fill_up_to(most: u64, world: &World<Sim>, array: &Array, rounds: u64, model: &mut Model) -> u32 {
    let (size, mut refused) = (array.limits().size, 0);
    for round in 0..rounds {
        let len = 512 << (round % u64::from((most / 512).ilog2() + 1));
        let offset = (round * 7919 * 512) % (size - len) / 512 * 512;
        let bytes = pattern(round, len as usize);
        let written = world.write(array, offset, &bytes);
        for (at, sector) in (offset..).step_by(512).zip(bytes.chunks(512)) {
            match written {
                Ok(()) => drop(model.insert(at, sector.to_vec())),
                Err(_) => drop(model.remove(&at)),
            }
        }
        if written.is_err() {
            assert!(is_full(written), "{written:?}");
            refused += 1;
        }
    }
    refused
}

fn all_there(found: &[u8], model: &Model, who: &str) {
    for (&at, sector) in model {
        assert!(found[at as usize..at as usize + 512] == sector[..], "{who}: {at}");
    }
}

fn whole(world: &World<Sim>, array: &Array) -> Vec<u8> {
    let size = array.limits().size as usize;
    let read = |at: usize| world.read(array, at as u64, (64 << 10).min(size - at)).unwrap();
    (0..size).step_by(64 << 10).flat_map(read).collect()
}

pub(crate) fn wait(world: &World<Sim>, seconds: u64) {
    world.io.block_on(world.io.sleep(Duration::from_secs(seconds)));
}

#[test]
fn when_all_are_full_nothing_fails_and_what_was_written_is_read() {
    for (level, members) in REDUNDANT {
        for full_members in [(0..members).collect(), vec![0], vec![members - 1]] {
            let who = format!("{level}, {full_members:?} full");
            let world = world(level, members);
            let array = world.open();
            let mut model = Model::new();
            assert_eq!(fill(&world, &array, 12, &mut model), 0);
            room(&world, &full_members, false);
            let refused = fill(&world, &array, 200, &mut model);
            assert!(refused > 20 && model.len() > 8, "{who}: {refused} refused, {} kept", model.len());
            let answers = whole(&world, &array);
            all_there(&answers, &model, &who);
            for role in 0..members as u16 {
                assert_eq!(array.state(role), RoleState::InSync, "{who}");
            }
            // Reads of all of it give one answer, again and again; also while it is tried again in vain.
            wait(&world, 5);
            assert!((0..4).all(|_| whole(&world, &array) == answers), "{who}: one and the same answer");
            let reported: Vec<_> =
                array.events_since(0).iter().map(|event| (event.kind, event.role)).collect();
            let known = |kind: EventKind| matches!(kind, EventKind::Full | EventKind::SpaceAgain);
            assert!(reported.iter().all(|(kind, _)| known(*kind)), "{who}: {reported:?}");
            assert_eq!(reported[0].0, EventKind::Full, "{who}");

            room(&world, &full_members, true);
            wait(&world, 60);
            assert!(!array.needs_resync(), "{who}: all is in sync again");
            assert!(array.events_since(0).iter().any(|event| event.kind == EventKind::SpaceAgain));
            let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
            assert_eq!((report.mismatch_sectors, report.unverified), (0, 0), "{who}");
            assert!(whole(&world, &array) == answers, "{who}: what was read stays");
            assert_eq!(fill(&world, &array, 100, &mut model), 0, "{who}: it goes on");
            all_there(&whole(&world, &array), &model, &who);
            world.stop(&array);
            assert!(world.superblocks().iter().all(|sb| sb.is_clean()), "{who}");
        }
    }
}

/// Sectors of the model that can't be read, and whether any of those that can holds something else.
fn unread(world: &World<Sim>, array: &Array, model: &Model) -> (usize, bool) {
    let answers: Vec<_> = model.keys().map(|&at| world.read(array, at, 512)).collect();
    let differs =
        answers.iter().zip(model.values()).any(|(found, due)| found.as_ref().is_ok_and(|f| f != due));
    (answers.iter().filter(|found| found.is_err()).count(), differs)
}

#[test]
fn a_degraded_array_without_room_keeps_what_was_written() {
    let shapes = [
        (Level::Raid4, 3, vec![0], 32 << 10),
        (Level::Raid5, 3, vec![1], 32 << 10),
        (Level::Raid5, 3, vec![1], 2048),
        (Level::Raid5, 4, vec![3], 2048),
        (Level::Raid6, 4, vec![0], 32 << 10),
        (Level::Raid6, 5, vec![4], 32 << 10),
        (Level::Raid6, 5, vec![1, 2], 2048),
    ];
    for (level, members, lost, most) in shapes {
        let rest: Vec<usize> = (0..members).filter(|role| !lost.contains(role)).collect();
        let mut sets = vec![rest.clone()];
        sets.extend(rest.iter().map(|&role| vec![role]));
        for full_members in sets {
            let who = format!("{level} of {members} without {lost:?}, {full_members:?} full, up to {most}");
            let world = world(level, members);
            let array = world.open();
            let mut model = Model::new();
            assert_eq!(fill(&world, &array, 60, &mut model), 0);
            lost.iter().for_each(|&role| world.io.block_on(array.fail(role as u16)).unwrap());
            room(&world, &full_members, false);
            let refused = fill_up_to(most, &world, &array, 300, &mut model);
            assert!(refused > 10 && model.len() > 100, "{who}: {refused} refused, {} kept", model.len());
            assert_eq!(unread(&world, &array, &model), (0, false), "{who}");
            assert!(rest.iter().all(|&role| array.state(role as u16) == RoleState::InSync), "{who}");
            let full = array.events_since(0).iter().filter(|event| event.kind == EventKind::Full).count();
            assert!(full > 0 && full <= full_members.len(), "{who}: told once: {full}");
            assert!(!array.needs_resync(), "{who}: nothing is in doubt");
            room(&world, &full_members, true);
            assert_eq!(fill_up_to(most, &world, &array, 100, &mut model), 0, "{who}: it goes on");
            assert_eq!(unread(&world, &array, &model), (0, false), "{who}");
            world.stop(&array);
            drop(array);
            let world = World::over(world.bench.restart(5), world.ids.clone(), Version::V1_2);
            assert_eq!(unread(&world, &world.open(), &model), (0, false), "{who}: without force");
        }
    }
}

#[test]
fn an_array_with_something_half_written_is_never_marked_clean() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let config = OpenConfig { idle: Duration::from_millis(5), ..patient() };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        room(&world, &[0], false);
        let size = array.limits().size;
        world.write(&array, size / 2, &pattern(1, 65536)).unwrap_err();
        // Before it is tried again: mirrors need no room for that, where what was there before is in place.
        world.io.block_on(world.io.sleep(Duration::from_millis(100)));
        assert!(!array.detail().active, "{level}");
        let at = array.detail().resync_offset.unwrap();
        assert!(at > 0, "{level}: what lies before it is in no doubt");
        assert!(world.superblocks().iter().all(|sb| sb.resync_offset == Some(at)), "{level}");
        let before = whole(&world, &array);
        world.stop(&array);
        assert!(world.superblocks().iter().all(|sb| sb.resync_offset == Some(at)), "{level}");
        drop(array);
        // The next run finds room.
        let world = World::over(world.bench.restart(5), world.ids.clone(), Version::V1_2);
        room(&world, &[0], true);
        let array = world.open();
        assert!(whole(&world, &array) == before, "{level}");
        world.io.block_on(array.resync(|_| ())).unwrap();
        assert!(!array.needs_resync() && whole(&world, &array) == before, "{level}");
        for role in 0..members as u16 {
            if world.io.block_on(array.fail(role)).is_ok() {
                assert!(whole(&world, &array) == before, "{level} without {role}");
            }
        }
    }
}

#[test]
fn a_resync_goes_past_what_has_no_space_and_ends() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let array = world.open();
        room(&world, &[members - 1], false);
        world.write(&array, 0, &pattern(1, 65536)).unwrap_err();
        let report = world.io.block_on(array.resync(|_| ())).unwrap();
        assert!(report.unverified > 0 && array.needs_resync(), "{level}");
        assert!((0..members as u16).all(|role| array.state(role) == RoleState::InSync), "{level}");
        room(&world, &[members - 1], true);
        wait(&world, 60);
        assert!(!array.needs_resync(), "{level}");
    }
}

#[test]
fn zeroes_that_find_no_space_are_refused_and_there_all_the_same_where_they_need_none() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let array = world.open();
        // Some of it was written, behind places that were not.
        world.write(&array, array.limits().size / 2, &pattern(1, 64 << 10)).unwrap();
        room(&world, &[0], false);
        let options = ZeroOptions { keep_allocated: true, ..ZeroOptions::default() };
        let zeroes = world.io.block_on(array.write_zeroes(0, array.limits().size, options));
        assert_eq!(zeroes, full(0), "{level}");
        assert!(!array.needs_resync() && array.state(0) == RoleState::InSync, "{level}");
        assert_eq!(array.events_since(0)[0].kind, EventKind::Full, "{level}");
        assert!(whole(&world, &array).iter().all(|&byte| byte == 0), "{level}");
        room(&world, &[0], true);
        world.io.block_on(array.write_zeroes(0, array.limits().size, options)).unwrap();
    }
}

#[test]
fn by_policy_a_full_member_fails_as_with_md() {
    for (level, members) in REDUNDANT {
        let world = world(level, members);
        let config = OpenConfig { on_full: OnFull::Fail, ..patient() };
        let array = world.try_open(world.assembly().unwrap(), config).unwrap();
        room(&world, &[0], false);
        world.write(&array, 0, &pattern(1, 65536)).unwrap();
        assert_eq!(array.state(0), RoleState::Failed, "{level}");
        assert_eq!(world.superblock(1).role_of(0), DeviceRole::Faulty);
        assert_eq!(array.events_since(0)[0].cause.unwrap().error, Some(OpError::NoSpace));
    }
}

#[test]
fn a_superblock_without_space_holds_up_the_writes_until_there_is_some() {
    // Its place was written to before: only a file system that copies on write has no room for it.
    let world = world(Level::Raid1, 2);
    let array = world.open();
    let blocked = world.superblock(1).super_offset;
    let memory = world.bench.clone();
    memory.afflict(world.ids[1], |faults| faults.full_on_write = Some(blocked..blocked + 4096));
    let (other, pool) = (array.clone(), world.pool.clone());
    let write = world.io.spawn(async move { write(&pool, &other, 0, &[1; 4096]).await });
    wait(&world, 5);
    assert!(world.superblock(1).is_clean() && !world.superblock(0).is_clean());
    assert_eq!(world.read(&array, 0, 512).unwrap(), [0; 512], "reads go on");
    memory.afflict(world.ids[1], |faults| faults.full_on_write = None);
    world.io.block_on(write).unwrap();
    assert_eq!(array.state(1), RoleState::InSync);
    assert_eq!(world.superblock(1).events, world.superblock(0).events);
    let kinds: Vec<_> = array.events_since(0).iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Full, EventKind::SpaceAgain]);
    world.stop(&array);
}
