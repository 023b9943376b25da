//! The estimate: batches of histories on all cores, the same whatever their number.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::answer::{Estimate, mttdl, per_year};
use super::case::{Case, HOURS_PER_YEAR, Redundancy, Unsound};
use super::defects::Defects;
use super::forced::Forced;
use super::interval::{Interval, deviations};
use super::markov::Chain;
use super::random::Chance;
use super::stripe;
use super::tally::{Sum, Sums};
use super::unweighted::Plain;

/// Histories of a batch: a batch has one seed.
const BATCH: u64 = 256;
/// Batches of the first look, of each kind of delivery, where an error is wanted and not a number of histories.
const FIRST_LOOK: u64 = 16;

/// How histories are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Losses made frequent and weighted: for all cases.
    Weighted,
    /// As they come: to see that the other is right.
    Plain,
}

/// How much is done for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Histories, rounded up to batches of 256; the most where an error is wanted.
    pub histories: u64,
    /// Half the width of the interval of the probability of loss, relative to it, at which it is enough.
    pub until_relative_error: Option<f64>,
    /// Confidence level of the intervals, as 0.95.
    pub confidence: f64,
    /// The seed of all random draws.
    pub seed: u64,
    /// Threads; 0 for all cores. The answer does not depend on it.
    pub threads: usize,
    /// How histories are drawn.
    pub method: Method,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            histories: 100_000,
            until_relative_error: None,
            confidence: 0.95,
            seed: 1,
            threads: 0,
            method: Method::Weighted,
        }
    }
}

/// Answers a question. `progress` gets the number of histories that are done, and the total as far as it is known.
///
/// # Errors
/// [`Unsound`]: the question makes no sense.
pub fn estimate(
    case: &Case,
    effort: &Effort,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Estimate, Unsound> {
    case.check()?;
    effort.check()?;
    let defects = Defects::new(case.defects, case.scrub, case.hours);
    let strata = case.strata();
    let run = Run { case, effort, defects: &defects, strata: &strata, progress };
    let tallies = run.all();
    let found = combine(case, effort, &strata, &tallies);
    Ok(if case.is_bare() { stripe::completed(case, &found, deviations(effort.confidence)) } else { found })
}

impl Effort {
    fn check(&self) -> Result<(), Unsound> {
        let wrong = |field, why: String| Err(Unsound { field, why });
        if !(BATCH..=1 << 40).contains(&self.histories) {
            return wrong("histories", format!("{} histories; give {BATCH} to 2^40", self.histories));
        }
        if !(0.5..=0.999_999).contains(&self.confidence) {
            return wrong("confidence", format!("{}; give 0.5 to 0.999999", self.confidence));
        }
        if self.until_relative_error.is_some_and(|error| !(1e-4..=1.0).contains(&error)) {
            return wrong("until-relative-error", "give 0.0001 to 1".to_owned());
        }
        Ok(())
    }
}

/// Histories on their way.
struct Run<'a> {
    case: &'a Case,
    effort: &'a Effort,
    defects: &'a Defects,
    strata: &'a [(f64, f64)],
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Run<'_> {
    /// The sums of each kind of delivery.
    fn all(&self) -> Vec<Sums> {
        let kinds = self.strata.len() as u64;
        let most = self.effort.histories.div_ceil(BATCH * kinds);
        let mut tallies = vec![Sums::default(); self.strata.len()];
        let (mut done, mut aim) = (0, most);
        if self.effort.until_relative_error.is_some() {
            aim = FIRST_LOOK.min(most);
        }
        loop {
            self.round(&mut tallies, done, aim, most);
            done = aim;
            let found = combine(self.case, self.effort, self.strata, &tallies);
            let (counted, none) =
                if self.case.is_bare() { (found.wholes, true) } else { (found.loss, false) };
            let error = counted.relative_error();
            match self.effort.until_relative_error {
                Some(wanted)
                    if done < most && !(error.is_finite() && error <= wanted && (error > 0.0 || none)) =>
                {
                    // The error shrinks with the root of the number; four times as many at most, lest a lucky look misleads.
                    let more = (error / wanted).powi(2);
                    let factor = if more.is_finite() { more.clamp(1.2, 4.0) } else { 4.0 };
                    aim = ((done as f64 * factor).ceil() as u64).min(most);
                }
                _ => return tallies,
            }
        }
    }

    /// Batches from one number to another, of each kind, added in their order.
    fn round(&self, tallies: &mut [Sums], from: u64, to: u64, most: u64) {
        let kinds = self.strata.len();
        let count = (to - from) as usize * kinds;
        let before = from * kinds as u64 * BATCH;
        let total = if self.effort.until_relative_error.is_some() { to } else { most } * kinds as u64 * BATCH;
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(before));
        let found = Mutex::new(vec![Sums::default(); count]);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return;
                }
                let tally = self.batch(at % kinds, from + (at / kinds) as u64);
                found.lock().unwrap_or_else(PoisonError::into_inner)[at] = tally;
                (self.progress)(done.fetch_add(BATCH, Ordering::Relaxed) + BATCH, total);
            }
        };
        let threads = match self.effort.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        thread::scope(|scope| {
            (1..threads.clamp(1, count.max(1))).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.iter().enumerate().for_each(|(at, tally)| tallies[at % kinds].merge(tally));
    }

    fn batch(&self, kind: usize, number: u64) -> Sums {
        let mut chance = Chance::of_batch(self.effort.seed, kind as u64, number);
        let (factor, group) = (self.strata[kind].1, &self.case.group);
        let mut tally = Sums::default();
        match self.effort.method {
            Method::Weighted if self.case.is_bare() => {
                let mut plain = Plain::new(self.case);
                (0..BATCH).for_each(|_| tally.add(&plain.first_forced(factor, &mut chance), group));
            }
            Method::Weighted => {
                let mut forced = Forced::new(self.case, self.defects);
                (0..BATCH).for_each(|_| tally.add(&forced.history(factor, &mut chance), group));
            }
            Method::Plain => {
                let mut plain = Plain::new(self.case);
                (0..BATCH).for_each(|_| tally.add(&plain.history(factor, &mut chance), group));
            }
        }
        tally
    }
}

