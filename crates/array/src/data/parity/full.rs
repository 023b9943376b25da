//! Runs of full rows: parity from the new data alone, one operation per member.

use brindle_io::Slice;

use super::solve::{SmallSlots, generate};
use super::window::Window;
use super::{Parity, data_roles, parity_roles};
use crate::data::lock::Hold;
use crate::volume::VolumeError;

/// Data bytes that are written at a time, about.
const STEP: u64 = 8 << 20;

impl Parity {
    /// Writes whole rows from `first` on; `from` is a multiple of a row's data.
    pub(super) async fn write_full_rows(
        &self,
        first: u64,
        from: &Slice,
        fua: bool,
    ) -> Result<(), VolumeError> {
        let row_bytes = self.map.row_data_bytes();
        let rows = first..first + from.len() as u64 / row_bytes;
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
                let window = Window { rows: rows.clone(), cols };
                self.write_full_window(&window, first, from, fua).await?;
            }
        }
        Ok(())
    }

    async fn write_full_window(
        &self,
        window: &Window,
        first: u64,
        from: &Slice,
        fua: bool,
    ) -> Result<(), VolumeError> {
        let width = window.width() as usize;
        let count = (window.rows.end - window.rows.start) as usize;
        let parity = usize::from(self.map.parity_members());
        let buf = self.core.scratch.alloc(count * parity * width).await;
        for row in window.rows.clone() {
            self.check_row(row)?;
        }
        // Where the window's part of a data block is in the request's memory.
        let block = |row: u64, index: u16| {
            let start = (row - first) * self.map.row_data_bytes()
                + u64::from(index) * self.map.chunk()
                + window.cols.start;
            start as usize..start as usize + width
        };
        {
            let data = from.bytes();
            let mut bytes = buf.bytes_mut();
            for (row, blocks) in window.rows.clone().zip(bytes.chunks_exact_mut(parity * width)) {
                let roles = self.map.row(row);
                let mut slots = SmallSlots::zeroes(&roles);
                for index in 0..roles.data_members() {
                    slots[usize::from(roles.data_slot(index))] = &data[block(row, index)];
                }
                let (p, q) = blocks.split_at_mut(width);
                generate(self.kernel, &slots, Some(p), (parity > 1).then_some(q));
            }
        }
        let mut group = self.ask();
        for (at, row) in window.rows.clone().enumerate() {
            let roles = self.map.row(row);
            for (index, role) in (0..).zip(data_roles(&roles)) {
                if let Some(device) = self.core.members.writable(role) {
                    let offset = window.offset(&self.map, row);
                    group.write(device, offset, &from.slice(block(row, index)), fua);
                }
            }
            for (which, role) in parity_roles(&roles).enumerate() {
                if let Some(device) = self.core.members.writable(role) {
                    let start = (at * parity + which) * width;
                    let offset = window.offset(&self.map, row);
                    group.write(device, offset, &buf.slice(start..start + width), fua);
                }
            }
        }
        let outcome = group.submit().await;
        self.core.settle_range(&outcome, true, window.range(&self.map)).await?;
        self.settle_window(window)
    }
}
