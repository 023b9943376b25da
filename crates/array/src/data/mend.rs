//! Rewrites places that a member could not read, from redundancy, and reads them back. Decides whether the member
//! fails.

use core::ops::Range;

use crate::events::EventKind;
use brindle_io::{MemberId, OpError, Slice};
use brindle_members::bad_blocks::UNREADABLE;
use brindle_members::door::Door;
use brindle_members::errors::Verdict;
use brindle_members::events::{Cause, Operation};
use brindle_members::members::RoleState;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use crate::core::Core;
use crate::data::is_lost;
use crate::data::report::{BadPlace, SyncReport};

/// The members that could not read something in a step, each once.
#[derive(Debug, Default)]
pub(crate) struct ReadFailures(SmallVec<[ReadFailure; 2]>);

/// A read error of a member, and its outcome.
#[derive(Clone, Debug)]
struct ReadFailure {
    role: u16,
    /// The device that had the role then.
    member: Option<MemberId>,
    /// The failed operation: the worst, if several failed.
    operation: Operation,
    error: OpError,
    outcome: ReadErrorOutcome,
    /// Bytes of its data area.
    place: Range<u64>,
}

/// The outcome for a place that could not be read. Later variants are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadErrorOutcome {
    /// The place was rewritten, and could be read back.
    Mended,
    /// The right content is lost: the place stays as it is.
    Lost,
    /// The right content is known, but the member could not write it or read it back.
    NotMended,
}

impl ReadFailures {
    fn note(&mut self, new: ReadFailure) {
        match self.0.iter_mut().find(|read_failure| read_failure.role == new.role) {
            Some(known) if known.outcome < new.outcome => *known = new,
            Some(known) if known.outcome == new.outcome => {
                known.place.end = known.place.end.max(new.place.end);
            }
            Some(_) => {}
            None => self.0.push(new),
        }
    }

    /// Forgets places that were lost: they are tried again in smaller pieces.
    pub(crate) fn forget_lost(&mut self) {
        self.0.retain(|read_failure| read_failure.outcome != ReadErrorOutcome::Lost);
    }
}

impl Core {
    fn member_of(&self, role: u16) -> Option<MemberId> {
        self.members.device(role).map(|device| device.id)
    }

    /// A member could not read a place, and redundancy does not make up for it; or the member is gone.
    pub(crate) fn note_unread(
        &self,
        door: Door<'_>,
        read_failures: &mut ReadFailures,
        role: u16,
        error: OpError,
        place: Range<u64>,
    ) {
        if self.members.is_bad(role, &door.own_range(role, place.clone())) {
            return;
        }
        let (member, operation) = (self.member_of(role), Operation::Read);
        let outcome = if is_lost(error) { ReadErrorOutcome::NotMended } else { ReadErrorOutcome::Lost };
        read_failures.note(ReadFailure { role, member, operation, error, outcome, place });
    }

    /// A place of a member that is being rebuilt can't be, because of `why`: it is bad from now on. Gives `why` back where that
    /// is no answer to it.
    ///
    /// # Errors
    /// `why`; or the member has failed, since it has no room to record that.
    pub(crate) async fn leave_bad(
        &self,
        role: u16,
        place: Range<u64>,
        why: VolumeError,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let unread = matches!(why, VolumeError::Member { error: OpError::Medium(_), .. });
        let rebuilt = matches!(self.members.state(role), RoleState::Recovering(_));
        let Some(device) = self.members.writable(role).filter(|_| unread && rebuilt) else { return Err(why) };
        let mut bad = self.members.bad(role);
        bad.add(place.clone());
        if !self.keeper.ledger().can_set_bad(device.id, bad.places()) {
            self.keeper.note_member(role, EventKind::NoBadBlockLog, None, Some(place));
            self.fail_member(role, UNREADABLE, false).await?;
            return Err(VolumeError::of_member(role, UNREADABLE));
        }
        self.members.add_bad(role, place.clone());
        report.note_bad(BadPlace { role, offset: place.start, len: place.end - place.start, mended: false });
        Ok(())
    }

    /// Whether nothing is lost with a member that still gives most of its bytes.
    ///
    /// While parity is not known to be in sync anywhere, no member is failed for bad places, even in rows that are in sync. A
    /// member fails as a whole, and would take with it the data of rows whose parity is not true. Its errors count
    /// meanwhile; the first that comes when the doubt is over fails it.
    fn can_spare(&self, role: u16, error: OpError) -> bool {
        let doubtful = self.dependence().coupled && self.keeper.resync_offset().is_some();
        let gives_nothing = is_lost(error);
        (gives_nothing || !doubtful && !self.config.is_read_only()) && self.keeper.can_lose(&[role])
    }
}

