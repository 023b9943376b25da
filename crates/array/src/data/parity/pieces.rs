//! The stretches of a row that a read wants, and the bands in which those that are lost are computed.

use core::ops::Range;

use brindle_io::Slice;
use brindle_layout::ParityRows;
use smallvec::SmallVec;

use super::window::Blocks;

/// A stretch of one data block that a request wants.
pub(super) struct ReadPiece {
    pub(super) role: u16,
    /// Bytes within the chunk.
    pub(super) cols: Range<u64>,
    /// The offset in the request's memory.
    pub(super) at: usize,
}

/// The pieces of one row of a request.
pub(super) fn pieces(
    map: &ParityRows,
    row: u64,
    offset: u64,
    len: u64,
) -> impl Iterator<Item = ReadPiece> + use<> {
    let start = row * map.row_data_bytes();
    let (from, to) = (offset.max(start), (offset + len).min(start + map.row_data_bytes()));
    let (roles, chunk) = (map.row(row), map.chunk());
    (map.position(from).data_index..=map.position(to - 1).data_index).map(move |index| {
        let block = start + u64::from(index) * chunk;
        let (lo, hi) = (from.max(block), to.min(block + chunk));
        ReadPiece { role: roles.data_member(index), cols: lo - block..hi - block, at: (lo - offset) as usize }
    })
}

impl ReadPiece {
    pub(super) fn memory(&self, into: &Slice) -> Slice {
        into.slice(self.at..self.at + (self.cols.end - self.cols.start) as usize)
    }

    /// The part of it that lies in these columns.
    pub(super) fn within(self, cols: &Range<u64>) -> Option<Self> {
        let (lo, hi) = (self.cols.start.max(cols.start), self.cols.end.min(cols.end));
        let at = self.at + (lo - self.cols.start) as usize;
        (lo < hi).then_some(Self { role: self.role, cols: lo..hi, at })
    }
}

/// Parts of the blocks of a row that a request wants, in the order of its memory.
pub(super) type Pieces = SmallVec<[ReadPiece; 8]>;

/// The columns in which something that is wanted is not there, cut where pieces begin or end.
pub(super) fn bands(pieces: &Pieces, there: impl Fn(u16) -> bool) -> SmallVec<[Range<u64>; 4]> {
    let mut cuts: SmallVec<[u64; 16]> =
        pieces.iter().flat_map(|piece| [piece.cols.start, piece.cols.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let bands = cuts.iter().zip(cuts.iter().skip(1)).map(|(&from, &to)| from..to);
    let lacks = |band: &Range<u64>| pieces.iter().any(|piece| !there(piece.role) && covers(piece, band));
    bands.filter(lacks).collect()
}

fn covers(piece: &ReadPiece, band: &Range<u64>) -> bool {
    piece.cols.start <= band.start && band.end <= piece.cols.end
}

/// The piece that holds a member's bytes in a band.
pub(super) fn piece_of<'a>(pieces: &'a Pieces, role: u16, band: &Range<u64>) -> Option<&'a ReadPiece> {
    pieces.iter().find(|piece| piece.role == role && covers(piece, band))
}

/// Has the blocks of pieces lie in the request's memory.
pub(super) fn put_pieces<'a>(
    pieces: &Pieces,
    band: &Range<u64>,
    mut memory: &'a mut [u8],
    blocks: &mut Blocks<'a>,
) {
    let (len, mut passed) = ((band.end - band.start) as usize, 0);
    for piece in pieces.iter().filter(|piece| covers(piece, band)) {
        let at = piece.at + (band.start - piece.cols.start) as usize;
        let (block, rest) = core::mem::take(&mut memory).split_at_mut(at - passed).1.split_at_mut(len);
        (blocks[usize::from(piece.role)], memory, passed) = (block, rest, at + len);
    }
}
