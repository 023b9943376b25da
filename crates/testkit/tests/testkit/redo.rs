//! An array with a log of rows on its members has true parity after a cut at any step, without a resync and with a member lost
//! besides. Without that log it has not.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Array, Device, OpenConfig, RoleState, SyncMode};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Layout, Level, ParityLayout};
use brindle_testkit::client::Client;
use brindle_testkit::faults::Fault;
use brindle_testkit::load::Mix;
use brindle_testkit::oracle::Oracle;
use brindle_testkit::random::Random;
use brindle_testkit::redo::{LOG_BYTES, Redo, replay};
use brindle_testkit::world::patient;

const CHUNK: u64 = 8 << 10;
const ROWS: u64 = 8;
const ENDLESS: u64 = 100_000;

/// A storm: members, and what happens to them.
struct Storm {
    level: Level,
    members: usize,
    seed: u64,
    /// The step of the first boot before which the power goes.
    cut: Option<u64>,
    /// The log writes nothing.
    idle: bool,
    /// A member refuses writes from that many steps before the cut on.
    refuses: bool,
}

impl Storm {
    fn geometry(&self) -> Geometry {
        let sizes = vec![ROWS * CHUNK; self.members];
        Geometry::new(self.level, Layout::Parity(ParityLayout::LeftSymmetric), CHUNK, &sizes)
            .expect("a shape")
    }

    /// Steps of the first boot, and whether a member failed; or what went wrong.
    fn run(&self) -> Result<(u64, bool), String> {
        let mut sim = Sim::new(self.seed);
        let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let blank = |_| sim.add_blank_drive(quick, LOG_BYTES + ROWS * CHUNK);
        let ids: Vec<MemberId> = (0..self.members).map(blank).collect();
        let oracle = Rc::new(RefCell::new(Oracle::zeroes(self.geometry().size())));
        let mut devices: Vec<Option<Device>> =
            ids.iter().map(|&id| Some(Device { id, data_offset: LOG_BYTES })).collect();
        let mut random = Random::stream(self.seed, self.cut.unwrap_or(ENDLESS));
        let mut steps = 0;
        for boot in 0..3 {
            let cut = if boot == 0 { self.cut } else { random.one_in(2).then(|| random.below(300)) };
            let strikes = (boot == 0 && self.refuses).then(|| self.cut.unwrap_or(200).saturating_sub(40));
            let cut = cut.filter(|_| boot < 2);
            let ended = self.live(&sim, &mut devices, &oracle, cut, strikes, boot)?;
            if boot == 0 {
                steps = sim.steps();
            }
            if ended {
                oracle.borrow_mut().stopped();
            } else {
                oracle.borrow_mut().power_cut();
            }
            sim = sim.restart(self.seed + boot);
            ids.iter().for_each(|&id| Fault::after_power_cycle(&sim, id, false));
        }
        Ok((steps, devices.contains(&None)))
    }

    /// True if the boot came to its end, false if the power went.
    fn live(
        &self,
        sim: &Sim,
        devices: &mut [Option<Device>],
        oracle: &Rc<RefCell<Oracle>>,
        cut: Option<u64>,
        strikes: Option<u64>,
        boot: u64,
    ) -> Result<bool, String> {
        let io = Io::new(Box::new(sim.clone()));
        sim.cut_power_at(When::Step(cut.unwrap_or(ENDLESS)));
        oracle.borrow_mut().upset();
        if let (Some(step), Some(struck)) = (strikes, devices[1]) {
            let refuse = |faults: &mut _| Fault::RefusesWrites.strike(faults, 0..0);
            sim.schedule(When::Step(step.max(40)), struck.id, refuse);
        }
        let failed = Rc::new(RefCell::new(None));
        let work = self.work(&io, sim, devices.to_vec(), oracle, boot, Rc::clone(&failed));
        let ended = io.block_on(sim.until_end(&io, work));
        if !sim.has_ended() {
            sim.cut_power();
        }
        io.shutdown();
        // The record of who failed is the test's.
        if let Some(role) = failed.borrow_mut().take() {
            devices[usize::from(role)] = None;
        }
        match ended {
            None if cut.is_none() => Err(format!("boot {boot}: nothing comes to an end")),
            None => Ok(false),
            Some(result) => result.map(|()| true).map_err(|why| format!("boot {boot}: {why}")),
        }
    }

