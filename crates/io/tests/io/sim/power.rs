//! The power goes: what survives, and that nothing happens afterwards.

use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Instant, Io, MemberId, OpError, PAGE, Pool};

use crate::sim::{flush, look, read, start, world, write, write_bytes};

#[test]
fn flushed_and_fua_bytes_survive_a_power_cut_and_others_may_not() {
    let mut kept = 0;
    for seed in 0..64 {
        let (sim, io, pool) = world(seed);
        let member = sim.add_blank_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(async {
            write(&io, &pool, member, 0, 1, false).await.unwrap();
            flush(&io, member).await.unwrap();
            write(&io, &pool, member, 4096, 9, false).await.unwrap();
            write(&io, &pool, member, 4096, 2, true).await.unwrap();
            write(&io, &pool, member, 8192, 3, false).await.unwrap();
        });
        sim.cut_power();
        let bytes = look(&sim, member, 0, 3 * PAGE);
        assert!(bytes[..PAGE].iter().all(|&b| b == 1), "flushed");
        assert!(bytes[PAGE..2 * PAGE].iter().all(|&b| b == 2), "FUA");
        let third = &bytes[2 * PAGE..];
        assert!(third.chunks(512).all(|s| s == [0; 512] || s == [3; 512]), "sectors are whole");
        kept += third.chunks(512).filter(|s| s[0] == 3).count();
    }
    assert!((64..448).contains(&kept), "{kept} of 512 unflushed sectors survived: neither none nor all");
}

#[test]
fn of_writes_in_the_cache_any_may_survive_whatever_came_after() {
    let mut seen = [0; 4];
    for seed in 0..64 {
        let (sim, io, pool) = world(seed);
        let member = sim.add_blank_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(async {
            write(&io, &pool, member, 0, 1, false).await.unwrap();
            flush(&io, member).await.unwrap();
            write(&io, &pool, member, 0, 2, false).await.unwrap();
            write(&io, &pool, member, 0, 3, false).await.unwrap();
        });
        sim.cut_power();
        look(&sim, member, 0, PAGE).chunks(512).for_each(|sector| seen[usize::from(sector[0])] += 1);
    }
    assert_eq!(seen[0], 0, "what was flushed is the oldest that comes back");
    assert!(seen[1..].iter().all(|&count| count > 50), "{seen:?}");
}

#[test]
fn a_flush_does_not_cover_writes_that_complete_after_it_began() {
    let lost = (0..64).any(|seed| {
        let (sim, io, pool) = world(seed);
        let member = sim.add_blank_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(async {
            let flushing = {
                let io = io.clone();
                io.clone().spawn(async move { flush(&io, member).await })
            };
            io.yield_now().await;
            write(&io, &pool, member, 0, 1, false).await.unwrap();
            flushing.await.unwrap();
        });
        sim.cut_power();
        look(&sim, member, 0, 1) == [0]
    });
    assert!(lost);
}

/// How many sectors of a page under way are there after the cut, for many seeds.
fn torn(model: Model) -> Vec<usize> {
    let after_cut = |seed| {
        let (sim, io, pool) = world(seed);
        let member = sim.add_blank_drive(model, 1 << 20);
        let writer = io.clone();
        drop(io.spawn(async move { write(&writer, &pool, member, 0, 1, true).await }));
        io.block_on(io.yield_now());
        sim.cut_power();
        io.shutdown();
        look(&sim, member, 0, PAGE).chunks(512).filter(|s| s[0] == 1).count()
    };
    (0..64).map(after_cut).collect()
}

#[test]
fn a_write_under_way_is_torn_at_the_tear_unit() {
    let by_sector = torn(Model::nvme());
    assert!(by_sector.contains(&0) && by_sector.contains(&8), "{by_sector:?}");
    let parts = by_sector.iter().filter(|&&made| made % 8 > 0).count();
    assert!(parts > 16, "{parts} of 64 writes were torn");
    for model in [Model::nvme().with_block(4096), Model::hdd()] {
        let by_page = torn(model);
        assert!(by_page.contains(&0) && by_page.contains(&8), "{by_page:?}");
        assert!(by_page.iter().all(|made| made % 8 == 0), "{by_page:?}");
    }
}

/// Writes pages, each with its number, until the world ends; gives how many were acknowledged.
async fn pages(io: &Io, pool: &Pool, member: MemberId) -> u8 {
    for number in 0..40 {
        write(io, pool, member, u64::from(number) * PAGE as u64, number + 1, true).await.unwrap();
    }
    40
}

#[test]
fn the_power_can_go_at_every_step_and_what_was_acknowledged_is_there() {
    let mut seen = Vec::new();
    for step in 0..=80 {
        let (sim, io, pool) = world(5);
        let member = sim.add_drive(Model::sata_ssd(), 1 << 20);
        sim.cut_power_at(When::Step(step));
        let acknowledged = std::cell::Cell::new(0);
        let run = async {
            for number in 0..40u8 {
                write(&io, &pool, member, u64::from(number) * PAGE as u64, number + 1, true).await.unwrap();
                acknowledged.set(number + 1);
            }
        };
        let ended = io.block_on(sim.until_end(&io, run));
        assert_eq!((ended.is_none(), sim.has_ended()), (step < 80, step < 80), "step {step}");
        assert_eq!(u64::from(acknowledged.get()), step / 2, "each write is two steps");
        assert_eq!(sim.steps(), step.min(80), "nothing happens at the cut or after it");
        io.shutdown();
        let after = sim.restart(step);
        for number in 0..acknowledged.get() {
            let page = look(&after, member, u64::from(number) * PAGE as u64, PAGE);
            assert!(page == [number + 1; PAGE], "step {step}: page {number}");
        }
        seen.push(sim.trace().0);
    }
    seen.dedup();
    assert_eq!(seen.len(), 81, "all of them differ");
}

