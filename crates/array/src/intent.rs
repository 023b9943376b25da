//! What is put on record before bytes of an array change, so that a crash in the middle of it is known of.
//!
//! There are two moments for that, and every change comes by: it begins with its range before the first member is touched
//! ([`Writing::begin`]), and what it makes of rows with parity is announced between parity computed and members written
//! ([`Intent::computed`]).

use core::ops::Range;

use brindle_volume::VolumeError;

use crate::keeper::Keeper;

/// What is put on record, and so what is in doubt after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// That the array changes, not where: all of its redundancy is in doubt.
    DirtyMark,
}

impl Intent {
    /// A range of the array, in its bytes, is about to change: returns once that is on record.
    #[inline]
    async fn begins(self, keeper: &Keeper, _range: &Range<u64>) -> Result<(), VolumeError> {
        match self {
            Self::DirtyMark => keeper.write_begins().await,
        }
    }

    /// The last member has been touched for that.
    #[inline]
    fn ends(self, keeper: &Keeper, _range: &Range<u64>) {
        match self {
            Self::DirtyMark => keeper.write_ends(),
        }
    }

    /// What rows shall hold from now on has been computed, in a range that is counted as a resync counts: returns once
    /// members may be written.
    #[inline]
    pub(crate) async fn computed(self, _range: Range<u64>) -> Result<(), VolumeError> {
        match self {
            Self::DirtyMark => Ok(()),
        }
    }
}

/// A change of a range of the array in progress; the keeper waits for its end before it calls the array clean.
pub(crate) struct Writing<'a> {
    intent: Intent,
    keeper: &'a Keeper,
    range: Range<u64>,
}

impl<'a> Writing<'a> {
    /// Returns once members may be changed.
    #[inline]
    pub(crate) async fn begin(
        intent: Intent,
        keeper: &'a Keeper,
        range: Range<u64>,
    ) -> Result<Self, VolumeError> {
        intent.begins(keeper, &range).await?;
        Ok(Self { intent, keeper, range })
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.intent.ends(self.keeper, &self.range);
    }
}
