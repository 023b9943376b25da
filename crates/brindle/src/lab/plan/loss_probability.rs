//! How likely each configuration loses data, by histories of its groups.

use brindle_planner::reliability::{
    Case, Class, Effort, Estimate, Group, HOURS_PER_YEAR, Unsound, Weibull, estimate,
};
use brindle_planner::{Risk, Terms, cases};

use super::Row;
use super::drives::Kind;
use crate::base::failure::Failure;
use crate::base::progress;
use crate::flags::cli::Likelihood;

/// Histories are enough once half the interval's width is this share of the probability.
const CLOSE: f64 = 0.1;
/// The most histories.
const MOST: u64 = 1 << 16;
/// A drive that does so many random reads a second has no head.
const NO_HEAD: f64 = 2000.0;

/// Fills in the probabilities of loss, and returns notes on the figures behind them.
pub(super) fn fill(
    rows: &mut [Row],
    kinds: &[Kind],
    terms: &Terms,
    args: &Likelihood,
) -> Result<Vec<String>, Failure> {
    let Some(years) = args.years else { return Ok(Vec::new()) };
    let class = class(kinds, args)?;
    let template = Case {
        group: Group::new(2, 1, 1),
        groups: 1,
        failures: class.failures(),
        repairs: Weibull::constant(1.0),
        delay: Weibull::constant(args.spare_delay),
        defects: class.defects,
        // Begins each 730 hours and takes some.
        scrub: Some(Weibull { location: 6.0, shape: 3.0, scale: 730.0 }),
        wrong_pull: 0.0,
        batch: None,
        hours: years * HOURS_PER_YEAR,
    };
    let effort = Effort { histories: MOST, until_relative_error: Some(CLOSE), ..Effort::default() };
    let bar = progress::steps("estimating losses", rows.len() as u64);
    let mut known: Vec<(Case, Estimate)> = Vec::new();
    let mut left_out = 0;
    for row in rows.iter_mut() {
        match cases(&row.configuration, &template, terms.busy, terms.link) {
            Some(cases) => {
                let all = cases.iter().map(|case| answer(case, &effort, &mut known));
                let all = all.collect::<Result<Vec<_>, _>>()?;
                row.figures.risk = Some(Risk::of(&all, row.figures.net, years));
            }
            None => left_out += 1,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut notes = vec![format!(
        "probability of loss is for {years} years of drives of class {} ({}), scrubbed once a month, by histories from a seed",
        class.name, class.source
    )];
    if left_out > 0 {
        notes.push(format!("{left_out} configurations have groups of too many drives for that"));
    }
    Ok(notes)
}

/// Many configurations have groups that are alike.
fn answer(case: &Case, effort: &Effort, known: &mut Vec<(Case, Estimate)>) -> Result<Estimate, Failure> {
    if let Some((_, estimate)) = known.iter().find(|(other, _)| other == case) {
        return Ok(estimate.clone());
    }
    let found = estimate(case, effort, &|_, _| ()).map_err(|why| wrong(&why))?;
    known.push((case.clone(), found.clone()));
    Ok(found)
}

/// The error, with the name that the flag has here.
fn wrong(why: &Unsound) -> Failure {
    let flag = if why.field == "delay" { "spare-delay" } else { why.field };
    Failure::Usage(format!("--{flag}: {}", why.why))
}

/// The class that was asked for; else disks or flash, by the speed of the drives.
fn class(kinds: &[Kind], args: &Likelihood) -> Result<&'static Class, Failure> {
    let headless = kinds.iter().all(|kind| kind.known.disk.read_iops >= NO_HEAD);
    let usual = if headless { "ssd-2022" } else { "hdd-2025" };
    let named = args.class.as_deref().unwrap_or(usual);
    Class::named(named).ok_or_else(|| {
        let known: Vec<&str> = brindle_planner::reliability::CLASSES.iter().map(|class| class.name).collect();
        Failure::Usage(format!(
            "--class {named}: no such class of drives is known: give one of {}",
            known.join(", ")
        ))
    })
}
