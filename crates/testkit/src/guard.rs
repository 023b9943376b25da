//! An observer that refuses changes which no log could have put on record. Those are a change of a member's data that did
//! not begin with its range, and rows with parity that were not announced as they are written.
//!
//! The guard refuses by a panic, which fails the test or storm that it runs in.

use core::hash::Hasher;
use core::ops::Range;
use std::cell::RefCell;
use std::hash::DefaultHasher;
use std::rc::Rc;

use brindle_array::observer::{Content, MakeObserver, MemberChange, Observer};
use brindle_array::row_log::{Change, Computed};
use brindle_layout::{Family, Geometry, Place};

/// Has each array that is opened with it watched by a guard of its own.
pub fn observer() -> MakeObserver {
    MakeObserver::new(|geometry| Rc::new(Guard::new(geometry)))
}

/// Watches one array.
pub struct Guard {
    geometry: Geometry,
    begun: RefCell<Vec<Change>>,
    announced: RefCell<Vec<Announced>>,
}

/// A window of rows that was computed and has not been written yet.
struct Announced {
    /// Bytes of the members' data areas.
    range: Range<u64>,
    due: Vec<Due>,
}

/// The bytes that a stretch of a member is to hold.
struct Due {
    role: u16,
    range: Range<u64>,
    /// The digest of its bytes; `None` for zeroes, which may be sent in pieces and more than once.
    digest: Option<u64>,
}

/// A stretch of a member's data area that lies within one chunk, and what it is for.
struct GuardedPiece {
    role: u16,
    range: Range<u64>,
    place: Place,
}

impl Guard {
    /// A guard for an array of this geometry without requests under way.
    pub fn new(geometry: &Geometry) -> Self {
        let (begun, announced) = (RefCell::default(), RefCell::default());
        Self { geometry: geometry.clone(), begun, announced }
    }

    fn refuse(&self, change: &MemberChange, why: &str) -> ! {
        let (level, what) = (self.geometry.level(), describe(change));
        let begun = self.begun.borrow();
        panic!("{level} of {} members: {what}: {why}; begun: {begun:?}", self.geometry.members())
    }

    /// Checks that each write lies within a change that has begun.
    fn check_begun(&self, change: &MemberChange) {
        let begun = self.begun.borrow();
        for piece in self.pieces(change.role, change.offset, change.len) {
            let mut covered: Vec<Range<u64>> =
                begun.iter().flat_map(|begun| self.covered(begun, &piece)).collect();
            covered.sort_by_key(|range| range.start);
            let reached = covered
                .iter()
                .fold(piece.range.start, |at, range| if range.start <= at { at.max(range.end) } else { at });
            if reached < piece.range.end {
                let GuardedPiece { range, place, .. } = &piece;
                self.refuse(
                    change,
                    &format!("{reached}..{} ({place:?}) belongs to nothing that has begun", range.end),
                );
            }
        }
    }

