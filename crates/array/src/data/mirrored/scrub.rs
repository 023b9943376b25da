//! Compares copies, makes them equal, and rebuilds them.

use core::ops::Range;

use brindle_io::{Buf, OpError, PAGE};
use brindle_layout::Place;
use brindle_members::door::MemberOps;
use brindle_members::lock::Hold;
use brindle_members::members::RoleState;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::holes::Holes;
use super::read_errors::{STEP, Suspects};
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

    /// Rebuilds a range of the members of some roles, as far as these are still to be rebuilt; of one at least.
    pub(crate) async fn recover(
        &self,
        roles: &[u16],
        pos: u64,
        len: u64,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let step = ((self.core.scratch.capacity() / 4) & !(PAGE - 1)) as u64;
        for from in (pos..pos + len).step_by(step as usize) {
            let mut done = Err(VolumeError::TooManyLost);
            for &role in roles.iter().filter(|&&role| self.core.members.writable(role).is_some()) {
                match self.recover_step(role, from, step.min(pos + len - from), report).await {
                    // The others go on without it.
                    Err(error) if self.core.members.writable(role).is_none() => done = done.or(Err(error)),
                    other => {
                        other?;
                        done = Ok(());
                    }
                }
            }
            done?;
        }
        Ok(())
    }

    async fn recover_step(
        &self,
        role: u16,
        pos: u64,
        len: u64,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        // Extents of the array that the member's range holds, with where each begins in it.
        let mut extents: Vec<(u64, u64, u64)> = Vec::new();
        let mut at = 0;
        while at < len {
            let Place::Data { array_offset, copy } = self.geometry.place(role, pos + at) else {
                // A remainder that fills no chunk of the array.
                let chunk = self.geometry.chunk().max(512);
                at += chunk - (pos + at) % chunk;
                continue;
            };
            let step = self.map.locate(array_offset, copy).len.min(len - at);
            extents.push((array_offset, step, at));
            at += step;
        }
        // All places in the queue are taken before any is waited for, so that no two wait for each other.
        let enter =
            |&(offset, len, _): &(u64, u64, u64)| self.locks.enter(offset..offset + len, Hold::Exclusive);
        let held: Vec<_> = extents.iter().map(enter).collect();
        for held in &held {
            held.granted().await;
        }
        let buf = self.core.scratch.alloc(len as usize + STEP).await;
        let memory = |start: u64, len: u64| buf.slice(start as usize..(start + len) as usize);
        // A member that holds it gives it to its role's second device.
        let held_by_it = self.core.members.state(role) == RoleState::InSync;
        let mut group = self.ask();
        for &(offset, len, start) in &extents {
            let copy =
                self.readable_copies(offset, len).filter(|copy| (copy.extent.member == role) == held_by_it);
            // Those that are write-mostly have other things to do.
            let copy = copy.min_by_key(|copy| self.paces.is_write_mostly(copy.extent.member));
            let copy = copy.ok_or(VolumeError::TooManyLost)?;
            group.read(copy.device, copy.extent.offset, &memory(start, len));
        }
        let read = group.submit().await.is_ok();
        if !read {
            let mut parts = Vec::new();
            for extent in extents {
                parts.extend(self.read_parts(role, pos, extent, &buf, report).await?);
            }
            extents = parts;
        }
        let device = self.core.members.writable(role).ok_or(VolumeError::TooManyLost)?;
        let mut group = self.ask();
        for &(_, len, start) in &extents {
            // The window holds bytes of another copy, which need not be those of this member.
            if read {
                group.write_rebuilt(role, device, pos + start, &memory(start, len));
            } else {
                group.write(device, pos + start, &memory(start, len), false);
            }
        }
        let _maintenance = self.core.maintenance(Change::Member { role, range: pos..pos + len }).await?;
        let outcome = group.submit().await;
        self.core.settle_writes(&outcome, false).await?;
        outcome.named()
    }

    /// Reads what an extent (of the array: where it begins, its bytes, and where those are in `buf`) holds, for a member whose
    /// step begins at `pos`; gives the parts that some copy gave. The other blocks are left bad.
    async fn read_parts(
        &self,
        role: u16,
        pos: u64,
        (offset, len, start): (u64, u64, u64),
        buf: &Buf,
        report: &mut SyncReport,
    ) -> Result<Vec<(u64, u64, u64)>, VolumeError> {
        let spare = buf.slice(buf.len() - STEP..buf.len());
        let read = async |at: u64, len: u64| {
            let into = buf.slice((start + at) as usize..(start + at + len) as usize);
            self.read_carefully_held(offset + at, &into, &spare, &Suspects::new()).await
        };
        let part = |at: u64, len: u64| (offset + at, len, start + at);
        let (mut parts, block) = (Vec::new(), u64::from(self.core.limits.block));
        for step in (0..len).step_by(STEP) {
            let end = len.min(step + STEP as u64);
            if read(step, end - step).await.is_ok() {
                parts.push(part(step, end - step));
                continue;
            }
            for at in (step..end).step_by(block as usize) {
                let len = block.min(end - at);
                match read(at, len).await {
                    Ok(()) => parts.push(part(at, len)),
                    Err(why) => {
                        let place = pos + start + at..pos + start + at + len;
                        self.core.leave_bad(role, place, why, report).await?;
                    }
                }
            }
        }
        Ok(parts)
    }
}
