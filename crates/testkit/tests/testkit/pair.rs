//! A mirror of two that owns its members through crate `members` alone keeps the contract of volumes, and what it was given, while
//! members fail, come back stale, and the power goes at any step. One that tells of success before it is on record who failed does
//! not.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io, MemberId};
use brindle_members::members::RoleState;
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::conformance::conforms;
use brindle_testkit::faults::Fault;
use brindle_testkit::load::Mix;
use brindle_testkit::oracle::Oracle;
use brindle_testkit::pair::{DATA_OFFSET, Open, Pair};
use brindle_testkit::random::Random;
use brindle_testkit::storm::{Driven, Scene, Subject, drive};
use brindle_volume::VolumeError;

const SIZE: u64 = 192 << 10;
const KINDS: [Fault; 6] =
    [Fault::Dies, Fault::RefusesWrites, Fault::FailsFlush, Fault::Hangs, Fault::Pauses, Fault::Crawls];

fn drives(seed: u64) -> (Sim, [MemberId; 2]) {
    let sim = Sim::new(seed);
    let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
    let ids = [(); 2].map(|()| sim.add_blank_drive(quick, DATA_OFFSET + SIZE));
    let io = Io::new(Box::new(sim.clone()));
    let new = io.block_on(Pair::open(&io, ids, Open::New)).expect("drives that are well");
    io.block_on(new.stop()).expect("drives that are well");
    io.shutdown();
    (sim, ids)
}

/// A pair as storms drive it.
struct Pairs {
    seed: u64,
    /// The step before which the power goes in the first boot.
    cut: Option<u64>,
    /// Something happens to a drive.
    faults: bool,
    /// It tells of success too early.
    hasty: bool,
    random: Random,
    /// The drive that is struck, again and again: the other may be all that there is.
    struck: usize,
    ids: [MemberId; 2],
    oracle: Rc<RefCell<Oracle>>,
    boot: u64,
    /// The fault of the present boot, its drive, and the step before which it strikes.
    fault: Option<(u64, Fault, usize)>,
}

impl Subject for Pairs {
    /// The seed of its load, the cut, whether drives fail, and whether it is hasty.
    type Setup = (u64, Option<u64>, bool, bool);
    type Open = Pair;
    type End = ();
    type Broken = String;

    const ENDLESS_STEPS: u64 = 100_000;
    const ENDLESS_TIME: Duration = Duration::from_secs(300);

    fn create(sim: &mut Sim, (seed, cut, faults, hasty): Self::Setup) -> Self {
        let (made, ids) = drives(seed);
        *sim = made;
        let mut random = Random::stream(seed, cut.map_or(u64::MAX, |cut| cut + 1));
        let struck = random.below(2) as usize;
        let oracle = Rc::new(RefCell::new(Oracle::zeroes(SIZE)));
        Self { seed, cut, faults, hasty, random, struck, ids, oracle, boot: 0, fault: None }
    }

    fn begin(&mut self, _: &Sim, boot: u64) -> Option<u64> {
        self.boot = boot;
        self.oracle.borrow_mut().upset();
        // The last two boots come to their end; after the last each drive is read alone.
        let (within, random) = (self.cut.unwrap_or(400), &mut self.random);
        let cut = match boot {
            1 => self.cut,
            2 => random.one_in(2).then(|| random.below(300)),
            _ => None,
        };
        let step =
            if random.one_in(2) { within.saturating_sub(random.below(30)) } else { random.below(within + 1) };
        let fault = (step, *random.pick(&KINDS), self.struck);
        self.fault = (self.faults && boot < 3).then_some(fault);
        cut
    }

    async fn open(&self, scene: &Scene) -> Result<Pair, String> {
        let how = if self.hasty { Open::Hasty } else { Open::Usual };
        let opened = Pair::open(&scene.io, self.ids, how).await;
        let pair = opened.map_err(|error| format!("it does not open: {error}"))?;
        // A device that can't be looked at when the pair is opened is not one that fails.
        if let Some((step, fault, drive)) = self.fault {
            let step = step.max(scene.sim.steps() + 1);
            scene.sim.schedule(When::Step(step), self.ids[drive], move |faults| fault.strike(faults, 0..0));
            if fault == Fault::Pauses {
                scene.sim.schedule(When::Step(step + 40), self.ids[drive], |faults| faults.hangs = false);
            }
        }
        Ok(pair)
    }

    async fn load(&self, pair: &Pair, scene: &Scene) -> Result<(), String> {
        let client = Client::new(pair.clone(), scene.io.pool(1 << 20), Rc::clone(&self.oracle));
        let served = |trouble: Trouble| trouble.to_string();
        client.read_all().await.map_err(served)?;
        pair.resync().await.map_err(well("resync"))?;
        for role in 0..2 {
            if pair.state(role) != RoleState::InSync {
                let rebuilt = pair.rebuild(role, self.ids[usize::from(role)]).await;
                // The device may be the one that is struck in this boot.
                if self.fault.is_none() {
                    rebuilt.map_err(well("rebuild"))?;
                }
            }
        }
        let mix = Mix { flushes: 4, most: 16 << 10, crowd: 32 << 10, ..Mix::default() };
        let troubles = client.side_by_side(&scene.io, 3, 16, mix, self.seed * 7 + self.boot).await;
        troubles.into_iter().next().map_or(Ok(()), |trouble| Err(served(trouble)))?;
        client.read_all().await.map_err(served)
    }

