//! The table of segments as it stands on the members, and which of its pages a write of it has to write anew.
//!
//! Pages of the table stand on their own: a write of it changes those with a record that changed, and the pages of pointers above them. All
//! others stay where they are.

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::Address;
use brindle_format::pool::{POINTERS, Pointer, Root, SEGMENTS, SegmentRecord, SegmentState};

/// Pages of the table whose records may have changed since they were written, a bit each.
pub(crate) struct Touched(Vec<u64>);

impl Touched {
    /// All pages of a table of so many records.
    pub(crate) fn all(records: usize) -> Self {
        let mut all = Self(vec![0; records.div_ceil(SEGMENTS).div_ceil(64)]);
        (0..records.div_ceil(SEGMENTS)).for_each(|page| all.put(page));
        all
    }

    /// The record of a segment may have changed.
    pub(crate) fn mark(&mut self, segment: u32) {
        self.put(segment as usize / SEGMENTS);
    }

    /// A page with such a record.
    pub(crate) fn put(&mut self, page: usize) {
        if let Some(word) = self.0.get_mut(page / 64) {
            *word |= 1 << (page % 64);
        }
    }

    /// A page has no such record.
    pub(crate) fn forget(&mut self, page: usize) {
        if let Some(word) = self.0.get_mut(page / 64) {
            *word &= !(1 << (page % 64));
        }
    }

    /// These pages, in their order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = usize> {
        let bits = |word: u64| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|left| *left > 0);
            core::iter::successors((word > 0).then_some(word), next)
        };
        let of = move |(n, &word): (usize, &u64)| {
            bits(word).map(move |left| n * 64 + left.trailing_zeros() as usize)
        };
        self.0.iter().enumerate().flat_map(of)
    }

    /// These pages; none from now on.
    pub(crate) fn take(&mut self) -> Vec<usize> {
        let pages = self.pages().collect();
        self.0.fill(0);
        pages
    }
}

/// Pages that are written anew: those of the table by their numbers, those of pointers to them, and so on up to the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewed {
    levels: Vec<BTreeSet<usize>>,
    /// Those of which it has not been seen yet what changes with them.
    new: Vec<(usize, usize)>,
    /// Places of the others, which nothing names any more once these are written. Each stands here once.
    replaced: Vec<Address>,
    /// Those places that nobody has taken yet begin here.
    taken: usize,
    /// Of pages of each segment, how many are written elsewhere.
    going: BTreeMap<u32, usize>,
}

impl Renewed {
    /// One more.
    pub(crate) fn add(&mut self, level: usize, page: usize) {
        if self.levels.get_mut(level).is_some_and(|pages| pages.insert(page)) {
            self.new.push((level, page));
        }
    }

    /// Those of a level.
    pub(crate) fn of_level(&self, level: usize) -> impl Iterator<Item = usize> {
        self.levels.get(level).into_iter().flatten().copied()
    }

    /// Has a page of the table itself.
    pub(crate) fn has(&self, page: usize) -> bool {
        self.levels.first().is_some_and(|pages| pages.contains(&page))
    }

    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.levels.iter().map(BTreeSet::len).sum()
    }

    /// Places that nothing names any more once these pages are written: those that were not told before.
    pub(crate) fn take_replaced(&mut self) -> &[Address] {
        let from = core::mem::replace(&mut self.taken, self.replaced.len());
        &self.replaced[from..]
    }

    /// All of them.
    pub(crate) fn replaced(&self) -> &[Address] {
        &self.replaced
    }
}

/// The table that the last uberblock names.
#[derive(Default)]
pub(crate) struct Table {
    /// Its records, as they stand there.
    records: Vec<SegmentRecord>,
    /// Its pages, those of pointers to these, and so on: one at last.
    levels: Vec<Vec<Pointer>>,
    /// Pages of each level that it is to have.
    sizes: Vec<usize>,
    /// Its pages lie as a write of it has them. Else all are written anew.
    is_regular: bool,
    /// Its pages, level and number, by the segments that they are in. An uberblock names all of these, so they are few.
    places: BTreeMap<u32, BTreeSet<(usize, usize)>>,
}

impl Table {
    /// No table of so many records stands yet.
    pub(crate) fn none(records: usize) -> Self {
        Self { sizes: sizes(records), ..Self::default() }
    }

    /// One that was read: its pages level by level, those of its records first.
    pub(crate) fn found(records: Vec<SegmentRecord>, levels: Vec<Vec<Pointer>>, is_full: bool) -> Self {
        let sizes = sizes(records.len());
        let is_regular = is_full && levels.iter().map(Vec::len).eq(sizes.iter().copied());
        let mut found = Self { records, levels, sizes, is_regular, places: BTreeMap::new() };
        found.sort();
        found
    }

    /// The table is to have so many records: all of it is written anew.
    pub(crate) fn grows(&mut self, records: usize) {
        (self.sizes, self.is_regular) = (sizes(records), false);
    }

