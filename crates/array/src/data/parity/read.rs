//! Reads of parity arrays: direct from the members that hold the data, or rebuilt where those are lost.

use core::ops::Range;

use brindle_io::sync::join_all;
use brindle_io::{OpError, Slice};
use brindle_layout::{ParityRows, Row};
use brindle_members::direct::Stretch;
use brindle_members::door::Done;
use brindle_members::lock::Hold;
use brindle_members::members::Members;
use brindle_volume::{VolumeError, stretches};

use super::Parity;
use super::bad::Bad;
use super::mend::STEP;
use super::pieces::{Pieces, ReadPiece, pieces};
use super::window::{Planes, RowWindow};
use crate::data::mend::ReadFailures;

/// Bytes of a window where reads are copies from memory: it stays in a core's second cache until what is lost has been computed.
const IN_CACHE: u64 = 1 << 20;

/// The member and offset that hold a byte of such an array, whether or not the member can give it.
#[inline(always)]
pub(crate) fn place(map: &ParityRows, members: &Members, at: u64) -> Option<Stretch> {
    let position = map.position(at);
    let role = map.row(position.row).data_member(position.data_index);
    let device = members.device(role)?;
    let offset = map.row_offset(position.row) + position.column;
    Some(Stretch { device, offset, len: map.chunk() - position.column })
}

impl Parity {
    /// Nothing has to be rebuilt to be read, as far as is known.
    #[inline]
    pub(crate) fn reads_straight(&self) -> bool {
        self.core.members.all_answer()
    }

    /// The member's bytes can be read [with nothing beside the reads](brindle_members::door::Door::reads_alone).
    #[inline(always)]
    pub(crate) fn reads_alone(&self, into: &[Slice]) -> bool {
        self.reads_straight() && self.door().reads_alone(into)
    }

    /// The member and offset that hold a byte of the array; [`Parity::read_on`] goes on if the member can't give it.
    #[inline(always)]
    pub(crate) fn place(&self, at: u64) -> Option<Stretch> {
        place(&self.map, &self.core.members, at)
    }

    /// Rebuilds the parts of a range that members did not give.
    pub(crate) async fn read_on(&self, offset: u64, into: &[Slice], done: &Done) -> Result<(), VolumeError> {
        if let Some(error) = self.core.error_if_pinned(into, done) {
            return Err(error);
        }
        for (at, slice) in stretches(offset, into) {
            self.read_carefully(at, slice).await?;
        }
        Ok(())
    }

    /// Reads slice by slice, with members that are lost or slow.
    pub(crate) async fn read_each(&self, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        if let [one] = into {
            return self.read_degraded(offset, one).await;
        }
        let reads = stretches(offset, into).filter(|(_, slice)| !slice.is_empty());
        join_all(reads.map(|(at, slice)| self.read_degraded(at, slice))).await.into_iter().collect()
    }

    /// Bytes of scratch that a window of a read may take.
    fn read_budget(&self) -> u64 {
        self.window_budget(0, self.budget(), IN_CACHE)
    }

    /// Small reads are many: the large state of the other paths is in a box of its own.
    async fn read_degraded(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let (len, column) = (into.len() as u64, self.map.position(offset).column);
        let scratch = len * u64::from(self.width());
        if column + len > self.map.chunk()
            || scratch > IN_CACHE.min(self.budget()) && scratch > self.read_budget()
        {
            return Box::pin(self.read_in_rows(offset, into)).await;
        }
        if self.read_in_block(offset, into).await? {
            return Ok(());
        }
        Box::pin(self.read_carefully(offset, into)).await
    }

