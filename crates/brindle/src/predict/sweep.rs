//! `brindle sweep`: all points of a suite, on all cores, kept as they are finished.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use brindle_lab::drive::to_toml;
use brindle_lab::predict::{Beside, PredictError, Spec, predict};
use brindle_lab::sweep::{Axes, Environment, Figures, Finished, Point, csv, html};
use serde_json::{Value, json};

use super::{policies, shape_of};
use crate::bench::named_suite;
use crate::cli::{Balance, Sweep};
use crate::cores;
use crate::failure::Failure;
use crate::models::model;
use crate::report;
use crate::units::Bytes;

pub(crate) fn sweep(args: &Sweep) -> Result<(), Failure> {
    if !args.simulate {
        let why = "this release sweeps in virtual time only: say --simulate, or measure with brindle bench";
        return Err(Failure::Usage(why.to_owned()));
    }
    let points = axes(args)?.points();
    let head = head(args)?;
    fs::create_dir_all(&args.output).map_err(|source| Failure::output(args.output.display(), source))?;
    let kept = args.output.join("points.jsonl");
    let (before, file) = resume(&kept, &head)?;
    let done: BTreeSet<&Point> = before.iter().map(|one| &one.point).collect();
    let open: Vec<&Point> = points.iter().filter(|point| !done.contains(point)).collect();
    let new = run(args, &open, &Mutex::new(file), &kept)?;
    let of = |point: &Point| before.iter().chain(&new).find(|one| one.point == *point).cloned();
    let all: Vec<Finished> = points.iter().filter_map(of).collect();
    write(args, &head, &all)?;
    let refused = all.iter().filter(|one| one.refused.is_some()).count();
    let kept = done.len().min(all.len());
    report::print(&format!(
        "{} points, {kept} of them from before, {refused} that can't be; see report.html, sweep.csv and sweep.json in {}\n",
        all.len(),
        args.output.display()
    ))
}

/// The suite's axes, and what flags say instead.
fn axes(args: &Sweep) -> Result<Axes, Failure> {
    let base = match &args.suite {
        None => Axes::default(),
        Some(named) => named_suite(named)?.1.axes().ok_or_else(|| {
            let why = "has jobs and no axes: brindle bench --suite measures it";
            Failure::Usage(format!("{named}: {why}"))
        })?,
    };
    Ok(base.under(Axes {
        about: String::new(),
        level: args.level.clone(),
        layout: args.layout.clone(),
        chunk: args.chunk.clone(),
        members: args.members.clone(),
        bs: args.bs.clone(),
        rw: args.rw.clone(),
        rwmixread: args.rwmixread.clone(),
        iodepth: args.iodepth.clone(),
        numjobs: args.numjobs.clone(),
    }))
}

/// What all points have in common: a sweep goes on only with what it began with.
fn head(args: &Sweep) -> Result<Value, Failure> {
    let whose = format!("{:?}, {:?}", args.policies, args.read_balance);
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "drive": to_toml(&model(&args.drive)?),
        "as": whose,
        "cores": args.cores,
    }))
}

/// What is finished already, and the file to which the rest goes. Half a line at the end was being written when the sweep was
/// interrupted: its point is run again.
fn resume(path: &Path, head: &Value) -> Result<(Vec<Finished>, File), Failure> {
    let failed = |source| Failure::output(path.display(), source);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    let mut finished = Vec::new();
    let mut whole = 0;
    let mut lines = BufReader::new(&file);
    let mut line = String::new();
    while lines.read_line(&mut line).map_err(failed)? > 0 && line.ends_with('\n') {
        let number = finished.len() + 1;
        if whole == 0 {
            if serde_json::from_str::<Value>(&line).ok().as_ref() != Some(head) {
                let why = "holds another sweep (drive, policies or version differ); name another folder";
                return Err(Failure::Usage(format!("{}: {why}", path.display())));
            }
        } else {
            let read = serde_json::from_str(&line);
            finished.push(read.map_err(|why| Failure::Usage(format!("{}:{number}: {why}", path.display())))?);
        }
        whole += line.len() as u64;
        line.clear();
    }
    file.set_len(whole).map_err(failed)?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(failed)?;
    if whole == 0 {
        writeln!(file, "{head}").map_err(failed)?;
    }
    Ok((finished, file))
}

/// Runs points on all cores; each is kept as soon as it is finished.
fn run(args: &Sweep, open: &[&Point], file: &Mutex<File>, path: &Path) -> Result<Vec<Finished>, Failure> {
    let beside = Beside::default();
    cores::on_all(open, |point| {
        let finished = one(args, point, &beside)?;
        let text = serde_json::to_string(&finished).map_err(|why| Failure::output("a point", why.into()))?;
        let failed = |source| Failure::output(path.display(), source);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{text}\n").as_bytes()).map_err(failed)?;
        Ok(finished)
    })
}

/// Words that mean nothing end the sweep; an array that can't be is a point without figures.
fn one(args: &Sweep, point: &Point, beside: &Beside) -> Result<Finished, Failure> {
    let members = point
        .members
        .parse()
        .map_err(|_| Failure::Usage(format!("--members {}: no count", point.members)))?;
    let chunk = Bytes::parse_kib(&point.chunk).map_err(Failure::Usage)?;
    let layout = Some(point.layout.as_str()).filter(|layout| !layout.is_empty());
    let spec = Spec {
        drive: model(&args.drive)?,
        shape: shape_of(&point.level, layout, chunk, members)?,
        policies: policies(args.policies, args.read_balance),
        cores: args.cores,
        job: brindle_lab::predict::job(&point.words())?,
    };
    let figures = match predict(&spec) {
        Ok(predicted) => Ok(Figures::of(&predicted, beside.jbod(&spec)?, beside.limit(&spec)?)),
        Err(why @ (PredictError::Geometry(_) | PredictError::Run(_))) => Err(why.to_string()),
        Err(why) => return Err(why.into()),
    };
    let (figures, refused) = match figures {
        Ok(figures) => (Some(figures), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Finished { point: point.clone(), figures, refused })
}

fn write(args: &Sweep, head: &Value, all: &[Finished]) -> Result<(), Failure> {
    let drive = model(&args.drive)?;
    let proc = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpu = proc("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches([':', '\t', ' ']);
    let fact = |name: &str, value: &str| (name.to_owned(), value.trim().to_owned());
    let whose = if args.policies == crate::cli::Whose::Brindle { "brindle" } else { "linux-md" };
    let environment = Environment {
        title: format!("Sweep of {}", drive.name),
        facts: vec![
            fact("program", concat!("brindle ", env!("CARGO_PKG_VERSION"))),
            fact("world", "simulated: the engine in virtual time"),
            fact("policies", whose),
            fact("drive", &drive.name),
            fact("source of the drive's model", &drive.source),
            fact("kernel", &proc("/proc/sys/kernel/osrelease")),
            fact("processor", cpu),
        ],
        command: format!(
            "brindle simulate --drive {} --as {whose} --read-balance {} --cores {}",
            args.drive,
            if args.read_balance == Balance::Nearest { "nearest" } else { "least-pending" },
            args.cores
        ),
    };
    let json = serde_json::to_string_pretty(&json!({"sweep": head, "points": all}));
    let json = json.map_err(|why| Failure::output("sweep.json", why.into()))?;
    for (name, text) in
        [("sweep.json", json), ("sweep.csv", csv(all)), ("report.html", html(&environment, all))]
    {
        let path = args.output.join(name);
        fs::write(&path, text).map_err(|source| Failure::output(path.display(), source))?;
    }
    Ok(())
}
