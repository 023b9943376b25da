//! Write-intent bitmaps in files: kept as those beside superblocks are.

mod absent;
mod failed;
mod moved;
mod refused;

use brindle_array::{Array, BitmapError, BitmapFile, BitmapSpec, EventKind, OpenConfig, Recovery, SyncMode};
use brindle_format::md::Version;
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, MemberId, Task};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::assembly::{Assembly, BitmapFault};
use brindle_md::create::{CreateSpec, NewBitmap};
use brindle_volume::Volume;

use crate::common::*;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)];

const CHUNK: u64 = 8192;

/// Bytes of a file.
const ROOM: u64 = 8192;

fn shape(level: Level, members: usize) -> Shape {
    Shape { rows: 32, ..Shape::new(level, members) }
}

fn quickly() -> OpenConfig {
    OpenConfig { daemon_sleep: Some(Duration::from_millis(1)), ..patient() }
}

/// Members that forget what was not flushed.
fn forgetful() -> Model {
    Model { flush_latency: 150_000, ..Model::sata_ssd() }
}

/// An assembly that was given the file.
fn given(world: &World<Sim>, file: MemberId) -> Assembly {
    let mut assembly = world.assembly().unwrap();
    assembly.bitmap_file = Some(BitmapFile::open("file", file));
    assembly
}

fn open(world: &World<Sim>) -> Array {
    world.try_open(world.assembly().unwrap(), quickly()).unwrap()
}

fn open_with(world: &World<Sim>, file: MemberId) -> Array {
    world.try_open(given(world, file), quickly()).unwrap()
}

fn to(file: Option<MemberId>, chunk: u64) -> BitmapSpec {
    let file = file.map(|id| BitmapFile::open("file", id));
    BitmapSpec { file, chunk: Some(chunk), write_behind: None }
}

fn set(world: &World<Sim>, array: &Array, spec: BitmapSpec) -> Result<(), BitmapError> {
    world.io.block_on(array.set_bitmap(spec))
}

/// The content of a bitmap file: its superblock, and the numbers of the set bits.
fn in_file(world: &World<Sim>, file: MemberId) -> (BitmapSuper, Vec<u64>) {
    let mut bytes = vec![0; ROOM as usize];
    world.bench.peek(file, 0, &mut bytes);
    let head = BitmapSuper::parse(&bytes).unwrap();
    let bits = &bytes[BITMAP_SUPER_BYTES..];
    let set = (0..head.bits()).filter(|bit| bits[(bit / 8) as usize] >> (bit % 8) & 1 == 1).collect();
    (head, set)
}

fn mismatches(world: &World<Sim>, array: &Array) -> u64 {
    world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors
}

/// Bytes that members are read by a resync.
fn resynced(world: &World<Sim>, array: &Array) -> u64 {
    let read = || world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum::<u64>();
    let before = read();
    world.io.block_on(array.resync(|_| ())).unwrap();
    read() - before
}

fn named(world: &World<Sim>) -> Vec<bool> {
    world.superblocks().iter().map(|sb| sb.bitmap_offset.is_some()).collect()
}

fn reported(array: &Array) -> Vec<EventKind> {
    array.events_since(0).into_iter().map(|event| event.kind).collect()
}

/// An array with its bitmap in a file, all of whose bits are clear.
fn filed(shape: &Shape) -> (World<Sim>, Array, MemberId) {
    let world = World::in_sim(shape, forgetful(), 3);
    let file = world.bench.add_blank_drive(forgetful(), ROOM);
    let array = open(&world);
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    set(&world, &array, to(Some(file), CHUNK)).unwrap();
    idle(&world, Duration::from_millis(20));
    assert_eq!(in_file(&world, file).1, [0; 0]);
    (world, array, file)
}

