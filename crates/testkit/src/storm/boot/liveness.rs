//! Liveness: once faults end, the array becomes whole, or lacks what is truly lost; and that does not take for ever.

use brindle_array::{Array, ProcessError, RoleState, SyncMode};
use brindle_io::Duration;

use super::super::judge::Failure;
use super::{Patience, Run};
use crate::client::Client;

/// Once faults have ended, a boot may take this many times the steps of the same boot without faults.
const TIMES: u64 = 4;
/// A recovery that met an error is asked for again so often: what it met may have been passing.
const TRIES: u32 = 3;

impl Run {
    /// Faults end, redundancy is brought in sync, and what can be rebuilt is.
    pub(super) async fn make_whole(&self, client: &Client<Array>, patient: Patience) -> Result<(), Failure> {
        let array = client.volume();
        let before = self.stage.sim.steps();
        self.end_faults();
        self.bring_in_sync(client, patient).await?;
        let mut tries = 0;
        while !self.lacking(array).is_empty() && tries < TRIES {
            array.recover_again();
            self.recovered(array).await;
            tries += 1;
        }
        let (roles, steps) = (self.lacking(array), self.stage.sim.steps() - before);
        let is_late = self.boot.calm.is_some_and(|calm| steps > calm.saturating_mul(TIMES));
        if patient.errors || roles.is_empty() && !is_late {
            Ok(())
        } else {
            Err(Failure::NotAlive { roles, steps })
        }
    }

    /// Data that force gives may be wrong, but once members are rebuilt from it their redundancy agrees. No boot follows that would
    /// take it for true.
    pub(super) async fn resync_forced(&self, array: &Array) -> Result<(), Failure> {
        self.end_faults();
        array.recover_again();
        self.recovered(array).await;
        let whole = (0..array.geometry().members()).all(|role| array.state(role) == RoleState::InSync);
        match array.check(SyncMode::Check, |_| ()).await {
            Ok(report) if whole && report.mismatch_sectors > 0 => Err(Failure::Mismatch(report)),
            _ => Ok(()),
        }
    }

    /// Roles that lack what is not lost: a member that could be rebuilt, or to which nothing has happened.
    fn lacking(&self, array: &Array) -> Vec<u16> {
        let spares = array.spares().len();
        let is_lacking = |role: &u16| match array.state(*role) {
            RoleState::InSync => false,
            RoleState::Recovering(_) => true,
            RoleState::Missing | RoleState::Failed => spares > 0 || !self.is_struck(*role),
        };
        (0..array.geometry().members()).filter(is_lacking).collect()
    }

    /// Waits until nothing is being rebuilt.
    pub(super) async fn recovered(&self, array: &Array) {
        loop {
            // A recovery that can begin does so at once.
            self.io.sleep(Duration::from_millis(1)).await;
            if array.process().is_none() {
                return;
            }
        }
    }

    /// Redundancy is brought in sync if it is not, and then is.
    async fn bring_in_sync(&self, client: &Client<Array>, patient: Patience) -> Result<(), Failure> {
        let array = client.volume();
        // Discarded blocks read otherwise at each look, on each copy.
        let discarded = self.stage.plan.mix.discards > 0;
        if discarded && !self.boot.reads_only {
            patient.with(client.write_all().await)?;
        }
        if array.needs_resync() {
            self.board.resyncing.set(true);
            patient.engine("resync", array.resync(|_| ()).await.map(drop))?;
            self.board.resyncing.set(false);
        }
        let report = loop {
            self.recovered(array).await;
            match array.check(SyncMode::Check, |_| ()).await {
                // A member that failed just now is being rebuilt.
                Err(ProcessError::Busy(_)) => {}
                report => break report,
            }
        };
        let may_differ = patient.errors || discarded && self.boot.reads_only;
        match report {
            Ok(report) if report.mismatch_sectors > 0 && !may_differ => Err(Failure::Mismatch(report)),
            Ok(_) => Ok(()),
            Err(error) => patient.engine("check", Err(error)),
        }
    }
}
