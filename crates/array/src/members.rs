//! The members of an array by role, and what may be asked of each.

use core::cell::Cell;

use brindle_io::{Instant, Io, MemberId, Place};

use crate::errors::ReadErrors;

/// What a role's member can do for the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleState {
    /// Holds everything that it should.
    InSync,
    /// No member has this role.
    Missing,
    /// Failed in this run: no operation is sent to it any more.
    Failed,
    /// Being rebuilt: takes every write; its bytes below this offset of the data area can be read.
    Recovering(u64),
}

/// A member of the running array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The reactor's number.
    pub id: MemberId,
    /// Where the array's data begins on it, in bytes.
    pub data_offset: u64,
}

/// One role of the array.
struct Role {
    device: Cell<Option<Device>>,
    state: Cell<RoleState>,
    errors: ReadErrors,
    /// Since when a read that was given up has waited for it: others are read instead where they can be.
    slow: Cell<Option<Instant>>,
    /// Since when writes to it that were given up may still land: nothing is written before their end is known.
    held: Cell<Option<Instant>>,
    /// Where the device's file was when it was last looked at.
    place: Cell<Place>,
}

/// All roles, in their order. Shared by the data path, which asks, and the keeper, which decides.
pub(crate) struct Members {
    io: Io,
    roles: Vec<Role>,
    lost: Cell<u16>,
    slow: Cell<u16>,
    held: Cell<u16>,
    /// Members that have failed in this run.
    failures: Cell<u32>,
}

impl Members {
    /// Roles in order; `None` is a missing member.
    pub(crate) fn new(io: &Io, devices: impl IntoIterator<Item = Option<Device>>) -> Self {
        let role = |device: Option<Device>| Role {
            state: Cell::new(if device.is_some() { RoleState::InSync } else { RoleState::Missing }),
            device: Cell::new(device),
            errors: ReadErrors::default(),
            slow: Cell::new(None),
            held: Cell::new(None),
            place: Cell::new(Place::There),
        };
        let roles = devices.into_iter().map(role).collect();
        let members = Self {
            io: io.clone(),
            roles,
            lost: Cell::new(0),
            slow: Cell::new(0),
            held: Cell::new(0),
            failures: Cell::new(0),
        };
        members.recount();
        members
    }

    fn recount(&self) {
        let count = |which: fn(&Role) -> bool| self.roles.iter().filter(|role| which(role)).count() as u16;
        self.lost.set(count(|role| role.state.get() != RoleState::InSync));
        self.slow.set(count(|role| role.slow.get().is_some()));
        self.held.set(count(|role| role.held.get().is_some()));
    }

    /// Roles in all.
    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.roles.len() as u16
    }

    #[inline]
    pub(crate) fn state(&self, role: u16) -> RoleState {
        self.roles[role as usize].state.get()
    }

    pub(crate) fn set_state(&self, role: u16, state: RoleState) {
        self.roles[role as usize].state.set(state);
        self.recount();
    }

    /// Takes a role's device out of use: nothing is sent to it any more, and nobody waits for what it was sent.
    pub(crate) fn fail(&self, role: u16) {
        // Nobody waits for its answers any more, nor holds anything back for them.
        let Role { slow, held, .. } = &self.roles[role as usize];
        slow.set(None);
        held.set(None);
        self.set_state(role, RoleState::Failed);
        self.failures.set(self.failures.get() + 1);
        if let Some(device) = self.device(role) {
            self.io.forsake(device.id);
        }
    }

    /// How many members have failed so far.
    #[inline]
    pub(crate) fn failures(&self) -> u32 {
        self.failures.get()
    }

    /// Reads of the role's device were given up, the oldest of which was sent at `since`; or it has answered.
    pub(crate) fn set_slow(&self, role: u16, since: Option<Instant>) {
        self.roles[role as usize].slow.set(since);
        self.recount();
    }

    /// See [`Members::set_slow`].
    pub(crate) fn slow_since(&self, role: u16) -> Option<Instant> {
        self.roles[role as usize].slow.get()
    }

    /// Whether others are to be read instead of the role's device, where they can be.
    #[inline]
    pub(crate) fn is_slow(&self, role: u16) -> bool {
        self.slow.get() > 0 && self.slow_since(role).is_some()
    }

    /// Writes to the role's device were given up, or have ended.
    pub(crate) fn set_held(&self, role: u16, since: Option<Instant>) {
        self.roles[role as usize].held.set(since);
        self.recount();
    }

    /// Whether writes that were given up may still land on a device.
    #[inline]
    pub(crate) fn is_held(&self, device: Device) -> bool {
        let is =
            |role: &Role| role.held.get().is_some() && role.device.get().is_some_and(|d| d.id == device.id);
        self.held.get() > 0 && self.roles.iter().any(is)
    }

    /// See [`Members::set_held`].
    pub(crate) fn held_since(&self, role: u16) -> Option<Instant> {
        self.roles[role as usize].held.get()
    }

    /// See [`Members::is_held`].
    pub(crate) fn any_held(&self) -> bool {
        self.held.get() > 0
    }

    /// Where the file of the role's device was when it was last looked at.
    pub(crate) fn place(&self, role: u16) -> Place {
        self.roles[role as usize].place.get()
    }

    pub(crate) fn set_place(&self, role: u16, place: Place) {
        self.roles[role as usize].place.set(place);
    }

    /// Every role is in sync, and answers: reads need no further look.
    #[inline]
    pub(crate) fn all_answer(&self) -> bool {
        self.lost.get() | self.slow.get() == 0
    }

    /// Puts a device into a role (a spare that takes over).
    pub(crate) fn set_device(&self, role: u16, device: Device, state: RoleState) {
        self.roles[role as usize].device.set(Some(device));
        self.roles[role as usize].errors.forget();
        self.set_state(role, state);
    }

    /// Every role is in sync: the hot path needs no further look.
    #[inline]
    pub(crate) fn all_in_sync(&self) -> bool {
        self.lost.get() == 0
    }

    /// Read errors of the role's member that redundancy made up for.
    pub(crate) fn errors(&self, role: u16) -> &ReadErrors {
        &self.roles[role as usize].errors
    }

    /// Roles that are not in sync.
    #[inline]
    pub(crate) fn lost(&self) -> u16 {
        self.lost.get()
    }

    /// The device, whatever its state; `None` if the role is missing.
    #[inline]
    pub(crate) fn device(&self, role: u16) -> Option<Device> {
        self.roles[role as usize].device.get()
    }

    /// The device if its bytes up to `end` (of the data area) may be read.
    #[inline]
    pub(crate) fn readable(&self, role: u16, end: u64) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync => role.device.get(),
            RoleState::Recovering(good) if end <= good => role.device.get(),
            _ => None,
        }
    }

    /// The device if writes must be sent to it.
    #[inline]
    pub(crate) fn writable(&self, role: u16) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync | RoleState::Recovering(_) => role.device.get(),
            RoleState::Missing | RoleState::Failed => None,
        }
    }
}
