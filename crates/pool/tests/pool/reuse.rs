//! Segments are used again between checkpoints: cleaning goes on without any, and a power cut finds all that was flushed.

use core::cell::Cell;
use std::rc::Rc;

use brindle_format::pool::Features;
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{How, Pool, PoolConfig, PoolVolume, open};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::pools::reader;
use brindle_testkit::random::Random;
use brindle_volume::Volume;

const BLOCK: usize = 4096;
/// Units of a member: as many as need several pages of the table of segments.
const UNITS: u64 = 700;

/// The bytes of a block after so many writes of it.
fn bytes(block: u64, times: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..].copy_from_slice(&times.to_le_bytes());
    bytes
}

fn house(seed: u64, features: Features) -> (Sim, House) {
    let sim = Sim::new(seed);
    let size = (2 << 20) + (UNITS << 16);
    let mut house = House::of(Kind::Raidz(1, 3), size, |size| sim.add_blank_drive(Model::nvme(), size));
    // Checkpoints are due when other things want them.
    (house.changes, house.features) = (1 << 20, features);
    (sim, house)
}

/// Writes blocks of the volume at random, eight at a time, and notes how often each was written.
async fn overwrite(io: &Io, volume: &PoolVolume, times: &mut [u64], count: u64, seed: u64) {
    let (mut random, memory) = (Random::stream(seed, 7), io.pool(1 << 20));
    for _ in 0..count {
        let some: Vec<u64> = (0..8).map(|n| random.below(times.len() as u64 / 8) * 8 + n).collect();
        let writes = some.into_iter().map(|block| {
            times[block as usize] += 1;
            let (volume, memory, content) =
                (volume.clone(), memory.clone(), bytes(block, times[block as usize]));
            io.spawn(async move {
                let buf = memory.alloc(BLOCK).await;
                buf.bytes_mut().fill(0);
                buf.bytes_mut()[..16].copy_from_slice(&content);
                volume.write(block << 12, buf.all(), false).await.expect("room");
            })
        });
        brindle_io::sync::join_all(writes.collect::<Vec<_>>()).await;
    }
}

/// Opens the pool; all of its map stays in memory.
async fn opened(io: &Io, house: &House, opening: u64) -> Pool {
    let config = PoolConfig { map_memory: 4 << 20, ..house.config() };
    let how = How::writing(opening);
    open(io, &house.ids, how, None, config).await.expect("a pool that is well").0
}

async fn holds(io: &Io, pool: &Pool, times: &[u64]) {
    let volume = pool.volume("one").expect("it is there");
    let buf = io.pool(1 << 20).alloc(BLOCK).await;
    for (block, &times) in (0..).zip(times) {
        volume.read(block << 12, buf.all()).await.expect("read");
        let expected = if times > 0 { bytes(block, times) } else { [0; 16] };
        assert_eq!(buf.bytes()[..16], expected, "block {block}");
    }
    let found = pool.check(|_| {}).await.expect("it can be gone over");
    assert_eq!((found.wrong, found.lost, found.mismatches), (0, 0, 0));
}

/// The second reader finds the counts of live blocks right, and as many blocks.
fn second(sim: &Sim, house: &House, times: &[u64]) {
    let peek = |device: usize, at: u64| {
        let mut bytes = vec![0; BLOCK];
        sim.peek(house.ids[device], at, &mut bytes);
        Some(bytes)
    };
    let read = reader::read(&vec![house.size; house.ids.len()], &peek).expect("it is read");
    assert_eq!(read.miscounted, []);
    let volume = read.volumes["one"].0;
    for (block, &times) in (0..).zip(times).filter(|(_, times)| **times > 0) {
        let found = read.blocks.get(&(volume, block)).cloned().flatten();
        assert_eq!(
            found.map(|found| found[..16].to_vec()),
            Some(bytes(block, times).to_vec()),
            "block {block}"
        );
    }
}

