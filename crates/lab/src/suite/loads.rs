//! A suite's loads as jobs that run one after the other.

use std::collections::BTreeMap;

use brindle_volume::Limits;

use super::jobs::{Score, Scored, Words};
use super::{Suite, SuiteError, wrong};
use crate::job::{Blocks, DIRECTIONS, Job, JobError, JobExtent, JobPlan, Surroundings, parse_words};
use crate::run::{Outcome, memory_for};
use crate::sweep::{Axes, Point};

/// The default duration of each load of a suite with axes.
const RUNTIME: &str = "10s";
/// Options that may be given beside any suite: they hold for all its jobs.
const OF_ALL: [&str; 2] = ["stonewall", "group_reporting"];

/// A suite's jobs, one after the other.
#[derive(Clone, Debug)]
pub struct Loads {
    /// The jobs.
    pub plan: JobPlan,
    /// Axes of arrays, which are not varied: what is measured is the target as it is.
    pub fixed: Vec<&'static str>,
    spread: BTreeMap<String, u64>,
    scores: Vec<Score>,
}

/// Why a suite's jobs can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadsError {
    /// One of its jobs has an error.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// An option of a job is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl Suite {
    /// Its jobs; `own` are further options of all of them.
    ///
    /// # Errors
    /// Options that are none, and those that the suite itself gives to a job.
    pub fn loads(
        &self,
        (file, text): (&str, &str),
        own: &[(String, String)],
        around: &impl Surroundings,
    ) -> Result<Loads, LoadsError> {
        let jobs = match self {
            Self::Axes(axes) => of_points(&axes.points()),
            Self::Jobs(jobs) => jobs.words(),
        };
        for job in &jobs {
            check(job, own, around).map_err(|why| wrong(file, text, job.at, why))?;
        }
        let mut words: Vec<(String, Option<String>)> = Vec::new();
        let mut say = |name: &str, value: &str| words.push((name.to_owned(), Some(value.to_owned())));
        OF_ALL.iter().for_each(|name| say(name, "1"));
        match self {
            Self::Axes(_) => {
                say("runtime", RUNTIME);
                ["time_based", "norandommap"].iter().for_each(|name| say(name, "1"));
            }
            Self::Jobs(jobs) => jobs.options().for_each(|(name, value)| say(&name, &value)),
        }
        own.iter().for_each(|(name, value)| say(name, value));
        for job in &jobs {
            say("name", &job.name);
            job.words.iter().for_each(|(name, value)| say(name, value));
        }
        let plan = parse_words(&words, false, around)?;
        let spread = jobs.into_iter().filter_map(|job| Some((job.name, job.spread?))).collect();
        let (fixed, scores) = match self {
            Self::Axes(axes) => (fixed(axes), Vec::new()),
            Self::Jobs(jobs) => (Vec::new(), jobs.scores()),
        };
        Ok(Loads { plan, fixed, spread, scores })
    }
}

impl Loads {
    /// Leaves out the jobs that write, and says which those were.
    pub fn leave_out_writes(&mut self) -> Vec<String> {
        let (out, left) =
            core::mem::take(&mut self.plan.jobs).into_iter().partition(|job| job.access.changes());
        self.plan.jobs = left;
        Vec::<Job>::into_iter(out).map(|job| job.name).collect()
    }

    /// Takes out the jobs whose requests are no whole blocks of these targets, and says which those were.
    pub fn leave_out_small(jobs: &mut Vec<Job>, targets: &[Limits]) -> Vec<String> {
        let block = targets.iter().map(|limits| u64::from(limits.block)).max().unwrap_or(1);
        let whole = |blocks: &Blocks| match blocks {
            Blocks::One(size) => size.is_multiple_of(block),
            Blocks::Range(least, most) => least.is_multiple_of(block) && most.is_multiple_of(block),
            Blocks::Split(sizes) => sizes.iter().all(|(size, _)| size.is_multiple_of(block)),
        };
        let fits =
            |job: &Job| DIRECTIONS.iter().all(|of| !job.access.has(*of) || whole(&job.blocks[of.index()]));
        jobs.extract_if(.., |job| !fits(job)).map(|job| job.name).collect()
    }

    /// Has fewer requests in flight where there is not as much memory, and says of which jobs and how many.
    pub fn fit_memory(jobs: &mut [Job], memory: u64) -> Vec<String> {
        let mut reported = Vec::new();
        for job in jobs {
            let wanted = job.iodepth;
            while memory_for(job) > memory && job.iodepth > 1 {
                job.iodepth /= 2;
            }
            if job.iodepth < wanted {
                reported.push(format!("{}: iodepth={}", job.name, job.iodepth));
            }
        }
        reported
    }

    /// Spreads jobs evenly over targets of these sizes; where these are small, requests are smaller.
    pub fn spread(&self, jobs: &mut [Job], targets: &[Limits]) {
        let size = targets.iter().map(|limits| limits.size).min().unwrap_or(0);
        let block = targets.iter().map(|limits| u64::from(limits.block)).max().unwrap_or(1);
        for job in jobs {
            let Some(&count) = self.spread.get(&job.name) else { continue };
            let each = size / count / block * block;
            let len = job.largest().min(each) / block * block;
            // A target without room for that many is refused with the job.
            if len > 0 {
                job.blocks = core::array::from_fn(|_| Blocks::One(len));
                job.access.step = i64::try_from(each - len).unwrap_or(0);
                job.size = Some(JobExtent::Bytes(each * count));
                job.number_ios = Some(count * targets.len() as u64);
            }
        }
    }

    /// The values of the scores; those of jobs that did not run are left out.
    pub fn scores(&self, outcomes: &[Outcome]) -> Vec<Scored> {
        self.scores.iter().filter_map(|score| score.over(outcomes)).collect()
    }
}

/// A job by itself: nothing of it is said twice, and all of it means something.
fn check(job: &Words, own: &[(String, String)], around: &impl Surroundings) -> Result<(), String> {
    let twice = job.words.iter().find(|(name, _)| own.iter().any(|(other, _)| other == name));
    if let Some((name, _)) = twice {
        return Err(format!("job '{}' of the suite says {name} itself: leave out --{name}", job.name));
    }
    // The run time of jobs that run by the clock may stand with the options of all jobs.
    let alone = job.words.iter().filter(|(name, _)| name != "time_based");
    let alone: Vec<_> = alone.map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    let wrong = |error: JobError| format!("job '{}': {}", job.name, error.kind);
    parse_words(&alone, false, around).map(drop).map_err(wrong)
}

/// Each load once: what differs in the array only is the same.
fn of_points(points: &[Point]) -> Vec<Words> {
    let mut jobs: Vec<Words> = Vec::new();
    for point in points {
        let words: Vec<(String, String)> =
            point.load().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if jobs.iter().all(|job| job.words != words) {
            let name = words.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
            jobs.push(Words { name: name.join(","), words, spread: None, at: 0 });
        }
    }
    jobs
}

fn fixed(axes: &Axes) -> Vec<&'static str> {
    let all = [
        ("level", &axes.level),
        ("layout", &axes.layout),
        ("chunk", &axes.chunk),
        ("members", &axes.members),
    ];
    all.into_iter().filter(|(_, axis)| axis.len() > 1).map(|(name, _)| name).collect()
}
