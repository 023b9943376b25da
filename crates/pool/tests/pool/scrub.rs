//! Scrubs of pools that are served: they find whatever rots, heal it, name what they can't heal, and leave clients their room.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{DamagedRange, How, Pool, PoolEvent, PoolVolume, ScrubError, ScrubKind, Scrubbed};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::random::Random;
use brindle_volume::{Volume, VolumeError};

use crate::in_memory::World;

const BLOCK: u64 = 4096;

/// The use of a block of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Data,
    Summary,
    Page,
    Parity,
}

impl World {
    /// The blocks of a member that hold something, with their use.
    fn blocks(&self, member: usize) -> Vec<(u64, Use, Vec<u8>)> {
        let (mut found, mut block) = (Vec::new(), vec![0; BLOCK as usize]);
        for at in (1 << 20..self.house.size - (1 << 20)).step_by(BLOCK as usize) {
            self.memory.peek(self.house.ids[member], at, &mut block);
            let of = match &block[..8] {
                b"BRNDBTCH" => Use::Summary,
                b"BRNDPAGE" => Use::Page,
                begin if begin.starts_with(b"DATA") => Use::Data,
                _ if block.iter().any(|byte| *byte != 0) => Use::Parity,
                _ => continue,
            };
            found.push((at, of, block.clone()));
        }
        found
    }

    /// Spoils all blocks of one use of a member, and gives what they were.
    fn spoil(&self, member: usize, of: Use) -> BTreeMap<u64, Vec<u8>> {
        let rotten = self.blocks(member).into_iter().filter(|(_, is, _)| *is == of);
        let rotten: BTreeMap<u64, Vec<u8>> = rotten.map(|(at, _, block)| (at, block)).collect();
        for (at, block) in &rotten {
            self.memory.poke(self.house.ids[member], at + 100, &[!block[100]; 3]);
        }
        rotten
    }

    /// How many of these are what they were.
    fn restored(&self, member: usize, rotten: &BTreeMap<u64, Vec<u8>>) -> u64 {
        let mut now = vec![0; BLOCK as usize];
        let is_back = |(at, was): &(&u64, &Vec<u8>)| {
            self.memory.peek(self.house.ids[member], **at, &mut now);
            now == **was
        };
        rotten.iter().filter(is_back).count() as u64
    }
}

async fn put(io: &Io, volume: &PoolVolume, block: u64) {
    let buf = io.pool(4096).alloc(4096).await;
    for (n, byte) in buf.bytes_mut().iter_mut().enumerate() {
        *byte = ((n as u64 * (block + 3)) >> 3) as u8;
    }
    buf.bytes_mut()[..4].copy_from_slice(b"DATA");
    volume.write(block * BLOCK, buf.all(), false).await.expect("written");
}

async fn scrub(pool: &Pool, kind: ScrubKind) -> Scrubbed {
    pool.begin_scrub(kind).expect("none is under way");
    pool.scrub_ended().await;
    let scrubbed = pool.scrubbed().expect("one has ended");
    assert!(scrubbed.kind == kind && scrubbed.error.is_none(), "{scrubbed:?}");
    scrubbed
}

fn range(block: u64, blocks: u64) -> DamagedRange {
    DamagedRange { volume: "one".to_owned(), offset: block * BLOCK, length: blocks * BLOCK }
}