#[test]
fn after_a_crash_the_file_tells_what_is_to_be_resynced_and_without_it_all_is() {
    for (level, members) in REDUNDANT {
        for (version, table) in METADATA {
            let what = format!("{level} {version} {table}");
            let shape = Shape { spares: 1, ..shape(level, members) }.metadata(version, table);
            let (world, array, file) = filed(&shape);
            assert_eq!(reported(&array), [EventKind::BitmapAdded], "{what}");
            assert!(named(&world).iter().all(|&named| !named), "{what}: no superblock names it");
            let detail = array.detail().bitmap.unwrap();
            assert_eq!((detail.file.map(|file| file.label), detail.failed), (Some("file".into()), false));
            let (head, _) = in_file(&world, file);
            assert_eq!((head.events, head.chunk), (world.superblock(0).events, CHUNK), "{what}");
            assert_eq!(head.uuid, world.superblock(0).bitmap_uuid(), "{what}");
            world.write(&array, 0, &pattern(2, 512)).unwrap();
            let (_, set) = in_file(&world, file);
            assert_eq!(set[0], 0, "{what}: stable before the data");
            world.bench.cut_power();
            drop(array);
            let world = world.restart(4);
            // Twice: the file is found as it was left, since nothing has been written.
            for _ in 0..2 {
                let array = open_with(&world, file);
                assert_eq!(array.detail().bitmap.unwrap().dirty, set.len() as u64, "{what}");
                assert!(array.needs_resync());
            }
            let array = open_with(&world, file);
            let (read, covered) = (resynced(&world, &array), set.len() as u64 * CHUNK * members as u64);
            assert!(read <= covered && read > 0, "{what}: {read} of {covered}");
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            world.write(&array, 8192, &pattern(3, 512)).unwrap();
            world.bench.cut_power();
            drop(array);
            // Without the file nothing tells of it; and it has missed what was written meanwhile.
            let world = world.restart(5);
            let array = open(&world);
            assert!(array.detail().bitmap.is_none());
            let least = array.sync_len();
            assert!(resynced(&world, &array) >= least, "{what}: all of it");
            world.write(&array, 0, &pattern(4, 512)).unwrap();
            world.bench.cut_power();
            drop(array);
            let world = world.restart(6);
            let array = open_with(&world, file);
            let detail = array.detail().bitmap.unwrap();
            assert_eq!(detail.dirty, detail.bits, "{what}: it is stale");
            assert!(resynced(&world, &array) >= least, "{what}");
            world.stop(&array);
            assert_eq!(in_file(&world, file).1, [0; 0], "{what}: it is kept again");
            assert_eq!(in_file(&world, file).0.events, world.superblock(0).events);
        }
    }
}

/// Begins to write here and there.
fn write_about(world: &World<Sim>, array: &Array, lanes: u64) -> Vec<Task<()>> {
    let writers = (0..lanes).map(|lane| {
        let (array, pool) = (array.clone(), world.pool.clone());
        world.io.spawn(async move {
            let mut random = Random::stream(lane, 7);
            let size = array.limits().size;
            for _ in 0..8 {
                let offset = random.below(size / 512 - 16) * 512;
                let _written = write(&pool, &array, offset, &pattern(lane, 4096)).await;
            }
        })
    });
    writers.collect()
}

