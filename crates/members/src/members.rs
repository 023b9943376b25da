//! The members of an owner by role, and the operations that each may get.

use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Range;

use brindle_io::sync::Notify;
use brindle_io::{Instant, Io, MemberId, PathTarget};

use crate::append_list::Grown;
use crate::bad_blocks::BadBlocks;
pub use crate::device::{Dependence, Device, Flags, RoleState, Second};
use crate::errors::ReadErrors;
use crate::role_devices::RoleDevices;

mod elsewhere;

use elsewhere::Elsewhere;

/// One read in this many goes to a slow peer all the same.
const SLOW_PEER_ASKED: u32 = 16;

/// One role of the array.
struct Role {
    devices: RoleDevices,
    errors: ReadErrors,
    /// Since when a read that was given up has waited for it: others are read instead where they can be.
    slow: Cell<Option<Instant>>,
    /// Since when writes to it that were given up may still land: nothing is written before their end is known.
    orphans: Cell<Option<Instant>>,
    /// Where the device's file was when it was last looked at.
    place: Cell<PathTarget>,
    /// The flags in the member's superblock.
    flags: Cell<Flags>,
    /// How many times as long as its peers it takes to answer; 0 while it is about as fast.
    slower: Cell<u64>,
    /// Others are read instead, as far as redundancy goes, since it is slower than they are.
    slow_peer: Cell<bool>,
    /// Acknowledged write-behind writes that this device has not completed.
    write_behind: Cell<u32>,
    /// Places that hold nothing that was ever written, and whether the record says something else of them.
    bad: RefCell<BadBlocks>,
    bad_unrecorded: Cell<bool>,
}

impl Role {
    fn new(device: Option<Device>) -> Self {
        Self {
            devices: RoleDevices::new(device),
            errors: ReadErrors::default(),
            slow: Cell::new(None),
            orphans: Cell::new(None),
            place: Cell::new(PathTarget::There),
            flags: Cell::default(),
            slower: Cell::new(0),
            slow_peer: Cell::new(false),
            write_behind: Cell::new(0),
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
    orphans: Cell<u16>,
    seconds: Cell<u16>,
    /// Roles that have a second device, or bad blocks: a read may have to be refused or asked twice.
    slow_reads: Cell<u16>,
    /// Roles counted in `slow_reads`, or on whose device orphaned writes may still land.
    slow_writes: Cell<u16>,
    /// Roles that are not in sync, or of whose bad blocks the record says something else; one more while a loss is owed.
    unsettled: Cell<u16>,
    /// Members that have failed in this run.
    failures: Cell<u32>,
    /// A device was lost of which the record does not say so yet.
    change_pending: Cell<bool>,
    /// Wakes tasks that wait for a role to change.
    changed: Notify,
    /// Writes of other reactors.
    elsewhere: Elsewhere,
    /// Called with each change, before anybody else finds it.
    watcher: OnceCell<Box<dyn Fn()>>,
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
            orphans: Cell::new(0),
            seconds: Cell::new(0),
            slow_reads: Cell::new(0),
            slow_writes: Cell::new(0),
            unsettled: Cell::new(0),
            failures: Cell::new(0),
            change_pending: Cell::new(false),
            changed: Notify::new(io),
            elsewhere: Elsewhere::default(),
            watcher: OnceCell::new(),
        };
        members.recount();
        members
    }

    /// Adds roles behind the present ones; returns the new ones.
    pub fn grow(&self, devices: impl IntoIterator<Item = Option<Device>>) -> Range<u16> {
        let first = self.len();
        self.roles.grow(devices.into_iter().map(Role::new).collect());
        self.count.set(self.roles.len() as u16);
        self.recount();
        first..self.len()
    }

    fn recount(&self) {
        let count = |which: fn(&Role) -> bool| self.roles.iter().filter(|role| which(role)).count() as u16;
        let lost = count(|role| role.devices.state() != RoleState::InSync);
        let seconds = count(|role| role.devices.second().is_some());
        if (self.lost.get(), self.seconds.get()) != (lost, seconds) {
            // A change of state does not wait for requests that wait for others.
            self.io.hurry();
        }
        self.lost.set(lost);
        self.slow.set(count(|role| {
            role.slow.get().is_some() || role.slow_peer.get() || role.write_behind.get() > 0
        }));
        let orphans = (0..self.roles.len() as u16).filter(|&role| self.orphans_since(role).is_some());
        self.orphans.set(orphans.count() as u16);
        self.seconds.set(seconds);
        let slow_reads = self.seconds.get() + count(|role| !role.bad.borrow().is_empty());
        self.slow_reads.set(slow_reads);
        self.slow_writes.set(slow_reads + self.orphans.get());
        let unrecorded = count(|role| role.bad_unrecorded.get()) + u16::from(self.change_pending.get());
        self.unsettled.set(self.lost.get() + unrecorded);
        self.changed.notify();
        if let Some(watcher) = self.watcher.get() {
            watcher();
        }
    }

