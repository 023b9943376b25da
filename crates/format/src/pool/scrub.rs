//! The scrub of a pool as its uberblock has it: how far it is, or what the last one found.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PoolError;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawScrub {
    state: u8,
    action: u8,
    reserved: [u8; 2],
    segment: U32,
    began: U64,
    ended: U64,
    healed: U64,
    errors: U64,
    lost: U64,
    unverified: U64,
    whole: U64,
}

/// The state of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// There was none.
    #[default]
    None,
    /// It is under way.
    Running,
    /// It stands still until it is told to go on.
    Paused,
    /// It came to its end.
    Ended,
    /// It ended before.
    EndedEarly,
}

/// The scrub that is under way, or the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubRecord {
    /// The state.
    pub state: ScrubState,
    /// It writes anew what is wrong.
    pub heals: bool,
    /// All segments with numbers below this were gone over, of one that is under way or paused.
    pub segment: u32,
    /// Seconds since 1970 when it began,
    pub began: u64,
    /// and when it ended.
    pub ended: u64,
    /// Blocks that were written anew so far.
    pub healed: u64,
    /// Blocks that are wrong still.
    pub errors: u64,
    /// Of these, blocks of volumes that are lost.
    pub lost: u64,
    /// Blocks that were not looked at.
    pub unverified: u64,
    /// When the last one ended that came to its end; 0 if none did.
    pub whole: u64,
}

impl ScrubRecord {
    pub(super) fn raw(self) -> RawScrub {
        let mut raw = RawScrub::new_zeroed();
        raw.state = match self.state {
            ScrubState::None => 0,
            ScrubState::Running => 1,
            ScrubState::Paused => 2,
            ScrubState::Ended => 3,
            ScrubState::EndedEarly => 4,
        };
        raw.action = self.heals.into();
        raw.segment = self.segment.into();
        raw.began = self.began.into();
        raw.ended = self.ended.into();
        raw.healed = self.healed.into();
        raw.errors = self.errors.into();
        raw.lost = self.lost.into();
        raw.unverified = self.unverified.into();
        raw.whole = self.whole.into();
        raw
    }

    pub(super) fn of(raw: &RawScrub) -> Result<Self, PoolError> {
        let state = match raw.state {
            0 => ScrubState::None,
            1 => ScrubState::Running,
            2 => ScrubState::Paused,
            3 => ScrubState::Ended,
            4 => ScrubState::EndedEarly,
            other => return Err(PoolError::unknown("scrub", "state", other)),
        };
        if raw.action > 1 {
            return Err(PoolError::unknown("scrub", "action", raw.action));
        }
        Ok(Self {
            state,
            heals: raw.action == 1,
            segment: raw.segment.get(),
            began: raw.began.get(),
            ended: raw.ended.get(),
            healed: raw.healed.get(),
            errors: raw.errors.get(),
            lost: raw.lost.get(),
            unverified: raw.unverified.get(),
            whole: raw.whole.get(),
        })
    }

    /// It is to go on.
    pub fn is_open(&self) -> bool {
        matches!(self.state, ScrubState::Running | ScrubState::Paused)
    }
}
