//! Writes to rows that lack a member and whose parity is recomputed: parity is written before data.
//!
//! Such a write reads nothing that it replaces, so that it can't be taken back when a member has no space. Written
//! all at once it could leave new data under old parity, and the meaning of parity would be unknown. If parity is
//! written first and finds no space, all data are as they were. Where some parity did land, it is computed again from
//! the old data and rewritten in place, which takes no space. If the data find no space afterwards, parity is
//! recomputed in the same way. Each sector of lost blocks then has its old or its new content, like the sectors of
//! other blocks.
//!
//! With two blocks lost, one parity that landed and one that did not would tell neither: such rows are read whole
//! (`plan.rs`) and taken back (`undo.rs`).

use core::ops::Range;

use brindle_members::door::Done;
use brindle_members::events::Cause;
use brindle_members::set::Owner as _;
use brindle_volume::VolumeError;

use super::super::Parity;
use super::super::plan::{Band, Bands, Health, Way};
use super::super::row_write::{Blocks, RowWrite, Tried, parity_blocks, with_new};
use super::super::solve::{SmallSlots, generate, slots};
use super::super::window::{self, Planes, RowWindow};

/// Blocks of members are compared in this unit: no device has smaller blocks.
const SECTOR: usize = 512;

/// The part of a write that had been sent when a member turned out to lack space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::data::parity) enum Sent {
    /// Parity, of which some may not have landed.
    Parity,
    /// All, and parity has landed.
    All,
}

/// The outcomes of the parity writes and of the data writes after them.
pub(in crate::data::parity) struct Both {
    pub(in crate::data::parity) parity: Done,
    pub(in crate::data::parity) rest: Done,
}

impl Parity {
    /// Writes bands as computed, some of whose parity was recomputed: that first.
    pub(in crate::data::parity) async fn write_apart(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        health: &Health,
        bands: &Bands,
        blocks: Blocks,
    ) -> Result<Tried, VolumeError> {
        let (anew, others): (Bands, Bands) =
            bands.iter().copied().partition(|band| band.way == Way::Reconstruct);
        let window = RowWindow::of_row(job.number, cols.clone());
        let mut group = self.ask();
        self.write_made(job, health, &anew, &blocks, &mut group);
        let parity = self.commit(&window, group).await?;
        let mut rest = Done::default();
        if !self.is_kept_by_any(&parity) {
            let mut group = self.ask();
            self.write_data(job, &mut group);
            self.write_made(job, health, &others, &blocks, &mut group);
            rest = self.commit(&window, group).await?;
        }
        let both = Both { parity, rest };
        let Some((sent, outcome)) = self.short_of_space(&both) else {
            self.settle_both(&both, window.range(&self.map)).await?;
            return self.settle_bands(job, bands);
        };
        if sent == Sent::All {
            self.undo_modified(job, health, &others, &blocks, outcome).await;
        }
        // Scratch must be given back before more is waited for, or writes could wait for one another.
        drop(blocks);
        for band in &anew {
            self.agree_or_doubt(job, &(band.lo..band.hi), sent, outcome).await;
        }
        Err(self.end_without_space(outcome).await)
    }

    /// Whether members that refused stay in use.
    pub(in crate::data::parity) fn is_kept_by_any(&self, outcome: &Done) -> bool {
        outcome.refused().iter().any(|refused| self.core.is_kept(refused.role, refused.error))
    }

