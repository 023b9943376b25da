//! Looks at the members' devices while they are in use: whether each is as long as it was, and still has its name.
//!
//! A file that somebody makes shorter has lost what it held, and a later write makes it as long again with a hole where
//! that was, which reads as zeroes. So who was found shorter once has failed for good. A file that was deleted or whose
//! name is another's now goes on serving; that is told.

use std::rc::Rc;

use brindle_io::{Duration, Instant, OpError, OpSpan, Place, Probe};

use crate::core::Core;
use crate::events::{Cause, EventKind, Operation};

/// Time between two looks.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Looks at a member, unless that is under way; one that does not answer is judged by `patience`.
pub(crate) fn look(core: &Rc<Core>, role: u16) {
    let Some(device) = core.members.writable(role) else { return };
    if core.io.oldest(device.id, OpSpan::Probe).is_some() {
        return;
    }
    let (weak, io) = (Rc::downgrade(core), core.io.clone());
    drop(core.io.spawn(async move {
        let probe = io.probe(device.id, Instant::from_nanos(u64::MAX)).await;
        if let (Ok(probe), Some(core)) = (probe, weak.upgrade()) {
            core.found(role, probe).await;
        }
    }));
}

impl Core {
    /// A member gave an error: perhaps since it is shorter than it was.
    #[cold]
    pub(crate) fn look_after_error(&self, role: u16) {
        if let Some(core) = self.me.upgrade() {
            look(&core, role);
        }
    }

    /// A look at the device of a role has found this.
    async fn found(&self, role: u16, probe: Probe) {
        let Some(device) = self.members.writable(role) else { return };
        if self.io.member_info(device.id).is_some_and(|info| probe.size < info.size) {
            let why = Cause::new(Operation::Probe, OpError::Truncated);
            // Whatever comes of it is known to those who ask the member for something.
            let _recorded = self.fail_member(role, why, true).await;
        }
        let kind = match probe.place {
            place if place == self.members.place(role) => return,
            Place::There => None,
            Place::Deleted => Some(EventKind::Deleted),
            Place::Replaced => Some(EventKind::Replaced),
        };
        self.members.set_place(role, probe.place);
        if let Some(kind) = kind {
            self.keeper.note_member(role, kind, None, None);
        }
    }
}
