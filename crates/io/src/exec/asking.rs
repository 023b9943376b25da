//! Questions to other executors, with memory that is lent.

use crate::buf::Slice;
use crate::crew::Berth;
use crate::exec::Io;
use crate::loan::Loan;
use crate::loans::Question;
use crate::op::OpError;

impl Io {
    /// The executor takes a berth: it asks others of the crew from now on, and answers them.
    ///
    /// # Panics
    /// If it has one.
    pub fn join(&self, berth: Berth) {
        let unpark = self.0.core.reactor.borrow().unpark();
        self.0.core.join(berth.taken(unpark));
    }

    /// Asks executor `to` of the crew. It has the memory until it has answered; if it `fills` that, nobody may look at it
    /// meanwhile, else nobody may change it. The future may be dropped: the operation goes on, and keeps the memory.
    ///
    /// # Errors
    /// [`OpError::Cancelled`]: the other one ends.
    ///
    /// # Panics
    /// If there is no such executor.
    pub async fn ask(
        &self,
        to: usize,
        question: Question,
        fills: bool,
        memory: &[Slice],
    ) -> Result<u64, OpError> {
        let mut group = self.group();
        group.ask(fills, memory);
        group.submit_to(to, question).await.value()
    }

    /// The next question of another executor, in the order in which they came. Several tasks may wait for one.
    ///
    /// # Panics
    /// If the executor has no berth.
    pub async fn next_loan(&self) -> Loan {
        Loan::next(&self.0.core).await
    }

    /// Has the executor take no parcel that comes, or take them all again: in modelled worlds, where time does not go on while one is on
    /// its way, this stands for a thread that has just looked at its lanes.
    pub fn take_parcels_late(&self, late: bool) {
        if let Some(side) = self.0.core.joined() {
            side.crew.is_late.set(late);
        }
    }

    /// Turns of each executor of the crew so far, by their numbers; nothing without a crew.
    pub fn crew_turns(&self) -> Vec<u64> {
        self.0.core.joined().map_or_else(Vec::new, |side| side.crew.turns())
    }

    /// Whether each executor of the crew has something from this one that it has not taken, by their numbers; nothing without a crew.
    pub fn crew_untaken(&self) -> Vec<bool> {
        self.0.core.joined().map_or_else(Vec::new, |side| side.crew.untaken())
    }

    /// Parcels that were sent to others of the crew so far, and wake-ups that these have cost.
    pub fn parcels_sent(&self) -> (u64, u64) {
        self.0.core.joined().map_or((0, 0), |side| side.crew.counts.get())
    }
}
