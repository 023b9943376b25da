//! The door to the members: all operations of the data path on members go through it.
//!
//! The data path speaks of roles and of ranges of their data areas. Here, and only here, data offsets are added, and a
//! member's failure is given the name of its role. While writes that were given up may still land on a member, nothing
//! more is written to it: that is refused at once.

mod done;
mod fast_path;
mod refused;

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use brindle_io::{Failure, Group, MemberId, OpError, OpKind, Outcome, Pending, Slice};

pub use done::Done;
use done::NotDone;
pub use refused::Refused;

use crate::bad_blocks::UNREADABLE;
use crate::change::{Content, MemberChange};
use crate::events::Cause;
use crate::members::{Device, RoleState, Second};
use crate::presence;
use crate::set::MemberSet;

/// Where members have the data of one side of a reshape's border: elsewhere than they say.
pub struct Moved(Vec<(MemberId, u64)>);

impl Moved {
    /// Each member with the byte at which that data begins.
    pub fn new(starts: impl IntoIterator<Item = (MemberId, u64)>) -> Self {
        Self(starts.into_iter().collect())
    }

    #[cold]
    fn start(&self, member: Device) -> u64 {
        self.0.iter().find(|(id, _)| *id == member.id).map_or(member.data_offset, |&(_, start)| start)
    }
}

/// The way to the members, as one family of levels sees them.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// The set of members.
    pub set: &'a MemberSet,
    moved: Option<&'a Moved>,
}

/// Operations on members that are sent together and awaited as one. Offsets are bytes of the data area.
pub struct MemberOps<'a> {
    door: Door<'a>,
    group: Group,
    /// Nearly always none. One word, since the sender moves it about. It is never shared; it is an `Rc` because
    /// dropping one is an outlined call, while dropping a box would be inlined into each read.
    slow_path: Option<Rc<SlowPath>>,
    asked: Asked,
}

/// Facts about operations that their group does not hold.
#[derive(Clone, Default)]
struct SlowPath {
    /// Operations refused here, before they were sent.
    refused: Vec<Refused>,
    /// Reads of roles that have a second device, which may be asked if the first does not answer.
    reads: Vec<Asking>,
    /// Bad blocks of members that these writes cover.
    heals: Vec<Healing>,
    again: Option<Again>,
}

/// A read of a member.
#[derive(Clone)]
struct Asking {
    device: Device,
    offset: u64,
    into: Slice,
}

/// A write over bad blocks of a member.
#[derive(Clone)]
struct Healing {
    role: u16,
    member: MemberId,
    /// Bytes of the data area.
    range: Range<u64>,
}

/// Second devices were asked for what these members did not give.
#[derive(Clone)]
struct Again {
    members: Vec<MemberId>,
    /// The failures of the first attempt.
    failures: Vec<Failure>,
}

/// The members that were read, and the count of failures at that time. An answer does not count if its member has
/// failed meanwhile: a member that fails a flush may have lost writes, and return older data.
#[derive(Clone, Copy)]
pub struct Asked {
    /// A bit for each member, by its number modulo 64.
    readers: u64,
    /// [`Members::failures`](crate::members::Members::failures) before.
    failures: u32,
}

impl Asked {
    fn bit(member: MemberId) -> u64 {
        1 << (member.index() % 64)
    }
}

impl<'a> Door<'a> {
    /// The way to the members of a set; `moved` has other data offsets, if the caller needs some.
    #[inline]
    pub fn new(set: &'a MemberSet, moved: Option<&'a Moved>) -> Self {
        Self { set, moved }
    }

