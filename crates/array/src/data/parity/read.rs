//! Reads of parity arrays: straight from the data's members, or rebuilt where those are lost.

use core::ops::Range;

use brindle_io::Slice;
use brindle_layout::ParityRows;

use super::rebuild::LoadError;
use super::window::Window;
use crate::array::Inner;
use crate::data::lock::Hold;
use crate::volume::VolumeError;

/// A stretch of one data block that a request wants.
struct Piece {
    role: u16,
    /// Bytes within the chunk.
    cols: Range<u64>,
    /// Where they belong in the request's memory.
    at: usize,
}

/// The pieces of one row of a request.
fn pieces(map: &ParityRows, row: u64, offset: u64, len: u64) -> impl Iterator<Item = Piece> + use<> {
    let start = row * map.row_data_bytes();
    let (from, to) = (offset.max(start), (offset + len).min(start + map.row_data_bytes()));
    let (roles, chunk) = (map.row(row), map.chunk());
    (map.position(from).data_index..=map.position(to - 1).data_index).map(move |index| {
        let block = start + u64::from(index) * chunk;
        let (lo, hi) = (from.max(block), to.min(block + chunk));
        Piece { role: roles.data_member(index), cols: lo - block..hi - block, at: (lo - offset) as usize }
    })
}

impl Piece {
    fn memory(&self, into: &Slice) -> Slice {
        into.slice(self.at..self.at + (self.cols.end - self.cols.start) as usize)
    }
}

impl Inner {
    #[inline]
    pub(crate) async fn read_parity(
        &self,
        map: &ParityRows,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        if !self.members.all_in_sync() {
            return Box::pin(self.read_degraded(map, offset, into)).await;
        }
        let mut group = self.io.group();
        let mut at = 0;
        while at < into.len() {
            let position = map.position(offset + at as u64);
            let len = (map.chunk() - position.column).min((into.len() - at) as u64) as usize;
            let role = map.row(position.row).data_member(position.data_index);
            let device = self.members.device(role).ok_or(VolumeError::TooManyLost)?;
            let from = device.data_offset + map.row_offset(position.row) + position.column;
            if len == into.len() {
                group.read(device.id, from, into);
            } else {
                group.read(device.id, from, &into.slice(at..at + len));
            }
            at += len;
        }
        if group.submit().await.is_ok() {
            return Ok(());
        }
        Box::pin(self.read_carefully_parity(map, offset, into)).await
    }

