//! Writes a part of one row: reads the blocks that its plan needs, computes parity, writes data and parity at once.
//!
//! All members are written in one group, so whichever of them refuse, the others agree: parity gives the data that a
//! failed member lacks. Where blocks are lost, parity that was computed from new data alone is written first
//! (`no_space/parity_first.rs`).

use core::ops::Range;

use brindle_io::{Buf, OpError, Slice};
use brindle_layout::Row;
use brindle_members::door::{Done, MemberOps, Refused};
use brindle_volume::{VolumeError, stretches};
use smallvec::SmallVec;

use super::bad::Bad;
use super::batch::Batch;
use super::load::LoadError;
use super::plan::{Band, Bands, Health, Pieces, Way, WritePiece, WritePlan, plan, reads_data};
use super::solve::{SmallSlots, generate};
use super::window::{Planes, RowWindow};
use super::{PAGE, Parity, parity_roles};
use crate::data::is_lost;

/// How often a write begins anew after members gave errors; each time something is mended or a member less is used.
const ATTEMPTS: usize = 8;

/// The work on some columns of a row.
pub(super) struct RowWrite<'a> {
    pub(super) number: u64,
    pub(super) row: Row,
    pub(super) pieces: &'a [WritePiece],
    pub(super) fua: bool,
    /// Roles whose bytes in these columns can't be read, nor made readable.
    pub(super) unreadable: &'a Bad,
}

/// The outcome of an attempt to write.
pub(super) enum Tried {
    Done,
    /// The row may have lost another member or block: another plan is needed.
    Replan,
    /// Reads failed, and nothing has been changed.
    Unread(Done),
}

/// Scratch of a job: blocks of P, Q and then data, each as wide as the columns.
pub(super) struct Blocks {
    buf: Buf,
    /// First column.
    lo: u64,
    width: u64,
    read: OldData,
}

/// The data indices whose old content is read, in ascending order: only those, so that a small write of a wide row does not pay for
/// its width. The blocks of scratch behind P and Q are theirs, in this order.
type OldData = SmallVec<[u16; 8]>;

/// The blocks of P and Q in scratch, before those of data. They are numbers, not an enum, since they also index the
/// pairs of [`Health`].
pub(super) const P: u16 = 0;
pub(super) const Q: u16 = 1;
const FIRST_OF_DATA: u16 = 2;

/// P, and Q if there is one, with the roles that hold them.
pub(super) fn parity_blocks(row: &Row) -> impl Iterator<Item = (u16, u16)> {
    [P, Q].into_iter().zip(parity_roles(row))
}

impl Blocks {
    /// The columns of the bands.
    pub(super) fn cols(&self) -> Range<u64> {
        self.lo..self.lo + self.width
    }

    fn range(&self, block: u16, band: &Band) -> Range<usize> {
        let start = u64::from(block) * self.width + band.lo - self.lo;
        start as usize..(start + band.hi - band.lo) as usize
    }

    /// The block for the old content of a data index, if it is read.
    pub(super) fn old(&self, index: u16) -> Option<u16> {
        self.read.binary_search(&index).ok().map(|at| at as u16 + FIRST_OF_DATA)
    }

    pub(super) fn slice(&self, block: u16, band: &Band) -> Slice {
        self.buf.slice(self.range(block, band))
    }
}

impl Parity {
    /// Carries out what has gathered for a row. The caller holds the row alone.
    pub(super) async fn write_batch(&self, number: u64, batch: &Batch) -> Result<(), VolumeError> {
        let mut pieces = Pieces::new();
        for part in &batch.parts {
            for (start, memory) in stretches(part.start, &part.memory) {
                cut_part(self.map.chunk(), start, memory, &mut pieces);
            }
        }
        if pieces.len() > 1 {
            pieces.sort_unstable_by_key(|piece| (piece.index, piece.lo));
        }
        self.write_row(number, &pieces, batch.fua).await
    }