#[test]
fn a_scrub_heals_whatever_has_rotted_on_a_member() {
    for kind in [Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Mirror(2)] {
        for of in [Use::Data, Use::Summary, Use::Page, Use::Parity] {
            let world = World::new(kind);
            let io = &world.io;
            io.block_on(async {
                let pool = world.house.open(io, 1).await;
                let volume = pool.create_volume("one", 300 * BLOCK).await.expect("room");
                join_all((0..300).map(|block| put(io, &volume, block))).await;
                pool.checkpoint().await.expect("written");
                // Some are dead by now, and stand between others.
                join_all((0..300).step_by(7).map(|block| put(io, &volume, block))).await;
                pool.checkpoint().await.expect("written");
                assert!(scrub(&pool, ScrubKind::Repair).await.found.healed == 0);
                let rotten = world.spoil(0, of);
                // A copy is what it is a copy of.
                if kind == Kind::Mirror(2) && of == Use::Parity {
                    return;
                }
                assert!(!rotten.is_empty(), "{kind:?} {of:?}");
                let found = scrub(&pool, ScrubKind::Check).await;
                assert!(found.errors() > 0 && found.found.healed == 0, "{kind:?} {of:?}: {found:?}");
                assert_eq!(world.restored(0, &rotten), 0, "a check writes nothing");
                let found = scrub(&pool, ScrubKind::Repair).await;
                assert!(found.found.healed > 0 && found.errors() == 0, "{kind:?} {of:?}: {found:?}");
                assert_eq!(world.restored(0, &rotten), found.found.healed, "{kind:?} {of:?}");
                let status = pool.status();
                assert_eq!(status.members[0].mended, found.found.healed, "{kind:?} {of:?}");
                assert_eq!(status.members[1].wrong, 0, "{kind:?} {of:?}");
                let again = scrub(&pool, ScrubKind::Repair).await;
                assert!(again.found.healed == 0 && again.errors() == 0, "{again:?}");
                pool.stop().await.expect("stopped");
            });
            io.shutdown();
        }
    }
}

