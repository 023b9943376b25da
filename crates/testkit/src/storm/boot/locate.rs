//! Looking for members that are wrong, of an array that a cut has left in doubt.

use brindle_array::{Array, ProcessError, SyncMode};

use super::super::judge::Failure;
use super::{Patience, Run};
use crate::random::Random;

impl Run {
    /// Some look for members that are wrong before anything is resynced. None is, but for what the cut has left in doubt, of
    /// which nothing must be changed that has been read.
    pub(super) async fn locate(&self, array: &Array, patient: Patience) -> Result<(), Failure> {
        let plan = &self.stage.plan;
        let chance = Random::stream(plan.seed, 0x6c6f_6300 + self.boot.number).one_in(4);
        if !chance || self.boot.reads_only || patient.errors || plan.mix.discards > 0 {
            return Ok(());
        }
        match array.check(SyncMode::Locate, |_| ()).await {
            Ok(_) | Err(ProcessError::Busy(_)) => Ok(()),
            Err(error) => patient.engine("locate", Err(error)),
        }
    }
}
