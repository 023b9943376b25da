//! Blocks that members give wrong: told by their volume and place as long as they are lost, counted at their members, and told in few events.

use brindle_io::{Duration, Io};
use brindle_pool::{DamagedRange, How, Pool, PoolEvent, PoolVolume};
use brindle_testkit::pools::house::Kind;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::in_memory::World;

const BLOCK: u64 = 4096;

impl World {
    /// Spoils blocks of that content on so many members, wherever they stand.
    fn rot(&self, fills: core::ops::Range<u8>, members: usize) -> usize {
        let mut rotten = 0;
        for &id in &self.house.ids[..members] {
            let mut block = vec![0; BLOCK as usize];
            for at in (1 << 20..self.house.size).step_by(BLOCK as usize) {
                self.memory.peek(id, at, &mut block);
                if fills.contains(&block[0]) && block.iter().all(|byte| *byte == block[0]) {
                    self.memory.poke(id, at + 7, &[0xee]);
                    rotten += 1;
                }
            }
        }
        rotten
    }

    /// Two volumes with twenty blocks each, of which the first one's leaves are lost.
    async fn lose_leaves_of_one_of_two(&self) {
        let pool = self.house.open(&self.io, 1).await;
        for name in ["one", "two"] {
            let volume = pool.create_volume(name, 32 * BLOCK).await.expect("room");
            for block in 0..20 {
                put(&self.io, &volume, block, 100 + block as u8).await.expect("written");
            }
        }
        pool.stop().await.expect("stopped");
        self.spoil_leaves_of(1);
    }

    /// Spoils all pages that are leaves of a volume, on all members.
    fn spoil_leaves_of(&self, volume: u32) {
        for &id in &self.house.ids {
            let mut block = vec![0; BLOCK as usize];
            for at in (1 << 20..self.house.size - (1 << 20)).step_by(BLOCK as usize) {
                self.memory.peek(id, at, &mut block);
                if brindle_format::pool::Leaf::parse(&block, volume).is_ok() {
                    self.memory.poke(id, at + 100, &[0xee; 8]);
                }
            }
        }
    }
}

async fn put(io: &Io, volume: &PoolVolume, block: u64, fill: u8) -> Result<(), VolumeError> {
    let buf = io.pool(4096).alloc(4096).await;
    buf.bytes_mut().fill(fill);
    volume.write(block * BLOCK, buf.all(), false).await
}

async fn get(io: &Io, volume: &PoolVolume, block: u64) -> Result<u8, VolumeError> {
    let buf = io.pool(4096).alloc(4096).await;
    volume.read(block * BLOCK, buf.all()).await?;
    let byte = buf.bytes()[0];
    Ok(byte)
}

fn range(volume: &str, block: u64, blocks: u64) -> DamagedRange {
    DamagedRange { volume: volume.to_owned(), offset: block * BLOCK, length: blocks * BLOCK }
}

fn told(pool: &Pool, kind: PoolEvent) -> Vec<(Option<String>, Option<u64>, u64)> {
    let of = |event: &brindle_members::events::Event<PoolEvent>| {
        let range = event.range.clone().unwrap_or_default();
        (event.label.clone(), event.blocks, range.end - range.start)
    };
    pool.events(0).iter().filter(|event| event.kind == kind).map(of).collect()
}