    /// No operations yet.
    #[inline]
    pub fn ask(self) -> MemberOps<'a> {
        let asked = Asked { readers: 0, failures: self.set.members.failures() };
        MemberOps { door: self, group: self.set.io.group(), slow_path: None, asked }
    }

    /// Where the data area of a member begins.
    #[inline]
    fn start(self, member: Device) -> u64 {
        match self.moved {
            None => member.data_offset,
            Some(moved) => moved.start(member),
        }
    }

    /// The byte of the role's device at which this byte of its data area is.
    pub fn device_offset(self, role: u16, offset: u64) -> Option<u64> {
        self.set.members.device(role).map(|member| self.start(member) + offset)
    }

    /// Where a range of a role's data area, as this side has it, is in the data area that the member says it has: bad blocks are told by
    /// that.
    #[cold]
    pub fn own_range(self, role: u16, range: Range<u64>) -> Range<u64> {
        let Some((moved, member)) = self.moved.zip(self.set.members.device(role)) else { return range };
        let own = |at: u64| (at + moved.start(member)).saturating_sub(member.data_offset);
        own(range.start)..own(range.end)
    }

    /// A failure by its role. `None` for a device that has been taken out of its role meanwhile: nothing relies on
    /// it.
    fn refused(self, failure: &Failure) -> Option<Refused> {
        let member = failure.kind.member()?;
        if self.is_beside(failure) {
            return None;
        }
        let (role, device) = self.set.members.role_and_device(member)?;
        let start = self.start(device);
        let (offset, len) = match failure.kind {
            OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => (offset, 0),
            OpKind::Discard { offset, len, .. } | OpKind::WriteZeroes { offset, len, .. } => (offset, len),
            _ => (start, 0),
        };
        let (error, cause) = (failure.error, Cause::from(failure));
        Some(Refused { role, member, offset: offset.saturating_sub(start), len, error, cause })
    }

    /// True if the failure does not matter: the failed device was the role's second one, or had been removed from the
    /// role. A second device that lacks an ability stays, as a member does: the caller sends zeroes instead.
    fn is_beside(self, failure: &Failure) -> bool {
        let members = &self.set.members;
        let Some(id) = failure.kind.member() else { return false };
        if let Some(role) = members.has_seconds().then(|| members.seconded_by(id)).flatten() {
            match failure.kind {
                OpKind::WriteZeroes { .. } if failure.error == OpError::Unsupported => return false,
                OpKind::Discard { .. } | OpKind::Flush { .. } if failure.error == OpError::Unsupported => {
                    return true;
                }
                _ => {
                    if let Ok(owner) = self.set.owner() {
                        owner.second_failed(role, Cause::from(failure));
                    }
                }
            }
        }
        !matches!(failure.kind, OpKind::Read { .. }) && members.left_role_of(id).is_some()
    }

    /// The members among those that were read which have failed meanwhile.
    #[cold]
    fn failed_readers(self, asked: Asked) -> Vec<Refused> {
        let members = &self.set.members;
        if members.failures() == asked.failures {
            return Vec::new();
        }
        let gone = members.gone(|id| asked.readers & Asked::bit(id) != 0);
        let error = OpError::Gone;
        let refused =
            |(role, member)| Refused { role, member, offset: 0, len: 0, error, cause: error.into() };
        gone.into_iter().map(refused).collect()
    }

    #[cold]
    fn all_refused(self, failures: &[Failure]) -> Vec<Refused> {
        let refused: Vec<Refused> = failures.iter().filter_map(|failure| self.refused(failure)).collect();
        refused.iter().for_each(|refused| presence::look_after_error(self.set, refused.role));
        refused
    }
}

impl<'a> MemberOps<'a> {
    /// Fills `into` from the member's bytes at `offset`.
    #[inline(always)]
    pub fn read(&mut self, member: Device, offset: u64, into: &Slice) {
        if (into.is_pinned() || self.door.set.members.slow_reads()) && !self.may_read(member, offset, into) {
            return;
        }
        self.door.set.ration.sent(1);
        self.asked.readers |= Asked::bit(member.id);
        self.group.read(member.id, self.door.start(member) + offset, into);
    }

    #[cold]
    fn slow_path(&mut self) -> &mut SlowPath {
        Rc::make_mut(self.slow_path.get_or_insert_default())
    }

