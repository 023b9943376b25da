//! The power goes in the middle of writes: what was flushed is there, and redundancy can be brought in sync again.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{OpenConfig, RoleState, SyncMode};
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim, When};
use brindle_layout::{Family, Level};
use brindle_testkit::client::Trouble;
use brindle_testkit::load::{Mix, Request};
use brindle_testkit::oracle::Oracle;
use brindle_testkit::running::Running;

use crate::common::*;

const LANES: u64 = 6;
const BLOCK: u64 = 4096;

fn shape(level: Level, members: usize) -> Shape {
    Shape { chunk: 16 << 10, rows: 16, ..Shape::new(level, members) }
}

/// Runs clients until the power goes; gives the drives in a new world, and what they may hold.
fn crash(shape: &Shape, seed: u64) -> (World<Sim>, Rc<RefCell<Oracle>>) {
    let run = Running::start(World::in_sim(shape, Model::sata_ssd(), seed), patient());
    let oracle = run.oracle();
    let client = run.client(&oracle);
    let mix = Mix { reads: 0, most: 16 << 10, block: BLOCK, ..Mix::default() };
    run.run(async |run| {
        let io = run.io.clone();
        drop(run.io.spawn(async move { client.side_by_side(&io, LANES, u64::MAX, mix, seed).await }));
        run.io.sleep(Duration::from_micros(4000 + seed * 777)).await;
        run.bench.cut_power();
    });
    let world = run.into_world().restart(seed);
    oracle.borrow_mut().power_cut();
    (world, oracle)
}

#[test]
fn what_was_flushed_survives_a_power_cut_and_a_resync_brings_redundancy_in_sync() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 5)] {
        for seed in 0..6 {
            let who = format!("{level} seed {seed}");
            let (world, oracle) = crash(&shape(level, members), seed);
            let run = Running::start(world, patient());
            assert!(run.array.needs_resync(), "{who}");
            let client = run.client(&oracle);
            run.run(async |run| {
                let whole = async || {
                    client.read_all().await.unwrap_or_else(|trouble| panic!("{who}: {trouble}"));
                    run.read_all().await.unwrap()
                };
                let before = whole().await;
                let flushed = |at: usize| before[at] != 0 && oracle.borrow().is_certain(at as u64);
                assert!((0..before.len()).step_by(512).any(flushed), "{who}: something was flushed");
                run.array.resync(|_| ()).await.unwrap();
                let report = run.array.check(SyncMode::Check, |_| ()).await.unwrap();
                assert_eq!(report.mismatch_sectors, 0, "{who}");
                for lost in 0..members as u16 - 1 {
                    assert!(whole().await == before, "{who}: {lost} members less");
                    if run.array.fail(lost).await.is_err() {
                        break;
                    }
                }
            });
            run.stop();
        }
    }
}

#[test]
fn a_member_lost_in_the_resync_after_a_power_cut() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid6, 5)] {
        for seed in [1, 4] {
            for after in [0, 7, 20, 45, 90, 200, 400, 800] {
                let lost = (seed + after) as usize % members;
                let who = format!("{level} seed {seed}: {lost} lost after {after}");
                let (world, oracle) = crash(&shape(level, members), seed);
                let run = Running::start(world, OpenConfig { scratch_bytes: 0, ..patient() });
                lose_in_resync(&run, &oracle, (lost, after), &who);
            }
        }
    }
}

/// Resyncs and writes while a member vanishes; what is written is there, what was stable is there or an error.
fn lose_in_resync(run: &Running<Sim>, oracle: &Rc<RefCell<Oracle>>, (lost, after): (usize, u64), who: &str) {
    let client = run.client(oracle);
    let Family::Parity(map) = run.array.geometry().family() else { unreachable!("levels with parity") };
    let step = When::Step(run.bench.steps() + after);
    let upset = Rc::clone(oracle);
    run.bench.schedule(step, run.ids[lost], move |faults| {
        upset.borrow_mut().upset();
        faults.gone = true;
    });
    run.run(async |run| {
        let array = run.array.clone();
        let resync = run.io.spawn(async move { array.resync(|_| ()).await });
        for offset in (0..run.size()).step_by(3 * BLOCK as usize) {
            let write = Request::Write { offset, len: BLOCK, fua: false };
            client.ask(write).await.unwrap_or_else(|trouble| panic!("{who}: {trouble}"));
        }
        resync.await.unwrap();
        let mut answered = 0;
        for offset in (0..run.size()).step_by(BLOCK as usize) {
            let position = map.position(offset);
            let role = map.row(position.row).data_member(position.data_index);
            match client.ask(Request::Read { offset, len: BLOCK }).await {
                Ok(()) => answered += BLOCK,
                Err(Trouble::Refused(_, error)) => {
                    assert!(offset % (3 * BLOCK) > 0, "{who}: {offset} was written after the crash: {error}");
                    let state = run.array.state(role);
                    assert_eq!((usize::from(role), state), (lost, RoleState::Failed), "{who}: {error}");
                }
                Err(wrong) => panic!("{who}: {wrong}"),
            }
        }
        assert!(answered > run.size() / 2, "{who}: {answered} bytes");
    });
    run.stop();
}
