//! The op table: every operation in flight, with the buffers it holds, and the groups that wait for them.
//!
//! An operation's buffers are let go when its completion has come, whatever became of the task that asked.

mod counters;
mod orphans;

use crate::arena::NO_ARENA;
use crate::buf::{Buf, BufExtent, Slice};
use crate::op::{
    Completion, Failure, MemberId, OpClass, OpError, OpKey, OpKind, OpTag, OpView, Owner, Segment,
};
use crate::task::TaskId;
use crate::time::Instant;
pub use counters::{Histogram, MemberCounters};
pub(crate) use orphans::GivenUp;

/// The most stretches of memory that one operation may have: the kernel's `IOV_MAX`.
pub const MAX_SEGMENTS: usize = 1024;

/// The group of an operation that has completed, and of an orphan: one that nobody waits for any more.
const NO_GROUP: u32 = u32::MAX;
/// The deadline of a group that has none.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

pub(crate) struct Slot {
    pub(crate) kind: OpKind,
    segments: Vec<Segment>,
    /// Buffers of the segments; neighbours of one buffer share an entry.
    holds: Vec<Buf>,
    /// Bytes asked for, and bytes moved by earlier, short rounds.
    len: u64,
    done: u64,
    arena: u32,
    group: u32,
    /// The operation's owner, once it was given up: then it has no group that says so.
    owner: Owner,
    class: OpClass,
    tag: OpTag,
    /// The borrow of the buffers is noted: a device may touch them.
    borrowed: bool,
    /// When the operation was sent, on the clock of [`crate::patience`].
    since: Instant,
    /// The operation is with the reactor, or with who serves the member.
    sent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupState {
    Free,
    Building,
    Waiting(TaskId),
    /// Nobody waits any more; freed with the last completion.
    Abandoned,
}

struct GroupSlot {
    ops: Vec<OpKey>,
    left: u32,
    /// The class and owner of its operations.
    class: OpClass,
    owner: Owner,
    state: GroupState,
    failures: Vec<Failure>,
    /// Bytes of the last completion; a socket's answer.
    value: u64,
    /// When whatever has not completed is given up, on the clock of [`crate::patience`].
    until: Instant,
}

/// The failures of a group: nearly always none. One word, so that it comes back in registers with the group's value.
#[allow(clippy::box_collection, reason = "a list by itself is three words")]
pub(crate) type Failures = Option<Box<Vec<Failure>>>;

/// The table's record of one member.
struct MemberState {
    /// The operation that a group last began on it. Checked before it is trusted, so never cleared.
    last: OpKey,
    orphans: u32,
    /// Owners that have forsaken the member.
    forsaken: Vec<Owner>,
    counters: MemberCounters,
}

#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    groups: Vec<GroupSlot>,
    free_groups: Vec<u32>,
    /// Indexed by [`MemberId::index`].
    members: Vec<MemberState>,
    /// At least one member is forsaken.
    any_forsaken: bool,
    /// Tasks that wait for the orphans of a member to end.
    orphan_waiters: Vec<(MemberId, TaskId)>,
    in_flight: usize,
    /// The moment of the reactor's last turn, on the clock of [`crate::patience`].
    now: Instant,
    /// Launched groups with a deadline, and a moment before which none of them is due.
    timed: usize,
    earliest: Instant,
}

/// The way that bytes go.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Read,
    Write,
    /// To stable storage.
    WriteThrough,
}

impl Way {
    #[inline]
    pub(crate) fn of_write(fua: bool) -> Self {
        if fua { Self::WriteThrough } else { Self::Write }
    }
}

/// The action that the table wants after a completion.
pub(crate) enum After {
    Nothing,
    Wake(TaskId),
    /// The transfer was short: submit the operation again for the rest.
    Resubmit(OpKey),
    /// An orphan of the member is no more.
    OrphanEnded(MemberId),
}

impl OpKind {
    /// A device writes into the operation's memory.
    #[inline]
    pub(crate) fn fills(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Recv { .. })
    }

    /// The error for a transfer that stops before its end.
    #[cold]
    fn ended_early(&self) -> OpError {
        match self {
            Self::Send { .. } => OpError::Disconnected,
            // Beyond the size that the member was opened with nothing is sent to the kernel.
            _ => OpError::Truncated,
        }
    }
}