    async fn work(
        &self,
        io: &Io,
        sim: &Sim,
        devices: Vec<Option<Device>>,
        oracle: &Rc<RefCell<Oracle>>,
        boot: u64,
        failed: Rc<RefCell<Option<u16>>>,
    ) -> Result<(), String> {
        let epoch = replay(io, &devices).await.map_err(|error| format!("replay: {error}"))?;
        let config = OpenConfig { logs: vec![Redo::of(epoch, self.idle)], ..patient() };
        let whole = devices.iter().all(Option::is_some);
        let array = Array::kept(io, self.geometry(), devices.clone(), Box::new(Nothing), &config);
        let watching = array.clone();
        drop(io.spawn(async move {
            // Noted before success that relies on it is told: the event comes with the failure.
            let _event = watching.next_event(0).await;
            let lost =
                (0..watching.geometry().members()).find(|&role| watching.state(role) == RoleState::Failed);
            failed.replace(lost);
        }));
        let client = Client::new(array.clone(), io.pool(1 << 20), Rc::clone(oracle));
        if whole {
            let checked = array.sync_window(0, ROWS * CHUNK, SyncMode::Check).await;
            let differ = checked.map_err(|error| format!("check: {error}"))?.mismatch_sectors;
            if differ > 0 {
                return Err(format!("{differ} sectors of parity are false"));
            }
        }
        client.read_all().await.map_err(|trouble| trouble.to_string())?;
        if boot == 2 {
            // Each of what is left by parity alone.
            if let (true, Some(lost)) = (whole, devices[0]) {
                sim.kill(lost.id);
                client.read_all().await.map_err(|trouble| format!("without {}: {trouble}", lost.id))?;
            }
            return array.stop().await.map_err(|error| format!("stop: {error}"));
        }
        let mix = Mix { flushes: 1, most: 12 << 10, crowd: 32 << 10, ..Mix::default() };
        let troubles = client.side_by_side(io, 2, 8, mix, self.seed * 7 + boot).await;
        troubles.into_iter().next().map_or(Ok(()), |trouble| Err(trouble.to_string()))?;
        array.stop().await.map_err(|error| format!("stop: {error}"))
    }
}

/// Storms over cuts of the first boot: in how many a member failed, or the first finding.
fn storms(
    level: Level,
    members: usize,
    seeds: std::ops::Range<u64>,
    idle: bool,
    refuses: bool,
) -> Result<u32, String> {
    let mut failed = 0;
    for seed in seeds {
        let calm = Storm { level, members, seed, cut: None, idle, refuses: false };
        let (steps, _) = calm.run().unwrap_or_else(|why| panic!("{level}, seed {seed}, calm: {why}"));
        let mut random = Random::stream(seed, 0x7265_646f);
        for _ in 0..12 {
            let cut = random.below(steps);
            let storm = Storm { cut: Some(cut), idle, refuses, ..calm };
            let came = storm.run().map_err(|why| format!("{level}, seed {seed}, cut {cut}: {why}"))?;
            failed += u32::from(came.1);
        }
    }
    Ok(failed)
}

#[test]
fn a_cut_leaves_no_row_whose_parity_is_false() {
    storms(Level::Raid5, 3, 0..10, false, false).unwrap_or_else(|why| panic!("{why}"));
    storms(Level::Raid6, 5, 0..6, false, false).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_member_that_refuses_the_log_is_failed_and_nothing_is_lost() {
    let failed = storms(Level::Raid5, 3, 20..30, false, true).unwrap_or_else(|why| panic!("{why}"));
    assert!(failed > 20, "{failed}");
}

#[test]
fn without_the_log_a_cut_leaves_parity_that_is_false() {
    let why = storms(Level::Raid5, 3, 0..10, true, false).expect_err("a cut between data and parity");
    assert!(why.contains("are false"), "{why}");
}
