//! `brindle sweep`: all points of a suite, simulated or measured, kept as they are finished.

mod measured;
mod points_file;
mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::ExitCode;

use brindle_lab::points::FILE;
use brindle_lab::predict::Shape;
use brindle_lab::sweep::{Axes, Environment, Finished, Point, csv, html};
use serde_json::{Value, json};

use crate::base::exit_status::NO_POINT;
use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{progress, report};
use crate::flags::cli::Sweep;
use crate::lab::bench::named_suite;
use crate::lab::predict::shape_of;
use points_file::PointsFile;

/// The most reasons for impossible points that are printed; the report has all.
const REASONS: usize = 5;

pub(crate) fn sweep(args: &Sweep) -> Result<ExitCode, Failure> {
    let points = axes(args)?.points();
    let world = match &args.drive {
        Some(drive) if args.simulate => Runner::Simulated(drive),
        _ => Runner::Measured,
    };
    let head = match world {
        Runner::Simulated(drive) => simulated::head(args, drive)?,
        Runner::Measured => measured::head(args, &points)?,
    };
    fs::create_dir_all(&args.output).map_err(|source| Failure::output(args.output.display(), source))?;
    let kept = PointsFile::open(&args.output.join("points.jsonl"), head)?;
    let done: BTreeSet<&Point> = kept.before.iter().map(|one| &one.point).collect();
    let open: Vec<&Point> = points.iter().filter(|point| !done.contains(point)).collect();
    let bar = progress::steps("points", open.len() as u64);
    let new = match world {
        Runner::Simulated(drive) => simulated::run(args, drive, &open, &kept, &bar),
        Runner::Measured => measured::run(args, &open, &kept, &bar),
    };
    bar.finish_and_clear();
    let new = new?;
    let of = |point: &Point| kept.before.iter().chain(&new).find(|one| one.point == *point).cloned();
    let all: Vec<Finished> = points.iter().filter_map(of).collect();
    let environment = match world {
        Runner::Simulated(drive) => Environment {
            title: format!("Sweep of {drive}"),
            facts: report::facts(simulated::facts(args, drive)?),
            command: simulated::command(args, drive)?,
        },
        Runner::Measured => Environment {
            title: format!("Sweep of {} members", args.destroy.len()),
            facts: report::facts(measured::facts(args)),
            command: measured::command(args),
        },
    };
    write(args, &environment, &kept.head, &all)?;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in all.iter().filter_map(|one| one.refused.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let (before, refused) = (all.len() - new.len(), reasons.values().sum::<usize>());
    let mut text = format!(
        "{} points, {before} of them from before, {refused} that can't be; see report.html, sweep.csv and sweep.json in {}\n",
        all.len(),
        args.output.display()
    );
    text.extend(
        reasons.iter().take(REASONS).map(|(reason, count)| format!("  {count} can't be: {reason}\n")),
    );
    if reasons.len() > REASONS {
        text.push_str("  the others' reasons are in the report\n");
    }
    report::print(&text)?;
    let left = points.len() - all.len();
    if left == 0 {
        // If no point was run, there is nothing to report.
        return Ok(if refused == all.len() { ExitCode::from(NO_POINT) } else { ExitCode::SUCCESS });
    }
    Err(Failure::Refused(format!(
        "interrupted: {left} points are left, and the same command goes on with them"
    )))
}

/// Where points are run.
#[derive(Clone, Copy)]
enum Runner<'a> {
    /// On drives of a model.
    Simulated(&'a str),
    /// On members that the user gives up.
    Measured,
}

/// The suite's axes, as overridden by flags.
fn axes(args: &Sweep) -> Result<Axes, Failure> {
    let base = match &args.suite {
        None => Axes::default(),
        Some(named) => named_suite(named)?.1.axes().ok_or_else(|| {
            let why = "has jobs and no axes: brindle bench --suite measures it";
            Failure::Usage(format!("{named}: {why}"))
        })?,
    };
    let mut axes = base.under(Axes {
        about: String::new(),
        level: args.level.clone(),
        layout: args.layout.clone(),
        chunk: args.chunk.clone(),
        members: args.members.clone(),
        bs: args.bs.clone(),
        rw: args.rw.clone(),
        rwmixread: args.rwmixread.clone(),
        random_distribution: args.random_distribution.clone(),
        iodepth: args.iodepth.clone(),
        numjobs: args.numjobs.clone(),
    });
    if args.file.is_some() {
        axes.level.push(FILE.to_owned());
    }
    if !args.destroy.is_empty() && args.members.is_empty() {
        let named = args.destroy.len();
        let too_many = |count: &String| count.parse::<usize>().is_ok_and(|count| count > named);
        let left_out: Vec<String> = axes.members.extract_if(.., |count| too_many(count)).collect();
        if !left_out.is_empty() {
            eprintln!(
                "brindle: --destroy names {named}: the suite's --members {} are left out",
                left_out.join(",")
            );
        }
        if axes.members.is_empty() {
            axes.members = vec![named.to_string()];
        }
    }
    Ok(axes)
}

/// The array of a point; none is one drive by itself.
fn shape(point: &Point) -> Result<Option<Shape>, Failure> {
    let members = point
        .members
        .parse()
        .map_err(|_| Failure::Usage(format!("--members {}: write a number, as in 4", point.members)))?;
    let chunk = Bytes::parse_kib(&point.chunk).map_err(Failure::Usage)?;
    let layout = Some(point.layout.as_str()).filter(|layout| !layout.is_empty());
    shape_of(&point.level, layout, chunk, members)
}

fn write(args: &Sweep, environment: &Environment, head: &Value, all: &[Finished]) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(&json!({"sweep": head, "points": all}));
    let json = json.map_err(|why| Failure::output("sweep.json", why.into()))?;
    for (name, text) in
        [("sweep.json", json), ("sweep.csv", csv(all)), ("report.html", html(environment, all))]
    {
        let path = args.output.join(name);
        fs::write(&path, text).map_err(|source| Failure::output(path.display(), source))?;
    }
    Ok(())
}
