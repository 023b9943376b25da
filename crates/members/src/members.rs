//! The members of an array by role, and what may be asked of each.

use core::cell::{Cell, RefCell};
use core::ops::Range;

use brindle_io::sync::Notify;
use brindle_io::{Instant, Io, MemberId, PathTarget};

use crate::bad_blocks::BadBlocks;
pub use crate::device::{Dependence, Device, Flags, RoleState, Second};
use crate::errors::ReadErrors;
use crate::grown::Grown;

/// One read in this many goes to a slow peer all the same.
const SLOW_PEER_ASKED: u32 = 16;

/// One role of the array.
struct Role {
    device: Cell<Option<Device>>,
    /// Devices that have come into it in this run, one as often as it came.
    joined: Cell<u32>,
    second: Cell<Option<Second>>,
    state: Cell<RoleState>,
    errors: ReadErrors,
    /// Since when a read that was given up has waited for it: others are read instead where they can be.
    slow: Cell<Option<Instant>>,
    /// Since when writes to it that were given up may still land: nothing is written before their end is known.
    held: Cell<Option<Instant>>,
    /// Where the device's file was when it was last looked at.
    place: Cell<PathTarget>,
    /// As its superblock has them.
    flags: Cell<Flags>,
    /// How many times as long as its peers it takes to answer; 0 while it is about as fast.
    slower: Cell<u64>,
    /// Others are read instead, as far as redundancy goes, since it is slower than they are.
    slow_peer: Cell<bool>,
    /// Acknowledged write-behind writes that this device has not completed.
    lags: Cell<u32>,
    /// Places that hold nothing that was ever written, and whether the record says something else of them.
    bad: RefCell<BadBlocks>,
    bad_unrecorded: Cell<bool>,
}

impl Role {
    fn new(device: Option<Device>) -> Self {
        Self {
            state: Cell::new(if device.is_some() { RoleState::InSync } else { RoleState::Missing }),
            device: Cell::new(device),
            joined: Cell::new(0),
            second: Cell::new(None),
            errors: ReadErrors::default(),
            slow: Cell::new(None),
            held: Cell::new(None),
            place: Cell::new(PathTarget::There),
            flags: Cell::default(),
            slower: Cell::new(0),
            slow_peer: Cell::new(false),
            lags: Cell::new(0),
            bad: RefCell::default(),
            bad_unrecorded: Cell::new(false),
        }
    }
}

/// All roles, in their order; more may come at the end. Shared by the data path, which asks, and the keeper, which decides.
pub struct Members {
    io: Io,
    roles: Grown<Role>,
    count: Cell<u16>,
    lost: Cell<u16>,
    slow: Cell<u16>,
    /// Reads that might have gone to a slow peer.
    avoids: Cell<u32>,
    held: Cell<u16>,
    seconds: Cell<u16>,
    /// Roles that have a second device, or bad blocks: a read may have to be refused or asked twice.
    reads_aside: Cell<u16>,
    /// The same, or one on which writes that were given up may still land.
    writes_aside: Cell<u16>,
    /// Roles that are not in sync, or of whose bad blocks the record says something else; one more while a loss is owed.
    unsettled: Cell<u16>,
    /// Devices that were taken out of a role while the role went on with the other.
    left_roles: RefCell<Vec<(MemberId, u16)>>,
    /// Members that have failed in this run.
    failures: Cell<u32>,
    /// The devices that were taken out of roles which had no other, and those roles.
    gone: RefCell<Vec<(MemberId, u16)>>,
    /// A second device was lost, which is not on record yet.
    owed: Cell<bool>,
    /// For those who wait for a role to change.
    changed: Notify,
}

impl Members {
    /// Roles in order; `None` is a missing member.
    pub fn new(io: &Io, devices: impl IntoIterator<Item = Option<Device>>) -> Self {
        let roles: Vec<Role> = devices.into_iter().map(Role::new).collect();
        let members = Self {
            io: io.clone(),
            count: Cell::new(roles.len() as u16),
            roles: Grown::new(roles),
            lost: Cell::new(0),
            slow: Cell::new(0),
            avoids: Cell::new(0),
            held: Cell::new(0),
            seconds: Cell::new(0),
            reads_aside: Cell::new(0),
            writes_aside: Cell::new(0),
            unsettled: Cell::new(0),
            left_roles: RefCell::default(),
            failures: Cell::new(0),
            gone: RefCell::default(),
            owed: Cell::new(false),
            changed: Notify::new(io),
        };
        members.recount();
        members
    }

