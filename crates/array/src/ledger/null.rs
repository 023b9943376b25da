//! A ledger that keeps nothing.

use core::future::ready;
use core::ops::Range;

use brindle_io::MemberId;

use super::{Bears, Failed, Ledger, Recording, Refusals, State};

/// Keeps nothing: an array over it is as its opener says, and what becomes of it ends with the run. Redundancy is taken
/// for true.
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
