//! The content of a modelled drive: the bytes that a reader sees, and those that would survive a power cut.

use std::collections::VecDeque;

use super::content::{DiskContent, Unwritten};
use super::rng::Rng;
use crate::op::Segment;

/// The data of an operation.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    Memory(&'a [Segment]),
    Zeroes,
    /// Reads may give anything.
    Nothing,
}

/// How much of a write takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    Whole,
    /// Only the bytes before this one survive.
    Prefix(u64),
    /// Each tear unit by chance.
    Scattered,
}

impl Landing {
    /// How a write of `len` bytes ends that was cut off: often in one of the corners, since chance alone hardly ever
    /// leaves a long write whole or undone.
    pub(super) fn of_cut(len: u64, rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::Whole,
            1 | 2 => Self::Prefix(0),
            3 | 4 => Self::Prefix(rng.below(len)),
            _ => Self::Scattered,
        }
    }
}

/// A change in the drive's cache that is not stable yet.
struct Unstable {
    unit: u64,
    write: u64,
    /// The earlier content of the unit is in [`SimDisk::before`]. If not, the change itself was stable at once, and
    /// nothing older can come back.
    kept: bool,
}

/// The bytes of one drive, by tear unit: the smallest write that the drive does whole or not at all.
pub(super) struct SimDisk {
    /// `None`: nothing is kept, for runs that only ask how long things take.
    content: Option<DiskContent>,
    /// Bytes at the beginning that are kept. Operations that reach beyond leave nothing.
    kept: u64,
    unit: u64,
    writes: u64,
    /// Oldest first.
    unstable: VecDeque<Unstable>,
    /// The earlier content of the kept units of `unstable`, in the same order.
    before: VecDeque<u8>,
}

impl SimDisk {
    pub(super) fn new(size: u64, unit: u32, unwritten: Option<Unwritten>) -> Self {
        Self {
            content: unwritten.map(|unwritten| DiskContent::new(size, unwritten)),
            kept: if unwritten.is_some() { size } else { 0 },
            unit: u64::from(unit),
            writes: 0,
            unstable: VecDeque::new(),
            before: VecDeque::new(),
        }
    }

    /// True if writes up to byte `end` are kept.
    pub(super) fn keeps(&self, end: u64) -> bool {
        end <= self.kept
    }

    /// Keeps the first bytes from now on, which read as zeroes until they are written.
    pub(super) fn keep_beginning(&mut self, bytes: u64) {
        (self.content, self.kept) = (Some(DiskContent::new(bytes, Unwritten::Zeroes)), bytes);
    }

    pub(super) fn peek(&self, offset: u64, into: &mut [u8]) {
        match &self.content {
            Some(content) => content.peek(offset, into),
            None => into.fill(0),
        }
    }

    /// Changes bytes at any offset, for good.
    pub(super) fn poke(&mut self, offset: u64, from: &[u8]) {
        let Some(content) = self.content.as_mut().filter(|_| offset + from.len() as u64 <= self.kept) else {
            return;
        };
        let start = offset / self.unit * self.unit;
        let end = (offset + from.len() as u64).next_multiple_of(self.unit);
        let mut bytes = vec![0; (end - start) as usize];
        content.peek(start, &mut bytes);
        bytes[(offset - start) as usize..][..from.len()].copy_from_slice(from);
        content.put(start, &bytes);
        self.writes += 1;
        for unit in start / self.unit..end / self.unit {
            self.note(unit, true);
        }
    }

    /// Reads as many bytes to the memory, which may be longer.
    pub(super) fn read(&mut self, offset: u64, len: u64, segments: &[Segment]) {
        if let Some(content) = &mut self.content
            && offset + len <= self.kept
        {
            content.read(offset, len, segments);
        }
    }

    /// See [`DiskContent::first_unwritten`].
    pub(super) fn first_unwritten(&self, offset: u64, len: u64) -> Option<u64> {
        self.content.as_ref()?.first_unwritten(offset, len)
    }

    /// Takes a write, as much of it as lands. Without `stable` it stays in the drive's cache.
    pub(super) fn write(
        &mut self,
        (offset, len): (u64, u64),
        data: Data<'_>,
        landing: Landing,
        stable: bool,
        rng: &mut Rng,
    ) {
        if offset + len > self.kept {
            return;
        }
        self.writes += 1;
        let (end, mut at) = (offset + len, offset);
        let mut source = Source { data, segment: 0, skip: 0 };
        while at < end {
            let unit = at / self.unit;
            let count = if landing == Landing::Whole && stable && self.unstable.is_empty() {
                end - at
            } else {
                end.min((unit + 1) * self.unit) - at
            };
            let lands = match landing {
                Landing::Whole => true,
                Landing::Prefix(most) => at + count <= offset + most,
                Landing::Scattered => rng.below(2) == 1,
            };
            if lands {
                self.note(unit, stable);
            }
            source.put_next(count, self.content.as_mut().filter(|_| lands), at);
            at += count;
        }
    }

