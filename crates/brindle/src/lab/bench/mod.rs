//! `brindle bench`: fio's jobs on arrays, devices, files and exports, in process.

pub(crate) mod disks;
mod plan;
pub(crate) mod rounds;
mod suites;
pub(crate) mod target;
mod traces;
pub(crate) mod usage;
pub(crate) mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use brindle_lab::job::{Given, Job, JobPlan};
use brindle_lab::report::{DiskStats, Run, Usage, grouped, json, logs, series_csv, series_html, text};
use brindle_lab::run::Outcome;

use crate::base::failure::Failure;
use crate::base::{report, units};
use crate::devices::world;
use crate::flags::cli::{Bench, Format};
use disks::Disks;
pub(crate) use plan::{Here, tell as tell_notes};
use rounds::Measured;
use suites::Suited;
pub(crate) use suites::named_suite;
use target::{On, Opened};
use usage::Meter;

pub(crate) fn bench(args: &mut Bench) -> Result<ExitCode, Failure> {
    plan::take_job_files(args)?;
    let args = &*args;
    if !args.traces.trace.is_empty() || args.traces.trace_set.is_some() {
        return replay(args);
    }
    let (mut plan, mut suited) = match &args.suite {
        None => (plan::plan(args)?, None),
        Some(named) => {
            let suited = suites::suited(args, named)?;
            (suited.loads.plan.clone(), Some(suited))
        }
    };
    let writes = plan.jobs.iter().find(|job| job.access.changes());
    let says = |job: &Job| format!("job '{}' writes", job.name);
    let precondition = args.precondition.then(|| "--precondition writes".to_owned());
    check_word(args, writes.map(says).or(precondition))?;
    let opened = Opened::open(&on(args), writes.is_some() || args.precondition)?;
    let memory = plan::for_requests(args.tuning);
    let fit = |suited: &mut Suited| suited.fit(&mut plan.jobs, &opened.limits(), memory);
    let fitted = suited.as_mut().map_or(Ok(()), fit);
    let (meter, disks) = (Meter::start(), disks(args));
    let measured = fitted.and_then(|()| rounds::measure(&opened, args, &plan.jobs));
    let used = (meter.stop(), disks.since());
    // An array is marked clean whatever became of the jobs.
    opened.close()?;
    let measured = measured?;
    let run = about(args, plan.global.clone(), used);
    tell(args, &plan, suited.as_ref(), &run, &measured)?;
    let failed = measured.outcomes.iter().any(|outcome| outcome.trouble.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The target that the flags name.
fn on(args: &Bench) -> On<'_> {
    On { array: &args.array, device: &args.device, nbd: args.nbd.as_ref(), tuning: args.tuning.into() }
}

/// The disks below what the flags name; of an array that is a member below each of its parts.
fn disks(args: &Bench) -> Disks {
    let named = args.array.iter().chain(&args.device);
    let parts: Vec<PathBuf> =
        named.flat_map(|name| world::parts(name).unwrap_or_else(|| vec![name.clone()])).collect();
    Disks::under(parts.iter().map(PathBuf::as_path))
}

/// Traces in place of jobs.
fn replay(args: &Bench) -> Result<ExitCode, Failure> {
    if !args.options.0.is_empty() {
        let both = "a trace has its own requests: leave out options of jobs";
        return Err(Failure::Usage(both.to_owned()));
    }
    let plan = traces::plan(&args.traces)?;
    let writes = plan.writes();
    let opened_to_write = writes.is_some();
    check_word(args, writes)?;
    let opened = Opened::open(&on(args), opened_to_write)?;
    let (meter, disks) = (Meter::start(), disks(args));
    let measured = plan.measure(&opened, args);
    let used = (meter.stop(), disks.since());
    opened.close()?;
    let measured = measured?;
    let outcomes = measured.outcomes();
    write_series(args, &outcomes)?;
    if args.output_format == Format::Normal {
        report::print(&format!("{}{}", text(&outcomes), measured.text()))?;
    } else {
        let mut all = json(&about(args, Vec::new(), used), &outcomes);
        all["brindle replay"] = measured.json();
        report::print_json(&all)?;
    }
    Ok(if measured.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The parts of a report beside the jobs.
fn about(args: &Bench, global: Vec<Given>, (usage, disks): (Usage, Vec<DiskStats>)) -> Run {
    let now = world::seconds_since_1970();
    Run {
        global,
        time: (now * 1000, units::Moment(now).to_string()),
        usage,
        disks,
        bins: args.output_format == Format::JsonPlus,
    }
}

/// Writes destroy content: they need `--force`.
fn check_word(args: &Bench, writes: Option<String>) -> Result<(), Failure> {
    match writes {
        Some(what) if !args.force => Err(Failure::Usage(format!(
            "{what}, and what stands on the target is lost; give --force if that is meant"
        ))),
        _ => Ok(()),
    }
}

fn tell(
    args: &Bench,
    plan: &JobPlan,
    suited: Option<&Suited>,
    run: &Run,
    measured: &Measured,
) -> Result<(), Failure> {
    let reported = grouped(&measured.outcomes);
    write_logs(&measured.outcomes)?;
    write_series(args, &reported)?;
    if args.output_format == Format::Normal {
        let steady = measured.steady_text();
        let scores = suited.map_or_else(String::new, |suited| suited.text(&reported));
        return report::print(&format!("{}{scores}{steady}", text(&reported)));
    }
    let mut all = json(run, &reported);
    if let Some(steady) = measured.steady_json() {
        all["brindle steady state"] = steady;
    }
    if let Some(suited) = suited {
        all["brindle suite"] = suited.json(&reported);
    }
    if !plan.warnings.is_empty() {
        all["brindle left out"] = plan.warnings.iter().map(ToString::to_string).collect();
    }
    report::print_json(&all)
}

/// The targets, for reports.
fn targets(args: &Bench) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let disk = |path: &PathBuf| fact(&path.display().to_string(), disks::about(path));
    let nbd = args.nbd.iter().map(|uri| fact("export", uri.to_string()));
    args.array.iter().chain(&args.device).map(disk).chain(nbd).collect()
}

/// Writes the course of the run over time, if that is asked for.
fn write_series(args: &Bench, outcomes: &[Outcome]) -> Result<(), Failure> {
    for path in &args.series {
        let text = if path.extension().is_some_and(|ending| ending == "html") {
            series_html("brindle bench: over time", &report::facts(targets(args)), outcomes)
        } else {
            series_csv(outcomes)
        };
        fs::write(path, text).map_err(|source| Failure::output(path.display(), source))?;
    }
    Ok(())
}

/// Where the jobs ask for logs, they go to the current folder, as fio's do.
fn write_logs(outcomes: &[Outcome]) -> Result<(), Failure> {
    for log in logs(outcomes) {
        let path = Path::new(&log.name);
        fs::write(path, log.text).map_err(|source| Failure::output(path.display(), source))?;
    }
    Ok(())
}
