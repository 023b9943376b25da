//! Reads spread over the copies.

use brindle_io::{Group, Slice};
use brindle_layout::{Layout, Mirrored};

use super::Readable;
use crate::array::{Inner, ReadPolicy};
use crate::volume::VolumeError;

/// Reads of at least twice this are split over copies, into parts of at least this. Bytes.
const PART: usize = 64 << 10;
/// What an operation costs a member besides its bytes, in bytes: what a fast device moves in the time of its latency.
const OPERATION: u64 = 32 << 10;

impl Inner {
    #[inline]
    pub(crate) async fn read_mirrored(
        &self,
        map: &Mirrored,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let first = map.locate(offset, 0);
        if into.len() >= 2 * PART || first.len < into.len() as u64 {
            return Box::pin(self.read_split(map, offset, into)).await;
        }
        let Some(copy) = self.choose(map, offset, into.len()) else { return Err(VolumeError::TooManyLost) };
        let cost = into.len() as u64 + OPERATION;
        let load = &self.load[usize::from(copy.extent.member)];
        load.set(load.get() + cost);
        let mut group = self.io.group();
        group.read(copy.device.id, copy.device.data_offset + copy.extent.offset, into);
        let outcome = group.submit().await;
        load.set(load.get() - cost);
        if outcome.is_ok() {
            return Ok(());
        }
        Box::pin(self.read_carefully(map, offset, into)).await
    }

    /// The copy that is to answer a read within one extent.
    #[inline]
    fn choose(&self, map: &Mirrored, offset: u64, len: usize) -> Option<Readable> {
        let end = offset + len as u64;
        let mut copies = self.readable_copies(map, offset, len as u64);
        if self.config.read_policy == ReadPolicy::First || end > self.keeper.synced_to() {
            return copies.next();
        }
        let count = map.copies();
        let turn = (self.turn.get() + 1) % count;
        self.turn.set(turn);
        let rank = |copy: &Readable| (copy.copy + count - turn) % count;
        if self.config.read_policy == ReadPolicy::RoundRobin {
            return copies.min_by_key(rank);
        }
        copies.min_by_key(|copy| (self.load[usize::from(copy.extent.member)].get(), rank(copy)))
    }

    /// Splits a large read into contiguous parts, each with another near copy as its first choice: near copies of
    /// neighbouring chunks lie side by side, so that each member reads one contiguous range. Far copies need no such
    /// help, since the first of them is spread over all members already.
    async fn read_split(&self, map: &Mirrored, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let end = offset + into.len() as u64;
        let pinned = self.config.read_policy == ReadPolicy::First || end > self.keeper.synced_to();
        let parts = if pinned { 1 } else { self.parts(map, offset, into.len()) };
        let turn = self.turn.get();
        self.turn.set((turn + 1) % map.copies());
        let unit = if map.locate(offset, 0).len < into.len() as u64 { self.geometry.chunk() } else { 4096 };
        let part = (into.len() as u64).div_ceil(parts.into()).next_multiple_of(unit);

        let mut costs = vec![0u64; self.load.len()];
        let mut group = self.io.group();
        let mut at = 0;
        let mut built = Ok(());
        while at < into.len() {
            let here = offset + at as u64;
            let number = at as u64 / part;
            let left = (part * (number + 1) - at as u64).min((into.len() - at) as u64);
            let len = map.locate(here, 0).len.min(left) as usize;
            let preferred = if pinned { None } else { Some((number as u16 + turn) % parts) };
            let Some(copy) = self.copy_for_part(map, here, len, preferred, parts) else {
                built = Err(VolumeError::TooManyLost);
                break;
            };
            self.add(&mut group, &mut costs, &copy, &into.slice(at..at + len));
            at += len;
        }
        let outcome = if built.is_ok() { Some(group.submit().await) } else { None };
        for (load, cost) in self.load.iter().zip(&costs) {
            load.set(load.get() - cost);
        }
        match outcome {
            Some(outcome) if outcome.is_ok() => Ok(()),
            Some(_) => self.read_carefully(map, offset, into).await,
            None => built,
        }
    }

    fn add(&self, group: &mut Group, costs: &mut [u64], copy: &Readable, into: &Slice) {
        let role = usize::from(copy.extent.member);
        let cost = into.len() as u64 + OPERATION;
        costs[role] += cost;
        self.load[role].set(self.load[role].get() + cost);
        group.read(copy.device.id, copy.device.data_offset + copy.extent.offset, into);
    }

    /// Into how many parts a read is split: as many as there are near copies to read.
    fn parts(&self, map: &Mirrored, offset: u64, len: usize) -> u16 {
        let near = match self.geometry.layout() {
            Layout::Raid10(layout) => u16::from(layout.near),
            _ => self.readable_copies(map, offset, len as u64).count() as u16,
        };
        near.min((len / PART).min(usize::from(u16::MAX)) as u16).max(1)
    }

    /// The readable copy of the preferred rank; where that one is lost, the least busy.
    fn copy_for_part(
        &self,
        map: &Mirrored,
        offset: u64,
        len: usize,
        preferred: Option<u16>,
        parts: u16,
    ) -> Option<Readable> {
        let mut copies = self.readable_copies(map, offset, len as u64);
        let Some(preferred) = preferred else { return copies.next() };
        if let Layout::Raid10(layout) = self.geometry.layout() {
            let wanted = preferred * u16::from(layout.far);
            let found = copies.find(|copy| copy.copy == wanted);
            return found.or_else(|| self.choose(map, offset, len));
        }
        let count = self.readable_copies(map, offset, len as u64).count().max(1);
        // Fewer parts than copies: let successive reads begin with different ones.
        let rotation = if usize::from(parts) < count { usize::from(self.turn.get()) } else { 0 };
        copies.nth((usize::from(preferred) + rotation) % count)
    }
}
