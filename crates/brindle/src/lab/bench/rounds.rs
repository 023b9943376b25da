//! Runs the jobs once, or again until their rates are steady.

use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_lab::job::{Blocks, Direction, IoPattern, Job, Kinds};
use brindle_lab::measure::{Steadiness, steadiness};
use brindle_lab::run::{Live, Outcome, Terms, run};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::plan::for_requests;
use super::target::Opened;
use super::watch::{StopSignal, spinner, watch};
use crate::base::failure::Failure;
use crate::flags::cli::Bench;

/// Most rounds, as SNIA's PTS has it.
const MOST_ROUNDS: usize = 25;

/// The measured results.
pub(super) struct Measured {
    /// Outcomes of the last round.
    pub(super) outcomes: Vec<Outcome>,
    /// Requests a second of each round, where there was more than one to be.
    rounds: Option<Vec<f64>>,
}

pub(super) fn measure(opened: &Opened, args: &Bench, jobs: &[Job]) -> Result<Measured, Failure> {
    let signal = StopSignal::new()?;
    let terms = Terms::new(chance()?, for_requests(args.tuning));
    let bar = spinner();
    if args.precondition {
        once(opened, &[precondition()], terms, &signal, &bar)?;
    }
    if !args.until_steady {
        return Ok(Measured { outcomes: once(opened, jobs, terms, &signal, &bar)?, rounds: None });
    }
    let mut rounds = Vec::new();
    loop {
        let outcomes = once(opened, jobs, terms, &signal, &bar)?;
        rounds.push(outcomes.iter().flat_map(|outcome| &outcome.tallies).map(|tally| tally.iops()).sum());
        let failed = outcomes.iter().any(|outcome| outcome.trouble.is_some()) || signal.is_asked();
        let steady = steadiness(&rounds).is_some_and(|steadiness| steadiness.is_reached());
        if failed || steady || rounds.len() >= MOST_ROUNDS {
            return Ok(Measured { outcomes, rounds: Some(rounds) });
        }
    }
}

/// For jobs that ask for other places in each run.
pub(super) fn chance() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::system("the system has no random numbers", std::io::Error::other(error)))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Runs jobs once; `bar` shows their progress.
pub(crate) fn once(
    opened: &Opened,
    jobs: &[Job],
    terms: Terms,
    signal: &StopSignal,
    bar: &ProgressBar,
) -> Result<Vec<Outcome>, Failure> {
    let io = opened.io();
    let live = Rc::new(Live::default());
    let running = run(io, &opened.targets, jobs, terms, &live);
    match io.block_on(race(running, watch(io, &live, signal, bar))) {
        Either::First(outcomes) => Ok(outcomes?),
        Either::Second(()) => Ok(Vec::new()),
    }
}

/// All of the target written twice, as SNIA's PTS prepares a drive.
pub(crate) fn precondition() -> Job {
    Job {
        name: "precondition".to_owned(),
        access: IoPattern { kinds: Kinds::One(Direction::Write), random: false, step: 0 },
        blocks: core::array::from_fn(|_| Blocks::One(128 << 10)),
        iodepth: 32,
        loops: 2,
        end_fsync: true,
        ..Job::default()
    }
}

impl Measured {
    fn steadiness(&self) -> Option<(&[f64], Option<Steadiness>)> {
        self.rounds.as_ref().map(|rounds| (rounds.as_slice(), steadiness(rounds)))
    }

    /// A line on how steady it was.
    pub(super) fn steady_text(&self) -> String {
        match self.steadiness() {
            None => String::new(),
            Some((rounds, None)) => format!("not steady: {} rounds, five are needed\n", rounds.len()),
            Some((rounds, Some(steady))) => format!(
                "{}steady after {} rounds: excursion {:.1} % (20), slope {:.1} % (10) of {:.0} IOPS\n",
                if steady.is_reached() { "" } else { "not " },
                rounds.len(),
                steady.excursion * 100.0,
                steady.slope * 100.0,
                steady.mean,
            ),
        }
    }

    /// The steady state as JSON.
    pub(super) fn steady_json(&self) -> Option<Value> {
        let (rounds, steady) = self.steadiness()?;
        Some(json!({
            "rounds": rounds,
            "attained": steady.is_some_and(|steady| steady.is_reached()),
            "excursion": steady.map(|steady| steady.excursion),
            "slope": steady.map(|steady| steady.slope),
        }))
    }
}
