//! Writes runs of full rows: parity comes from the new data alone, with one operation per member.

use core::ops::Range;

use brindle_io::{Buf, Bytes, Slice};
use brindle_layout::ParityRows;
use brindle_members::door::{Done, MemberOps};
use brindle_members::lock::Hold;
use brindle_volume::{VolumeError, bytes, stretches};
use smallvec::SmallVec;

use super::bad::Bad;
use super::no_space::parity_first::Both;
use super::plan::Pieces;
use super::row_write::{RowWrite, clip, cut_part};
use super::solve::{SmallSlots, generate};
use super::streams::InStream;
use super::window::RowWindow;
use super::{Parity, data_roles, parity_roles};
use crate::data::list::part;

/// Data bytes that are written at a time, about.
const STEP: u64 = 8 << 20;

impl Parity {
    /// Gives whole rows their first content, from a byte of the array on. Nothing of what was there is wanted any more.
    pub(crate) async fn put_rows(&self, offset: u64, from: &[Slice]) -> Result<(), VolumeError> {
        let stream = self.streams.enter(offset, bytes(from));
        self.write_full_rows(offset / self.map.row_data_bytes(), from, false, &stream).await
    }

    /// Writes whole rows from `first` on; `from` is a multiple of a row's data.
    pub(super) async fn write_full_rows(
        &self,
        first: u64,
        from: &[Slice],
        fua: bool,
        stream: &InStream<'_>,
    ) -> Result<(), VolumeError> {
        let row_bytes = self.map.row_data_bytes();
        let from = &Source::of(from);
        let rows = first..first + from.len() / row_bytes;
        if !from.has_whole_blocks(self.map.chunk()) {
            return Box::pin(self.write_rows_of_pieces(rows, from, fua, stream)).await;
        }
        let _at_members = stream.at_members(&self.core.io);
        let parity_bytes = self.map.chunk() * u64::from(self.map.parity_members());
        let step = (self.budget() / parity_bytes).min(STEP / row_bytes).max(1);
        for row in rows.clone().step_by(step as usize) {
            let rows = row..(row + step).min(rows.end);
            let _held = self.locks.acquire(rows.clone(), Hold::Exclusive).await;
            // A wide chunk is written in columns; else there is one step, of all of them.
            let width = ((self.budget() / u64::from(self.map.parity_members())) & !4095)
                .clamp(4096, self.map.chunk());
            for col in (0..self.map.chunk()).step_by(width as usize) {
                let cols = col..(col + width).min(self.map.chunk());
                let window = RowWindow { rows: rows.clone(), cols };
                self.write_full_window(&window, first, from, fua).await?;
            }
        }
        Ok(())
    }

    /// Writes whole rows of which blocks are in several slices. Nothing is read for that either.
    async fn write_rows_of_pieces(
        &self,
        rows: Range<u64>,
        from: &Source<'_>,
        fua: bool,
        stream: &InStream<'_>,
    ) -> Result<(), VolumeError> {
        let row_bytes = self.map.row_data_bytes();
        for (row, start) in rows.zip((0..).step_by(row_bytes as usize)) {
            self.write_part(row * row_bytes, &part(from.list, start..start + row_bytes), fua, stream).await?;
        }
        Ok(())
    }

    async fn write_full_window(
        &self,
        window: &RowWindow,
        first: u64,
        from: &Source<'_>,
        fua: bool,
    ) -> Result<(), VolumeError> {
        let count = (window.rows.end - window.rows.start) as usize;
        let parity = usize::from(self.map.parity_members());
        let buf = self.core.scratch.alloc(count * parity * window.width() as usize).await;
        for row in window.rows.clone() {
            self.check_row(row)?;
        }
        let full = Full { map: &self.map, window, first, from, parity: buf, fua };
        self.compute_full(&full);
        if !self.core.members.all_in_sync() {
            return Box::pin(self.write_full_degraded(full)).await;
        }
        let mut group = self.ask();
        for row in window.rows.clone() {
            self.add_full_data(&full, row, &mut group);
            self.add_full_parity(&full, row, &mut group);
        }
        let outcome = self.commit(window, group).await?;
        drop(full);
        self.core.settle_range(&outcome, true, window.range(&self.map)).await?;
        self.settle_window(window)
    }

    /// Where members are lost parity is written first, lest it stand for nothing if there is no room (`no_space/parity_first.rs`).
    async fn write_full_degraded(&self, full: Full<'_>) -> Result<(), VolumeError> {
        let (map, window) = (full.map, full.window);
        let lost = |row| data_roles(&map.row(row)).filter(|&r| self.readable_in(row, r).is_none()).count();
        // Nor may it be written before the data where it is all that says what is lost.
        let is_presumed =
            |row| !self.is_in_sync(row, &window.cols) && self.given_by_p(row, &window.cols).is_some();
        if window.rows.clone().any(|row| lost(row) > 1 || is_presumed(row)) {
            let (first, from, fua) = (full.first, full.from, full.fua);
            drop(full);
            for row in window.rows.clone() {
                self.write_row(row, &full_pieces(map, window, row - first, from), fua).await?;
            }
            return Ok(());
        }
        let mut group = self.ask();
        window.rows.clone().for_each(|row| self.add_full_parity(&full, row, &mut group));
        let parity = self.commit(window, group).await?;
        let mut rest = Done::default();
        if !self.is_kept_by_any(&parity) {
            let mut group = self.ask();
            window.rows.clone().for_each(|row| self.add_full_data(&full, row, &mut group));
            rest = self.commit(window, group).await?;
        }
        let both = Both { parity, rest };
        let Some((sent, outcome)) = self.short_of_space(&both) else {
            drop(full);
            self.settle_both(&both, window.range(map)).await?;
            return self.settle_window(window);
        };
        let (first, from, fua) = (full.first, full.from, full.fua);
        drop(full);
        let unreadable = Bad::default();
        for number in window.rows.clone() {
            let pieces = full_pieces(map, window, number - first, from);
            let job =
                RowWrite { number, row: map.row(number), pieces: &pieces, fua, unreadable: &unreadable };
            let mut start = window.cols.start;
            while start < window.cols.end {
                let end = self.in_sync_run(number, &(start..window.cols.end));
                self.agree_or_doubt(&job, &(start..end), sent, outcome).await;
                start = end;
            }
        }
        Err(self.end_without_space(outcome).await)
    }

