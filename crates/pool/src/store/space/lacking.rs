//! Segments that members lack: of which one has nothing, or something older.
//!
//! A member that is out of use lacks all that was written meanwhile. New segments avoid it, so that this is in those which were being written
//! when it left, and in pages, which have no number. All others it has whole, as far as its own last uberblock says that they are stable. A
//! segment that became free meanwhile and was used again avoids it as well: there is no bit of it in `members`.

use std::collections::BTreeMap;

use brindle_format::pool::{SegmentClass, SegmentRecord, SegmentState};

use super::{Segment, Space, Use};

impl Segment {
    /// A member may have something older than it is to have, if it has all that was stable up to a batch; or it has nothing.
    fn may_be_old(&self, since: Option<u64>) -> bool {
        let record = &self.record;
        let is_stable = |sequence: u64| {
            let is_young = record.class == SegmentClass::Pages || record.state == SegmentState::Log;
            self.usage == Use::Closed && !is_young && record.sequence <= sequence
        };
        let holds = matches!(self.usage, Use::Log | Use::Open | Use::Closed);
        holds && !since.is_some_and(is_stable)
    }
}

impl Space {
    /// A role of a vdev comes back with a member that has all that was stable up to a batch, or nothing: segments that it may have otherwise lack it.
    pub(crate) fn lacks_since(&mut self, vdev: usize, index: u16, since: Option<u64>) {
        let bit = 1 << index;
        for n in self.units[vdev].range() {
            let Some(segment) = self.segments.get_mut(n as usize) else { return };
            if segment.record.members & bit != 0 && segment.may_be_old(since) {
                segment.record.missing |= bit;
                self.touched.mark(n);
            }
        }
    }

    /// A role of a vdev is in use again: what is written from now on it gets.
    pub(crate) fn joins(&mut self, vdev: usize, index: u16) {
        for n in self.units[vdev].range() {
            let Some(segment) = self.segments.get_mut(n as usize) else { return };
            if segment.usage == Use::Log && segment.record.stripes == 0 {
                // The table on record says otherwise until the next one stands.
                segment.owed |= segment.record.missing & (1 << index);
                segment.record.missing &= !(1 << index);
                self.touched.mark(n);
            }
            debug_assert!(
                segment.usage != Use::Open || segment.record.missing >> index & 1 == 0,
                "segment {n} is written to, and a member lacks what was written before"
            );
        }
    }

    /// The opening has ended: which segments were of the log then, as the table says, tells nothing any more.
    pub(crate) fn opened(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.record.state = SegmentState::Closed);
    }

    /// Segments with something live that members in use lack, in the order of their units.
    pub(crate) fn lacking(&self) -> Vec<u32> {
        let of = |unit: &super::Unit| {
            let present = unit.present;
            self.own(unit).filter(move |(_, segment)| {
                let is_due = segment.usage == Use::Closed && segment.record.live > 0 && !segment.gave_up;
                is_due && segment.record.missing & present != 0
            })
        };
        self.units.iter().flat_map(of).map(|(n, _)| n).collect()
    }

    /// How many segments with something live each of so many members lacks.
    pub(crate) fn lacking_of(&self, members: usize) -> Vec<usize> {
        let mut lacks = vec![0; members];
        for unit in &self.units {
            for (_, segment) in self.own(unit) {
                let record = &segment.record;
                if record.missing == 0 || record.live == 0 {
                    continue;
                }
                for (index, &member) in unit.members.iter().enumerate() {
                    lacks[usize::from(member)] += usize::from(record.missing >> index & 1 == 1);
                }
            }
        }
        lacks
    }

    /// Members in use that lack something of a segment, a bit for each role of its vdev.
    pub(crate) fn lacked(&self, segment: u32) -> u64 {
        let present = self.vdev_of(segment).map_or(0, |vdev| self.units[vdev].present);
        self.get(segment).map_or(0, |segment| segment.record.missing & present)
    }

    /// Closed segments with something live that a role of a vdev has its part of, without those of which there is a copy.
    pub(crate) fn held_by(&self, vdev: usize, index: u16, copied: &[(u32, u32)]) -> Vec<u32> {
        let copied: BTreeMap<u32, u32> = copied.iter().copied().collect();
        let is_due = |&(n, segment): &(u32, &Segment)| {
            let is_held = segment.usage == Use::Closed && segment.record.live > 0;
            let is_copied = copied.get(&n) == Some(&segment.reuses);
            is_held && !is_copied && segment.record.members >> index & 1 == 1
        };
        self.own(&self.units[vdev]).filter(is_due).map(|(n, _)| n).collect()
    }

    /// Of these copies those of segments that a role has: of all others one that is lost before it comes would be believed to have them.
    pub(crate) fn of_role(&self, index: u16, copied: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        let has = |n: u32| self.get(n).is_some_and(|of| of.record.missing >> index & 1 == 0);
        copied.into_iter().filter(|&(n, _)| has(n)).collect()
    }

    /// Blocks on a member that is out of use are moved.
    pub(crate) fn raises(&mut self, vdev: usize, index: u16) {
        self.units[vdev].raised |= 1 << index;
    }

    /// Blocks on members that are out of use stay.
    pub(crate) fn raises_none(&mut self) {
        self.units.iter_mut().for_each(|unit| unit.raised = 0);
    }

    /// A device comes into a role with copies of these segments: it lacks those that were used otherwise since, and no others.
    pub(crate) fn has_copies(&mut self, index: u16, copied: &[(u32, u32)]) {
        for &(n, reuses) in copied {
            if self.get(n).is_some_and(|of| of.reuses == reuses && of.usage == Use::Closed) {
                self.has(n, 1 << index);
            }
        }
    }

    /// The member of a role, by the segment's vdev.
    pub(crate) fn member_of(&self, segment: u32, index: u32) -> Option<u16> {
        self.units.get(self.vdev_of(segment)?)?.members.get(index as usize).copied()
    }

    /// These members have all of a segment. The table on record says so later.
    pub(crate) fn has(&mut self, segment: u32, members: u64) {
        if let Some(of) = self.segments.get_mut(segment as usize) {
            of.owed |= of.record.missing & members;
            of.record.missing &= !members;
            self.touched.mark(segment);
        }
    }

    /// The table on record has these records of segments, from a number on.
    pub(crate) fn recorded(&mut self, first: usize, records: &[SegmentRecord]) {
        for (segment, record) in self.segments.iter_mut().skip(first).zip(records) {
            segment.owed &= record.missing;
        }
    }

    /// Something of what members lack of a segment can't be made of the others: what is live of it is moved.
    pub(crate) fn gives_up(&mut self, segment: u32) {
        if let Some(of) = self.segments.get_mut(segment as usize) {
            of.gave_up = true;
        }
    }

    /// Segments are tried again that were given up.
    pub(crate) fn tries_again(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.gave_up = false);
    }
}
