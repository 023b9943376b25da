//! Leaves of runs: the map of data in order is small, and whatever happens to that data, there is room for the map that it needs then.

use brindle_format::pool::{Features, VdevKind};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId};
use brindle_pool::{How, Pool, PoolConfig, PoolSpec, PoolVolume, VdevSpec, create, open, plan};
use brindle_testkit::pools::house::{House, Kind, MEMBER};
use brindle_testkit::pools::reader;
use brindle_testkit::random::Random;
use brindle_volume::Volume;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A pool of four members as RAID-Z1 with the usual settings.
async fn usual(io: &Io, ids: &[MemberId], size: u64) -> Pool {
    let spec = PoolSpec {
        name: "tank".into(),
        id: Uuid::from_u128(0x7461_6e6b),
        members: (1..=4).map(Uuid::from_u128).collect(),
        opening: 1,
        created: 1_800_000_000,
        vdevs: vec![VdevSpec { kind: VdevKind::Raidz, parity: 1, sizes: vec![size; 4] }],
        unit: None,
    };
    create(io, &plan(&spec).expect("a pool that can be"), spec.opening, ids).await.expect("made");
    opened(io, ids, 2).await
}

async fn opened(io: &Io, ids: &[MemberId], opening: u64) -> Pool {
    let config = PoolConfig::new(|| 1_800_000_001);
    open(io, ids, How::writing(opening), None, config).await.expect("opened").0
}

async fn write(io: &Io, volume: &PoolVolume, block: u64, count: u64, fill: u8) {
    let buf = io.pool(8 * MIB as usize).alloc((count * BLOCK) as usize).await;
    buf.bytes_mut().fill(fill);
    volume.write(block * BLOCK, buf.all(), false).await.expect("what a pool sells it has");
}

/// Bytes of pages of the map for each block, but for the few of branches.
fn bytes_a_block(pool: &Pool, blocks: u64) -> f64 {
    (pool.status().map.pages * BLOCK) as f64 / blocks as f64
}

#[test]
fn the_map_of_data_in_order_takes_no_more_than_five_bytes_a_block() {
    for at_once in [1, 4] {
        let sim = Sim::new(7);
        let size = 128 * MIB;
        let ids: Vec<MemberId> = (0..4).map(|_| sim.add_blank_drive(Model::nvme(), size)).collect();
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = usual(&io, &ids, size).await;
            let volume = pool.create_volume("one", 192 * MIB).await.expect("room");
            for begin in (0..192).step_by(at_once) {
                let some = (begin..begin + at_once as u64).map(|n| write(&io, &volume, n * 256, 256, 7));
                join_all(some).await;
            }
            pool.checkpoint().await.expect("a checkpoint");
            let blocks = 192 * 256;
            let took = bytes_a_block(&pool, blocks);
            assert!(took <= 5.0, "{took} bytes a block, {at_once} at once");
            let map = pool.status().map;
            assert!(map.bytes < blocks * 7, "held in memory as runs: {map:?}");
            pool.stop().await.expect("stopped");
            // And so it is where the map is read again.
            let pool = opened(&io, &ids, 3).await;
            let checked = pool.check(|_| {}).await.expect("it can be gone over");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0));
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

/// A byte for each block of a volume, which is full of it: 0 of blocks that are zeroes.
struct Filled(Vec<u8>);

impl Filled {
    /// All of the volume is written in order.
    async fn written(io: &Io, volume: &PoolVolume) -> Self {
        let blocks = volume.limits().size / BLOCK;
        for block in (0..blocks).step_by(64) {
            write(io, volume, block, 64.min(blocks - block), 1).await;
        }
        Self(vec![1; blocks as usize])
    }

    /// Single blocks are written at random, some at once.
    async fn overwrite(&mut self, io: &Io, volume: &PoolVolume, count: u64, seed: u64) {
        let mut random = Random::stream(seed, 0);
        for round in 0..count / 16 {
            let mut blocks: Vec<u64> = (0..16).map(|_| random.below(self.0.len() as u64)).collect();
            blocks.sort_unstable();
            blocks.dedup();
            let fill = (round % 250) as u8 + 2;
            join_all(blocks.iter().map(|&block| write(io, volume, block, 1, fill))).await;
            blocks.iter().for_each(|&block| self.0[block as usize] = fill);
        }
    }

    /// Every third block is discarded, and here and there a range.
    async fn discard(&mut self, volume: &PoolVolume) {
        for block in (1..self.0.len()).step_by(3) {
            let count = if block.is_multiple_of(50) { 90 } else { 1 }.min(self.0.len() - block);
            volume.discard(block as u64 * BLOCK, count as u64 * BLOCK).await.expect("given back");
            self.0[block..block + count].fill(0);
        }
    }

