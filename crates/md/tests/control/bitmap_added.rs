//! Write-intent bitmaps that come to running arrays and go: what is on record, whenever the power goes.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::row_log::{Change, LogHost, MakeRowLog, OnRecord, RowLog};
use brindle_array::{Array, BitmapError, BitmapSpec, EventKind, Joined, OpenConfig, Recovery, SyncMode};
use brindle_format::md::{Uuid, Version};
use brindle_io::Duration;
use brindle_io::sim::{BadRange, Model, Sim, When};
use brindle_io::sync::Notify;
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::bitmap::on_disk;
use crate::common::*;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

const CHUNK: u64 = 8192;

fn shape(level: Level, members: usize) -> Shape {
    Shape { rows: 32, ..Shape::new(level, members) }
}

fn quickly() -> OpenConfig {
    OpenConfig { daemon_sleep: Some(Duration::from_millis(1)), ..patient() }
}

fn open(world: &World<Sim>, config: OpenConfig) -> Array {
    world.try_open(world.assembly().unwrap(), config).unwrap()
}

fn with(chunk: Option<u64>) -> BitmapSpec {
    BitmapSpec { chunk, write_behind: Some(0), file: None }
}

fn add(world: &World<Sim>, array: &Array) -> Result<(), BitmapError> {
    world.io.block_on(array.set_bitmap(with(Some(CHUNK))))
}

fn remove(world: &World<Sim>, array: &Array) -> Result<(), BitmapError> {
    world.io.block_on(array.remove_bitmap())
}

fn named(world: &World<Sim>) -> Vec<bool> {
    world.superblocks().iter().map(|sb| sb.bitmap_offset.is_some()).collect()
}

fn mismatches(world: &World<Sim>, array: &Array) -> u64 {
    world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors
}

#[test]
fn a_bitmap_comes_whole_is_kept_and_goes_again() {
    for (level, members) in REDUNDANT {
        for (version, table) in METADATA {
            let what = format!("{level} {version} {table}");
            let shape = Shape { spares: 1, ..shape(level, members) }.metadata(version, table);
            let world = World::in_sim(&shape, Model::nvme(), 3);
            let array = open(&world, quickly());
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            add(&world, &array).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(named(&world).iter().all(|&named| named), "{what}: spares too");
            for member in 0..members {
                let (head, set) = on_disk(&world, member);
                assert_eq!(head.events, world.superblock(member).events, "{what}");
                assert_eq!((head.chunk, set.len() as u64), (CHUNK, head.bits()), "{what}");
                assert_eq!(head.uuid, world.superblock(member).bitmap_uuid(), "{what}");
            }
            assert_eq!(add(&world, &array), Err(BitmapError::Present { file: None }), "{what}");
            let reported: Vec<_> = array.events_since(0).into_iter().map(|event| event.kind).collect();
            assert_eq!(reported, [EventKind::BitmapAdded], "{what}");
            idle(&world, Duration::from_millis(10));
            assert_eq!(array.detail().bitmap.unwrap().dirty, 0, "{what}");
            world.write(&array, 0, &pattern(2, 512)).unwrap();
            assert_eq!(on_disk(&world, 1).1[0], 0, "{what}: bits are set");
            // It is found by the next run, which resyncs what it marks.
            world.bench.cut_power();
            drop(array);
            let world = world.restart(4);
            let array = open(&world, quickly());
            let found = array.detail().bitmap.unwrap();
            assert!(found.dirty > 0 && found.dirty <= 4, "{what}: {found:?}");
            world.io.block_on(array.resync(|_| ())).unwrap();
            world.write(&array, 0, &pattern(3, 512)).unwrap();
            remove(&world, &array).unwrap();
            assert!(named(&world).iter().all(|&named| !named) && array.detail().bitmap.is_none(), "{what}");
            assert_eq!(remove(&world, &array), Err(BitmapError::Absent), "{what}");
            let reported = array.events_since(0).into_iter().map(|event| event.kind);
            let reported: Vec<_> = reported.filter(|kind| *kind == EventKind::BitmapRemoved).collect();
            assert_eq!(reported.len(), 1, "{what}: once, and not what was refused");
            world.write(&array, 4096, &pattern(3, 4096)).unwrap();
            world.stop(&array);
            drop(array);
            let world = world.restart(5);
            let array = open(&world, quickly());
            assert!(array.detail().bitmap.is_none() && mismatches(&world, &array) == 0, "{what}");
        }
    }
}

#[test]
fn a_spare_that_alone_was_told_of_a_bitmap_is_told_what_the_array_has() {
    for (version, table) in METADATA {
        for comes in [true, false] {
            let bitmap = (!comes).then_some(CHUNK);
            let shape = Shape { spares: 1, bitmap, ..shape(Level::Raid5, 3) }.metadata(version, table);
            let (world, had) =
                (World::in_sim(&shape, Model::nvme(), 3), World::in_sim(&shape, Model::nvme(), 3));
            // The state that the members would have reached without the power cut.
            let array = open(&had, quickly());
            if comes { add(&had, &array) } else { remove(&had, &array) }.unwrap();
            let reported = had.superblock(3).bitmap_offset;
            assert_eq!(reported.is_some(), comes);
            world.change(3, |sb| (sb.events, sb.bitmap_offset) = (sb.events + 1, reported));
            let array = open(&world, quickly());
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            let named = named(&world);
            assert!(named.iter().all(|&named| named != comes), "{version} {table} {comes}: {named:?}");
        }
    }
}

