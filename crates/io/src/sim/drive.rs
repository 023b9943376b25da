//! One drive: takes the effect of operations, and does wrong as its faults have it.

use std::rc::Rc;

use super::Hostility;
use super::busy::Busy;
use super::content::{SECTOR, Unwritten, noise};
use super::disk::{Data, Landing, SimDisk};
use super::faults::Faults;
use super::model::Model;
use super::rng::Rng;
use super::stations::Stations;
use super::timing::Timing;
use crate::op::{Mapped, MemberInfo, OpError, OpKey, OpKind, Probe, Segment};
use crate::ranges::{RangeKey, Ranges};
use crate::shortfall;

/// As Linux numbers it.
const EIO: i32 = 5;

pub(super) struct Drive {
    pub(super) model: Model,
    /// The properties of the drive when the process began.
    pub(super) info: MemberInfo,
    /// Bytes that it has now: fewer once it was truncated.
    holds: u64,
    pub(super) timing: Timing,
    pub(super) disk: SimDisk,
    pub(super) faults: Faults,
    /// Changes under way.
    pub(super) changing: Ranges<OpKey>,
    /// Operations that it was given, by [`OpClass`](crate::OpClass).
    pub(super) given: [u64; 3],
    /// Bytes that it was asked to read, and to write.
    pub(super) moved: [u64; 2],
    /// Flushes under way that will fail.
    failing: u32,
}

/// An operation on its way.
#[derive(Clone, Copy)]
pub(super) struct Flying {
    pub(super) kind: OpKind,
    /// Valid until the completion, as [`crate::Reactor::submit`] demands.
    pub(super) segments: *const [Segment],
    pub(super) len: u64,
    /// For a flush: the newest write that had completed when it came.
    pub(super) covers: u64,
    /// A flush that the drive will not carry out.
    pub(super) fails: bool,
    /// The place of a change among those under way.
    pub(super) changes: Option<RangeKey>,
}

impl Flying {
    /// From now on no memory is read or written for it.
    pub(super) fn forget_memory(&mut self) {
        self.segments = &[];
    }

    fn segments(&self) -> &[Segment] {
        // SAFETY: the caller of `submit` keeps the array valid until the completion; an operation leaves the list of those
        // that fly before its completion is handed back.
        unsafe { &*self.segments }
    }

    /// The range and data that the operation changes on its drive.
    pub(super) fn change(&self) -> Option<(u64, u64, Data<'_>)> {
        match self.kind {
            OpKind::Write { offset, .. } => Some((offset, self.len, Data::Memory(self.segments()))),
            OpKind::WriteZeroes { offset, len, .. } => Some((offset, len, Data::Zeroes)),
            OpKind::Discard { offset, len, .. } => Some((offset, len, Data::Nothing)),
            _ => None,
        }
    }
}

impl Drive {
    pub(super) fn new(model: Model, bytes: u64, unwritten: Option<Unwritten>) -> Self {
        let unit = model.tear_unit.max(model.logical_block).clamp(SECTOR as u32, 4096);
        Self {
            model,
            info: model.info(bytes),
            holds: bytes,
            timing: Timing::new(model, bytes),
            disk: SimDisk::new(bytes, unit, unwritten),
            faults: Faults::default(),
            changing: Ranges::default(),
            given: [0; 3],
            moved: [0; 2],
            failing: 0,
        }
    }

    /// A drive with measured times.
    pub(super) fn measured(stations: Rc<Stations>, bytes: u64) -> Self {
        let platter = stations.platter.as_ref();
        let model = Model {
            rotation: platter.map_or(0, |platter| platter.rotation),
            volatile_cache: stations.volatile_cache,
            ..Model::nvme()
        };
        let timing = Timing::Measured(Box::new(Busy::new(stations, bytes)));
        Self { timing, ..Self::new(model, bytes, None) }
    }

    /// Whether it keeps what is written up to byte `end`.
    pub(super) fn keeps(&self, end: u64) -> bool {
        self.disk.keeps(end)
    }

    /// The drive has fewer bytes from now on. What was beyond is gone: once a write makes it longer again, a hole.
    pub(super) fn truncate(&mut self, size: u64, rng: &mut Rng) {
        let whole = size.next_multiple_of(SECTOR as u64).min(self.info.size);
        self.disk.poke(size, &vec![0; (whole - size) as usize]);
        self.disk.write((whole, self.info.size - whole), Data::Zeroes, Landing::Whole, true, rng);
        self.holds = size;
    }

