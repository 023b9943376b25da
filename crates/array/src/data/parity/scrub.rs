//! Parity compared with the data, and made true.

use core::ops::Range;

use brindle_io::{Group, OpError, Outcome};
use brindle_layout::{ParityRows, Row};
use smallvec::SmallVec;

use super::rebuild::LoadError;
use super::solve::generate_into;
use super::window::{Planes, Window};
use super::{PAGE, data_roles};
use crate::array::Inner;
use crate::data::lock::Hold;
use crate::data::sync::{Mismatch, MismatchKind, SyncMode, SyncReport};
use crate::volume::VolumeError;

/// How often a window begins anew after errors of members.
const ATTEMPTS: usize = 8;

/// A member gave an error for these bytes, and is in use still.
fn is_unreadable(error: VolumeError) -> bool {
    matches!(error, VolumeError::Member(error) if error != OpError::Gone)
}

impl Inner {
    /// Bytes of scratch that a window of a scrub may take: it prefers few large reads.
    fn scrub_budget(&self) -> u64 {
        self.budget() * 2
    }

    pub(crate) async fn sync_parity(
        &self,
        map: &ParityRows,
        pos: u64,
        len: u64,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let chunk = map.chunk();
        let rows = pos / chunk..(pos + len).div_ceil(chunk).min(map.rows());
        for window in self.windows(rows, 0..chunk, 2, self.scrub_budget()) {
            let _held = self.locks.acquire(window.rows.clone(), Hold::Exclusive).await;
            match self.sync_held(map, &window, mode, report).await {
                Err(error) if is_unreadable(error) => self.sync_blocks(map, &window, mode, report).await?,
                result => result?,
            }
        }
        Ok(())
    }

    /// Compares a window, which the caller holds, and makes it true.
    async fn sync_held(
        &self,
        map: &ParityRows,
        window: &Window,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let planes = self.load_all(map, window, None).await?;
        let mut whole: SmallVec<[u64; 8]> = SmallVec::new();
        let repairs = self.compare(map, window, &planes, mode, report, &mut whole);
        if !repairs.is_empty() {
            let outcome = repairs.submit().await;
            self.settle_writes(&outcome, true).await?;
        }
        if mode == SyncMode::Repair {
            let note = |&row: &u64| self.note_true(map, &Window::of_row(row, window.cols.clone()), false);
            whole.iter().for_each(note);
        }
        Ok(())
    }

