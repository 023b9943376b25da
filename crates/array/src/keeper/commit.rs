//! Changes the state on disk, in the task that has the turn: the order of writes, and the consequences of failed
//! ones.

use crate::events::{EventKind, Note};
use brindle_io::{Duration, MemberId, OpError};
use brindle_members::bad_blocks::{BadBlocks, UNREADABLE};
use brindle_members::events::{Cause, Operation};
use brindle_volume::VolumeError;

use super::change::Changing;
use super::{Closed, Keeper, StateChange};
use crate::config::OnFull;
use crate::ledger::State;

/// Pause before a record that found no space is tried again.
const PAUSE: Duration = Duration::from_secs(1);

impl Keeper {
    /// Writes the record until every member in use has accepted it, and each device that has failed is told by its record from a member.
    /// The caller has the turn.
    pub(crate) async fn commit(&self) -> Result<(), VolumeError> {
        debug_assert!(self.turns.is_taken() && self.recorded, "the record is changed without the turn");
        loop {
            self.channels.taken().await;
            self.bring_up().await?;
            self.check_orphans()?;
            debug_assert!(
                self.ledger.outdated().is_empty(),
                "outdated are brought up in a step of their own"
            );
            let bad = self.stage_bad().await?;
            let state = self.state.get();
            let refused = self.ledger.record(state, &|roles| self.can_lose(roles)).await;
            self.lose_devices(&refused, Operation::Superblock)?;
            if refused.is_empty() && self.ledger.is_settled() {
                debug_assert!(state == self.state.get(), "the state has changed without the turn");
                self.on_record.set(state);
                bad.iter().for_each(|(role, id, bad)| self.members.bad_recorded(*role, *id, bad));
                self.members.set_change_pending(false);
                return Ok(());
            }
        }
    }

    /// Stages the bad blocks of members for the next record; returns those that change. A member whose bad places
    /// can't be recorded is taken out of use.
    async fn stage_bad(&self) -> Result<Vec<(u16, MemberId, BadBlocks)>, VolumeError> {
        let mut bad = self.members.unrecorded_bad();
        if bad.is_empty() {
            return Ok(bad);
        }
        // Blocks that are no longer bad have been rewritten. That must be stable before the record stops calling
        // them bad.
        self.flush().await?;
        let (said, unsaid) = bad.drain(..).partition(|(_, id, bad)| self.ledger.set_bad(*id, bad.places()));
        bad = said;
        let unsaid: Vec<(u16, MemberId, BadBlocks)> = unsaid;
        for (role, ..) in unsaid.iter().filter(|(_, id, _)| self.role_in_use(*id).is_some()) {
            self.note_member(*role, EventKind::NoBadBlockLog, None, None);
            self.lose(&[(*role, Cause::from(UNREADABLE))])?;
        }
        Ok(bad)
    }

    /// Writes the present state to members whose record is outdated after a crash, or found no space. (A record is
    /// written in place, but a file system that copies on write needs space for it.) Nothing goes on without them: a
    /// member that lacks a change of state could be taken for one that has it. The caller has the turn.
    pub(crate) async fn bring_up(&self) -> Result<(), VolumeError> {
        let mut reported = EventKind::BroughtUp;
        loop {
            if self.is_broken() {
                return Err(VolumeError::TooManyLost);
            }
            let outdated = self.ledger.outdated();
            if outdated.is_empty() {
                return Ok(());
            }
            self.check_orphans()?;
            let refused = self.ledger.bring_up(&|roles| self.can_lose(roles)).await;
            for id in outdated.iter().filter(|id| refused.iter().all(|(refused, _)| refused != *id)) {
                // Members that have failed meanwhile are left out.
                let Some(role) = self.role_in_use(*id) else { continue };
                self.note(Note { role: Some(role), label: self.ledger.label(*id), ..Note::of(reported) });
            }
            self.lose_devices(&refused, Operation::Superblock)?;
            let mut without_space = refused.iter().filter_map(|(id, _)| self.role_in_use(*id)).peekable();
            if without_space.peek().is_some() {
                if reported == EventKind::BroughtUp {
                    let why = Cause::new(Operation::Superblock, OpError::NoSpace);
                    without_space.for_each(|role| self.note_member(role, EventKind::Full, why, None));
                }
                reported = EventKind::SpaceAgain;
                self.io.sleep(PAUSE).await;
            }
        }
    }

    /// Writes that were given up may still land on a member, and the array can't do without it: nothing is recorded
    /// before their end is known, or the others would go on without it.
    pub(crate) fn check_orphans(&self) -> Result<(), VolumeError> {
        let role = self.members.first_with_orphans();
        let held = role.is_some() || self.ledger.is_pinned();
        if held { Err(VolumeError::Member { role, error: OpError::TimedOut }) } else { Ok(()) }
    }

    /// The role that a device in use plays.
    pub(crate) fn role_in_use(&self, id: MemberId) -> Option<u16> {
        self.members.role_of(id).filter(|&role| self.members.writable(role).is_some())
    }

