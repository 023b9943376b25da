//! Predictions for an array of modelled drives: the engine itself runs in virtual time.

mod baselines;
mod costs;
mod door;
mod kernel;
mod least_io;
mod member_bytes;
mod needed;
mod processor_cost;
mod rows;
mod settling;
mod spec;
mod stage;
mod stripes;
mod with_bitmap;

use brindle_array::ReadPolicy;
use brindle_io::Duration;
use brindle_layout::{Geometry, GeometryError};

pub use baselines::{Beside, Counted};
pub use door::Door;
pub use kernel::{Kernel, NoKernel};
pub use member_bytes::{MemberBytes, Trial, member_bytes};
pub use needed::{Group, Requests, cores};
pub use rows::{Compared, compare};
pub use settling::predict_long;
pub use spec::{Policies, PredictError, Shape, Spec, job};

use crate::drive::Drive;
use crate::job::{Direction, Job};
use crate::run::Outcome;
use stage::Stage;

/// The seed of all predictions, so that equal questions get equal answers.
const SEED: u64 = 0x0062_7269_6e64_6c65;
/// Counted requests for each that is in flight, within bounds on their total.
const ROUNDS: u64 = 12;
const FEWEST: u64 = 2000;
/// Bytes that are moved are enough at this, whatever their number, down to [`LEAST`] requests.
const BYTES: u64 = 4 << 30;
const LEAST: u64 = 24;
/// Requests that are spent on caches at most.
const MOST_FILLING: u64 = 1 << 17;
/// Thousandths of its time from which on a core is taken to be the limit.
const WHOLE: u32 = 970;
/// Steps of the counted time, for the course over time.
const STEPS: u32 = 50;

/// The result of a prediction.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// All copies of the job as one.
    pub outcome: Outcome,
    /// Indexed by member: thousandths of the time in which its shared station, or head, was at work.
    pub busy: Vec<u32>,
    /// Thousandths of the processors' time that the engine, or md, took; of md at least what holds its locks.
    pub processor: u32,
    /// Thousandths of its time that the processor took which was at work for longest.
    pub busiest: u32,
    /// The drives would carry so many times the rate that the cores do. None where no core is the limit, or md's are asked for.
    pub drives_carry: Option<f64>,
    /// A digest of all events and their times: equal for equal runs.
    pub digest: u64,
    /// Operations on drives.
    pub operations: u64,
    /// Of random writes to an array with a bitmap: requests a second in the first [`EARLY`], which begin with all bits clear. Of a load so fast
    /// that a round of the bitmap has more requests than are simulated, the rounds' beginnings stand for them.
    pub at_first: Option<f64>,
}

impl Predicted {
    /// All processors are at work all the time, not the busiest alone.
    pub fn is_by_all_cores(&self) -> bool {
        self.processor >= WHOLE
    }
}

/// How long a load with a bitmap counts as new.
pub const EARLY: Duration = Duration::from_secs(30);

/// Predicts what a job comes to.
///
/// # Errors
/// [`PredictError`]: what can't be.
pub fn predict(spec: &Spec) -> Result<Predicted, PredictError> {
    let mut predicted = match spec.marks() {
        Some(marks) => settling::run(spec, marks)?,
        None => run_on(spec, || Stage::new(spec, spec.members()))?,
    };
    if matches!(spec.policies, Policies::Brindle(_)) && predicted.busiest >= WHOLE {
        let alone = Spec { policies: Policies::DrivesAlone, ..spec.clone() };
        let drives = predict(&alone)?.outcome.mixed().iops();
        let times = drives / predicted.outcome.mixed().iops().max(1e-9);
        predicted.drives_carry = Some(times).filter(|times| *times > 1.02);
    }
    Ok(predicted)
}

/// Predicts on the drives of a stage. One stage serves the first look, another the run that counts.
fn run_on(spec: &Spec, stage: impl Fn() -> Stage) -> Result<Predicted, PredictError> {
    spec.check()?;
    let pilot = stage().carry(&[counted(&spec.job, spec)], spec)?;
    stage().carry(&[Spans::of(&pilot, spec).job(spec)], spec)
}

/// A first look, to know how fast it is about: as many requests as are in flight, and enough to fill what caches writes.
fn counted(job: &Job, spec: &Spec) -> Job {
    let least = LEAST.max(filling(spec)).div_ceil(spec.job.numjobs.into());
    Job { number_ios: Some(least.max(job.depth().into())), ..job.clone() }
}

/// Requests that fill the write caches of all drives twice over: a disk takes writes in no time until then.
fn filling(spec: &Spec) -> u64 {
    let cache = spec.drive.stations.platter.as_ref().map_or(0, |platter| platter.cache);
    if !spec.job.access.changes() {
        return 0;
    }
    let bytes = cache.saturating_mul(2 * u64::from(spec.members()));
    (bytes / spec.job.blocks[Direction::Write.index()].least().max(512)).min(MOST_FILLING)
}

struct Spans {
    ramp: Duration,
    counted: Duration,
}

impl Spans {
    /// A run long enough to count enough requests after the drives have become busy.
    fn of(pilot: &Predicted, spec: &Spec) -> Self {
        let outcome = &pilot.outcome;
        let in_flight = u64::from(spec.job.depth()) * u64::from(spec.job.numjobs);
        let by_size = (BYTES / spec.job.largest().max(1)).max(LEAST);
        // So many requests until all that is in flight are writes, where they pile up.
        let all = match spec.piles_up() {
            true => in_flight * 100 / (100 - spec.job.reads.min(99)),
            false => in_flight,
        };
        let wanted = (ROUNDS * in_flight).max(FEWEST).min(by_size.max(2 * in_flight)).max(all);
        let each = outcome.elapsed.as_secs_f64() / outcome.ios().max(1) as f64;
        let span = |count: u64| Duration::from_secs_f64((each * count as f64).max(1e-6));
        Self { ramp: span((2 * in_flight).max(3 * all / 2).max(filling(spec))), counted: span(wanted) }
    }

    /// The job, as long as that.
    fn job(&self, spec: &Spec) -> Job {
        let mut job = spec.job.clone();
        job.number_ios = None;
        (job.time_based, job.ramp_time, job.runtime) = (true, self.ramp, Some(self.counted));
        job.logs.average = Some(self.counted / STEPS);
        job
    }
}

/// The prediction for a single drive, to compare with: see [`predict`].
///
/// # Errors
/// As [`predict`].
pub fn alone(drive: &Drive, job: Job) -> Result<Predicted, PredictError> {
    predict(&Spec {
        drive: drive.clone(),
        shape: None,
        policies: Policies::Brindle(Door::default()),
        cores: 1,
        by_job: false,
        job,
    })
}

impl Shape {
    /// Bytes of the array, if its members are such drives.
    ///
    /// # Errors
    /// There can be no such array.
    pub fn size(&self, drive: &Drive) -> Result<u64, PredictError> {
        Ok(self.geometry(drive)?.size())
    }

    fn geometry(&self, drive: &Drive) -> Result<Geometry, GeometryError> {
        let data = drive.size / self.chunk.max(4096) * self.chunk.max(4096);
        Geometry::new(self.level, self.layout, self.chunk, &vec![data; self.members.into()])
    }
}

impl Spec {
    fn read_policy(&self, shape: &Shape) -> ReadPolicy {
        match self.policies {
            Policies::LinuxMd(kernel) => {
                kernel.read_policy(shape.level, shape.layout, self.drive.stations.platter.is_some())
            }
            Policies::Brindle(_) | Policies::DrivesAlone => ReadPolicy::LeastOutstanding,
        }
    }
}
