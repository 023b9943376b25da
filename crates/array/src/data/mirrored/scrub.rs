//! Compares copies, and makes them equal.

use core::ops::Range;

use brindle_io::OpError;
use brindle_members::door::MemberOps;
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::holes::Holes;
use super::window::{CopyWindow, block};
use super::{Mirror, Readable};
use crate::data::report::{Mismatch, MismatchKind, SyncMode, SyncReport};
use crate::row_log::Change;

impl Mirror {
    pub(crate) async fn sync(
        &self,
        pos: u64,
        len: u64,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let end = (pos + len).min(self.geometry.size());
        let (copies, block) = (u64::from(self.map.copies()), block(&self.map));
        let step = (self.core.scratch.capacity() as u64 / 4 / copies / block).max(1) * block;
        for offset in (pos..end).step_by(step as usize) {
            let len = step.min(end - offset);
            let _held = self.locks.acquire(offset..offset + len, Hold::Exclusive).await;
            let (window, holes) = loop {
                let window =
                    CopyWindow { offset, len, buf: self.core.scratch.alloc((copies * len) as usize).await };
                let read = self.read_copies(&window, report).await;
                if !window.buf.is_pinned() {
                    break (window, read?);
                }
                // A member did not answer, and a write of this window may still land on it. The window is done once
                // more, without the member or after its answer.
                drop(window);
                read.or_else(
                    |error| if error == VolumeError::Again { Ok(Holes::default()) } else { Err(error) },
                )?;
                for role in (0..self.core.members.len()).filter(|&role| self.core.members.is_slow(role)) {
                    self.core.answered(role).await?;
                }
            };
            self.compare_copies(&window, &holes, mode, report).await?;
        }
        Ok(())
    }

    /// Reads all copies of a window; gives the places that they can't give.
    async fn read_copies(&self, window: &CopyWindow, report: &mut SyncReport) -> Result<Holes, VolumeError> {
        let mut group = self.ask();
        for (at, len) in window.blocks(&self.map) {
            for copy in self.readable_copies(at, len) {
                group.read(copy.device, copy.extent.offset, &window.slice(copy.copy, at, len));
            }
        }
        let done = group.submit().await;
        if done.is_ok() {
            return Ok(Holes::default());
        }
        match self.core.error_if_pinned(window.buf.all(), &done) {
            Some(error) => Err(error),
            None => self.find_holes(window, report).await,
        }
    }

    async fn compare_copies(
        &self,
        window: &CopyWindow,
        holes: &Holes,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let mut group = self.ask();
        let mut whole: SmallVec<[Range<u64>; 4]> = SmallVec::new();
        for (at, len) in window.blocks(&self.map) {
            let unit = if holes.is_whole(at, len) { len } else { u64::from(self.core.limits.block) };
            for start in (at..at + len).step_by(unit as usize) {
                let (at, len) = (start, unit.min(at + len - start));
                let agrees = self.compare_block(window, (at, len), holes, mode, &mut group, report)?;
                if !agrees || self.readable_copies(at, len).any(|copy| holes.has(copy.copy, at, len)) {
                    continue;
                }
                match whole.last_mut() {
                    Some(last) if last.end == at => last.end = at + len,
                    _ => whole.push(at..at + len),
                }
            }
        }
        if mode == SyncMode::Check {
            return Ok(());
        }
        if !group.is_empty() {
            let range = window.offset..window.offset + window.len;
            let _maintenance = self.core.maintenance(Change::Redundancy(range.clone())).await?;
            let outcome = group.submit().await;
            match self.core.settle_range(&outcome, false, range).await {
                // It is brought in sync once there is room.
                Err(VolumeError::Member { error: OpError::NoSpace, .. }) => {
                    report.unverified += window.len;
                    return Ok(());
                }
                settled => settled?,
            }
        }
        whole.into_iter().for_each(|range| self.core.keeper.note_in_sync(range, false));
        Ok(())
    }

    /// Counts the copies of a block that differ from the first that can be read, and adds the writes that make them the
    /// same, as `mode` has it. False if they are not the same then.
    fn compare_block(
        &self,
        window: &CopyWindow,
        (at, len): (u64, u64),
        holes: &Holes,
        mode: SyncMode,
        repairs: &mut MemberOps<'_>,
        report: &mut SyncReport,
    ) -> Result<bool, VolumeError> {
        let mut copies = self.copies_in_doubt(at, len);
        copies.retain(|copy| !holes.has(copy.copy, at, len));
        let Some((first, others)) = copies.split_first() else {
            report.unverified += len;
            return if holes.is_whole(at, len) { Err(VolumeError::TooManyLost) } else { Ok(true) };
        };
        report.unverified += if copies.len() < usize::from(self.map.copies()) { len } else { 0 };
        let good = window.slice(first.copy, at, len);
        let differs = |copy: &&Readable| *window.slice(copy.copy, at, len).bytes() != *good.bytes();
        let differing: SmallVec<[Readable; 4]> = others.iter().filter(differs).copied().collect();
        if differing.is_empty() {
            return Ok(true);
        }
        report.mismatch_sectors += len.div_ceil(512) * differing.len() as u64;
        let unlocated = if copies.len() > 2 && self.core.keeper.is_in_sync(&(at..at + len)) {
            self.vote(window, (at, len), &copies, mode, repairs, report)
        } else {
            len.div_ceil(512) * differing.len() as u64
        };
        report.unlocated += unlocated;
        for copy in differing {
            let (role, offset) = (copy.extent.member, copy.extent.offset);
            if unlocated > 0 {
                report.note(Mismatch { role, offset, len, kind: MismatchKind::Copy, located: false });
            }
            if mode == SyncMode::Repair {
                repairs.write(copy.device, offset, &good, false);
            }
        }
        Ok(unlocated == 0 || mode == SyncMode::Repair)
    }
}