    /// More roles come, behind those that there are; gives which.
    pub fn grow(&self, devices: impl IntoIterator<Item = Option<Device>>) -> Range<u16> {
        let first = self.len();
        self.roles.grow(devices.into_iter().map(Role::new).collect());
        self.count.set(self.roles.len() as u16);
        self.recount();
        first..self.len()
    }

    fn recount(&self) {
        let count = |which: fn(&Role) -> bool| self.roles.iter().filter(|role| which(role)).count() as u16;
        self.lost.set(count(|role| role.state.get() != RoleState::InSync));
        self.slow.set(count(|role| role.slow.get().is_some() || role.slow_peer.get() || role.lags.get() > 0));
        self.held.set(count(|role| role.held.get().is_some()));
        self.seconds.set(count(|role| role.second.get().is_some()));
        let reads_aside = self.seconds.get() + count(|role| !role.bad.borrow().is_empty());
        self.reads_aside.set(reads_aside);
        self.writes_aside.set(reads_aside + self.held.get());
        let unrecorded = count(|role| role.bad_unrecorded.get()) + u16::from(self.owed.get());
        self.unsettled.set(self.lost.get() + unrecorded);
        self.changed.notify();
    }

    /// Notified when the state of a role has changed, and when other work on a role may have become possible.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    /// There are no roles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Roles in all.
    #[inline]
    pub fn len(&self) -> u16 {
        self.count.get()
    }

    /// The state of a role's member.
    #[inline]
    pub fn state(&self, role: u16) -> RoleState {
        self.roles[role as usize].state.get()
    }

    /// A role's member can do this from now on.
    pub fn set_state(&self, role: u16, state: RoleState) {
        self.roles[role as usize].state.set(state);
        self.recount();
    }

    /// Takes a role's device out of use: nothing is sent to it any more, and its answers are not waited for.
    pub fn fail(&self, role: u16) {
        // Its answers are not waited for any more, and nothing is held back for them.
        self.fail_second(role);
        let Role { slow, held, .. } = &self.roles[role as usize];
        slow.set(None);
        held.set(None);
        self.forget_device(role);
        self.set_state(role, RoleState::Failed);
        self.failures.set(self.failures.get() + 1);
        if let Some(device) = self.device(role) {
            self.gone.borrow_mut().push((device.id, role));
            self.io.forsake(device.id);
        }
    }

    /// The role of a device that failed in this run.
    #[cold]
    pub fn gone(&self, was_asked: impl Fn(MemberId) -> bool) -> Vec<(u16, MemberId)> {
        let gone = self.gone.borrow();
        gone.iter().filter(|(id, _)| was_asked(*id)).map(|&(id, role)| (role, id)).collect()
    }

    /// Takes the member of a role out of use whose second device is not complete: that is what the role has from now on, and
    /// nothing of it is good.
    pub fn fall_back(&self, role: u16) {
        let second = self.roles[role as usize].second.take();
        self.fail(role);
        if let Some(second) = second {
            self.set_device(role, second.device, RoleState::Recovering(0));
        }
    }

    /// A second device was lost, and that is to be recorded before what it has missed is acknowledged; or it has been.
    pub fn set_owed(&self, owed: bool) {
        if self.owed.replace(owed) != owed {
            self.recount();
        }
    }

    /// Some role has a second device.
    #[inline]
    pub fn has_seconds(&self) -> bool {
        self.seconds.get() > 0
    }

    /// Some read can't be sent in the ordinary way.
    #[inline]
    pub fn reads_aside(&self) -> bool {
        self.reads_aside.get() > 0
    }

    /// Some change can't be sent in the ordinary way.
    #[inline]
    pub fn writes_aside(&self) -> bool {
        self.writes_aside.get() > 0
    }

    /// The second device of a role.
    pub fn second(&self, role: u16) -> Option<Second> {
        self.roles[role as usize].second.get()
    }

