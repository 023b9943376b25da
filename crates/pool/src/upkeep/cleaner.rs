//! The state of cleaning, and of going through leaves that were given back. Each of both works is one task at most.

use core::cell::{Cell, RefCell};
use core::mem::{replace, take};
use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::Address;
use brindle_format::pool::{Leaf, Subtree};
use brindle_io::Instant;

use crate::store::map::Dead;

/// Blocks that users may write ahead of cleaning.
const AHEAD: i64 = 2048;
/// The reserve below which users wait for cleaning, in the parts of [`crate::store::space::Space::reserve`]. At half of it both go at one
/// pace.
const PACED: u64 = 768;
/// A whole reserve.
const WHOLE: u64 = 1024;
/// The part of all segments that so many batches are between two looks at them: these cost little beside the batches.
const LOOKS: usize = 512;

/// The phase of cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cleaning {
    /// No task cleans.
    #[default]
    Idle,
    /// A task chooses segments, or waits for a checkpoint.
    Choosing,
    /// So many blocks are about to be moved: the log has to have room for them.
    Moving(u64),
}

/// The fate of blocks on a member that is out of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Raise {
    /// They stay where they are: no member is lost, or somebody took it out who is to bring it back.
    #[default]
    Never,
    /// They stay until then, since a replacement may come.
    At(Instant),
    /// They are moved, so that they have all the parity that they can have.
    Now,
}

/// The content of a page that was given back.
pub(crate) enum DeadContent {
    Leaf(Leaf),
    Branch(Vec<Subtree>),
}

/// A page that was gone through, and its content, unless it can't be read.
pub(crate) type Reaped = (Dead, Option<DeadContent>);

/// The phase of going through leaves that were given back.
#[derive(Default)]
enum Reaping {
    /// No task does.
    #[default]
    Idle,
    /// A task reads leaves.
    Reading,
    /// These leaves were read. Their blocks count still, until a checkpoint that is under way has ended.
    Read(Vec<Reaped>),
}

/// The state of both works.
#[derive(Default)]
pub(crate) struct Cleaner {
    cleaning: Cell<Cleaning>,
    reaping: RefCell<Reaping>,
    /// Pages by which branches that are gone through just now make the list of dead pages longer, at most.
    unfolding: Cell<usize>,
    /// Dead pages that could not be gone through when that was tried last: nothing comes of waiting for these.
    stuck: RefCell<BTreeSet<Address>>,
    /// Something may have less parity than it could have: cleaning moves it.
    thin: Cell<bool>,
    /// When that is so of blocks on members that are out of use.
    raise: Cell<Raise>,
    /// Segments that cleaning went through since the last checkpoint.
    pub(crate) tried: RefCell<BTreeSet<u32>>,
    /// Segments of pages none of which could be moved, and how many of these were live then.
    pub(crate) immovable: RefCell<BTreeMap<u32, u32>>,
    /// Blocks that users may write before cleaning has to go on.
    credit: Cell<i64>,
    /// Segments beyond those that are kept, as they were counted last: see [`crate::store::space::Space::reserve`].
    reserve: Cell<u64>,
    /// Batches since then.
    looks: Cell<usize>,
}

impl Cleaner {
    /// A task begins to clean; false if one does already.
    pub(crate) fn begins(&self) -> bool {
        let begins = !self.is_cleaning();
        if begins {
            self.cleaning.set(Cleaning::Choosing);
        }
        begins
    }

    /// The task that cleans has ended.
    pub(crate) fn ends(&self) {
        debug_assert_eq!(self.cleaning.get(), Cleaning::Choosing, "cleaning ends between two rounds");
        self.cleaning.set(Cleaning::Idle);
    }

    /// A task cleans.
    pub(crate) fn is_cleaning(&self) -> bool {
        self.cleaning.get() != Cleaning::Idle
    }

    /// Cleaning is about to move so many blocks.
    pub(crate) fn moves(&self, blocks: u64) {
        debug_assert!(self.is_cleaning(), "blocks are moved by the task that cleans");
        self.cleaning.set(Cleaning::Moving(blocks));
    }

    /// Cleaning moves nothing more in this round.
    pub(crate) fn moved_all(&self) {
        debug_assert!(matches!(self.cleaning.get(), Cleaning::Moving(_)), "a round moves before it ends");
        self.cleaning.set(Cleaning::Choosing);
    }

    /// Blocks that cleaning is about to move.
    pub(crate) fn to_move(&self) -> u64 {
        match self.cleaning.get() {
            Cleaning::Idle | Cleaning::Choosing => 0,
            Cleaning::Moving(blocks) => blocks,
        }
    }

    /// Cleaning has moved blocks out of segments with so many live ones of `all`: users may write as many as that has gained.
    pub(crate) fn earn(&self, moved: usize, live: u32, all: u32) {
        self.moves(self.to_move().saturating_sub(moved as u64));
        let gain = moved as u64 * u64::from(all.saturating_sub(live)) / u64::from(live.max(1));
        // Half of the whole reserve is where users and cleaning go at one pace.
        let earned = gain * (WHOLE / 2 + self.reserve.get()) / WHOLE;
        self.credit.set((self.credit.get() + earned as i64).min(AHEAD));
    }

    /// Users may write: cleaning does not run, there is room enough, or it has earned what they write.
    pub(crate) fn may_spend(&self) -> bool {
        !self.is_paced() || self.credit.get() > 0
    }

    /// Users are about to write so many blocks.
    pub(crate) fn spend(&self, blocks: i64) {
        self.credit.set(if self.is_paced() { self.credit.get() - blocks } else { AHEAD });
    }

