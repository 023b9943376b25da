//! Searches for storms that break a promise: new seeds on all cores, for a given time.
//!
//! `storm --minutes 60 --seed 1` searches; `storm --seed 7 --cut 123` replays one run. On a failure it prints the
//! line that replays it, and its exit status is 1. `--only "writes behind"` leaves out seeds whose plan does not
//! contain the text, `--only "0.90 and spare"` those that lack one of both. `--only hosts` drives hosts of several
//! arrays, which else one seed in sixteen does beside its array. `--only volumes` drives the volumes of a container,
//! which else one seed in sixteen does, too. `--only growing` drives arrays that grow, which else one seed in eight does.
//! `--only widening` drives arrays whose data move into rows of more members, which else one seed in eight does. `--only pools` drives pools, which else one seed in eight does (`--only
//! "pools and silent"`: those with this text).

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use brindle_testkit::faults::Fault;
use brindle_testkit::hosts;
use brindle_testkit::pools;
use brindle_testkit::random::Random;
use brindle_testkit::storm::{self, Calm, Cut, Driven, Failure, StormPlan, Strike, StrikeTally};
use brindle_testkit::volumes;
use brindle_testkit::widening;

/// Cuts of each seed's storm.
const CUTS: u64 = 24;
/// Cuts where members are large, since each takes seconds.
const FEW_CUTS: u64 = 4;
/// In place of a part of a plan: hosts, and no arrays by themselves.
const HOSTS: &str = "hosts";
/// One seed in this many drives hosts, too.
const HOSTS_ONE_IN: u64 = 16;
/// In place of a part of a plan: volumes of a container.
const VOLUMES: &str = "volumes";
const VOLUMES_ONE_IN: u64 = 16;
/// In place of a part of a plan: arrays that grow.
const GROWING: &str = "growing";
const GROWING_ONE_IN: u64 = 8;
/// In place of a part of a plan: arrays that get more members.
const WIDENING: &str = "widening";
const WIDENING_ONE_IN: u64 = 8;
/// In place of a part of a plan: pools.
const POOLS: &str = "pools";
const POOLS_ONE_IN: u64 = 8;

/// The options of the command line.
struct Options {
    seed: u64,
    /// Replays: the power goes just before this step, if at all.
    cut: Option<Option<Cut>>,
    time: Duration,
    threads: usize,
    /// Seeds at most.
    seeds: u64,
    /// Goes on after a failure.
    keep_going: bool,
    /// A pair of a fault and a condition that never met is a failure.
    complete: bool,
    /// Kinds of faults.
    kinds: Vec<Fault>,
    /// Only seeds whose plan contains this text.
    only: String,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!(
                "{wrong}\nstorm [--seed N] [--cut N] [--minutes N | --seconds N] [--threads N] [--seeds N] [--faults a,b|none] [--only TEXT] [--keep-going] [--complete]"
            );
            return ExitCode::from(2);
        }
    };
    // A panic of the engine is printed with its seed.
    if options.cut.is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    match options.cut {
        Some(cut) => replay(&options, cut),
        None => search(&options),
    }
}

/// Whether the plan contains the text, or each of several that "and" joins.
fn is_selected(plan: &impl ToString, only: &str) -> bool {
    let reported = plan.to_string();
    only.split(" and ").all(|text| reported.contains(text))
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        seed: 0,
        cut: None,
        time: Duration::from_secs(60),
        threads: cores,
        seeds: u64::MAX,
        keep_going: false,
        complete: false,
        kinds: Fault::ALL.to_vec(),
        only: String::new(),
    };
    while let Some(flag) = args.next() {
        let mut number = || {
            let value = args.next().ok_or(format!("{flag} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{flag} {value}: no number"))
        };
        match flag.as_str() {
            "--seed" => options.seed = number()?,
            "--minutes" => options.time = Duration::from_secs(number()? * 60),
            "--seconds" => options.time = Duration::from_secs(number()?),
            "--threads" => options.threads = number()?.max(1) as usize,
            "--seeds" => options.seeds = number()?,
            "--keep-going" => options.keep_going = true,
            "--complete" => options.complete = true,
            "--only" => options.only = args.next().unwrap_or_default(),
            "--cut" => options.cut = Some(cut(&args.next().unwrap_or_default())?),
            "--faults" => options.kinds = kinds(&args.next().unwrap_or_default())?,
            _ => return Err(format!("{flag}: no such flag")),
        }
    }
    Ok(options)
}

