//! Members that fail, or say nothing for a while, under a pool that is written to.

use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io};
use brindle_pool::PoolVolume;
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
        // A flush that was not answered is one that failed: nothing is written any more, and the reason is told.
        let refused = write(&io, &volume, 0, 2).await;
        assert!(matches!(refused, Err(VolumeError::Member { role: Some(0), .. })), "{refused:?}");
        assert!(pool.status().written.moved > 0 && silences > 3, "{:?}", pool.status());
        for block in 0..BLOCKS {
            assert!(matches!(read(&io, &volume, block).await, Ok(1 | 2)), "block {block}");
        }
        assert_eq!(pool.status().damage.lost, 0);
    });
    io.shutdown();
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
