//! The table of segments as it stands on the members, and which of its pages a record has to write anew.

use std::collections::BTreeSet;

use brindle_format::pool::place::Address;
use brindle_format::pool::{Pointer, ROOTED, SEGMENTS, SegmentRecord, SegmentState};

/// The table that the last uberblock names.
#[derive(Default)]
pub(crate) struct Table {
    /// Its records; none where it was read and not written.
    pub(crate) records: Vec<SegmentRecord>,
    /// Its pages,
    pub(crate) pages: Vec<Pointer>,
    /// and where pages of pointers to these are; of a table that was read, all of its pages.
    pub(crate) above: Vec<Address>,
}

impl Table {
    /// Where all of its pages are.
    pub(crate) fn places(&self) -> impl Iterator<Item = Address> {
        self.pages.iter().map(|pointer| pointer.address).chain(self.above.iter().copied())
    }

    /// Places that nothing names any more once these pages are written anew.
    pub(crate) fn replaced(&self, pages: &BTreeSet<usize>) -> Vec<Address> {
        let of = |&n: &usize| self.pages.get(n).map(|pointer| pointer.address);
        pages.iter().filter_map(of).chain(self.above.iter().copied()).collect()
    }

    /// The page with the record of a segment.
    fn page_of(address: Address) -> usize {
        address.segment() as usize / SEGMENTS
    }

    /// Pages that differ from these records, or will, since places in segments of theirs are given back. All where pages lie about in
    /// more segments than an uberblock can name.
    pub(crate) fn changed(&self, records: &[SegmentRecord]) -> BTreeSet<usize> {
        let about: BTreeSet<u32> = self.places().map(|address| address.segment()).collect();
        if self.records.len() != records.len() || about.len() > ROOTED / 2 {
            return (0..records.len().div_ceil(SEGMENTS)).collect();
        }
        let both = self.records.iter().zip(records);
        let differ = both.enumerate().filter(|(_, (old, new))| !is_same(old, new));
        self.with(differ.map(|(n, _)| n / SEGMENTS).collect(), &[])
    }

    /// Pages that change if these do, and pages are written to these places.
    pub(crate) fn with(&self, mut changed: BTreeSet<usize>, places: &[Address]) -> BTreeSet<usize> {
        changed.extend(places.iter().map(|&address| Self::page_of(address)));
        loop {
            let before = changed.len();
            changed.extend(self.replaced(&changed).into_iter().map(Self::page_of));
            if changed.len() == before {
                return changed;
            }
        }
    }

    /// Pages that stay where they are.
    pub(crate) fn kept(&self, changed: &BTreeSet<usize>) -> Vec<Option<Pointer>> {
        (0..).zip(&self.pages).map(|(n, &pointer)| (!changed.contains(&n)).then_some(pointer)).collect()
    }
}

/// Two records say the same: of a segment of the log recovery finds out itself what has been written to it.
fn is_same(old: &SegmentRecord, new: &SegmentRecord) -> bool {
    let told = |record: &SegmentRecord| match record.state {
        SegmentState::Log => SegmentRecord { class: old.class, stripes: 0, sequence: 0, ..*record },
        SegmentState::Free | SegmentState::Closed => *record,
    };
    told(old) == told(new)
}