fn cut(step: &str) -> Result<Option<Cut>, String> {
    if step == "none" {
        Ok(None)
    } else {
        step.parse().map(Some).map_err(|_| format!("--cut {step}: no number"))
    }
}

fn kinds(list: &str) -> Result<Vec<Fault>, String> {
    let named = |name: &str| {
        let fault = Fault::ALL.into_iter().find(|fault| fault.to_string().replace(' ', "-") == name);
        fault.ok_or(format!("{name}: no such fault"))
    };
    list.split(',').filter(|&name| name != "none").map(named).collect()
}

fn list(kinds: &[Fault]) -> String {
    let names: Vec<String> = kinds.iter().map(|fault| fault.to_string().replace(' ', "-")).collect();
    if names.is_empty() { "none".into() } else { names.join(",") }
}

fn replay(options: &Options, cut: Option<Cut>) -> ExitCode {
    let named = cut.map_or("none".into(), |cut| cut.to_string());
    if let Some(run) = whole(&options.only) {
        let driven = run(options.seed, cut.map(|cut| cut.step));
        println!("seed {}, cut {named}: {}, {} boots", options.seed, options.only, driven.boot);
        let Some(broken) = driven.broken else { return ExitCode::SUCCESS };
        println!("boot {}: {broken}", driven.boot);
        return ExitCode::FAILURE;
    }
    if options.only.starts_with(POOLS) {
        let driven = pools::run(options.seed, cut.map(|cut| cut.step));
        println!(
            "seed {}, cut {named}: {}, {} boots",
            options.seed,
            pools::PoolPlan::new(options.seed),
            driven.boots
        );
        let Some(broken) = driven.broken else { return ExitCode::SUCCESS };
        println!("{broken}");
        return ExitCode::FAILURE;
    }
    println!("seed {}, cut {named}: {}", options.seed, StormPlan::new(options.seed));
    let storm = match Calm::of(options.seed) {
        Ok(calm) => calm.run(options.seed, cut, &options.kinds),
        Err(_) => storm::run(options.seed, cut.map(|cut| cut.step), &options.kinds),
    };
    println!("{}", storm.tally.table(&strikes(&options.kinds)));
    match storm.failure {
        None => {
            println!(
                "{} boots, {} power cuts, {} forced: nothing wrong",
                storm.boot, storm.cuts, storm.forced
            );
            ExitCode::SUCCESS
        }
        Some(failure) => {
            println!("boot {}: {failure}", storm.boot);
            ExitCode::FAILURE
        }
    }
}

fn strikes(kinds: &[Fault]) -> Vec<Strike> {
    [Strike::PowerCut].into_iter().chain(kinds.iter().map(|&fault| Strike::Fault(fault))).collect()
}

/// The findings of all threads.
#[derive(Default)]
struct Found {
    runs: u64,
    cuts: u64,
    /// Of these, cuts of arrays whose clients come by doors.
    by_doors: u64,
    forced: u64,
    tally: StrikeTally,
    /// Cuts of pools.
    phases: pools::Phases,
    /// Times that the segment of a pool was reused which was so least often, for each seed that came to its end.
    least: Vec<u32>,
    failures: u64,
}

