//! RAID 4, 5 and 6: rows of data chunks with one or two of parity.

use alloc::vec::Vec;

use crate::divide::Divider;
use crate::place::Place;
use crate::{ParityLayout, Row, RowRole};

/// Where in the rows a byte of the array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the row.
    pub row: u64,
    /// Index of the data chunk in its row.
    pub data_index: u16,
    /// Byte in the chunk.
    pub column: u64,
}

/// The rows of a parity array. Row `r` takes the bytes from `r * chunk` of every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityRows {
    chunk: Divider,
    data: Divider,
    period: Divider,
    /// One turn of the rotation.
    turn: Vec<Row>,
    rows: u64,
    parity: u16,
}

impl ParityRows {
    /// All values are validated by the geometry; `rows * row_data_bytes` fits.
    pub(crate) fn new(layout: ParityLayout, has_q: bool, chunk: u64, members: u16, rows: u64) -> ParityRows {
        let parity = if has_q { 2 } else { 1 };
        let period = Row::period(layout, members);
        ParityRows {
            chunk: Divider::new(chunk),
            data: Divider::new(u64::from(members - parity)),
            period: Divider::new(u64::from(period)),
            turn: (0..period).map(|step| Row::new(layout, has_q, members, step)).collect(),
            rows,
            parity,
        }
    }

    /// Bytes of a chunk.
    #[inline]
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.chunk.value()
    }

    /// Data chunks in a row.
    #[inline]
    #[must_use]
    pub fn data_members(&self) -> u16 {
        self.data.value() as u16
    }

    /// Parity chunks in a row: 1, or 2 for RAID 6.
    #[inline]
    #[must_use]
    pub fn parity_members(&self) -> u16 {
        self.parity
    }

    /// Rows of the array.
    #[inline]
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Data bytes of a row.
    #[inline]
    #[must_use]
    pub fn row_data_bytes(&self) -> u64 {
        self.chunk.value() * self.data.value()
    }

    /// Where byte `array_offset` of the array is among the rows.
    #[inline]
    #[must_use]
    pub fn position(&self, array_offset: u64) -> Position {
        let (number, column) = self.chunk.split(array_offset);
        let (row, data_index) = self.data.split(number);
        Position { row, data_index: data_index as u16, column }
    }

    /// The members' blocks in row `row`.
    #[inline]
    #[must_use]
    pub fn row(&self, row: u64) -> Row {
        self.turn[self.period.split(row).1 as usize]
    }

    /// The offset on every member at which row `row` (at most [`ParityRows::rows`]) begins.
    #[inline]
    #[must_use]
    pub fn row_offset(&self, row: u64) -> u64 {
        row * self.chunk.value()
    }

    pub(crate) fn place(&self, member: u16, offset: u64) -> Place {
        let (row, column) = self.chunk.split(offset);
        if row >= self.rows {
            return Place::Unused;
        }
        match self.row(row).role_of(member) {
            RowRole::P => Place::P { row },
            RowRole::Q => Place::Q { row },
            RowRole::Data(index) => Place::Data {
                array_offset: row * self.row_data_bytes() + u64::from(index) * self.chunk() + column,
                copy: 0,
            },
        }
    }
}
