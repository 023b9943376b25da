//! Room for pages: stripes of segments that are neither of the log nor named by the last checkpoint.

use core::cmp::Reverse;

use brindle_format::pool::SegmentClass;

use super::{BATCH_BLOCKS, FEW_PAGES, Grant, Open, Space, Use, reshape};

impl Space {
    /// Stripes for that many pages; none where there is no room. Nothing of it is counted yet.
    pub(crate) fn take_pages(&mut self, mut pages: u32) -> Option<Vec<Grant>> {
        let mut grants = Vec::new();
        while pages > 0 {
            let at = (0..self.units.len()).max_by_key(|&at| {
                let unit = &self.units[at];
                // Vdevs take turns, so that what each keeps for pages wears alike.
                let has_free = unit.free.len().min(FEW_PAGES / 2);
                (unit.whole(), unit.pages.is_some(), has_free, Reverse(unit.paged))
            })?;
            if self.units[at].pages.is_none() {
                let segment = self.units[at].take_free()?;
                let parity = self.parity_now(at);
                let shape = self.units[at].shape(false, parity);
                let state = &mut self.segments[segment as usize];
                (state.usage, state.record.class) = (Use::Open, SegmentClass::Pages);
                state.record.live = 0;
                self.units[at].paged += 1;
                reshape(&mut state.record, shape);
                self.units[at].pages = Some(Open { segment, next: 0 });
            }
            let Some(open) = self.units[at].pages else { continue };
            match self.grant(open, (pages + 1).min(BATCH_BLOCKS)) {
                Some(grant) => {
                    self.units[at].pages = Some(Open { next: grant.stripe + grant.stripes, ..open });
                    pages -= pages.min(grant.blocks() - 1);
                    grants.push(grant);
                }
                None => {
                    self.segments[open.segment as usize].usage = Use::Closed;
                    self.units[at].pages = None;
                }
            }
        }
        Some(grants)
    }

    /// Nothing names what was to stand in these stripes, nor will: the next pages go there. The last grants of all.
    pub(crate) fn give_back(&mut self, grants: &[Grant]) {
        for grant in grants.iter().rev() {
            let Some(at) = self.vdev_of(grant.segment) else { continue };
            let (unit, segment) = (&mut self.units[at], &mut self.segments[grant.segment as usize]);
            if !matches!(segment.usage, Use::Open | Use::Closed) {
                continue;
            }
            segment.record.stripes = grant.stripe;
            let is_open = unit.pages.is_some_and(|open| open.segment == grant.segment);
            if grant.stripe == 0 && segment.record.live == 0 {
                segment.usage = Use::Free;
                unit.free.insert(grant.segment);
                unit.pages = unit.pages.filter(|_| !is_open);
            } else if is_open {
                unit.pages = Some(Open { segment: grant.segment, next: grant.stripe });
            }
        }
    }
}
