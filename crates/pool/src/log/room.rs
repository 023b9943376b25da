//! Room: how much clients, cleaning and checkpoints may write, and what each of them waits for.
//!
//! A pool never refuses for want of its own room what is sold. The rules, in pages of the next checkpoint (`page_debt` is the most that it
//! can take, `room` what free segments hold whatever member fails, see `store::space::room`):
//!
//! - Users begin a batch if afterwards `debt <= 3/4 (room - a segment)`, and take no unused segment of the last three of the log of a vdev.
//! - Cleaning begins one if `debt <= room - a segment`, and leaves one unused segment.
//! - Zeroes and the ends of volumes begin one if `debt <= room`, and may take the last segment. Nothing of theirs is ever live, and they
//!   have segments of their own: the next checkpoint gives all of them back.
//! - A record of the table alone is made if `debt` and its own pages fit into `room - a segment`, and if the log gets segments by it.
//! - Dead branches are gone through if `debt`, with the list of dead pages as long as they make it, is not above `room`; a few at a time.
//! - A checkpoint parts the changes, and batches under way may change leaves for the next one that it changes, too. If both have no room,
//!   the batches land first, and none begins meanwhile.
//! - The log gets free segments as long as `room` stays above `least_pages`. More than cleaning needs it gets as long as `room`
//!   stays above what a map of full volumes takes.
//!
//! Memory is bounded by a rule of the same kind: a batch begins if what waits for the next checkpoint, with batches in flight, takes no more than
//! `dirty_memory`, or with its own changes no more than twice that. A checkpoint is due at the former, and makes memory for all behind it.
//!
//! So `debt <= room` holds at any moment, and a checkpoint can always be written: its pages are a part of the debt, and as many are the room's
//! that it takes. It holds when a member fails, since room is counted with the least parity, and at an opening, since recovery
//! makes the same changes, and what pages had begun was not counted.
//!
//! No write waits for ever. Without room for pages only a checkpoint helps: it pays the debt of all changes before it, and behind it
//! `least_pages` are left, which are more than one more batch owes. Without room in the log a record helps if the log gets something by
//! it, else a checkpoint, behind which all that is dead is known. Else cleaning does: it has two segments of the log at least,
//! and each segment that it goes through holds less than one that is written now. It ends where segments are nearly full. All that is sold
//! takes fewer of these than there are, by more than pages, open segments and the last of the log take (`store::space::kept`).

use std::rc::Rc;

use brindle_format::pool::{BRANCH_REFS, EntryKind, MAX_LEVELS};
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::log::queue::{Item, Lane};
use crate::opening::look::PoolOpenError;
use crate::store::owed::{Coming, Debt, Owed};
use crate::store::space::{BATCH_BLOCKS, Grant, Stream};

/// Times in a row that there is nothing to be had by checkpoints and cleaning, after which there is no room.
const IN_VAIN: u32 = 12;
/// The fewest blocks that cleaning moves at once, and pages beyond those that it counts with.
const FEW_MOVES: u64 = 8;
const SPARE: u64 = 16;
/// Leaves that an opening reads side by side.
const READ: usize = 32;

impl Core {
    /// Pages that the next checkpoint may write, and the one under way still has to, once batches under way and batches that come have
    /// changed the map. The lists of one more are among them: else there would be no room to gather any behind it.
    pub(crate) fn page_debt(&self, coming: Coming) -> u64 {
        self.pages_owed(coming.and(self.log.coming())) + u64::from(self.list_pages(0))
    }

    /// The same of the changes that were made, and without those lists: what a checkpoint may take that begins now.
    pub(crate) fn pages_owed(&self, coming: Coming) -> u64 {
        self.pages_of(self.map.borrow().debt(coming))
    }

    /// Pages of the map, and of all lists.
    fn pages_of(&self, debt: Debt) -> u64 {
        debt.pages as u64 + u64::from(self.list_pages(debt.dead))
    }