    /// A stretch of a member, cut where chunks end.
    fn pieces(&self, role: u16, offset: u64, len: u64) -> impl Iterator<Item = GuardedPiece> + '_ {
        // Levels without chunks lie on their members as one piece.
        let chunk = Some(self.geometry.chunk()).filter(|&chunk| chunk > 0).unwrap_or(u64::MAX);
        let (mut at, end) = (offset, offset + len);
        core::iter::from_fn(move || {
            let range = at..end.min((at - at % chunk).saturating_add(chunk));
            at = range.end;
            let place = self.geometry.place(role, range.start);
            (!range.is_empty()).then_some(GuardedPiece { role, range, place })
        })
    }

    /// The part of a piece that a change which has begun covers, in bytes of the member.
    fn covered(&self, begun: &Change, piece: &GuardedPiece) -> Vec<Range<u64>> {
        let here = &piece.range;
        match (begun, &piece.place, self.geometry.family()) {
            (Change::Member { role, range }, _, _) if *role == piece.role => vec![common(range, here)],
            (Change::Redundancy(range), _, Family::Parity(_)) => vec![common(range, here)],
            (Change::Bytes(range), Place::P { row } | Place::Q { row }, Family::Parity(map)) => {
                // A column of parity changes with any of the row's data in that column.
                let start = row * map.row_data_bytes();
                let block = |index: u16| {
                    let from = start + u64::from(index) * map.chunk();
                    moved(range, &(from..from + map.chunk()), map.row_offset(*row))
                };
                (0..map.data_members()).map(|index| common(&block(index), here)).collect()
            }
            (Change::Bytes(range) | Change::Redundancy(range), Place::Data { array_offset, .. }, _) => {
                let len = here.end - here.start;
                vec![moved(range, &(*array_offset..array_offset + len), here.start)]
            }
            _ => Vec::new(),
        }
    }

    /// Checks that rows with parity are written as they were announced.
    fn check_announced(&self, change: &MemberChange) {
        let digest = digest(change);
        let range = change.offset..change.offset + change.len;
        let fits = |due: &Due| {
            due.role == change.role
                && match due.digest {
                    Some(_) => due.digest == digest && due.range == range,
                    None => is_zero(change) && due.range.start <= range.start && range.end <= due.range.end,
                }
        };
        let mut announced = self.announced.borrow_mut();
        let found =
            announced.iter_mut().find_map(|rows| Some((rows.due.iter().position(fits)?, &mut rows.due)));
        match found {
            Some((at, due)) if due[at].digest.is_some() => drop(due.swap_remove(at)),
            Some(_) => {}
            None => self.refuse(change, "that was not announced, or with other bytes"),
        }
    }
}

impl Observer for Guard {
    fn begins(&self, change: &Change) {
        self.begun.borrow_mut().push(change.clone());
    }

    fn ends(&self, change: &Change) {
        let mut begun = self.begun.borrow_mut();
        match begun.iter().position(|begun| begun == change) {
            Some(at) => drop(begun.swap_remove(at)),
            None => panic!("{change:?} ends that never began"),
        }
    }

    fn computed(&self, rows: &Computed) {
        let window = &rows.range;
        for change in &rows.changes {
            if change.offset < window.start || change.offset + change.len > window.end {
                self.refuse(change, &format!("that lies beyond the window {window:?}"));
            }
        }
        let due = rows.changes.iter().map(|change| Due {
            role: change.role,
            range: change.offset..change.offset + change.len,
            digest: digest(change),
        });
        let mut announced = self.announced.borrow_mut();
        // No other change has to do with the rows: earlier announcements for them have been written, or never will
        // be.
        announced.retain(|old| {
            !old.due.is_empty() && (old.range.end <= window.start || window.end <= old.range.start)
        });
        announced.push(Announced { range: window.clone(), due: due.collect() });
    }

    fn sent(&self, change: &MemberChange) {
        self.check_begun(change);
        if matches!(self.geometry.family(), Family::Parity(_)) {
            self.check_announced(change);
        }
    }
}

/// The intersection of two ranges; empty if there is none.
fn common(range: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = range.start.max(other.start);
    start..range.end.min(other.end).max(start)
}

/// The intersection of two ranges, counted so that the second begins at `at`.
fn moved(range: &Range<u64>, other: &Range<u64>, at: u64) -> Range<u64> {
    let both = common(range, other);
    both.start - other.start + at..both.end - other.start + at
}

fn digest(change: &MemberChange) -> Option<u64> {
    let Content::Bytes(slices) = &change.content else { return None };
    let mut hasher = DefaultHasher::new();
    slices.iter().for_each(|slice| hasher.write(&slice.bytes()));
    Some(hasher.finish())
}

fn is_zero(change: &MemberChange) -> bool {
    match &change.content {
        Content::Bytes(slices) => slices.iter().all(|slice| slice.bytes().iter().all(|&byte| byte == 0)),
        Content::Zeroes => true,
        Content::Discarded => false,
    }
}

fn describe(change: &MemberChange) -> String {
    let MemberChange { role, offset, len, content } = change;
    let what = match content {
        Content::Bytes(_) => "a write",
        Content::Zeroes => "zeroes",
        Content::Discarded => "a discard",
    };
    format!("{what} of {offset}..{} of the data area of role {role}'s member", offset + len)
}

#[cfg(test)]
mod tests;