    /// Refuses to read bad blocks, and into memory that is pinned; a second device may be asked for all else.
    #[cold]
    fn may_read(&mut self, device: Device, offset: u64, into: &Slice) -> bool {
        if into.is_pinned() {
            // An operation that was given up may still use this memory.
            self.refuse(device, offset, 0, OpError::TimedOut);
            return false;
        }
        let members = &self.door.set.members;
        let range = offset..offset + into.len() as u64;
        let is_bad = |role| members.is_bad(role, &self.door.own_range(role, range));
        if members.role_of(device.id).is_some_and(is_bad) {
            self.refuse(device, offset, 0, UNREADABLE);
            return false;
        }
        if members.has_seconds() {
            self.note_read(device, offset, into);
        }
        true
    }

    /// Remembers a read, for which a second device may be asked.
    fn note_read(&mut self, device: Device, offset: u64, into: &Slice) {
        let asking = Asking { device, offset, into: into.clone() };
        self.slow_path().reads.push(asking);
    }

    /// Writes `from` to the member at `offset`; with `fua`, to stable storage.
    #[inline]
    pub fn write(&mut self, member: Device, offset: u64, from: &Slice, fua: bool) {
        if self.door.set.members.slow_writes() {
            return self.write_beside(member, offset, from, fua);
        }
        self.group.write(member.id, self.door.start(member) + offset, from, fua);
    }

    /// Sends a write that may be refused here, or that goes to two devices.
    #[cold]
    fn write_beside(&mut self, member: Device, offset: u64, from: &Slice, fua: bool) {
        if self.refuses_for_orphans(member, offset, 0) {
            return;
        }
        self.heal(member, offset, from.len() as u64);
        self.group.write(member.id, self.door.start(member) + offset, from, fua);
        self.second(member, |group, second| {
            group.write(second.id, second.data_offset + offset, from, fua);
        });
    }

    /// Makes the member's completed writes stable.
    #[inline]
    pub fn flush(&mut self, member: Device) {
        if self.door.set.members.slow_writes() {
            return self.flush_beside(member);
        }
        self.group.flush(member.id);
    }

    /// Sends a flush that may be refused here, or that goes to two devices.
    #[cold]
    fn flush_beside(&mut self, member: Device) {
        if self.refuses_for_orphans(member, 0, 0) {
            return;
        }
        self.group.flush(member.id);
        self.second(member, |group, second| {
            group.flush(second.id);
        });
    }

    /// Discards `len` bytes at `offset` of the member.
    pub fn discard(&mut self, member: Device, offset: u64, len: u64) {
        if self.refuses_for_orphans(member, offset, len) {
            return;
        }
        self.group.discard(member.id, self.door.start(member) + offset, len);
        self.second(member, |group, second| {
            group.discard(second.id, second.data_offset + offset, len);
        });
    }

    /// Makes `len` bytes at `offset` of the member read as zeroes.
    pub fn write_zeroes(&mut self, member: Device, offset: u64, len: u64, may_unmap: bool) {
        if self.refuses_for_orphans(member, offset, len) {
            return;
        }
        self.heal(member, offset, len);
        self.group.write_zeroes(member.id, self.door.start(member) + offset, len, may_unmap);
        self.second(member, |group, second| {
            group.write_zeroes(second.id, second.data_offset + offset, len, may_unmap);
        });
    }

    /// Notes that a write covers bad blocks: they are good again once the member has taken it.
    fn heal(&mut self, member: Device, offset: u64, len: u64) {
        let members = &self.door.set.members;
        if !members.slow_writes() {
            return;
        }
        let Some(role) = members.role_of(member.id) else { return };
        let range = self.door.own_range(role, offset..offset + len);
        if members.is_bad(role, &range) {
            self.slow_path().heals.push(Healing { role, member: member.id, range });
        }
    }

    /// Writes to the second device of a role alone.
    pub(crate) fn write_to_second(&mut self, role: u16, offset: u64, from: &Slice) {
        if let Some(Second { device, .. }) = self.door.set.members.second(role) {
            self.group.write(device.id, device.data_offset + offset, from, false);
        }
    }

    /// Writes what was made for a role's member anew: to its second device alone, if the member holds it already.
    pub fn write_rebuilt(&mut self, role: u16, member: Device, offset: u64, from: &Slice) {
        let members = &self.door.set.members;
        match members.second(role).filter(|_| members.state(role) == RoleState::InSync) {
            None => self.write(member, offset, from, false),
            Some(_) => self.write_to_second(role, offset, from),
        }
    }