    /// Writes pieces of a row. The caller holds the row alone.
    pub(super) async fn write_row(&self, number: u64, pieces: &Pieces, fua: bool) -> Result<(), VolumeError> {
        let lo = pieces.iter().map(|piece| piece.lo).min().unwrap_or(0);
        let hi = pieces.iter().map(|piece| piece.hi).max().unwrap_or(0);
        let (row, unreadable) = (self.map.row(number), Bad::default());
        let width = self.budget() / u64::from(self.width() + 2);
        let job = RowWrite { number, row, pieces, fua, unreadable: &unreadable };
        if hi - lo <= width {
            return self.write_columns(&job, lo..hi).await;
        }
        let width = (width & !(PAGE - 1)).max(PAGE);
        for from in (lo..hi).step_by(width as usize) {
            self.write_within(&job, from..(from + width).min(hi)).await?;
        }
        Ok(())
    }

    /// Writes the parts of the pieces that lie within the columns.
    async fn write_within(&self, job: &RowWrite<'_>, cols: Range<u64>) -> Result<(), VolumeError> {
        let pieces: Pieces = job.pieces.iter().filter_map(|piece| clip(piece, &cols)).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        self.write_columns(&RowWrite { pieces: &pieces, ..*job }, cols).await
    }

    /// Whether the columns have to be written in runs: blocks are lost, and parity is in sync for some columns and
    /// not for others.
    fn is_mixed(&self, job: &RowWrite<'_>, health: &Health, cols: &Range<u64>) -> bool {
        !health.lost.is_empty() && self.in_sync_run(job.number, cols) < cols.end
    }

    /// Writes columns that are [mixed](Parity::is_mixed) run by run.
    async fn write_runs(&self, job: &RowWrite<'_>, cols: Range<u64>) -> Result<(), VolumeError> {
        let mut from = cols.start;
        while from < cols.end {
            let to = self.in_sync_run(job.number, &(from..cols.end));
            self.write_within(job, from..to).await?;
            from = to;
        }
        Ok(())
    }

    /// Writes the pieces, all of which lie within the columns.
    ///
    /// The recursion ends: [runs](Parity::write_runs) are parts of the columns that are no longer mixed, and
    /// [`Parity::write_beside`] goes on with single device blocks, each time with another member as unreadable.
    async fn write_columns(&self, job: &RowWrite<'_>, cols: Range<u64>) -> Result<(), VolumeError> {
        let mut last = VolumeError::TooManyLost;
        let mut mended = Bad::default();
        // Memory that an attempt has waited for, for the next one.
        let mut memory = None;
        for _ in 0..ATTEMPTS {
            let health = self.health(job.number, &job.row, &cols, job.unreadable)?;
            if self.is_mixed(job, &health, &cols) {
                drop(memory);
                return Box::pin(self.write_runs(job, cols)).await;
            }
            let known = health.known;
            let tried = match plan(&job.row, &health, job.pieces)? {
                WritePlan::Bands(bands) => self.write_bands(job, &cols, &health, &bands, &mut memory).await?,
                WritePlan::Rebuild(bands) => {
                    // The retry takes memory of its own: no task waits for memory while it holds some.
                    memory = None;
                    Box::pin(self.write_rebuilt(job, &cols, &health, &bands)).await?
                }
            };
            match tried {
                Tried::Done => return Ok(()),
                Tried::Replan => {}
                Tried::Unread(failed) => {
                    last = failed.named().err().unwrap_or(last);
                    if self.core.home().is_some() {
                        // Nothing has been changed here. Home reads for itself, and mends what it can't read.
                        break;
                    }
                    // A place that fails again after it was mended belongs to a failing member that the array can't
                    // do without.
                    if failed.refused().iter().any(|refused| mended.has(refused.role)) {
                        return Box::pin(self.write_beside(job, cols, &failed)).await;
                    }
                    match Box::pin(self.mend_reads(job, &cols, &failed)).await {
                        Err(VolumeError::Member { .. }) if !known => {
                            return Box::pin(self.write_beside(job, cols, &failed)).await;
                        }
                        done => done?,
                    }
                    let _known = mended.add_all(&failed);
                }
            }
        }
        Err(last)
    }

    /// Writes columns in which blocks can't be read nor made readable: parity is not known to be in sync, or the
    /// medium takes no writes. Each device block is written by itself, and an unreadable one as if their members were
    /// lost.
    async fn write_beside(
        &self,
        job: &RowWrite<'_>,
        cols: Range<u64>,
        failed: &Done,
    ) -> Result<(), VolumeError> {
        let block = u64::from(self.core.limits.block);
        if cols.end - cols.start > block {
            for from in cols.step_by(block as usize) {
                self.write_within(job, from..from + block).await?;
            }
            return Ok(());
        }
        let mut unreadable = job.unreadable.clone();
        if !unreadable.add_all(failed) {
            return failed.named();
        }
        self.write_columns(&RowWrite { unreadable: &unreadable, ..*job }, cols).await
    }