    /// The second device beside this one.
    #[cold]
    pub fn second_beside(&self, first: Device) -> Option<Second> {
        self.role_of(first.id).and_then(|role| self.second(role))
    }

    /// Gives a role a second device, or tells how far that holds what the member holds.
    pub fn set_second(&self, role: u16, second: Second) {
        self.roles[role as usize].second.set(Some(second));
        self.recount();
    }

    /// A role's second device can take the place of its member at once.
    pub fn is_doubled(&self, role: u16) -> bool {
        let in_sync = self.state(role) == RoleState::InSync;
        in_sync && self.second(role).is_some_and(|second| second.good == u64::MAX)
    }

    /// Takes a role's second device out of use. The array loses nothing.
    pub fn fail_second(&self, role: u16) {
        if let Some(second) = self.roles[role as usize].second.take() {
            self.leave_role(second.device.id, role);
        }
    }

    /// Takes a role's member out of use, and puts its second device, which holds the same, in its place.
    pub fn promote_second(&self, role: u16) {
        let entry = &self.roles[role as usize];
        let (Some(first), Some(second)) = (entry.device.get(), entry.second.take()) else { return };
        entry.slow.set(None);
        entry.held.set(None);
        entry.errors.forget();
        entry.place.set(PathTarget::There);
        entry.device.set(Some(second.device));
        self.forget_device(role);
        self.failures.set(self.failures.get() + 1);
        self.leave_role(first.id, role);
    }

    fn leave_role(&self, device: MemberId, role: u16) {
        self.left_roles.borrow_mut().push((device, role));
        self.recount();
        self.io.forsake(device);
    }

    /// The role in which a device was, of the two that it had, and which went on with the other.
    #[cold]
    pub fn left_role_of(&self, device: MemberId) -> Option<u16> {
        self.left_roles.borrow().iter().find(|(id, _)| *id == device).map(|&(_, role)| role)
    }

    /// The role whose second device this is.
    #[cold]
    pub fn seconded_by(&self, device: MemberId) -> Option<u16> {
        (0..self.len()).find(|&role| self.second(role).is_some_and(|second| second.device.id == device))
    }

    /// How many members have failed so far.
    #[inline]
    pub fn failures(&self) -> u32 {
        self.failures.get()
    }

    /// Reads of the role's device were given up, the oldest of which was sent at `since`; or it has answered.
    pub fn set_slow(&self, role: u16, since: Option<Instant>) {
        self.roles[role as usize].slow.set(since);
        self.recount();
    }

    /// See [`Members::set_slow`].
    pub fn slow_since(&self, role: u16) -> Option<Instant> {
        self.roles[role as usize].slow.get()
    }

    /// Whether others are to be read instead of the role's device, where they can be.
    #[inline]
    pub fn is_slow(&self, role: u16) -> bool {
        self.slow.get() > 0 && self.slow_since(role).is_some()
    }

    /// A write that the role's device may take later has begun, or has ended.
    pub fn lags(&self, role: u16, begins: bool) {
        let lags = &self.roles[role as usize].lags;
        let now = if begins { lags.get() + 1 } else { lags.get() - 1 };
        if lags.replace(now) == 0 || now == 0 {
            self.recount();
        }
    }

    /// Whether some device lags behind.
    #[inline]
    pub fn some_lag(&self) -> bool {
        self.slow.get() > 0 && self.roles.iter().any(|role| role.lags.get() > 0)
    }

    /// Whether others are to be read instead of the role's device, or that only by way of the lock of what is read.
    #[inline]
    pub fn is_aside(&self, role: u16) -> bool {
        self.slow.get() > 0 && (self.slow_since(role).is_some() || self.roles[role as usize].lags.get() > 0)
    }

    /// Whether the role's device is read less than others, since they are faster. Nothing is waited for.
    #[inline]
    pub fn is_slow_peer(&self, role: u16) -> bool {
        self.slow.get() > 0 && self.lost.get() == 0 && self.roles[role as usize].slow_peer.get()
    }

    /// Marks a role's device as a slow peer, which is read less than others, or unmarks it.
    pub fn set_slow_peer(&self, role: u16, on: bool) {
        if self.roles[role as usize].slow_peer.replace(on) != on {
            self.recount();
        }
    }

