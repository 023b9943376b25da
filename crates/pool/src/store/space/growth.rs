//! Vdevs, members and copies that come while the pool runs.
//!
//! Segments of a vdev to come have records in the table before a config has the vdev: they are numbers that no run has until then. A vdev of rows
//! that gets a member is written wider from then on, and what stands stays as it is until cleaning moves it. A vdev of copies that gets one
//! resilvers it: where a stripe has one data block, a copy more changes no address.

use brindle_format::pool::{Label, Run, SegmentClass, SegmentRecord, SegmentState, Vdev, VdevKind};

use super::{Segment, Space, Unit, Use};
use crate::role::{all_of, members_of, vacant_of};
use crate::store::table::Touched;

/// The record of a segment of a vdev that holds nothing.
pub(super) fn blank(vdev: &Vdev) -> SegmentRecord {
    SegmentRecord {
        state: SegmentState::Free,
        class: SegmentClass::None,
        stripe: vdev.members as u8,
        parity: vdev.parity,
        unit: vdev.unit,
        chunk: 0,
        turn: 0,
        members: all_of(vdev),
        missing: 0,
        copied: 0,
        live: 0,
        stripes: 0,
        sequence: 0,
        reused: false,
    }
}

impl Space {
    /// Segments of a vdev to come: the table has them from its next write on, and no run has yet. Gives how many segments there are then.
    pub(crate) fn announce(&mut self, run: &Run, vdev: &Vdev) -> usize {
        let first = run.first_segment as usize;
        self.segments.truncate(first.max(self.runs.last().map_or(0, |run| run.end() as usize)));
        let more = (run.end() as usize).saturating_sub(self.segments.len());
        self.segments.extend((0..more).map(|_| Segment::of(blank(vdev), Use::Gap)));
        // The whole table is written anew.
        self.touched = Touched::all(self.segments.len());
        self.segments.len()
    }

    /// The config is another: vdevs have come, or members. Which are in use is said next.
    pub(crate) fn grown(&mut self, label: &Label) {
        for (at, unit) in self.units.iter_mut().enumerate() {
            (unit.vdev, unit.members) = (label.vdevs[at], members_of(label, at));
            unit.vacant = vacant_of(label, at);
        }
        self.runs.clone_from(&label.runs);
        for at in self.units.len()..label.vdevs.len() {
            let unit = Unit::of(label, at, 0);
            let own: Vec<u32> = unit.range().collect();
            self.units.push(unit);
            for n in own {
                self.segments[n as usize].usage = Use::Free;
                self.units[at].free.insert(n);
                self.sort(n);
            }
        }
    }

    /// Segments of vdevs of copies have none any more in roles that no member has: those that are closed, and those that nothing was written to.
    pub(crate) fn sheds_copies(&mut self) {
        for unit in self.units.iter().filter(|unit| unit.vacant != 0) {
            for n in unit.range() {
                let Some(segment) = self.segments.get_mut(n as usize) else { break };
                let record = &mut segment.record;
                let gone = record.members & unit.vacant;
                let is_still = matches!(segment.usage, Use::Closed | Use::Log);
                if !is_still || gone == 0 || gone == record.members {
                    continue;
                }
                let copies = gone.count_ones() as u8;
                (record.members, record.missing) = (record.members & !gone, record.missing & !gone);
                record.copied &= !gone;
                (record.stripe, record.parity) =
                    (record.stripe - copies, record.parity.saturating_sub(copies));
                self.touched.mark(n);
            }
        }
    }

    /// Segments of a vdev of copies lack the copy of a role that has come: those that were written without it.
    pub(crate) fn lacks_copies(&mut self, vdev: usize, index: u16) {
        if self.units[vdev].vdev.kind != VdevKind::Mirror {
            return;
        }
        let bit = 1 << index;
        for n in self.units[vdev].range() {
            let Some(segment) = self.segments.get_mut(n as usize) else { break };
            let record = &mut segment.record;
            if segment.usage != Use::Closed || record.members & bit != 0 {
                continue;
            }
            (record.members, record.missing) = (record.members | bit, record.missing | bit);
            (record.stripe, record.parity) = (record.stripe + 1, record.parity + 1);
            self.touched.mark(n);
        }
    }
}
