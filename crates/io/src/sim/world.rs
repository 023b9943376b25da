//! Events to come and their times: operations on their way, planned faults, the power cut.

use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::agenda::Agenda;
use super::drive::{Drive, Flying};
use super::faults::Faults;
use super::others::{KEY_BITS, Others, flying_beyond};
use super::rng::Rng;
use super::stations::Uplink;
use super::trace::{Trace, bytes_of, words};
use super::{Hostility, Overlap, Overlaps};
use crate::bounce::{Bounce, SharedMemory};
use crate::memory::Pipes;
use crate::op::{Completion, MemberId, OpError, OpKey, OpKind, OpView, SocketId};
use crate::ranges::RangeKey;
use crate::task::{Scheduler, TaskId};

/// As Linux numbers it.
const EINVAL: i32 = 22;

/// Bytes of the largest fragment of a stream.
const MOST_FRAGMENT: u64 = 2000;

/// An event at a moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimEvent {
    /// An operation's first byte can move.
    Ready(u32),
    /// An operation is done.
    Done(u32),
    /// Bytes move into this end of a connection.
    Pump(u32),
    /// One of the deeds that wait for a moment.
    Deed(u32),
}

/// An action that a test has planned.
pub(super) enum Deed {
    CutPower,
    Afflict(MemberId, Box<dyn FnOnce(&mut Faults)>),
}

pub(super) struct SimWorld {
    pub(super) now: u64,
    pub(super) rng: Rng,
    pub(super) hostility: Hostility,
    pub(super) drives: Vec<Drive>,
    uplink: Uplink,
    /// Indexed by moment; what happens at one moment comes in an order that the seed shuffles.
    agenda: Agenda<SimEvent>,
    /// Indexed by key.
    flying: Vec<Option<Flying>>,
    pub(super) shared: SharedMemory,
    /// Copies that stand in for memory that others may change, by the operation's key.
    bounces: BTreeMap<u32, Bounce>,
    /// Events held back because their drives hang.
    hung: Vec<(MemberId, SimEvent)>,
    pub(super) pipes: Pipes,
    /// Completions that the next park hands over.
    pub(super) completed: Vec<Completion>,
    pub(super) trace: Trace,
    /// Submissions and completions of operations on drives.
    pub(super) steps: u64,
    pub(super) by_step: BTreeMap<u64, Vec<Deed>>,
    timed: Vec<Option<Deed>>,
    pub(super) overlaps: Vec<Overlap>,
    /// A caller's mistake. The next park panics with it: a panic in `submit` would leave the executor waiting for an
    /// operation that never came.
    pub(super) bug: Option<String>,
    pub(super) attached: bool,
    /// The world has ended.
    pub(super) ended: bool,
    /// Operations that never complete, for the world has ended.
    frozen: Vec<OpKey>,
    /// The task to wake when the world ends.
    pub(super) watcher: Option<(Rc<Scheduler>, TaskId)>,
    /// Executors beside the first.
    pub(super) others: Others,
}

