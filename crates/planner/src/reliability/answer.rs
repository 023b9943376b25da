//! The answer to a question: figures for all groups together.

use super::case::{Case, Redundancy};
use super::interval::Interval;
use super::markov::Chain;

/// The answer, for all groups together.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Probability that any data is lost by the end.
    pub loss: Interval,
    /// Data loss per year: the constant rate that leads to the probability.
    pub loss_per_year: Interval,
    /// Probability that a group is lost as a whole.
    pub whole: Interval,
    /// Expected losses by the end, of groups and of sectors, if use goes on after each.
    pub losses: Interval,
    /// Losses of whole groups among them.
    pub wholes: Interval,
    /// Losses of sectors among them.
    pub sectors: Interval,
    /// Expected bytes lost by the end.
    pub bytes: Interval,
    /// Expected bytes lost relative to the capacity: NOMDL.
    pub nomdl: Interval,
    /// For comparison only: the Markov chain's mean time to data loss, in hours; none where failures depend on which drives.
    pub mttdl: Option<f64>,
    /// Exact probability of loss, where the case has none but constant rates and no defects.
    pub exact: Option<f64>,
    /// Histories that were simulated; 0 where none is needed.
    pub histories: u64,
    /// Histories of these in which data was lost, or could have been.
    pub met: u64,
}

/// The constant rate that comes to this probability, as a probability of a year.
pub(super) fn per_year(probability: f64, years: f64) -> f64 {
    -((-probability).ln_1p() / years).exp_m1()
}

/// Mean times of the distributions, as if they were exponential: what calculators do.
pub(super) fn mttdl(case: &Case) -> Option<f64> {
    let Redundancy::Bears(bears) = case.group.redundancy else { return None };
    let repair = case.repairs.mean() + case.delay.mean();
    let chain = Chain {
        drives: case.group.drives,
        bears,
        failures: 1.0 / case.failures.mean(),
        repairs: 1.0 / repair,
    };
    Some(chain.mttdl() / f64::from(case.groups))
}
