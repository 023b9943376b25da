//! `brindle bench --suite`: named loads, and the report on them.

use core::fmt::Write;
use std::path::Path;

use brindle_lab::job::Job;
use brindle_lab::run::Outcome;
use brindle_lab::suite::{Loads, SUITES, Suite, suite};
use brindle_volume::Limits;
use serde_json::{Value, json};

use super::plan::{Here, tell};
use crate::base::failure::Failure;
use crate::base::text;
use crate::flags::cli::Bench;

/// A suite that is measured.
pub(super) struct Suited {
    name: String,
    pub(super) loads: Loads,
    /// Jobs that did not run: they write, or are no whole blocks.
    left_out: Vec<String>,
}

/// The text of a suite, and its parsed form: one that ships, or a file.
pub(crate) fn named_suite(named: &str) -> Result<(String, Suite), Failure> {
    let text = match SUITES.iter().find(|(name, _)| *name == named) {
        Some((_, text)) => (*text).to_owned(),
        None => text::read(Path::new(named)).map_err(|source| {
            let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
            let what =
                format!("{named}: no suite of this name ships ({}), and no such file", names.join(", "));
            Failure::system(what, source)
        })?,
    };
    let suite = suite(named, &text)?;
    Ok((text, suite))
}

/// The jobs of a suite. Without the user's word those that write are left out, unless nothing would be left.
pub(super) fn suited(args: &Bench, named: &str) -> Result<Suited, Failure> {
    let (text, suite) = named_suite(named)?;
    let own: Vec<(String, String)> = args
        .options
        .0
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().unwrap_or_else(|| "1".to_owned())))
        .collect();
    if own.iter().any(|(name, _)| name == "name") {
        return Err(Failure::Usage("--suite has jobs of its own: leave out --name".to_owned()));
    }
    let mut loads = suite.loads((named, &text), &own, &Here)?;
    tell(&loads.plan);
    for axis in &loads.fixed {
        eprintln!(
            "brindle: suite {named} varies {axis}: what is measured is the target as it is; brindle sweep --destroy \
             varies it"
        );
    }
    let mut left_out = Vec::new();
    if !args.force && loads.plan.jobs.iter().any(|job| !job.access.changes()) {
        left_out = loads.leave_out_writes();
    }
    if !left_out.is_empty() {
        eprintln!("brindle: without --force jobs that write are left out: {}", left_out.join(", "));
    }
    Ok(Suited { name: named.to_owned(), loads, left_out })
}

impl Suited {
    /// Fits the jobs to the targets, which decide where requests may go and how small they may be.
    pub(super) fn fit(
        &mut self,
        jobs: &mut Vec<Job>,
        targets: &[Limits],
        memory: u64,
    ) -> Result<(), Failure> {
        let small = Loads::leave_out_small(jobs, targets);
        if jobs.is_empty() {
            let why = format!("suite {}: the target's blocks are larger than its requests", self.name);
            return Err(Failure::Refused(why));
        }
        if !small.is_empty() {
            eprintln!("brindle: no whole blocks of the target, and left out: {}", small.join(", "));
        }
        self.left_out.extend(small);
        for less in Loads::fit_memory(jobs, memory) {
            eprintln!("brindle: fewer requests in flight than the suite says, for want of --memory: {less}");
        }
        self.loads.spread(jobs, targets);
        Ok(())
    }

    /// A line for each score.
    pub(super) fn text(&self, outcomes: &[Outcome]) -> String {
        let mut text = String::new();
        for score in self.loads.scores(outcomes) {
            let unit = score.of.unit();
            // Writing to a text does not fail.
            let _ = writeln!(text, "{}, {}: {:.2} {unit}", self.name, score.name, score.value);
        }
        text
    }

    /// The scores as JSON.
    pub(super) fn json(&self, outcomes: &[Outcome]) -> Value {
        let scores = self.loads.scores(outcomes);
        let one = |score: &brindle_lab::suite::Scored| json!({ "name": score.name, "value": score.value, "unit": score.of.unit() });
        json!({
            "name": self.name,
            "scores": scores.iter().map(one).collect::<Vec<_>>(),
            "left_out": self.left_out,
            "not_varied": self.loads.fixed,
        })
    }
}