    /// Waits until the changes can be frozen: there is room for their pages, and beside these for the pages of batches under way.
    pub(crate) async fn freezable(&self) {
        let owed = || self.pages_of(self.map.borrow().debt_frozen(self.log.coming()));
        let fits = || owed() <= self.space.borrow().room_for_pages();
        // A batch that looks for another place may wait for this checkpoint.
        let can_land = || self.log.can_land();
        self.checkpoints.freezes();
        self.log.landed.until(|| (fits() || !can_land()).then_some(())).await;
        self.checkpoints.writes();
        self.room.notify();
    }

    /// Pages that changes may cost until the next checkpoint: all there is room for, but for what that one has to gather of pages that lie
    /// about in segments which are nearly empty. Without that these would take more and more of the room, until there is none.
    pub(crate) fn room_for_changes(&self) -> u64 {
        let space = self.space.borrow();
        space.room_for_pages().saturating_sub(space.most_pages())
    }

    /// Pages without which nothing goes on: those of the next checkpoint, as it is now, of a few moves behind it, and of the batch of users
    /// that follows.
    pub(crate) fn least_pages(&self) -> u64 {
        let few = Coming { leaves: 2 * FEW_MOVES as usize, fresh: 1, unread: 0 };
        (self.page_debt(few) + SPARE) * 4 / 3 + self.space.borrow().most_pages()
    }

