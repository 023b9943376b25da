//! Redundancy brought in sync, compared and repaired while clients write.

use std::rc::Rc;

use brindle_array::{Array, ProcessError, SyncMode};
use brindle_io::{Duration, Io, Task};

use super::super::judge::Failure;
use super::super::work::Work;
use super::{Board, Patience, Run};
use crate::random::Random;

/// How often an array is gone over beside its clients, in boots that do so.
const ROUNDS: u64 = 2;

/// Goes over an array.
struct Scrubs {
    array: Array,
    io: Io,
    board: Rc<Board>,
    patient: Patience,
    /// Redundancy that is known to be in sync agrees with the data. Only where nothing was discarded: discarded blocks read
    /// differently each time.
    agrees: bool,
}

impl Run {
    /// Brings redundancy in sync if it is in doubt, and goes over the array beside the clients in one boot of two, sometimes before
    /// that. The task ends when all of it is done.
    pub(super) fn resync_and_scrub(&self, array: &Array, patient: Patience) -> Task<Result<(), Failure>> {
        let plan = &self.stage.plan;
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 996);
        let rounds = match plan.work {
            None if random.one_in(2) => 0,
            None | Some(Work::Scrub(_)) => ROUNDS,
            Some(_) => 0,
        };
        let only = plan.work.and_then(|work| if let Work::Scrub(mode) = work { Some(mode) } else { None });
        let mode = move |random: &mut Random| {
            only.unwrap_or_else(|| {
                *random.pick(&[SyncMode::Repair, SyncMode::Repair, SyncMode::Check, SyncMode::Locate])
            })
        };
        let (array, io, board) = (array.clone(), self.io.clone(), Rc::clone(&self.board));
        let scrubs = Scrubs { array, io, board, patient, agrees: plan.mix.discards == 0 && !patient.errors };
        self.io.spawn(async move {
            if rounds > 0 && scrubs.array.needs_resync() && random.one_in(2) {
                scrubs.scrub(mode(&mut random)).await?;
            }
            scrubs.resync().await?;
            for _ in 0..rounds {
                scrubs.io.sleep(Duration::from_micros(random.below(1500))).await;
                scrubs.scrub(mode(&mut random)).await?;
            }
            Ok(())
        })
    }
}

impl Scrubs {
    async fn resync(&self) -> Result<(), Failure> {
        if !self.array.needs_resync() {
            return Ok(());
        }
        self.board.resyncing.set(true);
        let done = self.array.resync(|_| ()).await;
        self.board.resyncing.set(false);
        self.patient.engine("resync", done.map(drop))
    }

    /// Nothing disagrees where all is known to be in sync, whatever clients do meanwhile. So nothing is written for it either.
    async fn scrub(&self, mode: SyncMode) -> Result<(), Failure> {
        let agrees = self.agrees && !self.array.needs_resync();
        match self.array.check(mode, |_| ()).await {
            Ok(report) if report.mismatch_sectors > 0 && agrees && !self.array.needs_resync() => {
                Err(Failure::Mismatch(report))
            }
            // A member is being rebuilt.
            Ok(_) | Err(ProcessError::Busy(_)) => Ok(()),
            Err(error) => self.patient.engine("scrub", Err(error)),
        }
    }
}
