//! Pools as storms drive them: small ones, under load, whose members die, leave and come back, hang, refuse, rot, lose writes and
//! put them elsewhere, and whose power goes at any step, in recovery and in recovery of recovery. Every byte is held against what it
//! may be, every checksum and all parity against what they have to be, and a second reader has to read the same from the members.
//!
//! Something happens only to as many members of a vdev as it can do without, the same ones in all boots of a pool.

mod aside;
mod boot;
mod few;
mod growth;
mod halves;
pub mod house;
mod members;
mod names;
mod phase;
mod plan;
pub mod reader;
mod rows;
mod scrubs;
mod strike;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_format::pool::Features;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberId, Task};
use brindle_pool::Pool;

use crate::oracle::Oracle;
use crate::random::Random;
use crate::storm::{self, Scene, Subject};
pub use boot::REUSED;
use boot::{Before, Boot, NAME, size_of};
use house::{House, MEMBER};
use names::Names;
pub use phase::{Phase, Phases, Reuses};
pub use plan::PoolPlan;
use strike::Strike;

/// Bytes of members that have many units.
const MANY: u64 = MEMBER + (260 << 16);
/// The time between two looks at what a pool is doing.
const LOOK: Duration = Duration::from_micros(50);
/// Lives of a pool at most, the last of which comes to its end.
const LIVES: u64 = 5;
/// Requests of each of three clients in the first boot, and in others.
const REQUESTS: (u64, u64) = (160, 30);
/// Requests of clients in pools that are full.
const MANY_REQUESTS: (u64, u64) = (260, 40);

/// The result of a pool's storm.
#[derive(Debug, Default)]
pub struct Driven {
    /// Steps of its first boot.
    pub steps: u64,
    /// Those of them that were taken during a checkpoint, as far as was looked; of a run without a cut.
    pub checkpoints: Vec<u64>,
    /// Power cuts.
    pub cuts: u64,
    /// Power cuts by phase.
    pub phases: Phases,
    /// Lives.
    pub boots: u64,
    /// How often each segment became free in all of its boots.
    pub reuses: Reuses,
    /// The promise that was broken.
    pub broken: Option<String>,
}

/// Drives the pool of a seed: its first boot is cut at a step, some of the next ones early, which is in recovery; the last one comes
/// to its end. Without a cut nothing happens to it.
pub fn run(seed: u64, cut: Option<u64>) -> Driven {
    let (driven, pools) = storm::drive::<Pools>(seed, (seed, cut));
    let storm::Driven { steps, cuts, boot: boots, broken, .. } = driven;
    // Cuts are of steps up to the end of the load.
    let loaded = pools.as_ref().filter(|_| cut.is_none() && broken.is_none()).map(|pools| pools.loaded.get());
    let steps = loaded.unwrap_or(steps);
    let (phases, reuses, checkpoints) =
        pools.map(|pools| (pools.phases, pools.reuses, pools.checkpoints.take())).unwrap_or_default();
    Driven { steps, checkpoints, cuts, phases, boots, reuses, broken }
}

impl Driven {
    /// The step of a cut: half of them come during checkpoints.
    pub fn cut(&self, random: &mut Random) -> u64 {
        match self.checkpoints.len() as u64 {
            count if count > 0 && random.one_in(2) => self.checkpoints[random.below(count) as usize],
            _ => random.below(self.steps.max(1)),
        }
    }
}

/// A pool and its members.
struct Pools {
    seed: u64,
    /// The step before which the power goes in the first boot.
    first: Option<u64>,
    random: Random,
    /// The present boot.
    boot: Boot,
    /// Members that are gone for good.
    dead: Vec<usize>,
    /// All that has happened to members.
    all: Vec<(u64, usize, Strike)>,
    phases: Phases,
    reuses: Reuses,
    /// Steps until the load of the last boot had ended.
    loaded: Cell<u64>,
    /// Steps during checkpoints.
    checkpoints: RefCell<Vec<u64>>,
}

impl Subject for Pools {
    /// The seed of its shape and load, and the step before which the power goes in the first boot.
    type Setup = (u64, Option<u64>);
    type Open = Pool;
    type End = ();
    type Broken = String;