    async fn is_held(&self, io: &Io, volume: &PoolVolume) {
        let buf = io.pool(8 * MIB as usize).alloc((256 * BLOCK) as usize).await;
        for (at, some) in (0..).step_by(256).zip(self.0.chunks(256)) {
            volume.read(at * BLOCK, buf.slice(0..some.len() * BLOCK as usize)).await.expect("read");
            for (n, (bytes, fill)) in buf.bytes().chunks(BLOCK as usize).zip(some).enumerate() {
                assert!(bytes.iter().all(|byte| byte == fill), "block {}", at + n as u64);
            }
        }
    }

    /// The same as a second reader finds it on members at rest.
    fn is_found(&self, sim: &Sim, house: &House) {
        let sizes = vec![house.size; house.ids.len()];
        let peek = |device: usize, at: u64| {
            let mut bytes = vec![0; BLOCK as usize];
            sim.peek(house.ids[device], at, &mut bytes);
            Some(bytes)
        };
        let read = reader::read(&sizes, &peek).expect("it is read");
        assert_eq!(read.miscounted, []);
        let volume = read.volumes["one"].0;
        for (block, fill) in (0..).zip(&self.0) {
            let found = read.blocks.get(&(volume, block)).cloned().unwrap_or(Some(vec![0; BLOCK as usize]));
            assert!(found.is_some_and(|bytes| bytes.iter().all(|byte| byte == fill)), "block {block}");
        }
    }
}

/// Members of some thousand blocks.
fn house(seed: u64, kind: Kind, usual: bool) -> (Sim, House) {
    let sim = Sim::new(seed);
    let mut house =
        House::of(kind, MEMBER + (120 << 16), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    house.usual = usual;
    (sim, house)
}

/// A full pool's map becomes four times as large, and there is room for it, whatever comes first: then it becomes smaller again.
#[test]
fn a_full_pool_of_data_in_order_is_overwritten_at_random_and_then_in_order() {
    let kinds =
        [(Kind::Raidz(1, 4), false), (Kind::Mirror(2), true), (Kind::Raidz(2, 5), false), (Kind::Two, true)];
    for ((kind, usual), seed) in kinds.into_iter().zip(1..) {
        let (sim, house) = house(seed, kind, usual);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let size = pool.status().capacity;
            let volume = pool.create_volume("one", size).await.expect("it is sold");
            let mut content = Filled::written(&io, &volume).await;
            pool.checkpoint().await.expect("a checkpoint");
            let (blocks, in_order) = (size / BLOCK, bytes_a_block(&pool, size / BLOCK));
            content.overwrite(&io, &volume, blocks, seed).await;
            pool.checkpoint().await.expect("a checkpoint");
            let at_random = bytes_a_block(&pool, blocks);
            // So small a map has a branch and leaves that are not full, which count.
            assert!(
                in_order < 10.0 && at_random > 1.5 * in_order && at_random < 26.0,
                "{in_order}, {at_random}"
            );
            content.is_held(&io, &volume).await;
            let content = Filled::written(&io, &volume).await;
            pool.checkpoint().await.expect("a checkpoint");
            let again = bytes_a_block(&pool, blocks);
            assert!(again < at_random * 0.7, "{again} after {at_random}");
            content.is_held(&io, &volume).await;
            let checked = pool.check(|_| {}).await.expect("it can be gone over");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0), "{checked:?}");
            pool.stop().await.expect("all are well");
            content.is_found(&sim, &house);
        });
        io.shutdown();
    }
}

/// Runs that discards have cut are as they were before the power went, and so is what was changed since the last checkpoint.
#[test]
fn runs_that_were_cut_are_found_again_after_the_power_went() {
    for features in [Features::NOW, Features { incompatible: 1, ..Features::NOW }] {
        let (sim, mut house) = house(9, Kind::Raidz(1, 3), true);
        house.features = features;
        let io = Io::new(Box::new(sim.clone()));
        let content = io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", 5000 * BLOCK).await.expect("room");
            let mut content = Filled::written(&io, &volume).await;
            pool.checkpoint().await.expect("a checkpoint");
            content.discard(&volume).await;
            content.is_held(&io, &volume).await;
            pool.checkpoint().await.expect("a checkpoint");
            content.is_held(&io, &volume).await;
            content.overwrite(&io, &volume, 500, 3).await;
            volume.flush().await.expect("flushed");
            content
        });
        sim.cut_power();
        io.shutdown();
        content.is_found(&sim, &house);
        let sim = sim.restart(10);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = house.open(&io, 2).await;
            content.is_held(&io, &pool.volume("one").expect("it is there")).await;
            pool.stop().await.expect("all are well");
        });
        content.is_found(&sim, &house);
        io.shutdown();
    }
}
