//! Bad blocks of a member: places that a recovery could not rebuild, since the other members could not be read there.
//! They hold nothing that was ever written. A read of such a place fails with an error, like a medium error, until
//! the place is rewritten.

use core::ops::Range;

use brindle_io::OpError;

/// The error of a read of such a place (EIO).
pub const UNREADABLE: OpError = OpError::Medium(5);

/// Such places of a member, in bytes of its data area: in their order, none of which touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks(Vec<Range<u64>>);

impl BadBlocks {
    /// Whether there are no bad blocks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places, in their order.
    pub fn places(&self) -> &[Range<u64>] {
        &self.0
    }

    /// Whether some byte of a range is bad.
    pub fn overlap(&self, range: &Range<u64>) -> bool {
        let from = self.0.partition_point(|bad| bad.end <= range.start);
        self.0.get(from).is_some_and(|bad| bad.start < range.end)
    }

    /// A range is bad from now on.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|bad| bad.end < range.start);
        let to = self.0.partition_point(|bad| bad.start <= range.end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(range.start, |bad| bad.start.min(range.start));
        let end = touched.last().map_or(range.end, |bad| bad.end.max(range.end));
        self.0.splice(from..to, core::iter::once(start..end));
    }

    /// The same places by a data area that begins so many bytes earlier.
    #[must_use]
    pub fn later(&self, bytes: u64) -> Self {
        Self(self.0.iter().map(|bad| bad.start + bytes..bad.end + bytes).collect())
    }

    /// A range was written: nothing of it is bad any more.
    pub fn remove(&mut self, range: &Range<u64>) {
        let cut = |bad: &Range<u64>| {
            let before = bad.start..bad.end.min(range.start);
            let behind = bad.start.max(range.end)..bad.end;
            [before, behind].into_iter().filter(|left| !left.is_empty())
        };
        self.0 = self.0.iter().flat_map(cut).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(places: &[Range<u64>]) -> BadBlocks {
        let mut bad = BadBlocks::default();
        places.iter().for_each(|place| bad.add(place.clone()));
        bad
    }

    #[test]
    fn places_that_touch_are_one_and_what_is_written_is_bad_no_more() {
        let mut all = bad(&[40..50, 10..20, 20..30, 60..70]);
        assert_eq!(all.places(), [10..30, 40..50, 60..70]);
        all.add(25..45);
        assert_eq!(all.places(), [10..50, 60..70]);
        all.remove(&(20..30));
        assert_eq!(all.places(), [10..20, 30..50, 60..70]);
        all.remove(&(0..15));
        all.remove(&(45..65));
        assert_eq!(all.places(), [15..20, 30..45, 65..70]);
        all.remove(&(0..100));
        assert!(all.is_empty());
    }

    #[test]
    fn a_range_is_bad_where_one_byte_of_it_is() {
        let all = bad(&[10..20, 30..40]);
        let overlap = |start, end| all.overlap(&(start..end));
        assert!(overlap(0, 11) && overlap(19, 20) && overlap(15, 35) && overlap(39, 50));
        assert!(!overlap(0, 10) && !overlap(20, 30) && !overlap(40, 50));
    }
}
