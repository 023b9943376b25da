//! Writes of other reactors to the members, as far as this one has to know of them.

use core::cell::RefCell;
use std::collections::BTreeMap;

use brindle_io::Instant;

use super::Members;

/// Roles with something of which to know.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Since when writes that others have given up may still land.
    orphans: RefCell<BTreeMap<u16, Instant>>,
    /// Since when the oldest write of another has been under way, where that is long.
    waits: RefCell<BTreeMap<u16, Instant>>,
}

fn set(all: &RefCell<BTreeMap<u16, Instant>>, role: u16, since: Option<Instant>) {
    let mut all = all.borrow_mut();
    match since {
        Some(since) => drop(all.insert(role, since)),
        None => drop(all.remove(&role)),
    }
}

impl Members {
    /// Other reactors have given up writes to the role's device, or these have ended.
    pub fn set_orphans_elsewhere(&self, role: u16, since: Option<Instant>) {
        set(&self.elsewhere.orphans, role, since);
        self.recount();
    }

    /// See [`Members::set_orphans_elsewhere`].
    pub fn orphans_elsewhere(&self, role: u16) -> Option<Instant> {
        self.elsewhere.orphans.borrow().get(&role).copied()
    }

    /// The oldest write of another reactor to the role's device has been under way since then, or none has for long.
    pub fn set_waits_elsewhere(&self, role: u16, since: Option<Instant>) {
        set(&self.elsewhere.waits, role, since);
    }

    /// See [`Members::set_waits_elsewhere`].
    pub fn waits_elsewhere(&self, role: u16) -> Option<Instant> {
        self.elsewhere.waits.borrow().get(&role).copied()
    }

    /// The device that they were of has failed.
    pub(super) fn forget_elsewhere(&self, role: u16) {
        set(&self.elsewhere.orphans, role, None);
        set(&self.elsewhere.waits, role, None);
    }

    /// Whether writes of this reactor that were given up may still land on the role's device.
    pub(crate) fn has_own_orphans(&self, role: u16) -> bool {
        self.roles[role as usize].orphans.get().is_some()
    }

    /// See [`Members::set_orphans`], and [`Members::set_orphans_elsewhere`].
    pub fn orphans_since(&self, role: u16) -> Option<Instant> {
        let own = self.roles[role as usize].orphans.get();
        own.into_iter().chain(self.orphans_elsewhere(role)).min()
    }
}
