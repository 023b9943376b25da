//! A ledger that records nothing.

use core::future::ready;
use core::ops::Range;

use brindle_io::MemberId;

use super::{Bears, Failed, Ledger, Recording, Refusals, State};

/// Records nothing. An array over it has the state that its opener gives, and changes of state end with the run.
/// Redundancy counts as in sync.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Ledger for Nothing {
    fn in_doubt(&self) -> Option<u64> {
        None
    }

    fn record<'a>(&'a self, _: State, _: Bears<'a>) -> Recording<'a> {
        Box::pin(ready(Refusals::new()))
    }

    fn lose(&self, _: MemberId, _: Failed) {}

    fn can_set_bad(&self, _: MemberId, _: &[Range<u64>]) -> bool {
        true
    }

    fn take_in(&self, _: u16, _: MemberId) -> bool {
        true
    }

    fn replaces(&self, _: MemberId, _: MemberId) -> bool {
        true
    }
}
