//! The room that a pool keeps for itself: for pages, without which nothing becomes free, and for what is written with less parity.
//!
//! Pages go to free segments. Two parts of these the log does not get. `pages` is what the map and its lists may need once all volumes are
//! full: the log gets the rest. `least` is what the next checkpoint needs whatever happens until then: below that the log gets nothing
//! at all, and above it the last segments that cleaning needs. Room is counted as if pages had the least parity, and without segments that
//! pages have begun. So it is the same when a member fails, and when the pool is opened anew: both close what was begun.

use brindle_format::pool::{Vdev, VdevKind};

use super::counts::batch_blocks;
use super::sold::kept;
use super::{FOR_CLEANING, MOST_LOG, Space, Unit, sold};

/// Segments of narrow stripes that the log of a vdev gets unasked.
pub(super) const FEW_SHORT: usize = 4;
/// Segments that are kept for pages at least.
pub(super) const FEW_PAGES: usize = 6;
/// Of those that are kept for pages: one that is not full, and those that cleaning may have instead, if it has no others.
const BESIDE_PAGES: usize = FOR_CLEANING + 1;

impl Unit {
    /// Segments that pages may need beside those of the log: what the pool may have to write, as far as it can be kept.
    pub(super) fn for_pages(&self, pages: u64) -> usize {
        let most = (self.vdev.units as usize / 8).max(FEW_PAGES);
        (pages.div_ceil(self.page_blocks()) as usize + BESIDE_PAGES).clamp(FEW_PAGES, most)
    }

    /// Pages that a segment takes which has the least parity: as many whichever members fail.
    pub(super) fn page_blocks(&self) -> u64 {
        self.pages_with(u64::from(self.vdev.members.saturating_sub(u16::from(self.vdev.parity))))
    }

    /// The same where so many members carry data.
    pub(super) fn pages_with(&self, data: u64) -> u64 {
        pages_with(&self.vdev, data)
    }
}

fn pages_with(vdev: &Vdev, data: u64) -> u64 {
    let blocks = data << vdev.unit >> 12;
    blocks.saturating_sub(blocks.div_ceil(batch_blocks(data))).max(1)
}

/// Segments that so many pages take at most, whatever members fail, and with all the parity that there can be then.
pub(crate) fn segments_at_most(vdevs: &[Vdev], pages: u64) -> u64 {
    let each = |vdev: &Vdev| {
        let lost = 2 * u64::from(vdev.parity);
        pages_with(vdev, u64::from(vdev.members).saturating_sub(lost).max(1))
    };
    pages.div_ceil(vdevs.iter().map(each).min().unwrap_or(1))
}

impl Space {
    /// Pages that a vdev may have to take: all of those, if others are full.
    pub(super) fn pages_of(&self, at: usize) -> u64 {
        let units = |unit: &Unit| u64::from(unit.vdev.units) * unit.page_blocks();
        let all: u64 = self.units.iter().map(units).sum();
        let own = units(&self.units[at]);
        (u128::from(self.pages) * u128::from(own) / u128::from(all.max(1))) as u64
    }

    /// Pages for which there is room whatever fails.
    pub(crate) fn room_for_pages(&self) -> u64 {
        self.units.iter().map(|unit| unit.free.len() as u64 * unit.page_blocks()).sum()
    }

    /// There is less room for pages than is kept for them.
    pub(crate) fn is_short_of_pages(&self) -> bool {
        self.room_for_pages() < self.pages
    }

    /// Segments that so many pages come to lie in at most: the first and the last of these may be full of others.
    pub(crate) fn segments_for(&self, pages: u64) -> u64 {
        let each = |at: usize| {
            let shape = self.units[at].shape(false, self.parity_now(at));
            self.units[at].pages_with(shape.data().into())
        };
        pages.div_ceil((0..self.units.len()).map(each).min().unwrap_or(1)) + 2
    }

    /// Pages of the segment that has most of them.
    pub(crate) fn most_pages(&self) -> u64 {
        self.units.iter().map(Unit::page_blocks).max().unwrap_or(0)
    }

    /// Pages for which room is kept where the log has enough.
    fn kept_for_pages(&self) -> u64 {
        let of = |at: usize| {
            let unit = &self.units[at];
            unit.for_pages(self.pages_of(at)) as u64 * unit.page_blocks()
        };
        self.pages.min((0..self.units.len()).map(of).sum())
    }

    /// Segments that the log of a vdev gets, if so many of it are empty by now, and so many pages are yet to be taken.
    pub(super) fn for_log(&self, at: usize, ready: usize, taken: u64) -> usize {
        let unit = &self.units[at];
        let (have, each) = (unit.free.len() + ready, unit.page_blocks());
        let room = (self.room_for_pages() + ready as u64 * each).saturating_sub(taken);
        // Those beyond the room that so many pages keep, wherever that is.
        let beyond = |pages: u64| (room.saturating_sub(pages) / each) as usize;
        let kept = self.kept_for_pages().max(self.least);
        let plenty = have.saturating_sub(unit.for_pages(self.pages_of(at))).min(beyond(kept));
        // Pages of a checkpoint that did not succeed are the next one's.
        let has = unit.log() + unit.adding.len();
        // Cleaning has its part even of what is kept for pages: without it nothing becomes free.
        let cleaning = FOR_CLEANING.saturating_sub(has).min(beyond(self.least));
        plenty.max(cleaning).min(have).min(MOST_LOG.saturating_sub(has))
    }

    /// The least parity of what is written from now on: it has room for as much as all members had.
    pub(super) fn least_parity(&self, at: usize) -> u8 {
        let unit = &self.units[at];
        let (width, parity) = (unit.present.count_ones() as u8, unit.vdev.parity);
        if unit.vdev.kind == VdevKind::Mirror {
            return width.saturating_sub(1).min(parity);
        }
        parity.saturating_sub((unit.vdev.members as u8).saturating_sub(width))
    }

    /// The parity of what is written from now on: all of it, where what was sold still fits beside it.
    pub(super) fn parity_now(&self, at: usize) -> u8 {
        let (unit, least) = (&self.units[at], self.least_parity(at));
        let width = unit.present.count_ones() as u8;
        if unit.vdev.kind == VdevKind::Mirror {
            return least;
        }
        let fits = |parity: u8| {
            // As many blocks of a segment as cleaning leaves in it, and what is kept beside them.
            let data = u64::from(width.saturating_sub(parity));
            let blocks = data << unit.vdev.unit >> 12;
            let holds = unit.pages_with(data).min(blocks - blocks / 16);
            let units = u64::from(unit.vdev.units) - kept(&unit.vdev) / 2;
            (holds * units) << 12 >= self.sold_of(unit)
        };
        (least..=unit.vdev.parity.min(width.saturating_sub(1)))
            .rev()
            .find(|&parity| parity == least || fits(parity))
            .unwrap_or(0)
    }

    /// Bytes of volumes that a vdev has to have room for.
    fn sold_of(&self, unit: &Unit) -> u64 {
        let all: u64 = self.units.iter().map(|unit| sold(&unit.vdev)).sum();
        let own = sold(&unit.vdev);
        (u128::from(self.sold.min(all)) * u128::from(own) / u128::from(all.max(1))) as u64
    }
}
