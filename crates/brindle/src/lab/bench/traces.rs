//! `brindle bench --trace`: requests that other programs recorded, replayed on a target.

use core::fmt::Write;
use core::time::Duration;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_lab::job::{Blocks, Direction, Given, IoPattern, Job, Kinds};
use brindle_lab::measure::Latency;
use brindle_lab::run::{Live, Outcome, Replayed, Terms, index, replay};
use brindle_lab::trace::{
    Format as Written, Pacing, Survey, TraceEntry, TraceError, columns, entries, msr, paced, recognised, set,
    survey,
};
use brindle_volume::Volume;
use serde_json::{Value, json};

use super::plan::for_requests;
use super::rounds::chance;
use super::target::Opened;
use super::watch::{StopSignal, spinner, watch};
use crate::base::failure::Failure;
use crate::flags::cli::{Bench, TraceFormat, Traces};

/// A trace that is to be replayed.
struct AskedTrace {
    path: PathBuf,
    written: Written,
    weight: f64,
    survey: Survey,
}

/// The results of the traces.
pub(super) struct Measured {
    asked: Vec<AskedTrace>,
    replayed: Vec<Replayed>,
}

/// The traces that were asked for, each looked through once.
pub(super) struct TracePlan(Vec<AskedTrace>);

/// The traces, and their requests.
pub(super) fn plan(args: &Traces) -> Result<TracePlan, Failure> {
    let map = args.trace_columns.as_deref();
    let mut all = Vec::new();
    for path in &args.trace {
        all.push(asked(path, map, 1.0, args)?);
    }
    if let Some(file) = &args.trace_set {
        let beside = file.parent().unwrap_or(Path::new(""));
        for one in set(&file.display().to_string(), &text(file)?)?.trace {
            let own = one.columns.map(|map| beside.join(map));
            all.push(asked(&beside.join(one.file), own.as_deref().or(map), one.weight, args)?);
        }
    }
    Ok(TracePlan(all))
}

fn text(path: &Path) -> Result<String, Failure> {
    crate::base::text::read(path)
        .map_err(|source| Failure::system(format!("{}: can't be read", path.display()), source))
}

fn asked(path: &Path, map: Option<&Path>, weight: f64, args: &Traces) -> Result<AskedTrace, Failure> {
    let named = path.display().to_string();
    let written = match (map, args.trace_format) {
        (Some(map), _) => Written::Csv(columns(&map.display().to_string(), &text(map)?)?),
        (None, TraceFormat::Iolog) => Written::Iolog,
        (None, TraceFormat::Blktrace) => Written::Blktrace,
        (None, TraceFormat::Blkparse) => Written::Blkparse,
        (None, TraceFormat::Msr) => Written::Csv(msr()),
        (None, TraceFormat::Auto) => {
            let mut file = opened(path)?;
            let start = file
                .fill_buf()
                .map_err(|source| Failure::system(format!("{named}: can't be read"), source))?;
            recognised(start).ok_or_else(|| {
                let why = "no trace that is known by its beginning: give --trace-format, or what its columns \
                           mean with --trace-columns";
                Failure::Refused(format!("{named}: {why}"))
            })?
        }
    };
    let survey = survey(&named, read(path, &written)?)?;
    Ok(AskedTrace { path: path.to_owned(), written, weight, survey })
}

fn opened(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path)
        .map_err(|source| Failure::system(format!("{}: can't be read", path.display()), source))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn read(
    path: &Path,
    written: &Written,
) -> Result<impl Iterator<Item = Result<TraceEntry, TraceError>> + use<>, Failure> {
    Ok(entries(&path.display().to_string(), written.clone(), opened(path)?))
}

impl TracePlan {
    /// The first trace that writes, which needs `--force`.
    pub(super) fn writes(&self) -> Option<String> {
        let first = self.0.iter().find(|asked| asked.survey.changes())?;
        Some(format!("trace {} writes", first.path.display()))
    }

    /// Replays the traces one after the other.
    pub(super) fn measure(self, opened: &Opened, args: &Bench) -> Result<Measured, Failure> {
        let [target] = &opened.targets[..] else {
            return Err(Failure::Usage("a trace is replayed on one target: name one device".to_owned()));
        };
        let size = target.limits().size;
        let beyond = self.0.iter().find(|asked| asked.survey.end > size && !args.traces.wrap);
        if let Some(AskedTrace { path, survey, .. }) = beyond {
            return Err(Failure::Refused(format!(
                "{}: goes up to byte {}, and the target has {size}: give --wrap to have what lies beyond go to the \
                 target's beginning",
                path.display(),
                survey.end
            )));
        }
        let signal = StopSignal::new()?;
        let mut replayed = Vec::new();
        for asked in &self.0 {
            let one = once(opened, args, asked, &signal)?;
            let Some(mut one) = one.filter(|_| !signal.is_asked()) else { break };
            one.outcome.group = replayed.len() as u32;
            replayed.push(one);
        }
        Ok(Measured { asked: self.0, replayed })
    }
}

