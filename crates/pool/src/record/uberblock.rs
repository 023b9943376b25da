//! The record: uberblocks, and who is out of use.
//!
//! Rules, for a crash at any moment. A member that fails is out of use at once, and no success that relies on its
//! absence is acknowledged before uberblocks on all others say so. An uberblock is written to both labels of every
//! member in use, and counts once it stands on all of them. One that names another checkpoint is written after that,
//! and all it relies on, stands on all members.

use std::rc::Rc;

use brindle_format::pool::{BLOCK, LABEL, RING, RING_SLOTS, Uberblock, second_label};
use brindle_io::{Duration, MemberId, OpClass, OpError, Outcome};
use brindle_members::events::Cause;
use brindle_members::members::RoleState;
use brindle_members::set::{MemberSet, Noticed, Owner, Recording};
use brindle_members::turn::in_turn;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::events::PoolEvent;
use crate::log::refusals::PAUSE;
use crate::opening::look::LABEL_PATIENCE;

impl Core {
    pub(super) fn is_in(&self, member: u16) -> bool {
        // A config that is about to count may have more members.
        member < self.set.members.len() && self.set.members.state(member) == RoleState::InSync
    }

    /// Writes an uberblock that differs from the last by `change`, in its turn.
    pub(crate) fn record(&self, change: impl FnOnce(&mut Uberblock) + 'static) -> Recording {
        match self.me.upgrade() {
            Some(me) => Box::pin(in_turn(
                &self.set.io,
                me,
                |me| &me.record.turns,
                async move |core: &Self| core.commit(change).await,
            )),
            None => Box::pin(core::future::ready(Err(VolumeError::Stopping))),
        }
    }

    /// The caller has the turn.
    pub(super) async fn commit(&self, change: impl FnOnce(&mut Uberblock)) -> Result<(), VolumeError> {
        let mut next = self.record.last.borrow().clone();
        change(&mut next);
        loop {
            if self.record.is_broken() {
                return Err(VolumeError::TooManyLost);
            }
            next.record = self.next_record(next.record);
            next.time = (self.config.clock)();
            next.scrub = self.scrubs.on_record();
            for member in (0..self.set.members.len()).filter(|&member| !self.is_in(member)) {
                next.out[usize::from(member >> 3)] |= 1 << (member & 7);
            }
            // One that can't be written is none: the next ones follow the last that could be.
            let bytes = next.encode().map_err(|_| VolumeError::NoSpace)?;
            self.record.last.replace(next.clone());
            if self.write_uberblock(&next, &bytes).await? {
                self.record.made();
                return Ok(());
            }
        }
    }

    /// The number of the record behind one. While a pool is opened, numbers are left out whose slots a crash has torn. A second
    /// torn write there may complete the first one: an old uberblock would be whole again, and what it names may have been overwritten.
    /// Once the opening is on record, its lineage is the younger one.
    fn next_record(&self, last: u64) -> u64 {
        let is_torn = |record: &u64| self.run.is_opening() && self.record.is_torn(*record);
        (last + 1..=last + RING_SLOTS).find(|record| !is_torn(record)).unwrap_or(last + 1)
    }

    /// True if it stands on all members that it says are in use.
    async fn write_uberblock(&self, uberblock: &Uberblock, bytes: &[u8]) -> Result<bool, VolumeError> {
        let members = &self.set.members;
        let buf = self.set.scratch.alloc(BLOCK).await;
        buf.bytes_mut().copy_from_slice(bytes);
        let mut group = self.set.io.group_of(OpClass::Metadata);
        let slot = RING + uberblock.record % RING_SLOTS * BLOCK as u64;
        for member in (0..members.len()).filter(|&member| self.is_in(member)) {
            let Some(device) = members.device(member) else { continue };
            let size = self.label.get().members.get(usize::from(member)).map_or(0, |record| record.size);
            group.write(device.id, LABEL + slot, &buf.all(), true);
            group.write(device.id, second_label(size) + slot, &buf.all(), true);
        }
        let outcome = group.submit().await;
        if let Some((role, _)) = self.bear(&outcome)? {
            // Slots have their room since the pool was made. A file system that writes nothing in place needs more.
            if self.run.is_opening() || self.run.is_stopping() {
                return Err(VolumeError::of_member(role, OpError::NoSpace));
            }
            self.set.io.sleep(PAUSE).await;
        }
        Ok(outcome.is_ok() && (0..members.len()).all(|member| self.is_in(member) != uberblock.is_out(member)))
    }

    /// Fails members that did not take a write of labels; gives one that has no room for it, and stays in use.
    pub(super) fn bear(&self, outcome: &Outcome) -> Result<Option<(u16, OpError)>, VolumeError> {
        let mut full = None;
        for failure in outcome.failures() {
            let role = failure.kind.member().and_then(|id| self.set.members.role_of(id));
            let Some(role) = role.filter(|&role| self.is_in(role)) else { continue };
            if failure.error == OpError::NoSpace && self.waits_for(role) {
                self.note_full(role, Cause::from(failure));
                full = Some((role, failure.error));
            } else {
                self.lose(role, Cause::from(failure))?;
            }
        }
        Ok(full)
    }

