//! The points of a sweep in virtual time, on all cores.

use brindle_lab::drive::to_toml;
use brindle_lab::points::{Simulating, on_all};
use brindle_lab::predict::{Door, Policies};
use brindle_lab::sweep::{Finished, Point};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::points_file::PointsFile;
use crate::base::failure::Failure;
use crate::base::models::model;
use crate::flags::cli::Sweep;
use crate::lab::predict::{policies, words_of};

/// The parameters that all points have in common: a sweep goes on only with those that it began with.
pub(super) fn head(args: &Sweep, drive: &str) -> Result<Value, Failure> {
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "drive": to_toml(&model(drive)?),
        "as": whose(args)?,
        "cores": args.cores,
    }))
}

/// Runs points on all cores; each is kept as soon as it is finished.
pub(super) fn run(
    args: &Sweep,
    drive: &str,
    open: &[&Point],
    kept: &PointsFile,
    bar: &ProgressBar,
) -> Result<Vec<Finished>, Failure> {
    let policies = policies_of(args)?;
    let simulating = Simulating::new(policies, args.cores, !super::axes(args)?.numjobs.is_empty());
    on_all(open, |point| {
        let finished = simulating.run(point, model(drive)?, || super::shape(point))?;
        kept.keep(&finished)?;
        bar.inc(1);
        Ok(finished)
    })
}

/// The facts of the environment for the report.
pub(super) fn facts(args: &Sweep, drive: &str) -> Result<Vec<(String, String)>, Failure> {
    let drive = model(drive)?;
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Ok(vec![
        fact("world", "simulated: the engine in virtual time"),
        fact("policies", &whose(args)?),
        fact("drive", &drive.name),
        fact("source of the drive's model", &drive.source),
    ])
}

/// How each point is run by itself.
pub(super) fn command(args: &Sweep, drive: &str) -> Result<String, Failure> {
    Ok(format!("brindle simulate --drive {drive} --as {} --cores {}", whose(args)?, args.cores))
}

fn policies_of(args: &Sweep) -> Result<Policies, Failure> {
    policies(args.policies, args.door, args.kernel, args.read_balance)
}

/// The implementation, as flags have it.
fn whose(args: &Sweep) -> Result<String, Failure> {
    Ok(match policies_of(args)? {
        Policies::LinuxMd(kernel) => format!("linux-md --kernel {kernel}"),
        Policies::Brindle(door) if door != Door::default() => format!("brindle --door {}", words_of(door).0),
        Policies::Brindle(_) | Policies::DrivesAlone => "brindle".to_owned(),
    })
}
