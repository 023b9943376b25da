//! Places of which nothing is left when they are to be moved: no member can read them, and redundancy does not make up for that.
//!
//! They are bad in the new rows, and so is the parity beside them: else a reader would get bytes that were never written. Members have
//! that on record before the position passes them. Until then it does no harm, since nothing of an old row is there any more.

use core::ops::Range;

use brindle_io::{OpError, Slice};
use brindle_members::bad_blocks::BadBlocks;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::rows;
use crate::array::Array;
use crate::events::EventKind;
use crate::placement::Split;

/// Bytes that are read at a time where not all can be read, before blocks are.
const PART: u64 = 64 << 10;

/// Ranges of the array of which nothing is left, and what a member answered who should have the first.
#[derive(Default)]
pub(super) struct Lost {
    ranges: Vec<Range<u64>>,
    why: Option<VolumeError>,
}

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn add(&mut self, range: Range<u64>, why: VolumeError) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
        self.why.get_or_insert(why);
    }
}

/// Other errors pass, or end the reshape.
fn is_unreadable(why: &VolumeError) -> bool {
    matches!(why, VolumeError::Member { error: OpError::Medium(_), .. })
}

impl Array {
    /// Reads what has not moved, from byte `at` of the array on. What nobody gives is zeroes afterwards, and
    /// named; an error, unless it is tried `again`.
    pub(super) async fn read_or_lose(
        &self,
        split: &Split,
        at: u64,
        into: &Slice,
        again: bool,
    ) -> Result<Lost, VolumeError> {
        let mut lost = Lost::default();
        match split.above.read(at, core::slice::from_ref(into)).await {
            Ok(()) => return Ok(lost),
            Err(why) if again && is_unreadable(&why) && !into.is_pinned() => {}
            Err(why) => return Err(why),
        }
        let (len, block) = (into.len() as u64, u64::from(self.0.core.limits.block));
        for part in pieces(0..len, PART) {
            match read_piece(split, at, into, &part).await {
                Ok(()) => continue,
                Err(why) if is_unreadable(&why) && !into.is_pinned() => {}
                Err(why) => return Err(why),
            }
            for piece in pieces(part, block) {
                match read_piece(split, at, into, &piece).await {
                    Ok(()) => {}
                    Err(why) if is_unreadable(&why) && !into.is_pinned() => {
                        into.slice(piece.start as usize..piece.end as usize).bytes_mut().fill(0);
                        lost.add(at + piece.start..at + piece.end, why);
                    }
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(lost)
    }

    /// Members that hold such ranges in new rows, which have been written, and their parity, have them as bad blocks from now on.
    ///
    /// # Errors
    /// That of the member that could not read, if some log of bad blocks has no room: nothing is bad then.
    pub(super) async fn leave_lost(&self, lost: Lost) -> Result<(), VolumeError> {
        let (members, keeper) = (&self.0.core.members, &self.0.core.keeper);
        let places = self.places_in_new_rows(&lost.ranges);
        for role in 0..members.len() {
            let own = || places.iter().filter(|place| place.role == role);
            let Some(device) = members.writable(role).filter(|_| own().next().is_some()) else { continue };
            let mut bad: BadBlocks = members.bad(role);
            own().for_each(|place| bad.add(place.range.clone()));
            if !keeper.ledger().can_set_bad(device.id, bad.places()) {
                return Err(lost.why.unwrap_or(VolumeError::TooManyLost));
            }
        }
        for NewPlace { role, range, array } in places {
            if members.writable(role).is_some() {
                members.add_bad(role, range.clone());
                if array.is_some() {
                    keeper.note_place(role, EventKind::Unmoved, range, array);
                }
            }
        }
        Ok(())
    }

    /// Where new rows have these ranges, and the parity of each.
    fn places_in_new_rows(&self, ranges: &[Range<u64>]) -> Vec<NewPlace> {
        let Some(new) = rows(&self.0.geometry) else { return Vec::new() };
        let mut places = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let position = new.position(at);
                let len = (new.chunk() - position.column).min(range.end - at);
                let (row, start) = (new.row(position.row), new.row_offset(position.row) + position.column);
                let parity: SmallVec<[u16; 2]> = core::iter::once(row.p()).chain(row.q()).collect();
                let array = Some(at..at + len);
                places.push(NewPlace {
                    role: row.data_member(position.data_index),
                    range: start..start + len,
                    array,
                });
                places.extend(parity.into_iter().map(|role| NewPlace {
                    role,
                    range: start..start + len,
                    array: None,
                }));
                at += len;
            }
        }
        places
    }
}

/// A place of a role's data area, and the bytes of the array that it holds, if it is no parity.
struct NewPlace {
    role: u16,
    range: Range<u64>,
    array: Option<Range<u64>>,
}

/// A range cut at multiples of `step`.
fn pieces(range: Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(step as usize).map(move |start| start..(start + step).min(end))
}

async fn read_piece(split: &Split, at: u64, into: &Slice, piece: &Range<u64>) -> Result<(), VolumeError> {
    let part = into.slice(piece.start as usize..piece.end as usize);
    split.above.read(at + piece.start, core::slice::from_ref(&part)).await
}
