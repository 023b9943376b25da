//! Volumes of pools keep the contract of volumes, on modelled drives, whole and with members lost.

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::How;
use brindle_testkit::conformance::{conforms, refuses_changes};
use brindle_testkit::pools::house::{House, Kind};
use brindle_volume::Volume;

#[test]
fn volumes_keep_the_contract_on_drives_that_fail() {
    for (kind, lost) in [
        (Kind::Raidz(1, 3), 0),
        (Kind::Raidz(1, 4), 1),
        (Kind::Raidz(2, 5), 2),
        (Kind::Raidz(2, 4), 2),
        (Kind::Raidz(3, 5), 3),
        (Kind::Two, 0),
        (Kind::Plain(2), 0),
        (Kind::Mirror(2), 1),
        (Kind::Mirror(3), 2),
    ] {
        let sim = Sim::new(7);
        let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.block_on(async {
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", 300 << 10).await.expect("room");
            house.ids[..lost].iter().for_each(|&id| sim.kill(id));
            conforms(&format!("{kind:?} without {lost}"), &io, &io.pool(16 << 20), &volume).await;
            pool.stop().await.expect("enough are there");
        });
        io.shutdown();
    }
}

#[test]
fn what_was_written_is_there_when_the_pool_is_opened_again_without_members() {
    for (kind, lost) in
        [(Kind::Raidz(2, 5), 2), (Kind::Raidz(1, 3), 1), (Kind::Mirror(3), 2), (Kind::Plain(2), 0)]
    {
        let mut sim = Sim::new(9);
        let house = House::new(kind, |size| sim.add_blank_drive(Model::sata_ssd(), size));
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        let bytes: Vec<u8> = (0..1u32 << 20).map(|n| (n * 7 + n / 4096) as u8).collect();
        io.block_on(async {
            let pool = house.open(&io, 1).await;
            let volume = pool.create_volume("one", 1 << 20).await.expect("room");
            let buf = io.pool(2 << 20).alloc(1 << 20).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            volume.write(0, buf.all(), false).await.expect("written");
            volume.flush().await.expect("flushed");
            // Nobody stops it.
        });
        sim.cut_power();
        io.shutdown();
        for (number, how) in [How::ReadOnly, How::degraded(2), How::ReadOnly].into_iter().enumerate() {
            sim = sim.restart(number as u64);
            let io = Io::new(Box::new(sim.clone()));
            io.block_on(async {
                let (pool, recovered) = house.open_without(&io, lost, how).await.expect("it opens");
                assert_eq!(recovered.lost, 0);
                assert_eq!(recovered.batches > 0, number < 2, "{recovered:?}");
                let volume = pool.volume("one").expect("it was made");
                let buf = io.pool(2 << 20).alloc(1 << 20).await;
                volume.read(0, buf.all()).await.expect("read");
                assert!(*buf.bytes() == *bytes, "{kind:?} {how:?}");
                if how == How::ReadOnly {
                    refuses_changes("read-only", &io, &io.pool(4 << 20), &volume).await;
                }
                pool.stop().await.expect("stopped");
            });
            io.shutdown();
        }
    }
}

/// A check goes through what is stored, and not through what volumes could hold.
#[test]
fn a_check_walks_the_map_and_not_the_size() {
    let sim = Sim::new(3);
    let house = House::of(Kind::Raidz(1, 3), 1 << 30, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim));
    io.block_on(house.create(&io));
    io.block_on(async {
        let pool = house.open(&io, 1).await;
        let size = pool.status().capacity;
        let volume = pool.create_volume("one", size).await.expect("it is sold");
        let last = size / 4096 - 1;
        for block in [5, 6, last / 2, last] {
            let buf = io.pool(4096).alloc(4096).await;
            buf.bytes_mut().fill(7);
            volume.write(block * 4096, buf.all(), false).await.expect("written");
        }
        // Some of it in leaves, some not yet.
        for _ in 0..2 {
            let (mut steps, mut gone) = (0, 0);
            let checked =
                pool.check(|at| (steps, gone) = (steps + 1, at)).await.expect("the map can be read");
            assert_eq!((checked.wrong, checked.lost, checked.mismatches), (0, 0, 0), "{checked:?}");
            assert!(
                checked.blocks >= 4 && steps <= 16 && gone == size,
                "{checked:?}: {steps} steps to {gone}"
            );
            pool.checkpoint().await.expect("a checkpoint");
        }
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
