//! The table of segments: a checkpoint writes only those of its pages that changed, and some that lie about.

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{How, Pool};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::pools::reader;
use brindle_volume::Volume;

const BLOCK: usize = 4096;

fn world(size: u64, unit: Option<u64>) -> (Sim, House) {
    let sim = Sim::new(3);
    let mut house = House::of(Kind::Raidz(1, 4), size, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    (house.unit, house.usual) = (unit, true);
    (sim, house)
}

fn written(io: &Io, house: &House) -> u64 {
    house.ids.iter().map(|&id| io.counters(id).bytes_written).sum()
}

#[test]
fn a_checkpoint_of_a_large_empty_pool_writes_a_few_pages() {
    let (sim, house) = world(8 << 40, None);
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        for name in ["one", "two", "three", "four"] {
            let before = written(&io, &house);
            let _volume = pool.create_volume(name, 1 << 30).await.expect("room");
            let wrote = (written(&io, &house) - before) >> 10;
            assert!(wrote <= 256, "a checkpoint of an empty pool writes {wrote} KiB");
        }
        pool.stop().await.expect("stopped");
        let before = written(&io, &house);
        let (pool, _) = house.open_without(&io, 0, How::writing(2)).await.expect("it opens");
        let wrote = (written(&io, &house) - before) >> 10;
        assert!(wrote <= 2048, "an opening of an empty pool writes {wrote} KiB");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}

async fn write(io: &Io, pool: &Pool, block: u64, byte: u8) {
    let volume = pool.volume("one").expect("it is there");
    let buf = io.pool(1 << 20).alloc(BLOCK).await;
    buf.bytes_mut().fill(byte);
    volume.write(block << 12, buf.all(), false).await.expect("written");
}

/// Pages of the table come to lie in more and more segments, of which an uberblock can name so many, and each of which is not free.
#[test]
fn pages_that_lie_about_are_gathered_and_the_table_stays_what_it_should_be() {
    let (sim, house) = world((2 << 20) + (1800 << 16), Some(64 << 10));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        let _volume = pool.create_volume("one", 8 << 20).await.expect("room");
        let mut used = Vec::new();
        for round in 0..400u64 {
            for n in 0..24 {
                write(&io, &pool, (round * 7919 + n * 641) % 2048, round as u8).await;
            }
            pool.checkpoint().await.expect("a checkpoint");
            used.push(pool.status().segments[2]);
        }
        // Each block has been written anew many times by then.
        let most = |rounds: &[usize]| rounds.iter().copied().max().unwrap_or(0);
        let (before, after) = (most(&used[100..200]), most(&used[300..]));
        assert!(after <= before + 8, "{before} segments hold something, and later {after}");
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
    let peek = |device: usize, at: u64| {
        let mut bytes = vec![0; BLOCK];
        sim.peek(house.ids[device], at, &mut bytes);
        Some(bytes)
    };
    let read = reader::read(&vec![house.size; 4], &peek).expect("it is read");
    assert_eq!(read.miscounted, []);
    let sim = sim.restart(4);
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        let (pool, _) = house.open_without(&io, 1, How::degraded(2)).await.expect("it opens");
        let found = pool.check(|_| {}).await.expect("it can be gone over");
        assert_eq!((found.wrong, found.lost, found.mismatches), (0, 0, 0));
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
}
