//! Members that fail, or say nothing for a while, under a pool that is written to.

use brindle_io::sim::{BadRange, Model, Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{How, Pool, PoolOpenError, PoolVolume, choose, look, open_chosen};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::random::Random;
use brindle_volume::{Volume, VolumeError};

const BLOCKS: u64 = 700;

async fn write(io: &Io, volume: &PoolVolume, block: u64, fill: u8) -> Result<(), VolumeError> {
    let buf = io.pool(4096).alloc(4096).await;
    buf.bytes_mut().fill(fill);
    volume.write(block * 4096, buf.all(), false).await
}

async fn read(io: &Io, volume: &PoolVolume, block: u64) -> Result<u8, VolumeError> {
    let buf = io.pool(4096).alloc(4096).await;
    volume.read(block * 4096, buf.all()).await?;
    let bytes = buf.bytes();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "block {block} is torn");
    Ok(bytes[0])
}

#[test]
fn a_member_that_is_silent_for_a_while_makes_no_block_lost() {
    let sim = Sim::new(3);
    let house = House::new(Kind::Plain(1), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        for block in 0..BLOCKS {
            write(&io, &volume, block, 1).await.expect("written");
        }
        let mut random = Random::new(5);
        let mut silences = 0;
        for step in 0..4000 {
            // Cleaning is under way all the time by now.
            if step > 1500 && step % 500 == 7 {
                sim.afflict(house.ids[0], |faults| faults.hangs = true);
                io.sleep(Duration::from_secs(7)).await;
                sim.afflict(house.ids[0], |faults| faults.hangs = false);
                io.sleep(Duration::from_secs(3)).await;
                silences += 1;
            }
            let _silent = write(&io, &volume, random.below(BLOCKS), 2).await;
        }
        sim.afflict(house.ids[0], |faults| faults.hangs = true);
        let unanswered = pool.flush().await;
        assert!(unanswered.is_err());
        sim.afflict(house.ids[0], |faults| faults.hangs = false);
        io.sleep(Duration::from_secs(3)).await;
        // A flush that was not answered is one that failed: once there is no room any more, the reason is told.
        let mut refused = Ok(());
        for _ in 0..8000 {
            refused = refused.and(write(&io, &volume, random.below(BLOCKS), 2).await);
        }
        assert!(matches!(refused, Err(VolumeError::Member { role: Some(0), .. })), "{refused:?}");
        assert!(pool.status().written.moved > 0 && silences > 3, "{:?}", pool.status());
        for block in 0..BLOCKS {
            assert!(matches!(read(&io, &volume, block).await, Ok(1 | 2)), "block {block}");
        }
        assert_eq!(pool.status().damage.lost, 0);
    });
    io.shutdown();
}

/// The kernel's errors for a disk that was pulled are those of a full file system.
#[test]
fn a_member_that_was_pulled_is_failed_and_no_client_sees_an_error() {
    let kinds = [Kind::Mirror(2), Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Two, Kind::Unlike];
    for (seed, kind) in (20..).zip(kinds) {
        for reads_first in [false, true] {
            let sim = Sim::new(seed);
            let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
            let io = Io::new(Box::new(sim.clone()));
            io.block_on(house.create(&io));
            io.block_on(async {
                let pool = house.open(&io, 1).await;
                let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
                for block in 0..BLOCKS {
                    write(&io, &volume, block, 1).await.expect("written");
                }
                sim.pull(house.ids[1]);
                for block in 0..BLOCKS {
                    if reads_first {
                        assert_eq!(read(&io, &volume, block).await, Ok(1), "{block}");
                    }
                    write(&io, &volume, block, 2).await.expect("written without it");
                    if block == BLOCKS / 2 {
                        volume.flush().await.expect("flushed");
                        pool.checkpoint().await.expect("recorded");
                    }
                }
                for block in 0..BLOCKS {
                    assert_eq!(read(&io, &volume, block).await, Ok(2), "{block}");
                }
                let failed =
                    pool.status().members.iter().map(|member| member.is_failed()).collect::<Vec<_>>();
                assert!((0..).zip(&failed).all(|(n, &failed)| failed == (n == 1)), "{failed:?}");
                pool.stop().await.expect("the others are left");
            });
            io.shutdown();
        }
    }
}

#[test]
fn writes_go_on_while_the_log_gets_another_shape() {
    let sim = Sim::new(4);
    let house = House::new(Kind::Raidz(2, 5), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        for lost in 0..3 {
            for block in 0..BLOCKS {
                write(&io, &volume, block, lost).await.expect("written");
            }
            // By the moment at which the failure is on record there is a log to write to.
            if lost < 2 {
                pool.fail(u16::from(lost)).await.expect("two may be lost");
                assert!(pool.status().segments[1] >= 4, "{:?}", pool.status());
            }
        }
        for block in 0..BLOCKS {
            assert_eq!(read(&io, &volume, block).await, Ok(2), "block {block}");
        }
        pool.stop().await.expect("three are left");
    });
    io.shutdown();
}