    fn is_paced(&self) -> bool {
        self.is_cleaning() && self.reserve.get() < PACED
    }

    /// The reserve was counted. True if there is less than there should be.
    pub(crate) fn counted(&self, reserve: u64) -> bool {
        self.reserve.set(reserve);
        reserve < WHOLE
    }

    /// One more batch has landed. True if so many have that `segments` are to be counted again.
    pub(crate) fn landed(&self, segments: usize) -> bool {
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        looks * LOOKS >= segments
    }

    /// Segments are counted now.
    pub(crate) fn looked(&self) {
        self.looks.set(0);
    }

    /// Something may have less parity than it could have.
    pub(crate) fn is_thin(&self) -> bool {
        self.thin.get()
    }

    /// Notes whether something may have less parity than it could have.
    pub(crate) fn set_thin(&self, thin: bool) {
        self.thin.set(thin);
    }

    /// The fate of blocks on members that are out of use.
    pub(crate) fn raise(&self) -> Raise {
        self.raise.get()
    }

    /// Notes what becomes of them.
    pub(crate) fn set_raise(&self, raise: Raise) {
        self.raise.set(raise);
    }

    /// A task begins to go through leaves; false if one does already.
    pub(crate) fn begins_reaping(&self) -> bool {
        let mut reaping = self.reaping.borrow_mut();
        let begins = matches!(*reaping, Reaping::Idle);
        if begins {
            *reaping = Reaping::Reading;
        }
        begins
    }

    /// That task has ended.
    pub(crate) fn ends_reaping(&self) {
        let before = self.reaping.take();
        debug_assert!(matches!(before, Reaping::Reading), "leaves that were read are counted before the end");
    }

    /// Branches are about to be gone through that name so many pages at most.
    pub(crate) fn unfolds(&self, pages: usize) {
        self.unfolding.set(pages);
    }

    /// Pages that the list of dead ones is about to get.
    pub(crate) fn unfolding(&self) -> usize {
        self.unfolding.get()
    }

    /// A task goes through leaves.
    pub(crate) fn is_reaping(&self) -> bool {
        !matches!(*self.reaping.borrow(), Reaping::Idle)
    }

    /// Leaves were read. Those before them are counted.
    pub(crate) fn has_read(&self, leaves: Vec<Reaped>) {
        let before = self.reaping.replace(Reaping::Read(leaves));
        debug_assert!(matches!(before, Reaping::Reading), "leaves are read after those before are counted");
    }

    /// A dead page was gone through, or it stays since that can't be.
    pub(crate) fn went_through(&self, page: Address, stays: bool) {
        let mut stuck = self.stuck.borrow_mut();
        if stays {
            stuck.insert(page);
        } else {
            stuck.remove(&page);
        }
    }

    /// A dead page could not be gone through when that was tried last.
    pub(crate) fn is_stuck(&self, page: Address) -> bool {
        self.stuck.borrow().contains(&page)
    }

    /// Leaves were read whose blocks count still.
    pub(crate) fn has_uncounted(&self) -> bool {
        matches!(&*self.reaping.borrow(), Reaping::Read(leaves) if !leaves.is_empty())
    }

    /// Takes these leaves, to have them counted.
    pub(crate) fn take_read(&self) -> Vec<Reaped> {
        let mut reaping = self.reaping.borrow_mut();
        match &mut *reaping {
            Reaping::Read(leaves) => {
                let leaves = take(leaves);
                let _read = replace(&mut *reaping, Reaping::Reading);
                leaves
            }
            Reaping::Idle | Reaping::Reading => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::{Pointer, SubtreeState};

    use super::*;

    #[test]
    fn users_pay_for_their_writes_while_cleaning_has_little_left() {
        let cleaner = Cleaner::default();
        assert!(cleaner.counted(100) && cleaner.may_spend(), "no task cleans");
        cleaner.spend(5000);
        assert!(cleaner.begins() && !cleaner.begins() && cleaner.may_spend());
        cleaner.spend(AHEAD);
        assert!(!cleaner.may_spend());
        cleaner.moves(160);
        // A segment of 400 blocks with 160 live ones gains 240.
        cleaner.earn(160, 160, 400);
        assert_eq!((cleaner.to_move(), cleaner.credit.get()), (0, 240 * 612 / 1024));
        assert!(cleaner.may_spend() && !cleaner.counted(1024));
        cleaner.moved_all();
        cleaner.ends();
        assert!(!cleaner.is_cleaning());
    }

    #[test]
    fn a_dead_page_is_stuck_until_it_has_been_gone_through() {
        let (cleaner, page) = (Cleaner::default(), Address(9));
        cleaner.went_through(page, true);
        assert!(cleaner.is_stuck(page) && !cleaner.is_stuck(Address(8)));
        cleaner.went_through(page, false);
        assert!(!cleaner.is_stuck(page));
    }

    #[test]
    fn leaves_that_were_read_are_taken_once() {
        let cleaner = Cleaner::default();
        assert!(cleaner.take_read().is_empty() && cleaner.begins_reaping() && !cleaner.begins_reaping());
        let pointer = Pointer { address: Address(9), checksum: 0 };
        let (state, level, blocks, pages) = (SubtreeState::Dead, 0, 1, 1);
        let own = Subtree { volume: 1, first: 0, level, state, blocks, pages, pointer };
        cleaner.has_read(vec![(Dead(own), None)]);
        assert!(cleaner.has_uncounted() && cleaner.take_read().len() == 1 && !cleaner.has_uncounted());
        cleaner.ends_reaping();
        assert!(!cleaner.is_reaping());
    }
}
