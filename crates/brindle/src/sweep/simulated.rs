//! The points of a sweep in virtual time, on all cores.

use brindle_lab::drive::to_toml;
use brindle_lab::predict::{Beside, PredictError, Spec, predict};
use brindle_lab::sweep::{Aside, Figures, Finished, Point};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::kept::PointsFile;
use super::nested::Nested;
use crate::cli::{Balance, Sweep, Whose};
use crate::cores;
use crate::failure::Failure;
use crate::models::model;
use crate::predict::policies;

/// The parameters that all points have in common: a sweep goes on only with those that it began with.
pub(super) fn head(args: &Sweep, drive: &str) -> Result<Value, Failure> {
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "drive": to_toml(&model(drive)?),
        "as": format!("{:?}, {:?}", args.policies, args.read_balance),
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
    let beside = Beside::default();
    cores::on_all(open, |point| {
        let finished = one(args, drive, point, &beside)?;
        kept.keep(&finished)?;
        bar.inc(1);
        Ok(finished)
    })
}

/// Words that mean nothing end the sweep; an array that can't be is a point without figures.
fn one(args: &Sweep, drive: &str, point: &Point, beside: &Beside) -> Result<Finished, Failure> {
    if let Some(nested) = Nested::of(point)? {
        let why =
            nested.err().unwrap_or_else(|| "an array of arrays can be measured only: --destroy".to_owned());
        return Ok(Finished { point: point.clone(), figures: None, refused: Some(why) });
    }
    let spec = Spec {
        drive: model(drive)?,
        shape: super::shape(point)?,
        policies: policies(args.policies, args.read_balance),
        cores: args.cores,
        job: brindle_lab::predict::job(&point.words())?,
    };
    let (figures, refused) = match predict(&spec) {
        Ok(predicted) => {
            let aside = Aside {
                utilisation: Some(f64::from(predicted.busy.iter().copied().max().unwrap_or(0)) / 1000.0),
                cpu_share: f64::from(predicted.processor) / 1000.0,
                jbod: beside.jbod(&spec)?,
                limit: beside.limit(&spec)?,
                digest: format!("{:016x}", predicted.digest),
            };
            (Some(Figures::of(&predicted.outcome.mixed(), aside)), None)
        }
        Err(why @ (PredictError::Geometry(_) | PredictError::Run(_))) => (None, Some(why.to_string())),
        Err(why) => return Err(why.into()),
    };
    Ok(Finished { point: point.clone(), figures, refused })
}

/// The facts of the environment for the report.
pub(super) fn facts(args: &Sweep, drive: &str) -> Result<Vec<(String, String)>, Failure> {
    let drive = model(drive)?;
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Ok(vec![
        fact("world", "simulated: the engine in virtual time"),
        fact("policies", whose(args)),
        fact("drive", &drive.name),
        fact("source of the drive's model", &drive.source),
    ])
}

/// How each point is run by itself.
pub(super) fn command(args: &Sweep, drive: &str) -> String {
    let balance = if args.read_balance == Balance::Nearest { "nearest" } else { "least-pending" };
    let (whose, cores) = (whose(args), args.cores);
    format!("brindle simulate --drive {drive} --as {whose} --read-balance {balance} --cores {cores}")
}

fn whose(args: &Sweep) -> &'static str {
    if args.policies == Whose::Brindle { "brindle" } else { "linux-md" }
}
