//! Arrays of rows with parity that get more members while they are used: their data move.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use brindle_array::{Access, Array, EventKind, GrowError, GrowPlan, GrowSpec, OpenConfig, SyncMode};
use brindle_format::md::Version;
use brindle_io::sim::{BadRange, Lasts, Model, Sim, When};
use brindle_io::{Duration, Pool};
use brindle_layout::Level;
use brindle_volume::{Volume, VolumeError};

use crate::common::*;

/// A level, members before, and after.
const KINDS: [(Level, usize, usize); 4] =
    [(Level::Raid5, 2, 3), (Level::Raid5, 3, 4), (Level::Raid6, 4, 6), (Level::Raid4, 3, 4)];

fn members(count: usize) -> GrowSpec {
    GrowSpec::Members { count: count as u16, coming: 0 }
}

fn grow(world: &World<Sim>, array: &Array, spec: GrowSpec) -> Result<GrowPlan, GrowError> {
    world.io.block_on(array.grow(spec))
}

fn gone_on(world: &World<Sim>) -> Array {
    let mut assembly = world.assembly().unwrap_or_else(|error| panic!("{error}"));
    assembly.go_on();
    world.try_open(assembly, patient()).unwrap_or_else(|error| panic!("{error}"))
}

/// Moves what has not moved, and brings what is behind it in sync.
fn finish(world: &World<Sim>, array: &Array, what: &str) {
    if array.is_moving() {
        world.io.block_on(array.reshape(|_| ())).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    if array.needs_resync() {
        world.io.block_on(array.resync(|_| ())).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let checked = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(checked.mismatch_sectors, 0, "{what}");
}

/// An array with as many spares as it is to get, and its content. Of odd seeds: with a write-intent bitmap.
fn filled(level: Level, from: usize, to: usize, model: Model, seed: u64) -> (World<Sim>, Array, Vec<u8>) {
    let bitmap = Some(4096).filter(|_| seed % 2 == 1);
    let shape = Shape { spares: to - from, bitmap, ..Shape::new(level, from) };
    let world = World::in_sim(&shape, model, seed);
    let array = world.open();
    let content = pattern(9, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    world.io.block_on(array.flush()).unwrap();
    (world, array, content)
}

#[test]
fn data_move_into_rows_of_more_members() {
    for (level, from, to) in KINDS {
        let what = format!("{level} {from} {to}");
        let (world, array, content) = filled(level, from, to, Model::nvme(), 3);
        let before = content.len() as u64;
        let plan = grow(&world, &array, members(to)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((plan.moved(), array.limits().size), (before, before), "{what}");
        assert!(array.is_moving() && array.detail().reshaping, "{what}");
        assert_eq!(whole(&world, &array), content, "{what}");
        world.io.block_on(array.reshape(|_| ())).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!array.is_moving() && !array.detail().reshaping, "{what}");
        let after = array.limits().size;
        assert_eq!(after, plan.to.size(), "{what}");
        assert!(after > before, "{what}");
        assert_eq!(world.read(&array, 0, before as usize).unwrap(), content, "{what}");
        finish(&world, &array, &what);
        world.write(&array, after - 4096, &pattern(4, 4096)).unwrap();
        world.stop(&array);
        drop(array);
        let world = world.restart(4);
        for sb in world.superblocks() {
            assert_eq!((sb.raid_disks, sb.reshape), (to as u32, None), "{what}");
        }
        let array = world.open();
        assert_eq!((array.limits().size, array.needs_resync()), (after, false), "{what}");
        assert_eq!(world.read(&array, 0, before as usize).unwrap(), content, "{what}");
        assert_eq!(world.read(&array, after - 4096, 4096).unwrap(), pattern(4, 4096), "{what}");
        world.stop(&array);
    }
}

#[test]
fn what_can_not_be_is_refused_and_nothing_changes() {
    let (world, array, _) = filled(Level::Raid5, 3, 4, Model::nvme(), 3);
    let before = world.superblocks();
    let refused = |count| grow(&world, &array, members(count)).unwrap_err();
    assert_eq!(refused(3), GrowError::SameMembers { count: 3 });
    assert_eq!(refused(2), GrowError::Fewer { level: Level::Raid5 });
    assert_eq!(refused(5), GrowError::Spares { wanted: 2, has: 1 });
    assert_eq!(world.superblocks(), before);
    world.stop(&array);
    for version in [Version::V1_0, METADATA[3].0] {
        let shape = Shape { spares: 1, ..Shape::new(Level::Raid5, 3) }.metadata(version, 0);
        let world = World::in_sim(&shape, Model::nvme(), 3);
        let array = world.open();
        let refused = grow(&world, &array, members(4)).unwrap_err();
        assert!(matches!(refused, GrowError::NoRoomBefore { room: 0, .. }), "{refused}");
        world.stop(&array);
    }
}

/// The power goes before each step in turn, from the call on to the end of the reshape; gives how many there were.
fn cut_everywhere(level: Level, from: usize, to: usize, bitmap: bool, again: bool) -> u64 {
    for cut in 1.. {
        let what = format!("{level} {from} {to} cut {cut}");
        // Members that forget what was not flushed.
        let model = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let (world, array, content) = filled(level, from, to, model, cut * 2 + u64::from(bitmap));
        let before = content.len() as u64;
        world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
        let moved = async {
            array.grow(members(to)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            array.reshape(|_| ()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        };
        let ended = world.io.block_on(world.bench.until_end(&world.io, moved));
        drop(array);
        if ended.is_some() {
            return cut;
        }
        let mut world = world.restart(cut + 1);
        // A read-only open finds all of it.
        let assembly = world.assembly().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(assembly.degraded().is_empty(), "{what}: {:?}", assembly.roles);
        let read_only = OpenConfig::new(Access::ReadOnly, || NOW);
        let array = world.try_open(assembly, read_only).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(whole(&world, &array)[..before as usize] == content, "{what}: read-only");
        world.stop(&array);
        drop(array);
        if again {
            let array = gone_on(&world);
            world.bench.cut_power_at(When::Step(world.bench.steps() + cut % 17 + 1));
            let moved = async {
                if array.is_moving() {
                    array.reshape(|_| ()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                }
            };
            let _ended = world.io.block_on(world.bench.until_end(&world.io, moved));
            drop(array);
            world = world.restart(cut + 2);
        }
        let array = gone_on(&world);
        assert!(world.read(&array, 0, before as usize).unwrap() == content, "{what}: before it goes on");
        if array.limits().size == before && !array.is_moving() {
            // It had not begun.
            if array.needs_resync() {
                world.io.block_on(array.resync(|_| ())).unwrap();
            }
            grow(&world, &array, members(to)).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        finish(&world, &array, &what);
        assert_eq!(array.geometry().members(), to as u16, "{what}");
        assert!(world.read(&array, 0, before as usize).unwrap() == content, "{what}: after its end");
        assert!(array.limits().size > before, "{what}");
        world.stop(&array);
    }
    0
}

#[test]
fn whenever_the_power_goes_all_is_there_and_it_goes_on() {
    for (n, (level, from, to)) in KINDS.into_iter().enumerate() {
        for bitmap in [false, true] {
            let cuts = cut_everywhere(level, from, to, bitmap, bitmap ^ (n % 2 == 1));
            assert!(cuts > 60, "{level} {from} {bitmap}: {cuts}");
        }
    }
}

#[test]
fn clients_write_on_both_sides_meanwhile() {
    for (level, from, to) in KINDS {
        let what = format!("{level} {from} {to}");
        let (world, array, mut content) = filled(level, from, to, Model::sata_ssd(), 3);
        let size = content.len() as u64;
        grow(&world, &array, members(to)).unwrap();
        let moving = world.io.spawn({
            let array = array.clone();
            async move { array.reshape(|_| ()).await }
        });
        let lanes: Vec<_> = (0..6_u64)
            .map(|lane| {
                let (array, pool) = (array.clone(), world.pool.clone());
                world.io.spawn(async move {
                    let mut random = Random::stream(lane, 5);
                    let (blocks, mut last) = (size / 512 / 6, std::collections::BTreeMap::new());
                    for round in 0..200 {
                        let count = 1 + random.below(24.min(blocks));
                        let at = lane * blocks + random.below(blocks - count + 1);
                        let bytes = pattern(lane * 1000 + round, count as usize * 512);
                        write(&pool, &array, at * 512, &bytes).await.unwrap();
                        assert_eq!(read(&pool, &array, at * 512, bytes.len()).await.unwrap(), bytes);
                        for (n, block) in (at..).zip(bytes.chunks(512)) {
                            last.insert(n, block.to_vec());
                        }
                    }
                    last
                })
            })
            .collect();
        let last = world.io.block_on(async {
            let last = brindle_io::sync::join_all(lanes).await;
            moving.await.unwrap_or_else(|error| panic!("{what}: {error}"));
            last
        });
        for (block, bytes) in last.into_iter().flatten() {
            content[block as usize * 512..][..512].copy_from_slice(&bytes);
        }
        assert!(world.read(&array, 0, size as usize).unwrap() == content, "{what}");
        finish(&world, &array, &what);
        world.stop(&array);
    }
}

#[test]
fn a_member_that_dies_leaves_it_going_on() {
    for (level, from, to) in KINDS {
        for lost in [0, from - 1, to - 1] {
            for after in [0, 1, 2, 5, 9] {
                let what = format!("{level} {from} {to} without {lost} after {after}");
                let (world, array, content) = filled(level, from, to, Model::sata_ssd(), 3);
                grow(&world, &array, members(to)).unwrap();
                let moving = world.io.spawn({
                    let array = array.clone();
                    async move { array.reshape(|_| ()).await }
                });
                world.io.block_on(async {
                    world.io.sleep(Duration::from_millis(after)).await;
                    let failed = array.fail(lost as u16).await;
                    assert!(matches!(failed, Ok(()) | Err(VolumeError::Stopping)), "{what}: {failed:?}");
                    moving.await.unwrap_or_else(|error| panic!("{what}: {error}"));
                });
                assert!(world.read(&array, 0, content.len()).unwrap() == content, "{what}");
                world.stop(&array);
                drop(array);
                let world = world.restart(5).without(&[lost]);
                let array = world.open();
                assert!(world.read(&array, 0, content.len()).unwrap() == content, "{what}: once more");
                world.stop(&array);
            }
        }
    }
}

/// Bytes of the array that can't be read, sector by sector; all others are as they were written.
fn unreadable(world: &World<Sim>, array: &Array, content: &[u8], what: &str) -> Vec<u64> {
    let mut bad = Vec::new();
    for (at, sector) in (0..).step_by(512).zip(content.chunks(512)) {
        match world.read(array, at, 512) {
            Ok(read) => assert!(read == sector, "{what}: byte {at} is what was never written"),
            Err(_) => bad.push(at),
        }
    }
    bad
}

#[test]
fn a_place_of_which_nothing_is_left_is_bad_in_the_new_rows_and_all_else_moves() {
    // In a member's data area, beyond the first row.
    const ROT: Range<u64> = 5 * 4096 + 512..5 * 4096 + 2048;
    for (n, (level, from, to)) in (0..).zip(KINDS) {
        for cut in [0, 40, 90, 150] {
            let what = format!("{level} {from} {to} cut {cut}");
            let (world, array, content) = filled(level, from, to, Model::nvme(), n);
            let start = world.superblock(0).data_offset;
            let rotten = if level == Level::Raid6 { 3 } else { 2 };
            for member in 0..rotten {
                let range = start + ROT.start..start + ROT.end;
                let rot = BadRange { range, lasts: Lasts::UntilWritten };
                world.bench.afflict(world.ids[member], |faults| faults.unreadable.push(rot));
            }
            let data = (0..rotten as u16).flat_map(|role| array.array_ranges(role, ROT));
            let mut lost: Vec<u64> = data.flat_map(|range| range.step_by(512)).collect();
            lost.sort_unstable();
            assert!(!lost.is_empty(), "{what}");
            if cut > 0 {
                world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
            }
            let moved = async {
                array.grow(members(to)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                array.reshape(|_| ()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            };
            let ended = world.io.block_on(world.bench.until_end(&world.io, moved));
            let (world, array) = match ended {
                Some(()) => (world, array),
                None => {
                    drop(array);
                    let world = world.restart(3);
                    let array = gone_on(&world);
                    assert_eq!(unreadable(&world, &array, &content, &what), lost, "{what}: on the way");
                    if array.is_moving() {
                        world.io.block_on(array.reshape(|_| ())).unwrap();
                    }
                    (world, array)
                }
            };
            assert_eq!(unreadable(&world, &array, &content, &what), lost, "{what}");
            if array.geometry().members() == from as u16 {
                assert!(cut == 40, "{what}: it had not begun");
                continue;
            }
            let reported = array.events_since(0).into_iter().any(|event| event.kind == EventKind::Unmoved);
            assert!(reported || cut > 0, "{what}");
            world.stop(&array);
            drop(array);
            let world = world.restart(4);
            let array = world.open();
            assert_eq!(unreadable(&world, &array, &content, &what), lost, "{what}: in the next run");
            // Written anew it is there again, and redundant. A row that lacks several blocks in a place takes them together only.
            world.write(&array, 0, &content).unwrap();
            assert!((0..to as u16).all(|role| array.bad_blocks(role).is_empty()), "{what}");
            finish(&world, &array, &what);
            assert!(unreadable(&world, &array, &content, &what).is_empty(), "{what}: written anew");
            world.stop(&array);
        }
    }
}

/// The content that each block of 512 bytes may have: the last change that was acknowledged as stable, and the one under way.
struct Blocks {
    stable: Vec<Vec<u8>>,
    under_way: Vec<Option<Vec<u8>>>,
}

impl Blocks {
    fn of(content: &[u8]) -> Rc<RefCell<Self>> {
        let stable: Vec<Vec<u8>> = content.chunks(512).map(<[u8]>::to_vec).collect();
        let under_way = vec![None; stable.len()];
        Rc::new(RefCell::new(Self { stable, under_way }))
    }

    /// A start finds this: from then on it is what stands there.
    fn found(&mut self, content: &[u8], what: &str) {
        for (at, found) in content.chunks(512).enumerate().take(self.stable.len()) {
            let may_be = self.under_way[at].take().is_some_and(|under_way| under_way == found);
            assert!(may_be || self.stable[at] == found, "{what}: block {at}");
            self.stable[at] = found.to_vec();
        }
    }
}

/// Writes to a part of the array, each write to stable storage, until one fails.
async fn client(array: Array, pool: Pool, blocks: Rc<RefCell<Blocks>>, part: Range<u64>, seed: u64) {
    let mut random = Random::stream(seed, 11);
    for round in 0.. {
        let count = 1 + random.below(40.min(part.end - part.start));
        let at = part.start + random.below(part.end - part.start - count + 1);
        let bytes = pattern(seed * 10_000 + round, count as usize * 512);
        for (block, new) in (at as usize..).zip(bytes.chunks(512)) {
            blocks.borrow_mut().under_way[block] = Some(new.to_vec());
        }
        let buf = pool.alloc(bytes.len()).await;
        buf.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        if array.write(at * 512, [buf.slice(0..bytes.len())], true).await.is_err() {
            return;
        }
        let mut blocks = blocks.borrow_mut();
        for (block, new) in (at as usize..).zip(bytes.chunks(512)) {
            (blocks.stable[block], blocks.under_way[block]) = (new.to_vec(), None);
        }
    }
}

/// Power cuts while clients write, until all has moved; gives how many there were.
fn storm(seed: u64) -> u64 {
    let mut random = Random::stream(seed, 3);
    let (level, from, to) = KINDS[random.below(KINDS.len() as u64) as usize];
    let model = Model { flush_latency: 150_000, ..Model::sata_ssd() };
    let (mut world, mut array, content) = filled(level, from, to, model, seed);
    let (blocks, size) = (Blocks::of(&content), content.len() as u64);
    for boot in 0.. {
        let what = format!("seed {seed}: {level} {from} {to}, boot {boot}");
        if array.needs_resync() && !array.is_moving() {
            world.io.block_on(array.resync(|_| ())).unwrap();
        }
        if array.limits().size == size && !array.is_moving() {
            grow(&world, &array, members(to)).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        if boot == 0 && random.one_in(4) {
            // A member is lost while redundancy is true: the array goes on without it. After a cut it would take force.
            let lost = random.below(to as u64) as u16;
            let moved = async {
                let moving = world.io.spawn({
                    let array = array.clone();
                    async move { array.reshape(|_| ()).await }
                });
                world.io.sleep(Duration::from_micros(random.below(4000))).await;
                array.fail(lost).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                moving.await
            };
            world.io.block_on(moved).unwrap_or_else(|error| panic!("{what}: {error}"));
            blocks.borrow_mut().found(&world.read(&array, 0, size as usize).unwrap(), &what);
            world.stop(&array);
            return boot;
        }
        world.bench.cut_power_at(When::Step(world.bench.steps() + 1 + random.below(900)));
        let part = size / 512 / 3;
        let clients: Vec<_> = (0..3)
            .map(|n| {
                let seed = seed * 100 + boot * 10 + n;
                let work = client(
                    array.clone(),
                    world.pool.clone(),
                    Rc::clone(&blocks),
                    n * part..(n + 1) * part,
                    seed,
                );
                world.io.spawn(work)
            })
            .collect();
        let moved = world.io.block_on(world.bench.until_end(&world.io, array.reshape(|_| ())));
        if moved.is_none() {
            drop((array, clients));
            world = world.restart(seed + boot + 1);
            array = gone_on(&world);
            blocks.borrow_mut().found(&world.read(&array, 0, size as usize).unwrap(), &what);
            continue;
        }
        let stopped = world.io.block_on(world.bench.until_end(&world.io, async {
            let _stopped = array.stop().await;
            brindle_io::sync::join_all(clients).await;
        }));
        drop((array, stopped));
        world = world.restart(seed + boot + 1);
        array = gone_on(&world);
        blocks.borrow_mut().found(&world.read(&array, 0, size as usize).unwrap(), &what);
        finish(&world, &array, &what);
        world.stop(&array);
        return boot;
    }
    0
}

#[test]
fn clients_lose_nothing_that_was_stable_whenever_the_power_goes() {
    let count = std::env::var("BRINDLE_STORM_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let cuts: u64 = (first..first + count).map(storm).sum();
    assert!(cuts > count / 2, "{cuts}");
}
