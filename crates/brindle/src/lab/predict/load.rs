//! The expected load on an array, from a job file.

use std::path::Path;

use brindle_lab::drive::Drive;
use brindle_lab::job::{Blocks, Direction, IoPattern, Job, Kinds, parse};
use brindle_planner::Load;

use crate::base::failure::Failure;
use crate::lab::bench::{Here, tell_notes};

/// A load: as the formulas take it, and as the simulator does.
#[derive(Clone, Debug)]
pub(crate) struct AskedLoad {
    pub(crate) file: String,
    pub(crate) load: Load,
    /// The job itself, or one with the load of all of them.
    pub(crate) job: Job,
    /// How many jobs the file has.
    jobs: usize,
}

/// Jobs of a file count as one load, each by its requests in flight.
pub(crate) fn asked(path: &Path) -> Result<AskedLoad, Failure> {
    let file = path.display().to_string();
    let plan = parse(&[&file], false, &Here)?;
    tell_notes(&plan);
    let none = |job: &Job| {
        Failure::Usage(format!("{file}: job '{}' trims: a plan is for reads and writes", job.name))
    };
    if let Some(job) = plan.jobs.iter().find(|job| job.access.has(Direction::Trim)) {
        return Err(none(job));
    }
    let weights: Vec<(f64, &Job)> = plan.jobs.iter().map(|job| (f64::from(in_flight(job)), job)).collect();
    let all: f64 = weights.iter().map(|(weight, _)| weight).sum();
    let mean =
        |of: &dyn Fn(&Job) -> f64| weights.iter().map(|(weight, job)| weight * of(job)).sum::<f64>() / all;
    let reads = mean(&reads);
    let size = |direction: Direction, share: f64| {
        let bytes = mean(&|job| share_of(job, direction) * average(&job.blocks[direction.index()]));
        if share > 0.0 { (bytes / share).round() as u64 } else { 4096 }
    };
    let load = Load {
        reads,
        random: mean(&|job| f64::from(u8::from(job.access.random))) >= 0.5,
        read_size: size(Direction::Read, reads),
        write_size: size(Direction::Write, 1.0 - reads),
        depth: plan.jobs.iter().map(in_flight).fold(0, u32::saturating_add),
    };
    let job = as_one(&plan.jobs, &load);
    Ok(AskedLoad { file, load, job, jobs: plan.jobs.len() })
}

/// The load of a job file, as one job that can be simulated. Says so if the file had more than one.
pub(crate) fn load(path: &Path) -> Result<Job, Failure> {
    let asked = asked(path)?;
    if asked.jobs > 1 {
        eprintln!(
            "brindle: {}: its {} jobs count as one, with as many requests in flight as all of them, whose sizes are averages",
            asked.file, asked.jobs
        );
    }
    Ok(asked.job)
}

/// A drive as a load meets it: places that are drawn soon fill a disk's cache.
pub(crate) fn as_loaded(model: &Drive, job: &Job) -> Drive {
    if job.access.random { model.without_write_cache() } else { model.clone() }
}

fn in_flight(job: &Job) -> u32 {
    job.depth().saturating_mul(job.numjobs).max(1)
}

/// Share of its requests that read.
fn reads(job: &Job) -> f64 {
    match job.access.kinds {
        Kinds::One(Direction::Read) => 1.0,
        Kinds::Mixed => job.reads as f64 / 100.0,
        _ => 0.0,
    }
}

fn share_of(job: &Job, direction: Direction) -> f64 {
    if direction == Direction::Read { reads(job) } else { 1.0 - reads(job) }
}

/// Bytes of a request.
fn average(blocks: &Blocks) -> f64 {
    match blocks {
        Blocks::One(size) => *size as f64,
        Blocks::Range(least, most) => (*least + *most) as f64 / 2.0,
        Blocks::Split(sizes) => {
            let all: u64 = sizes.iter().map(|(_, weight)| weight).sum();
            sizes.iter().map(|(size, weight)| *size as f64 * *weight as f64).sum::<f64>() / all.max(1) as f64
        }
    }
}

/// The load that the simulator runs: the jobs' requests, without their place and duration. For several jobs the sizes
/// are averages.
fn as_one(jobs: &[Job], load: &Load) -> Job {
    if let [job] = jobs {
        return job.load();
    }
    let percent = (load.reads * 100.0).round() as u64;
    let whole = |size: u64| Blocks::One(size.next_multiple_of(4096).max(4096));
    Job {
        name: "all".to_owned(),
        access: IoPattern { kinds: Kinds::of_reads(percent), random: load.random, step: 0 },
        blocks: [whole(load.read_size), whole(load.write_size), Blocks::One(4096)],
        iodepth: load.depth,
        reads: percent,
        norandommap: true,
        ..Job::default()
    }
}
