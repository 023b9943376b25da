//! Reads in a channel.

use core::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brindle_io::{Duration, Instant, Io, MemberId, OpSpan, Slice};
use brindle_layout::Family;
use brindle_members::direct::{Stretch, read_alone};
use brindle_members::events::Cause;
use brindle_members::flushes::Flushes;
use brindle_members::members::{Dependence, Device, Members};
use brindle_members::patience::Patience;
use brindle_members::set::{MemberSet, Owner, Recording, Treatment};
use brindle_volume::VolumeError;

use crate::channels::shared::{ChannelPlan, Given, PlannedMember, Seed};
use crate::data::{mirrored, parity, striped};

/// An array as a reactor beside its home reads it.
pub(crate) struct Channel {
    /// With operations of its own.
    io: Io,
    seed: Seed,
    /// The copy of the members' states: of a whole array, or `None`. It changes between two polls of other tasks, when home asks to look.
    open: RefCell<Option<Rc<OpenChannel>>>,
    /// A member kept a read waiting for too long, and has not answered since: home judges it, and reads all meanwhile.
    in_doubt: Cell<bool>,
    /// A task looks how long reads take.
    is_patrolled: Cell<bool>,
    /// Reads of all channels of this reactor.
    all: Arc<AtomicU64>,
}

/// An open channel.
struct OpenChannel {
    set: MemberSet,
    plan: Arc<ChannelPlan>,
    ports: Vec<Port>,
}

/// A port, with the number by which home knows its device, and what it has given that is counted already.
type Port = (MemberId, MemberId, Cell<Given>);

impl Channel {
    pub(super) fn new(io: &Io, seed: Seed, all: Arc<AtomicU64>) -> Rc<Self> {
        let (open, in_doubt, is_patrolled) = (RefCell::default(), Cell::default(), Cell::default());
        let channel = Rc::new(Self { io: io.owned(), seed, open, in_doubt, is_patrolled, all });
        channel.look();
        channel
    }

    /// Acts by the newest plan from now on. No read of an older one is answered after this.
    pub(super) fn look(&self) {
        let plan = self.seed.shared.get();
        let present = self.open.borrow().as_ref().map(|open| Arc::as_ptr(&open.plan));
        if present.is_some() && present == plan.as_ref().map(Arc::as_ptr) {
            return;
        }
        self.close();
        *self.open.borrow_mut() = plan.and_then(|plan| OpenChannel::new(&self.io, plan)).map(Rc::new);
    }

    /// Hands all reads to home, those under way too.
    fn close(&self) {
        let Some(open) = self.open.take() else { return };
        self.publish(&open);
        for &(port, ..) in &open.ports {
            self.io.give_up(port, OpSpan::Read, self.io.ran());
            self.io.close_port(port);
        }
    }