    /// No second device is asked for what has been read so far.
    pub fn ask_no_second(&mut self) {
        if self.slow_path.is_some() {
            self.slow_path().reads.clear();
        }
    }

    /// Sends the member's writes to its role's second device too, if there is one.
    fn second(&mut self, member: Device, send: impl FnOnce(&mut Group, Device)) {
        let members = &self.door.set.members;
        if members.has_seconds()
            && let Some(second) = members.second_beside(member)
        {
            send(&mut self.group, second.device);
        }
    }

    /// Refuses changes of a member on which writes that were given up may still land.
    #[inline]
    fn refuses_for_orphans(&mut self, member: Device, offset: u64, len: u64) -> bool {
        let refuses = self.door.set.members.has_orphans(member);
        if refuses {
            self.refuse(member, offset, len, OpError::TimedOut);
        }
        refuses
    }

    #[cold]
    fn refuse(&mut self, member: Device, offset: u64, len: u64, error: OpError) {
        let role = self.door.set.members.role_of(member.id).unwrap_or_default();
        let refused = Refused { role, member: member.id, offset, len, error, cause: error.into() };
        self.slow_path().refused.push(refused);
    }

    /// Whether there is no operation.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.slow_path.as_ref().is_none_or(|slow_path| slow_path.refused.is_empty())
    }

    /// The changes of members that have been asked for so far.
    #[cold]
    pub fn changes(&self) -> Vec<MemberChange> {
        let change = |(kind, slices): (OpKind, Vec<Slice>)| {
            let role = self.door.set.members.role_of(kind.member()?)?;
            let start = self.door.start(self.door.set.members.device(role)?);
            let (offset, len, content) = match kind {
                OpKind::Write { offset, .. } => {
                    let len = slices.iter().map(|slice| slice.len() as u64).sum();
                    (offset, len, Content::Bytes(slices))
                }
                OpKind::WriteZeroes { offset, len, .. } => (offset, len, Content::Zeroes),
                OpKind::Discard { offset, len, .. } => (offset, len, Content::Discarded),
                _ => return None,
            };
            Some(MemberChange { role, offset: offset - start, len, content })
        };
        self.group.asked().into_iter().filter_map(change).collect()
    }

    /// Shows the owner the operations that members are about to get.
    #[cold]
    fn tell(&self) {
        if let Ok(owner) = self.door.set.owner() {
            owner.sent(&self.changes());
        }
    }

    /// Sends all operations. What comes back waits for the last.
    #[inline(always)]
    pub fn submit(self) -> Sent<'a> {
        if self.door.set.is_observed() {
            self.tell();
        }
        Sent {
            door: self.door,
            pending: self.group.submit(),
            slow_path: self.slow_path,
            asked: self.asked,
            judged: 0,
        }
    }
}

/// Operations that have been sent; a future of their outcomes.
#[must_use = "what was refused is known only to whom awaits it"]
pub struct Sent<'a> {
    door: Door<'a>,
    pending: Pending,
    slow_path: Option<Rc<SlowPath>>,
    asked: Asked,
    /// How many failures [`Sent::next_refused`] has looked at.
    judged: u32,
}