    /// A unit is about to change: what it holds may come back at a power cut, unless the change is stable.
    fn note(&mut self, unit: u64, stable: bool) {
        if stable {
            if !self.unstable.is_empty() {
                self.unstable.push_back(Unstable { unit, write: self.writes, kept: false });
            }
            return;
        }
        let Some(content) = &self.content else { return };
        let mut old = [0; 4096];
        let old = &mut old[..self.unit as usize];
        content.peek(unit * self.unit, old);
        self.before.extend(&*old);
        self.unstable.push_back(Unstable { unit, write: self.writes, kept: true });
    }

    /// The number of the newest write: what a flush that comes now will make stable, with all before it.
    pub(super) fn newest_write(&self) -> u64 {
        self.writes
    }

    /// Makes every write up to number `write` stable.
    pub(super) fn flush(&mut self, write: u64) {
        let covered = self.unstable.iter().take_while(|change| change.write <= write).count();
        let kept = self.unstable.drain(..covered).filter(|change| change.kept).count();
        self.before.drain(..kept * self.unit as usize);
    }

    /// Everything that is not stable is as it was before.
    pub(super) fn forget_unflushed(&mut self) {
        self.go_back(|_| 0);
    }

    /// The power goes: of each unit in the cache any version, or the stable one, is what is left. Often all of it, none
    /// of it or what was written up to some moment.
    pub(super) fn cut_power(&mut self, rng: &mut Rng) {
        let oldest = self.unstable.front().map_or(0, |change| change.write);
        match rng.below(8) {
            0 => self.go_back(|_| 0),
            1 => self.go_back(<[u64]>::len),
            2 | 3 => {
                let last = oldest + rng.below(self.writes + 1 - oldest.min(self.writes));
                self.go_back(|writes| writes.partition_point(|&write| write <= last));
            }
            _ => self.go_back(|writes| rng.below(writes.len() as u64 + 1) as usize),
        }
    }

    /// Takes every unit in the cache back by some versions. `pick` is given the numbers of the writes that changed it
    /// since it was last stable, and says how many of them stay.
    fn go_back(&mut self, mut pick: impl FnMut(&[u64]) -> usize) {
        let changes = Vec::from(core::mem::take(&mut self.unstable));
        let before = Vec::from(core::mem::take(&mut self.before));
        let Some(content) = &mut self.content else { return };
        let mut order: Vec<(u64, usize, usize)> = Vec::with_capacity(changes.len());
        let mut place = 0;
        for (at, change) in changes.iter().enumerate() {
            order.push((change.unit, at, place));
            place += if change.kept { self.unit as usize } else { 0 };
        }
        order.sort_unstable();
        let mut writes = Vec::new();
        for of_unit in order.chunk_by(|a, b| a.0 == b.0) {
            let stable = of_unit.iter().rposition(|&(_, at, _)| !changes[at].kept).map_or(0, |at| at + 1);
            let of_unit = &of_unit[stable..];
            writes.clear();
            writes.extend(of_unit.iter().map(|&(_, at, _)| changes[at].write));
            if let Some(&(unit, _, place)) = of_unit.get(pick(&writes)) {
                content.put(unit * self.unit, &before[place..place + self.unit as usize]);
            }
        }
    }
}

/// The data of a write, from its first byte on.
struct Source<'a> {
    data: Data<'a>,
    segment: usize,
    skip: usize,
}

impl Source<'_> {
    /// Puts the next `count` bytes into `content` at `offset`, or passes them over.
    fn put_next(&mut self, count: u64, content: Option<&mut DiskContent>, offset: u64) {
        match (self.data, content) {
            (Data::Memory(segments), content) => self.put_memory(segments, count, content, offset),
            (Data::Zeroes, Some(content)) => content.zero(offset, count as usize),
            (Data::Nothing, Some(content)) => content.discard(offset, count as usize),
            (_, None) => {}
        }
    }

    fn put_memory(
        &mut self,
        segments: &[Segment],
        count: u64,
        mut content: Option<&mut DiskContent>,
        offset: u64,
    ) {
        let (mut left, mut at) = (count as usize, offset);
        while left > 0 {
            let Some(segment) = segments.get(self.segment) else { return };
            let piece = left.min(segment.len - self.skip);
            if let Some(content) = content.as_deref_mut() {
                let base = segment.base.wrapping_add(self.skip);
                // SAFETY: the range is within the segment, which the op table keeps valid and unchanged until the
                // completion.
                content.put(at, unsafe { core::slice::from_raw_parts(base, piece) });
            }
            self.skip += piece;
            if self.skip == segment.len {
                (self.segment, self.skip) = (self.segment + 1, 0);
            }
            left -= piece;
            at += piece as u64;
        }
    }
}