/// Writes here and there while a bitmap comes, goes, and comes again.
async fn grows(world: &World<Sim>, array: &Array) -> Result<(), BitmapError> {
    let writers = (0..3).map(|lane| {
        let (array, pool) = (array.clone(), world.pool.clone());
        world.io.spawn(async move {
            let mut random = Random::stream(lane, 7);
            let size = array.limits().size;
            for _ in 0..8 {
                let offset = random.below(size / 512 - 16) * 512;
                write(&pool, &array, offset, &pattern(lane, 4096)).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    array.set_bitmap(with(Some(CHUNK))).await?;
    world.io.sleep(Duration::from_micros(300)).await;
    array.remove_bitmap().await?;
    array.set_bitmap(with(Some(2 * CHUNK))).await?;
    brindle_io::sync::join_all(writers).await;
    Ok(())
}

/// The power goes before each step in turn; gives how many there were.
fn cut_everywhere(level: Level, members: usize, version: Version, table: usize) -> u64 {
    let config = OpenConfig { daemon_sleep: Some(Duration::from_micros(100)), ..patient() };
    for cut in 1.. {
        let what = format!("{level} {version} {table} cut {cut}");
        let shape = shape(level, members).metadata(version, table);
        // Members that forget what was not flushed.
        let world = World::in_sim(&shape, Model { flush_latency: 150_000, ..Model::sata_ssd() }, cut);
        let array = open(&world, config.clone());
        world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
        let done = world.io.block_on(world.bench.until_end(&world.io, grows(&world, &array)));
        if let Some(done) = done {
            assert_eq!(done, Ok(()), "{what}");
            if !world.bench.has_ended() {
                world.bench.cut_power();
            }
            return cut;
        }
        drop(array);
        let world = world.restart(cut + 1);
        let assembly = world.assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(assembly.degraded().is_empty(), "{what}");
        let array =
            world.try_open(assembly, config.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        if array.needs_resync() {
            world.io.block_on(array.resync(|_| ())).unwrap();
        }
        assert_eq!(mismatches(&world, &array), 0, "{what}: no bit told of it");
        world.write(&array, 0, &[1; 4096]).unwrap();
        // All say the same from the next record on.
        let named = named(&world);
        assert!(named.iter().all(|&one| one == array.detail().bitmap.is_some()), "{what}: {named:?}");
        if named[0] {
            // Bits are being cleared.
            idle(&world, Duration::from_millis(10));
            let bitmaps: Vec<_> = (0..members).map(|member| on_disk(&world, member)).collect();
            assert!(bitmaps.iter().all(|other| *other == bitmaps[0]), "{what}");
        }
        world.stop(&array);
    }
    0
}

#[test]
fn whenever_the_power_goes_there_is_no_bitmap_or_one_that_marks_all_that_differs() {
    for (n, (level, members)) in REDUNDANT.into_iter().enumerate() {
        let (version, table) = METADATA[n % METADATA.len()];
        let cuts = cut_everywhere(level, members, version, table);
        assert!(cuts > 100, "{level}: {cuts}");
    }
}

/// Holds changes up that begin while it is shut.
struct Gate {
    shut: RefCell<bool>,
    opened: Notify,
}

struct Gated(Rc<Gate>);

impl RowLog for Gated {
    fn begins<'a>(&self, _: &Change, _: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        let gate = (*self.0.shut.borrow()).then(|| Rc::clone(&self.0))?;
        Some(Box::pin(async move {
            gate.opened.until(|| (!*gate.shut.borrow()).then_some(())).await;
            Ok(())
        }))
    }

    fn ends(&self, _: &Change) {}
}

#[test]
fn no_bit_is_cleared_of_a_write_that_began_before_the_bitmap_came() {
    for (level, members) in REDUNDANT {
        let world = World::in_sim(&shape(level, members), Model::nvme(), 3);
        let gate = Rc::new(Gate { shut: RefCell::new(false), opened: Notify::new(&world.io) });
        let given = Rc::clone(&gate);
        let log = MakeRowLog::new(move |_, _| Rc::new(Gated(Rc::clone(&given))) as Rc<dyn RowLog>);
        let array = open(&world, OpenConfig { logs: vec![log], ..quickly() });
        world.write(&array, 0, &[1; 512]).unwrap();
        gate.shut.replace(true);
        let (writing, pool) = (array.clone(), world.pool.clone());
        let earlier = world.io.spawn(async move { write(&pool, &writing, 0, &[2; 4096]).await });
        idle(&world, Duration::from_millis(1));
        for _ in 0..2 {
            add(&world, &array).unwrap();
            idle(&world, Duration::from_millis(20));
            let (head, set) = on_disk(&world, 0);
            assert_eq!(set.len() as u64, head.bits(), "{level}: it is not known where that write is");
            remove(&world, &array).unwrap();
        }
        add(&world, &array).unwrap();
        gate.shut.replace(false);
        gate.opened.notify();
        world.io.block_on(earlier).unwrap();
        idle(&world, Duration::from_millis(20));
        assert!(on_disk(&world, 0).1.is_empty(), "{level}");
    }
}

#[test]
fn while_a_member_is_missing_all_bits_stay_set_and_it_is_taken_again_only_from_then_on() {
    for (level, members) in REDUNDANT {
        let world = World::in_sim(&shape(level, members), Model::nvme(), 3);
        let array = open(&world, OpenConfig { recovery: Recovery::Automatic, ..quickly() });
        let content = pattern(5, array.limits().size as usize);
        world.write(&array, 0, &content).unwrap();
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 0, &[7; 4096]).unwrap();
        add(&world, &array).unwrap();
        idle(&world, Duration::from_millis(20));
        let (head, set) = on_disk(&world, 0);
        assert_eq!(set.len() as u64, head.bits(), "{level}");
        // The bitmap does not mark writes made before it was added.
        let again = world.io.block_on(array.add_again(world.ids[1], "it"));
        assert!(again.is_err(), "{level}: {again:?}");
        world.io.block_on(array.remove(brindle_array::Removal::Failed)).unwrap();
        let joined = world.io.block_on(array.add(world.ids[1], "it", Uuid::from_u128(5), false));
        assert!(matches!(joined, Ok(Joined::Spare { .. })), "{level}: {joined:?}");
        world.io.block_on(async {
            while array.detail().degraded > 0 || array.process().is_some() {
                world.io.sleep(Duration::from_micros(100)).await;
            }
        });
        idle(&world, Duration::from_millis(20));
        assert!((0..members).all(|member| on_disk(&world, member).1.is_empty()), "{level}");
        assert_eq!(mismatches(&world, &array), 0);
    }
}

#[test]
fn a_member_that_does_not_take_the_bitmap_is_failed_and_the_others_have_it() {
    for (level, members) in REDUNDANT {
        let world = World::in_sim(&shape(level, members), Model::nvme(), 3);
        let array = open(&world, quickly());
        world.bench.afflict(world.ids[1], |faults| faults.unwritable.push(BadRange::forever(8192..12288)));
        add(&world, &array).unwrap();
        assert_eq!(array.detail().degraded, 1, "{level}");
        let named = named(&world);
        assert!(named.iter().enumerate().all(|(n, &named)| named == (n != 1)), "{level}: {named:?}");
        world.write(&array, 0, &[3; 4096]).unwrap();
        world.stop(&array);
    }
}

/// The error of a refused change, which leaves all members as they were.
fn refused(world: &World<Sim>, array: &Array, chunk: Option<u64>) -> String {
    let before: Vec<_> = (0..world.ids.len()).map(|member| world.image(member)).collect();
    let error = world.io.block_on(array.set_bitmap(with(chunk))).unwrap_err();
    assert!(before == (0..world.ids.len()).map(|member| world.image(member)).collect::<Vec<_>>());
    assert!(array.detail().bitmap.is_none());
    error.to_string()
}

#[test]
fn what_cannot_have_a_bitmap_is_refused_by_name_and_nothing_changes() {
    let striped = World::in_sim(&shape(Level::Raid0, 2), Model::nvme(), 3);
    let reported = refused(&striped, &open(&striped, patient()), None);
    assert!(reported.contains("raid0 has no redundancy"), "{reported}");
    let world = World::in_sim(&shape(Level::Raid5, 3), Model::nvme(), 3);
    for chunk in [1024, 12288] {
        let reported = refused(&world, &open(&world, patient()), Some(chunk));
        assert!(reported.contains("--bitmap-chunk"), "{reported}");
    }
    let array = open(&world, patient());
    world.stop(&array);
    assert_eq!(add(&world, &array), Err(BitmapError::Volume(VolumeError::Stopping)));
}

#[test]
fn a_bitmap_stays_while_it_alone_tells_what_a_member_missed() {
    let shape = Shape { bitmap: Some(CHUNK), ..shape(Level::Raid5, 3) };
    let world = World::in_sim(&shape, Model::nvme(), 3);
    let array = open(&world, OpenConfig { recovery: Recovery::Manual, ..quickly() });
    world.write(&array, 0, &pattern(1, 65536)).unwrap();
    idle(&world, Duration::from_millis(20));
    world.io.block_on(array.fail(1)).unwrap();
    world.write(&array, 0, &[7; 4096]).unwrap();
    world.io.block_on(array.add_again(world.ids[1], "it")).unwrap();
    let error = remove(&world, &array).unwrap_err();
    assert!(matches!(error, BitmapError::Guides { .. }), "{error}");
    assert!(array.detail().bitmap.is_some() && named(&world).iter().all(|&named| named));
}