/// Opens the array with the first of the files that it takes, if it takes one; which.
fn open_with_any(world: &World<Sim>, files: &[MemberId], what: &str) -> (Array, Option<MemberId>) {
    let config = OpenConfig { daemon_sleep: Some(Duration::from_micros(100)), ..patient() };
    for &file in files {
        match world.try_open(given(world, file), config.clone()) {
            Ok(array) => return (array, Some(file)),
            Err(OpenError::Bitmap { why: BitmapFault::Beside | BitmapFault::Damaged(_), .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    (world.try_open(world.assembly().unwrap(), config).unwrap(), None)
}

/// After a cut: redundancy is in sync again after what the bitmap tells was resynced, whichever bitmap is found.
fn judge_after_cut(world: &World<Sim>, files: &[MemberId], members: usize, what: &str) -> Option<MemberId> {
    let assembly = world.assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(assembly.degraded().is_empty(), "{what}");
    let (array, file) = open_with_any(world, files, what);
    if array.needs_resync() {
        world.io.block_on(array.resync(|_| ())).unwrap();
    }
    assert_eq!(mismatches(world, &array), 0, "{what}: no bit told of it, with {file:?}");
    world.write(&array, 0, &[1; 4096]).unwrap();
    let named = named(world);
    let inside = array.detail().bitmap.is_some_and(|bitmap| bitmap.file.is_none());
    assert!(named.iter().take(members).all(|&one| one == inside), "{what}: {named:?}");
    world.stop(&array);
    file
}

#[test]
fn a_member_that_was_away_is_given_what_the_file_tells() {
    for (level, members) in REDUNDANT {
        let shape = shape(level, members);
        let world = World::in_sim(&shape, Model::nvme(), 3);
        let file = world.bench.add_blank_drive(Model::nvme(), ROOM);
        let config = OpenConfig { recovery: Recovery::Automatic, ..quickly() };
        let array = world.try_open(world.assembly().unwrap(), config.clone()).unwrap();
        world.write(&array, 0, &pattern(5, array.limits().size as usize)).unwrap();
        set(&world, &array, to(Some(file), CHUNK)).unwrap();
        idle(&world, Duration::from_millis(20));
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 0, &[7; 4096]).unwrap();
        let read = || world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum::<u64>();
        let before = read();
        let whole = async || {
            while array.detail().degraded > 0 || array.process().is_some() {
                world.io.sleep(Duration::from_micros(100)).await;
            }
        };
        world.io.block_on(array.add_again(world.ids[1], "it")).unwrap();
        world.io.block_on(whole());
        assert!(read() - before < array.sync_len(), "{level}: {}", read() - before);
        assert_eq!(mismatches(&world, &array), 0, "{level}");
        // Over a crash, too; and after the file has failed it is given all.
        world.io.block_on(array.fail(1)).unwrap();
        world.write(&array, 65536, &[8; 4096]).unwrap();
        world.stop(&array);
        drop(array);
        let world = world.restart(4);
        let array = world.try_open(given(&world, file), config).unwrap();
        world.io.block_on(array.add_again(world.ids[1], "it")).unwrap();
        world.bench.kill(file);
        world.write(&array, 32768, &[9; 4096]).unwrap();
        let whole = async || {
            while array.detail().degraded > 0 || array.process().is_some() {
                world.io.sleep(Duration::from_micros(100)).await;
            }
        };
        world.io.block_on(whole());
        assert_eq!(mismatches(&world, &array), 0, "{level}");
        world.stop(&array);
    }
}

#[test]
fn a_new_array_has_its_bitmap_in_a_file_with_all_bits_set() {
    for (level, members) in REDUNDANT {
        let mut spec = spec(level, members, Version::V1_2);
        spec.bitmap = NewBitmap::File { chunk: None };
        let plan = planned(&spec);
        let content = plan.bitmap_file.unwrap();
        let head = BitmapSuper::parse(&content).unwrap();
        // mdadm's smallest chunk for such a bitmap.
        assert_eq!((head.chunk, content.len() % 4096), (4096, 0), "{level}");
        assert!(content[BITMAP_SUPER_BYTES..].iter().all(|&byte| byte == 0xff));
        assert!(plan.bitmaps.is_empty() && superblocks(&spec).iter().all(|sb| sb.bitmap_offset.is_none()));
        // The members are as those of an array without.
        let plain = planned(&CreateSpec { bitmap: NewBitmap::None, ..spec.clone() });
        assert_eq!(plan.superblocks, plain.superblocks, "{level}");
        let world = World::create(&spec);
        let mut assembly = world.assembly().unwrap();
        let file = BitmapFile { label: "file".into(), id: None };
        assert_eq!(assembly.accept_bitmap(file, &content, content.len() as u64), Ok(()), "{level}");
        assert!(!assembly.is_bitmap_file_stale());
    }
    let mut striped = spec(Level::Raid0, 2, Version::V1_2);
    striped.bitmap = NewBitmap::File { chunk: None };
    let error = brindle_md::create::plan(&striped).unwrap_err();
    assert!(error.to_string().contains("leave --bitmap out"), "{error}");
}
