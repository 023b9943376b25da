//! A world in which a prediction is carried out.

use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Access, Array, Device as ArrayDevice, OpenConfig, Patience};
use brindle_io::sim::Sim;
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::Geometry;
use brindle_volume::{LoneMember, Volume};

use super::processor_cost::{Costly, Processors};
use super::spec::{Policies, PredictError, Shape, Spec};
use super::stripes::AsMd;
use super::{Predicted, SEED, Trial, costs, with_bitmap};
use crate::job::Job;
use crate::run::{Live, Outcome, OwnTime, RunError, Terms, run};

/// Longer than any prediction: a deadline of the engine counts virtual time, too.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 86400);

/// A world with the drives, and what stands on them.
pub(super) struct Stage {
    pub(super) sim: Sim,
    pub(super) io: Io,
    pub(super) drives: Vec<MemberId>,
    pub(super) processors: Processors,
}

/// Targets of requests, and what each request takes of its job's own processor.
pub(super) enum Standing {
    Drives(Vec<LoneMember>, OwnTime),
    Array(Costly<AsMd>, OwnTime),
}

/// Counted since a world began, times in nanoseconds.
struct Sums {
    now: u64,
    /// Indexed by drive.
    drives: Vec<u64>,
    processors: u64,
    /// Indexed by processor.
    each: Vec<u64>,
    operations: u64,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

impl Stage {
    /// The drives of a spec, or another number of them.
    pub(super) fn new(spec: &Spec, drives: u16) -> Self {
        let sim = Sim::new(SEED);
        let add = |_| sim.add_measured_drive(&spec.drive.stations, spec.drive.size);
        let drives = (0..drives).map(add).collect();
        let io = Io::new(Box::new(sim.clone()));
        let processors = Processors::new(&io, spec.visited());
        Self { sim, io, drives, processors }
    }

    /// Runs jobs on what the spec has stand on the drives.
    pub(super) fn carry(&self, jobs: &[Job], spec: &Spec) -> Result<Predicted, PredictError> {
        self.carry_on(&self.standing(spec, None)?, jobs, spec)
    }

    /// Targets as the spec has them stand on the drives; bits of a bitmap are looked at so often.
    pub(super) fn standing(&self, spec: &Spec, rounds: Option<Duration>) -> Result<Standing, PredictError> {
        let Some(shape) = &spec.shape else {
            return Ok(Standing::Drives(self.alone(), costs::of_jobs(spec, None)));
        };
        let (array, geometry) = self.array(shape, spec, rounds, (&[], Trial::STRIPES))?;
        let costs = costs::Costs::new(spec.policies, &geometry).shared_by(spec.visited());
        let own = costs::of_jobs(spec, Some(&costs));
        Ok(Standing::Array(self.costly(array, costs), own))
    }

    /// An array whose requests cost processor time. What channels carry out of them the engine knows itself.
    pub(super) fn costly(&self, array: AsMd, costs: costs::Costs) -> Costly<AsMd> {
        let engine = array.array().clone();
        let in_channels = move |range, writes| engine.is_for_channels(range, writes);
        Costly::new(array, self.processors.clone(), costs, in_channels)
    }

    /// Runs jobs on what stands there already.
    pub(super) fn carry_on(
        &self,
        on: &Standing,
        jobs: &[Job],
        spec: &Spec,
    ) -> Result<Predicted, PredictError> {
        let before = self.sums(spec);
        let outcomes = match on {
            Standing::Drives(drives, own) => self.measure(drives, jobs, (spec, *own)),
            Standing::Array(array, own) => self.measure(core::slice::from_ref(array), jobs, (spec, *own)),
        }?;
        let after = self.sums(spec);
        let mut outcome = outcomes[0].clone();
        outcomes[1..].iter().for_each(|other| outcome.merge(other));
        if let Some(trouble) = outcome.trouble {
            return Err(PredictError::Trouble(trouble));
        }
        let elapsed = (after.now - before.now).max(1);
        let share = |nanos: u64| ((u128::from(nanos) * 1000 / u128::from(elapsed)) as u32).min(1000);
        Ok(Predicted {
            busy: after.drives.iter().zip(before.drives).map(|(now, then)| share(now - then)).collect(),
            processor: share(after.processors.saturating_sub(before.processors)),
            busiest: after
                .each
                .iter()
                .zip(before.each)
                .map(|(now, then)| share(now.saturating_sub(then)))
                .max()
                .unwrap_or(0),
            drives_carry: None,
            digest: self.sim.trace().0,
            operations: after.operations - before.operations,
            at_first: None,
            outcome,
        })
    }