fn search(options: &Options) -> ExitCode {
    let (next, stop) = (AtomicU64::new(options.seed), AtomicBool::new(false));
    let found = Mutex::new(Found::default());
    let began = Instant::now();
    let last = options.seed.saturating_add(options.seeds);
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while began.elapsed() < options.time && !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    let failed = storms_of(seed, options, &found, &|| began.elapsed() < options.time);
                    if failed && !options.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report(options, &found, began.elapsed(), next.into_inner().min(last) - options.seed)
}

/// All storms of a seed; tells whether one failed.
fn storms_of(seed: u64, options: &Options, found: &Mutex<Found>, time_left: &dyn Fn() -> bool) -> bool {
    let mut own = Found::default();
    if options.only == HOSTS || options.only.is_empty() && seed.is_multiple_of(HOSTS_ONE_IN) {
        wholes_of(HOSTS, hosts::run, seed, options, &mut own, time_left);
    }
    if options.only == VOLUMES || options.only.is_empty() && seed % VOLUMES_ONE_IN == 8 {
        wholes_of(VOLUMES, volumes::run, seed, options, &mut own, time_left);
    }
    if options.only == GROWING || options.only.is_empty() && seed % GROWING_ONE_IN == 6 {
        wholes_of(GROWING, storm::run_growing, seed, options, &mut own, time_left);
    }
    if options.only == WIDENING || options.only.is_empty() && seed % WIDENING_ONE_IN == 2 {
        wholes_of(WIDENING, widening::run, seed, options, &mut own, time_left);
    }
    let only_pools = options.only.starts_with(POOLS);
    if only_pools || options.only.is_empty() && seed % POOLS_ONE_IN == 4 {
        pools_of(seed, options, &mut own, time_left);
    }
    if whole(&options.only).is_none() && !only_pools && is_selected(&StormPlan::new(seed), &options.only) {
        arrays_of(seed, options, &mut own, time_left);
    }
    let failed = own.failures > 0;
    if let Ok(mut all) = found.lock() {
        all.runs += own.runs;
        all.cuts += own.cuts;
        all.by_doors += own.by_doors;
        all.forced += own.forced;
        all.failures += own.failures;
        all.tally.add(&own.tally);
        all.phases.add(&own.phases);
        all.least.append(&mut own.least);
    }
    failed
}

/// Storms that have no parts to choose among, by their name.
type Run = fn(u64, Option<u64>) -> Driven;

fn whole(only: &str) -> Option<Run> {
    match only {
        HOSTS => Some(hosts::run),
        VOLUMES => Some(volumes::run),
        GROWING => Some(storm::run_growing),
        WIDENING => Some(widening::run),
        _ => None,
    }
}

/// The storms of a seed that `run` drives.
fn wholes_of(
    name: &str,
    run: Run,
    seed: u64,
    options: &Options,
    own: &mut Found,
    time_left: &dyn Fn() -> bool,
) {
    let calm = run(seed, None);
    let mut random = Random::stream(seed, 0x6375_7473);
    let mut tell = |cut: Option<u64>, driven: Driven| {
        own.runs += 1;
        own.cuts += driven.cuts;
        let Some(broken) = driven.broken else { return true };
        own.failures += 1;
        let cut = cut.map_or("none".into(), |cut| cut.to_string());
        println!("FAILED: make storm SEED={seed} CUT={cut} ONLY={name} # boot {}: {broken}", driven.boot);
        options.keep_going
    };
    let steps = calm.steps;
    let mut goes_on = tell(None, calm);
    for _ in 0..CUTS {
        if !goes_on || !time_left() {
            return;
        }
        let cut = Some(random.below(steps.max(1)));
        goes_on = tell(cut, run(seed, cut));
    }
}

