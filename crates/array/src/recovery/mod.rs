//! Automatic recovery onto spares. An array that lacks members and has spares begins to rebuild, or goes on where an
//! earlier run stopped.
//!
//! This file has the task that decides when. `rebuild`, `copy` and `guided` are the processes, `record` is what the
//! ledger says of them; the data of a window are rebuilt in `data/parity/recovery.rs` and `data/mirrored/recovery.rs`.

mod copy;
mod guided;
mod rebuild;
mod record;

use core::pin::pin;
use std::rc::Rc;

use crate::process::{Process, ProcessError, ProcessKind};
use brindle_io::sync::{Either, race};
use brindle_members::members::{Device, Members, RoleState};

use crate::array::{Array, Running};
use crate::config::Recovery;
use crate::lineage::{Lineage, WeakLineage};

/// Roles and the devices that are to be rebuilt in them.
type Due = Vec<(u16, Device)>;

impl Array {
    /// Begins to rebuild lost members on spares, if the settings ask for that.
    pub(crate) fn recovered(self) -> Self {
        let core = &self.0.core;
        if self.is_kept_whole() {
            drop(core.io.spawn(keep_whole(self.0.downgrade(), Rc::clone(&core.members))));
        }
        self
    }

    fn is_kept_whole(&self) -> bool {
        let core = &self.0.core;
        let redundant = core.dependence().redundant && !core.config.is_read_only();
        redundant && core.config.recovery == Recovery::Automatic
    }

    /// The members that need to be rebuilt and can be. None while another process is under way, or while redundancy
    /// is in doubt.
    pub(crate) fn recovery_due(&self) -> Due {
        if self.process().is_some() { Due::new() } else { self.rebuildable() }
    }

    /// True if the running recovery could rebuild further members in the same pass. One that is paused stays so.
    fn is_more_due(&self, now: &Due) -> bool {
        let goes = |process: &Process| process.kind() == ProcessKind::Recovery && !process.detail().paused;
        let is_new = |(role, _): &(u16, Device)| now.iter().all(|(known, _)| known != role);
        self.process().as_ref().is_some_and(goes) && self.rebuildable().iter().any(is_new)
    }

    /// The members that could be rebuilt if no other process ran.
    fn rebuildable(&self) -> Due {
        let core = &self.0.core;
        let (members, keeper) = (&core.members, &core.keeper);
        let waits = self.needs_resync() || keeper.is_stopping() || self.0.growing.get();
        let waits = waits || self.0.placement.one().is_err();
        if waits || keeper.is_broken() || members.all_in_sync() {
            return Due::new();
        }
        let mut spares = keeper.ledger().spares();
        spares.retain(|spare| members.role_of(spare.id).is_none() && members.seconded_by(spare.id).is_none());
        let mut spares = spares.into_iter();
        let mut device = |role| match members.state(role) {
            RoleState::InSync => None,
            RoleState::Recovering(_) => members.device(role),
            RoleState::Missing | RoleState::Failed => {
                spares.find(|&spare| self.recovered_before(role, spare).is_some())
            }
        };
        let mut due: Due = (0..members.len()).filter_map(|role| Some((role, device(role)?))).collect();
        // Recoveries guided by the bitmap come first: they are done soonest.
        let is_guided = |(_, device): &(u16, Device)| keeper.ledger().is_guided(device.id);
        if due.iter().any(is_guided) {
            due.retain(is_guided);
        }
        due
    }
}

impl Array {
    /// Resumes a recovery or a replacement that was [stopped](Process::stop) or met an error, from where it was. By
    /// itself it would begin only when there is something else to do. False if there is nothing to resume.
    pub fn recover_again(&self) -> bool {
        let is_due =
            self.is_kept_whole() && (!self.recovery_due().is_empty() || self.replacement_due().is_some());
        if is_due {
            self.0.resumed.set(self.0.resumed.get() + 1);
            self.0.core.members.changed().notify();
        }
        is_due
    }

    /// A role whose member is being replaced, if nothing else goes on.
    fn replacement_due(&self) -> Option<u16> {
        let keeper = &self.0.core.keeper;
        let waits =
            self.process().is_some() || self.needs_resync() || keeper.is_stopping() || keeper.is_broken();
        let roles = 0..self.0.core.members.len();
        roles.into_iter().find(|&role| !waits && self.replaced_before(role).is_some())
    }
}

/// Rebuilds lost members as soon as possible, until the array's run has ended. A recovery that ended early is tried
/// again when something has changed, or when that is [asked for](Array::recover_again).
async fn keep_whole(array: WeakLineage<Running>, members: Rc<Members>) {
    let mut tried = (Due::new(), None, 0, 0);
    loop {
        let next = members.changed().until(|| {
            // In another shape the array has another such task.
            let goes_on = |array: &Lineage<Running>| {
                !array.core.ended.get() && Rc::ptr_eq(&array.core.members, &members)
            };
            let Some(running) = array.upgrade().filter(goes_on) else {
                return Some(None);
            };
            let array = Array(running);
            let due = array.recovery_due();
            // Lost members come before replacements.
            let replacement = array.replacement_due().filter(|_| due.is_empty());
            let is_due = !due.is_empty() || replacement.is_some();
            let next = (due, replacement, members.failures(), array.0.resumed.get());
            (is_due && next != tried).then_some(Some((array, next)))
        });
        let Some((array, next)) = next.await else { return };
        let ended = match next.1 {
            Some(role) => array.copy_replacement(role, |_| ()).await,
            None => rebuild(&array, &next.0).await,
        };
        tried = if matches!(ended, Err(ProcessError::Busy(_))) { tried } else { next };
    }
}

/// Rebuilds until the end, or until more is to be rebuilt: the next pass is for all of it, and goes on where this one stopped.
async fn rebuild(array: &Array, due: &Due) -> Result<(), ProcessError> {
    let mut recovery = pin!(array.recover_all(due, |_| ()));
    let more = array.0.core.members.changed().until(|| array.is_more_due(due).then_some(()));
    match race(recovery.as_mut(), more).await {
        Either::First(ended) => ended,
        Either::Second(()) => {
            if let Some(process) = array.process() {
                process.stop();
            }
            recovery.await
        }
    }
}
