//! Segments are used again between checkpoints: a record of their table alone does for that.
//!
//! A checkpoint writes most of the map where changes are at random. Many segments have no blocks any more but by its leaves: all of
//! these are elsewhere by younger batches. Such a segment is free as soon as these are on stable storage, since recovery finds them in
//! the log, and does not ask what leaves say. So an uberblock is written that names a new table and is otherwise the last one. The
//! table says which segments were used again: blocks that leaves name there do not count.
//!
//! Counts of live blocks are those of the last checkpoint's leaves all the time. So there is no such record while leaves are
//! gone through that were given back, nor behind a checkpoint that did not come to its end.

use std::collections::BTreeSet;
use std::rc::Rc;

use brindle_format::pool::SEGMENTS;
use brindle_format::pool::place::Address;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::store::owed::Coming;
use crate::store::space::{Gains, Grant};
use crate::upkeep::checkpoint::{Pages, pages_of};

/// Pages of the table that are written anew, and where to.
struct Room {
    pages: BTreeSet<usize>,
    grants: Vec<Grant>,
    places: Vec<Address>,
}

impl Core {
    /// The table of segments can be recorded alone.
    fn may_reuse(&self) -> bool {
        let map = self.map.borrow();
        self.label.get().features.reuse()
            && !self.checkpoints.is_unfinished()
            && !self.checkpoints.is_reshaped()
            && map.is_thawed()
            && map.dead.is_empty()
            && self.checkpoints.dropped.borrow().is_empty()
            && !self.cleaner.has_uncounted()
    }

    /// The log is about to end, and a checkpoint is what gives it more: no record of the table does, nor what cleaning is about to empty.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let space = self.space.borrow();
        let is_under_way = self.label.get().features.reuse() && self.checkpoints.is_under_way();
        if !space.is_scarce() || is_under_way || !self.may_reuse() {
            return space.is_scarce() && !is_under_way;
        }
        drop(space);
        !self.cleaner.is_cleaning() && !self.gains().now
    }

    /// The use that a record of the table would have.
    fn gains(&self) -> Gains {
        let least = self.least_pages();
        let mut space = self.space.borrow_mut();
        space.least = least;
        let table = pages_of(space.segments.len(), SEGMENTS);
        space.gains(self.record.last.borrow().sequence, table.into())
    }

    /// Begins a record if it is `due`; gives how many segments one gains, now or soon.
    pub(crate) fn begin_reuse(&self, due: bool) -> usize {
        if !self.may_reuse() {
            return 0;
        }
        let gains = self.gains();
        if due
            && gains.now
            && let Some(core) = self.kept().filter(|core| core.checkpoints.begins_due())
        {
            drop(self.set.io.spawn(async move {
                let _due = core.some_room().await;
                core.checkpoints.ends_due();
            }));
        }
        gains.emptied
    }

    /// Makes room: by a record of the table if that does, else by a checkpoint. What others made meanwhile will do.
    pub(crate) async fn some_room(self: &Rc<Self>) -> Result<(), VolumeError> {
        let before = self.checkpoints.gains();
        let reused = {
            let turn = self.checkpoints.turn().await;
            if self.checkpoints.gains() > before {
                return Ok(());
            }
            turn.records();
            self.reuse_in_turn().await
        };
        // Whatever went wrong, a checkpoint tells it better.
        if matches!(reused, Ok(true)) { Ok(()) } else { self.some_checkpoint().await }
    }

    /// True if segments were gained.
    async fn reuse_in_turn(&self) -> Result<bool, VolumeError> {
        if self.read_only || self.run.is_stopping() || !self.may_reuse() {
            return Ok(false);
        }
        let (sequence, count) = (self.record.last.borrow().sequence, self.space.borrow().segments.len());
        let most = pages_of(count, SEGMENTS);
        let has_room = self.page_debt(Coming::default()) + u64::from(most) <= self.room_for_changes();
        if !has_room || !self.gains().now {
            return Ok(false);
        }
        let segments = self.space.borrow().reusable(sequence);
        self.cleaner.tried.borrow_mut().retain(|n| segments.binary_search(n).is_err());
        {
            let mut space = self.space.borrow_mut();
            space.reuse(&segments);
            space.turn_over(sequence);
        }
        self.map.borrow_mut().reuse(segments);
        let above = most as usize - count.div_ceil(SEGMENTS);
        let Some(Room { pages, grants, places }) = self.room_for_table(sequence, above) else {
            return Ok(false);
        };
        let (kept, replaced) =
            (self.checkpoints.table.borrow().kept(&pages), self.checkpoints.table.borrow().replaced(&pages));
        self.space.borrow_mut().exchange(&replaced, &places);
        let records = self.space.borrow().records(sequence, true);
        debug_assert!(self.checkpoints.table.borrow().changed(&records).is_subset(&pages));
        let mut writing = Pages::new(self, &grants);
        let written = writing.write_table(records, &kept).await;
        let mut space = self.space.borrow_mut();
        if let Err(error) = written {
            space.exchange(&places, &replaced);
            writing.give_back(&mut space, &grants);
            return Err(error);
        }
        let gained = space.published() > 0;
        if gained {
            self.checkpoints.gained();
        }
        self.room.notify();
        Ok(gained)
    }

    /// Room for the pages of the table that change, and for so many `above` them.
    fn room_for_table(&self, sequence: u64, above: usize) -> Option<Room> {
        let (table, mut space) = (self.checkpoints.table.borrow(), self.space.borrow_mut());
        let mut pages = table.changed(&space.records(sequence, true));
        let (mut grants, mut places): (Vec<Grant>, Vec<Address>) = (Vec::new(), Vec::new());
        // Places that are taken change the records of their own segments.
        while places.len() < pages.len() + above {
            let Some(taken) = space.take_pages((pages.len() + above - places.len()) as u32) else {
                space.give_back(&grants);
                return None;
            };
            places.extend(taken.iter().flat_map(Grant::pages));
            grants.extend(taken);
            pages = table.with(pages, &places);
        }
        places.truncate(pages.len() + above);
        Some(Room { pages, grants, places })
    }
}