    /// Makes readable what the members in `failed` would not give, or takes them out of use.
    async fn mend_reads(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        failed: &Done,
    ) -> Result<(), VolumeError> {
        for &Refused { role, error, .. } in failed.refused().iter().filter(|r| r.is_of(&self.core.members)) {
            if error == OpError::TimedOut {
                self.core.answered(role).await?;
                continue;
            }
            if is_lost(error) {
                self.core.fail_member(role, error, error == OpError::Truncated).await?;
            } else {
                self.mend_block(job.number, cols.clone(), role).await?;
            }
        }
        Ok(())
    }

    /// Reads, computes and writes as planned. Where it has to wait for memory it only gets that, enough for any plan:
    /// members may fail meanwhile.
    async fn write_bands(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        health: &Health,
        bands: &Bands,
        memory: &mut Option<Buf>,
    ) -> Result<Tried, VolumeError> {
        let read = old_data(&job.row, health, job.pieces, bands);
        let width = cols.end - cols.start;
        let bytes = (usize::from(FIRST_OF_DATA) + read.len()) * width as usize;
        let Some(buf) = memory.take().or_else(|| self.core.scratch.try_alloc(bytes)) else {
            let most = (u64::from(job.row.data_members() + 2) * width) as usize;
            *memory = Some(self.core.scratch.alloc(most).await);
            return Ok(Tried::Replan);
        };
        let blocks = Blocks { buf, lo: cols.start, width, read };
        let group = self.read_old(job, health, bands, &blocks);
        if !group.is_empty() {
            let outcome = group.submit().await;
            if !outcome.is_ok() {
                return Ok(Tried::Unread(outcome));
            }
        } else {
            drop(group);
        }
        self.compute(job, health, bands, &blocks);
        if health.careful && bands.iter().any(|band| band.way == Way::Reconstruct) {
            return Box::pin(self.write_apart(job, cols, health, bands, blocks)).await;
        }

        let mut group = self.ask();
        self.write_data(job, &mut group);
        self.write_made(job, health, bands, &blocks, &mut group);
        let window = RowWindow::of_row(job.number, cols.clone());
        let outcome = self.commit(&window, group).await?;
        if self.must_undo(health, &outcome) {
            return Box::pin(self.undo_bands(job, health, bands, &blocks, &outcome)).await;
        }
        self.core.settle_range(&outcome, true, window.range(&self.map)).await?;
        self.settle_bands(job, bands)
    }

    /// Writes the parity of bands, as it was computed.
    #[inline]
    pub(super) fn write_made(
        &self,
        job: &RowWrite<'_>,
        health: &Health,
        bands: &[Band],
        blocks: &Blocks,
        group: &mut MemberOps<'_>,
    ) {
        for (kind, role) in parity_blocks(&job.row) {
            let Some(device) = self.core.members.writable(role) else { continue };
            for band in bands.iter().filter(|band| health.makes(band, kind)) {
                let offset = self.map.row_offset(job.number) + band.lo;
                group.write(device, offset, &blocks.slice(kind, band), job.fua);
            }
        }
    }

    /// After the writes: notes where parity is in sync now, and checks that success may be acknowledged.
    pub(super) fn settle_bands(&self, job: &RowWrite<'_>, bands: &Bands) -> Result<Tried, VolumeError> {
        for band in bands {
            let window = RowWindow::of_row(job.number, band.lo..band.hi);
            if band.way == Way::Reconstruct {
                self.note_window_in_sync(&window, !self.core.members.all_in_sync());
            }
            let written = |index| job.pieces.iter().any(|piece| piece.index == index && piece.covers(band));
            self.check_written(job.number, &window.cols, written)?;
        }
        Ok(Tried::Done)
    }

