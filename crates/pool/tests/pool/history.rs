//! The history of a pool: what went down in it is there at the next opening, within bounds, and a second reader reads the same.

use brindle_format::pool::{HistoryKind, HistoryPage, HistoryRecord};
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_pool::{How, Pool};
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::pools::reader::{self, PoolContent};

fn house(sim: &Sim, size: u64) -> House {
    House::of(Kind::Raidz(1, 3), size, |size| sim.add_blank_drive(Model::sata_ssd(), size))
}

const SMALL: u64 = (2 << 20) + (80 << 16);

fn texts(pool: &Pool) -> Vec<String> {
    pool.history().iter().map(|record| record.text().to_owned()).collect()
}

fn second(sim: &Sim, house: &House) -> PoolContent {
    let peek = |device: usize, byte: u64| {
        let mut bytes = vec![0; 4096];
        sim.peek(house.ids[device], byte, &mut bytes);
        Some(bytes)
    };
    let content = reader::read(&vec![house.size; house.ids.len()], &peek).expect("it reads");
    assert_eq!(content.miscounted, []);
    content
}

#[test]
fn commands_and_what_happened_are_there_at_the_next_opening() {
    let sim = Sim::new(1);
    let house = house(&sim, SMALL);
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 2).await;
        assert_eq!(pool.history(), []);
        let _volume = pool.create_volume("one", 1 << 20).await.expect("room");
        pool.note_command("brindle volume create tank/one 1M", Some(1000));
        pool.note_command("odd\nbytes", None);
        pool.begin_scrub(brindle_pool::ScrubKind::Repair).expect("begun");
        pool.scrub_ended().await;
        pool.rename("pond").await.expect("renamed");
        pool.fail(2).await.expect("it can do without");
        pool.stop().await.expect("stopped");
        let (pool, _) = house.open_without(&io, 0, How::ReadOnly).await.expect("it opens");
        let records = pool.history();
        let head = HistoryRecord::new(
            1_800_000_001,
            HistoryKind::Command { user: Some(1000) },
            "",
            "brindle volume create tank/one 1M",
        );
        assert_eq!(records[0], head);
        assert_eq!(
            texts(&pool)[1..],
            [
                "odd bytes",
                "repair of all that is stored has begun",
                "repair has ended: healed 0, errors 0",
                "pond is the name of the pool from now on",
                "pond 0.2 (role 2) failed: it is out of use: by command"
            ]
        );
        assert!(records[2..].iter().all(|record| record.kind == HistoryKind::Internal));
        // Nothing goes down in what is only read.
        pool.note_command("nothing", None);
        assert_eq!(pool.history(), records);
        pool.stop().await.expect("stopped");
        let read = second(&sim, &house).history;
        let told = records.iter().map(|one| (one.time, one.host().to_owned(), one.text().to_owned()));
        assert_eq!(read, told.collect::<Vec<_>>());
    });
    io.shutdown();
}

/// A small pool has a page, a larger one several with pointers above them.
#[test]
fn the_oldest_records_go_where_there_are_too_many() {
    for (size, pages) in [(SMALL, 1), (64 << 20, 3)] {
        let sim = Sim::new(2);
        let house = house(&sim, size);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            house.create(&io).await;
            let pool = house.open(&io, 2).await;
            for n in 0..60 {
                pool.note_command(&format!("{n} {}", "x".repeat(990)), Some(0));
                pool.checkpoint().await.expect("a checkpoint");
            }
            let all = texts(&pool);
            assert!(all.len() <= 4 * pages && all.len() > 4 * (pages - 1), "{} of {size}", all.len());
            let first = 60 - all.len();
            assert!((first..60).zip(&all).all(|(n, text)| text.starts_with(&format!("{n} "))));
            pool.stop().await.expect("stopped");
            assert_eq!(second(&sim, &house).history.len(), all.len());
            let pool = house.open(&io, 3).await;
            assert_eq!(texts(&pool), all);
            pool.note_command("last", None);
            pool.stop().await.expect("stopped");
            assert_eq!(second(&sim, &house).history.last().map(|last| &*last.2), Some("last"));
        });
        io.shutdown();
    }
}

/// The history is no reason not to open a pool.
#[test]
fn a_pool_opens_without_pages_of_its_history() {
    let sim = Sim::new(3);
    let house = House::of(Kind::Mirror(2), SMALL, |size| sim.add_blank_drive(Model::sata_ssd(), size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(async {
        house.create(&io).await;
        let pool = house.open(&io, 2).await;
        pool.note_command("first", None);
        pool.stop().await.expect("stopped");
        let mut spoilt = 0;
        for (&id, at) in house.ids.iter().flat_map(|id| (0..house.size).step_by(4096).map(move |at| (id, at)))
        {
            let mut bytes = vec![0; 4096];
            sim.peek(id, at, &mut bytes);
            if HistoryPage::parse(&bytes, 0).is_ok() {
                sim.poke(id, at + 2000, &[1]);
                spoilt += 1;
            }
        }
        assert!(spoilt >= 2, "{spoilt}");
        let pool = house.open(&io, 3).await;
        assert_eq!(texts(&pool), ["pages of the history were lost: 1"]);
        pool.note_command("second", None);
        pool.stop().await.expect("stopped");
        assert_eq!(second(&sim, &house).history.len(), 2);
    });
    io.shutdown();
}
