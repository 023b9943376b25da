//! Segments are used again between checkpoints: a record of their table alone does for that.
//!
//! A checkpoint writes most of the map where changes are at random. Many segments have no blocks any more but by its leaves: all of
//! these are elsewhere by younger batches. Such a segment is free as soon as these are on stable storage, since recovery finds them in
//! the log, and does not ask what leaves say. So an uberblock is written that names a new table and is otherwise the last one. The
//! table says which segments were used again: blocks that leaves name there do not count.
//!
//! Counts of live blocks are those of the last checkpoint's leaves all the time. So there is no such record while leaves are
//! gone through that were given back, nor behind a checkpoint that did not come to its end.

use std::rc::Rc;

use brindle_format::pool::SEGMENTS;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::store::owed::Coming;
use crate::store::space::Gains;
use crate::upkeep::checkpoint::{AsOf, Pages, pages_of};

impl Core {
    /// The table of segments can be recorded alone.
    fn may_reuse(&self) -> bool {
        let map = self.map.borrow();
        self.label.get().features.reuse()
            && !self.checkpoints.is_unfinished()
            && !self.checkpoints.is_reshaped()
            && map.is_thawed()
            && map.dead.is_empty()
            && map.tree.replaced.is_empty()
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
        let (sequence, count) = (self.record.last.borrow().sequence, self.space.borrow().segments.len());
        self.settle_touched(sequence).await;
        if self.read_only || self.run.is_stopping() || !self.may_reuse() {
            return Ok(false);
        }
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
            // Room for its own pages is a part of what `least_pages` keeps.
            space.turn_over(sequence, 0);
        }
        self.map.borrow_mut().reuse(segments);
        let as_of = AsOf { sequence, reused: true, exactly: false };
        let due = self.table_due(as_of, &[]);
        let rewrite = match self.table_room(as_of, due, 0, Vec::new()) {
            Ok(rewrite) => rewrite,
            Err((_, grants)) => {
                self.space.borrow_mut().give_back(&grants);
                return Ok(false);
            }
        };
        let mut writing = Pages::new(self, &rewrite.grants);
        if let Err(error) = writing.write_table(&rewrite).await {
            self.table_failed(&rewrite);
            writing.give_back(&mut self.space.borrow_mut(), &rewrite.grants);
            return Err(error);
        }
        let mut space = self.space.borrow_mut();
        let gained = space.published() > 0;
        if gained {
            self.checkpoints.gained();
        }
        self.room.notify();
        Ok(gained)
    }
}
