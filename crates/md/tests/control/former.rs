//! Members that come back: what they are given, and which of them are spares instead.

use core::num::NonZeroU64;

use brindle_array::{
    AddError, Array, EventKind, Joined, NotTaken, OpenConfig, ProcessError, Recovery, Removal, RoleState,
    SyncMode,
};
use brindle_format::md::{DeviceRole, Endian, Features, Superblock, Uuid, Version};
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_layout::Level;
use brindle_md::assembly::{DeviceUse, LeftOut};
use brindle_volume::{Volume, VolumeError};

use crate::bitmap::on_disk;
use crate::common::*;

const LEVELS: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

/// Metadata, and entries of the table.
const METADATA: [(Version, usize); 4] =
    [(Version::V1_2, 0), (Version::V1_0, 0), (Version::V1_1, 384), (Version::V1_2, 1000)];

const CHUNK: u64 = 8192;
const UUID: Uuid = Uuid::from_u128(0x77);

/// Whole by itself again, and bits cleared after a while.
pub(crate) fn automatic() -> OpenConfig {
    let daemon_sleep = Some(Duration::from_millis(1));
    OpenConfig { recovery: Recovery::Automatic, daemon_sleep, ..patient() }
}

pub(crate) fn manual() -> OpenConfig {
    OpenConfig { recovery: Recovery::Manual, ..automatic() }
}

pub(crate) fn shape(level: Level, members: usize) -> Shape {
    Shape { rows: 64, bitmap: Some(CHUNK), ..Shape::new(level, members) }
}

pub(crate) fn open(world: &World<Sim>, config: OpenConfig) -> Array {
    world.try_open(world.assembly().unwrap(), config).unwrap()
}

/// An array with a bitmap, all of whose bits are clear, and what it holds.
pub(crate) fn marked(shape: &Shape, config: OpenConfig) -> (World<Sim>, Array, Vec<u8>) {
    let world = World::in_sim(shape, Model::nvme(), 7);
    let array = open(&world, config);
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    idle(&world, Duration::from_millis(20));
    if shape.bitmap.is_some() {
        assert_eq!(array.detail().bitmap.unwrap().dirty, 0);
    }
    (world, array, content)
}

/// Something is written in two places.
pub(crate) fn write_some(world: &World<Sim>, array: &Array, content: &mut [u8]) {
    let end = content.len() - 4096;
    for (seed, offset) in [(31, 0), (32, end / 2 / 512 * 512), (33, end)] {
        let some = pattern(seed, 1024);
        world.write(array, offset as u64, &some).unwrap();
        content[offset..offset + 1024].copy_from_slice(&some);
    }
}

/// The member of role 1 fails, and leaves; the array is written to meanwhile.
fn away(world: &World<Sim>, array: &Array, content: &mut [u8]) {
    world.io.block_on(async {
        array.fail(1).await.unwrap();
        assert_eq!(array.remove(Removal::Failed).await.unwrap(), [world.ids[1]]);
    });
    write_some(world, array, content);
}

/// Waits until nothing lacks.
pub(crate) fn whole_again(world: &World<Sim>, array: &Array) {
    world.io.block_on(async {
        while array.detail().degraded > 0 || array.process().is_some() {
            world.io.sleep(Duration::from_micros(100)).await;
        }
    });
}

/// Redundancy is in sync, and gives what the array holds where the member of role 1 has to help.
fn judge(world: &World<Sim>, array: &Array, content: &[u8], what: &str) {
    assert_eq!(array.state(1), RoleState::InSync, "{what}");
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0, "{what}");
    world.io.block_on(array.fail(0)).unwrap();
    assert!(world.read(array, 0, content.len()).unwrap() == content, "{what}");
}

fn add(world: &World<Sim>, array: &Array) -> Result<Joined, AddError> {
    world.io.block_on(array.add(world.ids[1], "it", UUID, false))
}

/// Bytes that the others have been read.
fn read_so_far(world: &World<Sim>) -> u64 {
    let others = world.ids.iter().filter(|id| **id != world.ids[1]);
    others.map(|&id| world.io.counters(id).bytes_read).sum()
}