impl Table {
    #[inline]
    pub(crate) fn begin_group(&mut self, class: OpClass, owner: Owner) -> u32 {
        if let Some(group) = self.free_groups.pop() {
            let g = &mut self.groups[group as usize];
            (g.state, g.class, g.owner) = (GroupState::Building, class, owner);
            return group;
        }
        self.add_group(class, owner)
    }

    #[cold]
    fn add_group(&mut self, class: OpClass, owner: Owner) -> u32 {
        self.groups.push(GroupSlot {
            ops: Vec::new(),
            left: 0,
            class,
            owner,
            state: GroupState::Building,
            failures: Vec::new(),
            value: 0,
            until: NEVER,
        });
        (self.groups.len() - 1) as u32
    }

    /// Begins an operation of `group`; memory is added with [`Table::add_memory`]. In line: what follows it changes the
    /// same slot.
    #[inline(always)]
    pub(crate) fn begin_op(&mut self, group: u32, kind: OpKind) -> OpKey {
        let ops = &mut self.groups[group as usize].ops;
        let tag = OpTag(u16::try_from(ops.len()).expect("a group has fewer than 65,536 operations"));
        let key = match self.free_slots.pop() {
            Some(at) => OpKey(at),
            None => Self::add_slot(&mut self.slots),
        };
        ops.push(key);
        let slot = &mut self.slots[key.0 as usize];
        (slot.kind, slot.group, slot.tag, slot.len, slot.done) = (kind, group, tag, 0, 0);
        if let Some(member) = kind.member() {
            self.member_mut(member).last = key;
        }
        key
    }

    #[cold]
    fn add_slot(slots: &mut Vec<Slot>) -> OpKey {
        slots.push(Slot {
            kind: OpKind::Flush { member: MemberId::device(0) },
            segments: Vec::with_capacity(4),
            holds: Vec::with_capacity(2),
            len: 0,
            done: 0,
            arena: NO_ARENA,
            group: NO_GROUP,
            owner: Owner::NOBODY,
            class: OpClass::Client,
            tag: OpTag(0),
            borrowed: false,
            since: NEVER,
            sent: false,
        });
        OpKey((slots.len() - 1) as u32)
    }

    #[inline]
    fn member_mut(&mut self, member: MemberId) -> &mut MemberState {
        let at = member.index();
        if at >= self.members.len() {
            let unknown = || MemberState {
                last: OpKey(u32::MAX),
                orphans: 0,
                forsaken: Vec::new(),
                counters: MemberCounters::default(),
            };
            self.members.resize_with(at + 1, unknown);
        }
        &mut self.members[at]
    }

    /// Begins an operation, or goes on with the group's last one on that member where this one continues it.
    ///
    /// The operation is passed in parts. As a kind it would be put together in memory by the caller and copied from
    /// there, which costs 6 ns.
    #[inline(never)]
    pub(crate) fn transfer(
        &mut self,
        group: u32,
        way: Way,
        member: MemberId,
        offset: u64,
        buf: &Buf,
        part: BufExtent,
    ) -> OpTag {
        let kind = match way {
            Way::Read => OpKind::Read { member, offset },
            Way::Write => OpKind::Write { member, offset, fua: false },
            Way::WriteThrough => OpKind::Write { member, offset, fua: true },
        };
        if !self.groups[group as usize].ops.is_empty()
            && let Some(key) = self.continues(group, kind)
        {
            self.add_memory(key, buf, part);
            return self.slots[key.0 as usize].tag;
        }
        let key = self.begin_op(group, kind);
        let slot = &mut self.slots[key.0 as usize];
        slot.arena = buf.arena_of(part);
        slot.len = u64::from(part.len());
        slot.holds.push(buf.clone());
        slot.segments.push(Segment { base: buf.base_of(part).as_ptr(), len: part.len() as usize });
        slot.tag
    }

    /// The group's operation that `kind` carries on, byte after byte.
    fn continues(&self, group: u32, kind: OpKind) -> Option<OpKey> {
        let key = self.members.get(kind.member()?.index())?.last;
        let slot = self.slots.get(key.0 as usize)?;
        if slot.group != group || slot.segments.is_empty() || slot.segments.len() >= MAX_SEGMENTS {
            return None;
        }
        let joins = match (slot.kind, kind) {
            (OpKind::Read { member: a, offset }, OpKind::Read { member: b, offset: next }) => {
                a == b && offset + slot.len == next
            }
            (
                OpKind::Write { member: a, offset, fua },
                OpKind::Write { member: b, offset: next, fua: too },
            ) => a == b && fua == too && offset + slot.len == next,
            _ => false,
        };
        joins.then_some(key)
    }

