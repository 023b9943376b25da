//! Operations that are given up: at the deadline of their group, or since their member is forsaken.
//!
//! A task that waits for an operation which is given up gets a failure at once. The table keeps the operation as an
//! orphan, with its memory borrowed as before, until the reactor's real completion.

use core::ops::Range;

use super::{After, GroupSlot, GroupState, NEVER, NO_GROUP, Slot, Table};
use crate::buf::Buf;
use crate::op::{Failure, MemberId, OpError, OpKey, OpKind, OpSpan, Owner, Segment};
use crate::task::TaskId;
use crate::time::Instant;

/// The consequences of giving up.
#[derive(Default)]
pub(crate) struct GivenUp {
    /// Tasks whose groups have failures now.
    pub(crate) wake: Vec<TaskId>,
    /// Operations that nobody waits for any more.
    pub(crate) orphans: Vec<OpKey>,
}

impl Table {
    /// A launched group is given up, as far as it is not done, at `until`.
    #[inline]
    pub(crate) fn set_deadline(&mut self, group: u32, until: Instant) {
        let g = &mut self.groups[group as usize];
        if g.left == 0 || until == NEVER {
            return;
        }
        g.until = until;
        self.earliest = if self.timed == 0 { until } else { self.earliest.min(until) };
        self.timed += 1;
    }