    /// Opens the drive in its present state.
    pub(super) fn reopen(&mut self) {
        self.info.size = self.holds - self.holds % u64::from(self.info.logical_block);
        self.forget_work();
    }

    /// Forgets all operations under way.
    pub(super) fn forget_work(&mut self) {
        self.timing.forget(self.info.size);
        self.changing.clear();
        self.failing = 0;
    }

    /// The drive takes an operation up: true if it is a flush that will fail.
    pub(super) fn begin(&mut self, op: &mut Flying) -> bool {
        op.fails = matches!(op.kind, OpKind::Flush { .. }) && Faults::take(&mut self.faults.failing_flushes);
        self.failing += u32::from(op.fails);
        op.fails
    }

    /// The operation takes its effect, at the moment of its completion.
    pub(super) fn perform(
        &mut self,
        op: &Flying,
        hostility: &Hostility,
        rng: &mut Rng,
    ) -> Result<u64, OpError> {
        let result =
            if self.faults.gone { self.perform_gone(op) } else { self.perform_here(op, hostility, rng) };
        let is_whole = match op.kind {
            OpKind::Read { .. } | OpKind::Write { .. } => result == Ok(op.len),
            _ => result.is_ok(),
        };
        let lost = if is_whole { None } else { self.lost() };
        lost.map_or(result, Err)
    }

    /// The error of all that fails on a drive which has fewer bytes than it had: as a file if it was truncated.
    #[cold]
    fn lost(&self) -> Option<OpError> {
        let pulled = self.faults.gone && self.faults.pulled;
        shortfall::of(self.info.size, if pulled { 0 } else { self.holds }, pulled)
    }

    fn perform_gone(&self, op: &Flying) -> Result<u64, OpError> {
        match op.kind {
            _ if !self.faults.pulled => Err(OpError::Gone),
            OpKind::Read { .. } => Ok(0),
            OpKind::Write { .. } => Err(OpError::NoSpace),
            OpKind::Flush { .. } if self.model.volatile_cache => Err(OpError::Medium(EIO)),
            OpKind::Flush { .. } => Ok(0),
            OpKind::Probe { .. } => Ok(Probe { size: 0, place: self.faults.place }.to_bits()),
            OpKind::Map { len, .. } => Ok(Mapped::stored(len).to_bits()),
            _ => Err(OpError::Unsupported),
        }
    }

    #[inline]
    fn perform_here(&mut self, op: &Flying, hostility: &Hostility, rng: &mut Rng) -> Result<u64, OpError> {
        match op.kind {
            OpKind::WriteZeroes { .. } if !self.info.write_zeroes || self.faults.no_write_zeroes => {
                Err(OpError::Unsupported)
            }
            OpKind::Discard { .. } if !self.info.discard || self.faults.no_discard => {
                Err(OpError::Unsupported)
            }
            OpKind::Read { offset, .. } => {
                self.within(offset, op.len)?;
                self.read(offset, op, self.short(op.len, hostility, rng))
            }
            OpKind::Write { offset, fua, .. } => {
                self.within(offset, op.len)?;
                let len = self.short(op.len, hostility, rng);
                self.change((offset, len, Data::Memory(op.segments())), fua, rng)
            }
            OpKind::WriteZeroes { offset, len, .. } => {
                self.within(offset, len)?;
                self.change((offset, len, Data::Zeroes), false, rng)
            }
            OpKind::Discard { offset, len, .. } => {
                self.within(offset, len)?;
                self.change((offset, len, Data::Nothing), false, rng)
            }
            OpKind::Flush { .. } => self.flush(op),
            OpKind::Probe { .. } => Ok(Probe { size: self.holds, place: self.faults.place }.to_bits()),
            // Holes are not reported: sectors that were never written read as noise.
            OpKind::Map { offset, len, .. } => {
                self.within(offset, len)?;
                Ok(Mapped::stored(len).to_bits())
            }
            OpKind::Ask { .. } | OpKind::Accept { .. } | OpKind::Recv { .. } | OpKind::Send { .. } => {
                Err(OpError::Unsupported)
            }
        }
    }

