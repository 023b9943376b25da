//! Changes of the state on disk, by whoever has the turn: what is written when, and what follows from refusals.

use brindle_io::{Duration, MemberId, OpError};
use brindle_volume::VolumeError;

use super::change::Changing;
use super::record::refusals;
use super::{Closed, Keeper, Record, StateChange};
use crate::config::OnFull;
use crate::events::{Cause, EventKind, Note, Operation};

/// How long to wait before a superblock that found no room is tried again.
const PAUSE: Duration = Duration::from_secs(1);

impl Keeper {
    /// Writes the state until every living member has taken it, and no other can be taken for one of them. Whoever calls
    /// has the turn.
    pub(super) async fn commit(&self, record: &Record) -> Result<(), VolumeError> {
        loop {
            self.bring_up(record).await?;
            self.check_held(record)?;
            let refused = record.update(|roles| self.can_lose(roles)).await;
            self.lose_devices(record, &refused, Operation::Superblock)?;
            if refused.is_empty() && record.is_settled() {
                self.unrecorded.set(false);
                return Ok(());
            }
        }
    }

    /// Gives members whose superblocks a crash left behind the present state; or that found no room for theirs (in place,
    /// but a file system that copies on write needs some): nothing goes on without them, since a member that lacks a
    /// change of state could be taken for one that has it. Whoever calls has the turn.
    async fn bring_up(&self, record: &Record) -> Result<(), VolumeError> {
        let mut told = EventKind::BroughtUp;
        loop {
            if self.is_broken() {
                return Err(VolumeError::TooManyLost);
            }
            let laggards = record.laggards();
            if laggards.is_empty() {
                return Ok(());
            }
            self.check_held(record)?;
            let refused = record.bring_up(|roles| self.can_lose(roles)).await;
            for id in laggards.iter().filter(|id| refused.iter().all(|(refused, _)| refused != *id)) {
                // Not who has failed meanwhile.
                let Some(role) = record.role_of(*id) else { continue };
                self.note(Note { role: Some(role), label: Some(record.label(*id)), ..Note::array(told) });
            }
            self.lose_devices(record, &refused, Operation::Superblock)?;
            let mut cramped = refused.iter().filter_map(|(id, _)| record.role_of(*id)).peekable();
            if cramped.peek().is_some() {
                if told == EventKind::BroughtUp {
                    let why = Cause::new(Operation::Superblock, OpError::NoSpace);
                    cramped.for_each(|role| self.note_member(role, EventKind::Full, why, None));
                }
                told = EventKind::RoomAgain;
                record.io.sleep(PAUSE).await;
            }
        }
    }

    /// Writes that were given up may still land on a member, and the array can't do without it: nothing is recorded
    /// before their end is known, or the others would go on without it.
    fn check_held(&self, record: &Record) -> Result<(), VolumeError> {
        let held = self.members.any_held() || record.is_lent();
        if held { Err(VolumeError::Member(OpError::TimedOut)) } else { Ok(()) }
    }

    /// Takes devices out of use that refused what they must not refuse. A superblock that found no room is tried again,
    /// unless such members are to be failed. Who does not answer is judged by
    /// [`crate::patience`]: if it is in use still, the array can't do without it.
    fn lose_devices(
        &self,
        record: &Record,
        refused: &[(MemberId, OpError)],
        operation: Operation,
    ) -> Result<(), VolumeError> {
        let mut members = Vec::new();
        for &(id, error) in refused {
            let why = Cause::new(operation, error);
            let waits = error == OpError::NoSpace && record.keeping.on_full == OnFull::Wait;
            match record.role_of(id) {
                Some(_) if waits && operation == Operation::Superblock => {}
                Some(role) if self.members.writable(role).is_some() => members.push((role, why)),
                Some(_) => {}
                None => record.forget(id, why),
            }
        }
        let silent = members.iter().any(|(_, why)| why.error == Some(OpError::TimedOut));
        members.retain(|(_, why)| why.error != Some(OpError::TimedOut));
        let lost = if members.is_empty() { Ok(()) } else { self.lose(&members) };
        if lost.is_err() {
            // What such a member gives from now on is not what it was given.
            let shorter = members.iter().filter(|(_, why)| why.error == Some(OpError::Truncated));
            shorter.for_each(|&(role, _)| self.members.fail(role));
        }
        if silent { lost.and(Err(VolumeError::Member(OpError::TimedOut))) } else { lost }
    }

    /// Marks the array clean if nothing is being written: its members are flushed first, so that what the mark says
    /// is true of stable storage.
    ///
    /// False if there was nothing to mark, or somebody writes. Whoever calls has the turn.
    pub(super) async fn mark_clean(&self, record: &Record) -> Result<bool, VolumeError> {
        let nothing_new = !record.dirty.get() && record.resync.get() == self.resync_offset();
        if self.writes.get() != 0 || nothing_new || self.closed.get() == Closed::Broken {
            return Ok(false);
        }
        // Whoever wants to write from here on waits for the turn.
        self.ready.set(false);
        self.settle(record, self.resync_offset()).await?;
        Ok(true)
    }

    /// The last change of a run. Without any, members that an earlier crash left behind are brought up: what the newest
    /// superblock says must not be lost with that one. False if the array is broken: its superblocks stay as they are.
    pub(super) async fn end_record(&self, record: &Record) -> Result<bool, VolumeError> {
        if self.mark_clean(record).await? {
            return Ok(true);
        }
        if self.is_broken() {
            return Ok(false);
        }
        if record.laggards().is_empty() {
            // A run that changed nothing ends with a flush too.
            self.flush(record).await?;
        } else if record.any_torn() {
            // A member that is not here may have what the torn one was to say: this count says something else.
            self.commit(record).await?;
        } else {
            self.bring_up(record).await?;
        }
        // Who has failed meanwhile is recorded as at any other time, before anybody hears that the array has stopped.
        if self.unrecorded.get() {
            self.commit(record).await?;
        }
        Ok(true)
    }

    /// Records on flushed members that the array is clean up to `position`. Whoever calls has the turn.
    pub(super) async fn settle(&self, record: &Record, position: Option<u64>) -> Result<(), VolumeError> {
        let _changing = Changing::begin(&self.changing, StateChange::Clean);
        self.flush(record).await?;
        if !record.is_settled() {
            // Who failed the flush is recorded in a step of its own: an update may tell of one failure of several, or be
            // torn, and must not call an array clean then of which such a member is a part.
            self.commit(record).await?;
        }
        let before = (record.resync.replace(position), record.dirty.replace(false));
        let recorded = self.commit(record).await;
        if recorded.is_err() {
            // Nobody must find it clean who records something else, nor tell that it was stopped.
            record.resync.set(before.0);
            record.dirty.set(before.1);
        }
        recorded
    }

    /// Makes stable what every living device was given. Those that could not are out of use from the moment on at which
    /// that is known, however long the others take, since they may have lost bytes. Whoever calls has the turn.
    ///
    /// # Errors
    /// If the array can't do without one of them, or another flush failed so that was under way.
    async fn flush(&self, record: &Record) -> Result<(), VolumeError> {
        let flight = self.flushes.begin();
        let mut pending = record.flush();
        let mut lost = Ok(());
        for n in 0.. {
            let Some(failure) = pending.nth_failure(n).await else { break };
            // Who knows no flush has nothing to make stable.
            if failure.error != OpError::Unsupported {
                lost = lost.and(self.lose_devices(record, &refusals([&failure]), Operation::Flush));
            }
        }
        drop(flight);
        // Another flush may have failed on a member that took this one.
        self.flushes.others_landed().await.and(lost)
    }
}