    /// [`Inner::sync_held`] of a window in which something can neither be read nor rebuilt, block by block: where
    /// parity is not known true, such blocks are counted and left to whoever writes them anew.
    async fn sync_blocks(
        &self,
        map: &ParityRows,
        window: &Window,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        for step in window.cut(self.mend_step()) {
            match self.sync_held(map, &step, mode, report).await {
                Err(error) if is_unreadable(error) => {}
                result => {
                    result?;
                    continue;
                }
            }
            for block in step.cut(u64::from(self.limits.block)) {
                let known = self.is_true(map, block.rows.start, &block.cols);
                match self.sync_held(map, &block, mode, report).await {
                    Err(error) if is_unreadable(error) && !known => report.unverified += block.width(),
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Loads a window with every member that can be read, or with `only` one of them rebuilt; mends what can't be.
    async fn load_all(
        &self,
        map: &ParityRows,
        window: &Window,
        only: Option<u16>,
    ) -> Result<Planes, VolumeError> {
        let mut last = VolumeError::TooManyLost;
        for _ in 0..ATTEMPTS {
            let row = window.rows.start;
            let wanted = |_: &Row, role: u16| match only {
                Some(only) => role == only,
                None => self.readable_in(map, row, role).is_some(),
            };
            match self.load(map, window, 2, wanted, &[]).await {
                Ok(planes) => return Ok(planes),
                Err(LoadError::Volume(error)) => return Err(error),
                Err(LoadError::Members(outcome)) => {
                    last = outcome.ok().err().map_or(last, VolumeError::Member);
                    self.mend_window(map, window, &outcome).await?;
                }
            }
        }
        Err(last)
    }

    async fn mend_window(
        &self,
        map: &ParityRows,
        window: &Window,
        failed: &Outcome,
    ) -> Result<(), VolumeError> {
        for failure in failed.failures() {
            let Some(role) = failure.kind.member().and_then(|member| self.role_of(member)) else { continue };
            if failure.error == OpError::Gone {
                self.fail_member(role, failure.error, false).await?;
                continue;
            }
            for row in window.rows.clone() {
                self.mend_block(map, row, window.cols.clone(), role).await?;
            }
        }
        Ok(())
    }

    /// Counts what disagrees; gives the writes that make it true, none if it is only to be counted, and adds the rows
    /// that are true then to `whole`.
    fn compare(
        &self,
        map: &ParityRows,
        window: &Window,
        planes: &Planes,
        mode: SyncMode,
        report: &mut SyncReport,
        whole: &mut SmallVec<[u64; 8]>,
    ) -> Group {
        let computed = (self.members.len(), self.members.len() + 1);
        let mut group = self.io.group();
        let mut bytes = planes.bytes_mut();
        for row in window.rows.clone() {
            let roles = map.row(row);
            let there = |role: u16| self.readable_in(map, row, role).is_some();
            if !data_roles(&roles).all(there) {
                report.unverified += window.width();
                continue;
            }
            whole.push(row);
            let p = Some(roles.p()).filter(|&role| there(role));
            let q = roles.q().filter(|&role| there(role));
            let mut blocks = planes.blocks(&mut bytes, row);
            let into = (p.map(|_| computed.0), q.map(|_| computed.1));
            generate_into(self.kernel, &roles, &mut blocks, into);
            for at in (0..window.width()).step_by(PAGE as usize) {
                let page = at as usize..(at + PAGE).min(window.width()) as usize;
                let differs = |role: Option<u16>, computed: u16| {
                    role.filter(|&role| {
                        blocks[usize::from(role)][page.clone()] != blocks[usize::from(computed)][page.clone()]
                    })
                };
                let bad = [
                    (differs(p, computed.0), computed.0, MismatchKind::P),
                    (differs(q, computed.1), computed.1, MismatchKind::Q),
                ];
                let sectors = page.len().div_ceil(512) as u64;
                report.mismatch_sectors += sectors * u64::from(bad.iter().any(|(role, ..)| role.is_some()));
                for (role, computed, kind) in bad {
                    let Some(role) = role else { continue };
                    let offset = window.offset(map, row) + at;
                    report.note(Mismatch { role, offset, kind });
                    if let (SyncMode::Repair, Some(device)) = (mode, self.members.writable(role)) {
                        let good = planes.block(computed, row).slice(page.clone());
                        group.write(device.id, device.data_offset + offset, &good, false);
                    }
                }
            }
        }
        group
    }

    pub(crate) async fn recover_parity(
        &self,
        map: &ParityRows,
        role: u16,
        pos: u64,
        len: u64,
    ) -> Result<(), VolumeError> {
        let chunk = map.chunk();
        let rows: Range<u64> = pos / chunk..(pos + len).div_ceil(chunk).min(map.rows());
        for window in self.windows(rows, 0..chunk, 2, self.scrub_budget()) {
            let _held = self.locks.acquire(window.rows.clone(), Hold::Exclusive).await;
            let planes = self.load_all(map, &window, Some(role)).await?;
            let device = self.members.writable(role).ok_or(VolumeError::TooManyLost)?;
            let mut group = self.io.group();
            let offset = device.data_offset + window.offset(map, window.rows.start);
            group.write(device.id, offset, &planes.all(role), false);
            let outcome = group.submit().await;
            self.settle_writes(&outcome, true).await?;
            outcome.ok()?;
        }
        Ok(())
    }
}
