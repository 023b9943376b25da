//! Pools as storms drive them: small ones, under load, whose members die, leave and come back, hang, refuse, rot, lose writes and
//! put them elsewhere, and whose power goes at any step, in recovery and in recovery of recovery. Every byte is held against what it
//! may be, every checksum and all parity against what they have to be, and a second reader has to read the same from the members.
//!
//! Something happens only to as many members of a vdev as it can do without, the same ones in all lives of a pool.

pub mod house;
mod life;
mod phase;
mod plan;
pub mod reader;
mod rows;
mod strike;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};

use crate::oracle::Oracle;
use crate::random::Random;
use house::House;
use life::{Before, End, Life, NAME, size_of};
pub use phase::{Phase, Phases};
pub use plan::PoolPlan;
use strike::Strike;

/// Lives of a pool at most, the last of which comes to its end.
const LIVES: u64 = 5;
/// Requests of each of three clients in the first life, and in others.
const REQUESTS: (u64, u64) = (160, 30);
/// The same of pools that are full.
const MANY_REQUESTS: (u64, u64) = (260, 40);

/// The result of a pool's storm.
#[derive(Debug, Default)]
pub struct Driven {
    /// Steps of its first life.
    pub steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// The same by what it was at.
    pub phases: Phases,
    /// Lives.
    pub lives: u64,
    /// Segments that became free in all of its lives, and segments that it has.
    pub freed: u64,
    /// The promise that was broken.
    pub broken: Option<String>,
}

/// Drives the pool of a seed: its first life is cut at a step, some of the next ones early, which is in recovery; the last one comes
/// to its end. Without a cut nothing happens to it.
pub fn run(seed: u64, cut: Option<u64>) -> Driven {
    let mut driven = Driven::default();
    if let Err(why) = drive(seed, cut, &mut driven) {
        driven.broken = Some(why);
    }
    driven
}

fn drive(seed: u64, first: Option<u64>, driven: &mut Driven) -> Result<(), String> {
    let plan = PoolPlan::new(seed);
    let mut sim = Sim::new(seed);
    let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
    let house = House::new(plan.kind, |size| sim.add_blank_drive(quick, size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.shutdown();
    sim = sim.restart(seed);
    let oracle = Rc::new(RefCell::new(Oracle::zeroes(size_of(&plan, &house))));
    let mut random = Random::stream(seed, first.map_or(u64::MAX, |cut| cut + 1));
    let (mut before, mut dead, mut all) = (Before::Well, Vec::new(), Vec::new());
    let (many, few) = if plan.full { MANY_REQUESTS } else { REQUESTS };
    for number in 0..LIVES {
        let cut = next_cut(number, first, &mut random);
        let strikes = strikes(&plan, &house, first.is_some() && number < LIVES - 1, cut, &dead, &mut random);
        let life = Life {
            sim: &sim,
            house: &house,
            plan: &plan,
            oracle: &oracle,
            number,
            seed: seed.wrapping_mul(11).wrapping_add(number),
            requests: if number == 0 { many } else { few },
            cut,
            strikes: strikes.clone(),
            spoilt: all.iter().chain(&strikes).any(|(_, _, strike)| strike.spoils()),
            cuts_before: before,
            pool: RefCell::default(),
            freed: Cell::new(0),
        };
        let told = |why: String| format!("life {number} of {plan} (cut {cut:?}, {all:?} {strikes:?}): {why}");
        let ended = life.live().map_err(told)?;
        driven.lives += 1;
        driven.freed += life.freed.get();
        driven.steps = driven.steps.max(if number == 0 { sim.steps() } else { 0 });
        before = match &ended {
            End::Well => Before::Well,
            End::Cut(phases) if phases.contains(&Phase::Recovery) => Before::CutInRecovery,
            End::Cut(_) => Before::Cut,
        };
        match &ended {
            End::Well => oracle.borrow_mut().stopped(),
            End::Cut(phases) => {
                driven.cuts += 1;
                driven.phases.count(phases);
                oracle.borrow_mut().power_cut();
            }
        }
        dead.extend(strikes.iter().filter(|(_, _, strike)| strike.is_death()).map(|strike| strike.1));
        sim = sim.restart(seed.wrapping_mul(7).wrapping_add(number));
        for (member, &id) in house.ids.iter().enumerate() {
            strike::after_start(&sim, id, dead.contains(&member));
        }
        second(&sim, &house, &oracle, &ended).map_err(|why| told(format!("second reader: {why}")))?;
        all.extend(strikes.iter().copied());
        if matches!(ended, End::Well) && (first.is_none() || number > 0) {
            break;
        }
    }
    Ok(())
}

/// The step before which the power goes in a life: of later ones mostly in recovery, or soon after it.
fn next_cut(number: u64, first: Option<u64>, random: &mut Random) -> Option<u64> {
    match number {
        0 => first,
        1..=3 if first.is_some() && !random.one_in(3) => {
            let within = *random.pick(&[80, 80, 200, 1500]);
            Some(random.below(within))
        }
        _ => None,
    }
}

/// Chooses the faults of members in a life.
fn strikes(
    plan: &PoolPlan,
    house: &House,
    any: bool,
    cut: Option<u64>,
    dead: &[usize],
    random: &mut Random,
) -> Vec<(u64, usize, Strike)> {
    let mut strikes = Vec::new();
    for &member in plan.victims.iter().filter(|member| !dead.contains(member)) {
        if any && (plan.faults || plan.silent) && random.one_in(2) {
            let strike = Strike::any(plan, house.size, random);
            // One in three just before the power goes.
            let last = cut.unwrap_or(400);
            let step =
                if random.one_in(3) { last.saturating_sub(random.below(25)) } else { random.below(last + 1) };
            strikes.push((step, member, strike));
        }
    }
    strikes
}

/// Has the second reader read what the members hold, and holds it against what the volume may hold.
fn second(sim: &Sim, house: &House, oracle: &RefCell<Oracle>, ended: &End) -> Result<(), String> {
    let peek = |device: usize, byte: u64| {
        let (id, mut bytes) = (house.ids[device], vec![0; 4096]);
        let faults = sim.faults(id);
        let bad = |bad: &brindle_io::sim::BadRange| bad.range.start < byte + 4096 && byte < bad.range.end;
        if faults.gone || faults.unreadable.iter().any(bad) {
            return None;
        }
        sim.peek(id, byte, &mut bytes);
        Some(bytes)
    };
    let content = reader::read(&vec![house.size; house.ids.len()], &peek)?;
    let Some(&(volume, size)) = content.volumes.get(NAME) else { return Ok(()) };
    if matches!(ended, End::Well) && !content.stopped {
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
