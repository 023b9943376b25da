//! A window on the rows: the same columns of all members, in scratch memory.

use core::ops::Range;

use brindle_io::{Buf, BytesMut, Slice};
use brindle_layout::ParityRows;
use smallvec::SmallVec;

use super::{PAGE, Parity};

/// The least bytes of each member in a window of members in memory: with fewer, operations cost more than what they copy.
const LEAST: u64 = 32 << 10;

/// Some rows with all their columns, or one row with some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowWindow {
    pub(super) rows: Range<u64>,
    /// Bytes within the chunks.
    pub(super) cols: Range<u64>,
}

impl RowWindow {
    pub(super) fn of_row(row: u64, cols: Range<u64>) -> Self {
        Self { rows: row..row + 1, cols }
    }

    pub(super) fn width(&self) -> u64 {
        self.cols.end - self.cols.start
    }

    /// Its columns of each row by themselves, `step` bytes (at most) at a time.
    pub(super) fn cut(&self, step: u64) -> impl Iterator<Item = Self> + use<> {
        let cols = self.cols.clone();
        self.rows.clone().flat_map(move |row| {
            let end = cols.end;
            cols.clone().step_by(step as usize).map(move |col| Self::of_row(row, col..(col + step).min(end)))
        })
    }

    /// Bytes of each member.
    pub(super) fn plane(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.width()
    }

    /// The window on every member: whole rows, or columns of one.
    pub(super) fn range(&self, map: &ParityRows) -> Range<u64> {
        let start = self.offset(map, self.rows.start);
        start..start + self.plane()
    }

    /// Where the window's part of a row begins on every member.
    pub(super) fn offset(&self, map: &ParityRows, row: u64) -> u64 {
        map.row_offset(row) + self.cols.start
    }
}

/// A window's bytes: a plane per member, in the order of roles, within which rows follow each other as they do on
/// the member; and planes for what is computed besides.
pub(super) struct Planes {
    window: RowWindow,
    buf: Buf,
}

/// The blocks of one row, by plane. Taking one out leaves it empty, which parity takes for zeroes.
pub(super) type Blocks<'a> = SmallVec<[&'a mut [u8]; 16]>;

impl Planes {
    fn start(&self, plane: u16, row: u64) -> usize {
        (u64::from(plane) * self.window.plane() + (row - self.window.rows.start) * self.window.width())
            as usize
    }

    /// The block of a row in a plane.
    pub(super) fn block(&self, plane: u16, row: u64) -> Slice {
        let start = self.start(plane, row);
        self.buf.slice(start..start + self.window.width() as usize)
    }

    /// All rows of a plane.
    pub(super) fn all(&self, plane: u16) -> Slice {
        let start = self.start(plane, self.window.rows.start);
        self.buf.slice(start..start + self.window.plane() as usize)
    }

    /// An operation that was given up still uses the memory: its bytes must not be used any more.
    pub(super) fn are_pinned(&self) -> bool {
        self.buf.is_pinned()
    }

    /// To look at and change everything; [`Planes::blocks`] cuts it up.
    pub(super) fn bytes_mut(&self) -> BytesMut<'_> {
        self.buf.bytes_mut()
    }

    /// The blocks of a row, one per plane.
    pub(super) fn blocks<'a>(&self, bytes: &'a mut [u8], row: u64) -> Blocks<'a> {
        let at = self.start(0, row);
        let width = self.window.width() as usize;
        bytes.chunks_exact_mut(self.window.plane() as usize).map(|plane| &mut plane[at..at + width]).collect()
    }
}

impl Parity {
    /// Scratch for a window: a plane per member and `more`.
    pub(super) async fn planes(&self, window: &RowWindow, more: u16) -> Planes {
        let planes = u64::from(self.width() + more);
        let buf = self.core.scratch.alloc((planes * window.plane()) as usize).await;
        Planes { window: window.clone(), buf }
    }

    /// The scratch of a window with `more` planes besides the members', of at most `most` bytes. Devices prefer few large reads; where
    /// reads are copies from memory, windows are as small as `cached`, or hold [`LEAST`] bytes of each member.
    pub(super) fn window_budget(&self, more: u16, most: u64, cached: u64) -> u64 {
        let device = |role| self.core.members.device(role);
        let devices = || (0..self.width()).filter_map(device);
        if !devices().all(|device| self.core.io.is_in_memory(device.id)) {
            return most;
        }
        let planes = u64::from(self.width() + more);
        (planes << (cached / planes).max(LEAST).ilog2()).min(most)
    }

    /// Cuts rows and columns into windows that fit the budget (bytes) with `more` planes besides the members'.
    pub(super) fn windows(
        &self,
        rows: Range<u64>,
        cols: Range<u64>,
        more: u16,
        budget: u64,
    ) -> impl Iterator<Item = RowWindow> + use<> {
        let plane = budget / u64::from(self.width() + more);
        let width = cols.end - cols.start;
        let (row_step, col_step) =
            if plane >= width { (plane / width, width) } else { (1, (plane & !(PAGE - 1)).max(PAGE)) };
        rows.clone().step_by(row_step as usize).flat_map(move |row| {
            let rows = row..(row + row_step).min(rows.end);
            let end = cols.end;
            cols.clone()
                .step_by(col_step as usize)
                .map(move |col| RowWindow { rows: rows.clone(), cols: col..(col + col_step).min(end) })
        })
    }
}