#[test]
fn a_dead_world_accepts_nothing_and_its_time_stands_still() {
    let (sim, io, pool) = world(1);
    let member = sim.add_blank_drive(Model::nvme(), 1 << 20);
    let at = Instant::from_nanos(1_000_000_000);
    sim.cut_power_at(When::Moment(at));
    let ended = io.block_on(sim.until_end(&io, io.sleep(Duration::from_secs(2))));
    assert_eq!((ended, io.now()), (None, at));
    let (trace, steps) = (sim.trace(), sim.steps());
    let late = async {
        write(&io, &pool, member, 0, 1, true).await.unwrap();
    };
    assert_eq!(io.block_on(sim.until_end(&io, late)), None);
    let task = io.spawn({
        let (io, pool) = (io.clone(), pool.clone());
        async move { write(&io, &pool, member, 0, 1, true).await }
    });
    io.block_on(io.yield_now());
    assert_eq!((sim.trace(), sim.steps(), io.now()), (trace, steps, at));
    drop(task);
    io.shutdown();
    assert_eq!(
        (io.in_flight(), pool.free_bytes()),
        (0, pool.capacity()),
        "memory comes back with the executor's end"
    );
    assert_eq!(look(&sim, member, 0, PAGE), [0; PAGE]);
}

#[test]
#[should_panic(expected = "the world has ended")]
fn a_driver_that_does_not_look_is_reported() {
    let (sim, io, pool) = world(1);
    let member = sim.add_drive(Model::nvme(), 1 << 20);
    sim.cut_power_at(When::Step(1));
    let _ = io.block_on(write(&io, &pool, member, 0, 1, true));
}

#[test]
fn drives_go_on_in_a_new_world_as_often_as_the_power_goes() {
    let mut sim = Sim::new(3);
    let member = sim.add_drive(Model::sata_ssd(), 1 << 20);
    sim.spoil(member, 512 << 10, 4096);
    let noise = look(&sim, member, 900 << 10, PAGE);
    for round in 0..10u8 {
        let (io, pool) = start(&sim);
        assert_eq!(io.now().as_nanos(), 0);
        io.block_on(async {
            if round > 0 {
                assert_eq!(read(&io, &pool, member, 0, PAGE).await.unwrap(), [round; PAGE]);
            }
            assert_eq!(read(&io, &pool, member, 512 << 10, PAGE).await, Err(OpError::Medium(5)));
            write(&io, &pool, member, 0, round + 1, false).await.unwrap();
            flush(&io, member).await.unwrap();
        });
        sim.cut_power();
        io.shutdown();
        sim = sim.restart(u64::from(round));
    }
    assert_eq!(look(&sim, member, 900 << 10, PAGE), noise, "what was never written stays as it is");
}

#[test]
fn a_process_that_ends_leaves_the_drives_their_caches() {
    for seed in 0..16 {
        let (sim, io, pool) = world(seed);
        let member = sim.add_blank_drive(Model::sata_ssd(), 1 << 20);
        io.block_on(write(&io, &pool, member, 0, 1, false)).unwrap();
        let task = io.spawn({
            let (io, pool) = (io.clone(), pool.clone());
            async move { write_bytes(&io, &pool, member, 4096, &[2; 16 * PAGE], false).await }
        });
        io.block_on(io.yield_now());
        let after = sim.restart(seed);
        assert!(sim.has_ended());
        drop(task);
        io.shutdown();
        assert_eq!(look(&after, member, 0, PAGE), [1; PAGE], "in the cache, and read from there");
        let under_way = look(&after, member, 4096, 16 * PAGE);
        assert!(under_way.chunks(512).all(|s| s == [0; 512] || s == [2; 512]));
        let (io, _) = start(&after);
        io.block_on(flush(&io, member)).unwrap();
        after.cut_power();
        assert_eq!(look(&after, member, 0, PAGE), [1; PAGE]);
        assert_eq!(
            look(&after, member, 4096, 16 * PAGE),
            under_way,
            "the flush covers what the first process wrote"
        );
    }
}

#[test]
fn a_cut_replays_to_the_byte() {
    let run = |seed| {
        let (sim, io, pool) = world(seed);
        let member = sim.add_drive(Model::sata_ssd(), 1 << 20);
        sim.cut_power_at(When::Step(33));
        io.block_on(sim.until_end(&io, pages(&io, &pool, member)));
        io.shutdown();
        (sim.trace(), look(&sim.restart(0), member, 0, 1 << 20))
    };
    assert!(run(8) == run(8));
    assert!(run(8) != run(9));
}
