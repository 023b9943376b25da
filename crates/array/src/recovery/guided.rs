//! Recovers former members by the write-intent bitmap: only chunks that they missed are copied.

use core::ops::Range;

use brindle_layout::{Family, Level};

use crate::array::Array;

/// Chunks of the array that are looked at at a time.
const LOOKED_AT: u64 = 1 << 12;

impl Array {
    /// Whether all members that are being rebuilt in these roles hold all of which no bit says otherwise.
    pub(crate) fn are_guided(&self, roles: &[u16]) -> bool {
        let core = &self.0.core;
        let is_guided = |&role: &u16| {
            core.members.device(role).is_some_and(|device| core.keeper.ledger().is_guided(device.id))
        };
        roles.iter().all(is_guided)
    }

    /// Whether a range of the data areas of these roles begins with something that the bitmap marks, and up to where at least
    /// within the range that is so.
    pub(crate) fn marked_run(&self, roles: &[u16], range: &Range<u64>) -> (bool, u64) {
        let Some(bitmap) = self.0.core.intent.bitmap() else { return (true, range.end) };
        let geometry = &self.0.geometry;
        let one_to_one = match geometry.family() {
            Family::Mirrored(_) => geometry.level() == Level::Raid1,
            Family::Parity(_) | Family::Striped(_) => true,
        };
        // The bits count bytes of members' data areas, as the ranges here do.
        if one_to_one {
            return bitmap.marked_run(range);
        }
        let unit = geometry.chunk().clamp(512, 1 << 20);
        let is_marked = |at: u64| {
            let unit = at..(at - at % unit + unit).min(range.end);
            let ranges = roles.iter().flat_map(|&role| self.array_ranges(role, unit.clone()));
            ranges.into_iter().any(|range| bitmap.is_marked(&range))
        };
        let marked = is_marked(range.start);
        let next = range.start - range.start % unit + unit;
        let mut others = (next..range.end).step_by(unit as usize).take(LOOKED_AT as usize);
        let looked_at = next.saturating_add(LOOKED_AT * unit).min(range.end);
        (marked, others.find(|&at| is_marked(at) != marked).unwrap_or(looked_at))
    }
}