#[test]
fn a_pool_opens_also_if_a_member_falls_silent_while_its_tables_are_read() {
    let mut sim = Sim::new(5);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        write(&io, &volume, 5, 7).await.expect("written");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
    sim = sim.restart(6);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        // Both labels of three members have been read by then.
        for &id in &house.ids[..1] {
            sim.schedule(When::Step(13), id, |faults| faults.hangs = true);
        }
        let pool = house.open(&io, 2).await;
        assert!(pool.status().members[0].is_failed());
        let volume = pool.volume("one").expect("it is there");
        assert_eq!(read(&io, &volume, 5).await, Ok(7));
        pool.stop().await.expect("two are left");
    });
    io.shutdown();
}

/// The recorded count of live blocks in a segment is true, also after a power cut: otherwise nothing would ever empty the segment.
#[test]
fn counts_of_what_is_live_are_true_after_power_cuts() {
    let mut sim = Sim::new(9);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.shutdown();
    for boot in 0..12 {
        sim = sim.restart(boot);
        let io = Io::new(Box::new(sim.clone()));
        sim.cut_power_at(When::Step(6000 + 700 * boot));
        let lived = io.block_on(sim.until_end(&io, async {
            let pool = house.open(&io, 10 + boot).await;
            let volume = match pool.volume("one") {
                Some(volume) => volume,
                None => pool.create_volume("one", BLOCKS * 4096).await.expect("room"),
            };
            let stored = pool.status().stored / 4096;
            let mut there = 0;
            for block in 0..BLOCKS {
                there += u64::from(read(&io, &volume, block).await != Ok(0));
            }
            assert_eq!(stored, there, "boot {boot}");
            let mut random = Random::new(boot);
            loop {
                write(&io, &volume, random.below(BLOCKS), 1 + boot as u8).await.expect("written");
            }
        }));
        assert_eq!(lived, None::<()>);
        io.shutdown();
    }
}

/// Parity is raised again on the members that are left, as far as there is room: then more may fail than there was parity for at first.
#[test]
fn parity_is_raised_on_the_members_that_are_left() {
    let sim = Sim::new(10);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        for block in 0..BLOCKS {
            write(&io, &volume, block, 3).await.expect("written");
        }
        pool.fail(0).await.expect("one may be lost");
        assert!(pool.status().thin > 0);
        for _ in 0..200 {
            io.sleep(Duration::from_millis(50)).await;
            if pool.status().thin == 0 && !pool.status().busy.cleaning {
                break;
            }
        }
        assert_eq!(pool.status().thin, 0, "{:?}", pool.status());
        pool.fail(1).await.expect("all has a copy on the third");
        write(&io, &volume, 0, 4).await.expect("written without any");
        for block in 1..BLOCKS {
            assert_eq!(read(&io, &volume, block).await, Ok(3), "block {block}");
        }
        assert!(pool.fail(2).await.is_err(), "the last one stays");
        pool.stop().await.expect("one is left");
    });
    io.shutdown();
    let io = Io::new(Box::new(sim.restart(11)));
    io.block_on(async {
        let opened = house.open_without(&io, 2, How::writing(2)).await;
        let volume = opened.expect("it has all").0.volume("one").expect("it is there");
        assert_eq!((read(&io, &volume, 0).await, read(&io, &volume, 1).await), (Ok(4), Ok(3)));
    });
    io.shutdown();
}

/// A place that can't be written costs no member: what was to stand there is written elsewhere before anybody is told of it.
#[test]
fn a_batch_that_a_member_refuses_is_written_elsewhere() {
    let sim = Sim::new(12);
    let house = House::new(Kind::Raidz(2, 5), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        for (n, &id) in house.ids.iter().enumerate() {
            // A block in each of some units, of each member others.
            let places = (0..4u64).map(|unit| (1 << 20) + ((4 * unit + n as u64) << 16) + (unit << 12));
            let places: Vec<u64> = places.collect();
            sim.afflict(id, |faults| {
                faults.unwritable.extend(places.iter().map(|&at| BadRange::forever(at..at + 4096)));
            });
        }
        for round in 1..4 {
            for block in 0..BLOCKS {
                write(&io, &volume, block, round).await.expect("written elsewhere");
            }
        }
        let status = pool.status();
        assert!(status.members.iter().all(|member| !member.is_failed()), "{status:?}");
        // Batches that fill a segment find none that is empty where others are written beside them.
        for round in 4..9 {
            for done in join_all((0..BLOCKS).map(|block| write(&io, &volume, block, round))).await {
                done.expect("written elsewhere");
            }
        }
        for block in 0..BLOCKS {
            assert_eq!(read(&io, &volume, block).await, Ok(8), "block {block}");
        }
        pool.stop().await.expect("all are there");
    });
    io.shutdown();
}

