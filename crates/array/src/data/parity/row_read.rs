//! Reads whole rows, parts of one, or parts of a block, into a request's own memory. Lost blocks are computed in place.
//!
//! Nothing is copied, and only blocks outside the request take scratch: a read of an array that lacks members moves
//! each byte once.

use core::ops::Range;

use brindle_io::Slice;
use brindle_layout::Row;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::bad::Bad;
use super::pieces::{Pieces, bands, piece_of, put_pieces};
use super::solve::{self, LostData};
use super::window::{Blocks, RowWindow};
use super::{Parity, data_roles, parity_roles};

/// The missing blocks of a row, and which parity has been read.
struct Lack {
    lost: LostData,
    p: bool,
}

impl Parity {
    /// Reads `rows` into memory that is as long as their data, without the members in `bad`; `false` if that failed for some of
    /// it, or can't be done: others use the memory, or parity can't stand for what is lost. The caller holds the rows.
    pub(super) async fn read_around(
        &self,
        rows: Range<u64>,
        into: &Slice,
        bad: &Bad,
    ) -> Result<bool, VolumeError> {
        if into.try_bytes_mut().is_none() {
            return Ok(false);
        }
        let chunk = self.map.chunk() as usize;
        let count = (rows.end - rows.start) as usize;
        let parities = usize::from(self.map.parity_members());
        let scratch = self.core.scratch.alloc(count * parities * chunk).await;
        // Members may have failed while this task waited for memory: from here to the reads nothing waits.
        let mut lacks: SmallVec<[Lack; 8]> = SmallVec::new();
        let mut group = self.ask();
        for (nth, row) in rows.clone().enumerate() {
            let roles = self.map.row(row);
            let there = |role: u16| self.readable_in(row, role).is_some() && !bad.has(role);
            let is_data = |role: u16| parity_roles(&roles).all(|parity| parity != role);
            let trust = self.trust(row, &(0..self.map.chunk()));
            let Ok(needs) = solve::needs(&roles, there, is_data, trust) else { return Ok(false) };
            let mut read = |role: u16, into: Slice| {
                if let Some(device) = self.core.members.device(role).filter(|_| there(role)) {
                    group.read(device, self.map.row_offset(row), &into);
                }
            };
            for index in 0..roles.data_members() {
                let at = (nth * usize::from(roles.data_members()) + usize::from(index)) * chunk;
                read(roles.data_member(index), into.slice(at..at + chunk));
            }
            for (which, (role, needed)) in parity_roles(&roles).zip([needs.p, needs.q]).enumerate() {
                if needed {
                    let at = (nth * parities + which) * chunk;
                    read(role, scratch.slice(at..at + chunk));
                }
            }
            lacks.push(Lack { lost: solve::lost_data(&roles, there).unwrap_or_default(), p: needs.p });
        }
        let done = group.submit().await;
        if let Some(error) = self.core.error_if_pinned(into, &done) {
            return Err(error);
        }
        if !done.is_ok() {
            return Ok(false);
        }
        let Some(mut data) = into.try_bytes_mut() else { return Ok(false) };
        let mut parity = scratch.bytes_mut();
        let of_rows = data.chunks_exact_mut(usize::from(self.map.data_members()) * chunk);
        let parity_of_rows = parity.chunks_exact_mut(parities * chunk);
        for ((row, lack), (data, parity)) in rows.zip(lacks).zip(of_rows.zip(parity_of_rows)) {
            let roles = self.map.row(row);
            let mut blocks = blocks(&roles, data, parity, chunk);
            self.put_logged(row, 0, &mut blocks);
            solve::rebuild_data(self.kernel, &roles, &mut blocks, &lack.lost, lack.p);
        }
        Ok(true)
    }