impl SimWorld {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            rng: Rng::new(seed),
            hostility: Hostility::default(),
            drives: Vec::new(),
            uplink: Uplink::default(),
            agenda: Agenda::new(),
            flying: Vec::new(),
            shared: SharedMemory::default(),
            bounces: BTreeMap::new(),
            hung: Vec::new(),
            pipes: Pipes::default(),
            completed: Vec::new(),
            trace: Trace::new(),
            steps: 0,
            by_step: BTreeMap::new(),
            timed: Vec::new(),
            overlaps: Vec::new(),
            bug: None,
            attached: false,
            ended: false,
            frozen: Vec::new(),
            watcher: None,
            others: Others::new(seed),
        }
    }

    fn schedule(&mut self, at: u64, event: SimEvent) {
        let tie = self.rng.next();
        self.agenda.push(at, tie, event);
    }

    pub(super) fn schedule_deed(&mut self, at: u64, deed: Deed) {
        self.timed.push(Some(deed));
        self.schedule(at.max(self.now), SimEvent::Deed((self.timed.len() - 1) as u32));
    }

    fn perform_deed(&mut self, deed: Deed) {
        match deed {
            Deed::CutPower => self.end(true),
            Deed::Afflict(member, change) => self.afflict(member, change),
        }
    }

    pub(super) fn afflict(&mut self, member: MemberId, change: impl FnOnce(&mut Faults)) {
        let mut faults = self.drives[member.place()].faults.clone();
        let was_there = !faults.gone;
        change(&mut faults);
        if was_there && faults.gone {
            self.let_land(member, 0..u64::MAX);
        }
        let drive = &mut self.drives[member.place()];
        drive.faults = faults;
        if !drive.faults.hangs {
            let (released, hung) =
                core::mem::take(&mut self.hung).into_iter().partition(|&(of, _)| of == member);
            self.hung = hung;
            let released: Vec<_> = released;
            released.into_iter().for_each(|(_, event)| self.schedule(self.now, event));
        }
    }

    /// A submission or completion is about to happen: first what was planned for it. Whether there may have been something.
    #[inline(always)]
    fn step(&mut self) -> bool {
        let planned = !self.by_step.is_empty();
        if planned {
            self.perform_planned();
        }
        self.steps += u64::from(!self.ended);
        planned
    }

    #[inline(never)]
    fn perform_planned(&mut self) {
        while let Some(first) = self.by_step.first_entry() {
            if *first.key() > self.steps {
                break;
            }
            first.remove().into_iter().for_each(|deed| self.perform_deed(deed));
        }
    }

    /// Takes an operation, of the first executor or, as in all that is `BEYOND`, of another.
    pub(super) fn submit<const BEYOND: bool>(&mut self, key: OpKey, op: OpView<'_>) {
        let bounce = self.shared.bounce(op.segments);
        let segments = bounce.as_ref().map_or(op.segments, Bounce::segments);
        let member = op.kind.member();
        if member.is_some() && !self.ended {
            self.step();
        }
        if self.ended {
            self.frozen.push(key);
            return;
        }
        let [a, b, c, d] = words(op.kind);
        let end = if let OpKind::Write { offset, .. } = op.kind { offset.saturating_add(op.len) } else { 0 };
        let drive = member.and_then(|member| self.drives.get(member.place()));
        let kept = drive.is_none_or(|drive| drive.keeps(end));
        let bytes = if op.kind.fills() || !kept { 0 } else { bytes_of(segments) };
        self.trace.note(&[self.now, u64::from(key.0), a, b, c, d, op.class as u64, op.len, bytes]);
        let Some(member) = member else {
            if let Some(into) = self.pipes.submit(key, op, bounce, &mut self.completed) {
                self.pump_soon(into);
            }
            return;
        };
        let Some(drive) = self.drives.get_mut(member.place()) else {
            self.completed.push(Completion { key, result: Err(OpError::Gone) });
            return;
        };
        drive.given[op.class as usize] += 1;
        match op.kind {
            OpKind::Read { .. } => drive.moved[0] += op.len,
            OpKind::Write { .. } => drive.moved[1] += op.len,
            _ => {}
        }
        let covers = drive.disk.newest_write();
        let mut flying = Flying { kind: op.kind, segments, len: op.len, covers, fails: false, changes: None };
        if let Some(bug) = misaligned(drive, &op) {
            self.bug = Some(bug);
            self.completed.push(Completion { key, result: Err(OpError::Medium(EINVAL)) });
            return;
        }
        flying.changes = self.note_change(member, key, &flying);
        if BEYOND {
            self.others.put(key.0, flying);
        } else {
            let at = key.0 as usize;
            if at >= self.flying.len() {
                self.flying.resize(at + 1, None);
            }
            self.flying[at] = Some(flying);
        }
        if let Some(bounce) = bounce {
            self.bounces.insert(key.0, bounce);
        }
        if self.drives[member.place()].timing.enter(key, op.kind) {
            self.begin::<BEYOND>(key);
        }
    }

    /// Notes a change that begins, and whether it overlaps others under way.
    fn note_change(&mut self, member: MemberId, key: OpKey, op: &Flying) -> Option<RangeKey> {
        let (offset, len, _) = op.change()?;
        let range = offset..offset.saturating_add(len);
        let changing = &mut self.drives[member.place()].changing;
        let over = || changing.over(&range).first().map(|&first| *changing.get(first));
        if self.hostility.overlaps != Overlaps::Allowed
            && changing.last_over(&range).is_some()
            && let Some(first) = over().and_then(|first| find(&self.flying, &self.others, first.0))
            && let Some((start, len, _)) = first.change()
        {
            let overlap = Overlap {
                first: (first.kind, start..start.saturating_add(len)),
                second: (op.kind, range.clone()),
                step: self.steps,
            };
            if self.hostility.overlaps == Overlaps::Panic {
                self.bug = Some(format!("writes in flight overlap: {overlap:?}"));
            }
            self.overlaps.push(overlap);
        }
        Some(changing.insert(range, key))
    }

    /// An operation has its channel.
    fn begin<const BEYOND: bool>(&mut self, key: OpKey) {
        let op = if BEYOND { self.others.get_mut(key.0) } else { &mut self.flying[key.0 as usize] };
        let Some(op) = op else { return };
        let Some(member) = op.kind.member() else { return };
        let drive = &mut self.drives[member.place()];
        let latency = drive.timing.latency(self.now, op.kind, op.len, &mut self.rng);
        let mut slowness = u64::from(drive.faults.slowness.max(1));
        if drive.begin(op) {
            // The drive retries for a while before it reports the error, and other operations may overtake this one.
            slowness *= 1 + self.rng.below(4);
        }
        self.schedule(self.now.saturating_add(latency.saturating_mul(slowness)), SimEvent::Ready(key.0));
    }

    /// Whether the first executor need not wait, or must not wait longer: takes what has completed.
    ///
    /// # Panics
    /// With a bug that was found, and at the end of the world if nothing was to wait for it.
    #[inline(always)]
    pub(super) fn has_come(&mut self, done: &mut Vec<Completion>, until: Option<u64>) -> bool {
        if let Some(bug) = self.bug.take() {
            panic!("{bug}");
        }
        if !self.completed.is_empty() {
            done.append(&mut self.completed);
            return true;
        }
        if self.ended {
            let wait = until.is_none_or(|until| until > self.now);
            assert!(!wait || self.watcher.is_some(), "the world has ended: run it within Sim::until_end");
        }
        self.ended
    }

    /// Does what is next, if that comes no later than `until`. Otherwise time goes on to `until`. In line with the turn of an executor
    /// that is alone.
    ///
    /// # Panics
    /// If nothing is to come and `until` is `None`.
    #[inline(always)]
    pub(super) fn advance(&mut self, until: Option<u64>) -> bool {
        match self.agenda.next() {
            Some(at) if until.is_none_or(|until| at <= until.max(self.now)) => {}
            _ => {
                let Some(until) = until else { self.nothing_to_come() };
                self.now = self.now.max(until);
                return false;
            }
        }
        let Some((at, event)) = self.agenda.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            SimEvent::Ready(key) if is_first(key) => self.ready::<false>(key, event),
            SimEvent::Done(key) if is_first(key) => self.done::<false>(key, event),
            SimEvent::Ready(_) | SimEvent::Done(_) => self.happens_beyond(event),
            SimEvent::Pump(socket) => {
                if self.pump(SocketId(socket)) {
                    self.pump_soon(SocketId(socket));
                }
            }
            SimEvent::Deed(at) => {
                if let Some(deed) = self.timed[at as usize].take() {
                    self.perform_deed(deed);
                }
            }
        }
        true
    }

    /// Gives each executor its completions: what is left is the first one's.
    pub(super) fn sort_completions(&mut self) {
        self.others.sort(&mut self.completed);
    }

    /// As [`SimWorld::advance`], to the moment that any executor wants. False once that of the first has come.
    pub(super) fn advance_for_all(&mut self, until: Option<u64>) -> bool {
        let first = match (until, self.others.until()) {
            (Some(own), Some(theirs)) => Some(own.min(theirs)),
            (own, theirs) => own.or(theirs),
        };
        self.advance(first) || until.is_none_or(|until| until > self.now)
    }

    fn nothing_to_come(&self) -> ! {
        let mut kinds: Vec<_> = self.flying.iter().flatten().map(|op| op.kind).collect();
        kinds.extend(self.others.kinds());
        panic!("every task waits, for nothing that could come; on drives that hang: {kinds:?}")
    }

    /// Puts an event of a drive that hangs aside.
    fn hangs<const BEYOND: bool>(&mut self, key: u32, event: SimEvent) -> Option<MemberId> {
        let op = if BEYOND { self.others.get_mut(key) } else { &mut self.flying[key as usize] };
        let member = op.as_ref()?.kind.member()?;
        let faults = &self.drives[member.place()].faults;
        if faults.hangs {
            self.hung.push((member, event));
            return None;
        }
        Some(member)
    }

    /// In line with [`SimWorld::advance`].
    #[inline(always)]
    fn ready<const BEYOND: bool>(&mut self, key: u32, event: SimEvent) {
        let Some(member) = self.hangs::<BEYOND>(key, event) else { return };
        let op = if BEYOND { self.others.get_mut(key) } else { &mut self.flying[key as usize] };
        let Some(op) = op else { return };
        let drive = &mut self.drives[member.place()];
        let slowness = u64::from(drive.faults.slowness.max(1));
        match drive.timing.transfer(self.now, op.kind, op.len, slowness, &mut self.uplink) {
            Some(at) => self.schedule(at, SimEvent::Done(key)),
            None => self.done::<BEYOND>(key, event),
        }
    }

    fn done<const BEYOND: bool>(&mut self, key: u32, event: SimEvent) {
        let Some(member) = self.hangs::<BEYOND>(key, event) else { return };
        // A deed before the step may have made it hang.
        let may_hang = self.step();
        if self.ended || may_hang && self.hangs::<BEYOND>(key, event) != Some(member) {
            return;
        }
        let taken = if BEYOND { self.others.get_mut(key).take() } else { self.flying[key as usize].take() };
        let Some(op) = taken else { return };
        if let OpKind::Read { offset, .. } = op.kind {
            // A read may see part of a write under way.
            self.let_land(member, offset..offset.saturating_add(op.len));
        }
        let mut bounce = if self.bounces.is_empty() { None } else { self.bounces.remove(&key) };
        if let Some(bounce) = bounce.as_mut().filter(|_| !op.kind.fills()) {
            // Each drive takes the bytes when it comes to them, and others have changed them since.
            bounce.load();
        }
        let drive = &mut self.drives[member.place()];
        let result = drive.perform(&op, &self.hostility, &mut self.rng);
        if let (Some(bounce), Ok(moved), true) = (&bounce, result, op.kind.fills()) {
            bounce.store(moved);
        }
        if let Some(change) = op.changes {
            drive.changing.remove(change);
        }
        let next = drive.timing.leave();
        let (kind, value) = match result {
            Ok(value) => (0, value),
            Err(_) => (1, 0),
        };
        self.trace.note(&[self.now, u64::from(key), kind, value]);
        self.completed.push(Completion { key: OpKey(key), result });
        match next {
            Some(next) if is_first(next.0) => self.begin::<false>(next),
            Some(next) => self.begin::<true>(next),
            None => {}
        }
    }

    /// The power goes, or only the process ends: operations under way take effect in part or not at all, and nothing
    /// happens after that.
    pub(super) fn end(&mut self, power: bool) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.trace.note(&[self.now, u64::MAX, u64::from(power)]);
        if power {
            self.drives.iter_mut().for_each(|drive| drive.disk.cut_power(&mut self.rng));
        }
        let keys = self.cut_off(power);
        self.frozen.extend(keys);
        self.frozen.extend(self.completed.drain(..).map(|completion| completion.key));
        self.agenda.clear();
        self.hung.clear();
        if let Some((scheduler, task)) = &self.watcher {
            scheduler.wake(*task);
        }
    }

    /// Changes under way on a drive that overlap a range take their effect in part, before their time.
    fn let_land(&mut self, member: MemberId, range: Range<u64>) {
        let drive = &mut self.drives[member.place()];
        if drive.changing.last_over(&range).is_none() {
            return;
        }
        for change in drive.changing.over(&range) {
            let key = *drive.changing.get(change);
            if let Some(op) = find(&self.flying, &self.others, key.0) {
                drive.cut_off(op, false, &mut self.rng);
            }
        }
    }

    /// All that is under way takes its effect in part; gives the keys.
    fn cut_off(&mut self, power: bool) -> Vec<OpKey> {
        let mut keys = Vec::new();
        let own = (0..).zip(&mut self.flying).filter_map(|(key, op)| Some((key, op.take()?)));
        for (key, op) in own.chain(self.others.take_flying()) {
            keys.push(OpKey(key));
            if let Some(drive) = op.kind.member().and_then(|member| self.drives.get_mut(member.place())) {
                drive.cut_off(&op, power, &mut self.rng);
            }
        }
        keys
    }

    /// Bytes may move into this end: at once, or when they have come the way.
    fn pump_soon(&mut self, into: SocketId) {
        if self.hostility.socket_latency.is_zero() {
            while self.pump(into) {}
            return;
        }
        let latency = self.rng.up_to(self.hostility.socket_latency.as_nanos() as u64);
        self.schedule(self.now.saturating_add(latency), SimEvent::Pump(into.0));
    }

    /// Moves the bytes of one step; returns whether there were any.
    fn pump(&mut self, into: SocketId) -> bool {
        if self.rng.chance(self.hostility.socket_resets) {
            self.pipes.reset(into, &mut self.completed);
            return false;
        }
        let fragment = self.rng.chance(self.hostility.socket_fragments);
        let most = if fragment { 1 + self.rng.below(MOST_FRAGMENT) as usize } else { usize::MAX };
        let before = self.completed.len();
        let more = self.pipes.pump(into, most, &mut self.completed);
        for completion in &self.completed[before..] {
            let moved = completion.result.unwrap_or(u64::MAX);
            self.trace.note(&[self.now, u64::from(completion.key.0), moved]);
        }
        more
    }

    pub(super) fn close_socket(&mut self, socket: SocketId) {
        let peer = self.pipes.close(socket, &mut self.completed);
        if self.ended {
            self.frozen.extend(self.completed.drain(..).map(|completion| completion.key));
        } else if let Some(peer) = peer {
            self.pump_soon(peer);
        }
    }

    /// Operations that wait without end for no drive (on pipes) are completed: the executor ends.
    pub(super) fn cancel_all(&mut self) {
        self.pipes.cancel_all(&mut self.completed);
        let cancelled = |key| Completion { key, result: Err(OpError::Cancelled) };
        self.completed.extend(self.frozen.drain(..).map(cancelled));
    }

    /// An event of an operation of an executor beside the first.
    #[cold]
    #[inline(never)]
    fn happens_beyond(&mut self, event: SimEvent) {
        match event {
            SimEvent::Ready(key) => self.ready::<true>(key, event),
            SimEvent::Done(key) => self.done::<true>(key, event),
            SimEvent::Pump(_) | SimEvent::Deed(_) => {}
        }
    }

    /// An executor beside the first has ended.
    pub(super) fn detach_port(&mut self, number: usize) {
        self.others.let_go(number);
        self.bounces.retain(|key, _| key >> KEY_BITS != number as u32);
    }

    /// The executor has ended: operations that drives still have in hand take effect in part, without a completion.
    pub(super) fn detach(&mut self) {
        self.attached = false;
        self.sort_completions();
        if self.flying.iter().any(Option::is_some) || self.others.kinds().next().is_some() {
            let cut_off = self.cut_off(false);
            let cancelled = |key| Completion { key, result: Err(OpError::Cancelled) };
            self.others.sort(&mut cut_off.into_iter().map(cancelled).collect());
            self.agenda.retain(|event| !matches!(event, SimEvent::Ready(_) | SimEvent::Done(_)));
            self.hung.clear();
            self.drives.iter_mut().for_each(Drive::forget_work);
        }
        self.flying.clear();
        self.bounces.clear();
        self.shared = SharedMemory::default();
        self.completed.clear();
    }
}