/// From groups of each kind of delivery to all groups.
fn combine(case: &Case, effort: &Effort, strata: &[(f64, f64)], tallies: &[Sums]) -> Estimate {
    let z = deviations(effort.confidence);
    let figures = Figures { case, effort, strata, tallies, z };
    let loss = figures.probability(|tally| &tally.any);
    let bytes = figures.mean(|tally| &tally.bytes);
    let years = case.hours / HOURS_PER_YEAR;
    let capacity = case.capacity();
    Estimate {
        loss,
        loss_per_year: loss.map(|p| per_year(p, years)),
        whole: figures.probability(|tally| &tally.whole),
        losses: figures.mean(|tally| &tally.losses),
        wholes: figures.mean(|tally| &tally.wholes),
        sectors: figures.mean(|tally| &tally.sectors),
        bytes,
        nomdl: bytes.map(|bytes| bytes / capacity.max(1.0)),
        mttdl: mttdl(case),
        exact: exact(case),
        histories: tallies.iter().map(|tally| tally.histories).sum(),
        met: tallies.iter().map(|tally| tally.any.met).sum(),
    }
}

struct Figures<'a> {
    case: &'a Case,
    effort: &'a Effort,
    strata: &'a [(f64, f64)],
    tallies: &'a [Sums],
    z: f64,
}

impl Figures<'_> {
    /// The probability that it happens to one of the groups: those of one delivery are independent.
    fn probability(&self, of: impl Fn(&Sums) -> &Sum) -> Interval {
        let groups = f64::from(self.case.groups);
        let one_of = |p: f64| -(groups * (-p.min(1.0)).ln_1p()).exp_m1();
        if let [tally] = self.tallies {
            return self.of_group(of(tally), tally.histories).map(one_of);
        }
        let (mut value, mut variance, mut unseen) = (0.0, 0.0, 0.0);
        for ((share, _), tally) in self.strata.iter().zip(self.tallies) {
            let (mean, error) = of(tally).mean(tally.histories);
            let mean = mean.min(1.0);
            value += share * one_of(mean);
            let slope = groups * (1.0 - mean).powf(groups - 1.0);
            variance += (share * slope * error).powi(2);
            if of(tally).met == 0 {
                unseen += share * one_of(self.of_group(of(tally), tally.histories).high);
            }
        }
        let mut interval = Interval::of_probability(value, variance.sqrt(), self.z);
        interval.high = (interval.high + unseen).min(1.0);
        interval
    }

    fn of_group(&self, sum: &Sum, histories: u64) -> Interval {
        if self.effort.method == Method::Plain {
            return Interval::of_share(sum.met, histories, self.z);
        }
        let (mean, error) = sum.mean(histories);
        let mut interval = Interval::of_probability(mean, error, self.z);
        if sum.met == 0 && self.possible() {
            // An event that was never met in this many histories has at most this share.
            interval.high = Interval::of_share(0, histories, self.z).high;
        }
        interval
    }

    fn possible(&self) -> bool {
        self.case.failures.hazard(self.case.hours) > 0.0
    }

    fn mean(&self, of: impl Fn(&Sums) -> &Sum) -> Interval {
        let (mut value, mut variance) = (0.0, 0.0);
        for ((share, _), tally) in self.strata.iter().zip(self.tallies) {
            let (mean, error) = of(tally).mean(tally.histories);
            value += share * mean;
            variance += (share * error).powi(2);
        }
        let groups = f64::from(self.case.groups);
        Interval::of_mean(value, variance.sqrt(), self.z).map(|mean| mean * groups)
    }
}

/// Where the case is that of the chain.
fn exact(case: &Case) -> Option<f64> {
    let Redundancy::Bears(bears) = case.group.redundancy else { return None };
    let constant = case.failures.is_exponential() && case.repairs.is_exponential();
    let simple =
        case.delay.mean() == 0.0 && case.wrong_pull == 0.0 && case.strata().len() == 1 && case.defects == 0.0;
    (constant && simple).then(|| {
        let (failures, repairs) = (1.0 / case.failures.scale, 1.0 / case.repairs.scale);
        let group = Chain { drives: case.group.drives, bears, failures, repairs }.lost_by(case.hours);
        -(f64::from(case.groups) * (-group).ln_1p()).exp_m1()
    })
}
