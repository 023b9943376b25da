//! Redundancy compared, made true, and rebuilt, window by window. Who drives the windows decides pace and order.

use brindle_layout::{Family, Geometry};

use crate::array::{Array, Inner};
use crate::volume::VolumeError;

/// What is done about redundancy that disagrees with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// It is counted.
    Check,
    /// It is counted and made true: parity is written anew from the data, copies from the first that can be read.
    Repair,
}

/// What disagrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// P is not the XOR of the data.
    P,
    /// Q is not the syndrome of the data.
    Q,
    /// A copy differs from the first that can be read.
    Copy,
}

/// A place where redundancy disagrees with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The role whose member holds the redundancy.
    pub role: u16,
    /// Where in the member's data area, in bytes.
    pub offset: u64,
    /// What it is.
    pub kind: MismatchKind,
}

/// A place that a member could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPlace {
    /// The member's role.
    pub role: u16,
    /// Where in the member's data area, in bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// It was rebuilt from the others, written anew, and can be read now. Else nothing about it could be compared.
    pub mended: bool,
}

/// What became of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Sectors as md counts them (`mismatch_cnt`): 8 for each 4 KiB of a row of which P or Q disagree; for mirrors,
    /// for each differing copy, those of the block that was compared (64 KiB, or what is left of its chunk).
    pub mismatch_sectors: u64,
    /// The first places that disagree, at most [`SyncReport::PLACES`].
    pub places: Vec<Mismatch>,
    /// Bytes, counted as the window is, that could not be compared: members of theirs are lost, or can't read them and
    /// could not be given them anew.
    pub unverified: u64,
    /// Bytes of members that can't be read, nor could be made readable.
    pub unreadable: u64,
    /// Bytes of members that could not be read, and have been rebuilt and written anew.
    pub mended: u64,
    /// The first places that could not be read, at most [`SyncReport::PLACES`]; neighbours of one member as one.
    pub bad_places: Vec<BadPlace>,
}

impl SyncReport {
    /// Most places that are named.
    pub const PLACES: usize = 16;

    pub(crate) fn note(&mut self, place: Mismatch) {
        if self.places.len() < Self::PLACES {
            self.places.push(place);
        }
    }

    /// Counts and names a place that could not be read.
    pub(crate) fn note_bad(&mut self, place: BadPlace) {
        *(if place.mended { &mut self.mended } else { &mut self.unreadable }) += place.len;
        self.name_bad(place);
    }

    fn name_bad(&mut self, place: BadPlace) {
        let goes_on = |known: &&mut BadPlace| {
            known.role == place.role
                && known.mended == place.mended
                && known.offset + known.len == place.offset
        };
        if let Some(known) = self.bad_places.iter_mut().rev().find(goes_on) {
            known.len += place.len;
        } else if self.bad_places.len() < Self::PLACES {
            self.bad_places.push(place);
        }
    }

    /// Adds what became of the next window.
    pub fn add(&mut self, next: &Self) {
        self.mismatch_sectors += next.mismatch_sectors;
        self.unverified += next.unverified;
        self.unreadable += next.unreadable;
        self.mended += next.mended;
        next.bad_places.iter().for_each(|&place| self.name_bad(place));
        next.places.iter().for_each(|&place| self.note(place));
    }
}

/// See [`Array::sync_len`].
pub(crate) fn sync_len(geometry: &Geometry) -> u64 {
    match geometry.family() {
        Family::Striped(_) => 0,
        Family::Mirrored(_) => geometry.size(),
        Family::Parity(map) => map.row_offset(map.rows()),
    }
}

/// Positions of a resync are multiples of this: whole rows.
pub(crate) fn sync_unit(geometry: &Geometry) -> u64 {
    match geometry.family() {
        Family::Striped(_) | Family::Mirrored(_) => 1,
        Family::Parity(map) => map.chunk(),
    }
}

impl Array {
    /// Bytes over which [`Array::sync_window`] goes: of each member for parity levels, of the array for mirrors, 0
    /// where there is no redundancy.
    pub fn sync_len(&self) -> u64 {
        sync_len(&self.0.geometry)
    }

    /// Compares the redundancy of `len` bytes at `pos` (see [`Array::sync_len`]; both multiples of 64 KiB and, for
    /// parity, of the chunk, but for the end). Requests to that range wait meanwhile. Places that can't be read are
    /// mended on the way, unless the array is read-only; what can't be mended is named, and ends nothing. Redundancy that
    /// is true after [`SyncMode::Repair`] is known to be from then on.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or a member's, if one is gone that the array can't do without;
    /// [`VolumeError::Reshaping`].
    pub async fn sync_window(&self, pos: u64, len: u64, mode: SyncMode) -> Result<SyncReport, VolumeError> {
        let inner: &Inner = &self.0;
        if inner.border.is_some() {
            return Err(VolumeError::Reshaping);
        }
        let mut report = SyncReport::default();
        match inner.geometry.family() {
            Family::Striped(_) => {}
            Family::Mirrored(map) => inner.sync_mirrored(map, pos, len, mode, &mut report).await?,
            Family::Parity(map) => inner.sync_parity(map, pos, len, mode, &mut report).await?,
        }
        Ok(report)
    }

    /// Rebuilds `len` bytes at `pos` of the data area of `role`, which is recovering, from the others. For parity both
    /// are multiples of the chunk, so that the border of what is good never cuts a row.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or a member's, if it can't be rebuilt; [`VolumeError::Member`] if the recovering
    /// member refuses it.
    pub async fn recover_window(&self, role: u16, pos: u64, len: u64) -> Result<(), VolumeError> {
        let inner: &Inner = &self.0;
        match inner.geometry.family() {
            Family::Striped(_) => Err(VolumeError::TooManyLost),
            Family::Mirrored(map) => inner.recover_mirrored(map, role, pos, len).await,
            Family::Parity(map) => inner.recover_parity(map, role, pos, len).await,
        }
    }
}