/// Overwrites a pool until segments have become free many times; gives these, and checkpoints.
fn wears(features: Features) -> (u64, u64) {
    let (mut sim, house) = house(3, features);
    let io = Io::new(Box::new(sim.clone()));
    let mut times = Vec::new();
    io.block_on(async {
        house.create(&io).await;
        let pool = opened(&io, &house, 2).await;
        let blocks = (pool.status().capacity >> 12) / 8 * 8;
        times = vec![0; blocks as usize];
        pool.create_volume("one", blocks << 12).await.expect("room");
        pool.stop().await.expect("it stops");
    });
    let (mut freed, mut checkpoints) = (0, 0);
    for round in 0..4u64 {
        sim = sim.restart(round);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = opened(&io, &house, 3 + round).await;
            holds(&io, &pool, &times).await;
            let (volume, before) = (pool.volume("one").expect("it is there"), pool.status());
            overwrite(&io, &volume, &mut times, 2000, round).await;
            if round == 2 {
                // Leaves that nobody has read are given back, and segments were used again since they were written.
                let half = times.len() / 2;
                volume.discard((half << 12) as u64, (half << 12) as u64).await.expect("given back");
                times[half..].fill(0);
                pool.checkpoint().await.expect("a checkpoint");
                overwrite(&io, &volume, &mut times[..half], 500, 77).await;
            }
            volume.flush().await.expect("flushed");
            let status = pool.status();
            freed += status.busy.freed - before.busy.freed;
            checkpoints += status.checkpoint - before.checkpoint;
        });
        sim.cut_power();
        io.shutdown();
        second(&sim, &house, &times);
    }
    (freed, checkpoints)
}

#[test]
fn segments_are_used_again_without_checkpoints_and_nothing_is_lost() {
    let (freed, checkpoints) = wears(Features::NOW);
    assert!(freed > 400 && checkpoints * 15 < freed, "{freed} became free by {checkpoints} checkpoints");
}

/// A pool that was made without the feature has a checkpoint for each time that segments become free.
#[test]
fn a_pool_of_before_stays_what_it_is() {
    let (freed, checkpoints) = wears(Features::default());
    assert!(freed > 400 && checkpoints * 200 > freed, "{freed} became free by {checkpoints} checkpoints");
}

/// Moves under way come to their end before a pool has stopped: the next opening gives their segments to others.
#[test]
fn nothing_of_a_pool_is_written_once_it_has_stopped() {
    let (sim, house) = house(5, Features::NOW);
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        house.create(&io).await;
        let pool = opened(&io, &house, 2).await;
        let blocks = (pool.status().capacity >> 12) / 8 * 8;
        let mut times = vec![0; blocks as usize];
        pool.create_volume("one", blocks << 12).await.expect("room");
        overwrite(&io, &pool.volume("one").expect("it is there"), &mut times, blocks / 4, 1).await;
        let (mut pool, mut cleaned) = (pool, 0);
        for round in 0..8 {
            overwrite(&io, &pool.volume("one").expect("it is there"), &mut times, 100, 2 + round).await;
            cleaned += usize::from(pool.status().busy.cleaning);
            pool.stop().await.expect("it stops");
            let busy = pool.status().busy;
            assert!(busy.batches == 0 && !busy.cleaning, "{busy:?}");
            pool = opened(&io, &house, 3 + round).await;
        }
        assert!(cleaned > 2, "it was cleaned {cleaned} times");
        holds(&io, &pool, &times).await;
        pool.stop().await.expect("it stops");
    });
    io.shutdown();
}

/// Pages of the map move while they are gone over, and others stand in their old places by then.
#[test]
fn a_check_beside_checkpoints_finds_all_pages_right() {
    let (sim, house) = house(5, Features::default());
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        house.create(&io).await;
        let config = PoolConfig { map_memory: 64 << 10, ..house.config() };
        let (pool, _) = open(&io, &house.ids, How::writing(2), None, config).await.expect("opened");
        let blocks = (pool.status().capacity >> 12) / 8 * 8;
        let volume = pool.create_volume("one", blocks << 12).await.expect("room");
        let mut times = vec![0; blocks as usize];
        overwrite(&io, &volume, &mut times, 3000, 1).await;
        let is_over = Rc::new(Cell::new(false));
        let writer = io.spawn({
            let (io, pool, is_over) = (io.clone(), pool.clone(), Rc::clone(&is_over));
            async move {
                let mut seed = 2;
                while !is_over.get() {
                    overwrite(&io, &volume, &mut times, 10, seed).await;
                    pool.checkpoint().await.expect("a checkpoint");
                    seed += 1;
                }
            }
        });
        for round in 0..6 {
            let found = pool.check(|_| {}).await.expect("it can be gone over");
            assert_eq!((found.wrong, found.lost, found.mismatches), (0, 0, 0), "round {round}");
        }
        is_over.set(true);
        writer.await;
        assert!(pool.status().damaged.is_empty());
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