fn once(
    opened: &Opened,
    args: &Bench,
    asked: &AskedTrace,
    signal: &StopSignal,
) -> Result<Option<Replayed>, Failure> {
    let (io, traces) = (opened.io(), &args.traces);
    let terms = Terms::new(chance()?, for_requests(args.tuning));
    let pacing = Pacing {
        full_speed: traces.full_speed,
        scale: traces.time_scale,
        max_idle: traces.max_idle.map(|span| Duration::from_millis(span.0)),
    };
    let due = paced(pacing, read(&asked.path, &asked.written)?);
    let live = Rc::new(Live::default());
    let job = job(asked, traces.trace_depth);
    let replaying = replay(io, &opened.targets[0], job, terms, traces.wrap, due, &live);
    match io.block_on(race(replaying, watch(io, &live, signal, &spinner()))) {
        Either::First(replayed) => Ok(Some(replayed?)),
        Either::Second(()) => Ok(None),
    }
}

/// The job that stands for a trace in reports.
fn job(asked: &AskedTrace, depth: u32) -> Job {
    let stem = asked.path.file_stem().unwrap_or_default().to_string_lossy();
    let kinds = match asked.survey.requests {
        [_, 0, 0] => Kinds::One(Direction::Read),
        [0, _, 0] => Kinds::One(Direction::Write),
        [0, 0, _] => Kinds::One(Direction::Trim),
        _ => Kinds::Mixed,
    };
    let largest = asked.survey.largest.max(512);
    Job {
        name: stem.into_owned(),
        given: vec![Given { name: "read_iolog".to_owned(), value: asked.path.display().to_string() }],
        access: IoPattern { kinds, random: true, step: 0 },
        blocks: core::array::from_fn(|_| Blocks::Range(512, largest)),
        iodepth: depth,
        ..Job::default()
    }
}

impl Measured {
    /// Outcomes in the form of those of jobs.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        self.replayed.iter().map(|one| one.outcome.clone()).collect()
    }

    /// Whether all was replayed to its end.
    pub(super) fn is_whole(&self) -> bool {
        let whole = |one: &Replayed| one.outcome.trouble.is_none() && one.broken.is_none();
        self.replayed.len() == self.asked.len() && self.replayed.iter().all(whole)
    }

    fn index(&self) -> Option<(f64, f64)> {
        let weights: Vec<f64> = self.asked.iter().map(|asked| asked.weight).collect();
        index(&self.outcomes(), &weights).filter(|_| self.is_whole() && weights.len() > 1)
    }

    /// The part of the text report that is about traces.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (asked, one) in self.asked.iter().zip(&self.replayed) {
            let micros = |late: &Latency| (late.mean() / 1000.0, late.max() as f64 / 1000.0);
            let ((mean, most), survey) = (micros(&one.late), &asked.survey);
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "{}: {:.3} s long, {:.3} s of it idle; sent late by {mean:.1} us on average, {most:.1} us at most; {} moved, {} widened",
                asked.path.display(),
                survey.span as f64 / 1e9,
                survey.idle as f64 / 1e9,
                one.moved,
                one.widened,
            );
            if let Some(broken) = &one.broken {
                let _ = writeln!(text, "  ended by: {broken}");
            }
        }
        if let Some((micros, rate)) = self.index() {
            let _ = writeln!(text, "index: {micros:.1} us, {rate:.2} MiB/s");
        }
        text
    }

    /// The replay's figures as JSON.
    pub(super) fn json(&self) -> Value {
        let one = |(asked, one): (&AskedTrace, &Replayed)| {
            json!({
                "file": asked.path.display().to_string(),
                "weight": asked.weight,
                "span_ns": asked.survey.span,
                "idle_ns": asked.survey.idle,
                "requests": asked.survey.requests.iter().sum::<u64>(),
                "flushes": asked.survey.flushes,
                "late_ns": { "mean": one.late.mean(), "p99": one.late.percentile(99.0), "max": one.late.max() },
                "moved": one.moved,
                "widened": one.widened,
                "ended_by": one.broken.as_ref().map(ToString::to_string),
            })
        };
        let index = self.index().map(|(micros, rate)| json!({ "mean_us": micros, "mb_s": rate }));
        json!({
            "traces": self.asked.iter().zip(&self.replayed).map(one).collect::<Vec<_>>(),
            "index": index,
        })
    }
}