    /// Notes where all pages are.
    fn sort(&mut self) {
        self.places.clear();
        for (level, pages) in self.levels.iter().enumerate() {
            for (page, pointer) in pages.iter().enumerate() {
                self.places.entry(pointer.address.segment()).or_default().insert((level, page));
            }
        }
    }

    /// Levels of its pages.
    pub(crate) fn levels(&self) -> usize {
        self.sizes.len()
    }

    /// Nothing that has to be written anew; of a table that does not stand all.
    pub(crate) fn renewed(&self) -> Renewed {
        if self.is_regular {
            return Renewed { levels: vec![BTreeSet::new(); self.sizes.len()], ..Renewed::default() };
        }
        let levels = self.sizes.iter().map(|&size| (0..size).collect()).collect();
        let places: BTreeSet<Address> = self.levels.iter().flatten().map(|pointer| pointer.address).collect();
        let going = self.places.iter().map(|(&segment, pages)| (segment, pages.len())).collect();
        Renewed { levels, replaced: places.into_iter().collect(), going, ..Renewed::default() }
    }

    /// Pages that change with these: those of pointers to them, and those with records of segments in which they stood. Each is looked at once.
    pub(crate) fn follow(&self, renewed: &mut Renewed) {
        while let Some((level, page)) = renewed.new.pop() {
            renewed.add(level + 1, page / POINTERS);
            let stood = self.levels.get(level).and_then(|pages| pages.get(page));
            if let Some(address) = stood.map(|pointer| pointer.address) {
                renewed.replaced.push(address);
                *renewed.going.entry(address.segment()).or_default() += 1;
                renewed.add(0, address.segment() as usize / SEGMENTS);
            }
        }
    }

    /// Segments with pages that stay where they are, and how many these are.
    pub(crate) fn kept(&self, renewed: &Renewed) -> BTreeMap<u32, usize> {
        debug_assert!(renewed.new.is_empty(), "what changes with these pages is among them");
        let going = |segment: &u32| renewed.going.get(segment).copied().unwrap_or(0);
        let kept = self.places.iter().map(|(segment, pages)| (*segment, pages.len() - going(segment)));
        kept.filter(|(_, pages)| *pages > 0).collect()
    }

    /// Those of a segment, level and number.
    pub(crate) fn kept_in(&self, segment: u32, renewed: &Renewed) -> impl Iterator<Item = (usize, usize)> {
        let pages = self.places.get(&segment).into_iter().flatten().copied();
        pages.filter(|(level, page)| renewed.levels.get(*level).is_some_and(|own| !own.contains(page)))
    }

    /// A page says something else than these records; of segments of the log only what recovery does not find out where not `exactly`.
    pub(crate) fn differs(&self, page: usize, now: &[SegmentRecord], exactly: bool) -> bool {
        let there = self.records.chunks(SEGMENTS).nth(page).unwrap_or(&[]);
        let is_same = |(old, new): (&SegmentRecord, &SegmentRecord)| old == new || !exactly && says(old, new);
        there.len() != now.len() || !there.iter().zip(now).all(is_same)
    }

    /// A page says just this.
    pub(crate) fn says(&self, page: usize, now: impl Iterator<Item = SegmentRecord>) -> bool {
        let there = self.records.chunks(SEGMENTS).nth(page).unwrap_or(&[]);
        there.iter().copied().eq(now)
    }

    /// Pointers that a page of them has: to pages that are written, and to those that stay.
    pub(crate) fn pointers(
        &self,
        level: usize,
        page: usize,
        written: &BTreeMap<usize, Pointer>,
    ) -> Vec<Pointer> {
        let (first, below) = (page * POINTERS, self.sizes.get(level - 1).copied().unwrap_or(0));
        let stays = |page: usize| self.levels.get(level - 1)?.get(page).copied();
        (first..below.min(first + POINTERS))
            .filter_map(|page| written.get(&page).copied().or_else(|| stays(page)))
            .collect()
    }

    /// An uberblock names the table in which these pages stand elsewhere.
    pub(crate) fn stands(
        &mut self,
        written: Vec<BTreeMap<usize, Pointer>>,
        records: &[(usize, Vec<SegmentRecord>)],
    ) {
        if !self.is_regular {
            let pages = |level: &BTreeMap<usize, Pointer>| level.values().copied().collect();
            self.levels = written.iter().map(pages).collect();
            self.records = records.iter().flat_map(|(_, records)| records).copied().collect();
            self.is_regular = true;
            self.sort();
            return;
        }
        for (level, pages) in written.into_iter().enumerate() {
            for (page, pointer) in pages {
                let before = core::mem::replace(&mut self.levels[level][page], pointer).address.segment();
                if let Some(pages) = self.places.get_mut(&before) {
                    pages.remove(&(level, page));
                }
                self.places.entry(pointer.address.segment()).or_default().insert((level, page));
            }
        }
        self.places.retain(|_, pages| !pages.is_empty());
        for (page, some) in records {
            self.records[page * SEGMENTS..][..some.len()].copy_from_slice(some);
        }
    }

