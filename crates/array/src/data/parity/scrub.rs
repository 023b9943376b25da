//! Compares parity with the data, and corrects it.

use core::ops::Range;

use brindle_io::OpError;
use brindle_layout::{ParityRows, Row};
use brindle_members::door::MemberOps;
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::bad::Bad;
use super::load::LoadError;
use super::locate::locate;
use super::mend::STEP;
use super::solve::{agrees, generate_part};
use super::window::{Blocks, Planes, RowWindow};
use super::{PAGE, Parity, data_roles};
use crate::data::mend::ReadFailures;
use crate::data::report::{BadPlace, Mismatch, MismatchKind, SyncMode, SyncReport};
use crate::row_log::Change;

/// Bytes of each block that are compared at a time, and of parity that are computed where they differ: those stay in the
/// processor's first cache.
const STRIP: usize = 4 * PAGE as usize;

/// Bytes of scratch of a window where reads are copies from memory. Several windows under way stay in a core's second cache: RAID 6 x6
/// took an eighth to a sixth less than with those for devices.
const IN_CACHE: u64 = 512 << 10;

impl Parity {
    /// Bytes of scratch that a window of a scrub may take: it prefers few large reads.
    pub(super) fn scrub_budget(&self) -> u64 {
        self.budget() * 2
    }

    /// The same of a check or resync, which goes over what it has read once.
    fn compare_budget(&self) -> u64 {
        self.window_budget(2, self.scrub_budget(), IN_CACHE)
    }

