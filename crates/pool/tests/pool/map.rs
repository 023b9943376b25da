//! The map as a tree: what a checkpoint writes, what an opening reads, and how what was given back is gone through.

use brindle_format::pool::{Features, VdevKind};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Buf, Io, MemberId};
use brindle_pool::{How, Pool, PoolConfig, PoolSpec, PoolVolume, VdevSpec, create, open, plan};
use brindle_volume::{Volume, VolumeError};
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A pool of two members with so many MiB of data in order.
struct World {
    sim: Sim,
    ids: Vec<MemberId>,
    data: u64,
}

impl World {
    fn new(data: u64) -> Self {
        Self::of(data, Features::NOW)
    }

    /// The same with features of an older pool, say.
    fn of(data: u64, features: Features) -> Self {
        let sim = Sim::new(3);
        // As many segments in each, so that their table is alike.
        let size = 512 * MIB;
        let ids: Vec<MemberId> = (0..2).map(|_| sim.add_blank_drive(Model::nvme(), size)).collect();
        let spec = PoolSpec {
            name: "tank".into(),
            id: Uuid::from_u128(0x7461_6e6b),
            members: (1..=2).map(Uuid::from_u128).collect(),
            opening: 1,
            created: 1_800_000_000,
            vdevs: vec![VdevSpec { kind: VdevKind::Mirror, parity: 1, sizes: vec![size; 2] }],
            unit: None,
        };
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let mut label = plan(&spec).expect("a pool that can be");
            label.features = features;
            create(&io, &label, spec.opening, &ids).await.expect("made");
            let pool = opened(&io, &ids, 2).await;
            let volume = pool.create_volume("one", data * MIB).await.expect("room");
            let buf = io.pool(4 * MIB as usize).alloc(MIB as usize).await;
            buf.bytes_mut().fill(7);
            for at in 0..data {
                volume.write(at * MIB, buf.all(), false).await.expect("written");
            }
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
        Self { sim: sim.restart(4), ids, data }
    }

    fn io(&self) -> Io {
        Io::new(Box::new(self.sim.clone()))
    }

    fn bytes_read(&self, io: &Io) -> u64 {
        self.ids.iter().map(|&id| io.counters(id).bytes_read).sum()
    }
}

async fn opened(io: &Io, ids: &[MemberId], opening: u64) -> Pool {
    let config = PoolConfig::new(|| 1_800_000_001);
    open(io, ids, How::writing(opening), None, config).await.expect("opened").0
}

/// Checkpoints behind the first ones, which empty segments that the former opening has left nearly empty.
const ROUNDS: usize = 24;
const FIRST: usize = 8;

/// Bytes of pages that each checkpoint writes after some changes far from each other, and what an opening reads beside its labels.
fn costs(world: &World) -> (Vec<u64>, u64) {
    let io = world.io();
    let costs = io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let read = world.bytes_read(&io);
        let volume = pool.volume("one").expect("it is there");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        let mut pages = Vec::new();
        for _ in 0..ROUNDS {
            let before = pool.status().written.pages;
            for n in 0..8 {
                volume.write(n * (world.data / 8) * MIB, buf.all(), false).await.expect("written");
            }
            pool.checkpoint().await.expect("a checkpoint");
            pages.push(pool.status().written.pages - before);
        }
        pool.stop().await.expect("stopped");
        (pages, read)
    });
    io.shutdown();
    costs
}

#[test]
fn ten_times_the_map_costs_a_checkpoint_as_much_and_an_opening_too() {
    let [small, large] = [24, 240].map(|data| costs(&World::new(data)));
    let sum = |pages: &[u64]| pages[FIRST..].iter().sum::<u64>();
    assert!(sum(&large.0) * 10 <= sum(&small.0) * 12, "{small:?}, {large:?}");
    assert!(large.1 * 10 <= small.1 * 12, "read by an opening: {small:?}, {large:?}");
}

