//! Predictions of writes to an array with a write-intent bitmap.
//!
//! A write whose bit is clear waits until the bit stands on all members, and a bit is cleared some seconds after the last write to its chunk.
//! A load comes to its lasting rate only once as many bits are set as are cleared, which takes a minute. What counts is how many writes a chunk
//! sees between two rounds that clear bits. So a minute is made shorter: chunks are larger by a factor, and rounds come as much more often.

use brindle_io::Duration;

use super::spec::{PredictError, Spec};
use super::stage::Stage;
use super::{EARLY, LEAST, Predicted, Spans, counted};
use crate::job::Job;

/// Time between two rounds, as mdadm has it.
const ROUND: Duration = Duration::from_secs(5);
/// Requests of a round at most: what comes after them in a round is as they are.
const OF_ROUND: u64 = 1 << 14;
/// Bits that are left at least, so that chance has its part.
const BITS: u64 = 64;
/// The largest chunk of a bitmap.
const LARGEST: u64 = 2 << 30;
/// A round lasts so many times as long as a bit takes to be set, so that clearing takes no more of it than it does of [`ROUND`].
const SETTINGS: u32 = 50;
/// The same where rounds would have more than [`OF_ROUND`] requests.
const FEWEST_SETTINGS: u32 = 10;
/// Rounds before anything counts: at least, and at most.
const ROUNDS: core::ops::Range<u64> = 8..24;
/// Half of the rounds that are compared, and by how much their rates may differ.
const COMPARED: usize = 4;
const ALIKE: f64 = 0.01;
/// Requests that are counted in the end at most, beside what any prediction counts.
const COUNTED: u64 = 1 << 16;

/// How a load meets the bits of a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// In sequence: bits lie ahead, clear, and it comes to them one by one.
    InSequence,
    /// At random.
    AtRandom,
}

impl Spec {
    /// How the load meets the array's bitmap, if there is one and the load changes anything.
    pub(super) fn marks(&self) -> Option<Marks> {
        self.shape?.bitmap.filter(|_| self.job.access.changes())?;
        Some(if self.job.access.random { Marks::AtRandom } else { Marks::InSequence })
    }

    fn with_bitmap(&self, bitmap: Option<u64>) -> Self {
        let mut spec = self.clone();
        spec.shape.iter_mut().for_each(|shape| shape.bitmap = bitmap);
        spec
    }
}

pub(super) fn run(spec: &Spec, marks: Marks) -> Result<Predicted, PredictError> {
    spec.check()?;
    match marks {
        Marks::InSequence => in_sequence(spec),
        Marks::AtRandom => at_random(spec),
    }
}

/// As any load, for longer: bits are met seldom.
fn in_sequence(spec: &Spec) -> Result<Predicted, PredictError> {
    let stage = || Stage::new(spec, spec.members());
    let pilot = stage().carry(&[counted(&spec.job, spec)], spec)?;
    let mut spans = Spans::of(&pilot, spec);
    let longer = (2 * ROUND).min(span(&pilot, 2 * COUNTED));
    spans.counted = spans.counted.max(longer);
    stage().carry(&[spans.job(spec)], spec)
}

fn at_random(spec: &Spec) -> Result<Predicted, PredictError> {
    let plain = spec.with_bitmap(None);
    let fast = run_on_pilot(&plain, &counted(&spec.job, spec))?;
    let each = u64::from(spec.job.depth());
    let few = Job { number_ios: Some(LEAST.div_ceil(spec.job.numjobs.into()).max(each)), ..spec.job.clone() };
    let setting = {
        let slow = run_on_pilot(spec, &few)?;
        span(&slow, each * u64::from(spec.job.numjobs))
    };
    let scale = Scale::of(spec, &fast, setting, bits(spec)?);
    settled(&scale.applied(spec), scale.round())
}

/// Bits of what the load writes to.
fn bits(spec: &Spec) -> Result<u64, PredictError> {
    let Some((shape, chunk)) = spec.shape.and_then(|shape| Some((shape, shape.bitmap?))) else {
        return Ok(0);
    };
    let array = shape.geometry(&spec.drive)?.size().max(1);
    let written = spec.job.size.map_or(array, |size| size.of(array)).min(array);
    let of_member = u128::from(spec.drive.size) * u128::from(written) / u128::from(array);
    Ok((of_member / u128::from(chunk.max(1))) as u64)
}

