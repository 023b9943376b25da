//! The expected gain of a change: the array, or one of its drives, in the simulator as it is and as it would be.

use brindle_lab::drive::Drive as Model;
use brindle_lab::job::Job;
use brindle_lab::predict::{self, Policies, PredictError, Shape, Spec, predict};

use super::array::Facts;
use super::finding::{Finding, Prediction};
use super::sysfs::Drive;
use crate::cli::Advise;
use crate::failure::Failure;
use crate::models::model;
use crate::units::Bytes;

/// Why nothing is predicted where nobody says what the drives are.
pub(super) const NO_MODEL: &str =
    "not predicted: the members are no block devices whose kind is known; name a model with --drive";
/// More than the space that mdadm leaves free before the data of large members.
const BESIDE: u64 = 256 << 20;
/// Of a chunk where the level has none that counts.
const ANY_CHUNK: u64 = 64 << 10;

/// Drives of the array's kind, and the array that they make.
pub(super) struct Simulator {
    /// As the model is called.
    pub(super) drive: String,
    model: Model,
    shape: Shape,
    /// Bytes of each member that the array uses.
    component: u64,
    /// Whether the drives are those that were named, not those that there are.
    told: bool,
}

impl Simulator {
    /// With the model that was named, or the one that ships for the members' kind; none if neither is known.
    ///
    /// # Errors
    /// The model that was named is none.
    pub(super) fn new(args: &Advise, facts: &Facts, drives: &[Drive]) -> Result<Option<Self>, Failure> {
        let named = args.drive.as_deref().or_else(|| drives.iter().find_map(Drive::kind));
        let Some(named) = named else { return Ok(None) };
        let shape = Shape {
            level: facts.level,
            layout: facts.shape,
            chunk: facts.chunk().unwrap_or(ANY_CHUNK),
            members: u16::try_from(facts.raid_devices).unwrap_or(u16::MAX),
            bitmap: None,
        };
        let (model, told) = (model(named)?, args.drive.is_some());
        Ok(Some(Self { drive: named.to_owned(), model, shape, component: facts.component, told }))
    }

    /// Whether the drives that were named have no heads; none if none were.
    pub(super) fn told_flash(&self) -> Option<bool> {
        self.told.then(|| self.model.stations.platter.is_none())
    }

    /// The array under a load. `with` says what is set so.
    pub(super) fn array(&self, with: String, job: Job) -> Result<Prediction, PredictError> {
        self.run(&self.model, Some(self.shape), with, job)
    }

    /// The same with another chunk.
    pub(super) fn with_chunk(&self, chunk: u64, with: String, job: Job) -> Result<Prediction, PredictError> {
        self.run(&self.model, Some(Shape { chunk, ..self.shape }), with, job)
    }

    /// The array under a load, with a write-intent bitmap of so many bytes to a bit, or none.
    pub(super) fn with_bitmap(&self, bitmap: Option<u64>, job: Job) -> Result<Prediction, PredictError> {
        let with = bitmap.map_or("no bitmap".to_owned(), |bit| format!("a bit for each {}", Bytes(bit)));
        // As many bits as there are: of more, one change marks fewer, and there may be no room for them.
        let size = self.model.size.min(self.component.saturating_add(BESIDE));
        let model = Model { size, ..self.model.clone() };
        self.run(&model, Some(Shape { bitmap, ..self.shape }), with, job)
    }

    /// One drive under a load.
    pub(super) fn drive(&self, with: String, job: Job) -> Result<Prediction, PredictError> {
        self.run(&self.model, None, with, job)
    }

    /// One drive that acknowledges no write before it is on the platter.
    pub(super) fn drive_without_cache(&self, with: String, job: Job) -> Result<Prediction, PredictError> {
        self.run(&self.model.without_write_cache(), None, with, job)
    }

    /// One drive of whose blocks each write reaches into two, which are read first and then written; and what it does where each is
    /// one of its blocks.
    pub(super) fn astride(&self, block: u64) -> Result<[Prediction; 2], PredictError> {
        let of = |rw: &str, bytes: u64, with: &str| {
            let job = load(&[("rw", rw), ("bs", &bytes.to_string())])?;
            self.drive_without_cache(with.to_owned(), job)
        };
        let (reads, writes) = (of("randread", 2 * block, "")?, of("randwrite", 2 * block, "")?);
        let iops = 1.0 / (1.0 / reads.iops + 1.0 / writes.iops);
        let now = Prediction {
            with: "blocks read and written".to_owned(),
            chunk: None,
            iops,
            mb_s: iops * block as f64 / 1_048_576.0,
        };
        Ok([now, of("randwrite", block, "blocks written")?])
    }

    /// A disk whose head chooses among so many of its requests, with so many in flight.
    pub(super) fn choosing(&self, among: u32, flight: u32) -> Result<Prediction, PredictError> {
        let job = load(&[("rw", "randread"), ("bs", "4k"), ("iodepth", &flight.to_string())])?;
        self.run(&self.model.with_queue(among), None, format!("the nearest of {among}"), job)
    }

    fn run(
        &self,
        model: &Model,
        shape: Option<Shape>,
        with: String,
        job: Job,
    ) -> Result<Prediction, PredictError> {
        let spec = Spec { drive: model.clone(), shape, policies: Policies::Brindle, cores: 1, job };
        let all = predict(&spec)?.outcome.mixed();
        let chunk = shape.map(|shape| shape.chunk);
        Ok(Prediction { with, chunk, iops: all.iops(), mb_s: all.bandwidth() / 1_048_576.0 })
    }
}

/// A load in fio's words.
pub(super) fn load(words: &[(&str, &str)]) -> Result<Job, PredictError> {
    Ok(predict::job(words)?)
}

/// A finding with what the simulator says of it as it is and as it would be, under the load that `of` names; no change if that is no gain.
/// Without drives that it knows, or where it can't tell, the finding says so.
pub(super) fn compared(
    finding: Finding,
    simulator: Option<&Simulator>,
    of: &str,
    both: impl FnOnce(&Simulator) -> Result<[Prediction; 2], PredictError>,
) -> Finding {
    predicted(finding, simulator, of, both).by_evidence()
}

/// The same for a change that is not for speed.
pub(super) fn predicted(
    finding: Finding,
    simulator: Option<&Simulator>,
    of: &str,
    both: impl FnOnce(&Simulator) -> Result<[Prediction; 2], PredictError>,
) -> Finding {
    let Some(simulator) = simulator else { return finding.expecting(NO_MODEL) };
    match both(simulator) {
        Ok([now, then]) => {
            let expected = format!(
                "{then} instead of {now} ({:+.0} %) in {of}, on {} drives",
                (then.iops / now.iops - 1.0) * 100.0,
                simulator.drive
            );
            Finding { predicted: vec![now, then], ..finding.expecting(expected) }
        }
        Err(why) => finding.expecting(format!("not predicted: {why}")),
    }
}
