//! Maps a change to chunks of a write-intent bitmap.

use core::ops::Range;

use brindle_layout::{Family, Geometry};

use brindle_array::sync_len::sync_len;

/// The chunks of a bitmap by number, and what each covers.
pub(super) struct Chunks {
    /// Bytes of a chunk: 1 << shift.
    shift: u32,
    /// Bytes that are covered.
    covered: u64,
    /// For parity levels: bytes of data in a row, and bytes of a row on each member.
    rows: Option<(u64, u64)>,
}

impl Chunks {
    /// Bitmap chunks of `chunk` bytes, a power of two.
    pub(super) fn new(geometry: &Geometry, chunk: u64) -> Self {
        let rows = match geometry.family() {
            Family::Parity(map) => Some((map.row_data_bytes(), map.chunk())),
            _ => None,
        };
        Self { shift: chunk.trailing_zeros(), covered: sync_len(geometry), rows }
    }

    /// Whether the same bytes are covered.
    pub(super) fn cover_as(&self, other: &Self) -> bool {
        (self.covered, self.rows) == (other.covered, other.rows)
    }

    /// The number of chunks.
    pub(super) fn count(&self) -> u64 {
        self.covered.div_ceil(1 << self.shift)
    }

    /// The chunks that a range of the array's bytes is in. Of rows with parity all that is in them counts.
    #[inline]
    pub(super) fn of_bytes(&self, range: &Range<u64>) -> Range<u64> {
        let (start, end) = match self.rows {
            None => (range.start, range.end),
            Some((data, chunk)) => (range.start / data * chunk, range.end.div_ceil(data) * chunk),
        };
        let first = start >> self.shift;
        if range.is_empty() { first..first } else { first..((end - 1) >> self.shift) + 1 }
    }

    /// The chunks that lie whole in a range, as a resync counts.
    pub(super) fn within(&self, range: &Range<u64>) -> Range<u64> {
        let first = range.start.div_ceil(1 << self.shift);
        let end = if range.end >= self.covered { self.count() } else { range.end >> self.shift };
        first..end.max(first)
    }

    /// The chunk that a place is in, as a resync counts.
    pub(super) fn at(&self, place: u64) -> u64 {
        place >> self.shift
    }

    /// The range of a chunk, in the units in which a resync counts.
    pub(super) fn covers(&self, chunk: u64) -> Range<u64> {
        let start = chunk << self.shift;
        start..start.saturating_add(1 << self.shift).min(self.covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_layout::{Layout, Level};

    #[test]
    fn parity_counts_members_and_mirrors_count_the_array() {
        let of = |level, members: usize, chunk| {
            Geometry::new(level, Layout::default_for(level), chunk, &vec![1 << 20; members]).unwrap()
        };
        // Rows of 3 * 64 KiB of data: the second begins at 192 KiB, and at 64 KiB of each member.
        let chunks = Chunks::new(&of(Level::Raid5, 4, 64 << 10), 64 << 10);
        assert_eq!((chunks.count(), chunks.covers(15)), (16, (960 << 10)..(1 << 20)));
        assert_eq!(chunks.of_bytes(&(0..1)), 0..1);
        assert_eq!(chunks.of_bytes(&((192 << 10) - 1..(192 << 10))), 0..1);
        assert_eq!(chunks.of_bytes(&((192 << 10) - 1..(192 << 10) + 1)), 0..2);
        // Whole rows: within one, several chunks of the bitmap.
        let fine = Chunks::new(&of(Level::Raid5, 4, 64 << 10), 4 << 10);
        assert_eq!(fine.of_bytes(&(192 << 10..(192 << 10) + 1)), 16..32);
        let mirror = Chunks::new(&of(Level::Raid1, 2, 0), 64 << 10);
        assert_eq!((mirror.count(), mirror.of_bytes(&((64 << 10) - 1..(64 << 10) + 1))), (16, 0..2));
        let wide = Chunks::new(&of(Level::Raid10, 4, 64 << 10), 1 << 20);
        assert_eq!((wide.count(), wide.of_bytes(&(1 << 20..(1 << 20) + 512))), (2, 1..2));
        assert!(wide.of_bytes(&(7..7)).is_empty());
    }

    #[test]
    fn a_chunk_lies_in_a_range_that_has_all_of_it() {
        let geometry =
            Geometry::new(Level::Raid1, Layout::default_for(Level::Raid1), 0, &[1000 << 10; 2]).unwrap();
        let chunks = Chunks::new(&geometry, 64 << 10);
        assert_eq!(
            (chunks.count(), chunks.within(&(0..1000 << 10))),
            (16, 0..16),
            "the last is a part of one"
        );
        assert_eq!(chunks.within(&(1..192 << 10)), 1..3);
        assert!(chunks.within(&(1..100 << 10)).is_empty());
        assert_eq!(chunks.within(&(960 << 10..999 << 10)), 15..15);
    }
}
