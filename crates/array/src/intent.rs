//! What is put on record before bytes of an array change, so that a crash in the middle of it is known of.
//!
//! There are two moments for that, and every change comes by: it begins with its range before the first member is touched
//! ([`Writing::begin`], and [`Upkeep::begin`] where no byte of the array changes), and what it makes of rows with parity is
//! announced between parity computed and members written ([`Intent::computed`]).

use core::ops::Range;
use std::rc::Rc;

use brindle_volume::VolumeError;

use crate::hooks::{Change, Computed, Hooks, MemberChange, OnRecord};
use crate::keeper::Keeper;

/// What is put on record, and so what is in doubt after a crash.
pub(crate) enum Intent {
    /// That the array changes, not where: all of its redundancy is in doubt.
    DirtyMark,
    /// That, and what these put on record.
    Hooked(Rc<dyn Hooks>),
}

impl Intent {
    /// What rows shall hold from now on has been computed: returns once members may be written.
    #[inline]
    pub(crate) async fn computed(&self, rows: impl FnOnce() -> Computed) -> Result<(), VolumeError> {
        match self {
            Self::DirtyMark => Ok(()),
            Self::Hooked(hooks) => announce(&**hooks, rows).await,
        }
    }

    /// Members are about to be sent changes of their data.
    #[inline]
    pub(crate) fn sent(&self, changes: impl FnOnce() -> Vec<MemberChange>) {
        if let Self::Hooked(hooks) = self {
            tell(&**hooks, changes);
        }
    }
}

// Apart, so that they take no room in the futures of requests that need none of it.

#[cold]
fn announce(hooks: &dyn Hooks, rows: impl FnOnce() -> Computed) -> OnRecord<'_> {
    hooks.computed(&rows())
}

#[cold]
fn tell(hooks: &dyn Hooks, changes: impl FnOnce() -> Vec<MemberChange>) {
    changes().iter().for_each(|change| hooks.sent(change));
}

#[cold]
fn begins<'a>(hooks: &'a dyn Hooks, range: &Range<u64>) -> OnRecord<'a> {
    hooks.begins(&Change::Bytes(range.clone()))
}

#[cold]
fn ends(hooks: &dyn Hooks, range: &Range<u64>) {
    hooks.ends(&Change::Bytes(range.clone()));
}

/// A change of a range of the array in progress; the keeper waits for its end before it calls the array clean.
pub(crate) struct Writing<'a> {
    intent: &'a Intent,
    keeper: &'a Keeper,
    range: Range<u64>,
}

impl<'a> Writing<'a> {
    /// Returns once members may be changed.
    #[inline]
    pub(crate) async fn begin(
        intent: &'a Intent,
        keeper: &'a Keeper,
        range: Range<u64>,
    ) -> Result<Self, VolumeError> {
        keeper.write_begins().await?;
        let writing = Self { intent, keeper, range };
        if let Intent::Hooked(hooks) = intent {
            begins(&**hooks, &writing.range).await?;
        }
        Ok(writing)
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Intent::Hooked(hooks) = self.intent {
            ends(&**hooks, &self.range);
        }
        self.keeper.write_ends();
    }
}

/// Members get what they should hold already: a change in progress that needs no dirty mark, since no byte of the array
/// changes, and redundancy that a crash leaves half mended was not true before.
pub(crate) struct Upkeep<'a>(Option<(&'a dyn Hooks, Change)>);

impl<'a> Upkeep<'a> {
    /// Returns once members may be changed.
    pub(crate) async fn begin(intent: &'a Intent, change: Change) -> Result<Self, VolumeError> {
        let Intent::Hooked(hooks) = intent else { return Ok(Self(None)) };
        let begun = hooks.begins(&change);
        let upkeep = Self(Some((&**hooks, change)));
        begun.await?;
        Ok(upkeep)
    }
}

impl Drop for Upkeep<'_> {
    fn drop(&mut self) {
        if let Some((hooks, change)) = &self.0 {
            hooks.ends(change);
        }
    }
}