    fn within(&self, offset: u64, len: u64) -> Result<(), OpError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(OpError::OutOfRange),
        }
    }

    /// How much of a transfer is done at one go.
    fn short(&self, len: u64, hostility: &Hostility, rng: &mut Rng) -> u64 {
        let block = u64::from(self.info.logical_block);
        if len <= block || !rng.chance(hostility.short_transfers) {
            return len;
        }
        block * (1 + rng.below(len / block - 1))
    }

    fn read(&mut self, offset: u64, op: &Flying, len: u64) -> Result<u64, OpError> {
        if Faults::strikes(&mut self.faults.unreadable, offset, len) {
            if let Some(first) = op.segments().first() {
                // SAFETY: the op table keeps the segment valid, and nobody else looks at it until the completion.
                let rubbish = unsafe { core::slice::from_raw_parts_mut(first.base, first.len.min(SECTOR)) };
                noise(offset, op.len, rubbish);
            }
            return Err(OpError::Medium(EIO));
        }
        let held = len.min(self.holds.saturating_sub(offset));
        self.disk.read(offset, held, op.segments());
        // A transfer can't be continued from within a block.
        let goes_on = held == len || held.is_multiple_of(u64::from(self.info.logical_block));
        if goes_on { Ok(held) } else { Err(OpError::Truncated) }
    }

    fn flush(&mut self, op: &Flying) -> Result<u64, OpError> {
        if op.fails {
            self.failing -= 1;
            self.disk.forget_unflushed();
            return Err(OpError::Medium(EIO));
        }
        // Another flush is about to fail and drop unstable data: a flush that succeeds meanwhile must not make them
        // stable.
        if self.failing == 0 {
            self.disk.flush(op.covers);
        }
        Ok(0)
    }

    fn change(
        &mut self,
        (offset, len, data): (u64, u64, Data<'_>),
        fua: bool,
        rng: &mut Rng,
    ) -> Result<u64, OpError> {
        let stable = fua || !self.model.volatile_cache;
        if Faults::strikes(&mut self.faults.unwritable, offset, len) {
            let landing = Landing::of_cut(len, rng);
            self.disk.write((offset, len), data, landing, stable, rng);
            return Err(OpError::Medium(EIO));
        }
        if let Some(place) = self.no_room(offset, len, data) {
            self.disk.write((offset, len), data, Landing::Prefix(place - offset), stable, rng);
            return Err(OpError::NoSpace);
        }
        let (place, landing) = self.waylay(offset, len, data);
        self.disk.write((place, len), data, landing, stable, rng);
        self.holds = self.holds.max(place + len);
        let honest = place == offset && landing == Landing::Whole;
        if honest {
            self.faults.written(offset, len);
        } else {
            self.faults.silent.extend([offset..offset + len, place..place + len]);
            self.faults.silent.dedup();
        }
        Ok(len)
    }

    /// The first place of a change that a full drive has no room for.
    fn no_room(&self, offset: u64, len: u64, data: Data<'_>) -> Option<u64> {
        let copied = self.faults.full_on_write.as_ref().map(|full| offset.max(full.start)..full.end);
        if let Some(copied) = copied.filter(|range| range.start < range.end.min(offset + len)) {
            return Some(copied.start);
        }
        let full = self.faults.full.as_ref()?;
        let (start, end) = (offset.max(full.start), (offset + len).min(full.end));
        if start >= end || matches!(data, Data::Nothing) {
            return None;
        }
        self.disk.first_unwritten(start, end - start)
    }

    /// Applies the faults of lost and misplaced writes: where an acknowledged write lands, and how much of it.
    fn waylay(&mut self, offset: u64, len: u64, data: Data<'_>) -> (u64, Landing) {
        let faults = &mut self.faults;
        if !matches!(data, Data::Memory(_)) {
            return (offset, Landing::Whole);
        }
        if Faults::take(&mut faults.losing_writes) {
            return (offset, Landing::Prefix(0));
        }
        if Faults::take(&mut faults.tearing_writes) {
            return (offset, Landing::Scattered);
        }
        if Faults::take(&mut faults.misdirected_writes) {
            let room = self.info.size - len + u64::from(self.info.logical_block);
            return (offset.saturating_add(faults.misdirection) % room, Landing::Whole);
        }
        (offset, Landing::Whole)
    }

    /// The process ends, or the power goes, with the operation under way.
    pub(super) fn cut_off(&mut self, op: &Flying, power: bool, rng: &mut Rng) {
        let Some((offset, len, data)) = op.change() else { return };
        if self.faults.gone || self.within(offset, len).is_err() || self.no_room(offset, len, data).is_some()
        {
            return;
        }
        let landing = Landing::of_cut(len, rng);
        self.disk.write((offset, len), data, landing, power || !self.model.volatile_cache, rng);
    }
}
