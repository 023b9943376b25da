//! Checks the members' devices while they are in use: each must keep its length and its name.
//!
//! A file that was made shorter has lost data, and a later write makes it as long again, with a hole that reads as
//! zeroes. So a member that was found shorter once has failed for good. A file that was deleted, or whose name leads
//! to another file now, serves on; an event reports it.

use std::rc::Rc;

use brindle_io::{Duration, Instant, OpError, OpSpan, PathTarget, Probe};

use crate::events::{Cause, Operation};
use crate::set::{MemberSet, Noticed, Owner};

/// Time between two looks.
pub const EVERY: Duration = Duration::from_secs(1);

/// The same while nobody asks the members for anything: what became of a device is said within ten seconds.
pub(crate) const IDLE: Duration = Duration::from_secs(8);

/// Looks at a member, unless that is under way; one that does not answer is judged by `patience`.
pub fn look(owner: &Rc<dyn Owner>, role: u16) {
    let set = owner.set();
    let Some(device) = set.members.writable(role) else { return };
    if set.io.oldest(device.id, OpSpan::Probe).is_some() {
        return;
    }
    let (weak, io) = (Rc::downgrade(owner), set.io.clone());
    drop(set.io.spawn(async move {
        let probe = io.probe(device.id, Instant::from_nanos(u64::MAX)).await;
        if let (Ok(probe), Some(owner)) = (probe, weak.upgrade()) {
            found(&*owner, role, probe).await;
        }
    }));
}

/// A member gave an error: perhaps since it is shorter than it was.
#[cold]
pub fn look_after_error(set: &MemberSet, role: u16) {
    if let Ok(owner) = set.owner() {
        look(&owner, role);
    }
}

/// A look at the device of a role has found this.
async fn found(owner: &dyn Owner, role: u16, probe: Probe) {
    let set = owner.set();
    let Some(device) = set.members.writable(role) else { return };
    if let Some(error) = set.io.member_info(device.id).and_then(|info| probe.lost(info.size)) {
        let why = Cause::new(Operation::Probe, error);
        // The outcome need not be awaited: requests to the member will see it.
        let _recorded = set.fail_member(role, why, true).await;
        if error == OpError::Gone {
            return;
        }
    }
    let noticed = match probe.place {
        place if place == set.members.place(role) => return,
        PathTarget::There => None,
        PathTarget::Deleted => Some(Noticed::Deleted),
        PathTarget::Replaced => Some(Noticed::Replaced),
    };
    set.members.set_place(role, probe.place);
    if let Some(noticed) = noticed {
        owner.notice(role, noticed, None);
    }
}
