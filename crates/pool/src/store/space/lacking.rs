//! Segments that members lack: of which one has nothing, or something older.
//!
//! A member that is out of use lacks all that was written meanwhile. New segments avoid it, so that this is in those which were being written
//! when it left, and in pages, which have no number. All others it has whole, as far as its own last uberblock says that they are stable. A
//! segment that became free meanwhile and was used again avoids it as well: there is no bit of it in `members`.

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

    /// Members in use that lack something of a segment, a bit for each role of its vdev.
    pub(crate) fn lacked(&self, segment: u32) -> u64 {
        let present = self.vdev_of(segment).map_or(0, |vdev| self.units[vdev].present);
        self.get(segment).map_or(0, |segment| segment.record.missing & present)
    }

    /// Closed segments with something live that a role of a vdev has its part of, without those that its successor has a copy of.
    pub(crate) fn held_by(&self, vdev: usize, index: u16) -> Vec<u32> {
        let is_due = |(_, segment): &(u32, &Segment)| {
            let is_held = segment.usage == Use::Closed && segment.record.live > 0;
            is_held && (segment.record.members & !segment.record.copied) >> index & 1 == 1
        };
        self.own(&self.units[vdev]).filter(is_due).map(|(n, _)| n).collect()
    }

    /// The successor of a role has a copy of a segment, which is what it was when it had become free so often.
    pub(crate) fn has_copy(&mut self, segment: u32, index: u16, reuses: u32) {
        if let Some(of) = self.segments.get_mut(segment as usize)
            && (of.usage, of.reuses) == (Use::Closed, reuses)
        {
            of.record.copied |= of.record.members & 1 << index;
            self.touched.mark(segment);
        }
    }

    /// The successor of a role takes it, and lacks all that it has no copy of. It also lacks what the role lacked before: one that is lost before
    /// the other comes would be believed to have that.
    pub(crate) fn hands_over(&mut self, vdev: usize, index: u16) {
        let bit = 1 << index;
        let had = |(n, segment): (u32, &Segment)| {
            let is_there = segment.usage == Use::Closed && segment.record.missing & bit == 0;
            (is_there && segment.record.copied & bit != 0).then_some(n)
        };
        let had: Vec<u32> = self.own(&self.units[vdev]).filter_map(had).collect();
        self.lacks_since(vdev, index, None);
        had.into_iter().for_each(|n| self.has(n, bit));
    }

    /// Nothing has a copy for these roles of a vdev any more, a bit each.
    pub(crate) fn forgets_copies(&mut self, vdev: usize, roles: u64) {
        for n in self.units[vdev].range() {
            let Some(segment) = self.segments.get_mut(n as usize) else { return };
            if segment.record.copied & roles != 0 {
                segment.record.copied &= !roles;
                self.touched.mark(n);
            }
        }
    }

    /// Blocks on a member that is out of use are moved.
    pub(crate) fn raises(&mut self, vdev: usize, index: u16) {
        self.units[vdev].raised |= 1 << index;
    }

    /// Blocks on members that are out of use stay.
    pub(crate) fn raises_none(&mut self) {
        self.units.iter_mut().for_each(|unit| unit.raised = 0);
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
