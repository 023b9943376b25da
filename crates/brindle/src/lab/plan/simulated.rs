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

/// Bytes of a drive above which mdadm and `create` make a bitmap by themselves.
const LARGE: u64 = 100 << 30;

/// Settings of the arrays that are simulated.
#[derive(Clone, Copy)]
pub(super) struct ArraySettings {
    pub(super) chunk: Option<Bytes>,
    /// Bytes to a bit of a bitmap, of arrays that are redundant.
    pub(super) bitmap: Option<Bytes>,
}

/// Fills in simulated figures, and the reason where there are none.
pub(super) fn fill(
    rows: &mut [Row],
    kinds: &[Kind],
    asked: Option<&AskedLoad>,
    set: ArraySettings,
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
    let chunk = set.chunk.map_or(USUAL_CHUNK, |chunk| chunk.0);
    let bitmap = set.bitmap.map(|bitmap| bitmap.0);
    let parts: Vec<Part> = open.iter().map(|place| rows[*place].configuration.parts[0]).collect();
    // A model can't be shared by threads, its text can.
    let text = to_toml(model);
    let bar = progress::steps("simulating", parts.len() as u64);
    let found = on_all(&parts, |part| {
        let speed = speed(part, &parse("the model", &text)?, (chunk, bitmap), asked)?;
        bar.inc(1);
        Ok::<_, Failure>(speed)
    })?;
    bar.finish_and_clear();
    let left: Vec<f64> = found.iter().filter_map(|(_, left)| *left).collect();
    for (place, (speed, _)) in open.iter().zip(found) {
        let figures = &mut rows[*place].figures;
        figures.formulas = Some(figures.speed);
        figures.speed = speed;
    }
    let mut notes = vec![format!(
        "formulas differ by: what the engine does in the simulator, in per cent of what formulas say, less 100, of random reads, \
         random writes, {}sequential reads and writes",
        if asked.is_some() { "the load, " } else { "" }
    )];
    let is_usual = model.size > LARGE && parts.iter().any(|part| part.scheme.tolerance(part.width) > 0);
    notes.extend(of_bitmap(model, (bitmap, is_usual), &left));
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

/// A note on the random writes that a bitmap leaves, or on the cost that one would have that is usual.
fn of_bitmap(model: &Drive, (bitmap, is_usual): (Option<u64>, bool), left: &[f64]) -> Option<String> {
    let waits = model.stations.volatile_flush().map(|flush| {
        let (name, flush) = (&model.name, flush as f64 / 1e6);
        format!(
            "each random write that finds its bit clear waits until {name} drives have it on flash, {flush:.1} ms"
        )
    });
    let Some(bitmap) = bitmap else {
        let waits = waits.filter(|_| is_usual)?;
        return Some(format!(
            "no bitmap is simulated, which mdadm and create make for members of more than 100 GiB: {waits}; see --bitmap-chunk 64M and 2G"
        ));
    };
    let least = left.iter().copied().reduce(f64::min)? * 100.0;
    let most = left.iter().copied().reduce(f64::max)? * 100.0;
    let share = match (format!("{least:.0}"), format!("{most:.0}")) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    };
    // Writes that are many at a time share the wait; one at a time has it for itself.
    let waits = waits.map_or_else(String::new, |waits| {
        format!(
            "; few at a time lose more: {waits}; a larger --bitmap-chunk may avoid it, and drives that keep their cache do"
        )
    });
    Some(format!(
        "a bitmap with a bit for each {} leaves {share} % of random writes, {DEPTH} in flight for each drive{waits}",
        Bytes(bitmap)
    ))
}

/// Figures of a part, and the share of random writes that a bitmap leaves, if it has one.
fn speed(
    part: &Part,
    model: &Drive,
    (chunk, bitmap): (u64, Option<u64>),
    asked: Option<&AskedLoad>,
) -> Result<(Speed, Option<f64>), Failure> {
    let groups = f64::from(part.groups);
    let depth = (DEPTH * part.width).min(DEEPEST).to_string();
    let streams = (2 * part.width).max(8).to_string();
    let run_with = |bitmap, rw: &str, bs: &str, depth: &str| -> Result<Tally, Failure> {
        with_bitmap(part, model, (chunk, bitmap), job(&[("rw", rw), ("bs", bs), ("iodepth", depth)])?)
    };
    let bitmap = bitmap.filter(|_| shape(part, chunk).level.is_redundant());
    let run = |rw: &str, bs: &str, depth: &str| run_with(bitmap, rw, bs, depth);
    let load_iops = match asked {
        Some(asked) => {
            let job = shared(&asked.job, part.groups);
            Some(with_bitmap(part, model, (chunk, bitmap), job)?.iops() * groups)
        }
        None => None,
    };
    let write_iops = run("randwrite", "4k", &depth)?.iops();
    let left = match bitmap {
        Some(_) => Some(write_iops / run_with(None, "randwrite", "4k", &depth)?.iops().max(1e-9)),
        None => None,
    };
    let speed = Speed {
        read_iops: run("randread", "4k", &depth)?.iops() * groups,
        write_iops: write_iops * groups,
        read_rate: Some(run("read", "1m", &streams)?.bandwidth() * groups),
        write_rate: Some(run("write", "1m", &streams)?.bandwidth() * groups),
        load_iops,
    };
    Ok((speed, left))
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
    with_bitmap(part, model, (chunk, None), job)
}

fn with_bitmap(
    part: &Part,
    model: &Drive,
    (chunk, bitmap): (u64, Option<u64>),
    job: Job,
) -> Result<Tally, Failure> {
    let drive = as_loaded(model, &job).of_groups(part.groups);
    let spec = Spec {
        drive,
        shape: Some(Shape { bitmap, ..shape(part, chunk) }),
        policies: Policies::DrivesAlone,
        cores: 1,
        by_job: false,
        job,
    };
    Ok(predict(&spec)?.outcome.mixed())
}

/// One group of a part.
pub(super) fn shape(part: &Part, chunk: u64) -> Shape {
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