    /// Gives slots of uberblocks their room that have held nothing yet: else a file system that is full would keep what matters most from
    /// being recorded.
    ///
    /// # Errors
    /// A member has no room for them.
    pub(crate) async fn allocate(&self, blank: &[(MemberId, u64, u64)]) -> Result<(), VolumeError> {
        let members = &self.set.members;
        let buf = self.set.scratch.alloc(BLOCK).await;
        buf.bytes_mut().fill(0);
        let mut group = self.set.io.group_of(OpClass::Metadata);
        for &(id, label, slots) in blank.iter().filter(|(id, ..)| members.role_of(*id).is_some()) {
            for n in (0..RING_SLOTS).filter(|n| slots >> n & 1 == 1) {
                group.write(id, label + RING + n * BLOCK as u64, &buf.all(), false);
            }
        }
        if group.is_empty() {
            return Ok(());
        }
        // Others are judged by the record that follows.
        let outcome = group.submit_by(self.set.io.now().after(LABEL_PATIENCE)).await;
        let full = outcome.failures().iter().find(|failure| failure.error == OpError::NoSpace);
        let role = full.and_then(|failure| members.role_of(failure.kind.member()?));
        match role.filter(|&role| self.waits_for(role)) {
            Some(role) => Err(VolumeError::of_member(role, OpError::NoSpace)),
            None => Ok(()),
        }
    }

    /// Whether a member without room stays in use.
    pub(crate) fn waits_for(&self, role: u16) -> bool {
        self.config.waits_for_space || !self.can_lose(&[role])
    }

    /// A member had no room for a write.
    pub(crate) fn note_full(&self, role: u16, why: Cause) {
        if self.refusals.is_full(role, self.set.io.now()) {
            self.happened(PoolEvent::Full, Some(role), Some(why));
        }
    }

    /// Members have taken a write, all of them.
    pub(crate) fn note_taken(&self) {
        for role in self.refusals.taken(|| self.set.io.now()) {
            self.happened(PoolEvent::SpaceAgain, Some(role), None);
        }
    }

    /// A member is out of use from now on.
    fn lose(&self, role: u16, why: Cause) -> Result<(), VolumeError> {
        if !self.can_lose(&[role]) {
            self.record.breaks();
            self.happened(PoolEvent::Broken, Some(role), Some(why));
            return Err(VolumeError::TooManyLost);
        }
        self.set.members.fail(role);
        self.record.changes();
        self.happened(PoolEvent::MemberFailed, Some(role), Some(why));
        self.are_present();
        self.plan_raise();
        self.see_to_parity();
        Ok(())
    }

    /// Fails a member by command: on record when the future ends.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`].
    pub(crate) fn fail(&self, role: u16) -> Result<Recording, VolumeError> {
        if self.is_in(role) && !self.can_lose(&[role]) {
            return Err(VolumeError::TooManyLost);
        }
        self.begin_failing(role, Cause::COMMAND)
    }
}

impl Owner for Core {
    fn set(&self) -> &MemberSet {
        &self.set
    }

    fn can_lose(&self, roles: &[u16]) -> bool {
        let is_lost = |member: u16| roles.contains(&member) || !self.is_in(member);
        !self.record.is_broken() && self.space.borrow().can_lose(is_lost)
    }

    fn begin_failing(&self, role: u16, why: Cause) -> Result<Recording, VolumeError> {
        if self.is_in(role) {
            self.lose(role, why)?;
        }
        Ok(self.unrecorded().unwrap_or_else(|| Box::pin(core::future::ready(Ok(())))))
    }

    fn unrecorded(&self) -> Option<Recording> {
        if self.record.is_broken() {
            return Some(Box::pin(core::future::ready(Err(VolumeError::TooManyLost))));
        }
        // Members that fail while it opens are on record by the opening's own.
        if !self.record.is_pending() || self.run.is_opening() {
            return None;
        }
        if self.read_only {
            self.record.made();
            return None;
        }
        let me: Rc<Self> = self.me.upgrade()?;
        Some(Box::pin(in_turn(
            &self.set.io,
            me,
            |me| &me.record.turns,
            // A pool that has broken meanwhile has no record, and refuses.
            async |core: &Self| match core.record.is_current() {
                true => Ok(()),
                false => core.commit(|_| {}).await,
            },
        )))
    }

    fn notice(&self, role: u16, what: Noticed, why: Option<Cause>) {
        self.happened(PoolEvent::Noticed(what), Some(role), why);
    }

    fn is_stopping(&self) -> bool {
        self.run.is_stopping()
    }

    fn answers_for_members(&self) -> bool {
        self.label.get().vdevs.iter().any(|vdev| vdev.parity > 0)
    }

    fn gave_up_reads(&self, _role: u16, _age: Duration) {}

    fn looked(&self) {
        self.batches.renew_if_pinned();
        self.reads.renew_if_pinned();
        self.set.scratch.renew_if_pinned();
    }
}
