//! Takes back writes to rows with lost blocks that failed for lack of space: the row gets its old content.
//!
//! Parity stands for blocks that are lost. A write that reached only some members, for lack of space, leaves parity
//! without meaning, and the old data of the lost blocks would be gone. So the old content, where it was read, is
//! written back in place, which takes no space. The members without space are read first, since a write of theirs may
//! have landed in part. For writes that did not read the old content see `parity_first.rs`.

use core::hash::Hasher;
use core::ops::Range;
use std::hash::DefaultHasher;

use brindle_io::{OpError, Slice};
use brindle_members::door::{Done, Refused};
use brindle_members::events::Cause;
use brindle_members::set::Owner as _;
use brindle_volume::VolumeError;

use super::super::plan::{Band, Bands, Health, Way};
use super::super::row_write::{Blocks, RowWrite, Tried, parity_blocks};
use super::super::window::{Planes, RowWindow};
use super::super::{Parity, parity_roles};

/// The bytes that a member held before a write, at `offset` of its data area.
struct Before {
    role: u16,
    offset: u64,
    memory: Slice,
}

impl Parity {
    /// Whether lack of space is the only reason why a write to a row that lacks a member was not carried out.
    pub(in crate::data::parity) fn must_undo(&self, health: &Health, outcome: &Done) -> bool {
        self.lacks_space(outcome) && (health.careful || health.writable == [false, false])
    }

    /// True if lack of space is the only failure of a write. Members that have failed meanwhile are not considered
    /// here.
    pub(in crate::data::parity) fn lacks_space(&self, outcome: &Done) -> bool {
        let refused = outcome.refused();
        !refused.is_empty() && refused.iter().all(|refused| self.core.waits_for_space(refused.error))
    }

    /// Ends a write of bands that lacked space, and whose parity was not computed from scratch: old data and parity
    /// are written back.
    ///
    /// # Errors
    /// Always: that there was no room.
    pub(in crate::data::parity) async fn undo_bands(
        &self,
        job: &RowWrite<'_>,
        health: &Health,
        bands: &Bands,
        blocks: &Blocks,
        outcome: &Done,
    ) -> Result<Tried, VolumeError> {
        self.undo_modified(job, health, bands, blocks, outcome).await;
        Err(self.end_without_space(outcome).await)
    }

    /// Writes the old content back to bands whose old data and parity were read. Where that fails, they are in doubt.
    pub(in crate::data::parity) async fn undo_modified(
        &self,
        job: &RowWrite<'_>,
        health: &Health,
        bands: &Bands,
        blocks: &Blocks,
        outcome: &Done,
    ) {
        let back: Bands = bands.iter().copied().filter(|band| band.way == Way::Modify).collect();
        // Adding the same change once more gives what parity was.
        self.compute(job, health, &back, blocks);
        let start = self.map.row_offset(job.number);
        let mut before = Vec::new();
        for band in &back {
            let mut add = |role, block| {
                before.push(Before { role, offset: start + band.lo, memory: blocks.slice(block, band) });
            };
            for piece in job.pieces.iter().filter(|piece| piece.covers(band)) {
                let Some(block) = blocks.old(piece.index) else { continue };
                add(job.row.data_member(piece.index), block);
            }
            let parity = parity_blocks(&job.row).filter(|(kind, _)| health.makes(band, *kind));
            parity.for_each(|(kind, role)| add(role, kind));
        }
        let window = RowWindow::of_row(job.number, blocks.cols());
        if !self.undo(&window, &before, outcome).await {
            self.doubt_bands(job, &back, outcome);
        }
    }

