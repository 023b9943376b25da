//! The reactor that has an array, as the core of a channel knows it.
//!
//! Nothing is decided in a channel. Nobody owns the members of its core, so that each failure of theirs is an error there: the request is carried out
//! by home, which meets the failure itself. Only writes that have reached some members and not others can't simply be left. Home
//! [settles](Home::settle) them as its own.

use core::ops::Range;
use core::pin::Pin;
use std::rc::Weak;

use brindle_members::door::Done;
use brindle_members::events::Cause;
use brindle_members::set::{MemberSet, Owner, Recording};
use brindle_volume::VolumeError;

/// The end of a settlement.
pub(crate) type Settled = Pin<Box<dyn Future<Output = Result<(), VolumeError>>>>;

/// The reactor that has an array.
pub(crate) trait Home {
    /// Members have refused their parts of a change of this range, which is counted as a resync counts. Done when home has failed the members,
    /// which is on record, or has noted what is in doubt.
    ///
    /// # Errors
    /// If the change is not to be acknowledged.
    fn settle(&self, outcome: &Done, range: Range<u64>) -> Settled;
}

/// The owner of the members of a channel's core.
pub(crate) fn nobody() -> Weak<dyn Owner> {
    Weak::<Nobody>::new()
}

enum Nobody {}

impl Owner for Nobody {
    fn set(&self) -> &MemberSet {
        match *self {}
    }

    fn can_lose(&self, _: &[u16]) -> bool {
        match *self {}
    }

    fn begin_failing(&self, _: u16, _: Cause) -> Result<Recording, VolumeError> {
        match *self {}
    }

    fn unrecorded(&self) -> Option<Recording> {
        match *self {}
    }

    fn answers_for_members(&self) -> bool {
        match *self {}
    }
}
