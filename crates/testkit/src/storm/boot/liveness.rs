//! Liveness: once faults end, the array becomes whole, or lacks what is truly lost; and that does not take for ever.

use brindle_array::{Array, ProcessError, RoleState, SyncMode};
use brindle_io::Duration;
use brindle_layout::Level;
use brindle_volume::Volume;

use super::super::judge::Failure;
use super::{Patience, Run};
use crate::client::Client;
use crate::load::Request;
use crate::world;

/// Once faults have ended, a boot may take this many times the steps of the same boot without faults.
const TIMES: u64 = 4;
/// A recovery that met an error is asked for again so often: what it met may have been passing.
const TRIES: u32 = 3;
/// Bytes of an array that was forced that are compared at once.
const PIECE: u64 = 16 << 10;

/// Pieces of an array, without those that can't be read.
type Pieces = Vec<Option<Vec<u8>>>;

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
    ///
    /// A RAID 6 that lacks one goes on with what it gives then, and with what is written to it: both stay what they are when
    /// a second member goes.
    pub(super) async fn resync_forced(&self, client: &Client<Array>) -> Result<(), Failure> {
        self.end_faults();
        let array = client.volume();
        let is_kept = array.geometry().level() == Level::Raid6
            && array.detail().degraded == 1
            && self.stage.plan.mix.discards == 0
            && !self.stage.plan.container;
        let mut content = Pieces::new();
        if is_kept {
            self.write_some(client).await;
            content = self.content(array).await;
        }
        if array.needs_resync() {
            // An error of a member is none of ours.
            let _ended = array.resync(|_| ()).await;
        }
        array.recover_again();
        self.recovered(array).await;
        let whole = (0..array.geometry().members()).all(|role| array.state(role) == RoleState::InSync);
        match array.check(SyncMode::Check, |_| ()).await {
            Ok(report) if whole && report.mismatch_sectors > 0 => return Err(Failure::Mismatch(report)),
            _ => {}
        }
        let second = (0..array.geometry().members()).find(|&role| array.state(role) == RoleState::InSync);
        let Some(second) = second.filter(|_| is_kept && !array.needs_resync()) else { return Ok(()) };
        if array.fail(second).await.is_err() {
            return Ok(());
        }
        let now = self.content(array).await;
        // A piece that can't be read, before or now, is not wrong.
        let differs = |(before, now): (&Option<Vec<u8>>, &Option<Vec<u8>>)| {
            before.as_ref().zip(now.as_ref()).is_some_and(|(before, now)| before != now)
        };
        match content.iter().zip(&now).position(differs) {
            Some(at) => Err(Failure::NotKept { offset: at as u64 * PIECE }),
            None => Ok(()),
        }
    }

    /// Writes to some blocks, in rows near and far.
    async fn write_some(&self, client: &Client<Array>) {
        let (size, block) = (self.known_size(client.volume()), u64::from(client.volume().limits().block));
        for offset in (0..size).step_by((size / 8).next_multiple_of(block) as usize) {
            // Members may refuse.
            let _answer = client.ask(Request::Write { offset, len: block, fua: false }).await;
        }
    }

    /// All that can be read, in pieces.
    async fn content(&self, array: &Array) -> Pieces {
        let size = self.known_size(array);
        let mut content = Pieces::new();
        for at in (0..size).step_by(PIECE as usize) {
            let len = PIECE.min(size - at) as usize;
            content.push(world::read(&self.pool, array, at, len).await.ok());
        }
        content
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
