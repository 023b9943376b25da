//! Counts over all segments: how much is free, live, worth to be cleaned, and can be lost.

use brindle_format::pool::SegmentClass;

use super::{FOR_CLEANING, Segment, Space, Unit, Use};

impl Space {
    /// The closed segment that costs least to empty, if it is worth it, and its live blocks; but for those that were `tried`.
    pub(crate) fn victim(&self, sequence: u64, tried: &[u32]) -> Option<(u32, u32)> {
        let fits = |(n, segment): (usize, &Segment)| {
            let record = &segment.record;
            let is_data = !matches!(record.class, SegmentClass::Pages | SegmentClass::None);
            let all = u32::from(record.shape().data()) * record.shape().stripes();
            let worth = record.live > 0 && record.live < all - all / 16;
            let fresh = !tried.contains(&(n as u32));
            (segment.usage == Use::Closed && is_data && worth && fresh && record.sequence <= sequence)
                .then_some((u64::from(record.live) * 1024 / u64::from(all.max(1)), n as u32, record.live))
        };
        let least = self.segments.iter().enumerate().filter_map(fits).min();
        least.map(|(_, n, live)| (n, live))
    }

    /// Data blocks of the unused segments of the log.
    pub(crate) fn room_of_log(&self) -> u64 {
        let all = self.units.iter().flat_map(|unit| unit.rows.iter().chain(&unit.short));
        let blocks = |&n: &u32| {
            let shape = self.segments[n as usize].record.shape();
            u64::from(shape.data()) * u64::from(shape.stripes())
        };
        all.map(blocks).sum()
    }

    /// Segments of pages that hold little: their pages are to be written elsewhere.
    pub(crate) fn sparse_pages(&self, most: usize) -> Vec<u32> {
        let fits = |(n, segment): (usize, &Segment)| {
            let record = &segment.record;
            let all = u32::from(record.shape().data()) * record.shape().stripes();
            let sparse = segment.usage == Use::Closed && record.class == SegmentClass::Pages;
            (sparse && record.live > 0 && record.live < all / 2).then_some((record.live, n as u32))
        };
        let mut found: Vec<(u32, u32)> = self.segments.iter().enumerate().filter_map(fits).collect();
        found.sort_unstable();
        found.into_iter().take(most).map(|(_, n)| n).collect()
    }

    /// The log is about to end: a checkpoint is due.
    pub(crate) fn is_scarce(&self) -> bool {
        self.units.iter().all(|unit| unit.log() <= FOR_CLEANING + 2)
    }

    /// Segments that could be written, in parts of 1024 of all.
    pub(crate) fn free_share(&self) -> u64 {
        let units: u64 = self.units.iter().map(|unit| u64::from(unit.vdev.units)).sum();
        let left = self.units.iter().map(|unit| (unit.free.len() + unit.log() + unit.freeing.len()) as u64);
        left.sum::<u64>() * 1024 / units.max(1)
    }

    /// Free units of the vdev that has fewest beyond what is kept for pages.
    pub(crate) fn needs_cleaning(&self) -> bool {
        self.units.iter().any(|unit| {
            let left = unit.free.len() + unit.log() + unit.freeing.len();
            left < unit.for_pages() + (unit.vdev.units as usize / 16).max(8)
        })
    }

    /// Whether all that stands on the pool can do without a member: by the record of each segment.
    pub(crate) fn can_lose(&self, is_lost: impl Fn(u16) -> bool) -> bool {
        self.units.iter().all(|unit| {
            let lost = (0..unit.vdev.members).filter(|n| is_lost(unit.vdev.first_member + n));
            let lost = lost.fold(0u64, |mask, n| mask | 1 << n);
            lost == 0
                || (lost.count_ones() <= u32::from(unit.vdev.parity)
                    && unit.range().all(|n| {
                        let segment = &self.segments[n as usize];
                        let idle = matches!(segment.usage, Use::Free | Use::Log) && segment.record.live == 0;
                        let gone = (segment.record.members & lost).count_ones();
                        idle || gone <= u32::from(segment.record.parity)
                    }))
        })
    }

    /// Live blocks of segments with less parity than their vdev has, or on members that are out.
    pub(crate) fn thin_blocks(&self) -> u64 {
        let of = |unit: &Unit| {
            let thin = |n: u32| {
                let record = &self.segments[n as usize].record;
                let gone = (record.members & !unit.present).count_ones() as u8;
                (record.parity.saturating_sub(gone) < unit.vdev.parity).then_some(u64::from(record.live))
            };
            unit.range().filter_map(thin).sum::<u64>()
        };
        self.units.iter().map(of).sum()
    }

    /// Blocks that are named, of volumes.
    pub(crate) fn live_blocks(&self) -> u64 {
        let data = self.segments.iter().filter(|s| s.record.class != SegmentClass::Pages);
        data.map(|segment| u64::from(segment.record.live)).sum()
    }

    /// Open segments that have held something else since the pool was opened.
    pub(crate) fn reused(&self) -> usize {
        self.segments.iter().filter(|s| s.usage == Use::Open && s.again).count()
    }

    /// How much of the segments is used for what: free, of the log, open or closed.
    pub(crate) fn usage(&self) -> [usize; 3] {
        let count = |which: fn(Use) -> bool| self.segments.iter().filter(|s| which(s.usage)).count();
        [
            count(|u| matches!(u, Use::Free | Use::Freeing)),
            count(|u| u == Use::Log),
            count(|u| matches!(u, Use::Open | Use::Closed)),
        ]
    }
}
