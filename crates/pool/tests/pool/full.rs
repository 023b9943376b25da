//! Volumes that are all that a pool sells can be overwritten for ever, given back and destroyed.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io};
use brindle_pool::{How, PoolConfig, PoolSpec, PoolVolume, create, open, plan};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::random::Random;
use brindle_volume::{Volume, ZeroOptions};

/// The time in which whatever gives room back is answered, however much it is.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Shapes, and the most blocks of a write.
const KINDS: [(Kind, u64); 9] = [
    (Kind::Raidz(1, 3), 1),
    (Kind::Raidz(1, 3), 12),
    (Kind::Raidz(2, 5), 12),
    (Kind::Raidz(3, 5), 1),
    (Kind::Mirror(2), 1),
    (Kind::Mirror(3), 12),
    (Kind::Two, 12),
    (Kind::Plain(2), 1),
    (Kind::Raidz(2, 12), 1),
];

async fn write(io: &Io, volume: &PoolVolume, block: u64, count: u64, fua: bool) {
    let buf = io.pool(64 << 10).alloc((count << 12) as usize).await;
    buf.bytes_mut().fill(block as u8 | 1);
    volume.write(block << 12, buf.all(), fua).await.expect("what a pool sells it has");
}

/// Overwrites at random, `times` times as much as the volume has, some at a time; gives the longest that one took.
async fn overwrite(io: &Io, volume: &PoolVolume, times: u64, most: u64, seed: u64) -> Duration {
    let blocks = volume.limits().size >> 12;
    // Few at a time fill narrow stripes, many whole rows.
    overwrite_in(io, volume, blocks * times, most, seed, [4, 48, 256][seed as usize % 3]).await
}

/// The same of so many blocks in all, by so many lanes.
async fn overwrite_in(
    io: &Io,
    volume: &PoolVolume,
    count: u64,
    most: u64,
    seed: u64,
    lanes: u64,
) -> Duration {
    let blocks = volume.limits().size >> 12;
    let (left, longest) = (Rc::new(Cell::new(count)), Rc::new(Cell::new(Duration::from_secs(0))));
    let lanes = (0..lanes).map(|lane| {
        let (left, longest) = (Rc::clone(&left), Rc::clone(&longest));
        let (io, volume) = (io.clone(), volume.clone());
        io.clone().spawn(async move {
            let mut random = Random::stream(seed, lane);
            while left.get() > 0 {
                let count = 1 + random.below(most.min(blocks));
                left.set(left.get().saturating_sub(count));
                let began = io.now();
                write(&io, &volume, random.below(blocks - count + 1), count, random.one_in(8)).await;
                longest.set(longest.get().max(io.now().since(began)));
            }
        })
    });
    join_all(lanes.collect::<Vec<_>>()).await;
    longest.get()
}

/// Moves change the map as users do. So few changes are kept in memory here that one checkpoint after the other is due, and each of them
/// has to have room for its pages whatever cleaning does meanwhile: without any nothing would become free again.
#[test]
fn cleaning_leaves_room_for_the_pages_of_checkpoints() {
    // Units, per cent of the data space that is live or all that is sold, changes, and how often all is overwritten.
    let cases = [(515, Some(80), 256, 3), (416, Some(74), 192, 3), (2000, None, 500, 1)];
    for (units, percent, changes, times) in cases {
        let sim = Sim::new(1);
        let house = House::of(Kind::Raidz(2, 12), (2 << 20) + (units << 16), |size| {
            sim.add_blank_drive(Model::nvme(), size)
        });
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.block_on(async {
            let config = PoolConfig { changes, ..PoolConfig::new(|| 1_800_000_001) };
            let how = How::writing(1);
            let (pool, _) = open(&io, &house.ids, how, None, config).await.expect("a pool that is well");
            let all = pool.status().capacity >> 12;
            let blocks = percent.map_or(all, |percent| units * 160 * percent / 100);
            let volume = pool.create_volume("one", blocks << 12).await.expect("it is sold");
            for block in (0..blocks).step_by(16) {
                write(&io, &volume, block, 16.min(blocks - block), false).await;
            }
            let longest = overwrite_in(&io, &volume, blocks * times, 1, 1, 2048).await;
            assert!(longest < Duration::from_secs(2), "{units} units: {longest:?}");
            pool.stop().await.expect("all are well");
        });
        io.shutdown();
    }
}