/// Members that lose the writes of summaries go on giving those of an earlier use of the segment, which tell of other blocks.
#[test]
fn a_member_that_lost_writes_is_the_only_one_that_is_called_wrong() {
    for kind in [Kind::Raidz(1, 3), Kind::Raidz(2, 5)] {
        let world = World::new(kind);
        let (io, mut random) = (&world.io, Random::stream(3, 0));
        io.block_on(async {
            let pool = world.house.open(io, 1).await;
            let volume = pool.create_volume("one", 300 * BLOCK).await.expect("room");
            let mut before: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
            for _ in 0..250 {
                let some = (0..40).map(|_| random.below(300)).collect::<BTreeSet<_>>();
                join_all(some.into_iter().map(|block| put(io, &volume, block))).await;
                pool.checkpoint().await.expect("written");
                let summaries = world.blocks(0).into_iter().filter(|(_, of, _)| *of == Use::Summary);
                for (at, _, block) in summaries {
                    let known = before.entry(at).or_default();
                    if known.last() != Some(&block) {
                        known.push(block);
                    }
                }
            }
            let older = before.into_iter().filter(|(_, all)| all.len() > 1);
            let older: Vec<(u64, Vec<u8>)> =
                older.map(|(at, mut all)| (at, all.swap_remove(all.len() - 2))).collect();
            assert!(older.len() > 10, "{kind:?}: {}", older.len());
            for (at, block) in &older {
                world.memory.poke(world.house.ids[0], *at, block);
            }
            let found = scrub(&pool, ScrubKind::Check).await.found;
            assert!(found.wrong > 0, "{kind:?}: {found:?}");
            assert!(found.places.iter().all(|(member, _)| *member == 0), "{kind:?}: {found:?}");
            let found = scrub(&pool, ScrubKind::Repair).await;
            assert!(found.found.healed > 0 && found.errors() == 0, "{kind:?}: {found:?}");
            assert!(
                pool.status().members[1..].iter().all(|member| member.mended == 0),
                "{kind:?}: {found:?}"
            );
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

#[test]
fn lost_blocks_are_named_until_they_are_written_or_a_scrub_finds_none() {
    let world = World::new(Kind::Mirror(2));
    let io = &world.io;
    io.block_on(async {
        let pool = world.house.open(io, 1).await;
        let volume = pool.create_volume("one", 64 * BLOCK).await.expect("room");
        for block in 0..40 {
            put(io, &volume, block).await;
        }
        pool.checkpoint().await.expect("written");
        // Blocks that were written as these were.
        let spoil = |blocks: &[u64], back: bool| {
            for &id in &world.house.ids {
                let mut block = vec![0; BLOCK as usize];
                for at in (1 << 20..world.house.size).step_by(BLOCK as usize) {
                    world.memory.peek(id, at, &mut block);
                    let is =
                        |&n: &u64| block.starts_with(b"DATA") && block[40] == ((40 * (n + 3)) >> 3) as u8;
                    if blocks.iter().any(is) {
                        let byte = ((3000 * (blocks[0] + 3)) >> 3) as u8;
                        world.memory.poke(id, at + 3000, &[if back { byte } else { !byte }]);
                    }
                }
            }
        };
        spoil(&[11], false);
        spoil(&[20], false);
        let found = scrub(&pool, ScrubKind::Repair).await;
        assert_eq!((found.found.lost, found.errors()), (2, 2), "{found:?}");
        assert_eq!(found.found.damaged, [range(11, 1), range(20, 1)]);
        assert_eq!(pool.status().damaged, [range(11, 1), range(20, 1)]);
        assert!(pool.events(0).iter().any(|event| event.kind == PoolEvent::Lost));
        put(io, &volume, 11).await;
        assert_eq!(pool.status().damaged, [range(20, 1)]);
        assert_eq!(scrub(&pool, ScrubKind::Repair).await.found.damaged, [range(20, 1)]);
        // It is what it was, as of a device with a bad cable.
        spoil(&[20], true);
        let found = scrub(&pool, ScrubKind::Repair).await;
        assert!(found.errors() == 0 && pool.status().damaged.is_empty(), "{found:?}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

#[test]
fn what_an_absent_member_misses_is_never_called_whole() {
    for kind in [Kind::Raidz(2, 5), Kind::Mirror(3), Kind::Raidz(1, 3)] {
        let world = World::new(kind);
        let io = &world.io;
        io.block_on(async {
            let pool = world.house.open(io, 1).await;
            let volume = pool.create_volume("one", 300 * BLOCK).await.expect("room");
            join_all((0..300).map(|block| put(io, &volume, block))).await;
            pool.checkpoint().await.expect("written");
            let held = world.blocks(0).len() as u64;
            pool.stop().await.expect("stopped");
            let (pool, _) = world.house.open_without(io, 1, How::degraded(2)).await.expect("opened");
            let found = scrub(&pool, ScrubKind::Check).await.found;
            assert!(!found.is_complete() && found.unverified > held / 2, "{kind:?}: {found:?}, {held}");
            assert_eq!((found.wrong, found.lost, found.mismatches), (0, 0, 0), "{kind:?}: {found:?}");
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

/// All of a full pool is overwritten for as long as scrubs run.
#[test]
fn a_scrub_takes_no_room_of_a_full_pool_and_leaves_its_clients_alone() {
    for (seed, kind) in (0..).zip([Kind::Raidz(1, 3), Kind::Mirror(2), Kind::Raidz(2, 6)]) {
        let sim = Sim::new(seed);
        let house = House::of(kind, 24 << 20, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let size = pool.status().capacity;
            let volume = pool.create_volume("one", size).await.expect("room");
            let blocks = size / BLOCK;
            for begin in (0..blocks).step_by(64) {
                join_all((begin..blocks.min(begin + 64)).map(|block| put(&io, &volume, block))).await;
            }
            let (done, written) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u64)));
            let clients = (0..8).map(|lane| {
                let (io, volume) = (io.clone(), volume.clone());
                let (done, written) = (Rc::clone(&done), Rc::clone(&written));
                io.clone().spawn(async move {
                    let mut random = Random::stream(seed, lane);
                    while !done.get() {
                        put(&io, &volume, random.below(blocks)).await;
                        written.set(written.get() + 1);
                    }
                })
            });
            let clients: Vec<_> = clients.collect();
            io.sleep(Duration::from_millis(20)).await;
            let mut most = 0;
            for _ in 0..2 {
                let before = written.get();
                let process = pool.begin_scrub(ScrubKind::Repair).expect("none is under way");
                while pool.scrub().is_some() {
                    most = most.max(pool.status().busy.pinned);
                    io.sleep(Duration::from_micros(300)).await;
                }
                assert!(process.progress().position == process.progress().total);
                let found = pool.scrubbed().expect("it has ended");
                assert!(found.errors() == 0 && found.error.is_none() && found.found.healed == 0, "{found:?}");
                assert!(written.get() > before);
            }
            // Cleaning has eight of its own.
            assert!(most > 0 && most <= 16, "{most} segments were pinned");
            done.set(true);
            join_all(clients).await;
            let checked = pool.check(|_| {}).await.expect("checked");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0), "{checked:?}");
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

/// Sizes of reads of members, as they end one by one.
async fn sizes_of_reads(io: Io, ids: Vec<MemberId>, done: Rc<Cell<bool>>) -> Vec<u64> {
    let counts = |io: &Io| -> Vec<(u64, u64)> {
        let of = |&id: &MemberId| (io.counters(id).reads, io.counters(id).bytes_read);
        ids.iter().map(of).collect()
    };
    let (mut sizes, mut before) = (Vec::new(), counts(&io));
    while !done.get() {
        io.sleep(Duration::from_micros(1)).await;
        let now = counts(&io);
        for (was, is) in before.iter().zip(&now) {
            let (reads, bytes) = (is.0 - was.0, is.1 - was.1);
            sizes.extend((0..reads).map(|_| bytes / reads));
        }
        before = now;
    }
    sizes
}

#[test]
fn a_scrub_reads_what_is_written_once_in_stretches() {
    for kind in [Kind::Raidz(1, 4), Kind::Raidz(2, 6), Kind::Mirror(2)] {
        let sim = Sim::new(9);
        let mut house = House::of(kind, 80 << 20, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        (house.unit, house.usual) = (Some(1 << 20), true);
        let io = Io::new(Box::new(sim));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", 24 << 20).await.expect("room");
            let memory = io.pool(8 << 20);
            for n in 0..24 {
                let buf = memory.alloc(1 << 20).await;
                buf.bytes_mut().fill(n as u8 + 1);
                volume.write(n << 20, buf.all(), false).await.expect("written");
            }
            // A quarter of it is elsewhere by now.
            let mut random = Random::new(4);
            for _ in 0..24 * 64 / 256 {
                join_all((0..256).map(|_| random.below(24 * 256)).map(|block| put(&io, &volume, block)))
                    .await;
            }
            pool.checkpoint().await.expect("written");
            let counts = || {
                let counters = house.ids.iter().map(|&id| io.counters(id));
                counters.fold((0, 0), |sum, one| (sum.0 + one.reads, sum.1 + one.bytes_read))
            };
            let before = counts();
            let done = Rc::new(Cell::new(false));
            let sizes = io.spawn(sizes_of_reads(io.clone(), house.ids.clone(), Rc::clone(&done)));
            let found = scrub(&pool, ScrubKind::Repair).await;
            done.set(true);
            let mut sizes = sizes.await;
            sizes.sort_unstable();
            let median = sizes[sizes.len() / 2];
            let (reads, bytes) = (counts().0 - before.0, counts().1 - before.1);
            assert!(found.errors() == 0 && found.found.unverified == 0, "{found:?}");
            let written = pool.status().written;
            let written = written.client + written.moved + written.summaries + written.pages + written.parity;
            assert!(bytes <= written + written / 20, "{kind:?}: {bytes} of {written} bytes read");
            assert!(sizes.len() as u64 * 10 > reads * 9, "{} of {reads} reads were seen", sizes.len());
            assert!(median >= 256 << 10, "{kind:?}: half of {reads} reads have less than {median} bytes");
            assert!(bytes / reads >= 160 << 10, "{kind:?}: {reads} reads of {bytes} bytes");
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

/// One that was under way when the pool was closed, or the power went, goes on with the segment where it was; one that was paused stays so.
#[test]
fn a_scrub_goes_on_where_it_was_at_the_next_opening() {
    for (paused, cut) in [(true, false), (false, false), (false, true)] {
        let sim = Sim::new(3);
        let house = House::of(Kind::Raidz(1, 3), 24 << 20, |size| sim.add_blank_drive(Model::hdd(), size));
        let io = Io::new(Box::new(sim.clone()));
        let at = io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", 8 << 20).await.expect("room");
            join_all((0..2000).map(|block| put(&io, &volume, block))).await;
            assert_eq!((pool.scrubbed_whole(), pool.resume_scrub().expect("well").is_some()), (None, false));
            let process = pool.begin_scrub(ScrubKind::Repair).expect("none is under way");
            let is_half =
                |at: brindle_members::process::Progress| at.total > 0 && at.position >= at.total / 2;
            while !is_half(process.progress()) {
                io.sleep(Duration::from_millis(1)).await;
            }
            if paused {
                process.pause();
                io.sleep(Duration::from_secs(2)).await;
            }
            let at = process.progress().position;
            if cut {
                pool.record_scrub().await;
            } else {
                pool.stop().await.expect("stopped");
            }
            at
        });
        if cut {
            sim.cut_power();
        }
        io.shutdown();
        let sim = sim.restart(4);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pool = house.open(&io, 2).await;
            assert!(pool.scrub().is_none() && pool.scrubbed().is_none());
            let process = pool.resume_scrub().expect("it can go on").expect("it was under way");
            assert_eq!((process.kind(), process.is_paused()), (ScrubKind::Repair, paused));
            let from = process.progress().position;
            assert!(from > at / 2 && from <= at.max(1) * 2, "{from} of {at}");
            process.resume();
            pool.scrub_ended().await;
            let last = pool.scrubbed().expect("it has ended");
            assert!(last.error.is_none() && last.errors() == 0, "{last:?}");
            pool.stop().await.expect("stopped");
            let pool = house.open(&io, 3).await;
            let known = pool.scrubbed().expect("it is on record");
            assert_eq!((known.kind, known.ended, known.errors()), (last.kind, last.ended, 0));
            assert_eq!(pool.scrubbed_whole(), Some(last.ended));
            assert!(pool.resume_scrub().expect("well").is_none());
            pool.stop().await.expect("stopped");
        });
        io.shutdown();
    }
}

#[test]
fn a_scrub_is_paused_resumed_stopped_and_ends_with_its_pool() {
    let sim = Sim::new(3);
    let house = House::of(Kind::Raidz(1, 3), 24 << 20, |size| sim.add_blank_drive(Model::hdd(), size));
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", 8 << 20).await.expect("room");
        join_all((0..2000).map(|block| put(&io, &volume, block))).await;
        let process = pool.begin_scrub(ScrubKind::Repair).expect("none is under way");
        assert!(matches!(pool.begin_scrub(ScrubKind::Check), Err(ScrubError::Busy(ScrubKind::Repair))));
        while process.progress().position == 0 {
            io.sleep(Duration::from_millis(1)).await;
        }
        process.pause();
        io.sleep(Duration::from_secs(2)).await;
        let at = process.progress();
        io.sleep(Duration::from_secs(20)).await;
        assert_eq!(process.progress().position, at.position);
        assert!(at.position > 0 && at.position < at.total && pool.status().busy.pinned == 0, "{at:?}");
        process.resume();
        pool.scrub_ended().await;
        assert_eq!(process.progress().position, at.total);
        let process = pool.begin_scrub(ScrubKind::Check).expect("none is under way");
        io.sleep(Duration::from_millis(3)).await;
        process.stop();
        pool.scrub_ended().await;
        assert_eq!(pool.scrubbed().and_then(|last| last.error), Some(ScrubError::Interrupted));
        let process = pool.begin_scrub(ScrubKind::Repair).expect("none is under way");
        io.sleep(Duration::from_millis(3)).await;
        process.pause();
        pool.stop().await.expect("stopped");
        assert!(pool.scrub().is_none());
        let late = pool.begin_scrub(ScrubKind::Check).map(|_| ());
        assert_eq!(late, Err(ScrubError::Volume(VolumeError::Stopping)));
    });
    io.shutdown();
}