/// Whether an operation is the first executor's. All that happens to such a one is compiled apart from what happens to others': a world of one
/// executor pays a comparison for each event.
#[inline(always)]
fn is_first(key: u32) -> bool {
    key >> KEY_BITS == 0
}

/// The operation of any key.
fn find<'a>(flying: &'a [Option<Flying>], others: &'a Others, key: u32) -> Option<&'a Flying> {
    if is_first(key) { flying[key as usize].as_ref() } else { flying_beyond(others, key) }
}

/// The refusal of a real drive: a range or memory that is not aligned to logical blocks.
fn misaligned(drive: &Drive, op: &OpView<'_>) -> Option<String> {
    let block = u64::from(drive.info.logical_block);
    let (offset, len) = match op.kind {
        OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => (offset, op.len),
        OpKind::Discard { offset, len, .. } | OpKind::WriteZeroes { offset, len, .. } => (offset, len),
        _ => return None,
    };
    let whole = |bytes: u64| bytes.is_multiple_of(block);
    let memory = op.segments.iter().all(|segment| whole(segment.len as u64));
    if whole(offset) && whole(len) && memory {
        return None;
    }
    let lengths: Vec<_> = op.segments.iter().map(|segment| segment.len).collect();
    Some(format!(
        "not aligned to logical blocks of {block}: {:?}, {len} bytes, memory of {lengths:?}",
        op.kind
    ))
}
