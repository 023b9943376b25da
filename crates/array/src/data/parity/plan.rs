//! Plans a write to a part of a row with the fewest operations.

use core::ops::Range;

use brindle_io::Slice;
use brindle_layout::Row;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::Parity;
use super::bad::Bad;
use super::solve::LostData;

/// New bytes of one data block. Columns are bytes within the chunk.
#[derive(Clone)]
pub(super) struct WritePiece {
    pub(super) index: u16,
    pub(super) lo: u64,
    pub(super) hi: u64,
    pub(super) memory: Slice,
}

impl WritePiece {
    /// The part between two columns, which the piece covers.
    pub(super) fn part(&self, lo: u64, hi: u64) -> Slice {
        self.memory.slice((lo - self.lo) as usize..(hi - self.lo) as usize)
    }

    pub(super) fn covers(&self, band: &Band) -> bool {
        self.lo <= band.lo && band.hi <= self.hi
    }
}

/// The pieces of a row, by index and column; none overlaps another.
pub(super) type Pieces = SmallVec<[WritePiece; 2]>;

/// How the parity of a band comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the new data and the data that stays, which is read, if any does.
    Reconstruct,
    /// From the old parity, the old data and the new data: read-modify-write.
    Modify,
    /// Parity is not written: no parity member is left, or parity is not in sync where blocks are lost.
    Leave,
}

/// Columns in which the same blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    pub(super) lo: u64,
    pub(super) hi: u64,
    pub(super) way: Way,
    /// Both ways are possible.
    free: bool,
}

impl Band {
    /// Columns whose parity is made from all of the row's data.
    pub(super) fn made_anew(cols: &Range<u64>) -> Self {
        Self { lo: cols.start, hi: cols.end, way: Way::Reconstruct, free: false }
    }
}

pub(super) type Bands = SmallVec<[Band; 2]>;

/// The way in which the columns of a row are written.
pub(super) enum WritePlan {
    Bands(Bands),
    /// Lost blocks have to be rebuilt before parity can be computed: all is read.
    Rebuild(Bands),
}

/// The blocks of a row that can still be read or written.
pub(super) struct Health {
    /// Parity whose old content can be used: P, Q.
    pub(super) readable: [bool; 2],
    /// Parity that has to be written: P, Q.
    pub(super) writable: [bool; 2],
    pub(super) lost: LostData,
    /// Parity is known to be in sync in all the columns that are written.
    pub(super) known: bool,
    /// It is not, and P is [presumed](super::solve::Trust::Presumed) to give the one block that is lost: P and Q need not agree
    /// about it, so that both are made anew.
    pub(super) presumed: bool,
    /// The array lacks something, and parity has to stay true in all the columns, or what was written before is lost.
    pub(super) careful: bool,
}

impl Health {
    /// Parity that is being rebuilt can't be modified, but has to be right once it is: the row may have been rebuilt
    /// already without the border of what is good having moved on.
    fn recovering(&self) -> bool {
        (0..2).any(|kind| self.writable[kind] && !self.readable[kind])
    }

    /// Parity blocks that read-modify-write reads.
    fn old_parity(&self) -> usize {
        self.readable.iter().filter(|&&there| there).count()
    }
}

impl Parity {
    /// The state of a row some of whose columns are to be written. Roles whose bytes there are `unreadable` count as
    /// lost.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if something of it is lost for good.
    pub(super) fn health(
        &self,
        number: u64,
        row: &Row,
        cols: &Range<u64>,
        unreadable: &Bad,
    ) -> Result<Health, VolumeError> {
        let known = self.is_in_sync(number, cols);
        let has_q = row.q().is_some();
        if self.core.members.all_in_sync() && unreadable.is_empty() {
            let parity = [true, has_q];
            return Ok(Health {
                readable: parity,
                writable: parity,
                lost: LostData::new(),
                known,
                presumed: false,
                careful: false,
            });
        }
        self.check_row(number)?;
        let there = |role: u16| !unreadable.has(role) && self.readable_in(number, role).is_some();
        let lost = super::solve::lost_data(row, there).map_err(|_| VolumeError::TooManyLost)?;
        let readable = [there(row.p()), row.q().is_some_and(there)];
        let presumed = !known
            && readable[0]
            && matches!(*lost, [index] if self.presumed_in(number, cols) == Some(row.data_member(index)));
        let takes = |role: u16| self.core.members.writable(role).is_some();
        Ok(Health {
            readable,
            writable: [takes(row.p()), row.q().is_some_and(takes)],
            lost,
            known,
            presumed,
            careful: known || presumed,
        })
    }
}

