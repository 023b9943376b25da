//! Reads of many blocks: how many operations members get, how many bytes, and for how many rounds a request waits.

use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io};
use brindle_pool::{How, Pool, PoolVolume};
use brindle_testkit::pools::house::{House, Kind};
use brindle_volume::{Volume, VolumeError};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 4 << 20;

fn fill(block: u64) -> u8 {
    (block % 251) as u8
}

struct World {
    sim: Sim,
    house: House,
    io: Io,
}

/// The cost of a read.
#[derive(Clone, Copy, Debug)]
struct Cost {
    reads: u64,
    bytes: u64,
    time: Duration,
}

impl World {
    /// A pool with a volume that was written in this order of its MiBs' blocks.
    fn new(kind: Kind, order: impl Fn(u64) -> u64) -> Self {
        let sim = Sim::new(5);
        let house = House::of(kind, 16 << 20, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", SIZE).await.expect("room");
            let memory = io.pool(MIB as usize);
            for begin in (0..SIZE / BLOCK).step_by(64) {
                let some = (0..64).map(async |n| {
                    let block = begin + order(n);
                    let buf = memory.alloc(BLOCK as usize).await;
                    buf.bytes_mut().fill(fill(block));
                    volume.write(block * BLOCK, buf.all(), false).await.expect("written");
                });
                join_all(some).await;
            }
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
        let sim = sim.restart(6);
        let io = Io::new(Box::new(sim.clone()));
        Self { sim, house, io }
    }

    async fn opened(&self, lost: usize) -> (Pool, PoolVolume) {
        let (pool, _) = self.house.open_without(&self.io, lost, How::degraded(2)).await.expect("opened");
        let volume = pool.volume("one").expect("it is there");
        // The map is in memory from here on, long before a pool that lacks a member begins to move what it holds.
        let some = (0..SIZE).step_by(256 << 10).map(|at| self.read(&volume, at, BLOCK));
        join_all(some).await;
        (pool, volume)
    }

    fn counts(&self) -> (u64, u64) {
        let counters = self.house.ids.iter().map(|&id| self.io.counters(id));
        counters.fold((0, 0), |sum, one| (sum.0 + one.reads, sum.1 + one.bytes_read))
    }

    /// Reads bytes of the volume, holds them against what was written, and tells what that took.
    async fn read(&self, volume: &PoolVolume, offset: u64, len: u64) -> Cost {
        let buf = self.io.pool((len as usize).next_power_of_two()).alloc(len as usize).await;
        let (before, begun) = (self.counts(), self.io.now());
        volume.read(offset, buf.all()).await.expect("read");
        let (after, time) = (self.counts(), self.io.now().since(begun));
        let bytes = buf.bytes();
        let wrong = (offset..).zip(&*bytes).find(|(at, byte)| **byte != fill(at / BLOCK));
        assert_eq!(wrong, None);
        Cost { reads: after.0 - before.0, bytes: after.1 - before.1, time }
    }
}

#[test]
fn neighbours_on_a_member_are_one_read_in_whichever_order_they_are_asked_for() {
    let in_order = World::new(Kind::Raidz(1, 4), |n| n);
    let backwards = World::new(Kind::Raidz(1, 4), |n| 63 - n);
    let [forth, back] = [in_order, backwards].map(|world| {
        let cost = world.io.block_on(async {
            let (pool, volume) = world.opened(0).await;
            let cost = world.read(&volume, MIB, MIB).await;
            pool.stop().await.expect("stopped");
            cost
        });
        world.io.shutdown();
        cost
    });
    assert_eq!([forth.bytes, back.bytes], [MIB; 2]);
    assert!(forth.reads < 128 && back.reads <= forth.reads + 8, "{forth:?}, {back:?}");
}

#[test]
fn a_large_read_waits_for_one_round_however_it_lies_in_its_memory() {
    let world = World::new(Kind::Raidz(2, 6), |n| n);
    let io = &world.io;
    io.block_on(async {
        let (pool, volume) = world.opened(0).await;
        let small = world.read(&volume, MIB, 64 * BLOCK).await;
        let large = world.read(&volume, MIB, MIB).await;
        assert!(large.time.as_nanos() < 3 * small.time.as_nanos(), "{small:?}, {large:?}");
        // Not by whole blocks: by way of memory of the pool.
        let odd = world.read(&volume, MIB + 512, MIB).await;
        assert!(odd.time.as_nanos() < 3 * small.time.as_nanos(), "{small:?}, {odd:?}");
        assert!(odd.bytes <= MIB + BLOCK, "{odd:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn lost_blocks_are_made_of_what_is_read_beside_them() {
    for (kind, lost) in
        [(Kind::Raidz(1, 4), 1), (Kind::Raidz(2, 6), 1), (Kind::Raidz(2, 6), 2), (Kind::Mirror(2), 1)]
    {
        let world = World::new(kind, |n| n);
        let io = &world.io;
        io.block_on(async {
            let (pool, volume) = world.opened(0).await;
            let whole = world.read(&volume, MIB, MIB).await;
            pool.stop().await.expect("stopped");
            let (pool, volume) = world.opened(lost).await;
            for offset in [MIB, MIB + 512] {
                let cost = world.read(&volume, offset, MIB).await;
                // Instead of each lost block one of parity, and more of stripes with a summary, or that a batch does not fill: what is lost of one
                // is lost of all stripes of a chunk.
                let ends = if offset == MIB { 3 * 8 } else { 10 * 8 };
                assert!(cost.bytes <= MIB + ends * BLOCK, "{kind:?}: {whole:?}, {cost:?}");
                assert!(cost.reads <= 2 * whole.reads + 16, "{kind:?}: {whole:?}, {cost:?}");
                assert!(
                    2 * cost.time.as_nanos() <= 5 * whole.time.as_nanos(),
                    "{kind:?}: {whole:?}, {cost:?}"
                );
            }
            assert_eq!(pool.status().damage.found, 0);
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

#[test]
fn blocks_that_rot_are_found_by_one_round_more_and_mended() {
    let world = World::new(Kind::Raidz(2, 6), |n| n);
    let io = &world.io;
    io.block_on(async {
        let (pool, volume) = world.opened(0).await;
        let whole = world.read(&volume, MIB, MIB).await;
        for (n, offset) in [(0, MIB), (1, 2 * MIB + 512)] {
            world.sim.rot(world.house.ids[n], 1 << 20..15 << 20);
            let found = world.read(&volume, offset, MIB).await;
            // A round more to read, and one to mend what is wrong.
            assert!(found.time.as_nanos() < 6 * whole.time.as_nanos(), "{whole:?}, {found:?}");
            assert!(found.bytes < 3 * MIB, "{found:?}");
            let damage = pool.status().damage;
            assert!(damage.found > 30 && damage.mended == damage.found && damage.lost == 0, "{damage:?}");
            let again = world.read(&volume, offset, MIB).await;
            assert!(again.bytes <= MIB + BLOCK && pool.status().damage == damage, "{again:?}");
        }
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn reads_for_which_there_is_not_enough_memory_wait_for_each_other_and_end() {
    let world = World::new(Kind::Raidz(2, 6), |n| n);
    let io = &world.io;
    io.block_on(async {
        let (pool, volume) = world.opened(1).await;
        world.sim.rot(world.house.ids[1], 1 << 20..15 << 20);
        // Each takes 4 MiB of 8, and blocks that are lost and wrong want more.
        join_all((1..9).map(|n| world.read(&volume, 512 * n, SIZE - 8192))).await;
        assert!(pool.status().damage.mended > 100 && pool.status().damage.lost == 0);
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_check_reads_each_byte_that_is_stored_once_in_long_stretches() {
    for (kind, lost) in
        [(Kind::Raidz(1, 4), 0), (Kind::Raidz(2, 6), 0), (Kind::Raidz(2, 6), 1), (Kind::Mirror(2), 0)]
    {
        let world = World::new(kind, |n| n);
        let io = &world.io;
        io.block_on(async {
            let (pool, _) = world.opened(lost).await;
            let (reads, bytes) = world.counts();
            let checked = pool.check(|_| {}).await.expect("checked");
            let (reads, bytes) = (world.counts().0 - reads, world.counts().1 - bytes);
            let bad = [checked.wrong, checked.unreadable, checked.lost, checked.mismatches];
            assert!(bad == [0; 4] && checked.blocks >= SIZE / BLOCK - checked.missing, "{checked:?}");
            let written = pool.status().segments[2] as u64 * world.house.ids.len() as u64 * (64 << 10);
            assert!(bytes <= written, "{kind:?}: {bytes} of {written} bytes read");
            // Units of 64 KiB, the last of which are not full.
            assert!(reads <= bytes / (32 << 10), "{kind:?}: {reads} reads of {bytes} bytes");
            assert_eq!(checked.uncompared > 0, lost > 0, "{checked:?}");
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

#[test]
fn a_check_tells_the_same_of_what_no_summary_names() {
    let world = World::new(Kind::Raidz(1, 4), |n| n);
    let io = &world.io;
    io.block_on(async {
        let (pool, volume) = world.opened(0).await;
        let whole = pool.check(|_| {}).await.expect("checked");
        pool.stop().await.expect("stopped");
        // All summaries are gone, and what they can be made of.
        let mut rotten = 0;
        for &id in &world.house.ids {
            for at in (1 << 20..world.house.size - (1 << 20)).step_by(BLOCK as usize) {
                let mut block = [0; 8];
                world.sim.peek(id, at, &mut block);
                if &block == b"BRNDBTCH" {
                    world.sim.rot(id, at..at + BLOCK);
                    rotten += 1;
                }
            }
        }
        assert!(rotten > 10);
        drop(volume);
        let (pool, _) = world.house.open_without(io, 0, How::ReadOnly).await.expect("opened");
        let checked = pool.check(|_| {}).await.expect("checked");
        // Summaries that can be rebuilt are wrong themselves, and nothing else is.
        assert!(checked.wrong > 10 && checked.wrong <= rotten, "{checked:?}, {rotten}");
        assert_eq!((checked.blocks - checked.wrong, checked.lost), (whole.blocks, 0), "{checked:?}");
        assert!(checked.mismatches > 0 && checked.stripes == whole.stripes, "{checked:?}, {whole:?}");
    });
    io.shutdown();
}

#[test]
fn a_silent_member_that_nothing_makes_up_for_is_the_error_of_a_read() {
    let world = World::new(Kind::Plain(1), |n| n);
    let io = &world.io;
    io.block_on(async {
        let (pool, volume) = world.opened(0).await;
        world.sim.afflict(world.house.ids[0], |faults| faults.hangs = true);
        for (offset, len) in [(MIB, 64 << 10), (MIB + 512, 64 << 10), (MIB, 4 << 10)] {
            let buf = io.pool(MIB as usize).alloc(len).await;
            let read = volume.read(offset, buf.all()).await;
            assert!(matches!(read, Err(VolumeError::Member { .. })), "{offset}: {read:?}");
        }
        world.sim.afflict(world.house.ids[0], |faults| faults.hangs = false);
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

/// Operations for each aligned read of so many bytes, of a volume that was written in order.
fn reads_of(kind: Kind, bytes: u64) -> f64 {
    const SIZE: u64 = 32 << 20;
    let sim = Sim::new(7);
    let mut house = House::of(kind, 80 << 20, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    (house.unit, house.usual) = (Some(1 << 20), true);
    let io = Io::new(Box::new(sim));
    let each = io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", SIZE).await.expect("room");
        let memory = io.pool(8 * MIB as usize);
        for begin in (0..SIZE).step_by(8 * MIB as usize) {
            join_all((0..8).map(async |n| {
                let buf = memory.alloc(MIB as usize).await;
                volume.write(begin + n * MIB, buf.all(), false).await.expect("written");
            }))
            .await;
        }
        let counts = || house.ids.iter().map(|&id| io.counters(id).reads).sum::<u64>();
        let buf = memory.alloc(bytes as usize).await;
        let before = counts();
        for at in (0..SIZE).step_by(bytes as usize) {
            volume.read(at, buf.all()).await.expect("read");
        }
        let each = (counts() - before) as f64 / (SIZE / bytes) as f64;
        pool.stop().await.expect("stopped");
        each
    });
    io.shutdown();
    each
}

/// A summary must not shift all that follows: 64 KiB lie on one member, but for those that two batches share.
#[test]
fn aligned_reads_of_64_kib_that_were_written_in_order_are_hardly_more_than_one_operation() {
    for kind in [Kind::Raidz(1, 4), Kind::Raidz(2, 6), Kind::Mirror(2), Kind::Raidz(1, 3)] {
        let each = reads_of(kind, 64 << 10);
        assert!((1.0..=1.25).contains(&each), "{kind:?}: {each} operations");
    }
}
