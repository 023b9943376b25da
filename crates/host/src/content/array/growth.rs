//! Gives an array that is served another shape.

use std::rc::Rc;

use brindle_array::{GrowPlan, GrowSpec};
use brindle_io::Duration;
use brindle_io::sync::{Either, race};

use super::{ServedArray, background};
use crate::answers::Effects;
use crate::content::Host;
use crate::error::HostError;
use crate::status::GrowthStatus;

/// Time that a change may take before its client is told that it goes on. It is shorter than the client's patience.
const PATIENCE: Duration = Duration::from_secs(8);

impl ServedArray {
    /// Carries out a change of shape, or tells what it would come to. One that takes too long goes on in the background, and the
    /// answer says so.
    pub(super) async fn regrow(
        self: &Rc<Self>,
        host: &Rc<dyn Host>,
        spec: GrowSpec,
        dry_run: bool,
    ) -> Result<Effects, HostError> {
        let told = |plan: &GrowPlan, time| Effects {
            growth: Some(GrowthStatus::of(plan, time)),
            ..Effects::default()
        };
        if dry_run {
            let plan = self.planned(spec)?;
            let time = self.array().time_to_move(&plan).await;
            return Ok(told(&plan, time));
        }
        let (this, host) = (Rc::clone(self), Rc::clone(host));
        let work = self.io.spawn(async move {
            let grown = this.array().grow(spec).await;
            if grown.is_ok() {
                if !this.moves_on() {
                    background::resync(&this.io, this.array(), &this.prefix());
                    host.resized(this.name());
                }
                host.publish();
            }
            grown
        });
        match race(work, self.io.sleep(PATIENCE)).await {
            Either::First(Ok(plan)) => Ok(told(&plan, None)),
            Either::First(Err(source)) => Err(HostError::Grow { name: self.name().to_owned(), source }),
            Either::Second(()) => Err(HostError::Busy(self.name().to_owned())),
        }
    }

    /// A change of shape, as it would come to.
    pub(super) fn planned(&self, spec: GrowSpec) -> Result<GrowPlan, HostError> {
        let refused = |source| HostError::Grow { name: self.name().to_owned(), source };
        self.array().plan_growth(spec).map_err(refused)
    }

    /// Moves data that are to be moved. False if nothing is.
    pub(super) fn moves_on(&self) -> bool {
        let grown = Rc::clone(&self.last_action.grown);
        background::reshape(&self.io, self.array(), &self.prefix(), move || grown.set(true))
    }
}