    /// Ends a write that failed for lack of space, in columns whose old content is all in `planes`.
    ///
    /// # Errors
    /// Always: that there was no room.
    pub(in crate::data::parity) async fn undo_rebuilt(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        health: &Health,
        bands: &Bands,
        planes: &Planes,
        outcome: &Done,
    ) -> Result<Tried, VolumeError> {
        // Without new data, parity comes out as it was.
        self.compute_rebuilt(&RowWrite { pieces: &[], ..*job }, cols.start, health, bands, planes);
        let start = self.map.row_offset(job.number);
        let mut before = Vec::new();
        let mut add = |role, lo: u64, hi: u64| {
            let part = (lo - cols.start) as usize..(hi - cols.start) as usize;
            before.push(Before {
                role,
                offset: start + lo,
                memory: planes.block(role, job.number).slice(part),
            });
        };
        for piece in job.pieces {
            add(job.row.data_member(piece.index), piece.lo, piece.hi);
        }
        for (_, role) in parity_blocks(&job.row).filter(|(kind, _)| health.writable[usize::from(*kind)]) {
            bands.iter().for_each(|band| add(role, band.lo, band.hi));
        }
        if !self.undo(&RowWindow::of_row(job.number, cols.clone()), &before, outcome).await {
            self.doubt_bands(job, bands, outcome);
        }
        Err(self.end_without_space(outcome).await)
    }

    /// Writes the old content back to members. True if all of them took it.
    async fn undo(&self, window: &RowWindow, before: &[Before], outcome: &Done) -> bool {
        let without_space = |role: u16| outcome.refused().iter().any(|refused| refused.role == role);
        let mut group = self.ask();
        for Before { role, offset, memory } in before {
            if let Some(device) = self.core.members.writable(*role) {
                group.write(device, *offset, memory, false);
            }
        }
        let Ok(written) = self.commit(window, group).await else { return false };
        let expected =
            |refused: &Refused| self.core.waits_for_space(refused.error) && without_space(refused.role);
        written.refused().iter().all(expected)
            && self.hold(before.iter().filter(|b| without_space(b.role))).await
    }

    /// True if every writable member holds the content in `expected` again. Reads into that memory: a task that has some never waits for
    /// more.
    async fn hold(&self, expected: impl Iterator<Item = &Before>) -> bool {
        let (mut group, mut due) = (self.ask(), Vec::new());
        for Before { role, offset, memory } in expected {
            if let Some(device) = self.core.members.writable(*role) {
                due.push((memory, digest(memory)));
                group.read(device, *offset, memory);
            }
        }
        group.submit().await.is_ok() && due.iter().all(|(memory, due)| digest(memory) == *due)
    }

    /// Parity's content in these bands is unknown from now on, with two exceptions: there is none, or it alone was to
    /// be written. In the latter case each of its sectors has the old or the new content, and so have the blocks that
    /// it stands for.
    fn doubt_bands(&self, job: &RowWrite<'_>, bands: &[Band], outcome: &Done) {
        let without_space: Vec<(u16, Cause)> =
            outcome.refused().iter().map(|refused| (refused.role, refused.into())).collect();
        for band in bands {
            let data = job.pieces.iter().filter(|piece| piece.covers(band));
            let data = data.map(|piece| job.row.data_member(piece.index));
            let written = |role: &u16| self.core.members.writable(*role).is_some();
            let parity = parity_roles(&job.row).filter(written).count();
            if parity > 0 && parity + data.filter(written).count() > 1 {
                let window = RowWindow::of_row(job.number, band.lo..band.hi);
                self.core.note_no_space(window.range(&self.map), &without_space);
            }
        }
    }

    /// Reports the members that are full; gives the writer's error.
    pub(in crate::data::parity) async fn end_without_space(&self, outcome: &Done) -> VolumeError {
        self.core.report_full(outcome);
        let settled = self.core.settle_writes(outcome, true).await;
        let without_space = outcome.refused().iter().find(|refused| refused.error == OpError::NoSpace);
        let role = without_space.map(|refused| refused.role);
        settled.err().unwrap_or(VolumeError::Member { role, error: OpError::NoSpace })
    }
}

/// A 64-bit hash of the bytes: different bytes have the same one only by chance.
fn digest(memory: &Slice) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&memory.bytes());
    hasher.finish()
}