    /// The part that had been sent, and its outcome, if lack of space was the only failure.
    pub(in crate::data::parity) fn short_of_space<'a>(&self, both: &'a Both) -> Option<(Sent, &'a Done)> {
        if self.lacks_space(&both.parity) {
            return Some((Sent::Parity, &both.parity));
        }
        (both.parity.is_ok() && self.lacks_space(&both.rest)).then_some((Sent::All, &both.rest))
    }

    pub(in crate::data::parity) async fn settle_both(
        &self,
        both: &Both,
        range: Range<u64>,
    ) -> Result<(), VolumeError> {
        let parity = self.core.settle_range(&both.parity, true, range.clone()).await;
        parity.and(self.core.settle_range(&both.rest, true, range).await)
    }

    /// Makes parity agree with the data present in columns of a row all of whose lost blocks were to be written,
    /// after a part of that found no space. If it can't, the meaning of parity is unknown there.
    pub(in crate::data::parity) async fn agree_or_doubt(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        sent: Sent,
        outcome: &Done,
    ) {
        if !parity_blocks(&job.row).any(|(_, role)| self.core.members.writable(role).is_some()) {
            return;
        }
        for window in self.windows(job.number..job.number + 1, cols.clone(), 2, self.budget()) {
            if self.agree(job, &window, sent).await.is_none() {
                let without_space: Vec<(u16, Cause)> =
                    outcome.refused().iter().map(|refused| (refused.role, refused.into())).collect();
                self.core.note_no_space(window.range(&self.map), &without_space);
            }
        }
    }

    /// See [`Parity::agree_or_doubt`]; `None` if it did not come about.
    async fn agree(&self, job: &RowWrite<'_>, window: &RowWindow, sent: Sent) -> Option<()> {
        // Two planes more: for the new P and Q.
        let planes = self.planes(window, 2).await;
        let health = self.health(job.number, &job.row, &window.cols, job.unreadable).ok()?;
        let band = Band::made_anew(&window.cols);
        let known = |index: &u16| job.pieces.iter().any(|piece| piece.index == *index && piece.covers(&band));
        if !health.known || health.lost.len() > 1 || !health.lost.iter().all(known) {
            return None;
        }
        let offset = window.offset(&self.map, job.number);
        let lost = health.lost.first().map(|&index| job.row.data_member(index));
        let there = |role: u16| self.readable_in(job.number, role).filter(|_| !job.unreadable.has(role));
        let mut group = self.ask();
        for role in 0..self.width() {
            if let Some(device) = there(role) {
                group.read(device, offset, &planes.block(role, job.number));
            }
        }
        group.submit().await.ok().ok()?;
        self.compute_agreement(job, window, &health, sent, &planes);

        let mut group = self.ask();
        for (kind, role) in parity_blocks(&job.row) {
            let Some(device) = self.core.members.writable(role) else { continue };
            let due = planes.block(self.width() + kind, job.number);
            if !health.readable[usize::from(kind)] {
                group.write(device, offset, &due, false);
                continue;
            }
            let block =
                self.core.io.member_info(device.id).map_or(SECTOR, |info| info.logical_block as usize);
            for run in differing(block, &planes.block(role, job.number).bytes(), &due.bytes()) {
                group.write(device, offset + run.start as u64, &due.slice(run), false);
            }
        }
        // A member that is being rebuilt may have passed this row already.
        let rebuilding = lost.filter(|&role| self.readable_in(job.number, role).is_none());
        if let Some((role, device)) =
            rebuilding.and_then(|role| Some((role, self.core.members.writable(role)?)))
        {
            group.write(device, offset, &planes.block(role, job.number), false);
        }
        self.commit(window, group).await.ok()?.ok().ok()
    }

    /// Computes the lost block and parity that agree with the data that is there, from planes that hold it.
    fn compute_agreement(
        &self,
        job: &RowWrite<'_>,
        window: &RowWindow,
        health: &Health,
        sent: Sent,
        planes: &Planes,
    ) {
        let mut bytes = planes.bytes_mut();
        let mut blocks = planes.blocks(&mut bytes, job.number);
        let members = usize::from(self.width());
        let [p, q] = [members, members + 1].map(|plane| core::mem::take(&mut blocks[plane]));
        let band = Band::made_anew(&window.cols);
        if let Some(&index) = health.lost.first() {
            let lost = core::mem::take(&mut blocks[usize::from(job.row.data_member(index))]);
            if let Some(piece) = job.pieces.iter().find(|piece| piece.index == index && piece.covers(&band)) {
                lost.copy_from_slice(&piece.part(band.lo, band.hi).bytes());
            }
            if sent == Sent::Parity {
                // The block as it was to be. Where the block on the member differs, it is old, and gives the old lost
                // block.
                let there = |index: u16| Some(&*blocks[usize::from(job.row.data_member(index))]);
                let old = |other: u16| there(other).filter(|_| other != index);
                with_new(job, &band, old, |slots| generate(self.kernel, slots, Some(p), Some(&mut *q)));
                self.take_old(job, health, index, &blocks, [&*p, &*q], lost);
            }
            blocks[usize::from(job.row.data_member(index))] = lost;
        }
        let q = job.row.q().is_some().then_some(q);
        generate(self.kernel, &slots(&job.row, &blocks), Some(p), q);
    }

    /// Gives a lost block the sectors that it had where a parity is not the new one.
    fn take_old(
        &self,
        job: &RowWrite<'_>,
        health: &Health,
        index: u16,
        blocks: &window::Blocks<'_>,
        new: [&[u8]; 2],
        lost: &mut [u8],
    ) {
        let slot = usize::from(job.row.data_slot(index));
        for (kind, role) in parity_blocks(&job.row).filter(|(kind, _)| health.readable[usize::from(*kind)]) {
            let there = &*blocks[usize::from(role)];
            for run in differing(SECTOR, there, new[usize::from(kind)]) {
                let mut terms = SmallSlots::zeroes(&job.row);
                for (term, data) in terms.iter_mut().zip(slots(&job.row, blocks)) {
                    *term = data.get(run.clone()).unwrap_or_default();
                }
                if kind == 0 {
                    terms.push(&there[run.clone()]);
                    self.kernel.xor(&terms, &mut lost[run]);
                } else {
                    self.kernel.recover_one_from_q(&terms, slot, &there[run.clone()], &mut lost[run]);
                }
            }
        }
    }
}

/// Runs in which two blocks differ, in units of `step` bytes.
fn differing(step: usize, one: &[u8], other: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (n, (one, other)) in one.chunks(step).zip(other.chunks(step)).enumerate() {
        if one == other {
            continue;
        }
        let at = n * step;
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + one.len(),
            _ => runs.push(at..at + one.len()),
        }
    }
    runs
}
