//! The table of segments: a checkpoint writes only those of its pages that changed, and some that lie about.

use brindle_format::pool::{LABEL, RING, RING_SLOTS, second_label};
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

/// A pool that was opened anew does not know yet which pages of its table say what they should. Its first checkpoint finds out.
#[test]
fn checkpoints_after_an_opening_look_only_at_pages_of_the_table_that_changed() {
    let (sim, house) = world((2 << 20) + (20_000 << 16), Some(64 << 10));
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        let _volume = pool.create_volume("one", 8 << 20).await.expect("room");
        pool.stop().await.expect("stopped");
        let (pool, _) = house.open_without(&io, 0, How::writing(2)).await.expect("it opens");
        pool.checkpoint().await.expect("a checkpoint");
        let touched = pool.touched();
        assert!(touched <= 4, "{touched} of more than 200 pages are compared by each checkpoint");
        for n in 0..64 {
            write(&io, &pool, n, 7).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        let touched = pool.touched();
        assert!(touched <= 8, "{touched} pages are compared after a few writes");
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
    let read = reader::read(&[house.size; 4], &peek).expect("it is read");
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

/// Notes in the table of a pool that has stopped that the first member lacks all blocks of volumes.
fn miss_first(sim: &Sim, house: &House) {
    let read = |member: usize, at: u64| {
        let mut bytes = vec![0; BLOCK];
        sim.peek(house.ids[member], at, &mut bytes);
        bytes
    };
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let sum = |bytes: &[u8]| brindle_format::pool::checksum(bytes).to_le_bytes();
    let ring = |slot: u64| LABEL + RING + slot * BLOCK as u64;
    let slot = (0..RING_SLOTS).max_by_key(|&slot| number(&read(0, ring(slot)), 32)).expect("some");
    let mut head = read(0, ring(slot));
    assert_eq!(head[104 + 16], 0, "the table is one page");
    let is_table =
        |bytes: &Vec<u8>| bytes.starts_with(b"BRNDPAGE") && bytes[8] == 4 && sum(bytes) == head[112..116];
    let places = (0..3).flat_map(|member| (1 << 20..house.size).step_by(BLOCK).map(move |at| (member, at)));
    let (member, at) = places.clone().find(|&(member, at)| is_table(&read(member, at))).expect("it stands");
    let mut table = read(member, at);
    for record in table[32..].chunks_exact_mut(48).filter(|record| record[1] != 4 && record[24..28] != [0; 4])
    {
        record[16] = 1;
    }
    head[112..116].copy_from_slice(&sum(&table));
    head[8..12].fill(0);
    let own = sum(&head);
    head[8..12].copy_from_slice(&own);
    sim.poke(house.ids[member], at, &table);
    for &id in &house.ids {
        sim.poke(id, ring(slot), &head);
        sim.poke(id, ring(slot) - LABEL + second_label(house.size), &head);
    }
}

#[test]
fn a_column_that_a_segment_calls_missing_is_read_as_if_its_member_were_lost() {
    let sim = Sim::new(5);
    let house = House::new(Kind::Raidz(1, 3), |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 1).await;
        let _volume = pool.create_volume("one", 1 << 20).await.expect("room");
        for block in 0..200 {
            write(&io, &pool, block, block as u8).await;
        }
        pool.stop().await.expect("stopped");
    });
    io.shutdown();
    miss_first(&sim, &house);
    let sim = sim.restart(6);
    let io = Io::new(Box::new(sim));
    io.block_on(async {
        for (without, how) in [(None, How::ReadOnly), (Some(1), How::ReadOnly), (None, How::writing(2))] {
            let ids: Vec<_> = (0..3).filter(|n| Some(*n) != without).map(|n| house.ids[n]).collect();
            let opened = brindle_pool::open(&io, &ids, how, None, house.config()).await;
            if without.is_some() {
                let why = opened.map(drop).expect_err("two columns of three are not there").to_string();
                assert!(why.contains("0.1"), "{why}");
                continue;
            }
            let (pool, _) = opened.expect("it opens");
            let volume = pool.volume("one").expect("it is there");
            let buf = io.pool(1 << 20).alloc(200 * BLOCK).await;
            let mut reads = 0;
            // The map is in memory from the first time on.
            for _ in 0..2 {
                reads = io.counters(house.ids[0]).reads;
                volume.read(0, buf.all()).await.expect("read");
            }
            if how == How::ReadOnly {
                assert_eq!(io.counters(house.ids[0]).reads, reads, "the member is not asked");
            }
            assert!(
                buf.bytes().chunks(BLOCK).zip(0u8..).all(|(block, byte)| block.iter().all(|b| *b == byte))
            );
            drop(buf);
            pool.stop().await.expect("stopped");
        }
    });
    io.shutdown();
}
