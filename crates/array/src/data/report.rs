//! The results of comparing redundancy, and of bringing it in sync, window by window.

/// The treatment of redundancy that disagrees with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Disagreements are counted.
    Check,
    /// Disagreements are counted and corrected: parity is rewritten from the data, copies from the first that can
    /// be read.
    Repair,
    /// Disagreements are counted. Where the wrong member is known ([`Mismatch::located`]), its correct content is
    /// written to it. All else is left as it is.
    Locate,
}

/// The kind of block that disagrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// P is not the XOR of the data.
    P,
    /// Q is not the syndrome of the data.
    Q,
    /// A copy differs: from most others, or where it is not known which is wrong, from the first that can be read.
    Copy,
    /// Data is not what P and Q say that it was.
    Data,
}

/// A place where redundancy disagrees with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The role whose member is wrong; where that is not known, of the member that holds the redundancy.
    pub role: u16,
    /// Where in the member's data area, in bytes.
    pub offset: u64,
    /// Bytes: whole sectors of 512.
    pub len: u64,
    /// The kind of block.
    pub kind: MismatchKind,
    /// This member is known to be the wrong one: redundancy was known to be in sync before. In RAID 6, P and Q name one block
    /// that explains all bytes of each sector; in mirrors, more than half of three or more copies agree.
    pub located: bool,
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
    /// The place was rebuilt from the others, rewritten, and can be read now. If not, it could not be compared.
    pub mended: bool,
}

/// The result of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Sectors as md counts them (`mismatch_cnt`): 8 for each 4 KiB of a row of which P or Q disagree. For mirrors,
    /// each differing copy counts the sectors of the block that was compared (64 KiB, or the rest of its chunk).
    pub mismatch_sectors: u64,
    /// Sectors among these whose wrong member is unknown; for mirrors, each differing copy counts.
    pub unlocated: u64,
    /// Sectors that are known to be wrong; for mirrors, each copy counts.
    pub located: u64,
    /// The first places that disagree, at most [`SyncReport::PLACES`]; neighbours of one member as one, where they are located.
    pub places: Vec<Mismatch>,
    /// Bytes not compared, in the unit of the window: a member is missing or unreadable, and could not be mended.
    pub unverified: u64,
    /// Bytes of members that can't be read, nor could be made readable.
    pub unreadable: u64,
    /// Bytes of members that could not be read, and have been rebuilt and rewritten.
    pub mended: u64,
    /// The first places that could not be read, at most [`SyncReport::PLACES`]; neighbours of one member as one.
    pub bad_places: Vec<BadPlace>,
}

impl SyncReport {
    /// Most places that are named.
    pub const PLACES: usize = 16;

    /// Counts and names a place of which it is known that it is wrong.
    pub(crate) fn note_located(&mut self, place: Mismatch) {
        self.located += place.len.div_ceil(512);
        self.note(place);
    }

    pub(crate) fn note(&mut self, place: Mismatch) {
        let goes_on = |known: &&mut Mismatch| {
            (known.role, known.kind, known.located) == (place.role, place.kind, true)
                && place.located
                && known.offset + known.len == place.offset
        };
        if let Some(known) = self.places.iter_mut().rev().find(goes_on) {
            known.len += place.len;
        } else if self.places.len() < Self::PLACES {
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

    /// Adds the result of the next window.
    pub fn add(&mut self, next: &Self) {
        self.mismatch_sectors += next.mismatch_sectors;
        self.unlocated += next.unlocated;
        self.located += next.located;
        self.unverified += next.unverified;
        self.unreadable += next.unreadable;
        self.mended += next.mended;
        next.bad_places.iter().for_each(|&place| self.name_bad(place));
        next.places.iter().for_each(|&place| self.note(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_one_if_they_touch_on_one_member_with_one_outcome() {
        let place = |role, offset, len, mended| BadPlace { role, offset, len, mended };
        let mut report = SyncReport::default();
        let found = [place(0, 0, 512, true), place(1, 512, 512, true), place(0, 512, 512, true)];
        found.into_iter().for_each(|place| report.note_bad(place));
        report.note_bad(place(0, 1024, 512, false));
        report.note_bad(place(1, 2048, 512, true));
        let expected = [
            place(0, 0, 1024, true),
            place(1, 512, 512, true),
            place(0, 1024, 512, false),
            place(1, 2048, 512, true),
        ];
        assert_eq!((report.bad_places, report.mended, report.unreadable), (expected.to_vec(), 2048, 512));
    }
}