    const ENDLESS_TIME: Duration = Duration::from_secs(900);

    fn create(sim: &mut Sim, (seed, first): (u64, Option<u64>)) -> Self {
        let plan = PoolPlan::new(seed);
        let flush_latency = if plan.slow { 3_000_000 } else { 150_000 };
        let model = Model { flush_latency, ..Model::sata_ssd() };
        let size = if plan.many { MANY } else { MEMBER };
        let mut house = House::of(plan.kind, size, |size| sim.add_blank_drive(model, size));
        house.changes = if plan.large { 2000 } else { house.changes };
        house.features = if plan.old { Features::default() } else { house.features };
        house.usual = plan.usual;
        house.extra = plan.turns.then(|| sim.add_blank_drive(model, size));
        let more = if plan.grows { growth::DEVICES } else { 0 };
        house.more = (0..more).map(|_| sim.add_blank_drive(model, size)).collect();
        let io = Io::new(Box::new(sim.clone()));
        io.block_on(house.create(&io));
        io.shutdown();
        *sim = sim.restart(seed);
        let oracle = Rc::new(RefCell::new(Oracle::zeroes(size_of(&plan, &house))));
        let names = Rc::new(RefCell::new(Names::new(house.spec().name)));
        let boot = Boot {
            names,
            house: Rc::new(house),
            plan: Rc::new(plan),
            oracle,
            number: 0,
            seed: 0,
            requests: 0,
            cut: None,
            wears: false,
            strikes: Vec::new(),
            spoilt: false,
            late: Vec::new(),
            turns: false,
            growing: Rc::default(),
            cuts_before: Before::Well,
            pool: RefCell::default(),
            reuses: RefCell::default(),
        };
        let random = Random::stream(seed, first.map_or(u64::MAX, |cut| cut + 1));
        let (dead, all, phases, reuses) = (Vec::new(), Vec::new(), Phases::default(), Reuses::default());
        let (loaded, checkpoints) = (Cell::new(0), RefCell::default());
        Self { seed, first, random, boot, dead, all, phases, reuses, loaded, checkpoints }
    }

    fn begin(&mut self, sim: &Sim, boot: u64) -> Option<u64> {
        let number = boot - 1;
        let cut = next_cut(number, self.first, &mut self.random);
        let Self { boot, random, dead, .. } = self;
        let any = self.first.is_some() && number < LIVES - 1;
        let strikes = strikes(&boot.plan, &boot.house, any, cut, dead, random);
        boot.late = late(&boot.plan, any && number > 0, dead, random);
        let (many, few) = if boot.plan.full { MANY_REQUESTS } else { REQUESTS };
        boot.turns = any && boot.plan.turns;
        boot.number = number;
        boot.seed = self.seed.wrapping_mul(11).wrapping_add(number);
        boot.requests = if number == 0 { many } else { few };
        boot.cut = cut;
        // With the usual settings pages are written so rarely that they take turns on few segments; to write all of many takes long.
        boot.wears =
            self.first.is_none() && number == 0 && !boot.plan.usual && !boot.plan.many && !boot.plan.grows;
        boot.spoilt = self.all.iter().chain(&strikes).any(|(_, _, strike)| strike.spoils());
        boot.strikes = strikes;
        boot.begin(sim);
        cut
    }

    async fn open(&self, scene: &Scene) -> Result<Pool, String> {
        self.boot.open(&scene.io).await.map_err(|why| self.broken(&why))
    }

    async fn load(&self, open: &Pool, scene: &Scene) -> Result<(), String> {
        let watched = self.boot.wears.then(|| watch(open, scene));
        let loaded = self.boot.load(open, &scene.io).await;
        if let Some(watched) = watched {
            self.checkpoints.replace(watched.end().await);
        }
        self.loaded.set(scene.sim.steps());
        if self.boot.wears && loaded.is_ok() {
            return self.boot.wear(open, &scene.io).await.map_err(|why| self.broken(&why));
        }
        loaded.map_err(|why| self.broken(&why))
    }