    pub(crate) fn add_memory(&mut self, key: OpKey, buf: &Buf, part: BufExtent) {
        let slot = &mut self.slots[key.0 as usize];
        let (base, len) = (buf.base_of(part).as_ptr(), part.len() as usize);
        let arena = buf.arena_of(part);
        slot.arena = if slot.segments.is_empty() || slot.arena == arena { arena } else { NO_ARENA };
        slot.len += len as u64;
        let same_buf = slot.holds.last().is_some_and(|held| held.base() == buf.base());
        if !same_buf {
            slot.holds.push(buf.clone());
        }
        match slot.segments.last_mut() {
            Some(last) if same_buf && last.base.wrapping_add(last.len) == base => last.len += len,
            _ => slot.segments.push(Segment { base, len }),
        }
    }

    /// The group's operations, in the order of their tags.
    #[inline]
    pub(crate) fn ops(&self, group: u32) -> &[OpKey] {
        &self.groups[group as usize].ops
    }

    /// The group goes on its way for `task` at `now`: from here on devices may touch the memory.
    #[inline]
    pub(crate) fn launch(&mut self, group: u32, task: TaskId, now: Instant) {
        let slots = &mut self.slots;
        let g = &mut self.groups[group as usize];
        for key in &g.ops {
            let slot = &mut slots[key.0 as usize];
            slot.since = now;
            slot.class = g.class;
            slot.sent = true;
            // A served member's tasks take guards of their own.
            if !slot.kind.member().is_some_and(MemberId::is_served) {
                let fills = slot.kind.fills();
                for buf in &slot.holds {
                    buf.device_begins(fills);
                }
                slot.borrowed = true;
            }
        }
        // Only now: `device_begins` panics on a wrong use of a buffer, and then nothing of the group is in flight.
        g.left = g.ops.len() as u32;
        g.state = GroupState::Waiting(task);
        self.in_flight += g.ops.len();
    }