    async fn judge(&self, pair: &Pair, _: &Scene) -> Result<(), String> {
        pair.stop().await.map_err(well("stop"))
    }

    fn ended(&mut self, end: Option<()>, _: &Scene) -> Result<(), String> {
        let mut oracle = self.oracle.borrow_mut();
        if end.is_some() {
            oracle.stopped();
        } else {
            oracle.power_cut();
        }
        Ok(())
    }

    fn restarted(&mut self, sim: &Sim) -> Result<bool, String> {
        self.ids.iter().for_each(|&id| Fault::after_power_cycle(sim, id, false));
        if self.boot < 4 {
            return Ok(true);
        }
        self.ids.iter().try_for_each(|&lost| alone(sim, self.ids, lost, &self.oracle))?;
        Ok(false)
    }

    fn endless(&self, scene: &Scene) -> String {
        format!("nothing comes to an end: {:?}, {:?}", scene.at(), self.ids)
    }
}

fn well(what: &'static str) -> impl Fn(VolumeError) -> String {
    move |error| format!("{what}: {error}")
}

fn storm(seed: u64, cut: Option<u64>, faults: bool, hasty: bool) -> Result<Driven, String> {
    let (driven, pairs) = drive::<Pairs>(seed, (seed, cut, faults, hasty));
    let fault = pairs.map(|pairs| pairs.fault);
    match driven.broken {
        Some(why) => Err(format!("boot {} (fault {fault:?}): {why}", driven.boot)),
        None => Ok(driven),
    }
}

/// Both hold all that was written: one of them gives it without the other, which is out when it comes back, and is rebuilt.
fn alone(sim: &Sim, ids: [MemberId; 2], lost: MemberId, oracle: &Rc<RefCell<Oracle>>) -> Result<(), String> {
    let run = |work: &dyn Fn(&Io) -> Result<(), String>| {
        let io = Io::new(Box::new(sim.clone()));
        let result = work(&io);
        io.shutdown();
        result
    };
    let open = async |io: &Io| {
        Pair::open(io, ids, Open::Usual).await.map_err(|error| format!("at the end: {error}"))
    };
    run(&|io| {
        io.block_on(async {
            let pair = open(io).await?;
            sim.kill(lost);
            let client = Client::new(pair, io.pool(1 << 20), Rc::clone(oracle));
            client.read_all().await.map_err(|trouble| format!("without {lost}: {trouble}"))?;
            client.volume().stop().await.map_err(|error| format!("without {lost}: {error}"))
        })
    })?;
    sim.afflict(lost, |faults| faults.gone = false);
    run(&|io| {
        io.block_on(async {
            let pair = open(io).await?;
            let role = ids.iter().position(|&id| id == lost).unwrap_or_default() as u16;
            if pair.state(role) != RoleState::Missing {
                return Err(format!("{lost} came back stale, and is {:?}", pair.state(role)));
            }
            pair.rebuild(role, lost).await.map_err(|error| format!("rebuild: {error}"))?;
            pair.stop().await.map_err(|error| format!("stop: {error}"))
        })
    })
}

fn storms(seeds: core::ops::Range<u64>, cuts: u64, hasty: bool) -> (u64, Result<(), String>) {
    let mut met = 0;
    for seed in seeds {
        let calm = storm(seed, None, false, false).unwrap_or_else(|why| panic!("seed {seed}, calm: {why}"));
        let mut random = Random::stream(seed, 0x7061_6972);
        for _ in 0..cuts {
            let cut = random.below(calm.steps);
            match storm(seed, Some(cut), true, hasty) {
                Ok(came) => met += came.cuts,
                Err(why) => return (met, Err(format!("seed {seed}, cut {cut}: {why}"))),
            }
        }
    }
    (met, Ok(()))
}

#[test]
fn it_keeps_the_contract_of_volumes() {
    for lost in [None, Some(0), Some(1)] {
        let (sim, ids) = drives(5);
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(async {
            let pair = Pair::open(&io, ids, Open::Usual).await.expect("drives that are well");
            lost.into_iter().for_each(|lost: usize| sim.kill(ids[lost]));
            conforms(&format!("a pair without {lost:?}"), &io, &io.pool(16 << 20), &pair).await;
            pair.stop().await.expect("one is there");
        });
        io.shutdown();
    }
}

#[test]
fn it_keeps_what_it_was_given_while_members_fail_and_the_power_goes() {
    let (cuts, kept) = storms(0..40, 8, false);
    kept.unwrap_or_else(|why| panic!("{why}"));
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn one_that_tells_of_success_before_the_record_says_who_failed_is_found_out() {
    let (_, kept) = storms(100..160, 8, true);
    let why = kept.expect_err("a member that came back stale must have been read");
    assert!(why.contains("may hold"), "{why}");
}