    /// A moment before which no deadline passes; `None` if no group with a deadline is under way.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        (self.timed > 0).then_some(self.earliest)
    }

    /// Gives up what is due. Looks at all groups, but only when one may be due: an operation itself costs no timer.
    #[cold]
    pub(crate) fn expire(&mut self, now: Instant) -> GivenUp {
        let mut given_up = GivenUp::default();
        self.earliest = NEVER;
        for group in 0..self.groups.len() {
            let until = self.groups[group].until;
            if until <= now {
                self.give_up(group, OpError::TimedOut, |_| true, &mut given_up);
            } else {
                self.earliest = self.earliest.min(until);
            }
        }
        given_up
    }

    /// Gives up all of an owner that is in flight on a member, and whatever is submitted to it from now on.
    pub(crate) fn forsake(&mut self, member: MemberId, owner: Owner) -> GivenUp {
        let mut given_up = GivenUp::default();
        let forsaken = &mut self.member_mut(member).forsaken;
        if !forsaken.contains(&owner) {
            forsaken.push(owner);
        }
        self.any_forsaken = true;
        for group in self.groups_of(owner) {
            let asks = |slot: &Slot| slot.kind.member() == Some(member);
            self.give_up(group, OpError::Gone, asks, &mut given_up);
        }
        given_up
    }

    /// The places of groups of an owner.
    fn groups_of(&self, owner: Owner) -> Vec<usize> {
        (0..self.groups.len()).filter(|&group| owner.means(self.groups[group].owner)).collect()
    }

    /// A member is forsaken by an owner no more, unless something that was given up on it is in flight still.
    pub(crate) fn take_back(&mut self, member: MemberId, owner: Owner) -> bool {
        let ended = self.orphans(member, Owner::NOBODY) == 0;
        if ended {
            self.member_mut(member).forsaken.retain(|&other| !owner.means(other));
        }
        ended
    }

    /// Gives up all that is in flight on members.
    pub(crate) fn give_all_up(&mut self) -> GivenUp {
        let mut given_up = GivenUp::default();
        for group in 0..self.groups.len() {
            self.give_up(group, OpError::Cancelled, |_| true, &mut given_up);
        }
        given_up
    }

    /// Gives up what of an owner is in flight on a member, of a kind and sent at `before` or earlier.
    pub(crate) fn give_up_on(
        &mut self,
        member: MemberId,
        owner: Owner,
        span: OpSpan,
        before: Instant,
    ) -> GivenUp {
        let mut given_up = GivenUp::default();
        let asks = |slot: &Slot| {
            slot.kind.member() == Some(member) && slot.kind.span() == Some(span) && slot.since <= before
        };
        for group in self.groups_of(owner) {
            self.give_up(group, OpError::TimedOut, asks, &mut given_up);
        }
        given_up
    }

    /// When the oldest operation of a kind was sent that is in flight on a member, and that its owner waits for.
    pub(crate) fn oldest(&self, member: MemberId, owner: Owner, span: OpSpan) -> Option<Instant> {
        let asks = |slot: &&Slot| {
            let asked = slot.kind.member() == Some(member) && slot.kind.span() == Some(span);
            asked && self.is_in_flight(slot, owner)
        };
        self.slots.iter().filter(asks).map(|slot| slot.since).min()
    }

    /// The ranges of a member that operations in flight change, orphans among them.
    pub(crate) fn changing(&self, member: MemberId) -> Vec<Range<u64>> {
        let range = |slot: &Slot| match slot.kind {
            OpKind::Write { offset, .. } => Some(offset..offset + slot.len - slot.done),
            OpKind::Discard { offset, len, .. } | OpKind::WriteZeroes { offset, len, .. } => {
                Some(offset..offset + len)
            }
            _ => None,
        };
        let asks = |slot: &&Slot| slot.sent && slot.kind.member() == Some(member);
        self.slots.iter().filter(asks).filter_map(range).collect()
    }

    fn is_in_flight(&self, slot: &Slot, owner: Owner) -> bool {
        let group = self.groups.get(slot.group as usize).filter(|group| owner.means(group.owner));
        group.is_some_and(|group| !matches!(group.state, GroupState::Free | GroupState::Building))
    }

    /// Whether a member was ever forsaken.
    pub(crate) fn any_forsaken(&self) -> bool {
        self.any_forsaken
    }

    /// Whether an operation that asks the member fails at once.
    #[cold]
    pub(crate) fn is_forsaken(&self, member: MemberId, key: OpKey) -> bool {
        let group = self.groups.get(self.slots[key.0 as usize].group as usize);
        let owner = group.map_or(Owner::NOBODY, |group| group.owner);
        let forsaken = self.members.get(member.index()).map_or(&[][..], |member| &member.forsaken);
        forsaken.iter().any(|by| by.means(owner))
    }

    /// Fails the group's operations in flight that `which` names with `error`.
    fn give_up(&mut self, group: usize, error: OpError, which: impl Fn(&Slot) -> bool, to: &mut GivenUp) {
        let GroupSlot { ops, left, owner, state, failures, until, .. } = &mut self.groups[group];
        if matches!(state, GroupState::Free | GroupState::Building) {
            return;
        }
        let before = to.orphans.len();
        ops.retain(|&key| {
            let slot = &mut self.slots[key.0 as usize];
            let Some(member) = slot.kind.member() else { return true };
            if slot.group != group as u32 || !which(slot) {
                return true;
            }
            (slot.group, slot.owner) = (NO_GROUP, *owner);
            slot.holds.iter().for_each(|buf| buf.lend(slot.places()));
            let state = &mut self.members[member.index()];
            state.orphans += 1;
            state.counters.given_up += 1;
            failures.push(Failure { tag: slot.tag, kind: slot.kind, error });
            to.orphans.push(key);
            false
        });
        let count = to.orphans.len() - before;
        if count == 0 {
            return;
        }
        *left -= count as u32;
        let done = *left == 0;
        if done && *until != NEVER {
            *until = NEVER;
            self.timed -= 1;
        }
        match *state {
            GroupState::Waiting(task) => to.wake.push(task),
            _ if done => self.free_group(group as u32),
            _ => {}
        }
    }

    /// The group's one operation, a question to another executor, goes on its way for `task` at `now`. Apart from
    /// [`Table::launch`], so that no other operation is asked whether it is one. The borrow of its memory ends by
    /// [`Table::question_ends`].
    #[cold]
    pub(crate) fn launch_question(&mut self, group: u32, task: TaskId, now: Instant) {
        let g = &mut self.groups[group as usize];
        let slot = &mut self.slots[g.ops[0].0 as usize];
        let fills = matches!(slot.kind, OpKind::Ask { fills: true });
        slot.holds.iter().for_each(|buf| buf.device_begins(fills));
        (slot.since, slot.class, slot.sent) = (now, g.class, true);
        (g.left, g.state) = (1, GroupState::Waiting(task));
        self.in_flight += 1;
    }

    /// The other executor has none of a question's memory any more: the operation completes now.
    #[cold]
    pub(crate) fn question_ends(&mut self, key: OpKey) {
        let slot = &mut self.slots[key.0 as usize];
        let fills = matches!(slot.kind, OpKind::Ask { fills: true });
        slot.holds.iter().for_each(|buf| buf.device_ends(fills));
    }

    /// An operation has its result, though its memory is not free yet: it goes on as an orphan. The task that waits for it.
    #[cold]
    pub(crate) fn answered_ahead(&mut self, key: OpKey, result: Result<u64, OpError>) -> Option<TaskId> {
        let slot = &mut self.slots[key.0 as usize];
        let group = slot.group;
        slot.holds.iter().for_each(|buf| buf.lend(slot.places()));
        let (tag, kind) = (slot.tag, slot.kind);
        let GroupSlot { ops, left, owner, state, failures, value, until, .. } =
            &mut self.groups[group as usize];
        (slot.group, slot.owner) = (NO_GROUP, *owner);
        ops.retain(|&other| other != key);
        *left -= 1;
        match result {
            Ok(answer) => *value = answer,
            Err(error) => failures.push(Failure { tag, kind, error }),
        }
        if *left == 0 && *until != NEVER {
            *until = NEVER;
            self.timed -= 1;
        }
        match *state {
            GroupState::Waiting(task) => Some(task),
            _ => {
                if *left == 0 {
                    self.free_group(group);
                }
                None
            }
        }
    }

    /// The stretches of an operation's memory that others may change, a bit for each. The last bit is that of all further ones.
    pub(crate) fn shared_segments(&self, key: OpKey) -> u64 {
        let slot = &self.slots[key.0 as usize];
        if !slot.holds.iter().any(Buf::is_shared) {
            return 0;
        }
        let of = |segment: &Segment| {
            slot.holds.iter().find(|buf| buf.place_of(segment.base, segment.len).is_some())
        };
        let shared = slot.segments.iter().map(|segment| of(segment).is_some_and(Buf::is_shared));
        shared.zip(0..).fold(0, |bits, (shared, at)| bits | u64::from(shared) << u64::min(at, 63))
    }

    /// The reactor has let go of an orphan.
    #[cold]
    pub(super) fn orphan_ended(&mut self, key: OpKey) -> After {
        let slot = &mut self.slots[key.0 as usize];
        slot.holds.iter().for_each(|buf| buf.given_back(slot.places()));
        slot.release();
        slot.sent = false;
        let member = slot.kind.member();
        self.free_slots.push(key.0);
        self.in_flight -= 1;
        let Some(member) = member else { return After::Nothing };
        let state = &mut self.members[member.index()];
        state.orphans -= 1;
        state.counters.late += 1;
        After::OrphanEnded(member)
    }

    /// Operations of an owner on the member that nobody waits for, and that have not completed.
    pub(crate) fn orphans(&self, member: MemberId, owner: Owner) -> usize {
        let all = self.members.get(member.index()).map_or(0, |member| member.orphans as usize);
        if all == 0 || owner == Owner::NOBODY {
            return all;
        }
        let is_its = |slot: &&Slot| {
            slot.sent && slot.group == NO_GROUP && slot.owner == owner && slot.kind.member() == Some(member)
        };
        self.slots.iter().filter(is_its).count()
    }

    /// `task` is to look again when an orphan of the member has ended.
    pub(crate) fn wait_for_orphans(&mut self, member: MemberId, task: TaskId) {
        if !self.orphan_waiters.contains(&(member, task)) {
            self.orphan_waiters.push((member, task));
        }
    }

    /// The tasks that wait for a member's orphans; they ask again if they still do.
    pub(crate) fn take_orphan_waiters(&mut self, member: MemberId) -> Vec<TaskId> {
        let waiters = &mut self.orphan_waiters;
        waiters.extract_if(.., |(of, _)| *of == member).map(|(_, task)| task).collect()
    }
}