    /// Takes devices out of use that refused what they must not refuse. A record that found no room is tried again,
    /// unless such members are to be failed. A device that does not answer is judged by
    /// [`brindle_members::patience`]: if it is in use still, the array can't do without it.
    pub(crate) fn lose_devices(
        &self,
        refused: &[(MemberId, OpError)],
        operation: Operation,
    ) -> Result<(), VolumeError> {
        let mut members = Vec::new();
        for &(id, error) in refused {
            let why = Cause::new(operation, error);
            let waits = error == OpError::NoSpace && self.config.on_full == OnFull::Wait;
            match self.members.role_of(id) {
                Some(_) if waits && operation == Operation::Superblock => {}
                Some(role) if self.members.writable(role).is_some() => members.push((role, why)),
                Some(_) => {}
                None => match self.members.seconded_by(id) {
                    Some(role) => self.second_failed(role, why),
                    None if self.ledger.is_bitmap_file(id) => self.bitmap_file_failed(id, why),
                    // A spare.
                    None => self.lose_device(id, why),
                },
            }
        }
        let mut silent = members.iter().filter(|(_, why)| why.error == Some(OpError::TimedOut));
        let silent = silent.next().map(|&(role, _)| role);
        members.retain(|(_, why)| why.error != Some(OpError::TimedOut));
        let lost = if members.is_empty() { Ok(()) } else { self.lose(&members) };
        if lost.is_err() {
            // A truncated member has lost what it held. It fails even though the array can't do without it.
            let shorter = members.iter().filter(|(_, why)| why.error == Some(OpError::Truncated));
            shorter.for_each(|&(role, _)| self.members.fail(role));
        }
        silent.map_or(lost, |role| lost.and(Err(VolumeError::of_member(role, OpError::TimedOut))))
    }

    /// Takes members out of use that refused the write-intent bitmap, as if they had refused a superblock. They are
    /// on record as lost when this returns.
    ///
    /// # Errors
    /// If the array can't do without one of them, or one has no room for it. Nothing of what the bits are for has been sent.
    pub(super) async fn bits_refused(&self, refused: &[(MemberId, OpError)]) -> Result<(), VolumeError> {
        let in_use = refused.iter().filter_map(|&(id, error)| {
            let role = self.role_in_use(id)?;
            Some((id, self.members.joined(role), error))
        });
        let in_use: Vec<(MemberId, u32, OpError)> = in_use.collect();
        self.lose_devices(refused, Operation::Superblock)?;
        self.failures_recorded().await?;
        // A device that has come back meanwhile is written to anew.
        let still = in_use.into_iter().find_map(|(id, joined, error)| {
            let role = self.role_in_use(id).filter(|&role| self.members.joined(role) == joined)?;
            Some(VolumeError::of_member(role, error))
        });
        still.map_or(Ok(()), Err)
    }

    /// Marks the array clean if nothing is being written: its members are flushed first, so that what the mark says
    /// is true of stable storage.
    ///
    /// False if there was nothing to mark, or a write is under way. The caller has the turn.
    pub(super) async fn mark_clean(&self) -> Result<bool, VolumeError> {
        let state = self.state.get();
        let nothing_new =
            !state.dirty && state.resync_offset == self.resync_offset() && self.reached().is_empty();
        if self.writes.get() != 0 || nothing_new || self.closed.get() == Closed::Broken {
            return Ok(false);
        }
        // New writes wait for the turn from here on.
        self.ready.set(false);
        self.settle(self.resync_offset()).await?;
        Ok(true)
    }

    /// The last change of a run. If there is none, members that an earlier crash left behind are brought up to date:
    /// the content of the newest record must not be lost with its member. False if the array is broken: the record
    /// stays as it is.
    pub(super) async fn end_record(&self) -> Result<bool, VolumeError> {
        if self.mark_clean().await? {
            return Ok(true);
        }
        if self.is_broken() {
            return Ok(false);
        }
        if self.ledger.outdated().is_empty() {
            // A run that changed nothing ends with a flush too.
            self.flush().await?;
        } else if self.ledger.any_torn() {
            // A member that is not here may have what the torn one was to say: a later record says something else.
            self.commit().await?;
        } else {
            self.bring_up().await?;
        }
        // Failures that happened meanwhile are recorded before the array is reported as stopped.
        if self.members.is_change_pending() {
            self.commit().await?;
        }
        Ok(true)
    }

    /// Records on flushed members that the array is clean up to `position`. The caller has the turn.
    pub(super) async fn settle(&self, position: Option<u64>) -> Result<(), VolumeError> {
        let _changing = Changing::begin(&self.changing, StateChange::Clean);
        let quiet = || self.writes.get() == 0 && !self.ready.get();
        debug_assert!(quiet(), "the array is called clean while somebody writes");
        let reached = self.reached();
        self.flush().await?;
        if !self.ledger.is_settled() {
            // A member that failed the flush is recorded in a step of its own. One update may tell of one of several
            // failures, or be torn; then it must not call an array clean that still counts such a member.
            self.commit().await?;
        }
        debug_assert!(quiet(), "somebody wrote after the flush");
        self.note_reached(&reached);
        let before = self.state.replace(State { dirty: false, resync_offset: position });
        let recorded = self.commit().await;
        if recorded.is_err() {
            // A later record must not call it clean, nor report that it was stopped.
            self.state.set(before);
        }
        recorded
    }

    /// Makes stable what every member in use was given. Members that could not are out of use at once, however long
    /// the others take, since they may have lost bytes. The caller has the turn.
    ///
    /// # Errors
    /// If the array can't do without one of them, or another flush failed so that was under way.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        let flight = self.flushes.begin();
        let mut pending = self.send_flushes();
        let mut lost = Ok(());
        for n in 0.. {
            let Some(failure) = pending.nth_failure(n).await else { break };
            // A device that supports no flush has no volatile cache.
            if let Some(id) = failure.kind.member().filter(|_| failure.error != OpError::Unsupported) {
                lost = lost.and(self.lose_devices(&[(id, failure.error)], Operation::Flush));
            }
        }
        drop(flight);
        // Another flush may have failed on a member that took this one.
        self.flushes.others_landed().await.and(lost)
    }
}