#[test]
fn what_was_given_back_is_gone_through_and_leaves_nothing_behind() {
    let world = World::new(240);
    let io = world.io();
    io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let volume = pool.volume("one").expect("it is there");
        // Both ends stay.
        volume.discard(MIB + BLOCK, (world.data - 3) * MIB).await.expect("given back");
        pool.checkpoint().await.expect("a checkpoint");
        assert!(pool.status().stored < 4 * MIB, "{} stored", pool.status().stored);
        while pool.status().busy.reaping > 0 {
            io.sleep(brindle_io::Duration::from_millis(5)).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        pool.destroy_volume("one").await.expect("destroyed");
        pool.checkpoint().await.expect("a checkpoint");
        while pool.status().busy.reaping > 0 {
            io.sleep(brindle_io::Duration::from_millis(5)).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        let checked = pool.check(|_| {}).await.expect("it can be gone over");
        assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0));
        assert_eq!(pool.status().stored, 0);
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

/// Leaves are read ahead, so that most look-ups of a reader in order find them in memory; and a status tells.
#[test]
fn a_status_tells_how_much_of_the_map_is_in_memory() {
    let world = World::new(96);
    let io = world.io();
    io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let volume = pool.volume("one").expect("it is there");
        let before = pool.status().map;
        assert!(before.pages > 96 * 256 / 1009 && before.in_memory < before.pages / 2, "{before:?}");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        for at in 0..96 * 256 {
            volume.read(at * BLOCK, buf.all()).await.expect("read");
        }
        let after = pool.status().map;
        let (asked, missed) = (after.asked - before.asked, after.missed - before.missed);
        assert_eq!((after.in_memory, asked), (after.pages, 96 * 256), "{after:?}");
        assert!(missed > 0 && missed * 2 < after.pages, "{missed} of {after:?}");
        assert!(after.bytes > 96 * 256 * 4 && after.bytes < after.limit, "{after:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_pool_with_little_memory_for_its_map_gives_all_of_it() {
    let world = World::new(240);
    let io = world.io();
    io.block_on(async {
        let config = PoolConfig { map_memory: 64 << 10, ..PoolConfig::new(|| 1_800_000_001) };
        let (pool, _) = open(&io, &world.ids, How::writing(3), None, config).await.expect("opened");
        let volume = pool.volume("one").expect("it is there");
        let buf = io.pool(4 * MIB as usize).alloc(MIB as usize).await;
        for at in 0..world.data {
            volume.read(at * 77 % world.data * MIB, buf.all()).await.expect("read");
            assert!(buf.bytes().iter().all(|byte| *byte == 7));
        }
        let checked = pool.check(|_| {}).await.expect("it can be gone over");
        // All blocks, their leaves, and a branch.
        let blocks = world.data * MIB / BLOCK;
        assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0));
        assert!((blocks + blocks / 1009..blocks + blocks / 750).contains(&checked.blocks), "{checked:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

/// Spoils all branches of the lowest level, on both members; gives how many there were.
fn rot_lowest_branches(world: &World) -> usize {
    let (mut block, mut spoilt) = (vec![0; BLOCK as usize], 0);
    for &id in &world.ids {
        for at in (MIB..511 * MIB).step_by(BLOCK as usize) {
            world.sim.peek(id, at, &mut block);
            // Its kind, the version, and its level.
            if (block[8], &block[12..16], &block[16..24]) == (8, &[2, 0, 0, 0], &1u64.to_le_bytes()) {
                world.sim.poke(id, at + 100, &[0xee; 8]);
                spoilt += 1;
            }
        }
    }
    spoilt
}

#[test]
fn a_volume_is_destroyed_though_a_page_of_its_map_is_lost() {
    // Leaves that are not of runs have branches on two levels.
    let world = World::of(240, Features { incompatible: 1, ..Features::NOW });
    assert!(rot_lowest_branches(&world) >= 4);
    let io = world.io();
    io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let one = pool.volume("one").expect("it is there");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        assert!(one.read(200 * MIB, buf.all()).await.is_err(), "its places are not known");
        pool.destroy_volume("one").await.expect("destroyed");
        pool.checkpoint().await.expect("a checkpoint");
        let two = pool.create_volume("two", 8 * MIB).await.expect("room");
        for block in 0..16 {
            two.write(block * BLOCK, buf.all(), false).await.expect("written");
            pool.checkpoint().await.expect("checkpoints go on");
        }
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn what_is_written_below_lost_branches_is_kept_and_all_else_of_them_is_lost() {
    let world = World::of(240, Features { incompatible: 1, ..Features::NOW });
    assert!(rot_lowest_branches(&world) >= 4);
    let io = world.io();
    let is = async |volume: &PoolVolume, buf: &Buf, block: u64| {
        let read = volume.read(block * BLOCK, buf.all()).await;
        read.map(|()| buf.bytes()[0])
    };
    io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let one = pool.volume("one").expect("it is there");
        let two = pool.create_volume("two", 8 * MIB).await.expect("room");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        for (volume, block) in [(&one, 3), (&one, 60_000), (&two, 5), (&one, 60_002)] {
            buf.bytes_mut().fill(block as u8);
            volume.write(block * BLOCK, buf.all(), false).await.expect("written");
            pool.checkpoint().await.expect("checkpoints go on");
        }
        one.discard(1000 * BLOCK, 2000 * BLOCK).await.expect("discarded");
        pool.checkpoint().await.expect("checkpoints go on");
        pool.stop().await.expect("stopped");
        let pool = opened(&io, &world.ids, 4).await;
        let (one, two) = (pool.volume("one").expect("there"), pool.volume("two").expect("there"));
        let lost = Err(VolumeError::TooManyLost);
        for (block, found) in [(2, lost), (3, Ok(3)), (4, lost), (999, lost), (1000, Ok(0)), (2999, Ok(0))] {
            assert_eq!(is(&one, &buf, block).await, found, "{block}");
        }
        for (block, found) in [(3000, lost), (60_000, Ok(96)), (60_001, lost), (60_002, Ok(98))] {
            assert_eq!(is(&one, &buf, block).await, found, "{block}");
        }
        assert_eq!(is(&two, &buf, 5).await, Ok(5));
        pool.destroy_volume("one").await.expect("destroyed");
        for block in 0..4 {
            two.write(block * BLOCK, buf.all(), false).await.expect("written");
            pool.checkpoint().await.expect("checkpoints go on");
        }
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

/// Memory for a map of which a fourth fits.
const LITTLE: usize = 512 << 10;

async fn opened_with_little(io: &Io, world: &World) -> Pool {
    let usual = PoolConfig::new(|| 1_800_000_001);
    let config = PoolConfig { map_memory: LITTLE, dirty_memory: PoolConfig::dirty_of(LITTLE), ..usual };
    open(io, &world.ids, How::writing(3), None, config).await.expect("opened").0
}

/// Blocks of the volume, each once, in an order that goes everywhere.
fn everywhere(world: &World, count: u64) -> impl Iterator<Item = u64> {
    let blocks = world.data * MIB / BLOCK;
    (0..count).map(move |n| n * 24_571 % blocks)
}

#[test]
fn a_pool_that_is_written_at_random_holds_the_bound_of_its_memory() {
    let world = World::new(240);
    let io = world.io();
    io.block_on(async {
        let pool = opened_with_little(&io, &world).await;
        let volume = pool.volume("one").expect("it is there");
        let before = pool.status();
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        for (n, block) in (0u32..).zip(everywhere(&world, 3000)) {
            buf.bytes_mut().fill(n as u8);
            volume.write(block * BLOCK, buf.all(), false).await.expect("written");
            let map = pool.status().map;
            assert!(map.most <= map.limit, "write {n}: {map:?}");
        }
        pool.checkpoint().await.expect("a checkpoint");
        let after = pool.status();
        assert!(after.map.most <= LITTLE as u64 && after.map.most > LITTLE as u64 / 4, "{:?}", after.map);
        assert!(after.checkpoint > before.checkpoint + 10, "{} checkpoints", after.checkpoint);
        for (n, block) in (0u32..).zip(everywhere(&world, 3000)) {
            volume.read(block * BLOCK, buf.all()).await.expect("read");
            assert!(buf.bytes().iter().all(|byte| *byte == n as u8), "block {block}");
        }
        let map = pool.status().map;
        assert!(map.most <= map.limit, "{map:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

/// So many requests at a time make batches of which one alone needs more than there is.
#[test]
fn many_writes_at_a_time_wait_for_memory_and_none_for_ever() {
    let world = World::new(240);
    let io = world.io();
    io.block_on(async {
        let pool = opened_with_little(&io, &world).await;
        let volume = pool.volume("one").expect("it is there");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        buf.bytes_mut().fill(9);
        for round in 0..8 {
            let blocks: Vec<u64> = everywhere(&world, 300 * (round + 1)).skip(300 * round as usize).collect();
            let all = blocks.iter().map(|block| volume.write(block * BLOCK, buf.all(), false));
            for written in brindle_io::sync::join_all(all).await {
                written.expect("written");
            }
            volume.discard(round * MIB, MIB / 2).await.expect("given back");
        }
        pool.checkpoint().await.expect("a checkpoint");
        let checked = pool.check(|_| {}).await.expect("it can be gone over");
        assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0));
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn memory_that_a_map_has_no_more_is_given_back() {
    // With leaves of runs the map would take less than that.
    let world = World::of(240, Features { incompatible: 1, ..Features::NOW });
    let io = world.io();
    io.block_on(async {
        let pool = opened(&io, &world.ids, 3).await;
        let volume = pool.volume("one").expect("it is there");
        let buf = io.pool(4 * MIB as usize).alloc(BLOCK as usize).await;
        for block in everywhere(&world, 2000) {
            volume.read(block * BLOCK, buf.all()).await.expect("read");
        }
        let all = pool.status().map;
        assert!(all.bytes > LITTLE as u64 / 2, "{all:?}");
        pool.set_map_memory(LITTLE / 2);
        for _ in 0..8 {
            io.yield_now().await;
        }
        let less = pool.status().map;
        assert!(less.bytes <= LITTLE as u64 / 2 && less.limit == LITTLE as u64 / 2, "{less:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
