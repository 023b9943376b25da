//! Predictions for advice: the array, or one of its drives, in the simulator.

use core::cell::RefCell;

use brindle_lab::drive::Drive as Model;
use brindle_lab::job::Job;
use brindle_lab::predict::{self, Policies, PredictError, Shape, Spec, predict};
use brindle_planner::advice::{Drive, Facts, Load, On, Prediction, Simulator};

use crate::base::failure::Failure;
use crate::base::models::model;
use crate::base::units::Bytes;
use crate::flags::cli::Advise;

/// More than the space that mdadm leaves free before the data of large members.
const BESIDE: u64 = 256 << 20;
/// The chunk in bytes, for levels on which a chunk has no effect.
const ANY_CHUNK: u64 = 64 << 10;

/// Drives of the array's kind, and the array that they make.
pub(super) struct Simulated {
    /// Name of the model.
    drive: String,
    model: Model,
    shape: Shape,
    /// Bytes of each member that the array uses.
    component: u64,
    /// Whether the model was named, and not chosen by the drives of the array.
    is_named: bool,
    /// Predictions made so far: drives that are alike ask the same again.
    before: RefCell<Vec<(On, Load, Prediction)>>,
}

impl Simulated {
    /// A simulator with the named model, or the one that ships for the kind of the members; `None` if neither is known.
    ///
    /// # Errors
    /// The named model is unknown.
    pub(super) fn new(args: &Advise, facts: &Facts) -> Result<Option<Self>, Failure> {
        let named = args.drive.as_deref().or_else(|| facts.drives.iter().find_map(Drive::kind));
        let Some(named) = named else { return Ok(None) };
        let shape = Shape {
            level: facts.level,
            layout: facts.shape,
            chunk: facts.chunk().unwrap_or(ANY_CHUNK),
            members: u16::try_from(facts.raid_devices).unwrap_or(u16::MAX),
            bitmap: None,
        };
        let (model, is_named) = (model(named)?, args.drive.is_some());
        let (drive, component, before) = (named.to_owned(), facts.component, RefCell::default());
        Ok(Some(Self { drive, model, shape, component, is_named, before }))
    }

    /// The array with another chunk under a load.
    pub(super) fn with_chunk(&self, chunk: u64, job: Job) -> Result<Prediction, PredictError> {
        let with = format!("chunk {}", Bytes(chunk));
        run(&self.model, Some(Shape { chunk, ..self.shape }), with, job)
    }
}

impl Simulator for Simulated {
    fn name(&self) -> &str {
        &self.drive
    }

    fn named_flash(&self) -> Option<bool> {
        self.is_named.then(|| self.model.stations.platter.is_none())
    }

    fn volatile_flush(&self) -> Option<f64> {
        self.model.stations.volatile_flush().map(|flush| flush as f64 / 1e6)
    }

    fn predict(&self, on: On, with: String, load: Load) -> Result<Prediction, String> {
        let asked = |one: &&(On, Load, Prediction)| (one.0, &one.1) == (on, &load);
        if let Some((.., found)) = self.before.borrow().iter().find(asked) {
            return Ok(Prediction { with, ..found.clone() });
        }
        let words: Vec<(&str, &str)> = load.iter().map(|(name, value)| (&**name, &**value)).collect();
        let job = predict::job(&words).map_err(|why| PredictError::from(why).to_string())?;
        let run = |model: &Model, shape| run(model, shape, with, job);
        let predicted = match on {
            On::Array => run(&self.model, Some(self.shape)),
            On::WithBitmap(bitmap) => {
                // The bitmap keeps its number of bits: with more of them each change would mark less, and space may
                // lack.
                let size = self.model.size.min(self.component.saturating_add(BESIDE));
                run(&Model { size, ..self.model.clone() }, Some(Shape { bitmap, ..self.shape }))
            }
            On::Drive => run(&self.model, None),
            On::DriveWithoutCache => run(&self.model.without_write_cache(), None),
            On::DriveChoosing(among) => run(&self.model.with_queue(among), None),
        };
        let found = predicted.map_err(|why| why.to_string())?;
        self.before.borrow_mut().push((on, load, found.clone()));
        Ok(found)
    }
}

fn run(model: &Model, shape: Option<Shape>, with: String, job: Job) -> Result<Prediction, PredictError> {
    let spec =
        Spec { drive: model.clone(), shape, policies: Policies::DrivesAlone, cores: 1, by_job: false, job };
    let all = predict(&spec)?.outcome.mixed();
    let chunk = shape.map(|shape| shape.chunk);
    Ok(Prediction { with, chunk, iops: all.iops(), mb_s: all.bandwidth() / 1_048_576.0 })
}