#[test]
fn a_member_that_comes_back_is_given_what_was_written_while_it_was_away() {
    for (level, members) in LEVELS {
        for (version, table) in METADATA {
            let what = format!("{level} {version} {table}");
            let (world, array, mut content) =
                marked(&shape(level, members).metadata(version, table), automatic());
            away(&world, &array, &mut content);
            idle(&world, Duration::from_millis(20));
            let (head, set) = on_disk(&world, 0);
            assert!((2..=12).contains(&set.len()), "{what}: no bit is cleared: {set:?}");
            assert!(head.events_cleared <= world.superblock(1).events, "{what}");
            let before = read_so_far(&world);
            assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }), "{what}");
            whole_again(&world, &array);
            let read = read_so_far(&world) - before;
            let parity = matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6);
            let each = if parity { members as u64 - 1 } else { 1 };
            let most = set.len() as u64 * CHUNK * each;
            assert!(read <= most && 2 * most < array.geometry().member_size() * each, "{what}: {read}");
            let kinds: Vec<EventKind> = array.events_since(0).iter().map(|event| event.kind).collect();
            let reported = [EventKind::Readded, EventKind::RecoveryBegun, EventKind::RecoveryEnded];
            assert!(kinds.ends_with(&reported), "{what}: {kinds:?}");
            idle(&world, Duration::from_millis(20));
            assert!(on_disk(&world, 1).1.is_empty(), "{what}");
            judge(&world, &array, &content, &what);
            world.stop(&array);
        }
    }
}

#[test]
fn far_and_offset_copies_are_found_by_the_bits_of_what_they_hold() {
    for layout in ["f2", "o2", "n3", "f3"] {
        let shape = shape(Level::Raid10, 5).layout(layout);
        let (world, array, mut content) = marked(&shape, automatic());
        away(&world, &array, &mut content);
        let before = read_so_far(&world);
        assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }), "{layout}");
        whole_again(&world, &array);
        assert!(read_so_far(&world) - before < array.geometry().member_size() / 2, "{layout}");
        judge(&world, &array, &content, layout);
    }
}

#[test]
fn what_is_half_done_is_on_record_as_md_has_it_and_goes_on_in_the_next_run() {
    for (level, members) in LEVELS {
        let (mut world, array, mut content) = marked(&shape(level, members), manual());
        away(&world, &array, &mut content);
        assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }));
        let sb = world.superblock(1);
        let guided = Features::RECOVERY_OFFSET | Features::RECOVERY_BITMAP;
        assert!(sb.features.contains(guided) && sb.recovery_offset == Some(0), "{level}");
        assert_eq!((sb.role(), sb.events), (DeviceRole::Active(1), world.superblock(0).events), "{level}");
        assert_eq!(on_disk(&world, 1), on_disk(&world, 0), "{level}: it has the bitmap before");
        write_some(&world, &array, &mut content);
        world.stop(&array);
        drop(array);
        world = world.restart(8);
        let assembly = world.assembly().unwrap();
        assert_eq!(assembly.devices[1].usage, DeviceUse::Recovering { role: 1, upto: 0 }, "{level}");
        let array = open(&world, automatic());
        let before = read_so_far(&world);
        whole_again(&world, &array);
        let all = array.geometry().member_size() * (members as u64 - 1);
        assert!(read_so_far(&world) - before < all / 2, "{level}");
        let sb = world.superblock(1);
        assert!(!sb.features.intersects(guided), "{level}: {}", sb.features);
        judge(&world, &array, &content, "");
    }
}

