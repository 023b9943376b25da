//! The memory of a request, a list of slices, cut where members begin and end.

use core::ops::{Deref, Range};

use brindle_io::Slice;
use smallvec::SmallVec;

/// A part of a list: almost always one slice.
pub(crate) type Part = SmallVec<[Slice; 1]>;

/// A list from which pieces are taken, each of one slice.
pub(crate) struct Cut<'a> {
    list: &'a [Slice],
    /// Bytes of the first slice that have been taken.
    taken: usize,
}

/// A slice of a list, or a part of one.
pub(crate) enum Piece<'a> {
    Whole(&'a Slice),
    Part(Slice),
}

impl Deref for Piece<'_> {
    type Target = Slice;

    #[inline]
    fn deref(&self) -> &Slice {
        match self {
            Self::Whole(slice) => slice,
            Self::Part(slice) => slice,
        }
    }
}

impl<'a> Cut<'a> {
    /// A list of which nothing has been taken.
    #[inline]
    pub(crate) fn of(list: &'a [Slice]) -> Self {
        let mut cut = Self { list, taken: 0 };
        cut.skip_empty();
        cut
    }

    #[inline]
    fn skip_empty(&mut self) {
        while let [first, rest @ ..] = self.list
            && first.len() == self.taken
        {
            (self.list, self.taken) = (rest, 0);
        }
    }

    /// All has been taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The next piece, of at most `most` bytes; `None` if all has been taken.
    #[inline]
    pub(crate) fn take(&mut self, most: u64) -> Option<Piece<'a>> {
        let first = self.list.first()?;
        let len = most.min((first.len() - self.taken) as u64) as usize;
        let piece = if len == first.len() {
            Piece::Whole(first)
        } else {
            Piece::Part(first.slice(self.taken..self.taken + len))
        };
        self.taken += len;
        self.skip_empty();
        Some(piece)
    }
}

/// A range of a list, in its bytes.
pub(crate) fn part(list: &[Slice], range: Range<u64>) -> Part {
    let (mut part, mut at) = (Part::new(), 0);
    for slice in list {
        let end = at + slice.len() as u64;
        let (lo, hi) = (range.start.max(at), range.end.min(end));
        if lo < hi {
            part.push(slice.slice((lo - at) as usize..(hi - at) as usize));
        }
        at = end;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::Io;
    use brindle_io::memory::Memory;

    #[test]
    fn pieces_end_where_slices_do_and_parts_hold_what_was_asked_for() {
        let io = Io::new(Box::new(Memory::new()));
        let buf = io.pool(8192).try_alloc(4096).unwrap();
        buf.bytes_mut().iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at % 251) as u8);
        let list =
            [0..0, 0..1000, 1000..1000, 1000..1500, 1500..4096, 4096..4096].map(|range| buf.slice(range));
        let mut cut = Cut::of(&list);
        let mut lens = Vec::new();
        while !cut.is_empty() {
            lens.push(cut.take(700).unwrap().len());
        }
        assert_eq!(lens, [700, 300, 500, 700, 700, 700, 496]);
        assert!(cut.take(1).is_none() && Cut::of(&list[..1]).is_empty());
        for range in [0..4096, 0..0, 999..1001, 1000..1500, 1499..4096, 300..301] {
            let bytes: Vec<u8> = part(&list, range.clone()).iter().flat_map(|s| s.bytes().to_vec()).collect();
            assert_eq!(bytes, buf.bytes()[range.start as usize..range.end as usize], "{range:?}");
        }
    }
}
