//! Figures from the engine on modelled drives in place of formulas.

use brindle_lab::drive::{Drive, parse, to_toml};
use brindle_lab::job::Job;
use brindle_lab::measure::Tally;
use brindle_lab::points::on_all;
use brindle_lab::predict::{Policies, Shape, Spec, job, predict};
use brindle_layout::{Layout, Level};
use brindle_planner::{Part, Scheme, Speed};

use super::drives::Kind;
use super::{Row, USUAL_CHUNK};
use crate::base::failure::Failure;
use crate::base::progress;
use crate::base::units::Bytes;
use crate::lab::predict::load::{AskedLoad, as_loaded};

/// Most configurations that are simulated for one plan.
const MOST: usize = 128;
/// Requests in flight for each drive, and most of all: what random figures are taken with.
const DEPTH: u32 = 32;
const DEEPEST: u32 = 1024;

/// Fills in simulated figures, and the reason where there are none.
pub(super) fn fill(
    rows: &mut [Row],
    kinds: &[Kind],
    asked: Option<&AskedLoad>,
    chunk: Option<Bytes>,
) -> Result<Vec<String>, Failure> {
    let [kind] = kinds else {
        return Err(Failure::Usage("--simulate takes drives that are alike: leave out --and".to_owned()));
    };
    let model = kind.known.model.as_ref().ok_or_else(|| {
        Failure::Usage(
            "--simulate needs the drives' bandwidth too: give --mb-s, or name a model with --drive"
                .to_owned(),
        )
    })?;
    let open: Vec<usize> = (0..rows.len()).filter(|place| rows[*place].figures.is_of_md).collect();
    if open.len() > MOST {
        return Err(Failure::Usage(format!(
            "{} configurations are to be simulated, more than the {MOST} that one plan simulates: narrow it with --drives or --levels",
            open.len()
        )));
    }
    let chunk = chunk.map_or(USUAL_CHUNK, |chunk| chunk.0);
    let parts: Vec<Part> = open.iter().map(|place| rows[*place].configuration.parts[0]).collect();
    // A model can't be shared by threads, its text can.
    let text = to_toml(model);
    let bar = progress::steps("simulating", parts.len() as u64);
    let found = on_all(&parts, |part| {
        let speed = speed(part, &parse("the model", &text)?, chunk, asked)?;
        bar.inc(1);
        Ok::<_, Failure>(speed)
    })?;
    bar.finish_and_clear();
    for (place, speed) in open.iter().zip(found) {
        let figures = &mut rows[*place].figures;
        figures.formulas = Some(figures.speed);
        figures.speed = speed;
    }
    let mut notes = vec![format!(
        "formulas differ by: what the engine does in the simulator, in per cent of what formulas say, less 100, of random reads, \
         random writes, {}sequential reads and writes",
        if asked.is_some() { "the load, " } else { "" }
    )];
    if open.len() < rows.len() {
        notes.push("figures of RAID-Z are those of formulas: no pool is simulated".to_owned());
    }
    if parts.iter().any(|part| part.groups > 1) {
        notes.push(
            "of a stripe of groups one group was simulated, at its share of the requests in flight"
                .to_owned(),
        );
    }
    Ok(notes)
}

fn speed(part: &Part, model: &Drive, chunk: u64, asked: Option<&AskedLoad>) -> Result<Speed, Failure> {
    let groups = f64::from(part.groups);
    let depth = (DEPTH * part.width).min(DEEPEST).to_string();
    let streams = (2 * part.width).max(8).to_string();
    let run = |rw: &str, bs: &str, depth: &str| -> Result<Tally, Failure> {
        one(part, model, chunk, job(&[("rw", rw), ("bs", bs), ("iodepth", depth)])?)
    };
    let load_iops = match asked {
        Some(asked) => Some(one(part, model, chunk, shared(&asked.job, part.groups))?.iops() * groups),
        None => None,
    };
    Ok(Speed {
        read_iops: run("randread", "4k", &depth)?.iops() * groups,
        write_iops: run("randwrite", "4k", &depth)?.iops() * groups,
        read_rate: Some(run("read", "1m", &streams)?.bandwidth() * groups),
        write_rate: Some(run("write", "1m", &streams)?.bandwidth() * groups),
        load_iops,
    })
}

/// The share of the load that one group of several gets.
pub(super) fn shared(job: &Job, groups: u32) -> Job {
    let all = job.iodepth.saturating_mul(job.numjobs);
    if groups == 1 || job.one_at_a_time {
        return job.clone();
    }
    Job { iodepth: all.div_ceil(groups), numjobs: 1, ..job.clone() }
}

/// One group of a part under a load.
pub(super) fn one(part: &Part, model: &Drive, chunk: u64, job: Job) -> Result<Tally, Failure> {
    let drive = as_loaded(model, &job).of_groups(part.groups);
    let spec = Spec {
        drive,
        shape: Some(shape(part, chunk)),
        policies: Policies::DrivesAlone,
        cores: 1,
        by_job: false,
        job,
    };
    Ok(predict(&spec)?.outcome.mixed())
}

fn shape(part: &Part, chunk: u64) -> Shape {
    let (level, layout) = match part.scheme {
        Scheme::Stripe => (Level::Raid0, None),
        Scheme::Mirror => (Level::Raid1, None),
        Scheme::Raid10(layout) => (Level::Raid10, Some(Layout::Raid10(layout))),
        Scheme::DedicatedParity => (Level::Raid4, None),
        Scheme::Parity(1) | Scheme::RaidZ(_) => (Level::Raid5, None),
        Scheme::Parity(_) => (Level::Raid6, None),
    };
    let layout = layout.unwrap_or_else(|| Layout::default_for(level));
    Shape { level, layout, chunk, members: part.width as u16, bitmap: None }
}