    /// Holds the first rule: the next checkpoint can be written. A pool that an older release filled may break it when it is opened, and
    /// does no more once it has held.
    pub(crate) fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (debt, room) = (self.pages_owed(Coming::default()), self.space.borrow().room_for_pages());
        assert!(debt <= room || self.room_unsure.get(), "a debt of {debt} pages, and room for {room}");
        self.room_unsure.set(debt > room);
    }

    /// Whether the first checkpoint of this opening has room. If not, unused segments of the log are as good as free ones: recovery
    /// has found nothing in them.
    pub(crate) async fn has_room_to_open(&self) -> Result<(), PoolOpenError> {
        let needs = || self.pages_owed(Coming::default());
        // Changes below branches that are not in memory count as if each were of another leaf.
        let mut before = None;
        while needs() > self.space.borrow().room_for_pages() {
            let unsure = self.map.borrow().unsure(before);
            let Some(page) = unsure else { break };
            match self.load(page).await {
                // Below a page that is lost as much counts as there can be.
                Err(VolumeError::TooManyLost) => {}
                loaded => loaded?,
            }
            before = unsure;
        }
        self.read_unsure_leaves(&needs).await?;
        if needs() > self.space.borrow().room_for_pages() {
            self.space.borrow_mut().free_unwritten();
        }
        let (needs, has) = (needs(), self.space.borrow().room_for_pages());
        if needs <= has { Ok(()) } else { Err(PoolOpenError::NoRoom { needs, has }) }
    }

    /// Reads leaves that change as long as there is not room enough: blocks of leaves that are not in memory count as if these lacked them, and the
    /// run had some in memory.
    async fn read_unsure_leaves(&self, needs: &impl Fn() -> u64) -> Result<(), PoolOpenError> {
        let mut from = Some((0, 0));
        while let Some(begin) = from.filter(|_| needs() > self.space.borrow().room_for_pages()) {
            let (some, next) = self.map.borrow().unsure_leaves(begin, READ);
            match self.load_all(&some).await {
                // Of a leaf that is lost as much counts as there can be.
                Ok(()) | Err(VolumeError::TooManyLost) => {}
                Err(error) => return Err(error.into()),
            }
            {
                let tree = &mut self.map.borrow_mut().tree;
                let is_full = tree.cached > self.map_memory.get();
                some.iter().filter(|_| is_full).for_each(|page| tree.forget_leaf(page.at));
            }
            from = next;
            self.set.io.yield_now().await;
        }
        Ok(())
    }

    /// Takes the room of a checkpoint of so many pages; gives what it has paid by that, too.
    pub(crate) fn take_room(&self, pages: u32) -> Result<(Vec<Grant>, Owed), VolumeError> {
        debug_assert!(
            u64::from(pages) <= self.pages_owed(Coming::default()),
            "a checkpoint of {pages} pages, and a debt of {}",
            self.pages_owed(Coming::default())
        );
        let debt = self.map.borrow_mut().pay_debt();
        let least = self.least_pages();
        let mut space = self.space.borrow_mut();
        space.least = least;
        match space.take_pages(pages) {
            Some(grants) => Ok((grants, debt)),
            None => {
                self.map.borrow_mut().owe(debt);
                Err(VolumeError::NoSpace)
            }
        }
    }

    /// Blocks that cleaning may move at once: each may change another leaf, for which the next checkpoint has to have room.
    pub(crate) fn moves_with_room(&self) -> u32 {
        let room = self.room_for_changes().saturating_sub(self.page_debt(Coming::default()) + SPARE);
        room.clamp(FEW_MOVES, u64::from(BATCH_BLOCKS)) as u32
    }

    /// The cost of a batch of these.
    pub(crate) fn coming_of(&self, items: &[Item]) -> Coming {
        let map = self.map.borrow();
        let blocks = items.iter().filter(|item| item.kind != EntryKind::Zeroes);
        let coming = map.coming(blocks.map(|item| (item.volume, item.block)));
        let zeroes = items.iter().filter(|item| item.kind == EntryKind::Zeroes).count();
        coming.and(Coming { leaves: 2 * zeroes, fresh: zeroes, unread: 2 * zeroes })
    }

    /// Whether a batch of a lane may be written that costs so much. Without room for the pages of the next checkpoint nothing would
    /// become free any more: so cleaning waits for a checkpoint as users do, who leave it a part of that room.
    fn may_write(&self, lane: Lane, coming: Coming) -> bool {
        match lane {
            Lane::Users => {
                let room = self.room_for_changes();
                let few = self.map.borrow().changes() < 2 * self.config.changes;
                few && self.page_debt(coming) <= room - room / 4
            }
            Lane::Cold => self.page_debt(coming) <= self.room_for_changes(),
            Lane::Zeroes => self.page_debt(coming) <= self.space.borrow().room_for_pages(),
        }
    }

    /// Whether changes have memory beside those that wait for the next checkpoint and those that batches in flight are about to make. One
    /// batch may exceed what there is, else a large one would wait for ever.
    fn has_memory(&self, flying: Coming, coming: Coming) -> bool {
        let map = self.map.borrow();
        let dirty = map.for_changes(self.dirty_memory.get());
        map.waiting(flying) <= dirty || map.waiting(flying.and(coming)) <= dirty.saturating_mul(2)
    }

    /// Changes take less memory than a checkpoint is due for.
    pub(crate) fn has_memory_to_spare(&self) -> bool {
        let map = self.map.borrow();
        map.waiting(Coming::default()) < map.for_changes(self.dirty_memory.get())
    }

    /// Changes that batches in flight are about to make. One that looks for another place may wait for who asks.
    fn flying(&self) -> Coming {
        if self.log.can_land() { self.log.coming() } else { Coming::default() }
    }

    /// Waits until changes have memory: until batches in flight have landed, or by a checkpoint.
    async fn memory_for(self: &Rc<Self>, coming: Coming) -> Result<(), VolumeError> {
        let has = || self.has_memory(self.flying(), coming);
        while !self.record.is_broken() {
            let is_clear = || has() || !self.has_memory(Coming::default(), coming);
            self.log.landed.until(|| is_clear().then_some(())).await;
            if has() {
                break;
            }
            self.some_checkpoint().await?;
        }
        Ok(())
    }

    /// Whether cleaning has room for what it is about to move beside so many blocks of users. Segments are emptied together: else none
    /// would be empty when the log ends.
    fn leaves_moves(&self, blocks: u64) -> bool {
        let (to_move, space) = (self.cleaner.to_move(), self.space.borrow());
        to_move == 0 || space.room_of_log() >= to_move + to_move / 8 + blocks.min(space.least_blocks())
    }

    /// Notes what volumes may take, and what their map may.
    pub(crate) fn estimate(&self) {
        let sold = self.volumes.sold();
        // As of volumes that were overwritten at random, which leaves them five eighths full: in order they have fewer.
        let entries = self.label.get().features.leaves().entries();
        let leaves = (sold >> 12).div_ceil(entries as u64 * 5 / 8);
        let changes = (self.config.changes as u64).min(leaves + leaves / 8);
        let mut space = self.space.borrow_mut();
        // Where segments are used again between checkpoints, none have to last from one to the next.
        let lasts = (!self.label.get().features.reuse()).then_some(self.config.changes as u64);
        (space.sold, space.changes) = (sold, lasts);
        // Branches that are three quarters full.
        let branches = leaves.div_ceil(BRANCH_REFS as u64 * 3 / 4 - 1) + u64::from(MAX_LEVELS);
        // A checkpoint is due where pages owe three quarters of the room, batches of cleaning that are under way owe some of these, and
        // pages of before lie between others for a while. With half as much room checkpoints wrote a page of the map for each block of
        // clients at 70 % live, and with this one for six (`docs/bench/pool.md`).
        space.pages = changes * 5 / 2 + 2 * (branches + u64::from(self.list_pages_of(0, &space)));
    }

    /// Stripes for a batch of these items, or some of them, if it may be begun now.
    fn take_now(&self, lane: Lane, items: &[Item], most: u32, coming: Coming) -> Option<Grant> {
        if self.checkpoints.is_freezing() {
            return None;
        }
        let mut blocks = 1 + items.iter().filter(|item| item.kind.has_block()).count() as u32;
        blocks = blocks.min(most).max(2);
        let row = self.space.borrow().row();
        let stream = match lane {
            Lane::Cold => Stream::Cold,
            Lane::Zeroes => Stream::Zeroes,
            Lane::Users if blocks * 4 >= row * 3 => Stream::Rows,
            Lane::Users => Stream::Short,
        };
        if lane != Lane::Cold && items.iter().any(|item| self.log.is_moving(item)) {
            return None;
        }
        let mut cost = coming;
        // Where room for pages is short, a few blocks at a time are still possible.
        if lane == Lane::Cold {
            blocks = blocks.min(self.moves_with_room() + 1);
            cost = coming.at_most(blocks as usize);
        }
        while !self.may_write(lane, cost) {
            if lane != Lane::Users || blocks <= 2 {
                return None;
            }
            blocks = (blocks / 2).max(2);
            cost = coming.at_most(blocks as usize - 1);
        }
        if lane == Lane::Users && !self.leaves_moves(blocks.into()) {
            return None;
        }
        self.space.borrow_mut().take(stream, blocks, lane.urgency())
    }

    /// Stripes for these items, of so many blocks at most, and whose cost is known; waits until there are some.
    pub(crate) async fn room_for(
        self: &Rc<Self>,
        lane: Lane,
        items: &[Item],
        most: u32,
        coming: Coming,
    ) -> Result<Grant, VolumeError> {
        let take = || self.take_now(lane, items, most, coming);
        let mut vain = 0;
        while vain < IN_VAIN {
            self.memory_for(coming).await?;
            self.room.until(|| (!self.checkpoints.is_freezing()).then_some(())).await;
            if self.record.is_broken() {
                return Err(VolumeError::TooManyLost);
            }
            if let Some(grant) = take() {
                return Ok(grant);
            }
            let (freed, passed) = (self.space.borrow().freed, self.map.borrow().changes());
            self.look_around();
            // Users leave checkpoints to cleaning while that goes on, unless they wait for nothing else.
            let is_owed = !self.may_write(lane, coming.at_most(1));
            let is_busy = || lane != Lane::Cold && (self.cleaner.is_cleaning() || self.cleaner.is_reaping());
            if is_owed {
                self.some_checkpoint().await?;
            } else if is_busy() {
                let taken = || if self.has_memory(self.flying(), coming) { take() } else { None };
                let over =
                    || taken().map(Some).or_else(|| (!is_busy() || self.record.is_broken()).then_some(None));
                if let Some(grant) = self.room.until(over).await {
                    return Ok(grant);
                }
            } else {
                // The log gets more segments, once cleaning has emptied some.
                self.some_room().await?;
            }
            let gained = self.space.borrow().freed > freed || self.map.borrow().changes() < passed;
            vain = if gained { 0 } else { vain + 1 };
        }
        // Where checkpoints fail it is not room that is missing.
        Err(self.checkpoints.last_result().err().unwrap_or(VolumeError::NoSpace))
    }
}
