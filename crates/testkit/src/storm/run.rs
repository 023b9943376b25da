//! The boots of a storm, one after the other.

use core::fmt;
use core::num::ParseIntError;
use core::str::FromStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use brindle_io::sim::{Hostility, Overlaps, Sim};
use brindle_layout::{Geometry, Level};

use super::arrays::Arrays;
use super::course::{Course, Start, Storm};
use super::judge::Failure;
use super::plan::{Planned, StormPlan};
use super::subject::{self, Driven, Subject};
use super::tally::StrikeTally;
use crate::faults::{Atlas, Fault};
use crate::random::Random;
use crate::shape::planned;

/// The first boot of a seed's storm in which nothing goes wrong: cuts are chosen by it.
#[derive(Clone, Debug)]
pub struct Calm {
    steps: u64,
    /// Before which superblocks were being written.
    changing: Vec<u64>,
}

impl Calm {
    /// The storm of a seed.
    ///
    /// # Errors
    /// The promise that the storm broke without a cut.
    pub fn of(seed: u64) -> Result<Self, Failure> {
        Self::of_plan(StormPlan::new(seed))
    }

    /// The storm of a plan.
    ///
    /// # Errors
    /// The promise that the storm broke without a cut.
    pub fn of_plan(plan: StormPlan) -> Result<Self, Failure> {
        let storm = Course::calm(plan).run_watched(MOST_WATCHED);
        let Storm { steps, changing, .. } = storm;
        storm.failure.map_or(Ok(Self { steps, changing }), Err)
    }

    /// As [`run`], of the seed whose calm boot this is; it is judged, too, how soon an array is whole once faults end.
    pub fn run(&self, seed: u64, cut: Option<Cut>, kinds: &[Fault]) -> Storm {
        let mut course = Course::new(seed, cut.map(|cut| cut.chosen), kinds);
        course.calm = Some(self.steps);
        course.cuts[0] = cut.map(|cut| cut.step);
        if let Some(cut) = cut.filter(|cut| cut.chosen != cut.step) {
            course.strike_shortly_before(cut);
        }
        course.run()
    }

    /// A power cut, now and then one while what faults led to is put on record: more often where devices get other numbers then.
    pub fn cut_of(&self, seed: u64, kinds: &[Fault], random: &mut Random) -> Cut {
        let chosen = self.cut(random);
        let course = Course::new(seed, Some(chosen), kinds);
        let one_in = if course.plan.changes_numbers() { 2 } else { 4 };
        let aimed = random.one_in(one_in).then(|| course.aimed(random));
        Cut { chosen, step: aimed.flatten().unwrap_or(chosen) }
    }

    /// A step before which the power may go: one in three while superblocks are written.
    pub fn cut(&self, random: &mut Random) -> u64 {
        if random.one_in(3) && !self.changing.is_empty() {
            *random.pick(&self.changing)
        } else {
            random.below(self.steps)
        }
    }
}

/// A power cut of a seed's storm. It is written as the step, or as `chosen@step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The step by which all else is chosen that happens.
    pub chosen: u64,
    /// The step before which the power goes.
    pub step: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.chosen != self.step {
            write!(f, "{}@", self.chosen)?;
        }
        write!(f, "{}", self.step)
    }
}

impl FromStr for Cut {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (chosen, step) = text.split_once('@').unwrap_or((text, text));
        Ok(Self { chosen: chosen.parse()?, step: step.parse()? })
    }
}

/// Steps of the boot of a plan in which nothing goes wrong.
///
/// # Errors
/// The promise that the storm broke without a fault.
pub fn calm_steps(plan: StormPlan) -> Result<u64, Failure> {
    let storm = Course::calm(plan).run();
    storm.failure.map_or(Ok(storm.steps), Err)
}

/// Runs a storm with faults of these kinds in which the power goes just before step `cut`, if at all. It is the same
/// storm for the same seed, cut and kinds.
pub fn run(seed: u64, cut: Option<u64>, kinds: &[Fault]) -> Storm {
    Course::new(seed, cut, kinds).run()
}

/// Drives an array that grows, with faults that cost no member, and the power going just before step `cut`. Without a cut nothing goes
/// wrong. A member that is lost while what has come is in doubt leaves an array with parity in need of force, which is not judged here.
pub fn run_growing(seed: u64, cut: Option<u64>) -> Driven {
    let plan = StormPlan::growing(seed);
    let course = match cut {
        None => Course::calm(plan),
        Some(_) => {
            let kinds: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !fault.harms()).collect();
            Course::of_plan(plan, cut, &kinds)
        }
    };
    let storm = course.run();
    Driven {
        broken: storm.failure.map(|failure| failure.to_string()),
        boot: storm.boot,
        cuts: storm.cuts,
        steps: storm.steps,
        ..Driven::default()
    }
}

/// Steps at which the array's activity is sampled; most boots have fewer.
const MOST_WATCHED: u64 = 3000;
/// Steps that are shortly before a cut: as many as the record of a failure takes.
const SHORTLY: u64 = 30;

