//! The points of a sweep in virtual time.

use super::{Nested, PointError};
use crate::drive::Drive;
use crate::predict::{self, Beside, Policies, PredictError, Shape, Spec, predict};
use crate::sweep::{Figures, Finished, Point, RunFacts};

/// The settings of simulations, and the baselines computed so far.
pub struct Simulating {
    policies: Policies,
    cores: u32,
    by_job: bool,
    beside: Beside,
}

impl Simulating {
    /// Arrays of these policies on so many cores; `by_job` is that of [`Spec`].
    pub fn new(policies: Policies, cores: u32, by_job: bool) -> Self {
        Self { policies, cores, by_job, beside: Beside::default() }
    }

    /// Runs a point on drives of a model; an array that can't be is a point without figures. `shape` is the array, none for a drive by
    /// itself.
    ///
    /// # Errors
    /// Its words mean nothing.
    pub fn run<E: From<PointError> + From<PredictError>>(
        &self,
        point: &Point,
        drive: Drive,
        shape: impl FnOnce() -> Result<Option<Shape>, E>,
    ) -> Result<Finished, E> {
        if let Some(nested) = Nested::of(point)? {
            let why = nested
                .err()
                .unwrap_or_else(|| "an array of arrays can be measured only: --destroy".to_owned());
            return Ok(Finished { point: point.clone(), figures: None, refused: Some(why) });
        }
        let job = predict::job(&point.words()).map_err(PredictError::from)?;
        let Self { policies, cores, by_job, .. } = *self;
        let spec = Spec { drive, shape: shape()?, policies, cores, by_job, job };
        let (figures, refused) = match self.figures(&spec) {
            Ok(figures) => (Some(figures), None),
            Err(why @ (PredictError::Geometry(_) | PredictError::Run(_))) => (None, Some(why.to_string())),
            Err(why) => return Err(why.into()),
        };
        Ok(Finished { point: point.clone(), figures, refused })
    }

    fn figures(&self, spec: &Spec) -> Result<Figures, PredictError> {
        let predicted = predict(spec)?;
        let facts = RunFacts {
            utilisation: Some(f64::from(predicted.busy.iter().copied().max().unwrap_or(0)) / 1000.0),
            cpu_share: f64::from(predicted.processor) / 1000.0,
            jbod: self.beside.jbod(spec)?,
            limit: self.beside.limit(spec)?,
            digest: format!("{:016x}", predicted.digest),
        };
        Ok(Figures::of(&predicted.outcome.mixed(), facts))
    }
}