    fn read_old(&self, job: &RowWrite<'_>, health: &Health, bands: &Bands, blocks: &Blocks) -> MemberOps<'_> {
        let mut group = self.ask();
        let start = self.map.row_offset(job.number);
        for (&index, block) in blocks.read.iter().zip(FIRST_OF_DATA..) {
            let Some(device) = self.core.members.device(job.row.data_member(index)) else { continue };
            for band in bands.iter().filter(|band| reads_data(health, job.pieces, band, index)) {
                group.read(device, start + band.lo, &blocks.slice(block, band));
            }
        }
        for (kind, role) in parity_blocks(&job.row) {
            let Some(device) = self.core.members.device(role) else { continue };
            let modified = |band: &&Band| band.way == Way::Modify && health.readable[usize::from(kind)];
            for band in bands.iter().filter(modified) {
                group.read(device, start + band.lo, &blocks.slice(kind, band));
            }
        }
        group
    }

    pub(super) fn write_data(&self, job: &RowWrite<'_>, group: &mut MemberOps<'_>) {
        let start = self.map.row_offset(job.number);
        for piece in job.pieces {
            if let Some(device) = self.core.members.writable(job.row.data_member(piece.index)) {
                group.write(device, start + piece.lo, &piece.memory, job.fua);
            }
        }
    }

    pub(super) fn compute(&self, job: &RowWrite<'_>, health: &Health, bands: &Bands, blocks: &Blocks) {
        let mut bytes = blocks.buf.bytes_mut();
        let (parity, data) = bytes.split_at_mut(2 * blocks.width as usize);
        let (p, q) = parity.split_at_mut(blocks.width as usize);
        for band in bands {
            let at = (band.lo - blocks.lo) as usize..(band.hi - blocks.lo) as usize;
            let p = health.makes(band, P).then_some(&mut p[at.clone()]);
            let q = health.makes(band, Q).then_some(&mut q[at]);
            let old = |index: u16| {
                let range = blocks.range(blocks.old(index)? - FIRST_OF_DATA, band);
                Some(&data[range])
            };
            match band.way {
                Way::Leave => {}
                Way::Modify => self.modify(job, band, old, p, q),
                Way::Reconstruct => with_new(job, band, old, |slots| generate(self.kernel, slots, p, q)),
            }
        }
    }

    /// Adds the changes of data to parity.
    fn modify<'a>(
        &self,
        job: &RowWrite<'_>,
        band: &Band,
        old: impl Fn(u16) -> Option<&'a [u8]>,
        mut p: Option<&mut [u8]>,
        mut q: Option<&mut [u8]>,
    ) {
        for piece in job.pieces.iter().filter(|piece| piece.covers(band)) {
            let part = piece.part(band.lo, band.hi);
            let (Some(old), new) = (old(piece.index), part.bytes()) else { continue };
            let slot = usize::from(job.row.data_slot(piece.index));
            match (p.as_deref_mut(), q.as_deref_mut()) {
                (Some(p), Some(q)) => self.kernel.update_pq(slot, old, &new, p, q),
                (Some(p), None) => self.kernel.update_p(old, &new, p),
                (None, Some(q)) => self.kernel.update_q(slot, old, &new, q),
                (None, None) => {}
            }
        }
    }

    /// Reads the whole row, rebuilds what is lost, and writes the pieces with parity recomputed.
    async fn write_rebuilt(
        &self,
        job: &RowWrite<'_>,
        cols: &Range<u64>,
        health: &Health,
        bands: &Bands,
    ) -> Result<Tried, VolumeError> {
        let window = RowWindow::of_row(job.number, cols.clone());
        let wanted = |row: &Row, role: u16| role != row.p() && Some(role) != row.q();
        let planes = match self.load(&window, 0, wanted, job.unreadable).await {
            Ok(planes) => planes,
            Err(LoadError::Volume(error)) => return Err(error),
            Err(LoadError::Members(outcome)) => return Ok(Tried::Unread(outcome)),
        };
        self.compute_rebuilt(job, cols.start, health, bands, &planes);
        let mut group = self.ask();
        self.write_data(job, &mut group);
        for (_, role) in parity_blocks(&job.row).filter(|(kind, _)| health.writable[usize::from(*kind)]) {
            let Some(device) = self.core.members.writable(role) else { continue };
            let block = planes.block(role, job.number);
            for band in bands {
                let offset = self.map.row_offset(job.number) + band.lo;
                let part = block.slice((band.lo - cols.start) as usize..(band.hi - cols.start) as usize);
                group.write(device, offset, &part, job.fua);
            }
        }
        let outcome = self.commit(&window, group).await?;
        if self.must_undo(health, &outcome) {
            return Box::pin(self.undo_rebuilt(job, cols, health, bands, &planes, &outcome)).await;
        }
        self.core.settle_range(&outcome, true, window.range(&self.map)).await?;
        self.settle_bands(job, bands)
    }

