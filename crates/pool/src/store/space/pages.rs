//! Pages: stripes for them, of segments that are neither of the log nor named by the last checkpoint, and those that are to move.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{SegmentClass, SegmentState};

use super::room::FEW_PAGES;
use super::{BATCH_BLOCKS, Grant, Open, Space, Use, reshape};

impl Space {
    /// Stripes for that many pages; none where there is no room. Nothing of it is counted yet.
    pub(crate) fn take_pages(&mut self, mut pages: u32) -> Option<Vec<Grant>> {
        let (mut grants, is_strong) = (Vec::new(), self.has_room_for_parity(pages));
        while pages > 0 {
            let Some(at) = self.vdev_for_pages() else {
                self.give_back(&grants);
                return None;
            };
            if self.units[at].pages.is_none() {
                let segment = self.units[at].take_free()?;
                let parity = if is_strong { self.parity_now(at) } else { self.least_parity(at) };
                // Pages are read one by one: their parity takes turns row by row.
                let shape = Shape { chunk: 0, ..self.units[at].shape(false, parity) };
                let state = &mut self.segments[segment as usize];
                (state.usage, state.record.class) = (Use::Open, SegmentClass::Pages);
                state.record.live = 0;
                self.touched.mark(segment);
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
                    self.becomes(open.segment, Use::Closed);
                    self.units[at].pages = None;
                }
            }
        }
        Some(grants)
    }

    /// The vdev that pages go to next: one that has room, and a whole one where that has room enough.
    fn vdev_for_pages(&self) -> Option<usize> {
        let has_room = |&at: &usize| self.units[at].pages.is_some() || !self.units[at].free.is_empty();
        (0..self.units.len()).filter(has_room).max_by_key(|&at| {
            let unit = &self.units[at];
            // Vdevs take turns, so that what each keeps for pages wears alike.
            let has_free = unit.free.len().min(FEW_PAGES / 2);
            let is_whole = unit.whole() && has_free == FEW_PAGES / 2;
            (is_whole, unit.pages.is_some(), has_free, Reverse(unit.paged))
        })
    }

    /// Pages may have all the parity that there is: room for the next checkpoint is left beside them.
    fn has_room_for_parity(&self, pages: u32) -> bool {
        let takes = |at: usize| {
            let unit = &self.units[at];
            let data = u64::from(unit.shape(false, self.parity_now(at)).data());
            (u64::from(pages).div_ceil(unit.pages_with(data)) + 1) * unit.page_blocks()
        };
        let takes = (0..self.units.len()).map(takes).max().unwrap_or(0);
        takes + self.least <= self.room_for_pages()
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
            self.touched.mark(grant.segment);
            let is_open = unit.pages.is_some_and(|open| open.segment == grant.segment);
            if grant.stripe == 0 && segment.record.live == 0 {
                unit.free.insert(grant.segment);
                unit.pages = unit.pages.filter(|_| !is_open);
                // Copies that were made of it meanwhile are of no later use.
                segment.reuses += 1;
                self.becomes(grant.segment, Use::Free);
            } else if is_open {
                unit.pages = Some(Open { segment: grant.segment, next: grant.stripe });
            }
        }
    }

    /// A page that was given back says that a block was live. Where none is, by the count of its segment, that count is wrong, and the page or another one
    /// damaged: something else there may be live, so the segment counts as full from then on. It is never free, nor cleaned.
    pub(crate) fn reaped(&mut self, address: Address) {
        let Some(segment) = self.segments.get_mut(address.segment() as usize) else { return };
        if segment.record.live > 0 {
            self.died(address);
        } else if matches!(segment.usage, Use::Open | Use::Closed) {
            segment.record.live = u32::from(segment.record.shape().data()) * segment.record.shape().stripes();
            self.touched.mark(address.segment());
            self.sort(address.segment());
        }
    }

    /// Segments of the log in which recovery has found nothing are free. Pages in them are none of the log: they have no number.
    pub(crate) fn free_unwritten(&mut self) {
        for at in 0..self.units.len() {
            let is_unwritten = |n: &u32| {
                let record = &self.segments[*n as usize].record;
                record.state == SegmentState::Log && record.live == 0 && record.stripes == 0
            };
            let unwritten: Vec<u32> = self.units[at].waiting.iter().copied().filter(is_unwritten).collect();
            for n in unwritten {
                self.becomes(n, Use::Free);
                self.units[at].free.insert(n);
            }
        }
    }

    /// Segments of pages that are to have more parity: their pages are to be written elsewhere.
    pub(crate) fn thin_pages(&self) -> usize {
        let of = |at: usize| {
            let parity = self.parity_now(at);
            let is_thin = |n: &&u32| self.units[at].is_weak(&self.segments[**n as usize], parity);
            self.units[at].of_pages.iter().filter(is_thin).count()
        };
        (0..self.units.len()).map(of).sum()
    }

    /// Segments of pages that hold little, or are to have more parity: their pages are to be written elsewhere. Where
    /// there is room for few more pages than have to be written, those that are nearly full are as good. Of each `others` are pages that are
    /// not to be moved, or written elsewhere anyway.
    pub(crate) fn sparse_pages(&self, most: usize, room: u64, others: &BTreeMap<u32, u32>) -> Vec<u32> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for (at, unit) in self.units.iter().enumerate() {
            let parity = self.parity_now(at);
            found.extend(unit.of_pages.iter().filter_map(|&n| {
                let segment = &self.segments[n as usize];
                let record = &segment.record;
                let all = u32::from(record.shape().data()) * record.shape().stripes();
                let holds = if room < 2 * u64::from(all) { all - all / 8 } else { all / 2 };
                let is_due = record.live < holds || unit.is_weak(segment, parity);
                let has_more = record.live > others.get(&n).copied().unwrap_or(0);
                (is_due && has_more).then_some((record.live, n))
            }));
        }
        found.sort_unstable();
        let mut left = room;
        let mut fits = |&(live, _): &(u32, u32)| {
            let fits = u64::from(live) <= left;
            left = left.saturating_sub(live.into());
            fits
        };
        // Each is to become empty: some pages of many would free nothing.
        found.into_iter().take(most).take_while(|one| fits(one)).map(|(_, n)| n).collect()
    }
}