    async fn judge(&self, open: &Pool, scene: &Scene) -> Result<(), String> {
        self.boot.judge(open, &scene.io).await.map_err(|why| self.broken(&why))
    }

    fn ended(&mut self, end: Option<()>, _: &Scene) -> Result<(), String> {
        let phases = self.boot.phases();
        let mut oracle = self.boot.oracle.borrow_mut();
        self.boot.cuts_before = match end {
            Some(()) => Before::Well,
            None if phases.contains(&Phase::Recovery) => Before::CutInRecovery,
            None => Before::Cut,
        };
        self.boot.growing.set(false);
        if end.is_some() {
            oracle.stopped();
        } else {
            self.phases.count(&phases);
            oracle.power_cut();
        }
        Ok(())
    }

    fn let_go(&mut self, _: &Scene) {
        let reuses = self.boot.reuses.take();
        // See `begin`: nobody waits until all of them were used again.
        if !self.boot.plan.usual && !self.boot.plan.many && !self.boot.plan.grows {
            self.reuses.add(&Reuses(reuses));
        }
        self.boot.pool.take();
    }

    fn restarted(&mut self, sim: &Sim) -> Result<bool, String> {
        let Boot { strikes, house, oracle, cuts_before, plan, names, .. } = &self.boot;
        self.dead.extend(strikes.iter().filter(|(_, _, strike)| strike.is_death()).map(|strike| strike.1));
        for (member, &id) in house.ids.iter().enumerate() {
            strike::after_start(sim, id, self.dead.contains(&member));
        }
        let well = *cuts_before == Before::Well;
        self.without_one_more(sim).map_err(|why| self.broken(&why))?;
        second(sim, house, oracle, &names.borrow(), well)
            .map_err(|why| self.broken(&format!("second reader: {why}")))?;
        // A cut in the middle of a replacement leaves a member without labels.
        if well && self.dead.is_empty() && !plan.silent && !self.boot.spoilt && !plan.turns {
            let went =
                halves::apart(sim, house, &oracle.borrow(), &mut Random::stream(self.seed, 0x6861_6c66));
            went.map_err(|why| self.broken(&why))?;
        }
        self.all.extend(self.boot.strikes.iter().copied());
        let number = self.boot.number;
        Ok(number + 1 < LIVES && !(well && (self.first.is_none() || number > 0)))
    }

    fn endless(&self, scene: &Scene) -> String {
        self.broken(&format!("nothing comes to an end: {:?}", scene.at()))
    }
}

impl Pools {
    /// After a cut before which a member left that is back: one more of those that have been there all the time is pulled.
    fn without_one_more(&self, sim: &Sim) -> Result<(), String> {
        let Boot { plan, house, oracle, cuts_before, strikes, late, .. } = &self.boot;
        let is_back = !late.is_empty()
            || self.boot.turns
            || strikes.iter().any(|(_, _, strike)| matches!(strike, Strike::Leaves | Strike::Hangs));
        // Writes that were lost without a word may be the end of the log.
        if *cuts_before == Before::Well || !is_back || plan.silent {
            return Ok(());
        }
        let oracle = oracle.borrow();
        few::choices(plan, house).iter().try_for_each(|left| few::read(sim, house, left, &oracle))
    }

    /// A promise that was broken, with all that has happened.
    fn broken(&self, why: &str) -> String {
        let Boot { number, plan, cut, strikes, late, .. } = &self.boot;
        format!("boot {number} of {plan} (cut {cut:?}, {:?} {strikes:?}, late {late:?}): {why}", self.all)
    }
}

/// Notes the steps that are taken during checkpoints.
struct Watched {
    steps: Task<Vec<u64>>,
    done: Rc<Cell<bool>>,
}

fn watch(pool: &Pool, scene: &Scene) -> Watched {
    let done = Rc::new(Cell::new(false));
    let (pool, sim, io, ended) = (pool.clone(), scene.sim.clone(), scene.io.clone(), Rc::clone(&done));
    let steps = scene.io.spawn(async move {
        let mut steps = Vec::new();
        while !ended.get() {
            if pool.status().busy.checkpoint && steps.last() != Some(&sim.steps()) {
                steps.push(sim.steps());
            }
            io.sleep(LOOK).await;
        }
        steps
    });
    Watched { steps, done }
}

