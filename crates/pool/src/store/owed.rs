//! The pages that changes of the map cost the next checkpoint: leaves, and the branches above them.

use brindle_format::pool::{BRANCH_REFS, MAX_LEVELS};

/// New blocks of a leaf that make one leaf more of it, beside the first of these, which does so where the leaf is full. After that it takes
/// so many until one more page is needed. So it is with changes that cut the runs of a leaf: it is parted into pages of 2,000 bytes at least,
/// but for the last, and each change adds 20 bytes at most.
pub(crate) const SPLIT: usize = brindle_format::pool::LEAF_ENTRIES / 2;

/// Changes that are to come: leaves that they may change, and those for which leaves may have to grow, as of [`Owed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coming {
    pub(crate) leaves: usize,
    pub(crate) fresh: usize,
    /// Of those leaves, ones of which the branch above has to be read.
    pub(crate) unread: usize,
}

impl Coming {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            leaves: self.leaves + other.leaves,
            fresh: self.fresh + other.fresh,
            unread: self.unread + other.unread,
        }
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            leaves: self.leaves - other.leaves,
            fresh: self.fresh - other.fresh,
            unread: self.unread - other.unread,
        }
    }

    /// No more than so many items cost, of which each may be zeroes.
    pub(crate) fn of_fewer(self, items: usize) -> Self {
        self.at_most(2 * items)
    }

    /// No more than so many blocks of these.
    pub(crate) fn at_most(self, blocks: usize) -> Self {
        Self {
            leaves: self.leaves.min(blocks),
            fresh: self.fresh.min(blocks),
            unread: self.unread.min(blocks),
        }
    }
}

/// The most pages of the map that a checkpoint may take, and how many pages become dead by that, with all below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) pages: usize,
    pub(crate) dead: usize,
}

/// No map has more pages than this: leaves, and branches of each level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) leaves: usize,
    pub(crate) branches: [usize; MAX_LEVELS as usize + 1],
    /// Levels of branches.
    pub(crate) height: usize,
}

impl Size {
    fn levels(&self) -> &[usize] {
        &self.branches[..self.height]
    }

    /// Pages of all levels.
    pub(crate) fn pages(&self) -> usize {
        self.leaves + self.levels().iter().sum::<usize>()
    }
}

/// Changes that belong to a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    /// Leaves that are to be written,
    pub(crate) leaves: usize,
    /// and branches;
    pub(crate) branches: usize,
    /// of these, ones that are not of the lowest level.
    pub(crate) upper: usize,
    /// Blocks that their leaves may not have; and changes that cut runs of leaves which have them.
    pub(crate) fresh: usize,
    /// Volumes that had no leaf.
    pub(crate) leafless: usize,
}

impl Owed {
    /// Of a map of this size, which has grown by them afterwards. Each range of zeroes changes as many leaves as it has ends, and all branches
    /// above these; of each of those it may leave as many pages dead as a branch names.
    pub(crate) fn debt(self, zeroes: usize, coming: Coming, size: &mut Size) -> Debt {
        let ends = 2 * zeroes + coming.leaves;
        let leaves = (self.leaves + ends).min(size.leaves);
        let above: usize = size.levels().iter().map(|&all| ends.min(all)).sum();
        let branches = (self.branches + above).min(size.pages() - size.leaves);
        // Changes that come may be ranges of zeroes, too.
        let dead = (ends * BRANCH_REFS * (size.height + 1)).min(size.pages());
        // A range may cut a run, too.
        let fresh = self.fresh + coming.fresh + zeroes;
        let more = self.leafless + fresh.min(leaves + self.leafless) + fresh / SPLIT;
        size.leaves += more;
        // A page more is named by one more branch where all of them are full.
        let (mut parts, mut added) = (more, 0);
        for all in &mut size.branches[..size.height] {
            parts = parts.min(*all) + parts / (BRANCH_REFS / 2);
            *all += parts;
            added += parts;
        }
        Debt { pages: leaves + more + branches + added, dead }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            leaves: self.leaves + other.leaves,
            branches: self.branches + other.branches,
            upper: self.upper + other.upper,
            fresh: self.fresh + other.fresh,
            leafless: self.leafless + other.leafless,
        }
    }
}