    /// Reads what is there straight, and rows of which something wanted is lost window by window.
    async fn read_degraded(&self, map: &ParityRows, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let len = into.len() as u64;
        let rows = map.position(offset).row..map.position(offset + len - 1).row + 1;
        let mut hit: Vec<(u64, Range<u64>)> = Vec::new();
        let mut group = self.io.group();
        for row in rows {
            let lost = |piece: &Piece| self.readable_in(map, row, piece.role).is_none();
            if pieces(map, row, offset, len).any(|piece| lost(&piece)) {
                let lo = pieces(map, row, offset, len).map(|piece| piece.cols.start).min();
                let hi = pieces(map, row, offset, len).map(|piece| piece.cols.end).max();
                hit.push((row, lo.unwrap_or(0)..hi.unwrap_or(map.chunk())));
                continue;
            }
            for piece in pieces(map, row, offset, len) {
                if let Some(device) = self.members.device(piece.role) {
                    let from = device.data_offset + map.row_offset(row) + piece.cols.start;
                    group.read(device.id, from, &piece.memory(into));
                }
            }
        }
        if !group.is_empty() && !group.submit().await.is_ok() {
            return self.read_carefully_parity(map, offset, into).await;
        }
        for run in hit.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 == b.1 && a.1 == (0..map.chunk())) {
            let rows = run[0].0..run[run.len() - 1].0 + 1;
            for window in self.windows(rows, run[0].1.clone(), 0, self.budget()) {
                if !self.read_window(map, &window, offset, into).await? {
                    return self.read_carefully_parity(map, offset, into).await;
                }
            }
        }
        Ok(())
    }

    /// Rebuilds a window and copies what is wanted of it; `false` if that failed for some of it.
    async fn read_window(
        &self,
        map: &ParityRows,
        window: &Window,
        offset: u64,
        into: &Slice,
    ) -> Result<bool, VolumeError> {
        let _held = self.locks.acquire(window.rows.clone(), Hold::Shared).await;
        let len = into.len() as u64;
        let touched =
            |piece: &Piece| piece.cols.start < window.cols.end && window.cols.start < piece.cols.end;
        let wanted =
            |row: u64, role: u16| pieces(map, row, offset, len).any(|p| p.role == role && touched(&p));
        // Rows of a window of several are wanted whole; one row is wanted as its pieces are.
        let (many, first) = (window.rows.end - window.rows.start > 1, window.rows.start);
        let role_wanted = |row: &brindle_layout::Row, role: u16| {
            if many { role != row.p() && Some(role) != row.q() } else { wanted(first, role) }
        };
        let planes = match self.load(map, window, 0, role_wanted, &[]).await {
            Ok(planes) => planes,
            // What can't be rebuilt need not be what is wanted: the window is as wide as both ends ask for.
            Err(LoadError::Volume(_) | LoadError::Members(_)) => return Ok(false),
        };
        for row in window.rows.clone() {
            for piece in pieces(map, row, offset, len).filter(touched) {
                let lo = piece.cols.start.max(window.cols.start);
                let hi = piece.cols.end.min(window.cols.end);
                let block = planes.block(piece.role, row);
                let block = block.slice((lo - window.cols.start) as usize..(hi - window.cols.start) as usize);
                into.put(piece.at + (lo - piece.cols.start) as usize, &block.bytes());
            }
        }
        Ok(true)
    }

    /// Reads step by step; what a member fails to give is rebuilt and written over its bad bytes.
    async fn read_carefully_parity(
        &self,
        map: &ParityRows,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let step = self.mend_step();
        let mut at = 0;
        while at < into.len() {
            let position = map.position(offset + at as u64);
            let in_step = step - position.column % step;
            let len = (map.chunk() - position.column).min(in_step).min((into.len() - at) as u64) as usize;
            self.read_step(map, offset + at as u64, &into.slice(at..at + len)).await?;
            at += len;
        }
        Ok(())
    }

    /// Reads a stretch of one block.
    async fn read_step(&self, map: &ParityRows, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let position = map.position(offset);
        let role = map.row(position.row).data_member(position.data_index);
        let cols = position.column..position.column + into.len() as u64;
        let _held = self.locks.acquire(position.row..position.row + 1, Hold::Exclusive).await;
        let mut mended = false;
        loop {
            if let Some(device) = self.readable_in(map, position.row, role) {
                let mut group = self.io.group();
                group.read(device.id, device.data_offset + map.row_offset(position.row) + cols.start, into);
                match group.submit().await.ok() {
                    Ok(()) => return Ok(()),
                    // Mended bytes that can't be read are rebuilt in memory; the next round sees to that.
                    Err(error) if mended => return Err(VolumeError::Member(error)),
                    Err(_) if self.config.read_only => {}
                    Err(_) => {
                        mended = true;
                        self.mend_block(map, position.row, cols.clone(), role).await?;
                        continue;
                    }
                }
            }
            return self.rebuild_into(map, position.row, role, cols.start, into).await;
        }
    }

    /// Rebuilds a stretch of one block, which the caller holds; where too much of it is bad, block by block.
    async fn rebuild_into(
        &self,
        map: &ParityRows,
        row: u64,
        role: u16,
        start: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let whole = Window::of_row(row, start..start + into.len() as u64);
        if let Ok(planes) = self.load_carefully(map, &whole, |_, wanted| wanted == role).await {
            into.put(0, &planes.block(role, row).bytes());
            return Ok(());
        }
        let block = u64::from(self.limits.block);
        for from in whole.cols.step_by(block as usize) {
            let window = Window::of_row(row, from..from + block);
            let planes = self.load_carefully(map, &window, |_, wanted| wanted == role).await?;
            into.put((from - start) as usize, &planes.block(role, row).bytes());
        }
        Ok(())
    }
}
