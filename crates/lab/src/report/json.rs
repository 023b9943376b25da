//! fio's JSON.

use serde_json::{Map, Value, json};

use super::direction::{direction, latencies};
use super::{DiskStats, Run, words};
use crate::job::{DIRECTIONS, Given, Job, Unified};
use crate::measure::Latency;
use crate::run::Outcome;

/// The steps into which fio puts latencies, of each unit.
const STEPS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The report that fio would write of these outcomes with `--output-format=json`.
pub fn json(run: &Run, outcomes: &[Outcome]) -> Value {
    let jobs: Vec<Value> = outcomes.iter().map(|outcome| job(run, outcome)).collect();
    let mut all = json!({
        // Programs that read fio's reports look for fio's name here.
        "fio version": concat!("fio-3.33-brindle-", env!("CARGO_PKG_VERSION")),
        "timestamp": run.time.0 / 1000,
        "timestamp_ms": run.time.0,
        "time": run.time.1,
        "jobs": jobs,
        "disk_util": run.disks.iter().map(disk).collect::<Vec<_>>(),
    });
    if !run.global.is_empty() {
        all["global options"] = options(&run.global);
    }
    all
}

fn options(given: &[Given]) -> Value {
    let each = given.iter().map(|given| (given.name.clone(), Value::from(given.value.as_str())));
    Value::Object(each.collect::<Map<_, _>>())
}

fn job(run: &Run, outcome: &Outcome) -> Value {
    let job = &outcome.job;
    let mut all = json!({
        "jobname": job.name,
        "groupid": outcome.group,
        "error": outcome.trouble.map_or(0, |trouble| trouble.why.errno()),
        // The first error ends a job.
        "total_err": u64::from(outcome.trouble.is_some()),
        "first_error": outcome.trouble.map_or(0, |trouble| trouble.why.errno()),
        "eta": 0,
        "elapsed": outcome.elapsed.as_secs() + 1,
        "job options": job_options(outcome),
        "job_runtime": outcome.elapsed.as_millis() as u64,
        "usr_cpu": run.usage.user,
        "sys_cpu": run.usage.system,
        "ctx": run.usage.switches,
        "majf": run.usage.major,
        "minf": run.usage.minor,
        "iodepth_level": depths(outcome),
        "iodepth_submit": at_once(outcome),
        "iodepth_complete": at_once(outcome),
        "latency_depth": job.depth(),
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    for (key, value) in distribution(outcome) {
        all[key] = value;
    }
    if let Some(description) = description(run, job) {
        all["desc"] = description;
    }
    // One figure for all has nothing beside it, flushes neither.
    if job.unified != Unified::Mixed {
        for of in DIRECTIONS {
            all[of.name()] = direction(&outcome.tallies[of.index()], job, run.bins);
        }
        all["sync"] = json!({
            "total_ios": outcome.flushes.count(),
            "lat_ns": latencies(&outcome.flushes, Some(&job.percentiles), run.bins),
        });
    }
    if job.unified != Unified::None {
        all["mixed"] = direction(&outcome.mixed(), job, run.bins);
    }
    all
}

/// The description that a job gives of itself.
fn description(run: &Run, job: &Job) -> Option<Value> {
    let given = job.given.iter().rev().chain(run.global.iter().rev());
    let found = { given }.find(|given| given.name == "description")?;
    Some(found.value.as_str().into())
}

/// The options of the job's section, and those that plotting tools expect even if they were not given.
fn job_options(outcome: &Outcome) -> Value {
    let job = &outcome.job;
    let mut all = options(&job.given);
    let always = [
        ("rw", words::rw(job.access)),
        ("bs", words::bs(job)),
        ("iodepth", job.iodepth.to_string()),
        ("numjobs", job.numjobs.to_string()),
    ];
    for (key, value) in always {
        if all.get(key).is_none() {
            all[key] = value.into();
        }
    }
    all
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 }
}

fn depths(outcome: &Outcome) -> Value {
    let all = outcome.depths.iter().sum();
    let keys = ["1", "2", "4", "8", "16", "32", ">=64"];
    let each =
        keys.iter().zip(outcome.depths).map(|(key, count)| ((*key).to_owned(), percent(count, all).into()));
    Value::Object(each.collect())
}

/// Requests are handed over and come back one by one.
fn at_once(outcome: &Outcome) -> Value {
    let one = if outcome.ios() > 0 { 100.0 } else { 0.0 };
    json!({ "0": 0.0, "4": one, "8": 0.0, "16": 0.0, "32": 0.0, "64": 0.0, ">=64": 0.0 })
}

/// `latency_ns`, `latency_us` and `latency_ms`: of 100 requests, how many fell below each step and not below the one before.
fn distribution(outcome: &Outcome) -> [(&'static str, Value); 3] {
    let mut total = Latency::default();
    outcome.tallies.iter().for_each(|tally| total.merge(&tally.total));
    let all = total.count();
    let of = |unit: u64, key: String, from: u64, to: u64| {
        let to = to.saturating_mul(unit);
        (key, Value::from(percent(total.between(from.saturating_mul(unit), to), all)))
    };
    // Below the first step of a unit stands what the unit before it has not taken.
    let steps = |unit: u64, first: u64| -> Map<String, Value> {
        let froms = std::iter::once(first).chain(STEPS);
        froms.zip(STEPS).map(|(from, to)| of(unit, to.to_string(), from, to)).collect()
    };
    let mut millis = steps(1_000_000, 1);
    millis.extend([
        of(1_000_000, "2000".to_owned(), 1000, 2000),
        of(1_000_000, ">=2000".to_owned(), 2000, u64::MAX),
    ]);
    [
        ("latency_ns", Value::Object(steps(1, 0))),
        ("latency_us", Value::Object(steps(1000, 1))),
        ("latency_ms", Value::Object(millis)),
    ]
}

fn disk(disk: &DiskStats) -> Value {
    json!({
        "name": disk.name,
        "read_ios": disk.reads[0],
        "write_ios": disk.writes[0],
        "read_merges": disk.reads[2],
        "write_merges": disk.writes[2],
        "read_ticks": disk.reads[3],
        "write_ticks": disk.writes[3],
        "in_queue": disk.in_queue,
        "util": disk.busy,
    })
}