/// Stripes of ten blocks don't divide what a summary has entries for: a checkpoint of more pages than that, in units that hold them in one
/// batch, could not be written at all.
#[test]
fn large_units_take_large_checkpoints() {
    for parity in [1, 2, 3] {
        let sim = Sim::new(2);
        let house = House::of(Kind::Raidz(parity, 12), (2 << 20) + (100 << 18), |size| {
            sim.add_blank_drive(Model::nvme(), size)
        });
        let io = Io::new(Box::new(sim.clone()));
        let spec = PoolSpec { unit: Some(256 << 10), ..house.spec() };
        io.block_on(async {
            let label = plan(&spec).expect("a pool that can be");
            create(&io, &label, spec.opening, &house.ids).await.expect("members that are well");
            let config = PoolConfig::new(|| 1_800_000_001);
            let how = How::writing(1);
            let (pool, _) = open(&io, &house.ids, how, None, config).await.expect("a pool that is well");
            let blocks = pool.status().capacity >> 12;
            let volume = pool.create_volume("one", blocks << 12).await.expect("it is sold");
            for block in (0..blocks).step_by(16) {
                write(&io, &volume, block, 16.min(blocks - block), false).await;
            }
            pool.checkpoint().await.expect("room for all pages");
            overwrite_in(&io, &volume, blocks, 1, 1, 512).await;
            pool.stop().await.expect("all are well");
        });
        io.shutdown();
    }
}

#[test]
fn a_volume_that_is_all_that_a_pool_sells_is_overwritten_for_ever() {
    for ((kind, most), seed) in KINDS.into_iter().zip(0..) {
        let sim = Sim::new(seed);
        let mut house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        // Every second one runs as a user's pool does.
        house.usual = seed % 2 == 1;
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.block_on(async {
            let pool = house.open(&io, 1).await;
            let size = pool.status().capacity;
            let volume = pool.create_volume("one", size).await.expect("it is sold");
            for block in (0..size >> 12).step_by(8) {
                write(&io, &volume, block, 8.min((size >> 12) - block), false).await;
            }
            let longest = overwrite(&io, &volume, 3, most, seed).await;
            // A write waits for cleaning, and not for an operator.
            assert!(longest < Duration::from_secs(2), "{kind:?} {most}: {longest:?}");
            // Overwritten blocks count until a checkpoint has gone through the leaves.
            for _ in 0..50 {
                pool.checkpoint().await.expect("a checkpoint");
                if pool.status().stored == size {
                    break;
                }
            }
            assert_eq!(pool.status().stored, size, "{kind:?}");
            // All of these are single records, which need next to no room.
            let began = io.now();
            volume.discard(0, size / 2).await.expect("room to give room back");
            let options = ZeroOptions { fua: true, keep_allocated: true, fast_only: false };
            assert!(io.now().since(began) < AT_ONCE, "{kind:?}: {:?}", io.now().since(began));
            volume.write_zeroes(size / 2, size / 4, options).await.expect("and so for zeroes");
            // Blocks that cleaning moves meanwhile count at both places. Parts of blocks at both ends stay.
            let most = size / 4 + 3 * 4096;
            for _ in 0..50 {
                pool.checkpoint().await.expect("a checkpoint");
                if pool.status().stored <= most {
                    break;
                }
            }
            let stored = pool.status().stored;
            assert!(stored <= most, "{kind:?}: {stored} of {size}");
            let began = io.now();
            pool.destroy_volume("one").await.expect("it is given back");
            assert!(io.now().since(began) < AT_ONCE, "{kind:?}: {:?}", io.now().since(began));
            for _ in 0..50 {
                pool.checkpoint().await.expect("a checkpoint");
                io.sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(pool.status().stored, 0, "{kind:?}");
            pool.stop().await.expect("all are well");
        });
        io.shutdown();
    }
}

/// Members fail while a pool is full to the last block, and cleaned: nothing runs out of room, stalls, or is lost.
#[test]
fn members_may_fail_while_a_pool_is_full() {
    let kinds = [(Kind::Raidz(2, 5), 2), (Kind::Raidz(3, 5), 2), (Kind::Mirror(3), 2), (Kind::Two, 1)];
    for ((kind, lost), usual) in kinds.into_iter().zip([true, false].into_iter().cycle()) {
        let sim = Sim::new(lost);
        let mut house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        house.usual = usual;
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.block_on(async {
            let pool = house.open(&io, 1).await;
            let size = pool.status().capacity;
            let volume = pool.create_volume("one", size).await.expect("it is sold");
            for block in 0..size >> 12 {
                write(&io, &volume, block, 1, false).await;
            }
            for member in 0..lost {
                let (failed, now) = (pool.clone(), io.clone());
                let failing = io.spawn(async move {
                    now.sleep(Duration::from_millis(20)).await;
                    failed.fail(member as u16).await.expect("it can do without");
                    failed.checkpoint().await.expect("room for a checkpoint");
                });
                let longest = overwrite(&io, &volume, 1, 4, member).await;
                failing.await;
                assert!(longest < Duration::from_secs(2), "{kind:?}: {longest:?}");
            }
            let began = io.now();
            volume.discard(0, size / 2).await.expect("room to give room back");
            assert!(io.now().since(began) < AT_ONCE, "{kind:?}: {:?}", io.now().since(began));
            for block in size >> 13..size >> 12 {
                let buf = io.pool(4096).alloc(4096).await;
                volume.read(block << 12, buf.all()).await.expect("nothing is lost");
            }
            let checked = pool.check(|_| {}).await.expect("the map can be read");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0), "{kind:?}: {checked:?}");
            pool.stop().await.expect("those that are left are well");
        });
        io.shutdown();
    }
}