#[test]
fn a_member_that_was_left_out_at_the_start_is_taken_again_as_it_is() {
    for (level, members) in LEVELS {
        let (mut world, array, mut content) = marked(&shape(level, members), manual());
        world.io.block_on(array.fail(1)).unwrap();
        write_some(&world, &array, &mut content);
        world.stop(&array);
        drop(array);
        world = world.restart(9);
        let usage = world.assembly().unwrap().devices[1].usage;
        assert!(matches!(usage, DeviceUse::LeftOut { role: Some(1), why: LeftOut::Stale { .. } }));
        let array = open(&world, automatic());
        let again = || world.io.block_on(array.add_again(world.ids[1], "it"));
        assert!(matches!(add(&world, &array), Err(AddError::Known { .. })), "as a new device it can't come");
        assert_eq!(again(), Ok(1), "{level}");
        assert!(matches!(again(), Err(AddError::Known { .. })));
        whole_again(&world, &array);
        judge(&world, &array, &content, "");
        // And one that has failed in this run.
        assert_eq!(world.io.block_on(array.add_again(world.ids[0], "it")), Ok(0), "{level}");
        whole_again(&world, &array);
        assert_eq!(array.detail().devices.len(), members, "{level}");
        let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0, "{level}");
    }
}

/// Something that is not a former member that could be re-added, and why.
fn refused(shape: &Shape, prepare: impl FnOnce(&mut World<Sim>, &Array)) -> NotTaken {
    let (mut world, array, mut content) = marked(shape, manual());
    away(&world, &array, &mut content);
    prepare(&mut world, &array);
    let before = world.superblock(1);
    let again = world.io.block_on(array.add_again(world.ids[1], "it"));
    let Err(AddError::NotTaken { why, .. }) = again else { panic!("{again:?}") };
    assert_eq!(world.superblock(1), before, "{why}: nothing was written");
    // Asked for whatever it is good for, it is a spare.
    assert_eq!(add(&world, &array), Ok(Joined::Spare { why: Some(why.clone()) }), "{why}");
    assert_eq!(world.superblock(1).role(), DeviceRole::Spare, "{why}");
    if array.detail().degraded > 0 {
        world.io.block_on(array.recover(1, array.spares()[0], |_| ())).unwrap();
    }
    judge(&world, &array, &content, &why.to_string());
    why
}

fn changed(world: &World<Sim>, edit: impl FnOnce(&mut Superblock)) {
    let mut sb = world.superblock(1);
    edit(&mut sb);
    world.bench.poke(world.ids[1], sb.super_offset, &encoded(&sb));
}

#[test]
fn who_can_not_be_taken_again_is_a_spare_and_it_is_said_why() {
    let raid5 = shape(Level::Raid5, 4);
    let is = |edit: fn(&mut Superblock)| refused(&raid5, move |world, _| changed(world, edit));
    let old = Version::V0_90(Endian::Little);
    assert_eq!(refused(&raid5.clone().metadata(old, 0), |_, _| ()), NotTaken::Metadata);
    assert_eq!(refused(&Shape { bitmap: None, ..raid5.clone() }, |_, _| ()), NotTaken::NoBitmap);
    assert_eq!(is(|sb| sb.roles[1] = DeviceRole::Spare), NotTaken::NoRole);
    assert_eq!(is(|sb| sb.recovery_offset = Some(65536)), NotTaken::Unfinished);
    assert_eq!(is(|sb| sb.features |= Features::REPLACEMENT), NotTaken::Unfinished);
    assert!(matches!(is(|sb| sb.chunk *= 2), NotTaken::Shape { field: "chunk", .. }));
    assert_eq!(is(|sb| sb.roles[2] = DeviceRole::Faulty), NotTaken::Apart, "it went on without another");
    assert_eq!(is(|sb| sb.events += 100), NotTaken::Apart);
    let behind = is(|sb| sb.events = 1);
    assert!(matches!(behind, NotTaken::Behind { events: 1, cleared: 2.. }), "{behind}");
}