    /// Reads members directly, and rows with lost data that is wanted window by window.
    async fn read_in_rows(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let len = into.len() as u64;
        let rows = self.map.position(offset).row..self.map.position(offset + len - 1).row + 1;
        let mut hit: Vec<(u64, Range<u64>)> = Vec::new();
        let mut group = self.ask();
        let avoids = self.may_avoid() && !self.core.members.is_slow_peer_asked();
        for row in rows {
            let members = &self.core.members;
            let lost = |piece: &ReadPiece| {
                let avoided = members.is_slow(piece.role) || avoids && members.is_slow_peer(piece.role);
                avoided || self.readable_in(row, piece.role).is_none()
            };
            if pieces(&self.map, row, offset, len).any(|piece| lost(&piece)) {
                let lo = pieces(&self.map, row, offset, len).map(|piece| piece.cols.start).min();
                let hi = pieces(&self.map, row, offset, len).map(|piece| piece.cols.end).max();
                hit.push((row, lo.unwrap_or(0)..hi.unwrap_or(self.map.chunk())));
                continue;
            }
            for piece in pieces(&self.map, row, offset, len) {
                if let Some(device) = self.core.members.device(piece.role) {
                    let from = self.map.row_offset(row) + piece.cols.start;
                    group.read(device, from, &piece.memory(into));
                }
            }
        }
        if !group.is_empty() {
            let done = group.submit().await;
            if let Some(error) = self.core.error_if_pinned(into, &done) {
                return Err(error);
            }
            if !done.is_ok() {
                return self.read_carefully(offset, into).await;
            }
        }
        let all = |row: u64| self.is_all_of(row, offset, len);
        let joins = |a: &(u64, Range<u64>), b: &(u64, Range<u64>)| {
            a.0 + 1 == b.0 && a.1 == b.1 && a.1 == (0..self.map.chunk()) && all(a.0) && all(b.0)
        };
        for run in hit.chunk_by(joins) {
            let rows = run[0].0..run[run.len() - 1].0 + 1;
            for window in self.windows(rows, run[0].1.clone(), 0, self.read_budget()) {
                if !self.read_window(&window, offset, into).await? {
                    return self.read_carefully(offset, into).await;
                }
            }
        }
        Ok(())
    }

    /// Reads a stretch of one block that takes no more scratch than a step may; `false` if that failed.
    async fn read_in_block(&self, offset: u64, into: &Slice) -> Result<bool, VolumeError> {
        let position = self.map.position(offset);
        let (row, start) = (position.row, position.column);
        let role = self.map.row(row).data_member(position.data_index);
        let members = &self.core.members;
        let avoids = || self.may_avoid() && members.is_slow_peer(role) && !members.is_slow_peer_asked();
        let avoided = members.is_slow(role) || avoids();
        let Some(device) = self.readable_in(row, role).filter(|_| !avoided) else {
            let _held = self.locks.acquire(row..row + 1, Hold::Shared).await;
            self.core.refuse_if_superseded()?;
            self.spend_for(&self.slow_members(false));
            let cols = start..start + into.len() as u64;
            return Ok(self.compute_block(row, role, cols, into, &self.slow_members(true)).await);
        };
        let mut group = self.ask();
        group.read(device, self.map.row_offset(row) + start, into);
        let done = group.submit().await;
        self.core.error_if_pinned(into, &done).map_or(Ok(done.is_ok()), Err)
    }

    /// All data of a row lies in a range of the array.
    fn is_all_of(&self, row: u64, offset: u64, len: u64) -> bool {
        let (start, data) = (row * self.map.row_data_bytes(), self.map.row_data_bytes());
        offset <= start && start + data <= offset + len
    }

    /// Reads the part of a request that lies in a window, of rows that are wanted whole or of one row; `false` if that failed for some
    /// of it.
    async fn read_window(&self, window: &RowWindow, offset: u64, into: &Slice) -> Result<bool, VolumeError> {
        let _held = self.locks.acquire(window.rows.clone(), Hold::Shared).await;
        self.core.refuse_if_superseded()?;
        self.spend_for(&self.slow_members(false));
        let slow = self.slow_members(true);
        let (row, data) = (window.rows.start, self.map.row_data_bytes());
        let is_read = if window.rows.end - row > 1 {
            let at = (row * data - offset) as usize;
            let own = into.slice(at..at + ((window.rows.end - row) * data) as usize);
            self.read_around(window.rows.clone(), &own, &slow).await?
        } else {
            self.read_row(window, &self.pieces_in(window, row, offset, into), into, &slow).await?
        };
        Ok(is_read || self.read_by_scratch(window, offset, into, &slow).await)
    }

    /// The pieces of a request in one row of a window.
    fn pieces_in(&self, window: &RowWindow, row: u64, offset: u64, into: &Slice) -> Pieces {
        let all = pieces(&self.map, row, offset, into.len() as u64);
        all.filter_map(|piece| piece.within(&window.cols)).collect()
    }

    /// The same where others use the request's memory, or that failed: the wanted part is copied out of scratch.
    async fn read_by_scratch(&self, window: &RowWindow, offset: u64, into: &Slice, bad: &Bad) -> bool {
        // Rows of a window of several are wanted whole; one row is wanted as its pieces are.
        let many = window.rows.end - window.rows.start > 1;
        let first = self.pieces_in(window, window.rows.start, offset, into);
        let is_wanted = |row: &Row, role: u16| {
            let is_data = role != row.p() && Some(role) != row.q();
            if many { is_data } else { first.iter().any(|piece| piece.role == role) }
        };
        // The failure may lie outside the requested bytes: the window spans the columns of both ends.
        let Ok(planes) = self.load(window, 0, is_wanted, bad).await else { return false };
        for row in window.rows.clone() {
            for piece in self.pieces_in(window, row, offset, into) {
                let from = (piece.cols.start - window.cols.start) as usize;
                let block = planes.block(piece.role, row);
                let block = block.slice(from..from + (piece.cols.end - piece.cols.start) as usize);
                into.put(piece.at, &block.bytes());
            }
        }
        true
    }

