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
    /// A member has no room for a write.
    Full,
    /// A member that had none has room again.
    SpaceAgain,
    /// Something was noticed of a member in use.
    Noticed(Noticed),
    /// More is lost than the pool can do without.
    Broken,
    /// A block was found wrong, rebuilt, and written in place.
    Mended,
    /// A block is lost: nobody has it any more.
    Lost,
}

impl PoolEvent {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemberFailed => "member-failed",
            Self::MemberReturned => "member-returned",
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
            Self::Lost => "block-lost",
        }
    }
}

impl Kind for PoolEvent {
    fn words(self, _why: Option<&Cause>) -> &'static str {
        match self {
            Self::MemberFailed => "failed: it is out of use",
            Self::MemberReturned => "is in use again: nothing on it is out of date",
            Self::Full => "has no space: writes are refused until there is some",
            Self::SpaceAgain => "has space again",
            Self::Noticed(Noticed::Slow) => "is slow: others answer for it",
            Self::Noticed(Noticed::Slower) => "has grown slower than the others",
            Self::Noticed(Noticed::AsFastAgain) => "is as fast as the others again",
            Self::Noticed(Noticed::GivenUp) => "did not answer in time",
            Self::Noticed(Noticed::Deleted) => "its file was deleted",
            Self::Noticed(Noticed::Replaced) => "another file has taken the place of its own",
            Self::Broken => "more is lost than the pool can do without",
            Self::Mended => "a block was wrong, and has been rebuilt",
            Self::Lost => "a block is lost",
        }
    }
}