#[test]
fn a_role_that_was_filled_since_takes_nobody_again() {
    let raid6 = Shape { spares: 1, ..shape(Level::Raid6, 5) };
    let fill = |world: &mut World<Sim>, array: &Array| {
        world.io.block_on(array.recover(1, array.spares()[0], |_| ())).unwrap();
    };
    assert_eq!(refused(&raid6, fill), NotTaken::Filled { role: 1 });
    let half = |world: &mut World<Sim>, array: &Array| {
        let spare = array.spares()[0];
        world.io.block_on(async {
            let recovery = world.io.spawn(array.recover(1, spare, |_| ()));
            world.io.sleep(Duration::from_micros(200)).await;
            assert!(matches!(array.state(1), RoleState::Recovering(_)));
            array.process().unwrap().stop();
            let _ = recovery.await;
        });
    };
    let (mut world, array, mut content) = marked(&raid6, manual());
    away(&world, &array, &mut content);
    half(&mut world, &array);
    let again = || world.io.block_on(array.add_again(world.ids[1], "it"));
    let filled = |again| matches!(again, Err(AddError::NotTaken { why: NotTaken::Filled { role: 1 }, .. }));
    assert!(filled(again()), "it is being filled");
    world.io.block_on(array.fail(1)).unwrap();
    assert!(filled(again()), "it was, for a while");
    // A former member is re-added even if its rebuild had not ended.
    let spare = world.ids[5];
    let unfinished = world.io.block_on(array.add_again(spare, "it"));
    assert!(matches!(unfinished, Err(AddError::NotTaken { why: NotTaken::Unfinished, .. })));
}

#[test]
fn one_that_fails_again_and_comes_back_again_lacks_nothing_either() {
    let (world, array, mut content) = marked(&shape(Level::Raid6, 5), manual());
    away(&world, &array, &mut content);
    assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }));
    away(&world, &array, &mut content);
    let far = (content.len() - 300_000) / 512 * 512;
    world.write(&array, far as u64, &[9; 512]).unwrap();
    content[far..far + 512].fill(9);
    assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }), "it was brought up by the bitmap");
    let device = brindle_array::Device { id: world.ids[1], data_offset: world.superblock(1).data_offset };
    world.io.block_on(array.recover(1, device, |_| ())).unwrap();
    judge(&world, &array, &content, "");
}

#[test]
fn a_recovery_says_nothing_of_a_member_that_left_and_came_back_while_it_went_on() {
    for level in [Level::Raid1, Level::Raid6] {
        let (world, array, mut content) = marked(&shape(level, 5), manual());
        away(&world, &array, &mut content);
        assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }));
        let device = brindle_array::Device { id: world.ids[1], data_offset: world.superblock(1).data_offset };
        let recovery = world.io.spawn(array.recover(1, device, |_| ()));
        let process = array.process().expect("a process");
        process.set_pace(NonZeroU64::new(CHUNK));
        while process.progress().position == 0 {
            idle(&world, Duration::from_millis(1));
        }
        process.pause();
        world.io.block_on(array.fail(1)).unwrap();
        // Where it was rebuilt already.
        world.write(&array, 0, &[7; 512]).unwrap();
        content[..512].fill(7);
        world.io.block_on(array.add_again(world.ids[1], "it")).unwrap();
        process.set_pace(None);
        process.resume();
        let ended = world.io.block_on(recovery);
        assert!(
            matches!(ended, Err(ProcessError::Volume(VolumeError::Member { role: Some(1), .. }))),
            "{ended:?}"
        );
        assert_eq!(array.state(1), RoleState::Recovering(0), "{level}");
        world.io.block_on(array.recover(1, device, |_| ())).unwrap();
        judge(&world, &array, &content, "");
    }
}

#[test]
fn one_that_takes_no_superblock_is_none_of_the_arrays_and_nothing_else_has_changed() {
    let (world, array, mut content) = marked(&shape(Level::Raid5, 4), automatic());
    away(&world, &array, &mut content);
    let place = world.superblock(1).super_offset;
    let broken = BadRange::forever(place..place + 512);
    world.bench.afflict(world.ids[1], |faults| faults.unwritable.push(broken));
    assert!(matches!(add(&world, &array), Err(AddError::Device { .. })));
    assert_eq!((array.detail().devices.len(), array.state(1)), (3, RoleState::Missing));
    world.write(&array, 0, &[4; 512]).unwrap();
    world.bench.afflict(world.ids[1], |faults| faults.unwritable.clear());
    assert_eq!(add(&world, &array), Ok(Joined::Member { role: 1 }), "it is what it was");
    content[..512].fill(4);
    whole_again(&world, &array);
    judge(&world, &array, &content, "");
}
