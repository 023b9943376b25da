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

use crate::checkpoint::{Pages, pages_of};
use crate::core::Core;
use crate::space::Grant;

impl Core {
    /// The table of segments can be recorded alone.
    fn may_reuse(&self) -> bool {
        let map = self.map.borrow();
        self.label.features.reuse()
            && !self.drained.get()
            && !self.reshaped.get()
            && map.is_thawed()
            && map.dead.is_empty()
            && self.dropped.borrow().is_empty()
            && self.reaped.borrow().is_empty()
    }

    /// The log is about to end, and a checkpoint is what gives it more: no record of the table does, nor what cleaning is about to empty.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let space = self.space.borrow();
        let is_under_way = self.label.features.reuse() && self.begun.get() > self.ended.get();
        if !space.is_scarce() || is_under_way || !self.may_reuse() {
            return space.is_scarce() && !is_under_way;
        }
        !self.cleaning.get() && space.gains(self.record.borrow().sequence) == 0
    }

    /// Begins a record if it is `due`; gives how many segments one gains, now or soon.
    pub(crate) fn begin_reuse(&self, due: bool) -> usize {
        if !self.may_reuse() {
            return 0;
        }
        let (count, gains) = {
            let (space, sequence) = (self.space.borrow(), self.record.borrow().sequence);
            (space.emptied(sequence), space.gains(sequence))
        };
        if due
            && gains > 0
            && let Some(core) = self.kept().filter(|core| !core.checkpointing.replace(true))
        {
            drop(self.set.io.spawn(async move {
                let _due = core.some_room().await;
                core.checkpointing.set(false);
            }));
        }
        count
    }

    /// Makes room: by a record of the table if that does, else by a checkpoint. What others made meanwhile will do.
    pub(crate) async fn some_room(self: &Rc<Self>) -> Result<(), VolumeError> {
        let before = self.gains.get();
        let reused = {
            let _turn = self.checkpoints.turn().await;
            if self.gains.get() > before {
                return Ok(());
            }
            self.recording.set(true);
            let reused = self.reuse_in_turn().await;
            self.recording.set(false);
            reused
        };
        // Whatever went wrong, a checkpoint tells it better.
        if matches!(reused, Ok(true)) { Ok(()) } else { self.some_checkpoint().await }
    }

    /// True if segments were gained.
    async fn reuse_in_turn(&self) -> Result<bool, VolumeError> {
        if self.read_only || !self.may_reuse() {
            return Ok(false);
        }
        let sequence = self.record.borrow().sequence;
        let (segments, count) = {
            let space = self.space.borrow();
            (space.reusable(sequence), space.segments.len())
        };
        let most = pages_of(count, SEGMENTS);
        if self.space.borrow().gains(sequence) == 0
            || self.page_debt(0) + u64::from(most) > self.room_for_changes()
        {
            return Ok(false);
        }
        self.map.borrow_mut().reuse(segments.iter().copied());
        self.tried.borrow_mut().retain(|n| !segments.contains(n));
        let mut changed = {
            let mut space = self.space.borrow_mut();
            space.reuse(&segments);
            space.turn_over(sequence);
            self.table.borrow().changed(&space.records(sequence, true))
        };
        // Places that are taken change the records of their own segments.
        let above = most as usize - count.div_ceil(SEGMENTS);
        let (mut grants, mut places) = (Vec::new(), Vec::new());
        while places.len() < changed.len() + above {
            let more = (changed.len() + above - places.len()) as u32;
            let Some(taken) = self.space.borrow_mut().take_pages(more) else {
                self.space.borrow_mut().give_back(&grants);
                return Ok(false);
            };
            let of = |grant: &Grant| (1..grant.blocks()).map(|n| grant.address(n)).collect::<Vec<_>>();
            places.extend(taken.iter().flat_map(of));
            grants.extend(taken);
            changed = self.table.borrow().with(changed, &places);
        }
        places.truncate(changed.len() + above);
        let (kept, replaced) = {
            let table = self.table.borrow();
            (table.kept(&changed), table.replaced(&changed))
        };
        let records = {
            let mut space = self.space.borrow_mut();
            places.iter().for_each(|&address| space.count(address, true));
            replaced.iter().for_each(|&address| space.count(address, false));
            space.records(sequence, true)
        };
        debug_assert!(self.table.borrow().changed(&records).is_subset(&changed));
        let mut pages = Pages::new(self, &grants);
        let written = pages.write_table(records, &kept).await;
        let mut space = self.space.borrow_mut();
        if let Err(error) = written {
            places.iter().for_each(|&address| space.count(address, false));
            replaced.iter().for_each(|&address| space.count(address, true));
            if pages.are_nobodys(error) {
                space.give_back(&grants);
            }
            return Err(error);
        }
        space.published();
        self.gains.set(self.gains.get() + 1);
        self.room.notify();
        Ok(true)
    }
}