impl Core {
    /// Writes good bytes over a place that a member could not read (because of `why`), and reads it back into `spare`,
    /// which is as long; nothing of it where the array is read-only. The caller holds the place alone.
    ///
    /// Returns whether the member can read the place now. What follows for the member is noted in `read_failures`, to be
    /// [judged](Core::judge) when the step is done: until then it may give what others can't.
    pub(crate) async fn mend_place(
        &self,
        door: Door<'_>,
        role: u16,
        offset: u64,
        why: OpError,
        good: &Slice,
        spare: &Slice,
        read_failures: &mut ReadFailures,
    ) -> bool {
        let place = offset..offset + good.len() as u64;
        if is_lost(why) {
            self.note_unread(door, read_failures, role, why, place);
            return false;
        }
        // Only what the medium can't give is rewritten: who is too short, or does not answer, is not written to.
        if self.config.is_read_only() || !matches!(why, OpError::Medium(_)) {
            return false;
        }
        let on_record = self.members.is_bad(role, &door.own_range(role, place.clone()));
        let fails_fast = !self.dependence().coupled && self.members.flags(role).failfast;
        if fails_fast && !on_record && self.can_spare(role, why) {
            // As md does: what can't be read at once is not mended.
            let (member, operation) = (self.member_of(role), Operation::Read);
            read_failures.note(ReadFailure {
                role,
                member,
                operation,
                error: why,
                outcome: ReadErrorOutcome::NotMended,
                place,
            });
            return false;
        }
        let (operation, error, outcome) = match rewrite(door, role, offset, good, spare).await {
            Ok(()) => (Operation::Read, why, ReadErrorOutcome::Mended),
            // The file system below the member is full: the place may be mended another time.
            Err((_, OpError::NoSpace)) => return false,
            Err((operation, error)) => (operation, error, ReadErrorOutcome::NotMended),
        };
        if on_record && outcome == ReadErrorOutcome::Mended {
            // A repeated failure is not a new error of the medium.
            return true;
        }
        read_failures.note(ReadFailure {
            role,
            member: self.member_of(role),
            operation,
            error,
            outcome,
            place,
        });
        outcome == ReadErrorOutcome::Mended
    }

    /// Fails members that could not read back rewritten places, or that have been mended too often, where the array
    /// can do without them. Whatever the step was for has been done: this changes nothing about its result.
    pub(crate) async fn judge(&self, door: Door<'_>, read_failures: ReadFailures) {
        let core = self;
        for ReadFailure { role, member, operation, error, outcome, place } in read_failures.0 {
            if core.member_of(role) != member {
                // Another device has taken over meanwhile.
                continue;
            }
            let verdict = core.members.errors(role).note(core.io.now(), place.start, core.config.read_errors);
            let offset = door.device_offset(role, place.start);
            let cause = Cause { operation: Some(operation), offset, error: Some(error) };
            if error == OpError::Truncated {
                // A truncated member has lost what it held. It fails even if the array can't do without it.
                let _recorded = core.fail_member(role, cause, true).await;
                continue;
            }
            let unfit = outcome == ReadErrorOutcome::NotMended
                || outcome == ReadErrorOutcome::Mended && verdict == Verdict::TooMany;
            if unfit && core.can_spare(role, error) {
                let _recorded = core.fail_member(role, cause, false).await;
            } else if verdict == Verdict::Borne {
                let kind = if outcome == ReadErrorOutcome::Mended {
                    EventKind::Corrected
                } else {
                    EventKind::Uncorrected
                };
                core.keeper.note_member(role, kind, cause, Some(place));
            }
        }
    }
}

/// Writes good bytes over a place of a member, and reads them back into `spare`.
async fn rewrite(
    door: Door<'_>,
    role: u16,
    offset: u64,
    good: &Slice,
    spare: &Slice,
) -> Result<(), (Operation, OpError)> {
    let member = door.set.members.writable(role).ok_or((Operation::Write, OpError::Gone))?;
    let mut group = door.ask();
    group.write(member, offset, good, false);
    group.submit().await.ok().map_err(|error| (Operation::Write, error))?;
    let mut group = door.ask();
    group.read(member, offset, spare);
    group.ask_no_second();
    group.submit().await.ok().map_err(|error| (Operation::Read, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_failure(role: u16, outcome: ReadErrorOutcome, place: Range<u64>) -> ReadFailure {
        let (member, operation) = (Some(MemberId::device(role.into())), Operation::Read);
        ReadFailure { role, member, operation, error: OpError::Medium(5), outcome, place }
    }

    #[test]
    fn what_is_worst_of_a_member_is_kept_and_places_of_the_same_outcome_are_joined() {
        const OUTCOMES: [ReadErrorOutcome; 3] =
            [ReadErrorOutcome::Mended, ReadErrorOutcome::Lost, ReadErrorOutcome::NotMended];
        for (first, second) in OUTCOMES.into_iter().flat_map(|first| OUTCOMES.map(|second| (first, second))) {
            let mut read_failures = ReadFailures::default();
            read_failures.note(read_failure(1, first, 512..1024));
            read_failures.note(read_failure(2, ReadErrorOutcome::Lost, 0..512));
            read_failures.note(read_failure(1, second, 4096..4608));
            let place = match first.cmp(&second) {
                core::cmp::Ordering::Less => 4096..4608,
                core::cmp::Ordering::Equal => 512..4608,
                core::cmp::Ordering::Greater => 512..1024,
            };
            let known: Vec<_> = read_failures.0.into_iter().map(|a| (a.role, a.outcome, a.place)).collect();
            assert_eq!(
                known,
                [(1, first.max(second), place), (2, ReadErrorOutcome::Lost, 0..512)],
                "{first:?} {second:?}"
            );
        }
    }
}