    /// One read of some goes to slow peers all the same, to see how fast they are now.
    pub fn is_slow_peer_asked(&self) -> bool {
        self.avoids.set(self.avoids.get().wrapping_add(1));
        self.avoids.get().is_multiple_of(SLOW_PEER_ASKED)
    }

    /// Writes to the role's device were given up, or have ended.
    pub fn set_held(&self, role: u16, since: Option<Instant>) {
        self.roles[role as usize].held.set(since);
        self.recount();
    }

    /// Whether writes that were given up may still land on a device.
    #[inline]
    pub fn is_held(&self, device: Device) -> bool {
        let is =
            |role: &Role| role.held.get().is_some() && role.device.get().is_some_and(|d| d.id == device.id);
        self.held.get() > 0 && self.roles.iter().any(is)
    }

    /// See [`Members::set_held`].
    pub fn held_since(&self, role: u16) -> Option<Instant> {
        self.roles[role as usize].held.get()
    }

    /// The first role of which [`Members::is_held`] is true of its device.
    pub fn first_held(&self) -> Option<u16> {
        if self.held.get() == 0 {
            return None;
        }
        (0..self.len()).find(|&role| self.held_since(role).is_some())
    }

    /// Where the file of the role's device was when it was last looked at.
    pub fn place(&self, role: u16) -> PathTarget {
        self.roles[role as usize].place.get()
    }

    /// The file of a role's device was found there.
    pub fn set_place(&self, role: u16, place: PathTarget) {
        self.roles[role as usize].place.set(place);
    }

    /// Every role is in sync, and answers: reads need no further look.
    #[inline]
    pub fn all_answer(&self) -> bool {
        self.lost.get() | self.slow.get() == 0
    }

    /// Some role does not answer, is a slow peer or lags: which, [`Members::is_slow`] and [`Members::is_slow_peer`] tell.
    #[inline]
    pub fn is_any_slow(&self) -> bool {
        self.slow.get() > 0
    }

    /// Puts a device into a role (a spare that takes over).
    pub fn set_device(&self, role: u16, device: Device, state: RoleState) {
        // It may have been in another role before.
        self.left_roles.borrow_mut().retain(|(id, _)| *id != device.id);
        self.gone.borrow_mut().retain(|(id, _)| *id != device.id);
        let Role { device: current, joined, errors, .. } = &self.roles[role as usize];
        current.set(Some(device));
        joined.set(joined.get() + 1);
        errors.forget();
        self.forget_device(role);
        // The device before was slow, not this one.
        self.set_slower(role, 0);
        self.set_slow_peer(role, false);
        self.set_state(role, state);
    }

    /// How many devices have come into a role: another number, and what was done for the one before says nothing of this one,
    /// be it the same that has come back.
    pub fn joined(&self, role: u16) -> u32 {
        self.roles[role as usize].joined.get()
    }

    /// Nothing is left in a role of the device that has failed in it.
    pub fn vacate(&self, role: u16) {
        self.roles[role as usize].device.set(None);
        self.roles[role as usize].errors.forget();
        self.forget_device(role);
        self.set_state(role, RoleState::Missing);
    }

    /// Every role is in sync: the hot path needs no further look.
    #[inline]
    pub fn all_in_sync(&self) -> bool {
        self.lost.get() == 0
    }

    /// The flags of the role's member.
    pub fn flags(&self, role: u16) -> Flags {
        self.roles[role as usize].flags.get()
    }

    /// A role's member is treated so from now on.
    pub fn set_flags(&self, role: u16, flags: Flags) {
        self.roles[role as usize].flags.set(flags);
    }

    /// How many times as long as its peers the role's member takes to answer; 0 while it is about as fast.
    pub fn slower(&self, role: u16) -> u64 {
        self.roles[role as usize].slower.get()
    }

    /// See [`Members::slower`].
    pub fn set_slower(&self, role: u16, times: u64) {
        self.roles[role as usize].slower.set(times);
    }

    /// Every role is in sync; its bad blocks and the loss of second devices are on record: what was written needs no further
    /// look.
    #[inline]
    pub fn all_settled(&self) -> bool {
        self.unsettled.get() == 0
    }