fn run_on_pilot(spec: &Spec, job: &Job) -> Result<Predicted, PredictError> {
    Stage::new(spec, spec.members()).carry(core::slice::from_ref(job), spec)
}

/// How long so many requests take at the rate of a run.
fn span(run: &Predicted, requests: u64) -> Duration {
    let each = run.outcome.elapsed.as_secs_f64() / run.outcome.ios().max(1) as f64;
    Duration::from_secs_f64(each * requests as f64)
}

/// By how much a bitmap is coarser, and its rounds are shorter: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale(u32);

impl Scale {
    /// `fast` is a run without a bitmap, `setting` the time of a request that sets a bit, `bits` how many it comes to.
    fn of(spec: &Spec, fast: &Predicted, setting: Duration, bits: u64) -> Self {
        let wanted = span(fast, OF_ROUND).max(setting * SETTINGS).min(ROUND);
        let wanted =
            if span(fast, OF_ROUND) < setting * FEWEST_SETTINGS { setting * FEWEST_SETTINGS } else { wanted };
        let times = ROUND.as_nanos() / wanted.as_nanos().max(1);
        let chunk = spec.shape.and_then(|shape| shape.bitmap).unwrap_or(LARGEST);
        let most = u128::from((LARGEST / chunk).min(bits / BITS));
        Self(1 << times.min(most).clamp(1, 1 << 20).ilog2())
    }

    fn round(self) -> Duration {
        ROUND / self.0
    }

    fn applied(self, spec: &Spec) -> Spec {
        let bitmap = spec.shape.and_then(|shape| shape.bitmap);
        spec.with_bitmap(bitmap.map(|chunk| chunk * u64::from(self.0)))
    }
}

/// Round after round until rates no longer change, and then what counts. Each stands for a [`ROUND`].
fn settled(spec: &Spec, round: Duration) -> Result<Predicted, PredictError> {
    let stage = Stage::new(spec, spec.members());
    let array = stage.standing(spec, Some(round))?;
    let in_flight = u64::from(spec.job.depth()) * u64::from(spec.job.numjobs);
    let requests = OF_ROUND.max(8 * in_flight).div_ceil(spec.job.numjobs.into());
    let mut rates = Vec::new();
    let mut last = None;
    for number in 0..ROUNDS.end {
        if number >= ROUNDS.start && are_alike(&rates) {
            break;
        }
        let mut job = seeded(&spec.job, number);
        job.number_ios = Some(requests);
        (job.time_based, job.runtime, job.ramp_time) = (true, Some(round), Duration::ZERO);
        let one = stage.carry_on(&array, &[job], spec)?;
        rates.push(one.outcome.mixed().iops());
        last = Some(one);
    }
    let mut spans = last.as_ref().map_or(Spans { ramp: round, counted: round }, |last| Spans::of(last, spec));
    if let Some(last) = &last {
        spans.ramp = span(last, 2 * in_flight);
        spans.counted = spans.counted.max((8 * round).min(span(last, COUNTED)));
    }
    let job = seeded(&spans.job(spec), ROUNDS.end);
    let early = (EARLY.as_nanos() / ROUND.as_nanos()) as usize;
    let first = rates.iter().take(early).sum::<f64>() / early.min(rates.len()).max(1) as f64;
    Ok(Predicted { at_first: Some(first), ..stage.carry_on(&array, &[job], spec)? })
}

/// The job at other places: those of the round before have their bits set.
fn seeded(job: &Job, number: u64) -> Job {
    let seed = job.randseed.unwrap_or(0).wrapping_add(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Job { randseed: Some(seed), ..job.clone() }
}

fn are_alike(rates: &[f64]) -> bool {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let Some(from) = rates.len().checked_sub(2 * COMPARED) else { return false };
    let (before, after) = rates[from..].split_at(COMPARED);
    (mean(before) / mean(after).max(1e-9) - 1.0).abs() < ALIKE
}

/// Predicts as [`super::predict`] does, but over a span of so long after another of so long, with a bitmap and its rounds as they are.
///
/// # Errors
/// As [`super::predict`].
pub fn predict_long(spec: &Spec, span: Duration) -> Result<Predicted, PredictError> {
    spec.check()?;
    Stage::new(spec, spec.members()).carry(&[Spans { ramp: span, counted: span }.job(spec)], spec)
}