    fn compute_full(&self, full: &Full<'_>) {
        let width = full.window.width() as usize;
        let parity = usize::from(full.map.parity_members());
        let data: SmallVec<[Bytes<'_>; 1]> = full.from.list.iter().map(Slice::bytes).collect();
        let mut bytes = full.parity.bytes_mut();
        for (row, blocks) in full.window.rows.clone().zip(bytes.chunks_exact_mut(parity * width)) {
            let roles = full.map.row(row);
            let mut slots = SmallSlots::zeroes(&roles);
            for index in 0..roles.data_members() {
                let (slice, range) = full.data(row, index);
                slots[usize::from(roles.data_slot(index))] = &data[slice][range];
            }
            let (p, q) = blocks.split_at_mut(width);
            generate(self.kernel, &slots, Some(p), (parity > 1).then_some(q));
        }
    }

    #[inline]
    fn add_full_data(&self, full: &Full<'_>, row: u64, group: &mut MemberOps<'_>) {
        let offset = full.window.offset(full.map, row);
        for (index, role) in (0..).zip(data_roles(&full.map.row(row))) {
            if let Some(device) = self.core.members.writable(role) {
                let (slice, range) = full.data(row, index);
                group.write(device, offset, &full.from.list[slice].slice(range), full.fua);
            }
        }
    }

    #[inline]
    fn add_full_parity(&self, full: &Full<'_>, row: u64, group: &mut MemberOps<'_>) {
        let offset = full.window.offset(full.map, row);
        for (which, role) in parity_roles(&full.map.row(row)).enumerate() {
            if let Some(device) = self.core.members.writable(role) {
                group.write(device, offset, &full.parity.slice(full.parity_block(row, which)), full.fua);
            }
        }
    }
}

/// The memory of whole rows.
struct Source<'a> {
    list: &'a [Slice],
    /// Where each slice ends, in bytes of all.
    ends: SmallVec<[usize; 1]>,
}

impl<'a> Source<'a> {
    #[inline]
    fn of(list: &'a [Slice]) -> Self {
        let add = |end: &mut usize, slice: &Slice| {
            *end += slice.len();
            Some(*end)
        };
        Self { list, ends: list.iter().scan(0, add).collect() }
    }

    #[inline]
    fn len(&self) -> u64 {
        self.ends.last().map_or(0, |&end| end as u64)
    }

    /// Each block is in one slice.
    #[inline]
    fn has_whole_blocks(&self, chunk: u64) -> bool {
        self.list.len() == 1 || self.ends.iter().all(|&end| (end as u64).is_multiple_of(chunk))
    }

    /// The slice that a byte of all is in, and its place there.
    #[inline]
    fn place(&self, at: usize) -> (usize, usize) {
        if self.list.len() == 1 {
            return (0, at);
        }
        let slice = self.ends.partition_point(|&end| end <= at);
        (slice, at - slice.checked_sub(1).map_or(0, |before| self.ends[before]))
    }
}

/// A window whose rows are written whole.
struct Full<'a> {
    map: &'a ParityRows,
    window: &'a RowWindow,
    /// The row with which `from` begins.
    first: u64,
    from: &'a Source<'a>,
    /// P, then Q, of each row.
    parity: Buf,
    fua: bool,
}

impl Full<'_> {
    /// Where the window's part of a data block is in the request's memory: which slice, and where in it.
    #[inline]
    fn data(&self, row: u64, index: u16) -> (usize, Range<usize>) {
        let start = (row - self.first) * self.map.row_data_bytes()
            + u64::from(index) * self.map.chunk()
            + self.window.cols.start;
        let (slice, start) = self.from.place(start as usize);
        (slice, start..start + self.window.width() as usize)
    }

    #[inline]
    fn parity_block(&self, row: u64, which: usize) -> Range<usize> {
        let width = self.window.width() as usize;
        let at = (row - self.window.rows.start) as usize * usize::from(self.map.parity_members()) + which;
        at * width..(at + 1) * width
    }
}

/// The window's part of the row that comes `nth` in memory, as pieces.
fn full_pieces(map: &ParityRows, window: &RowWindow, nth: u64, from: &Source<'_>) -> Pieces {
    let bytes = map.row_data_bytes();
    let mut pieces = Pieces::new();
    for (start, slice) in stretches(0, &part(from.list, nth * bytes..(nth + 1) * bytes)) {
        cut_part(map.chunk(), start, slice, &mut pieces);
    }
    pieces.iter().filter_map(|piece| clip(piece, &window.cols)).collect()
}