    /// Reads a range; false if home has to, which judges what was met. The memory is as good as before then.
    ///
    /// # Errors
    /// [`VolumeError::Again`]: a member may still fill this memory.
    pub(super) async fn read(self: &Rc<Self>, offset: u64, into: &[Slice]) -> Result<bool, VolumeError> {
        let open = match &*self.open.borrow() {
            Some(open) if !self.in_doubt.get() => Rc::clone(open),
            _ => return Ok(false),
        };
        // Home says what is wrong with a request.
        let door = open.set.door(None);
        if !open.plan.limits.check_list(offset, into).is_ok_and(|len| len > 0) || !door.reads_alone(into) {
            return Ok(false);
        }
        if !self.is_patrolled.get() {
            self.begin_patrol();
        }
        let Ok((pending, asked)) = read_alone(door, offset, into, |at| open.place(at)) else {
            return Ok(false);
        };
        let outcome = pending.await;
        if asked.is_well(&open.set, &outcome) && self.is_still(&open) {
            self.seed.counts.count();
            self.all.store(self.all.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return Ok(true);
        }
        if into.iter().any(Slice::is_pinned) { Err(VolumeError::Again) } else { Ok(false) }
    }

    /// Whether home has not closed since what was then open.
    #[inline]
    fn is_still(&self, open: &Rc<OpenChannel>) -> bool {
        self.open.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, open))
    }

    #[cold]
    fn begin_patrol(self: &Rc<Self>) {
        self.is_patrolled.set(true);
        drop(self.io.spawn(patrol(Rc::downgrade(self), self.io.clone())));
    }

    /// Gives up reads that have taken too long, and counts what members have given. The time until the next look; `None` if nothing is
    /// under way.
    fn look_at_ports(&self) -> Option<Duration> {
        let Some(open) = self.open.borrow().clone() else {
            self.in_doubt.set(false);
            return None;
        };
        let now = self.io.ran();
        let oldest = |&(port, ..): &Port| self.io.oldest(port, OpSpan::Read);
        let ages: Vec<Option<Duration>> =
            open.ports.iter().map(|port| Some(now.since(oldest(port)?))).collect();
        for (at, &(port, ..)) in open.ports.iter().enumerate() {
            if let Some(patience) = open.overdue(&ages, at) {
                let before = now.as_nanos().saturating_sub(patience.as_nanos() as u64);
                self.io.give_up(port, OpSpan::Read, Instant::from_nanos(before));
                self.in_doubt.set(true);
            }
        }
        let (is_busy, waits) = (
            ages.iter().any(Option::is_some),
            open.ports.iter().any(|&(port, ..)| self.io.orphans(port) > 0),
        );
        self.in_doubt.set(self.in_doubt.get() && waits);
        self.publish(&open);
        (is_busy || self.in_doubt.get()).then(|| open.tick())
    }

    fn publish(&self, open: &OpenChannel) {
        for (port, id, counted) in &open.ports {
            let counters = self.io.counters(*port);
            let now = Given { reads: counters.reads, bytes: counters.bytes_read };
            let before = counted.replace(now);
            if now != before {
                let more = Given { reads: now.reads - before.reads, bytes: now.bytes - before.bytes };
                self.seed.counts.add(*id, more);
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

/// Looks at the reads of a channel some times a second, for as long as there are any.
async fn patrol(channel: Weak<Channel>, io: Io) {
    let mut next = channel.upgrade().and_then(|channel| Some(channel.open.borrow().as_ref()?.tick()));
    while let Some(tick) = next {
        io.sleep(tick).await;
        let Some(channel) = channel.upgrade() else { return };
        next = channel.look_at_ports();
    }
    if let Some(channel) = channel.upgrade() {
        channel.is_patrolled.set(false);
    }
}

impl OpenChannel {
    /// `None` if a port can't be had: home reads then.
    fn new(io: &Io, plan: Arc<ChannelPlan>) -> Option<Self> {
        let mut ports: Vec<Port> = Vec::new();
        for member in &plan.members {
            let Some(port) = io.open_port(&member.handed) else {
                ports.iter().for_each(|&(port, ..)| io.close_port(port));
                return None;
            };
            let counters = io.counters(port);
            let counted = Given { reads: counters.reads, bytes: counters.bytes_read };
            ports.push((port, member.id, Cell::new(counted)));
        }
        let device = |(&(id, ..), member): (&Port, &PlannedMember)| {
            Some(Device { id, data_offset: member.data_offset })
        };
        let members = Members::new(io, ports.iter().zip(&plan.members).map(device));
        let how = Treatment {
            dependence: Dependence { redundant: false, coupled: false },
            patience: Patience::default(),
            waits_for_space: false,
            observed: false,
            scratch: 0,
        };
        let nobody: Weak<dyn Owner> = Weak::<Nobody>::new();
        let set = MemberSet::new(io, Rc::new(members), Flushes::new(io), &how, nobody);
        Some(Self { set, plan, ports })
    }

    /// The member and offset that hold a byte of the array.
    #[inline(always)]
    fn place(&self, at: u64) -> Option<Stretch> {
        let members = &self.set.members;
        match self.plan.geometry.family() {
            Family::Striped(map) => striped::place(map, members, at),
            Family::Mirrored(map) => {
                mirrored::place(map, &self.plan.geometry, members, at, self.plan.first_copy)
            }
            Family::Parity(map) => parity::place(map, members, at),
        }
    }

    /// The patience that the oldest read of a port is beyond, by the ages of those of all.
    fn overdue(&self, ages: &[Option<Duration>], at: usize) -> Option<Duration> {
        let (age, plan) = (ages[at]?, &self.plan);
        let others = || ages.iter().enumerate().filter(|(other, _)| *other != at).filter_map(|(_, age)| *age);
        let early = plan.early.filter(|&early| age >= early && others().all(|other| other * 2 < age));
        early.or(Some(plan.patience).filter(|&patience| age >= patience))
    }

    fn tick(&self) -> Duration {
        (self.plan.early.unwrap_or(self.plan.patience) / 4)
            .clamp(Duration::from_millis(10), Duration::from_millis(250))
    }
}

/// Owns no members: nothing is decided in a channel.
enum Nobody {}

impl Owner for Nobody {
    fn set(&self) -> &MemberSet {
        match *self {}
    }

    fn can_lose(&self, _: &[u16]) -> bool {
        match *self {}
    }

    fn begin_failing(&self, _: u16, _: Cause) -> Result<Recording, VolumeError> {
        match *self {}
    }

    fn unrecorded(&self) -> Option<Recording> {
        match *self {}
    }

    fn answers_for_members(&self) -> bool {
        match *self {}
    }
}
