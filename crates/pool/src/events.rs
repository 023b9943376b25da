//! Events of a pool, for its observers.

use brindle_members::events::{Cause, Kind};
use brindle_members::set::Noticed;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// A member is out of use.
    MemberFailed,
    /// A member that was out of use is in use again.
    MemberReturned,
    /// Another device has a member's place, by order or as a spare.
    MemberReplaced,
    /// A member has no room for a write.
    Full,
    /// A member that had none has room again.
    SpaceAgain,
    /// A device was to take a member's place, and did not.
    NotReplaced,
    /// Something was noticed of a member in use.
    Noticed(Noticed),
    /// More is lost than the pool can do without.
    Broken,
    /// Blocks of a member were found wrong or could not be read, were rebuilt, and written in place; `range` holds them all.
    Mended,
    /// The same, but they stand there still.
    Wrong,
    /// A scrub has begun.
    ScrubStarted,
    /// A scrub has ended.
    ScrubEnded,
    /// The pool has another name, that of the label, from now on.
    Renamed,
    /// Blocks of the volume that the label names are lost: no member has them any more. `range` is of the volume.
    Lost,
}

impl PoolEvent {
    /// It goes down in the history of the pool by its words. Scrubs do so with what they found.
    pub(crate) fn goes_down(self) -> bool {
        matches!(
            self,
            Self::MemberFailed
                | Self::MemberReturned
                | Self::MemberReplaced
                | Self::NotReplaced
                | Self::Broken
                | Self::Renamed
        )
    }

    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemberFailed => "member-failed",
            Self::MemberReturned => "member-returned",
            Self::MemberReplaced => "member-replaced",
            Self::NotReplaced => "not-replaced",
            Self::Full => "member-full",
            Self::SpaceAgain => "space-again",
            Self::Noticed(Noticed::Slow) => "member-slow",
            Self::Noticed(Noticed::Slower) => "member-slower",
            Self::Noticed(Noticed::AsFastAgain) => "member-as-fast-again",
            Self::Noticed(Noticed::GivenUp) => "given-up",
            Self::Noticed(Noticed::Deleted) => "file-deleted",
            Self::Noticed(Noticed::Replaced) => "file-replaced",
            Self::Broken => "broken",
            Self::Mended => "block-mended",
            Self::Wrong => "block-wrong",
            Self::ScrubStarted => "scrub-started",
            Self::ScrubEnded => "scrub-ended",
            Self::Renamed => "pool-renamed",
            Self::Lost => "block-lost",
        }
    }
}

impl Kind for PoolEvent {
    fn words(self, why: Option<&Cause>) -> &'static str {
        match self {
            Self::MemberFailed if why == Some(&Cause::REPLACED) => "is not used any more",
            Self::MemberFailed => "failed: it is out of use",
            Self::MemberReturned => "is in use again: it gets what it lacks",
            Self::MemberReplaced => "is another device from now on: it gets what it lacks",
            Self::NotReplaced => {
                "was not replaced: the device that was to take its place failed, or the pool stopped"
            }
            Self::Full => "has no space: writes are refused until there is some",
            Self::SpaceAgain => "has space again",
            Self::Noticed(Noticed::Slow) => "is slow: others answer for it",
            Self::Noticed(Noticed::Slower) => "has grown slower than the others",
            Self::Noticed(Noticed::AsFastAgain) => "is as fast as the others again",
            Self::Noticed(Noticed::GivenUp) => "did not answer in time",
            Self::Noticed(Noticed::Deleted) => "its file was deleted",
            Self::Noticed(Noticed::Replaced) => "another file has taken the place of its own",
            Self::Broken => "more is lost than the pool can do without",
            Self::Mended => "gave wrong blocks or could not read them: they were rebuilt, and written anew",
            Self::Wrong => {
                "gives wrong blocks or can't read them: they were rebuilt for reads, and not written anew"
            }
            Self::ScrubStarted => "is being gone over: all that is stored on it",
            Self::ScrubEnded => "is not gone over any more: its status says what was found",
            Self::Renamed => "is the name of the pool from now on",
            Self::Lost => {
                "has lost blocks: no member has them any more, and reads of them fail until they are written anew"
            }
        }
    }
}