    pub(super) fn compute_rebuilt(
        &self,
        job: &RowWrite<'_>,
        lo: u64,
        health: &Health,
        bands: &Bands,
        planes: &Planes,
    ) {
        let mut bytes = planes.bytes_mut();
        let mut blocks = planes.blocks(&mut bytes, job.number);
        let p_block = core::mem::take(&mut blocks[usize::from(job.row.p())]);
        let q_block = job.row.q().map(|q| core::mem::take(&mut blocks[usize::from(q)]));
        let (p_block, mut q_block) = (p_block, q_block);
        for band in bands {
            let at = (band.lo - lo) as usize..(band.hi - lo) as usize;
            let p = health.writable[0].then_some(&mut p_block[at.clone()]);
            let q = q_block.as_deref_mut().filter(|_| health.writable[1]).map(|q| &mut q[at.clone()]);
            let old = |index: u16| Some(&blocks[usize::from(job.row.data_member(index))][at.clone()]);
            with_new(job, band, old, |slots| generate(self.kernel, slots, p, q));
        }
    }
}

impl Health {
    /// Whether a band's way gives new content for this parity.
    pub(super) fn makes(&self, band: &Band, kind: u16) -> bool {
        match band.way {
            Way::Leave => false,
            Way::Modify => self.readable[usize::from(kind)],
            Way::Reconstruct => self.writable[usize::from(kind)],
        }
    }
}

/// Hands the row's new content in a band to `work`, as terms of parity: pieces where there are, else old blocks.
pub(super) fn with_new<'a>(
    job: &RowWrite<'_>,
    band: &Band,
    old: impl Fn(u16) -> Option<&'a [u8]>,
    work: impl FnOnce(&[&[u8]]),
) {
    let parts: SmallVec<[(u16, Slice); 16]> = job
        .pieces
        .iter()
        .filter(|piece| piece.covers(band))
        .map(|piece| (piece.index, piece.part(band.lo, band.hi)))
        .collect();
    let guards: SmallVec<[(u16, brindle_io::Bytes<'_>); 16]> =
        parts.iter().map(|(index, part)| (*index, part.bytes())).collect();
    let mut slots = SmallSlots::zeroes(&job.row);
    for index in 0..job.row.data_members() {
        let new = guards.iter().find(|(i, _)| *i == index).map(|(_, bytes)| &**bytes);
        if let Some(block) = new.or_else(|| old(index)) {
            slots[usize::from(job.row.data_slot(index))] = block;
        }
    }
    work(&slots);
}

/// The data whose old content some band needs.
fn old_data(row: &Row, health: &Health, pieces: &[WritePiece], bands: &Bands) -> OldData {
    let needed = |index: u16| bands.iter().any(|band| reads_data(health, pieces, band, index));
    // Pushed one by one: the library's way for all iterators takes twice as long for one or two.
    let mut old = OldData::new();
    if bands.iter().any(|band| band.way == Way::Reconstruct) {
        (0..row.data_members()).filter(|index| needed(*index)).for_each(|index| old.push(index));
        return old;
    }
    for piece in pieces {
        if old.last() != Some(&piece.index) && needed(piece.index) {
            old.push(piece.index);
        }
    }
    old
}

/// Cuts a range of a row's data at its chunks.
pub(super) fn cut_part(chunk: u64, start: u64, memory: &Slice, pieces: &mut Pieces) {
    let mut at = 0;
    while at < memory.len() as u64 {
        let (index, lo) = ((start + at) / chunk, (start + at) % chunk);
        let len = (chunk - lo).min(memory.len() as u64 - at);
        let memory = memory.slice(at as usize..(at + len) as usize);
        pieces.push(WritePiece { index: index as u16, lo, hi: lo + len, memory });
        at += len;
    }
}

/// The piece's part within the columns.
pub(super) fn clip(piece: &WritePiece, cols: &Range<u64>) -> Option<WritePiece> {
    let (lo, hi) = (piece.lo.max(cols.start), piece.hi.min(cols.end));
    (lo < hi).then(|| WritePiece { index: piece.index, lo, hi, memory: piece.part(lo, hi) })
}