/// Cuts the columns of the pieces into bands and finds each one's way.
///
/// # Errors
/// [`VolumeError::TooManyLost`] if parity that is not known to be in sync would have to stand for a part of what is lost.
pub(super) fn plan(row: &Row, health: &Health, pieces: &[WritePiece]) -> Result<WritePlan, VolumeError> {
    let mut bands = cut(pieces);
    let mut rebuild = false;
    for band in &mut bands {
        let written = |index: u16| pieces.iter().any(|piece| piece.index == index && piece.covers(band));
        let count = pieces.iter().filter(|piece| piece.covers(band)).count();
        let lost_written = health.lost.iter().any(|&index| written(index));
        let lost_kept = health.lost.iter().any(|&index| !written(index));
        // With two lost, parity that was written in part can be given back only what was there.
        rebuild |= health.presumed
            || health.known && (lost_kept && health.recovering() || lost_written && health.lost.len() > 1);
        (band.way, band.free) = match () {
            // No parity is left: there is nothing to compute, and so nothing to read.
            () if health.writable == [false, false] => (Way::Leave, false),
            () if lost_kept && health.known => (Way::Modify, false),
            () if health.presumed => (Way::Reconstruct, false),
            () if lost_kept && lost_written => return Err(VolumeError::TooManyLost),
            () if lost_kept => (Way::Leave, false),
            () if lost_written || !health.known || health.recovering() => (Way::Reconstruct, false),
            () => {
                let reconstruct = usize::from(row.data_members()) - count;
                let modify = count + health.old_parity();
                (if reconstruct < modify { Way::Reconstruct } else { Way::Modify }, true)
            }
        };
    }
    if rebuild {
        return Ok(WritePlan::Rebuild(bands));
    }
    if bands.len() > 1 && bands.iter().any(|band| band.free) {
        bands = cheapest(row, health, pieces, &bands);
    }
    Ok(WritePlan::Bands(bands))
}

/// Each band's own best way against one way for all: neighbours that read the same member share an operation.
fn cheapest(row: &Row, health: &Health, pieces: &[WritePiece], bands: &Bands) -> Bands {
    let uniform = |way: Way| -> Bands {
        bands.iter().map(|&band| if band.free { Band { way, ..band } } else { band }).collect()
    };
    let cost = |bands: &Bands| reads(row, health, pieces, bands);
    let mut best = bands.clone();
    for other in [uniform(Way::Modify), uniform(Way::Reconstruct)] {
        if cost(&other) < cost(&best) {
            best = other;
        }
    }
    best
}

/// Read operations, and bytes as the tie-breaker.
fn reads(row: &Row, health: &Health, pieces: &[WritePiece], bands: &[Band]) -> (usize, u64) {
    let (mut operations, mut bytes) = (0, 0);
    let mut count = |times: usize, reads: &dyn Fn(&Band) -> bool| {
        let mut end = None;
        for band in bands.iter().filter(|band| reads(band)) {
            operations += if end == Some(band.lo) { 0 } else { times };
            bytes += (band.hi - band.lo) * times as u64;
            end = Some(band.hi);
        }
    };
    for index in 0..row.data_members() {
        count(1, &|band| reads_data(health, pieces, band, index));
    }
    count(health.old_parity(), &|band| band.way == Way::Modify);
    (operations, bytes)
}

/// Whether a band needs the old content of a data block.
pub(super) fn reads_data(health: &Health, pieces: &[WritePiece], band: &Band, index: u16) -> bool {
    let written = pieces.iter().any(|piece| piece.index == index && piece.covers(band));
    match band.way {
        Way::Reconstruct => !written,
        Way::Modify => written && health.old_parity() > 0,
        Way::Leave => false,
    }
}

/// Bands between all the pieces' edges; columns that no piece touches are left out.
fn cut(pieces: &[WritePiece]) -> Bands {
    let band = |lo, hi| Band { lo, hi, way: Way::Modify, free: false };
    // Most small writes are one piece.
    if let [piece] = pieces {
        let mut bands = Bands::new();
        if piece.lo < piece.hi {
            bands.push(band(piece.lo, piece.hi));
        }
        return bands;
    }
    let mut edges: SmallVec<[u64; 8]> = pieces.iter().flat_map(|piece| [piece.lo, piece.hi]).collect();
    edges.sort_unstable();
    edges.dedup();
    let touched = |band: &Band| pieces.iter().any(|piece| piece.covers(band));
    edges.windows(2).map(|edge| band(edge[0], edge[1])).filter(touched).collect()
}
