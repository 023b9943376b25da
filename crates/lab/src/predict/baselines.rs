//! Figures to compare a prediction with: the same load on as many single drives, and the most that these drives
//! allow.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use brindle_layout::Geometry;

use super::least_io::Moved;
use super::{PredictError, Spec, Stage, run_on};
use crate::job::{IoPattern, Job, Kinds};

/// Requests in flight at each drive that keep it as busy as it can be: queues of drives are no deeper than they have use for.
const DEPTH: u64 = 128;
/// Bytes that may be in flight for that.
const MEMORY: u64 = 1 << 30;

/// Remembers what it has found, since many points of a sweep have the same answer.
#[derive(Debug, Default)]
pub struct Beside {
    known: Mutex<BTreeMap<String, f64>>,
}

impl Beside {
    /// Bytes a second of the same load on as many drives without an array, to which requests go in turn; none for a question
    /// that is about one drive.
    ///
    /// # Errors
    /// As [`super::predict`].
    pub fn jbod(&self, spec: &Spec) -> Result<Option<f64>, PredictError> {
        match spec.shape {
            None => Ok(None),
            Some(_) => Ok(Some(self.drives(spec, &spec.job)?)),
        }
    }

    /// Bytes a second that counted I/O allows: of the fewest operations that the load can cost the members, with these as
    /// busy as they can be. None for a load that gives up blocks.
    ///
    /// # Errors
    /// As [`super::predict`].
    pub fn limit(&self, spec: &Spec) -> Result<Option<f64>, PredictError> {
        let geometry = spec.shape.map(|shape| shape.geometry(&spec.drive)).transpose()?;
        let counted = Counted::of(&spec.job, geometry.as_ref(), spec.members(), MEMORY);
        counted.map(|counted| Ok(self.drives(spec, &counted.load)? * counted.asked)).transpose()
    }

    fn drives(&self, spec: &Spec, job: &Job) -> Result<f64, PredictError> {
        let (members, depth) = (spec.members(), job.depth());
        let question = format!(
            "{members} {:?} {:?} {} {depth} {} {:?}",
            job.access, job.blocks, job.reads, job.numjobs, job.distribution
        );
        let key = format!("{question} {}", spec.drive.name);
        if let Some(known) = self.lock().get(&key) {
            return Ok(*known);
        }
        let alone = Spec { shape: None, job: job.clone(), ..spec.clone() };
        let predicted = run_on(&alone, || Stage::new(&alone, members))?;
        let found = predicted.outcome.mixed().bandwidth();
        self.lock().insert(key, found);
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, f64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cost of a load in counted I/O: the fewest operations that it can cost the members.
#[derive(Clone, Debug)]
pub struct Counted {
    /// These operations, on the members by themselves, with as many in flight as keep all of them busy.
    pub load: Job,
    /// Bytes that are asked of the array, for each byte that the members move.
    pub asked: f64,
}

impl Counted {
    /// The baselines of a load on an array, or on one drive by itself; `memory` is how many bytes may be in flight.
    /// None for a load that gives up blocks.
    pub fn of(job: &Job, geometry: Option<&Geometry>, members: u16, memory: u64) -> Option<Self> {
        let moved = Moved::of(job, geometry)?;
        let load = saturating(job, &moved, members, memory);
        Some(Self { load, asked: moved.asked / moved.bytes().max(1.0) })
    }
}

/// A job that puts the counted operations of a load on the members, with enough in flight to keep them busy.
fn saturating(job: &Job, moved: &Moved, members: u16, memory: u64) -> Job {
    let kinds = moved.kinds();
    let blocks = [moved.reads.blocks(), moved.writes.blocks(), moved.reads.blocks()];
    let largest = moved.reads.largest().max(moved.writes.largest()).max(1);
    let wanted = (DEPTH * u64::from(members)).min(memory / largest).max(u64::from(members));
    Job {
        access: IoPattern { kinds, ..job.access },
        blocks,
        reads: if kinds == Kinds::Mixed { moved.share_of_reads() } else { 50 },
        iodepth: wanted as u32,
        one_at_a_time: false,
        numjobs: 1,
        ..job.clone()
    }
}