/// Opens a pool for writing on some of its members, has `work` use it, and stops it.
async fn used(
    io: &Io,
    ids: &[MemberId],
    take: Option<(usize, u16)>,
    opening: u64,
    house: &House,
    work: impl AsyncFnOnce(&Pool),
) -> Result<(), PoolOpenError> {
    let mut looked = Vec::new();
    for &id in ids {
        looked.push(look(io, "a member", id).await?);
    }
    let chosen = choose(&looked, take)?;
    let (pool, _) = open_chosen(io, chosen, How::degraded(opening), house.config()).await?;
    work(&pool).await;
    pool.stop().await.expect("stopped");
    Ok(())
}

/// Halves of a pool that both went on are told from each other; one is taken when that is said, and stays taken.
#[test]
fn of_halves_that_both_went_on_the_one_that_is_named_is_taken_for_good() {
    let sim = Sim::new(31);
    let house = House::new(Kind::Raidz(2, 4), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim));
    let (all, [left, right]) = (&house.ids[..], [&house.ids[..2], &house.ids[2..]]);
    let block = |byte: u8| {
        let io = io.clone();
        async move |pool: &Pool| {
            let buf = io.pool(4096).alloc(4096).await;
            buf.bytes_mut().fill(byte);
            pool.volume("one").expect("it is there").write(0, buf.all(), true).await.expect("written");
        }
    };
    let holds = |byte: u8, out: &'static [usize]| {
        let io = io.clone();
        async move |pool: &Pool| {
            let buf = io.pool(4096).alloc(4096).await;
            pool.volume("one").expect("it is there").read(0, buf.all()).await.expect("read");
            assert_eq!(buf.bytes()[0], byte);
            let members = pool.status().members;
            let is_out: Vec<usize> = (0..members.len()).filter(|&n| members[n].device.is_none()).collect();
            assert_eq!(is_out, out);
        }
    };
    io.block_on(async {
        house.create(&io).await;
        let made = async |pool: &Pool| drop(pool.create_volume("one", 1 << 20).await.expect("room"));
        used(&io, all, None, 1, &house, made).await.expect("all are there");
        used(&io, left, None, 2, &house, block(2)).await.expect("half of them do");
        used(&io, right, None, 3, &house, block(3)).await.expect("half of them do");
        let refused = used(&io, all, None, 4, &house, async |_| {}).await.expect_err("nothing decides");
        assert!(matches!(refused, PoolOpenError::Diverged { .. }), "{refused}");
        let way_out = refused.to_string();
        assert!(way_out.contains("--take 0.0") && way_out.contains("--take 0.2"), "{way_out}");
        used(&io, all, Some((0, 2)), 5, &house, holds(3, &[0, 1])).await.expect("it was decided");
        // It is on record: nobody has to say it again, and the others are out of date, not apart.
        used(&io, all, None, 6, &house, holds(3, &[0, 1])).await.expect("it stays decided");
        // Unless they went on once more.
        used(&io, left, None, 7, &house, block(7)).await.expect("they know of nothing");
        let refused = used(&io, all, None, 8, &house, async |_| {}).await.expect_err("apart again");
        assert!(matches!(refused, PoolOpenError::Diverged { .. }), "{refused}");
        used(&io, all, Some((0, 1)), 9, &house, holds(7, &[2, 3])).await.expect("it was decided");
        used(&io, all, None, 10, &house, holds(7, &[2, 3])).await.expect("it stays decided");
    });
    io.shutdown();
}

/// A member that loses the write of a summary goes on giving that of an earlier use of the segment, which is sound: what was flushed is
/// found all the same, by the other blocks.
#[test]
fn a_summary_of_an_earlier_use_does_not_hide_the_batch_whose_write_was_lost() {
    let mut sim = Sim::new(12);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let volume = pool.create_volume("one", BLOCKS * 4096).await.expect("room");
        // One batch for each block: each stripe has held a summary then.
        for _ in 0..6 {
            for block in 0..BLOCKS {
                write(&io, &volume, block, 1).await.expect("written");
            }
        }
        sim.afflict(house.ids[0], |faults| faults.losing_writes = u32::MAX);
        for block in 0..60 {
            write(&io, &volume, block, 2).await.expect("written");
        }
        volume.flush().await.expect("flushed");
    });
    io.shutdown();
    sim = sim.restart(13);
    sim.afflict(house.ids[0], |faults| faults.losing_writes = 0);
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        let pool = house.open(&io, 2).await;
        let volume = pool.volume("one").expect("it is there");
        for block in 0..BLOCKS {
            assert_eq!(read(&io, &volume, block).await, Ok(if block < 60 { 2 } else { 1 }), "block {block}");
        }
        assert_eq!(pool.check(|_| {}).await.expect("checked").lost, 0);
        pool.stop().await.expect("all are there");
    });
    io.shutdown();
}