    /// Of some member's bad blocks the record says something else.
    #[inline]
    pub fn has_unrecorded_bad(&self) -> bool {
        self.unsettled.get() > self.lost.get() + u16::from(self.owed.get())
    }

    /// The bad blocks of the role's member.
    pub fn bad(&self, role: u16) -> BadBlocks {
        self.roles[role as usize].bad.borrow().clone()
    }

    /// Whether some byte of a range of the role's member is bad.
    #[cold]
    pub fn is_bad(&self, role: u16, range: &Range<u64>) -> bool {
        self.roles[role as usize].bad.borrow().overlap(range)
    }

    /// Replaces the bad blocks of the role's member by those on record.
    pub fn set_bad(&self, role: u16, bad: BadBlocks) {
        self.roles[role as usize].bad.replace(bad);
        self.recount();
    }

    /// A range of the role's member holds nothing that was ever written.
    pub fn add_bad(&self, role: u16, range: Range<u64>) {
        self.change_bad(role, |bad| bad.add(range));
    }

    /// A range of the role's member has been written.
    pub fn remove_bad(&self, role: u16, range: &Range<u64>) {
        self.change_bad(role, |bad| bad.remove(range));
    }

    fn change_bad(&self, role: u16, change: impl FnOnce(&mut BadBlocks)) {
        let role = &self.roles[role as usize];
        change(&mut role.bad.borrow_mut());
        role.bad_unrecorded.set(true);
        self.recount();
    }

    /// Another device takes the role.
    fn forget_device(&self, role: u16) {
        let role = &self.roles[role as usize];
        role.slower.set(0);
        role.flags.take();
        role.bad.take();
        role.bad_unrecorded.set(false);
    }

    /// Members of whose bad blocks the record says something else, and what they are.
    pub fn unrecorded_bad(&self) -> Vec<(u16, MemberId, BadBlocks)> {
        let changed = (0..self.len()).filter(|&role| self.roles[role as usize].bad_unrecorded.get());
        changed.filter_map(|role| Some((role, self.device(role)?.id, self.bad(role)))).collect()
    }

    /// The record says this of the role's member.
    pub fn bad_recorded(&self, role: u16, device: MemberId, recorded: &BadBlocks) {
        let entry = &self.roles[role as usize];
        let is_it = entry.device.get().is_some_and(|there| there.id == device);
        if is_it && *entry.bad.borrow() == *recorded {
            entry.bad_unrecorded.set(false);
        }
        self.recount();
    }

    /// Read errors of the role's member that redundancy made up for.
    pub fn errors(&self, role: u16) -> &ReadErrors {
        &self.roles[role as usize].errors
    }

    /// Roles that are not in sync.
    #[inline]
    pub fn lost(&self) -> u16 {
        self.lost.get()
    }

    /// The device, whatever its state; `None` if the role is missing.
    #[inline]
    pub fn device(&self, role: u16) -> Option<Device> {
        self.roles[role as usize].device.get()
    }

    /// The role that a device plays, or did until it failed.
    pub fn role_of(&self, id: MemberId) -> Option<u16> {
        (0..self.len()).find(|&role| self.device(role).is_some_and(|device| device.id == id))
    }

    /// The role in which a device is, or was until it failed, as its member or the second device; and the device.
    #[cold]
    pub(crate) fn role_and_device(&self, id: MemberId) -> Option<(u16, Device)> {
        let role = self.role_of(id).or_else(|| self.seconded_by(id))?;
        let devices = [self.device(role), self.second(role).map(|second| second.device)];
        Some((role, devices.into_iter().flatten().find(|device| device.id == id)?))
    }

    /// The device if its bytes up to `end` (of the data area) may be read.
    #[inline(always)] // as with all that gives more than two words
    pub fn readable(&self, role: u16, end: u64) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync => role.device.get(),
            RoleState::Recovering(good) if end <= good => role.device.get(),
            _ => None,
        }
    }

    /// The device if writes must be sent to it.
    #[inline(always)]
    pub fn writable(&self, role: u16) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync | RoleState::Recovering(_) => role.device.get(),
            RoleState::Missing | RoleState::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests;
