//! Copies that are chosen by place alone: those that reactors beside the array's home read.
//!
//! While a write is under way, a copy may have it already and another not yet. A reader that was given the newer bytes is to be given
//! none that are older. So all such reactors read a byte from one copy, the same for all, and none of them has to know of the others.

use brindle_layout::{Geometry, Layout, Mirrored};
use brindle_members::direct::Stretch;
use brindle_members::members::Members;

use super::Mirror;
use crate::config::ReadPolicy;

/// Stretches of the array are read from the copies in turn. A client that reads on has all members work, and each goes on for a while.
const TURN: u64 = 256 << 10;

impl Mirror {
    /// Any copy may answer any read, and home would choose as well as not. Where a member is slow, write-mostly or lags, or is to be
    /// chosen by where its head stands, home chooses.
    pub(crate) fn may_be_read_by_place(&self) -> bool {
        let any = matches!(
            self.core.config.read_policy,
            ReadPolicy::LeastOutstanding | ReadPolicy::RoundRobin | ReadPolicy::First
        );
        any && self.core.keeper.synced_to() == u64::MAX
            && self.paces.are_even()
            && !self.allows_write_behind()
    }
}

/// The member and offset from which a byte is read where the copy depends on its place alone, if it can be. With `first` that is the
/// first copy.
#[inline(always)]
pub(crate) fn place(
    map: &Mirrored,
    geometry: &Geometry,
    members: &Members,
    at: u64,
    first: bool,
) -> Option<Stretch> {
    // The far copies of one near copy are spread over all members already, and cost longer ways of heads.
    let (near, far) = match geometry.layout() {
        Layout::Raid10(layout) => (u64::from(layout.near), layout.far.into()),
        _ => (map.copies().into(), 1),
    };
    let (turn, left) = (at / TURN, TURN - at % TURN);
    let begin = if first { 0 } else { turn % near };
    // All reactors have the same members, and so pass over the same copies.
    (begin..near).chain(0..begin).find_map(|copy| {
        let extent = map.locate(at, copy as u16 * far);
        let device = members.readable(extent.member, u64::MAX)?;
        Some(Stretch { device, offset: extent.offset, len: extent.len.min(left) })
    })
}
