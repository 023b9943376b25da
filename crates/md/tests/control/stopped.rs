//! The end of a run: whoever stopped an array takes its devices away, so that nothing is written to them any more.

use brindle_array::{Array, EventKind, OpenConfig};
use brindle_format::md::Version;
use brindle_io::sim::{BadRange, Model, Sim};
use brindle_io::{Duration, Instant};
use brindle_layout::Level;

use crate::common::*;

const LEVELS: [(Level, usize); 3] = [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid10, 3)];

/// Longer than a look at the members takes, and than all that a round does.
const LATER: Duration = Duration::from_secs(3);

/// Time between two rounds that clear bits.
const ROUND: Duration = Duration::from_millis(10);

/// A flush of its, and with that the end of a run that has nothing to record, takes no time beside a write.
const SLOW_TO_WRITE: Model = Model { write_latency: 200_000, flush_latency: 5_000, ..Model::nvme() };

fn world(level: Level, members: usize) -> World<Sim> {
    let shape = Shape { bitmap: Some(8192), ..Shape::new(level, members) };
    World::in_sim(&shape.metadata(Version::V1_2, 0), SLOW_TO_WRITE, 7)
}

/// It is clean soon after a write, so that the end of the run need not say so.
fn open(world: &World<Sim>) -> Array {
    let config = OpenConfig { daemon_sleep: Some(ROUND), idle: Duration::from_millis(2), ..patient() };
    world.try_open(world.assembly().unwrap(), config).unwrap()
}

/// The content of all drives, and how many places of each can't be read until they are written.
fn seen(world: &World<Sim>) -> Vec<(Vec<u8>, usize)> {
    let unreadable = |member: usize| world.bench.faults(world.ids[member]).unreadable.len();
    (0..world.ids.len()).map(|member| (world.image(member), unreadable(member))).collect()
}

/// Has a run end at a moment. Tells whether members had something to do just then.
fn stop_at(world: &World<Sim>, array: &Array, moment: Instant, who: &str) -> bool {
    world.io.block_on(world.io.sleep_until(moment));
    let busy = world.io.in_flight() > 0;
    world.stop(array);
    let at_stop = seen(world);
    idle(world, LATER);
    let who = format!("{who}, stopped at {moment:?}");
    assert!(at_stop == seen(world), "{who}: a member was written to when it had stopped");
    busy
}

#[test]
fn stop_waits_for_a_round_that_clears_bits() {
    for (level, members) in LEVELS {
        let mut met = 0;
        for step in 0..120 {
            let world = world(level, members);
            let array = open(&world);
            let opened = world.io.now();
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            // The first round finds that something was written, the second one flushes, and clears. Of a drive that takes nothing
            // any more it learns that as late as it can.
            let second = opened.after(ROUND).after(ROUND);
            let moment = second.after(Duration::from_micros(step * 8));
            if step % 2 == 0 {
                world.io.block_on(world.io.sleep_until(second));
                world.bench.refuse_writes(world.ids[1]);
            }
            met += u32::from(stop_at(&world, &array, moment, &level.to_string()));
            let lost = array.events_since(0).iter().any(|event| event.kind == EventKind::MemberFailed);
            let sbs = world.superblocks();
            assert!(sbs[0].is_clean(), "{level}");
            assert_eq!(sbs[0].events >= sbs[1].events + 2, lost, "{level}: {step}");
        }
        assert!(met > 10, "{level}: a round was under way {met} times");
    }
}

#[test]
fn stop_waits_for_what_a_read_mends() {
    for (level, members) in LEVELS {
        let (mut mended, mut failed) = (0, 0);
        for step in 0..100 {
            let world = world(level, members);
            let array = open(&world);
            world.write(&array, 0, &pattern(1, 4096)).unwrap();
            idle(&world, Duration::from_millis(100));
            // Each member lacks another place, which the others can give.
            for (place, &id) in (world.superblock(0).data_offset..).step_by(512).zip(&world.ids) {
                world.bench.afflict(id, |faults| {
                    faults.unreadable.push(BadRange::until_written(place..place + 512));
                    if step % 2 == 0 {
                        faults.unwritable.push(BadRange::forever(place..place + 512));
                    }
                });
            }
            let (pool, reader) = (world.pool.clone(), array.clone());
            let read = world.io.spawn(async move { read(&pool, &reader, 0, 4096).await });
            let moment = world.io.now().after(Duration::from_micros(step * 20));
            stop_at(&world, &array, moment, &level.to_string());
            assert_eq!(world.io.block_on(read).unwrap(), pattern(1, 4096), "{level}");
            let happened = |kind| array.events_since(0).iter().filter(|event| event.kind == kind).count();
            mended += happened(EventKind::Corrected);
            failed += happened(EventKind::MemberFailed);
        }
        assert!(mended > 2 && failed > 2, "{level}: {mended}, {failed}");
    }
}