    /// The work that drives and processors have done so far.
    fn sums(&self, spec: &Spec) -> Sums {
        Sums {
            now: self.io.now().as_nanos(),
            drives: self.drives.iter().map(|drive| self.sim.worked(*drive)).collect(),
            processors: self.processors.worked(spec.processors()),
            each: self.processors.each(),
            operations: self.drives.iter().map(|drive| self.sim.operations(*drive)).sum(),
        }
    }

    /// The drives by themselves.
    fn alone(&self) -> Vec<LoneMember> {
        self.drives.iter().filter_map(|drive| LoneMember::new(&self.io, *drive, false)).collect()
    }

    /// The array, without the roles that are `missing`; bits of its bitmap are looked at so often, and md's cache has so many `stripes`.
    pub(super) fn array(
        &self,
        shape: &Shape,
        spec: &Spec,
        rounds: Option<Duration>,
        (missing, stripes): (&[u16], u32),
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
            daemon_sleep: rounds,
            flush_before_bitmap: matches!(spec.policies, Policies::LinuxMd(_)),
            ..OpenConfig::new(Access::ReadWrite, || 0)
        };
        let cut = match spec.policies {
            Policies::LinuxMd(kernel) => kernel.cut(shape.level, shape.chunk),
            _ => None,
        };
        if let Some(chunk) = shape.bitmap {
            let array = with_bitmap::array((&self.sim, &self.io), &self.drives, (shape, chunk), config())?;
            return Ok((AsMd::engine(array).cut_at(cut), geometry));
        }
        let devices: Vec<_> = (0..).zip(&self.drives).map(device).collect();
        let members = devices.iter().map(|device| Some(device.as_ref()?.id)).collect();
        let array = Array::kept(&self.io, geometry.clone(), devices, Box::new(Nothing), &config());
        let as_md = match spec.policies {
            Policies::LinuxMd(_) => AsMd::new(array, &self.io, &geometry, members, stripes),
            _ => AsMd::engine(array),
        };
        Ok((as_md.cut_at(cut), geometry))
    }

    fn measure<V: Volume + Clone + 'static>(
        &self,
        targets: &[V],
        jobs: &[Job],
        (spec, own): (&Spec, OwnTime),
    ) -> Result<Vec<Outcome>, RunError> {
        let terms = Terms { chance: SEED, memory: MEMORY, hollow: true, sharp_end: spec.piles_up(), own };
        self.io.block_on(run(&self.io, targets, jobs, terms, &Rc::new(Live::default())))
    }
}

/// Most bytes of requests in flight.
const MEMORY: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use brindle_layout::{Layout, Level};

    use super::*;
    use crate::drive::{parse, shipped};
    use crate::predict::door::Door;
    use crate::predict::job;

    /// Requests a second of a RAID 6 of drives that carry more than cores do, without these roles.
    fn rate(missing: &[u16], cores: u32, rw: &str) -> f64 {
        let level = Level::Raid6;
        let shape =
            Shape { level, layout: Layout::default_for(level), chunk: 64 << 10, members: 12, bitmap: None };
        let words = [("rw", rw), ("bs", "4k"), ("iodepth", "512")];
        let spec = Spec {
            drive: parse("nvme", shipped("nvme").expect("it ships")).expect("a model"),
            shape: Some(shape),
            policies: Policies::Brindle(Door::InProcess),
            cores,
            by_job: false,
            job: job(&words).expect("a load"),
        };
        let stage = Stage::new(&spec, shape.members);
        let (array, geometry) =
            stage.array(&shape, &spec, None, (missing, Trial::STRIPES)).expect("an array");
        let costs = costs::Costs::new(spec.policies, &geometry).shared_by(spec.visited());
        let standing = Standing::Array(stage.costly(array, costs), OwnTime::NONE);
        let job = Job { number_ios: Some(30_000), ..spec.job.clone() };
        stage.carry_on(&standing, &[job], &spec).expect("a prediction").outcome.mixed().iops()
    }

    #[test]
    fn an_array_that_lacks_a_member_gains_nothing_by_a_second_core() {
        let times = |missing: &[u16], rw| rate(missing, 2, rw) / rate(missing, 1, rw);
        let whole = times(&[], "randread");
        assert!((1.9..2.0).contains(&whole), "{whole:.2}");
        // Home carries all out, and has the lending beside.
        for rw in ["randread", "randwrite"] {
            let lacking = times(&[3], rw);
            assert!((0.9..1.01).contains(&lacking), "{rw}: {lacking:.2}");
        }
    }
}