    /// The root of it once these pages stand.
    pub(crate) fn root(&self, written: &[BTreeMap<usize, Pointer>]) -> Root {
        let new = || written.last()?.get(&0).copied();
        let top = new().or_else(|| self.levels.last()?.first().copied());
        let pages = self.sizes.first().map_or(0, |&size| size as u32);
        Root { top, pages, levels: self.sizes.len().saturating_sub(1) as u8 }
    }
}

/// Pages of each level of a table of so many records.
fn sizes(records: usize) -> Vec<usize> {
    let pages = records.div_ceil(SEGMENTS).max(1);
    core::iter::successors(Some(pages), |&size| (size > 1).then(|| size.div_ceil(POINTERS))).collect()
}

/// A record says of a segment of the log what has to be said: recovery finds out itself what has been written to it.
fn says(old: &SegmentRecord, new: &SegmentRecord) -> bool {
    let told = |record: &SegmentRecord| match record.state {
        SegmentState::Log => SegmentRecord { class: old.class, stripes: 0, sequence: 0, ..*record },
        SegmentState::Free | SegmentState::Closed => *record,
    };
    told(old) == told(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::space::GAP;

    fn pointer(segment: u32, place: u32) -> Pointer {
        Pointer { address: Address::new(segment, place), checksum: 0 }
    }

    /// A table of so many pages, all of which stand in one segment.
    fn table(pages: usize) -> Table {
        let mut next = 0..;
        let sizes = sizes(pages * SEGMENTS);
        let level = |&size: &usize| next.by_ref().take(size).map(|place| pointer(7, place)).collect();
        let levels = sizes.iter().map(level).collect();
        Table::found(vec![GAP; pages * SEGMENTS], levels, true)
    }

    #[test]
    fn a_page_that_changes_takes_those_above_it_and_those_that_count_where_they_stood() {
        let table = table(600);
        assert_eq!(table.sizes, [600, 3, 1]);
        let mut renewed = table.renewed();
        renewed.add(0, 300);
        table.follow(&mut renewed);
        // Segment 7 counts fewer blocks: its record is in page 0.
        assert_eq!(renewed.levels, [BTreeSet::from([0, 300]), BTreeSet::from([0, 1]), BTreeSet::from([0])]);
        assert_eq!((renewed.count(), renewed.replaced().len()), (5, 5));
        assert_eq!((table.kept(&renewed)[&7], table.kept_in(7, &renewed).count()), (604 - 5, 604 - 5));
        assert!(table.kept_in(7, &renewed).all(|(level, page)| level > 0 || page != 300));
        // Each is told once.
        assert_eq!((renewed.take_replaced().len(), renewed.take_replaced().len()), (5, 0));
        renewed.add(0, 301);
        table.follow(&mut renewed);
        assert_eq!((renewed.count(), renewed.take_replaced()), (6, &[Address::new(7, 301)][..]));
    }

    #[test]
    fn a_table_that_is_not_there_or_lies_otherwise_is_written_whole() {
        let odd = Table::found(vec![GAP; 300 * SEGMENTS], vec![vec![pointer(7, 1); 300]], true);
        for (table, replaced) in [(Table::none(300 * SEGMENTS), 0), (odd, 1)] {
            let renewed = table.renewed();
            assert_eq!((renewed.count(), renewed.replaced().len()), (303, replaced));
            assert!(table.kept(&renewed).is_empty());
        }
    }

    #[test]
    fn pages_stay_where_they_are_unless_they_are_written() {
        let mut table = table(300);
        let other = SegmentRecord { live: 3, ..GAP };
        let written =
            [(1, 900), (0, 901), (0, 902)].map(|(page, place)| BTreeMap::from([(page, pointer(8, place))]));
        let pointers = table.pointers(1, 0, &written[0]);
        assert_eq!((pointers.len(), pointers[0], pointers[1]), (254, pointer(7, 0), pointer(8, 900)));
        assert_eq!(table.pointers(1, 1, &written[0]).len(), 46);
        assert_eq!(table.root(&written), Root { top: Some(pointer(8, 902)), pages: 300, levels: 2 });
        table.stands(written.to_vec(), &[(1, vec![other; SEGMENTS])]);
        assert_eq!((table.levels[0][0], table.levels[0][1]), (pointer(7, 0), pointer(8, 900)));
        assert_eq!(table.kept(&table.renewed()), BTreeMap::from([(7, 303 - 3), (8, 3)]));
        assert!(!table.differs(1, &[other; SEGMENTS], true) && !table.differs(0, &[GAP; SEGMENTS], true));
        assert!(table.differs(0, &[other; SEGMENTS], false));
    }

    #[test]
    fn touched_pages_are_told_once() {
        let mut touched = Touched::all(200 * SEGMENTS);
        assert!(touched.take().into_iter().eq(0..200));
        touched.mark(3 * SEGMENTS as u32);
        touched.mark(130 * SEGMENTS as u32 + 5);
        (60..70).for_each(|page| touched.put(page));
        (60..70).for_each(|page| touched.forget(page));
        assert_eq!(touched.take(), [3, 130]);
        assert!(touched.take().is_empty());
    }
}
