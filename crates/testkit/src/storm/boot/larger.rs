//! Arrays that get another size while clients write.

use std::rc::Rc;

use brindle_array::{Array, GrowSpec, ProcessError};
use brindle_io::Duration;

use super::Run;
use crate::random::Random;

/// How often an array grows in a boot, at most.
const ROUNDS: u64 = 4;

impl Run {
    /// The array grows by a few rows now and then, and what comes is resynced: the future ends with that. Clients stay where they
    /// were. The array may be broken or stopping, or lack a member: it judges.
    pub(super) fn have_it_grow(&self, array: &Array) -> impl Future<Output = ()> + use<> {
        let plan = &self.stage.plan;
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 989);
        let rounds = if plan.grows && !self.boot.reads_only { 1 + random.below(ROUNDS) } else { 0 };
        let unit = plan.shape.chunk;
        let (array, io, board) = (array.clone(), self.io.clone(), Rc::clone(&self.board));
        io.clone().spawn(async move {
            for _ in 0..rounds {
                io.sleep(Duration::from_micros(random.below(1500))).await;
                let component = Some(array.detail().component_size + unit * (1 + random.below(2)));
                let spec = GrowSpec::Size { component, assume_clean: false, force: false };
                if array.grow(spec).await.is_ok() {
                    // A member that is lost before the end of that leaves the array in need of force.
                    board.doubt.set(true);
                    let waits =
                        |ended| matches!(ended, Err(ProcessError::Interrupted | ProcessError::Busy(_)));
                    while waits(array.resync(|_| ()).await) {
                        io.sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        })
    }
}