impl Watched {
    async fn end(self) -> Vec<u64> {
        self.done.set(true);
        self.steps.await
    }
}

/// The step before which the power goes in a boot: of later ones mostly in recovery, or soon after it.
fn next_cut(number: u64, first: Option<u64>, random: &mut Random) -> Option<u64> {
    match number {
        0 => first,
        1..=3 if first.is_some() && !random.one_in(3) => {
            let within = *random.pick(&[30, 60, 80, 160, 1500]);
            Some(random.below(within))
        }
        _ => None,
    }
}

/// Chooses the faults of members in a boot.
fn strikes(
    plan: &PoolPlan,
    house: &House,
    any: bool,
    cut: Option<u64>,
    dead: &[usize],
    random: &mut Random,
) -> Vec<(u64, usize, Strike)> {
    let mut strikes: Vec<(u64, usize, Strike)> = Vec::new();
    for &member in plan.victims.iter().filter(|member| !dead.contains(member)) {
        if any && (plan.faults || plan.silent) && random.one_in(2) {
            let mut strike = Strike::any(plan, house.size, random);
            // The same place of several members: then rows are wrong in more than one block.
            if let Strike::Rots(..) = strike {
                strike =
                    strikes.iter().map(|of| of.2).find(|of| matches!(of, Strike::Rots(..))).unwrap_or(strike);
            }
            // One in two just before the power goes. Of members that go, three in four: then the failure is not on record yet.
            let last = cut.unwrap_or(400);
            let step = match random.below(4) {
                0 => last.saturating_sub(random.below(25)),
                1 => last.saturating_sub(1 + random.below(4)),
                2 if matches!(strike, Strike::Dies | Strike::Leaves) => {
                    last.saturating_sub(2 + random.below(14))
                }
                _ => random.below(last + 1),
            };
            strikes.push((step, member, strike));
        }
    }
    strikes
}

/// Chooses the members that come too late for a boot.
fn late(plan: &PoolPlan, any: bool, dead: &[usize], random: &mut Random) -> Vec<usize> {
    let may = any && plan.faults;
    let is_late = |member: &&usize| may && !dead.contains(member) && random.one_in(4);
    plan.victims.iter().filter(is_late).copied().collect()
}

/// Has the second reader read what the members hold, and holds it against what the volume may hold.
fn second(
    sim: &Sim,
    house: &House,
    oracle: &RefCell<Oracle>,
    names: &Names,
    well: bool,
) -> Result<(), String> {
    let devices: Vec<MemberId> = house.devices().collect();
    let peek = |device: usize, byte: u64| {
        let (id, mut bytes) = (devices[device], vec![0; 4096]);
        let faults = sim.faults(id);
        let bad = |bad: &brindle_io::sim::BadRange| bad.range.start < byte + 4096 && byte < bad.range.end;
        if faults.gone || faults.unreadable.iter().any(bad) {
            return None;
        }
        sim.peek(id, byte, &mut bytes);
        Some(bytes)
    };
    let content = reader::read(&vec![house.size; devices.len()], &peek)?;
    names.judge(&content.name.0, content.name.1)?;
    names::judge_history(&content.history)?;
    let Some(&(volume, size)) = content.volumes.get(NAME) else { return Ok(()) };
    if well && !content.stopped {
        return Err("it was stopped, and does not say so".to_owned());
    }
    if !content.miscounted.is_empty() {
        return Err(format!("segments count what is live wrong: {:?}", content.miscounted));
    }
    let mut oracle = oracle.borrow_mut();
    for n in 0..size.div_ceil(4096) {
        let zeroes = Some(vec![0; 4096]);
        let block = content.blocks.get(&(volume, n)).unwrap_or(&zeroes);
        let block = block.as_ref().ok_or_else(|| format!("block {n} is lost"))?;
        let began = oracle.read_begins();
        let judged = oracle.judge(began, n * 4096, block);
        judged.map_err(|wrong| wrong.to_string())?;
    }
    Ok(())
}
