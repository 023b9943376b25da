//! Rebuilds lost members of parity arrays, window by window.

use core::ops::Range;

use brindle_layout::Row;
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::Parity;
use super::bad::Bad;
use super::load::LoadError;
use super::mend::STEP;
use super::window::{Planes, RowWindow};
use crate::data::mend::ReadFailures;
use crate::data::report::{SyncMode, SyncReport};
use crate::intent::Maintenance;
use crate::row_log::Change;

impl Parity {
    /// Rebuilds a range of the members of some roles, each row with one look at the others. Parity that this does not need is
    /// compared, and brought in sync, as md does: after a start by force it need not agree with what the others give.
    pub(crate) async fn recover(
        &self,
        roles: &[u16],
        pos: u64,
        len: u64,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let chunk = self.map.chunk();
        let rows: Range<u64> = pos / chunk..(pos + len).div_ceil(chunk).min(self.map.rows());
        for window in self.windows(rows, 0..chunk, 2, self.scrub_budget()) {
            let _held = self.locks.acquire(window.rows.clone(), Hold::Exclusive).await;
            match self.load_recovered(&window, roles).await {
                Ok(loaded) => self.write_recovered(&window, loaded, roles, report).await?,
                Err(LoadError::Members(_)) => {
                    for &role in roles.iter().filter(|&&role| self.core.members.writable(role).is_some()) {
                        self.recover_steps(&window, role, report).await?;
                    }
                }
                Err(LoadError::Volume(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// The bytes of a window of some roles, and whether parity that this did not need was loaded too, to be compared.
    async fn load_recovered(&self, window: &RowWindow, roles: &[u16]) -> Result<(Planes, bool), LoadError> {
        let first = window.rows.start;
        let there = |role: u16| self.readable_in(first, role).is_some();
        let lost = (0..self.width()).filter(|&role| !there(role)).count();
        // A member in sync that is read to fill its second device is not lost.
        let spare = lost < usize::from(self.map.parity_members()) && !roles.iter().copied().any(there);
        let wanted = |_: &Row, role: u16| roles.contains(&role) || spare && there(role);
        let planes = self.load(window, if spare { 2 } else { 0 }, wanted, &Bad::default()).await?;
        Ok((planes, spare))
    }

    /// Writes the [loaded](Self::load_recovered) data of some roles, and corrects parity that was not needed to
    /// compute it.
    async fn write_recovered(
        &self,
        window: &RowWindow,
        (planes, spare): (Planes, bool),
        roles: &[u16],
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        if spare {
            self.sync_spare_parity(window, &planes, roles, report).await?;
        }
        self.write_planes(window, &planes, roles).await
    }

    /// Compares parity that was not needed to rebuild some roles, and brings it in sync.
    async fn sync_spare_parity(
        &self,
        window: &RowWindow,
        planes: &Planes,
        rebuilt: &[u16],
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let (mut found, mut whole) = (SyncReport::default(), SmallVec::new());
        let there = |row, role| rebuilt.contains(&role) || self.readable_in(row, role).is_some();
        let repairs = self.compare(window, planes, there, SyncMode::Repair, &mut found, &mut whole);
        report.mismatch_sectors += found.mismatch_sectors;
        self.write_repairs(window, repairs, &mut found).await.map(drop)
    }

    /// Rebuilds a role's part of a window, not all of which can be read, and mends that. Blocks that the others can't give are
    /// left bad.
    async fn recover_steps(
        &self,
        window: &RowWindow,
        role: u16,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        for step in window.cut(STEP) {
            let mut read_failures = ReadFailures::default();
            let result = match self.recover_part(&step, role, report, &mut read_failures).await {
                Ok(written) => written,
                Err(_) => {
                    read_failures.forget_lost();
                    self.recover_blocks(&step, role, report, &mut read_failures).await
                }
            };
            self.core.judge(self.door(), read_failures).await;
            result?;
        }
        Ok(())
    }

    async fn recover_blocks(
        &self,
        step: &RowWindow,
        role: u16,
        report: &mut SyncReport,
        read_failures: &mut ReadFailures,
    ) -> Result<(), VolumeError> {
        let mut result = Ok(());
        for block in step.cut(u64::from(self.core.limits.block)) {
            let written = match self.recover_part(&block, role, report, read_failures).await {
                Ok(written) => written,
                Err(why) => self.core.leave_bad(role, block.range(&self.map), why, report).await,
            };
            result = result.and(written);
        }
        result
    }

    /// Rebuilds a role's part of a window of one row by all means, and gives the outcome of its write.
    ///
    /// # Errors
    /// Too little of the others can be read.
    async fn recover_part(
        &self,
        part: &RowWindow,
        role: u16,
        report: &mut SyncReport,
        read_failures: &mut ReadFailures,
    ) -> Result<Result<(), VolumeError>, VolumeError> {
        let loaded = match self.load_recovered(part, &[role]).await {
            Ok(loaded) => loaded,
            Err(error) => {
                // A member that did not give its bytes is not asked again. If the member could read them now, its
                // parity would not be compared.
                let mut bad = Bad::default();
                if let LoadError::Members(outcome) = error {
                    bad.add_all(&outcome);
                }
                (self.load_carefully(part, role, bad, read_failures).await?, false)
            }
        };
        Ok(self.write_recovered(part, loaded, &[role], report).await)
    }

    /// Writes what a window holds of some roles, as far as these are in use; of one at least.
    async fn write_planes(
        &self,
        window: &RowWindow,
        planes: &Planes,
        roles: &[u16],
    ) -> Result<(), VolumeError> {
        let members = &self.core.members;
        let mut group = self.ask();
        let mut maintenance: SmallVec<[Maintenance<'_>; 2]> = SmallVec::new();
        for &role in roles {
            let Some(device) = members.writable(role) else { continue };
            group.write_rebuilt(role, device, window.offset(&self.map, window.rows.start), &planes.all(role));
            maintenance
                .push(self.core.maintenance(Change::Member { role, range: window.range(&self.map) }).await?);
        }
        if group.is_empty() {
            return Err(VolumeError::TooManyLost);
        }
        let outcome = self.commit(window, group).await?;
        self.core.settle_writes(&outcome, true).await?;
        // A member that refused the write is out of use by now; the rest of the members were written.
        let gone = |role: &u16| members.writable(*role).is_none();
        let some_left = roles.len() > 1 && !roles.iter().all(gone);
        if some_left && outcome.refused().iter().all(|refused| gone(&refused.role)) {
            return Ok(());
        }
        outcome.named()
    }
}