    /// Has `watcher` called with each change of the state of a role, within the poll that changes it. There is one.
    pub fn watch_with(&self, watcher: impl Fn() + 'static) {
        self.watcher.get_or_init(|| Box::new(watcher));
    }

    /// Notified when the state of a role has changed, and when other work on a role may have become possible.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Whether there are no roles.
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
        self.roles[role as usize].devices.state()
    }

    /// Marks a role's member as rebuilt below this byte of its data area.
    pub fn recovered_to(&self, role: u16, upto: u64) {
        self.roles[role as usize].devices.holds(upto);
        self.recount();
    }

    /// Marks a role's member as fully rebuilt.
    pub fn rebuilt(&self, role: u16) {
        self.roles[role as usize].devices.is_whole();
        self.recount();
    }

    /// Takes a role's device out of use: nothing is sent to it any more, and its answers are not waited for.
    pub fn fail(&self, role: u16) {
        self.fail_second(role);
        let failed = self.roles[role as usize].devices.fails();
        self.forget_failed(role, failed);
    }

    /// Takes the member of a role out of use whose second device is not complete: that device has the role from now
    /// on, and none of its content is good.
    pub fn fall_back(&self, role: u16) {
        let failed = self.roles[role as usize].devices.gives_way();
        self.forget_failed(role, failed);
        self.renew(role);
    }

    /// The answers of a device that has failed are not waited for any more, and nothing is held back for them.
    fn forget_failed(&self, role: u16, failed: Option<Device>) {
        let Role { slow, orphans, .. } = &self.roles[role as usize];
        slow.set(None);
        orphans.set(None);
        self.forget_elsewhere(role);
        self.forget_device(role);
        self.failures.set(self.failures.get() + 1);
        self.recount();
        failed.into_iter().for_each(|failed| self.io.forsake(failed.id));
    }

    /// The role of a device that failed in this run.
    #[cold]
    pub fn gone(&self, was_asked: impl Fn(MemberId) -> bool) -> Vec<(u16, MemberId)> {
        let of = |role: u16| self.roles[role as usize].devices.gone().into_iter().map(move |id| (role, id));
        (0..self.len()).flat_map(of).filter(|(_, id)| was_asked(*id)).collect()
    }

    /// A device was lost, and that is to be recorded before success that relies on its absence is acknowledged; or it has been.
    pub fn set_change_pending(&self, change_pending: bool) {
        if self.change_pending.replace(change_pending) != change_pending {
            self.recount();
        }
    }

    /// See [`Members::set_change_pending`].
    pub fn is_change_pending(&self) -> bool {
        self.change_pending.get()
    }

    /// Some role has a second device.
    #[inline]
    pub fn has_seconds(&self) -> bool {
        self.seconds.get() > 0
    }

    /// Some read can't be sent in the ordinary way.
    #[inline]
    pub fn slow_reads(&self) -> bool {
        self.slow_reads.get() > 0
    }

    /// Some change can't be sent in the ordinary way.
    #[inline]
    pub fn slow_writes(&self) -> bool {
        self.slow_writes.get() > 0
    }

    /// The second device of a role.
    pub fn second(&self, role: u16) -> Option<Second> {
        self.roles[role as usize].devices.second()
    }

    /// The second device beside this one.
    #[cold]
    pub fn second_beside(&self, first: Device) -> Option<Second> {
        self.role_of(first.id).and_then(|role| self.second(role))
    }

    /// Gives a role a second device, or sets how far that is filled.
    pub fn set_second(&self, role: u16, second: Second) {
        self.roles[role as usize].devices.has_second(second);
        self.recount();
    }

    /// A role's second device can take the place of its member at once.
    pub fn is_doubled(&self, role: u16) -> bool {
        self.roles[role as usize].devices.is_doubled()
    }

    /// Takes a role's second device out of use. The array loses nothing.
    pub fn fail_second(&self, role: u16) {
        if let Some(second) = self.roles[role as usize].devices.loses_second() {
            self.recount();
            self.io.forsake(second.device.id);
        }
    }

    /// Takes a role's member out of use, and puts its second device, which holds the same, in its place.
    pub fn promote_second(&self, role: u16) {
        let entry = &self.roles[role as usize];
        let Some(first) = entry.devices.is_succeeded() else { return };
        entry.errors.forget();
        entry.place.set(PathTarget::There);
        self.forget_failed(role, Some(first));
    }

    /// The role that a device has left, where the role went on with its second device.
    #[cold]
    pub fn left_role_of(&self, device: MemberId) -> Option<u16> {
        (0..self.len()).find(|&role| self.roles[role as usize].devices.went_on_without(device))
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
    pub fn count_write_behind(&self, role: u16, begins: bool) {
        let write_behind = &self.roles[role as usize].write_behind;
        let now = if begins { write_behind.get() + 1 } else { write_behind.get() - 1 };
        if write_behind.replace(now) == 0 || now == 0 {
            self.recount();
        }
    }

    /// Whether some device lags behind.
    #[inline]
    pub fn has_write_behind(&self) -> bool {
        self.slow.get() > 0 && self.roles.iter().any(|role| role.write_behind.get() > 0)
    }

    /// True if other members should be read instead of the role's device, or the device only under the lock of the
    /// range.
    #[inline]
    pub fn is_avoided(&self, role: u16) -> bool {
        self.slow.get() > 0
            && (self.slow_since(role).is_some() || self.roles[role as usize].write_behind.get() > 0)
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
    pub fn set_orphans(&self, role: u16, since: Option<Instant>) {
        self.roles[role as usize].orphans.set(since);
        self.recount();
    }

    /// Whether writes that were given up may still land on a device.
    #[inline]
    pub fn has_orphans(&self, device: Device) -> bool {
        let is =
            |role| self.orphans_since(role).is_some() && self.device(role).is_some_and(|d| d.id == device.id);
        self.orphans.get() > 0 && (0..self.len()).any(is)
    }

    /// The first role of which [`Members::has_orphans`] is true of its device.
    pub fn first_with_orphans(&self) -> Option<u16> {
        if self.orphans.get() == 0 {
            return None;
        }
        (0..self.len()).find(|&role| self.orphans_since(role).is_some())
    }

    /// Where the file of the role's device was when it was last looked at.
    pub fn place(&self, role: u16) -> PathTarget {
        self.roles[role as usize].place.get()
    }

    /// Notes where the file of a role's device was found.
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
        self.roles.iter().for_each(|role| role.devices.comes_again(device.id));
        self.roles[role as usize].devices.comes(device, state);
        self.forget_device(role);
        self.renew(role);
    }

    /// The device before was slow, and could not read: not the one that a role has now.
    fn renew(&self, role: u16) {
        self.roles[role as usize].errors.forget();
        self.set_slower(role, 0);
        self.set_slow_peer(role, false);
        self.recount();
    }

    /// How many devices have come into a role: another number, and what was done for the one before says nothing of this one,
    /// be it the same that has come back.
    pub fn joined(&self, role: u16) -> u32 {
        self.roles[role as usize].devices.joined()
    }

    /// Nothing is left in a role of the device that has failed in it.
    pub fn vacate(&self, role: u16) {
        self.roles[role as usize].devices.is_forgotten();
        self.roles[role as usize].errors.forget();
        self.forget_device(role);
        self.recount();
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

    /// Sets the flags of a role's member.
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

    /// The record of some member's bad blocks is not up to date.
    #[inline]
    pub fn has_unrecorded_bad(&self) -> bool {
        self.unsettled.get() > self.lost.get() + u16::from(self.change_pending.get())
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

    /// Members whose bad blocks are not on record yet, with those blocks.
    pub fn unrecorded_bad(&self) -> Vec<(u16, MemberId, BadBlocks)> {
        let changed = (0..self.len()).filter(|&role| self.roles[role as usize].bad_unrecorded.get());
        changed.filter_map(|role| Some((role, self.device(role)?.id, self.bad(role)))).collect()
    }

    /// Notes the recorded bad blocks of a role's member.
    pub fn bad_recorded(&self, role: u16, device: MemberId, recorded: &BadBlocks) {
        let entry = &self.roles[role as usize];
        let is_it = entry.devices.device().is_some_and(|there| there.id == device);
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
        self.roles[role as usize].devices.device()
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
        self.roles[role as usize].devices.readable(end)
    }

    /// The device if writes must be sent to it.
    #[inline(always)]
    pub fn writable(&self, role: u16) -> Option<Device> {
        self.roles[role as usize].devices.writable()
    }
}

#[cfg(test)]
mod tests;
