//! Predictions for an array of modelled drives: the engine itself runs in virtual time.

mod baselines;
mod costs;
mod door;
mod kernel;
mod least_io;
mod member_bytes;
mod processor_cost;
mod rows;
mod spec;
mod stripes;
mod with_bitmap;

use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Access, Array, Device as ArrayDevice, OpenConfig, Patience, ReadPolicy};
use brindle_io::sim::Sim;
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::{Geometry, GeometryError};
use brindle_volume::Volume;

pub use baselines::{Beside, Counted};
pub use door::Door;
pub use kernel::{Kernel, NoKernel};
pub use member_bytes::{MemberBytes, Trial, member_bytes};
pub use rows::{Compared, compare};
pub use spec::{Policies, PredictError, Shape, Spec, job};

use crate::drive::Drive;
use crate::job::{Direction, Job};
use crate::run::{Live, Outcome, OwnTime, RunError, Terms, run};
use brindle_volume::LoneMember;
use processor_cost::{Costly, Processors};
use stripes::AsMd;

/// The seed of all predictions, so that equal questions get equal answers.
const SEED: u64 = 0x0062_7269_6e64_6c65;
/// Counted requests for each that is in flight, within bounds on their total.
const ROUNDS: u64 = 12;
const FEWEST: u64 = 2000;
/// Bytes that are moved are enough at this, whatever their number, down to [`LEAST`] requests.
const BYTES: u64 = 4 << 30;
const LEAST: u64 = 24;
/// Two rounds in which bits of a bitmap are cleared, as mdadm has them, and requests that are waited for at most.
const BITS: Duration = Duration::from_secs(10);
const MOST_MARKED: u64 = 1 << 20;
/// Requests that are spent on caches at most.
const MOST_FILLING: u64 = 1 << 17;
/// Longer than any prediction: a deadline of the engine counts virtual time, too.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 86400);
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
    /// The drives would carry so many times the rate that one core does. None where the core is not the limit, or md's are asked for.
    pub drives_carry: Option<f64>,
    /// A digest of all events and their times: equal for equal runs.
    pub digest: u64,
    /// Operations on drives.
    pub operations: u64,
}

/// Predicts what a job comes to.
///
/// # Errors
/// [`PredictError`]: what can't be.
pub fn predict(spec: &Spec) -> Result<Predicted, PredictError> {
    let mut predicted = run_on(spec, || Stage::new(spec, spec.members()))?;
    if matches!(spec.policies, Policies::Brindle(_)) && predicted.processor >= WHOLE {
        let alone = Spec { policies: Policies::DrivesAlone, ..spec.clone() };
        let drives = run_on(&alone, || Stage::new(&alone, alone.members()))?.outcome.mixed().iops();
        let times = drives / predicted.outcome.mixed().iops().max(1e-9);
        predicted.drives_carry = Some(times).filter(|times| *times > 1.02);
    }
    Ok(predicted)
}

/// Predicts on the drives of a stage. One stage serves the first look, another the run that counts.
fn run_on(spec: &Spec, stage: impl Fn() -> Stage) -> Result<Predicted, PredictError> {
    spec.check()?;
    let pilot = stage().carry(&[counted(&spec.job, spec)], spec)?;
    let spans = Spans::of(&pilot, spec);
    let mut job = spec.job.clone();
    job.number_ios = None;
    (job.time_based, job.ramp_time, job.runtime) = (true, spans.ramp, Some(spans.counted));
    job.logs.average = Some(spans.counted / STEPS);
    stage().carry(&[job], spec)
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
        let wanted = (ROUNDS * in_flight).max(FEWEST).min(by_size.max(2 * in_flight));
        let each = outcome.elapsed.as_secs_f64() / outcome.ios().max(1) as f64;
        let span = |count: u64| Duration::from_secs_f64((each * count as f64).max(1e-6));
        let (ramp, counted) = (span((2 * in_flight).max(filling(spec))), span(wanted));
        // Bits are cleared so often; before the first are, most writes find theirs clear.
        let marks =
            spec.shape.and_then(|shape| shape.bitmap).map_or(Duration::ZERO, |_| BITS.min(span(MOST_MARKED)));
        Self { ramp: ramp.max(marks), counted: counted.max(marks) }
    }
}