    pub(crate) async fn sync(
        &self,
        pos: u64,
        len: u64,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let chunk = self.map.chunk();
        let rows = pos / chunk..(pos + len).div_ceil(chunk).min(self.map.rows());
        for window in self.windows(rows, 0..chunk, 2, self.compare_budget()) {
            let _held = self.locks.acquire(window.rows.clone(), Hold::Exclusive).await;
            let given = self.given_in(&window);
            let wanted = |row: &Row, role: u16| self.is_compared(window.rows.start, given, row, role);
            match self.load(&window, 2, wanted, &Bad::default()).await {
                Ok(planes) => self.sync_planes(&window, &planes, mode, report).await?,
                Err(LoadError::Members(_)) => self.sync_steps(&window, mode, report).await?,
                Err(LoadError::Volume(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Compares a window that is in memory, and brings it in sync.
    async fn sync_planes(
        &self,
        window: &RowWindow,
        planes: &Planes,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let mut whole: SmallVec<[u64; 8]> = SmallVec::new();
        let given = self.given_in(window);
        let there = |row: u64, role: u16| self.is_compared(row, given, &self.map.row(row), role);
        let repairs = self.compare(window, planes, there, mode, report, &mut whole);
        let written = self.write_repairs(window, repairs, report).await?;
        if written && mode != SyncMode::Check {
            let note =
                |&row: &u64| self.note_window_in_sync(&RowWindow::of_row(row, window.cols.clone()), false);
            whole.iter().for_each(note);
        }
        Ok(())
    }

    /// The one role whose data P is presumed to give in a window: they are compared with Q.
    fn given_in(&self, window: &RowWindow) -> Option<u16> {
        let role = self.core.keeper.presumed.role_in(&window.range(&self.map))?;
        let is_lost = |role: &u16| self.readable_in(window.rows.start, *role).is_none();
        (0..self.width()).filter(is_lost).eq([role]).then_some(role)
    }

    /// Whether a role's block of a row is there to be compared, or `given` by P.
    fn is_compared(&self, row: u64, given: Option<u16>, roles: &Row, role: u16) -> bool {
        let is_data = roles.p() != role && roles.q() != Some(role);
        given == Some(role) && is_data || self.readable_in(row, role).is_some()
    }

    /// Writes what brings a window in sync. False if members have no room for it: it is brought in sync once they have.
    pub(super) async fn write_repairs(
        &self,
        window: &RowWindow,
        repairs: MemberOps<'_>,
        report: &mut SyncReport,
    ) -> Result<bool, VolumeError> {
        if repairs.is_empty() {
            return Ok(true);
        }
        let _maintenance = self.core.maintenance(Change::Redundancy(window.range(&self.map))).await?;
        let outcome = self.commit(window, repairs).await?;
        if self.given_in(window).is_some() && self.lacks_space(&outcome) {
            // P is as it was, and gives what is lost.
            self.core.await_space(window.range(&self.map), &outcome);
            report.unverified += window.plane();
            return Ok(false);
        }
        match self.core.settle_range(&outcome, true, window.range(&self.map)).await {
            Err(VolumeError::Member { error: OpError::NoSpace, .. }) => {
                report.unverified += window.plane();
                Ok(false)
            }
            settled => settled.map(|()| true),
        }
    }

    /// Processes a window with unreadable parts in steps, and block by block where a step has places that can be
    /// neither read nor rebuilt. Such blocks are counted and named; only new data make them readable again.
    async fn sync_steps(
        &self,
        window: &RowWindow,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        for step in window.cut(STEP) {
            let left = self.sync_step_judged(&step, mode, report).await?;
            if left.is_empty() {
                continue;
            }
            let mut read_failures = ReadFailures::default();
            for block in step.cut(u64::from(self.core.limits.block)) {
                let left = self.sync_step(&block, mode, report, &mut read_failures).await?;
                note_unreadable(&self.map, &block, &left, report);
            }
            self.core.judge(self.door(), read_failures).await;
        }
        Ok(())
    }

    /// [`Parity::sync_step`]; once more if a member has been failed for what it could not read.
    async fn sync_step_judged(
        &self,
        step: &RowWindow,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<Bad, VolumeError> {
        loop {
            let (lost, mut read_failures) = (self.core.members.lost(), ReadFailures::default());
            let left = self.sync_step(step, mode, report, &mut read_failures).await?;
            read_failures.forget_lost();
            self.core.judge(self.door(), read_failures).await;
            if let Some(role) = left.silent().filter(|&role| self.core.members.is_slow(role)) {
                self.core.answered(role).await?;
                continue;
            }
            if left.is_empty() || self.core.members.lost() <= lost {
                return left.absent().map_or(Ok(left), Err);
            }
        }
    }

    /// Compares a window of one row, which the caller holds, with what can't be read rebuilt and mended, and makes it
    /// true. Gives the members that hinder that: they can't read their bytes, nor be given them anew.
    async fn sync_step(
        &self,
        window: &RowWindow,
        mode: SyncMode,
        report: &mut SyncReport,
        read_failures: &mut ReadFailures,
    ) -> Result<Bad, VolumeError> {
        let (row, given) = (window.rows.start, self.given_in(window));
        let mut bad = Bad::default();
        let planes = loop {
            let wanted = |roles: &Row, role: u16| self.is_compared(row, given, roles, role);
            match self.load(window, 2, wanted, &bad).await {
                Ok(planes) => break planes,
                Err(LoadError::Members(outcome)) if bad.add_all(&outcome) => {}
                Err(LoadError::Members(outcome)) => {
                    return Err(outcome.named().err().unwrap_or(VolumeError::TooManyLost));
                }
                Err(LoadError::Volume(error)) if bad.is_empty() => return Err(error),
                Err(LoadError::Volume(_)) => {
                    self.note_window(window, &bad, read_failures);
                    return Ok(bad);
                }
            }
        };
        let left = self.mend(window, &planes, &bad, read_failures).await;
        for (role, _) in bad.iter().filter(|(role, _)| !left.has(*role)) {
            report.note_bad(BadPlace {
                role,
                offset: window.offset(&self.map, row),
                len: window.width(),
                mended: true,
            });
        }
        if planes.are_pinned() {
            return Err(VolumeError::Member { role: bad.silent(), error: OpError::TimedOut });
        }
        if left.is_empty() {
            self.sync_planes(window, &planes, mode, report).await?;
        }
        Ok(left)
    }

    /// The pages of a row in which P or Q, as far as there, differ from those of the data, which the planes of `into` have then.
    ///
    /// Bytes that agree are not written anywhere. Behind some that don't, others are likely: those are computed at once.
    fn differing(
        &self,
        roles: &Row,
        blocks: &mut Blocks<'_>,
        there: (Option<u16>, Option<u16>),
        into: (Option<u16>, Option<u16>),
    ) -> Vec<Range<usize>> {
        let (mut pages, mut differed) = (Vec::new(), false);
        let pairs = || [there.0.zip(into.0), there.1.zip(into.1)].into_iter().flatten();
        for strip in pieces_of(0..blocks.first().map_or(0, |block| block.len()), STRIP) {
            if !differed && agrees(self.kernel, roles, blocks, there, strip.clone()) {
                continue;
            }
            generate_part(self.kernel, roles, blocks, into, strip.clone());
            let before = pages.len();
            let is_bad =
                |page: &Range<usize>| pairs().any(|(role, plane)| differs(blocks, role, plane, page));
            pages.extend(pieces_of(strip, PAGE as usize).filter(is_bad));
            differed = pages.len() > before;
        }
        pages
    }

    /// Counts mismatches of the members whose planes are `there`, by row and role; gives the writes that bring it in
    /// sync as
    /// `mode` has it, and adds the rows that are in sync then to `whole`.
    pub(super) fn compare(
        &self,
        window: &RowWindow,
        planes: &Planes,
        there_in: impl Fn(u64, u16) -> bool,
        mode: SyncMode,
        report: &mut SyncReport,
        whole: &mut SmallVec<[u64; 8]>,
    ) -> MemberOps<'_> {
        let computed = (self.width(), self.width() + 1);
        let mut group = self.ask();
        let mut bytes = planes.bytes_mut();
        for row in window.rows.clone() {
            let roles = self.map.row(row);
            let there = |role: u16| there_in(row, role);
            if !data_roles(&roles).all(there) {
                report.unverified += window.width();
                continue;
            }
            let p = Some(roles.p()).filter(|&role| there(role));
            let q = roles.q().filter(|&role| there(role));
            let mut blocks = planes.blocks(&mut bytes, row);
            let into = (p.map(|_| computed.0), q.map(|_| computed.1));
            let judged = p.is_some()
                && q.is_some()
                && data_roles(&roles).all(|role| self.readable_in(row, role).is_some())
                && self.is_in_sync(row, &window.cols);
            let mut left = 0;
            for page in self.differing(&roles, &mut blocks, (p, q), into) {
                let at = page.start as u64;
                let bad = [
                    (p.filter(|&p| differs(&blocks, p, computed.0, &page)), computed.0, MismatchKind::P),
                    (q.filter(|&q| differs(&blocks, q, computed.1, &page)), computed.1, MismatchKind::Q),
                ];
                let sectors = page.len().div_ceil(512) as u64;
                report.mismatch_sectors += sectors;
                let offset = window.offset(&self.map, row);
                let (wrong, unlocated) = if judged {
                    locate(&roles, &blocks, computed, page.clone(), self.core.limits.block as usize)
                } else {
                    (Vec::new(), sectors)
                };
                left += unlocated;
                for wrong in wrong {
                    let (role, kind) = (wrong.role, wrong.kind);
                    let (offset, len) = (offset + wrong.bytes.start as u64, wrong.bytes.len() as u64);
                    report.note_located(Mismatch { role, offset, len, kind, located: true });
                    if let (SyncMode::Locate, Some(device)) = (mode, self.core.members.writable(role)) {
                        let plane = wrong.mend(&roles, &mut blocks, computed);
                        group.write(device, offset, &planes.block(plane, row).slice(wrong.bytes), false);
                    }
                }
                for (role, computed, kind) in bad {
                    let Some(role) = role else { continue };
                    let offset = offset + at;
                    if unlocated > 0 {
                        report.note(Mismatch { role, offset, len: page.len() as u64, kind, located: false });
                    }
                    if let (SyncMode::Repair, Some(device)) = (mode, self.core.members.writable(role)) {
                        let good = planes.block(computed, row).slice(page.clone());
                        group.write(device, offset, &good, false);
                    }
                }
            }
            report.unlocated += left;
            if left == 0 || mode == SyncMode::Repair {
                whole.push(row);
            }
        }
        group
    }
}

/// A range in pieces of so many bytes, of which the last may be shorter.
fn pieces_of(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(len).map(move |at| at..(at + len).min(end))
}

/// Whether a role's block differs from the one computed for it.
fn differs(blocks: &Blocks<'_>, role: u16, computed: u16, page: &Range<usize>) -> bool {
    blocks[usize::from(role)][page.clone()] != blocks[usize::from(computed)][page.clone()]
}

/// Names the places of a window of one row that hinder its comparison, and counts the window as not compared.
fn note_unreadable(map: &ParityRows, window: &RowWindow, left: &Bad, report: &mut SyncReport) {
    let offset = window.offset(map, window.rows.start);
    for (role, _) in left.iter() {
        report.note_bad(BadPlace { role, offset, len: window.width(), mended: false });
    }
    report.unverified += if left.is_empty() { 0 } else { window.width() };
}
