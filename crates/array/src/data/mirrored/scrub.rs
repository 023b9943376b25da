//! Copies compared, made the same, and rebuilt.

use brindle_io::{Buf, OpError, PAGE, Slice};
use brindle_layout::{Mirrored, Place};

use super::Readable;
use crate::array::Inner;
use crate::data::lock::Hold;
use crate::data::sync::{Mismatch, MismatchKind, SyncMode, SyncReport};
use crate::volume::VolumeError;

/// Bytes that are compared as one, as md does; less where a chunk ends.
const BLOCK: u64 = 64 << 10;

/// Bytes for all copies of a block. The number of copies is what a superblock says, and most may be missing.
const ALL_COPIES: u64 = 4 << 20;

/// [`BLOCK`], or less where there are very many copies.
pub(crate) fn block(map: &Mirrored) -> u64 {
    let fits = (ALL_COPIES / u64::from(map.copies())).max(PAGE as u64);
    BLOCK.min(1 << fits.ilog2())
}

/// Some bytes of the array with all their copies in memory.
struct Window {
    offset: u64,
    len: u64,
    buf: Buf,
}

impl Window {
    fn slice(&self, copy: u16, offset: u64, len: u64) -> Slice {
        let start = (u64::from(copy) * self.len + offset - self.offset) as usize;
        self.buf.slice(start..start + len as usize)
    }

    /// Offsets and lengths of the blocks that are compared.
    fn blocks<'a>(&'a self, map: &'a Mirrored) -> impl Iterator<Item = (u64, u64)> + 'a {
        let (mut at, block) = (self.offset, block(map));
        core::iter::from_fn(move || {
            let left = self.offset + self.len - at;
            let len = left.min(block - at % block).min(map.locate(at.min(self.offset + self.len - 1), 0).len);
            at += len;
            (len > 0).then_some((at - len, len))
        })
    }
}

impl Inner {
    pub(crate) async fn sync_mirrored(
        &self,
        map: &Mirrored,
        pos: u64,
        len: u64,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let end = (pos + len).min(self.geometry.size());
        let (copies, block) = (u64::from(map.copies()), block(map));
        let step = (self.scratch.capacity() as u64 / 4 / copies / block).max(1) * block;
        for offset in (pos..end).step_by(step as usize) {
            let len = step.min(end - offset);
            let _held = self.locks.acquire(offset..offset + len, Hold::Exclusive).await;
            let window = Window { offset, len, buf: self.scratch.alloc((copies * len) as usize).await };
            let mut group = self.io.group();
            for (at, len) in window.blocks(map) {
                for copy in self.readable_copies(map, at, len) {
                    let from = copy.device.data_offset + copy.extent.offset;
                    group.read(copy.device.id, from, &window.slice(copy.copy, at, len));
                }
            }
            if !group.submit().await.is_ok() {
                for (at, len) in window.blocks(map).collect::<Vec<_>>() {
                    self.mend_copies(map, &window, at, len).await?;
                }
            }
            self.compare_copies(map, &window, mode, report).await?;
        }
        Ok(())
    }

    /// Reads each copy of a block by itself; those that can't be read are written from the first that can.
    async fn mend_copies(
        &self,
        map: &Mirrored,
        window: &Window,
        at: u64,
        len: u64,
    ) -> Result<(), VolumeError> {
        let copies: Vec<Readable> = self.readable_copies(map, at, len).collect();
        let mut good = None;
        let mut bad: Vec<(Readable, OpError)> = Vec::new();
        for copy in copies {
            let into = window.slice(copy.copy, at, len);
            let mut group = self.io.group();
            group.read(copy.device.id, copy.device.data_offset + copy.extent.offset, &into);
            match group.submit().await.ok() {
                Ok(()) => good = good.or(Some(into)),
                Err(error) => bad.push((copy, error)),
            }
        }
        for (copy, error) in bad {
            let Some(good) = &good else { return Err(VolumeError::Member(error)) };
            self.mend_copy(&copy, error, good).await?;
            let bytes = good.bytes().to_vec();
            window.slice(copy.copy, at, len).put(0, &bytes);
        }
        Ok(())
    }

    async fn compare_copies(
        &self,
        map: &Mirrored,
        window: &Window,
        mode: SyncMode,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let mut group = self.io.group();
        for (at, len) in window.blocks(map) {
            let mut copies = self.readable_copies(map, at, len);
            let first = copies.next().ok_or(VolumeError::TooManyLost)?;
            let good = window.slice(first.copy, at, len);
            let mut compared = 1;
            for copy in copies {
                compared += 1;
                if *window.slice(copy.copy, at, len).bytes() == *good.bytes() {
                    continue;
                }
                report.mismatch_sectors += len.div_ceil(512);
                let offset = copy.extent.offset;
                report.note(Mismatch { role: copy.extent.member, offset, kind: MismatchKind::Copy });
                if mode == SyncMode::Repair {
                    group.write(copy.device.id, copy.device.data_offset + offset, &good, false);
                }
            }
            report.unverified += if compared < map.copies() { len } else { 0 };
        }
        if group.is_empty() {
            return Ok(());
        }
        let outcome = group.submit().await;
        self.settle_writes(&outcome, false).await
    }

    pub(crate) async fn recover_mirrored(
        &self,
        map: &Mirrored,
        role: u16,
        pos: u64,
        len: u64,
    ) -> Result<(), VolumeError> {
        let step = ((self.scratch.capacity() / 4) & !(PAGE - 1)) as u64;
        for from in (pos..pos + len).step_by(step as usize) {
            self.recover_step(map, role, from, step.min(pos + len - from)).await?;
        }
        Ok(())
    }

    async fn recover_step(&self, map: &Mirrored, role: u16, pos: u64, len: u64) -> Result<(), VolumeError> {
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
            let step = map.locate(array_offset, copy).len.min(len - at);
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
        let buf = self.scratch.alloc(len as usize).await;
        let memory = |start: u64, len: u64| buf.slice(start as usize..(start + len) as usize);
        let mut group = self.io.group();
        for &(offset, len, start) in &extents {
            let copy = self.readable_copies(map, offset, len).find(|copy| copy.extent.member != role);
            let copy = copy.ok_or(VolumeError::TooManyLost)?;
            group.read(copy.device.id, copy.device.data_offset + copy.extent.offset, &memory(start, len));
        }
        if !group.submit().await.is_ok() {
            for &(offset, len, start) in &extents {
                self.read_carefully_held(map, offset, &memory(start, len)).await?;
            }
        }
        let device = self.members.writable(role).ok_or(VolumeError::TooManyLost)?;
        let mut group = self.io.group();
        for &(_, len, start) in &extents {
            group.write(device.id, device.data_offset + pos + start, &memory(start, len), false);
        }
        let outcome = group.submit().await;
        self.settle_writes(&outcome, false).await?;
        Ok(outcome.ok()?)
    }
}