impl Sent<'_> {
    /// The next failed operation, as soon as it is known; `None` when there are no more.
    pub async fn next_refused(&mut self) -> Option<Refused> {
        let refused_here = self.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.refused);
        if let Some(refused_here) = refused_here.get(self.judged as usize) {
            self.judged += 1;
            return Some(*refused_here);
        }
        loop {
            let failure = self.pending.nth_failure(self.judged as usize - refused_here.len()).await?;
            self.judged += 1;
            if let Some(refused) = self.door.refused(&failure) {
                return Some(refused);
            }
        }
    }

    /// Handles failures: asks second devices, or settles the outcome.
    #[cold]
    #[inline(never)]
    fn go_on(mut self: Pin<&mut Self>, outcome: &Outcome, cx: &mut Context<'_>) -> Poll<Done> {
        match self.ask_seconds(outcome) {
            Some(again) => {
                self.pending = again;
                self.poll(cx)
            }
            None => {
                let slow_path = self.slow_path.take().map(Rc::unwrap_or_clone).unwrap_or_default();
                Poll::Ready(judge(self.door, self.asked, slow_path, outcome))
            }
        }
    }

    /// Has the other device of a role asked for what the first did not give, or gave before it was taken out of use; nothing
    /// if there is none that holds it.
    #[cold]
    fn ask_seconds(&mut self, outcome: &Outcome) -> Option<Pending> {
        let slow_path = Rc::make_mut(self.slow_path.as_mut()?);
        let reads = core::mem::take(&mut slow_path.reads);
        let members = &self.door.set.members;
        let unread = |id: MemberId| {
            let failed =
                |failure: &Failure| matches!(failure.kind, OpKind::Read { member, .. } if member == id);
            outcome.failures().iter().any(failed) || members.left_role_of(id).is_some()
        };
        let other = |asking: &Asking| {
            let end = asking.offset + asking.into.len() as u64;
            let device = match members.left_role_of(asking.device.id) {
                Some(role) => members.readable(role, end),
                None => members.second_beside(asking.device).filter(|s| end <= s.good).map(|s| s.device),
            };
            device.filter(|_| !asking.into.is_pinned())
        };
        let mut asked: Vec<MemberId> = Vec::new();
        let mut group = self.door.set.io.group();
        for asking in reads.iter().filter(|asking| unread(asking.device.id)) {
            let of_it = reads.iter().filter(|other| other.device.id == asking.device.id);
            // Operations are joined: what failed of a member may be any of this.
            if let Some(device) =
                other(asking).filter(|_| of_it.clone().all(|asking| other(asking).is_some()))
            {
                group.read(device.id, device.data_offset + asking.offset, &asking.into);
                asked.push(asking.device.id);
            }
        }
        if asked.is_empty() {
            return None;
        }
        slow_path.again = Some(Again { members: asked, failures: outcome.failures().to_vec() });
        Some(group.submit())
    }
}

/// The outcome of operations some of which failed.
#[cold]
fn judge(door: Door<'_>, asked: Asked, slow_path: SlowPath, outcome: &Outcome) -> Done {
    let SlowPath { mut refused, again, heals, .. } = slow_path;
    let mut failures = outcome.failures().to_vec();
    let mut unanswered = false;
    if let Some(Again { members, failures: mut before }) = again {
        let answered = |failure: &Failure| {
            let read = matches!(failure.kind, OpKind::Read { .. });
            read && failure.kind.member().is_some_and(|id| members.contains(&id))
        };
        unanswered = !outcome.is_ok();
        before.retain(|failure| unanswered || !answered(failure));
        failures.splice(0..0, before);
    }
    for Healing { role, member, range } in heals {
        let members = &door.set.members;
        let refused = failures.iter().any(|failure| failure.kind.member() == Some(member));
        // Another may have the role meanwhile.
        if !refused && members.device(role).is_some_and(|there| there.id == member) {
            members.remove_bad(role, &range);
        }
    }
    failures.retain(|failure| !door.is_beside(failure));
    refused.extend(door.failed_readers(asked));
    let refused_here = refused.first().map(|refused_here| (Some(refused_here.role), refused_here.error));
    let first = refused_here.or_else(|| {
        let failure = failures.first()?;
        Some((door.refused(failure).map(|refused| refused.role), failure.error))
    });
    let first = first.or(unanswered.then_some((None, OpError::Gone)));
    refused.extend(door.all_refused(&failures));
    Done(first.map(|first| Box::new(NotDone { first, refused })))
}

impl Future for Sent<'_> {
    type Output = Done;

    // As with the group within.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let Poll::Ready(outcome) = Pin::new(&mut self.pending).poll(cx) else { return Poll::Pending };
        let unchanged = self.door.set.members.failures() == self.asked.failures;
        if outcome.is_ok() && self.slow_path.is_none() && unchanged {
            return Poll::Ready(Done::default());
        }
        self.go_on(&outcome, cx)
    }
}