impl Course {
    /// A storm without faults and cuts.
    pub fn calm(plan: StormPlan) -> Self {
        let (faults, cuts, starts) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, faults, cuts, stays_dead: false, starts, again: false, calm: None }
    }

    /// The course of a seed's storm.
    pub fn new(seed: u64, cut: Option<u64>, kinds: &[Fault]) -> Self {
        Self::of_plan(StormPlan::new(seed), cut, kinds)
    }

    /// The course of a storm with this plan. The rest is drawn from the seed.
    pub fn of_plan(plan: StormPlan, cut: Option<u64>, kinds: &[Fault]) -> Self {
        let mut random = Random::stream(plan.seed, cut.map_or(u64::MAX, |cut| cut + 1));
        let geometry = planned(&plan.shape.spec()).geometry;
        let mut struck = Vec::new();
        // In the first boot before the cut as a rule, often shortly before, so that faults and cuts meet.
        let cuts = [cut, second_cut(&mut random)];
        let within = [cut.unwrap_or(1) + 8, cuts[1].unwrap_or(200) + 8];
        let faults = within.map(|steps| choose_faults(&geometry, &mut struck, kinds, steps, &mut random));
        let stays_dead = random.one_in(2);
        let starts = (0..4).map(|_| start(&mut random)).collect();
        Self {
            plan,
            faults: faults.to_vec(),
            cuts: cuts.to_vec(),
            stays_dead,
            starts,
            again: random.one_in(2),
            calm: None,
        }
    }

    /// A step of the first boot at which superblocks record the outcome of its faults, if the power stays on past the planned cut.
    fn aimed(&self, random: &mut Random) -> Option<u64> {
        let uncut = Self { cuts: Vec::new(), again: false, ..self.clone() };
        let after = self.cuts.first().copied().flatten().unwrap_or(0);
        let mut changing = uncut.run_watched(MOST_WATCHED).changing;
        changing.retain(|&step| step > after);
        (!changing.is_empty()).then(|| *random.pick(&changing))
    }

    /// Every second time the last fault comes shortly before an aimed cut: while what those before it led to is put on record.
    fn strike_shortly_before(&mut self, cut: Cut) {
        let mut random = Random::stream(self.plan.seed, cut.chosen << 32 | cut.step);
        let last = self.faults.first_mut().and_then(|faults| faults.last_mut());
        if let Some(last) = last.filter(|_| random.one_in(2)) {
            last.step = cut.step.saturating_sub(random.below(SHORTLY));
        }
    }

    /// Runs the storm. A panic of the engine is a failure like others.
    pub fn run(&self) -> Storm {
        self.run_watched(0)
    }

    /// Runs a storm, and notes the array's state before each of the first `watched` steps of the first boot.
    fn run_watched(&self, watched: u64) -> Storm {
        let mut storm = Storm {
            failure: None,
            boot: 1,
            cuts: 0,
            forced: 0,
            recovered: 0,
            returned: 0,
            tally: StrikeTally::default(),
            steps: 0,
            changing: Vec::new(),
            trace: 0,
        };
        let mut driven = Driven::default();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut sim = new_world(&self.plan);
            let mut arrays = Arrays::create(&mut sim, (self.clone(), watched));
            let ended = subject::boots(&mut arrays, sim, self.plan.seed, &mut driven);
            arrays.came.tell(&mut storm);
            ended
        }));
        (storm.boot, storm.cuts) = (driven.boot, driven.cuts);
        (storm.steps, storm.trace) = (driven.steps, driven.trace);
        storm.failure = match ran {
            Ok(result) => result.err(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                Some(Failure::Panic(text.unwrap_or_default()))
            }
        };
        storm
    }

    pub(super) fn start(&self, boot: u64) -> Start {
        self.starts.get(boot as usize - 1).copied().unwrap_or_default()
    }
}

fn new_world(plan: &StormPlan) -> Sim {
    let sim = Sim::new(plan.seed);
    let redundant = !matches!(plan.shape.level, Level::Raid0 | Level::Linear);
    let overlaps = if redundant { Overlaps::Panic } else { Overlaps::Allowed };
    let short_transfers = plan.short_transfers;
    sim.set_hostility(Hostility { short_transfers, overlaps, ..Hostility::default() });
    sim
}

/// The power goes a second time in two storms of three: half of these cuts come in the first steps of the second boot,
/// when the array is looked at, opened and first written to.
fn second_cut(random: &mut Random) -> Option<u64> {
    let within = if random.one_in(2) { 60 } else { 400 };
    let (step, again) = (random.below(within), !random.one_in(3));
    again.then_some(step)
}

/// One boot in four begins without the newest member, and one in four has no writes.
fn start(random: &mut Random) -> Start {
    Start { newest_lost: random.one_in(4), reads_only: random.one_in(4) }
}

/// Faults of one boot, as the array can bear them beside those before.
fn choose_faults(
    geometry: &Geometry,
    struck: &mut Vec<u16>,
    kinds: &[Fault],
    steps: u64,
    random: &mut Random,
) -> Vec<Planned> {
    let mut atlas = Atlas::new(geometry, struck);
    let count = if kinds.is_empty() { 0 } else { random.below(4) };
    let mut planned = Vec::new();
    for _ in 0..count {
        let Some((fault, role)) = atlas.choose(kinds, random) else { break };
        let step =
            if random.one_in(2) { steps.saturating_sub(random.below(SHORTLY)) } else { random.below(steps) };
        planned.push(Planned { step, fault, role });
        if fault.harms() {
            struck.push(role);
        }
    }
    planned
}