    /// Reads pieces of the one row of a window into a request's memory, without the members in `bad`; `false` as of
    /// [`Parity::read_around`]. The caller holds the row.
    ///
    /// The columns of what is lost are cut where pieces begin or end: in each of these bands a block is either wanted whole, and lies in
    /// the request's memory, or takes scratch.
    pub(super) async fn read_row(
        &self,
        window: &RowWindow,
        pieces: &Pieces,
        into: &Slice,
        bad: &Bad,
    ) -> Result<bool, VolumeError> {
        if into.try_bytes_mut().is_none() {
            return Ok(false);
        }
        let (row, width) = (window.rows.start, window.width() as usize);
        let roles = self.map.row(row);
        let scratch = self.core.scratch.alloc(usize::from(self.width()) * width).await;
        // Members may have failed while this task waited for memory: from here to the reads nothing waits.
        let there: SmallVec<[bool; 32]> =
            (0..self.width()).map(|role| self.readable_in(row, role).is_some() && !bad.has(role)).collect();
        let there = |role: u16| there[usize::from(role)];
        let is_wanted = |role: u16| pieces.iter().any(|piece| piece.role == role);
        let trust = self.trust(row, &window.cols);
        let Ok(needs) = solve::needs(&roles, there, is_wanted, trust) else { return Ok(false) };
        let bands = bands(pieces, there);
        let mut group = self.ask();
        let mut read = |role: u16, column: u64, into: &Slice| {
            if let Some(device) = self.core.members.device(role).filter(|_| there(role)) {
                group.read(device, self.map.row_offset(row) + column, into);
            }
        };
        pieces.iter().for_each(|piece| read(piece.role, piece.cols.start, &piece.memory(into)));
        let parity = parity_roles(&roles).zip([needs.p, needs.q]).filter(|(_, needed)| *needed);
        for other in data_roles(&roles).chain(parity.map(|(role, _)| role)) {
            for band in bands.iter().filter(|band| piece_of(pieces, other, band).is_none()) {
                let at = usize::from(other) * width + (band.start - window.cols.start) as usize;
                read(other, band.start, &scratch.slice(at..at + (band.end - band.start) as usize));
            }
        }
        let done = group.submit().await;
        if let Some(error) = self.core.error_if_pinned(into, &done) {
            return Err(error);
        }
        if !done.is_ok() {
            return Ok(false);
        }
        let lost = solve::lost_data(&roles, there).unwrap_or_default();
        let Some(mut wanted) = into.try_bytes_mut() else { return Ok(false) };
        let mut others = scratch.bytes_mut();
        for band in &bands {
            let within = (band.start - window.cols.start) as usize..(band.end - window.cols.start) as usize;
            let mut blocks: Blocks<'_> =
                others.chunks_exact_mut(width).map(|plane| &mut plane[within.clone()]).collect();
            put_pieces(pieces, band, &mut wanted, &mut blocks);
            self.put_logged(row, band.start, &mut blocks);
            solve::rebuild_data(self.kernel, &roles, &mut blocks, &lost, needs.p);
        }
        Ok(true)
    }

    /// Computes columns of one data block into memory of their length, without its member and those in `bad`; `false` if that
    /// failed, or can't be done: others use the memory, or parity can't stand for what is lost. The caller holds the row.
    pub(super) async fn compute_block(
        &self,
        row: u64,
        role: u16,
        cols: Range<u64>,
        into: &Slice,
        bad: &Bad,
    ) -> bool {
        if into.try_bytes_mut().is_none() {
            return false;
        }
        let (len, roles) = (into.len(), self.map.row(row));
        let scratch = self.core.scratch.alloc(usize::from(self.width()) * len).await;
        // Members may have failed while this task waited for memory: from here to the reads nothing waits.
        let there: SmallVec<[bool; 32]> = (0..self.width())
            .map(|other| other != role && self.readable_in(row, other).is_some() && !bad.has(other))
            .collect();
        let there = |other: u16| there[usize::from(other)];
        let trust = self.trust(row, &cols);
        let Ok(needs) = solve::needs(&roles, there, |other| other == role, trust) else { return false };
        let Ok(lost) = solve::lost_data(&roles, there) else { return false };
        let mut group = self.ask();
        let offset = self.map.row_offset(row) + cols.start;
        let parity = parity_roles(&roles).zip([needs.p, needs.q]).filter(|(_, needed)| *needed);
        for other in data_roles(&roles).chain(parity.map(|(other, _)| other)) {
            if let Some(device) = self.core.members.device(other).filter(|_| there(other)) {
                let at = usize::from(other) * len;
                group.read(device, offset, &scratch.slice(at..at + len));
            }
        }
        if !group.submit().await.is_ok() {
            return false;
        }
        let Some(mut wanted) = into.try_bytes_mut() else { return false };
        let mut others = scratch.bytes_mut();
        let mut blocks: Blocks<'_> = others.chunks_exact_mut(len).collect();
        blocks[usize::from(role)] = &mut wanted;
        self.put_logged(row, cols.start, &mut blocks);
        solve::rebuild_data(self.kernel, &roles, &mut blocks, &lost, needs.p);
        true
    }
}

/// The blocks of a row by role, of which data and parity stand apart.
fn blocks<'a>(roles: &Row, data: &'a mut [u8], parity: &'a mut [u8], chunk: usize) -> Blocks<'a> {
    let members = usize::from(roles.data_members()) + parity_roles(roles).count();
    let mut blocks: Blocks<'a> = core::iter::repeat_with(Default::default).take(members).collect();
    for (role, block) in data_roles(roles).zip(data.chunks_exact_mut(chunk)) {
        blocks[usize::from(role)] = block;
    }
    for (role, block) in parity_roles(roles).zip(parity.chunks_exact_mut(chunk)) {
        blocks[usize::from(role)] = block;
    }
    blocks
}
