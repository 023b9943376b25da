//! Jobs of a suite, in fio's words, and scores over what they came to.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use crate::run::Outcome;

/// Jobs one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The purpose of the suite.
    #[serde(default)]
    pub about: String,
    /// fio's options of all jobs.
    #[serde(default)]
    options: BTreeMap<String, Value>,
    job: Vec<Spanned<BTreeMap<String, Value>>>,
    #[serde(default)]
    score: Vec<Spanned<Score>>,
}

/// One number over the results of several jobs: the weighted sum of their figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Its name.
    pub name: String,
    /// The figure of the jobs.
    pub of: Of,
    /// By the jobs' names.
    pub weights: BTreeMap<String, f64>,
}

/// A figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// MiB/s.
    MbS,
    /// Requests a second.
    Iops,
    /// Mean latency in microseconds.
    MeanUs,
}

/// The value of a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The score's name.
    pub name: String,
    /// The figure.
    pub of: Of,
    /// The number.
    pub value: f64,
}

/// The one option that is not fio's: this many requests, evenly over the target.
const SPREAD: &str = "spread";

/// A job: its name, fio's words, and over how many places it is spread.
pub(super) struct Words {
    pub(super) name: String,
    pub(super) words: Vec<(String, String)>,
    pub(super) spread: Option<u64>,
    /// Byte of the suite at which it stands.
    pub(super) at: usize,
}

impl Of {
    /// Its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MbS => "MiB/s",
            Self::Iops => "IOPS",
            Self::MeanUs => "us",
        }
    }

    fn figure(self, outcome: &Outcome) -> f64 {
        let all = outcome.mixed();
        match self {
            Self::MbS => all.bandwidth() / 1_048_576.0,
            Self::Iops => all.iops(),
            Self::MeanUs => all.total.mean() / 1000.0,
        }
    }
}

impl Score {
    /// The value of the score; `None` if one of its jobs did not run.
    pub fn over(&self, outcomes: &[Outcome]) -> Option<Scored> {
        let figure = |(name, weight): (&String, &f64)| {
            let outcome = outcomes.iter().find(|outcome| outcome.job.name == *name)?;
            Some(weight * self.of.figure(outcome))
        };
        let value = self.weights.iter().map(figure).sum::<Option<f64>>()?;
        Some(Scored { name: self.name.clone(), of: self.of, value })
    }
}

impl Jobs {
    /// Checks the score; the error says what is wrong, and at which byte.
    pub(super) fn check(&self) -> Result<(), (usize, String)> {
        let mut names = Vec::new();
        self.options.iter().try_for_each(|option| word(option).map(drop)).map_err(|why| (0, why))?;
        for job in &self.job {
            let wrong = |why: String| Err((job.span().start, why));
            let words = words(job.get_ref()).map_err(|why| (job.span().start, why))?;
            if names.contains(&words.name) {
                return wrong(format!("there are two jobs of the name '{}'", words.name));
            }
            names.push(words.name);
        }
        for score in &self.score {
            let unknown = score.get_ref().weights.keys().find(|name| !names.contains(name));
            if let Some(name) = unknown {
                return Err((score.span().start, format!("a score of '{name}', and there is no such job")));
            }
        }
        Ok(())
    }

    /// Options of all jobs.
    pub(super) fn options(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.options.iter().filter_map(|option| word(option).ok())
    }

    pub(super) fn words(&self) -> Vec<Words> {
        let one = |job: &Spanned<_>| Some(Words { at: job.span().start, ..words(job.get_ref()).ok()? });
        self.job.iter().filter_map(one).collect()
    }

    pub(super) fn scores(&self) -> Vec<Score> {
        self.score.iter().map(|score| score.get_ref().clone()).collect()
    }
}

fn words(job: &BTreeMap<String, Value>) -> Result<Words, String> {
    let name = job.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| "a job without name: give name = \"...\"".to_owned())?.to_owned();
    let spread = match job.get(SPREAD) {
        None => None,
        Some(Value::Integer(count @ 1..=65_536)) => Some(count.unsigned_abs()),
        Some(_) => return Err(format!("{SPREAD} is a count of requests from 1 to 65536")),
    };
    let own = job.iter().filter(|(key, _)| *key != "name" && *key != SPREAD);
    let words = own.map(word).collect::<Result<_, _>>()?;
    Ok(Words { name, words, spread, at: 0 })
}

/// A value in fio's form: true is 1.
fn word((name, value): (&String, &Value)) -> Result<(String, String), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(yes) => u8::from(*yes).to_string(),
        _ => return Err(format!("{name} is a text, a number, true or false")),
    };
    Ok((name.clone(), text))
}