/// A world with the drives, and what stands on them.
struct Stage {
    sim: Sim,
    io: Io,
    drives: Vec<MemberId>,
    processors: Processors,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

impl Stage {
    fn new(spec: &Spec, drives: u16) -> Self {
        let sim = Sim::new(SEED);
        let add = |_| sim.add_measured_drive(&spec.drive.stations, spec.drive.size);
        let drives = (0..drives).map(add).collect();
        let io = Io::new(Box::new(sim.clone()));
        let processors = Processors::new(&io, spec.processors());
        Self { sim, io, drives, processors }
    }

    fn carry(&self, jobs: &[Job], spec: &Spec) -> Result<Predicted, PredictError> {
        let outcomes = match &spec.shape {
            None => self.measure(&self.alone(), jobs, costs::of_jobs(spec, None)),
            Some(shape) => {
                let (array, geometry) = self.array(shape, spec, &[], Trial::STRIPES)?;
                let costs = costs::Costs::new(spec.policies, &geometry);
                let own = costs::of_jobs(spec, Some(&costs));
                let array = Costly::new(array, self.processors.clone(), costs);
                self.measure(&[array], jobs, own)
            }
        }?;
        let mut outcome = outcomes[0].clone();
        outcomes[1..].iter().for_each(|other| outcome.merge(other));
        if let Some(trouble) = outcome.trouble {
            return Err(PredictError::Trouble(trouble));
        }
        let elapsed = self.io.now().as_nanos().max(1);
        let share = |nanos: u64| (u128::from(nanos) * 1000 / u128::from(elapsed)) as u32;
        Ok(Predicted {
            busy: self.drives.iter().map(|drive| share(self.sim.worked(*drive)).min(1000)).collect(),
            processor: share(self.processors.worked(spec.processors())).min(1000),
            drives_carry: None,
            digest: self.sim.trace().0,
            operations: self.drives.iter().map(|drive| self.sim.operations(*drive)).sum(),
            outcome,
        })
    }

    /// The drives by themselves.
    fn alone(&self) -> Vec<LoneMember> {
        self.drives.iter().filter_map(|drive| LoneMember::new(&self.io, *drive, false)).collect()
    }

    /// The array, without the roles that are `missing`; md's cache has so many `stripes`.
    fn array(
        &self,
        shape: &Shape,
        spec: &Spec,
        missing: &[u16],
        stripes: u32,
    ) -> Result<(AsMd, Geometry), PredictError> {
        let geometry = shape.geometry(&spec.drive)?;
        let device = |(role, id): (u16, &MemberId)| {
            (!missing.contains(&role)).then_some(ArrayDevice { id: *id, data_offset: 0 })
        };
        let config = || OpenConfig {
            read_policy: spec.read_policy(shape),
            // Drives that are modelled as they are don't fail, however long the queue before them is.
            patience: Patience { answer: ENDLESS, flush: ENDLESS, read: ENDLESS },
            idle: Duration::from_secs(3600),
            ..OpenConfig::new(Access::ReadWrite, || 0)
        };
        if let Some(chunk) = shape.bitmap {
            let array = with_bitmap::array((&self.sim, &self.io), &self.drives, (shape, chunk), config())?;
            return Ok((AsMd::engine(array), geometry));
        }
        let devices: Vec<_> = (0..).zip(&self.drives).map(device).collect();
        let members = devices.iter().map(|device| Some(device.as_ref()?.id)).collect();
        let array = Array::kept(&self.io, geometry.clone(), devices, Box::new(Nothing), &config());
        Ok(match spec.policies {
            Policies::LinuxMd(_) => (AsMd::new(array, &self.io, &geometry, members, stripes), geometry),
            _ => (AsMd::engine(array), geometry),
        })
    }

    fn measure<V: Volume + Clone + 'static>(
        &self,
        targets: &[V],
        jobs: &[Job],
        own: OwnTime,
    ) -> Result<Vec<Outcome>, RunError> {
        let terms = Terms { chance: SEED, memory: MEMORY, hollow: true, own };
        self.io.block_on(run(&self.io, targets, jobs, terms, &Rc::new(Live::default())))
    }
}

/// Most bytes of requests in flight.
const MEMORY: u64 = 4 << 30;

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