    #[inline]
    pub(crate) fn view(&self, key: OpKey) -> OpView<'_> {
        let slot = &self.slots[key.0 as usize];
        OpView {
            kind: slot.kind,
            segments: &slot.segments,
            len: slot.len - slot.done,
            arena: (slot.arena != NO_ARENA).then_some(slot.arena),
            class: slot.class,
        }
    }

    /// The memory of an operation as slices, for tasks that serve a member.
    pub(crate) fn slices(&self, key: OpKey) -> Vec<Slice> {
        let slot = &self.slots[key.0 as usize];
        let find = |segment: &Segment| {
            slot.holds.iter().find_map(|buf| {
                let start = buf.place_of(segment.base, segment.len)?;
                Some(Slice::from_parts(buf.clone(), start, segment.len))
            })
        };
        slot.segments.iter().filter_map(find).collect()
    }

    /// In line with its one caller on the hot path (see [`crate::core::Core`]).
    #[inline(always)]
    pub(crate) fn complete(&mut self, completion: Completion) -> After {
        let Completion { key, result } = completion;
        let slot = &mut self.slots[key.0 as usize];
        if slot.group == NO_GROUP {
            return self.orphan_ended(key);
        }
        let failure = match result {
            Ok(moved) => match slot.advance(moved) {
                Progress::Whole => None,
                Progress::Rest => return After::Resubmit(key),
                Progress::End => Some(slot.kind.ended_early()),
            },
            Err(error) => Some(error),
        };
        if let Some(member) = slot.kind.member() {
            let latency = self.now.as_nanos().saturating_sub(slot.since.as_nanos());
            self.members[member.index()].counters.answered(slot, failure.is_some(), latency);
        }
        slot.release();
        slot.sent = false;
        let group = slot.group;
        let g = &mut self.groups[group as usize];
        if let Some(error) = failure {
            g.failures.push(Failure { tag: slot.tag, kind: slot.kind, error });
        } else if let Ok(moved) = result {
            g.value = moved;
        }
        slot.group = NO_GROUP; // no later operation continues this one
        self.in_flight -= 1;
        g.left -= 1;
        if g.left == 0 && g.until != NEVER {
            self.timed -= 1;
        }
        match g.state {
            // A failure may be awaited for itself.
            GroupState::Waiting(task) if g.left == 0 || failure.is_some() => After::Wake(task),
            _ if g.left > 0 || matches!(g.state, GroupState::Waiting(_)) => After::Nothing,
            _ => {
                self.free_group(group);
                After::Nothing
            }
        }
    }

    /// Whether all of a launched group's operations have completed.
    #[inline]
    pub(crate) fn is_done(&self, group: u32) -> bool {
        self.groups[group as usize].left == 0
    }

    /// The failures so far of a launched group, in the order in which they came.
    #[inline]
    pub(crate) fn failures(&self, group: u32) -> &[Failure] {
        &self.groups[group as usize].failures
    }

    pub(crate) fn wait_as(&mut self, group: u32, task: TaskId) {
        self.groups[group as usize].state = GroupState::Waiting(task);
    }

    /// Whether a launched group is not done yet: then `task` waits for it.
    #[inline]
    pub(crate) fn waits(&mut self, group: u32, task: TaskId) -> bool {
        let g = &mut self.groups[group as usize];
        let waits = g.left > 0;
        if waits {
            g.state = GroupState::Waiting(task);
        }
        waits
    }

    /// The results of a group that is done; frees it.
    pub(crate) fn take(&mut self, group: u32) -> (Failures, u64) {
        let g = &mut self.groups[group as usize];
        let failures =
            if g.failures.is_empty() { None } else { Some(Box::new(core::mem::take(&mut g.failures))) };
        let value = g.value;
        g.free(group, &mut self.free_slots, &mut self.free_groups);
        (failures, value)
    }

    /// Nobody waits for the group: it is freed now if nothing of it is in flight, else with the last completion.
    pub(crate) fn abandon(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        if g.state == GroupState::Building {
            for key in &g.ops {
                let slot = &mut self.slots[key.0 as usize];
                slot.release();
                slot.group = NO_GROUP;
            }
            g.left = 0;
        }
        if g.left == 0 {
            self.free_group(group);
        } else {
            g.state = GroupState::Abandoned;
        }
    }

    #[inline]
    fn free_group(&mut self, group: u32) {
        let g = &mut self.groups[group as usize];
        g.failures.clear();
        g.free(group, &mut self.free_slots, &mut self.free_groups);
    }

    /// Operations submitted and not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl GroupSlot {
    /// Nobody has the group, of that number, nor its operations any more.
    #[inline]
    fn free(&mut self, number: u32, slots: &mut Vec<u32>, groups: &mut Vec<u32>) {
        // Most have one, for which a list is a detour.
        while let Some(key) = self.ops.pop() {
            slots.push(key.0);
        }
        self.value = 0;
        self.until = NEVER;
        self.state = GroupState::Free;
        groups.push(number);
    }
}

enum Progress {
    Whole,
    Rest,
    End,
}

impl Slot {
    /// Notes `moved` bytes; skips them in the segments if more are to come.
    fn advance(&mut self, moved: u64) -> Progress {
        let transfers = matches!(self.kind, OpKind::Read { .. } | OpKind::Write { .. } | OpKind::Send { .. });
        if !transfers || self.done + moved >= self.len {
            return Progress::Whole;
        }
        if moved == 0 {
            return Progress::End;
        }
        self.done += moved;
        match &mut self.kind {
            OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => *offset += moved,
            _ => {}
        }
        let mut skip = moved as usize;
        let whole = self.segments.iter().take_while(|s| {
            let gone = s.len <= skip;
            if gone {
                skip -= s.len;
            }
            gone
        });
        let whole = whole.count();
        self.segments.drain(..whole);
        if let Some(first) = self.segments.first_mut() {
            first.base = first.base.wrapping_add(skip);
            first.len -= skip;
        }
        Progress::Rest
    }

    /// The memory: addresses, with their bytes.
    fn places(&self) -> impl Iterator<Item = (*const u8, usize)> {
        self.segments.iter().map(|segment| (segment.base.cast_const(), segment.len))
    }

    /// Lets go of the memory.
    fn release(&mut self) {
        if self.borrowed {
            let fills = self.kind.fills();
            for buf in &self.holds {
                buf.device_ends(fills);
            }
            self.borrowed = false;
        }
        self.holds.clear();
        self.segments.clear();
    }
}
