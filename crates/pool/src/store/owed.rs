//! The pages that changes of the map cost the next checkpoint.

/// New blocks of a leaf that make one leaf more of it, beside the first of these, which does so where the leaf is full. After that it takes
/// so many until one more page is needed.
pub(crate) const SPLIT: usize = brindle_format::pool::LEAF_ENTRIES / 2;

/// Changes that are to come: leaves that they may change, and blocks that their leaves may not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coming {
    pub(crate) leaves: usize,
    pub(crate) fresh: usize,
}

impl Coming {
    pub(crate) fn and(self, other: Self) -> Self {
        Self { leaves: self.leaves + other.leaves, fresh: self.fresh + other.fresh }
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self { leaves: self.leaves - other.leaves, fresh: self.fresh - other.fresh }
    }

    /// No more than so many items cost, of which each may be zeroes.
    pub(crate) fn of_fewer(self, items: usize) -> Self {
        self.at_most(2 * items)
    }

    /// No more than so many blocks of these.
    pub(crate) fn at_most(self, blocks: usize) -> Self {
        Self { leaves: self.leaves.min(blocks), fresh: self.fresh.min(blocks) }
    }
}

/// The most pages that leaves of a checkpoint may take, and how many of these leaves there are not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) pages: usize,
    pub(crate) more: usize,
}

/// Changes that belong to a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    /// Leaves that are to be written.
    pub(crate) leaves: usize,
    /// Blocks that their leaves may not have.
    pub(crate) fresh: usize,
    /// Volumes that had no leaf.
    pub(crate) leafless: usize,
}

impl Owed {
    /// Of so many leaves that there are, and as many may be changed by each range of zeroes as it has ends.
    pub(crate) fn debt(self, zeroes: usize, coming: Coming, all: usize) -> Debt {
        let leaves = (self.leaves + 2 * zeroes + coming.leaves).min(all) + self.leafless;
        let fresh = self.fresh + coming.fresh;
        let more = self.leafless + fresh.min(leaves) + fresh / SPLIT;
        Debt { pages: leaves + more - self.leafless, more }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            leaves: self.leaves + other.leaves,
            fresh: self.fresh + other.fresh,
            leafless: self.leafless + other.leafless,
        }
    }
}