/// Storms that drive the pool of a seed.
fn pools_of(seed: u64, options: &Options, own: &mut Found, time_left: &dyn Fn() -> bool) {
    if !is_selected(&pools::PoolPlan::new(seed), &options.only) {
        return;
    }
    let mut random = Random::stream(seed, 0x6375_7473);
    let mut reuses = pools::Reuses::default();
    let mut tell = |cut: Option<u64>, driven: &pools::Driven| {
        own.runs += 1;
        own.cuts += driven.cuts;
        own.phases.add(&driven.phases);
        reuses.add(&driven.reuses);
        let Some(broken) = &driven.broken else { return true };
        own.failures += 1;
        let cut = cut.map_or("none".into(), |cut| cut.to_string());
        println!("FAILED: make storm SEED={seed} CUT={cut} ONLY={POOLS} # {broken}");
        options.keep_going
    };
    let calm = pools::run(seed, None);
    let mut goes_on = tell(None, &calm);
    for _ in 0..CUTS {
        if !goes_on || !time_left() {
            return;
        }
        let cut = Some(calm.cut(&mut random));
        goes_on = tell(cut, &pools::run(seed, cut));
    }
    if let Some((segment, times)) = reuses.least().filter(|_| goes_on) {
        own.least.push(times);
        if times < pools::REUSED {
            own.failures += 1;
            println!(
                "FAILED: seed {seed} of pools: segment {segment} was reused only {times} times: {reuses:?}"
            );
        }
    }
}

/// Storms of the array of a seed.
fn arrays_of(seed: u64, options: &Options, own: &mut Found, time_left: &dyn Fn() -> bool) {
    match Calm::of(seed) {
        Err(failure) => tell(seed, None, 1, &failure, options, own),
        Ok(calm) => {
            let mut random = Random::stream(seed, 0x6375_7473);
            let plan = StormPlan::new(seed);
            let (cuts, by_doors) = (if plan.is_large() { FEW_CUTS } else { CUTS }, plan.doors);
            for _ in 0..cuts {
                if !time_left() || own.failures > 0 && !options.keep_going {
                    break;
                }
                let cut = Some(calm.cut_of(seed, &options.kinds, &mut random));
                let storm = calm.run(seed, cut, &options.kinds);
                own.runs += 1;
                own.cuts += storm.cuts;
                own.by_doors += if by_doors { storm.cuts } else { 0 };
                own.forced += storm.forced;
                own.tally.add(&storm.tally);
                if let Some(failure) = storm.failure {
                    tell(seed, cut, storm.boot, &failure, options, own);
                }
            }
        }
    }
}

fn tell(seed: u64, cut: Option<Cut>, boot: u64, failure: &Failure, options: &Options, own: &mut Found) {
    own.failures += 1;
    let kinds =
        if options.kinds == Fault::ALL { String::new() } else { format!(" FAULTS={}", list(&options.kinds)) };
    let cut = cut.map_or("none".into(), |cut| cut.to_string());
    println!("FAILED: make storm SEED={seed} CUT={cut}{kinds} # boot {boot}: {failure}");
}

fn report(options: &Options, found: &Found, took: Duration, seeds: u64) -> ExitCode {
    let strikes = strikes(&options.kinds);
    let rate = found.cuts as f64 / took.as_secs_f64();
    if !options.only.starts_with(POOLS) {
        println!("{}", found.tally.table(&strikes));
    }
    println!("{}", found.phases.table());
    if let (Some(fewest), Some(most)) = (found.least.iter().min(), found.least.iter().max()) {
        println!(
            "each segment of {} pools was reused at least {fewest} times, in one at least {most} times",
            found.least.len()
        );
    }
    println!(
        "{seeds} seeds from {}, {} runs, {} power cuts ({} starts by force, {} while clients came by doors), {} failures in {:.0} s: {rate:.0} cuts a second, {:.0} on each of {} threads",
        options.seed,
        found.runs,
        found.cuts,
        found.forced,
        found.by_doors,
        found.failures,
        took.as_secs_f64(),
        rate / options.threads as f64,
        options.threads,
    );
    let missed = found.tally.never_met(&strikes);
    for (strike, condition) in missed.iter().filter(|_| options.complete) {
        println!("never met: {strike} while {condition}");
    }
    let incomplete = options.complete && !missed.is_empty();
    if found.failures > 0 || found.cuts == 0 || incomplete { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