#[test]
fn lost_blocks_are_told_by_volume_and_place_until_they_are_written_anew() {
    let world = World::new(Kind::Mirror(2));
    let io = &world.io;
    io.block_on(async {
        let pool = world.house.open(io, 1).await;
        let volume = pool.create_volume("one", 50 * BLOCK - 512).await.expect("room");
        for block in 0..49 {
            put(io, &volume, block, 100 + block as u8).await.expect("written");
        }
        pool.checkpoint().await.expect("written");
        // Blocks 10 to 19 and 30, on both.
        assert_eq!(world.rot(110..120, 2) + world.rot(130..131, 2), 22);
        for block in [12, 11, 30, 11, 13] {
            assert_eq!(get(io, &volume, block).await, Err(VolumeError::TooManyLost), "{block}");
        }
        let status = pool.status();
        assert_eq!(status.damaged, [range("one", 11, 3), range("one", 30, 1)]);
        assert_eq!((status.damage.lost, status.damage.mended, status.damaged_beyond), (4, 0, 0));
        let lost = told(&pool, PoolEvent::Lost);
        assert_eq!(lost, [(Some("tank/one".to_owned()), None, BLOCK)], "the rest is told together");
        io.sleep(Duration::from_millis(1500)).await;
        let lost = told(&pool, PoolEvent::Lost);
        assert_eq!(
            lost[1..].iter().map(|(_, _, len)| len / BLOCK).collect::<Vec<_>>(),
            [1, 1, 1],
            "{lost:?}"
        );
        pool.rename_volume("one", "two").await.expect("renamed");
        put(io, &volume, 12, 1).await.expect("written");
        assert_eq!(pool.status().damaged, [range("two", 11, 1), range("two", 13, 1), range("two", 30, 1)]);
        volume.write_zeroes(13 * BLOCK, BLOCK, ZeroOptions::default()).await.expect("written");
        volume.discard(30 * BLOCK, 3 * BLOCK).await.expect("discarded");
        assert_eq!(pool.status().damaged, [range("two", 11, 1)]);
        pool.destroy_volume("two").await.expect("destroyed");
        assert_eq!((pool.status().damaged, pool.status().damage.lost), (Vec::new(), 4));
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_check_counts_lost_blocks_as_lost_and_names_them() {
    let world = World::new(Kind::Raidz(1, 3));
    let io = &world.io;
    io.block_on(async {
        let pool = world.house.open(io, 1).await;
        let volume = pool.create_volume("one", 64 * BLOCK).await.expect("room");
        for block in 0..60 {
            put(io, &volume, block, 100 + block as u8).await.expect("written");
        }
        pool.stop().await.expect("stopped");
        assert!(world.rot(105..106, 3) + world.rot(106..107, 3) + world.rot(120..121, 3) >= 3);
        let spoilt = |pool: Pool| async move { pool.check(|_| ()).await.expect("checked") };
        let (pool, _) = world.house.open_without(io, 0, How::ReadOnly).await.expect("read");
        let found = spoilt(pool).await;
        assert!(found.wrong >= 3, "{found:?}");
        // One of the same stripe may be rebuilt, two may not.
        let left: u64 = found.damaged.iter().map(|range| range.length / BLOCK).sum();
        assert_eq!((found.lost, found.damaged_beyond), (left, 0), "{found:?}");
        // Without a member there is nothing left to rebuild from.
        let (pool, _) = world.house.open_without(io, 1, How::ReadOnly).await.expect("read");
        let found = spoilt(pool).await;
        assert!(found.lost >= 1 && found.missing > 0 && found.lost < 10, "{found:?}");
        let blocks: Vec<u64> =
            found.damaged.iter().flat_map(|r| r.offset / BLOCK..(r.offset + r.length) / BLOCK).collect();
        let (pool, _) = world.house.open_without(io, 1, How::ReadOnly).await.expect("read");
        let volume = pool.volume("one").expect("a volume");
        for block in 0..60 {
            assert_eq!(
                get(io, &volume, block).await.is_err(),
                blocks.contains(&block),
                "{block} of {blocks:?}"
            );
        }
        let listed: Vec<u64> = pool
            .status()
            .damaged
            .iter()
            .flat_map(|r| r.offset / BLOCK..(r.offset + r.length) / BLOCK)
            .collect();
        assert_eq!(listed, blocks);
    });
    io.shutdown();
}

#[test]
fn a_lost_page_of_the_map_is_the_range_that_it_was_of() {
    let world = World::new(Kind::Mirror(2));
    let io = &world.io;
    io.block_on(async {
        world.lose_leaves_of_one_of_two().await;
        let (pool, _) = world.house.open_without(io, 0, How::ReadOnly).await.expect("read");
        let found = pool.check(|_| ()).await.expect("a check goes on behind it");
        assert_eq!((found.lost, found.damaged), (20, vec![range("one", 0, 32)]));
        assert_eq!(pool.status().damaged, [range("one", 0, 32)]);
        let one = pool.volume("one").expect("a volume");
        assert_eq!(get(io, &one, 3).await, Err(VolumeError::TooManyLost));
        assert_eq!(get(io, &pool.volume("two").expect("a volume"), 3).await, Ok(103));
    });
    io.shutdown();
}

/// Changes below a lost leaf are acknowledged before anything reads it.
#[test]
fn what_is_written_below_a_lost_leaf_is_kept_and_all_else_of_it_is_lost() {
    let world = World::new(Kind::Mirror(2));
    let io = &world.io;
    io.block_on(async {
        world.lose_leaves_of_one_of_two().await;
        let pool = world.house.open(io, 2).await;
        let one = pool.volume("one").expect("a volume");
        put(io, &one, 3, 7).await.expect("written");
        one.discard(10 * BLOCK, 2 * BLOCK).await.expect("discarded");
        for _ in 0..3 {
            pool.checkpoint().await.expect("checkpoints go on");
        }
        pool.stop().await.expect("stopped");
        let pool = world.house.open(io, 3).await;
        let (one, two) = (pool.volume("one").expect("a volume"), pool.volume("two").expect("a volume"));
        for (block, found) in [(3, Ok(7)), (4, Err(VolumeError::TooManyLost)), (10, Ok(0)), (11, Ok(0))] {
            assert_eq!(get(io, &one, block).await, found, "{block}");
        }
        assert_eq!(get(io, &two, 3).await, Ok(103));
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn a_member_that_rots_is_counted_and_told_in_few_events() {
    let world = World::new(Kind::Raidz(1, 3));
    let io = &world.io;
    io.block_on(async {
        let pool = world.house.open(io, 1).await;
        let volume = pool.create_volume("one", 300 * BLOCK).await.expect("room");
        for block in 0..300 {
            put(io, &volume, block, 100 + (block % 100) as u8).await.expect("written");
        }
        pool.checkpoint().await.expect("written");
        let rotten = world.rot(100..200, 1) as u64;
        assert!(rotten > 60);
        for block in 0..300 {
            assert_eq!(get(io, &volume, block).await, Ok(100 + (block % 100) as u8));
        }
        pool.stop().await.expect("stopped");
        let status = pool.status();
        let [bad, good, _] = &status.members[..] else { panic!("three members") };
        assert_eq!((bad.wrong, bad.mended, good.wrong), (status.damage.found, status.damage.mended, 0));
        assert!(bad.wrong > 60 && bad.wrong <= rotten && bad.mended == bad.wrong, "{bad:?}");
        assert!(bad.read_errors > 0 && good.read_errors == 0 && status.damaged.is_empty());
        let told = told(&pool, PoolEvent::Mended);
        assert_eq!(told.iter().filter_map(|(_, blocks, _)| *blocks).sum::<u64>(), bad.mended);
        assert!(told.len() <= 4 && told[0].0.as_deref() == Some("tank 0.0"), "{told:?}");
    });
    io.shutdown();
}

#[test]
fn what_is_stored_goes_down_with_a_discard() {
    let world = World::new(Kind::Raidz(1, 3));
    let io = &world.io;
    io.block_on(async {
        let pool = world.house.open(io, 1).await;
        let volume = pool.create_volume("one", 600 * BLOCK).await.expect("room");
        for block in 0..600 {
            put(io, &volume, block, 1).await.expect("written");
        }
        assert_eq!(pool.status().stored, 600 * BLOCK);
        pool.stop().await.expect("stopped");
        // Nothing of the map is in memory.
        let pool = world.house.open(io, 2).await;
        let volume = pool.volume("one").expect("a volume");
        volume.discard(0, 300 * BLOCK).await.expect("discarded");
        assert_eq!(pool.status().stored, 300 * BLOCK);
        volume.discard(200 * BLOCK, 200 * BLOCK).await.expect("discarded");
        put(io, &volume, 0, 2).await.expect("written");
        assert_eq!(pool.status().stored, 201 * BLOCK);
        pool.checkpoint().await.expect("written");
        io.sleep(Duration::from_millis(200)).await;
        assert_eq!(pool.status().stored, 201 * BLOCK);
        pool.destroy_volume("one").await.expect("destroyed");
        assert_eq!(pool.status().stored, 0);
    });
    io.shutdown();
}