    /// The members whose data are rebuilt from the others: those that do not answer and, with `slow_peer`, those that
    /// are only slower than others.
    fn slow_members(&self, slow_peer: bool) -> Bad {
        let (mut slow, members) = (Bad::default(), &self.core.members);
        if members.is_any_slow() {
            let avoids = slow_peer && self.may_avoid();
            let avoided = |&role: &u16| members.is_slow(role) || avoids && members.is_slow_peer(role);
            let roles = (0..self.width()).filter(avoided);
            roles.for_each(|role| slow.add(role, OpError::TimedOut));
        }
        slow
    }

    /// Whether the others can give all data of a slow peer.
    fn may_avoid(&self) -> bool {
        self.core.keeper.synced_to() == u64::MAX
    }

    /// Counts reads that replace those of slow members.
    fn spend_for(&self, slow: &Bad) {
        if !slow.is_empty() {
            self.core.ration.spent(u64::from(self.width()) - 2);
        }
    }

    /// Reads step by step; what a member fails to give is rebuilt and written over its bad bytes.
    async fn read_carefully(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let mut at = 0;
        while at < into.len() {
            let position = self.map.position(offset + at as u64);
            let in_step = STEP - position.column % STEP;
            let len =
                (self.map.chunk() - position.column).min(in_step).min((into.len() - at) as u64) as usize;
            self.read_step(offset + at as u64, &into.slice(at..at + len)).await?;
            at += len;
        }
        Ok(())
    }

    /// Reads a stretch of one block. A slow member is read only where the others can't replace it, and only after its
    /// earlier answers: it keeps the memory of each read until then.
    async fn read_step(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let position = self.map.position(offset);
        let (row, start) = (position.row, position.column);
        let role = self.map.row(row).data_member(position.data_index);
        let _held = self.locks.acquire(row..row + 1, Hold::Exclusive).await;
        self.core.refuse_if_superseded()?;
        let mut avoids = true;
        loop {
            let mut bad = self.slow_members(avoids);
            let slow = bad.silent();
            if let Some(device) = self.readable_in(row, role).filter(|_| !bad.has(role)) {
                let mut group = self.ask();
                group.read(device, self.map.row_offset(row) + start, into);
                let done = group.submit().await;
                if let Some(error) = self.core.error_if_pinned(into, &done) {
                    return Err(error);
                }
                match done.ok() {
                    Ok(()) => return Ok(()),
                    Err(error) => bad.add(role, error),
                }
            }
            self.spend_for(&bad.only_silent());
            match (self.rebuild_into(row, role, start, into, bad).await, slow) {
                // The slow member that was passed over may still have it.
                (Err(_), Some(_)) if core::mem::take(&mut avoids) => {}
                (Err(_), Some(slow)) => self.core.answered(slow).await?,
                (rebuilt, _) => return rebuilt,
            }
        }
    }

    /// Rebuilds a stretch of one block, which the caller holds, without the members in `bad`; where that leaves too few,
    /// block by block: each may be unreadable elsewhere.
    async fn rebuild_into(
        &self,
        row: u64,
        role: u16,
        start: u64,
        into: &Slice,
        bad: Bad,
    ) -> Result<(), VolumeError> {
        let whole = RowWindow::of_row(row, start..start + into.len() as u64);
        let put = |block: &RowWindow, planes: &Planes| {
            into.put((block.cols.start - start) as usize, &planes.block(role, row).bytes());
        };
        let mut read_failures = ReadFailures::default();
        let mut result = Ok(());
        let silent = bad.only_silent();
        match self.load_carefully(&whole, role, bad, &mut read_failures).await {
            Ok(planes) => put(&whole, &planes),
            Err(_) => {
                read_failures.forget_lost();
                for block in whole.cut(u64::from(self.core.limits.block)) {
                    let loaded = self.load_carefully(&block, role, silent.clone(), &mut read_failures).await;
                    result = result.and(loaded.map(|planes| put(&block, &planes)));
                }
            }
        }
        // The rebuilt bytes are the answer, even if members fail now.
        self.core.judge(self.door(), read_failures).await;
        result
    }
}
