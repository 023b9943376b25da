//! Modelled drives in virtual time: the same seed gives the same run, to the byte.
//!
//! Nothing here reads a clock or chance from outside. Time moves only when every task waits: to the next completion
//! or timer.
//!
//! The drives are no better than real ones may be. Sectors that were never written hold noise, discarded ones
//! anything. A volatile cache is lost at a power cut, what is under way then takes effect in part, and so does a
//! change that fails. [`Faults`] are those of a drive; [`Hostility`] has faults that the world makes by itself.

mod agenda;
mod busy;
mod cache;
mod content;
mod curve;
mod disk;
mod drive;
mod emulation;
mod faults;
mod head;
mod look_ahead;
mod model;
mod others;
mod ports;
mod rng;
mod stations;
mod timing;
mod trace;
mod world;

use core::future::{Future, poll_fn};
use core::ops::Range;
use core::pin::pin;
use core::ptr::NonNull;
use core::task::Poll;
use std::cell::RefCell;
use std::rc::Rc;

use crate::exec::Io;
use crate::op::{Completion, MemberId, MemberInfo, OpClass, OpKey, OpKind, OpView, SocketId};
use crate::reactor::{HandedDevice, HandedEnd, HandedMember, HandedSocket, Reactor, Unpark};
use crate::time::{Duration, Instant};
use content::Unwritten;
pub use curve::Curve;
use drive::Drive;
pub use emulation::Emulation;
pub use faults::{BadRange, Faults, Lasts};
pub use model::Model;
pub use stations::{Path, Platter, Stations};
use world::{Deed, SimWorld};

/// Faults that the world causes by itself, at random from its seed. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hostility {
    /// Per mille of transfers of more than a block that move fewer bytes than asked.
    pub short_transfers: u32,
    /// The treatment of changes under way that overlap on one drive.
    pub overlaps: Overlaps,
    /// Bytes of a connection are on their way for no longer than this.
    pub socket_latency: Duration,
    /// Per mille of sends and receives that come back short, with but a few bytes.
    pub socket_fragments: u32,
    /// Per mille of sends and receives that break the connection.
    pub socket_resets: u32,
}

/// The treatment of writes, write-zeroes and discards under way that overlap on one drive. Drives carry them out in
/// any order, so that redundancy would come to differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlaps {
    /// Overlaps are not checked: ordering them is the client's task, where there is no redundancy.
    #[default]
    Allowed,
    /// [`Sim::overlaps`] lists them.
    Reported,
    /// The second one panics.
    Panic,
}

/// Two changes under way that overlapped: of which kind, and from which byte of the drive to which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The one that was under way.
    pub first: (OpKind, Range<u64>),
    /// The one that came.
    pub second: (OpKind, Range<u64>),
    /// When it came; see [`When::Step`].
    pub step: u64,
}

/// When something planned happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Just before the step of this number. Each submission and each completion of an operation on a drive is a step;
    /// the first has number 0.
    Step(u64),
    /// At this time.
    Moment(Instant),
}

/// The sim reactor. A handle: cloning gives the same world, so that a test keeps one while [`crate::Io`] owns another.
#[derive(Clone)]
pub struct Sim(Rc<RefCell<SimWorld>>);

impl Sim {
    /// A world without drives, at moment 0.
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(SimWorld::new(seed))))
    }

    /// A drive of `bytes` bytes that keeps what is written to it, and holds noise wherever nothing was.
    pub fn add_drive(&self, model: Model, bytes: u64) -> MemberId {
        let noise = self.0.borrow_mut().rng.next();
        self.add(model, bytes, Some(Unwritten::Noise(noise)))
    }

    /// A drive that reads as zeroes wherever nothing was written: a new sparse file.
    pub fn add_blank_drive(&self, model: Model, bytes: u64) -> MemberId {
        self.add(model, bytes, Some(Unwritten::Zeroes))
    }

    /// A drive that only takes its time: reads give whatever the buffer held, and the digest of the run tells nothing of
    /// the bytes of writes.
    pub fn add_hollow_drive(&self, model: Model, bytes: u64) -> MemberId {
        self.add(model, bytes, None)
    }

    fn add(&self, model: Model, bytes: u64, unwritten: Option<Unwritten>) -> MemberId {
        self.put(Drive::new(model, bytes, unwritten))
    }

    /// A hollow drive that takes as long as a real one was measured to take.
    pub fn add_measured_drive(&self, stations: &Rc<Stations>, bytes: u64) -> MemberId {
        self.put(Drive::measured(Rc::clone(stations), bytes))
    }

    /// From now on a hollow drive keeps its first `bytes` bytes: it can carry superblocks, and still only takes its time with
    /// what stands beyond.
    pub fn keep_beginning(&self, member: MemberId, bytes: u64) {
        self.with(member, |drive| drive.disk.keep_beginning(bytes));
    }

    fn put(&self, drive: Drive) -> MemberId {
        let drives = &mut self.0.borrow_mut().drives;
        drives.push(drive);
        MemberId::device((drives.len() - 1) as u32)
    }

    /// Sets faults that the world makes by itself from now on.
    pub fn set_hostility(&self, hostility: Hostility) {
        self.0.borrow_mut().hostility = hostility;
    }

    fn with<T>(&self, member: MemberId, f: impl FnOnce(&mut Drive) -> T) -> T {
        f(&mut self.0.borrow_mut().drives[member.place()])
    }

    /// Copies the content that a reader of the drive would see, without the engine's knowledge.
    pub fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        self.with(member, |drive| drive.disk.peek(offset, into));
    }

    /// Changes the drive's bytes, for good, beside the engine's back.
    pub fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        self.with(member, |drive| drive.disk.poke(offset, from));
    }

    /// A bit of each sector in the range flips, and the drive says nothing of it.
    pub fn rot(&self, member: MemberId, range: Range<u64>) {
        let world = &mut *self.0.borrow_mut();
        let drive = &mut world.drives[member.place()];
        for sector in range.clone().step_by(content::SECTOR) {
            let (at, bit) = (sector + world.rng.below(content::SECTOR as u64), world.rng.below(8));
            let mut byte = [0];
            drive.disk.peek(at, &mut byte);
            drive.disk.poke(at, &[byte[0] ^ 1 << bit]);
        }
        drive.faults.silent.push(range);
    }

    /// The drive has `size` bytes from now on, as a file after `truncate`: what was beyond is gone, reads end there,
    /// and a write beyond it makes the drive longer again, with a hole that reads as zeroes. A restart finds the
    /// drive with that size.
    ///
    /// # Panics
    /// If that is more than it began with.
    pub fn truncate(&self, member: MemberId, size: u64) {
        let world = &mut *self.0.borrow_mut();
        let drive = &mut world.drives[member.place()];
        assert!(size <= drive.info.size, "a drive does not grow");
        drive.truncate(size, &mut world.rng);
    }

    /// Drops the data that the drive has not made stable, as a failed flush does.
    pub fn forget_unflushed(&self, member: MemberId) {
        self.with(member, |drive| drive.disk.forget_unflushed());
    }

    /// The drive's present faults.
    pub fn faults(&self, member: MemberId) -> Faults {
        self.with(member, |drive| drive.faults.clone())
    }

    /// Changes the faults of the drive.
    pub fn afflict(&self, member: MemberId, change: impl FnOnce(&mut Faults)) {
        self.0.borrow_mut().afflict(member, change);
    }

    /// Changes what is wrong with the drive when the time has come.
    pub fn schedule(&self, when: When, member: MemberId, change: impl FnOnce(&mut Faults) + 'static) {
        self.plan(when, Deed::Afflict(member, Box::new(change)));
    }

    /// Nanoseconds for which the shared station of a measured drive, or its head, was at work; 0 of others.
    pub fn worked(&self, member: MemberId) -> u64 {
        self.with(member, |drive| drive.timing.worked())
    }

    /// Operations that the drive was given.
    pub fn operations(&self, member: MemberId) -> u64 {
        self.0.borrow().drives[member.place()].given.iter().sum()
    }

    /// Operations of a class.
    pub fn operations_of(&self, member: MemberId, class: OpClass) -> u64 {
        self.0.borrow().drives[member.place()].given[class as usize]
    }

    /// Bytes that the drive was asked to read, and to write.
    pub fn moved(&self, member: MemberId) -> [u64; 2] {
        self.0.borrow().drives[member.place()].moved
    }

    /// From now on every operation on the drive fails with [`crate::OpError::Gone`].
    pub fn kill(&self, member: MemberId) {
        self.afflict(member, |faults| faults.gone = true);
    }

    /// The drive is pulled: it is gone, and answers as [`Faults::pulled`] has it.
    pub fn pull(&self, member: MemberId) {
        self.afflict(member, |faults| (faults.gone, faults.pulled) = (true, true));
    }

    /// Reads that touch the range fail with [`crate::OpError::Medium`] until it has been written to.
    pub fn spoil(&self, member: MemberId, offset: u64, len: u64) {
        let bad = BadRange::until_written(offset..offset + len);
        self.afflict(member, |faults| faults.unreadable.push(bad));
    }

    /// From now on every write to the drive fails with [`crate::OpError::Medium`].
    pub fn refuse_writes(&self, member: MemberId) {
        self.afflict(member, |faults| faults.unwritable.push(BadRange::forever(0..u64::MAX)));
    }

    /// Changes under way that overlapped, if [`Overlaps::Reported`] is set.
    pub fn overlaps(&self) -> Vec<Overlap> {
        self.0.borrow().overlaps.clone()
    }

    /// Steps so far; see [`When::Step`].
    pub fn steps(&self) -> u64 {
        self.0.borrow().steps
    }

    /// A digest of every submission and completion so far, with its moment and what it wrote, and their number: equal
    /// for equal runs.
    pub fn trace(&self) -> (u64, u64) {
        let trace = &self.0.borrow().trace;
        (trace.digest, trace.events)
    }

    fn plan(&self, when: When, deed: Deed) {
        let world = &mut *self.0.borrow_mut();
        match when {
            When::Step(step) => world.by_step.entry(step).or_default().push(deed),
            When::Moment(at) => world.schedule_deed(at.as_nanos(), deed),
        }
    }

    /// The power goes, now. Writes under way take effect at any of their tear units, volatile caches lose what the seed
    /// has them lose, and the world stands still: nothing is accepted or completed any more, and time does not go on.
    ///
    /// [`Sim::until_end`] gives the driver of the run control again, and [`Sim::restart`] a new world.
    pub fn cut_power(&self) {
        self.0.borrow_mut().end(true);
    }

    /// The power goes when the time has come; see [`Sim::cut_power`].
    pub fn cut_power_at(&self, when: When) {
        self.plan(when, Deed::CutPower);
    }

    /// Whether the world stands still, since a power cut or a restart.
    pub fn has_ended(&self) -> bool {
        self.0.borrow().ended
    }

    /// Runs `future`, a task's of `io`, to its end; `None` if the world ends first.
    pub async fn until_end<T>(&self, io: &Io, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let _watch = Watch(self);
        poll_fn(|cx| {
            let watcher = (Rc::clone(&io.0.core.scheduler), io.current_task());
            self.0.borrow_mut().watcher = Some(watcher);
            let polled = if self.has_ended() { Poll::Pending } else { future.as_mut().poll(cx) };
            if self.has_ended() { Poll::Ready(None) } else { polled.map(Some) }
        })
        .await
    }

    /// A new world, at moment 0, with the drives as a new start of the process finds them; numbers and faults stay. If
    /// the power was not cut, only the process ends: what is under way takes effect in part, but caches keep what they
    /// have. This world stands still from then on and has no drives any more; what was planned in it is forgotten.
    pub fn restart(&self, seed: u64) -> Self {
        let mut new = SimWorld::new(seed);
        let old = &mut *self.0.borrow_mut();
        old.end(false);
        new.hostility = old.hostility;
        new.drives = core::mem::take(&mut old.drives);
        new.drives.iter_mut().for_each(Drive::reopen);
        Self(Rc::new(RefCell::new(new)))
    }

    /// A listening socket within the world.
    pub fn listen(&self) -> SocketId {
        self.0.borrow_mut().pipes.listen()
    }

    /// The ends of a pair of ports: what is sent to one comes to the other, message by message.
    pub fn ports(&self) -> [SocketId; 2] {
        self.0.borrow_mut().pipes.ports()
    }

    /// The client's end of a new connection to `listener`.
    pub fn connect(&self, listener: SocketId) -> SocketId {
        let world = &mut *self.0.borrow_mut();
        world.pipes.connect(listener, &mut world.completed)
    }

    /// The connection of this end breaks, now: what is under way is lost, and both ends get
    /// [`crate::OpError::Disconnected`].
    pub fn reset(&self, socket: SocketId) {
        let world = &mut *self.0.borrow_mut();
        if !world.ended {
            world.pipes.reset(socket, &mut world.completed);
        }
    }
}

/// Nobody waits for the world's end any more.
struct Watch<'a>(&'a Sim);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.0.borrow_mut().watcher = None;
    }
}

// SAFETY: an operation leaves the list of those that fly, with the segments, when its one completion is noted, or when the
// world has ended and it is only to be cancelled. A pipe takes the segments it keeps out of its state when it notes their
// operation's completion.
unsafe impl Reactor for Sim {
    fn attach(&mut self) {
        let attached = &mut self.0.borrow_mut().attached;
        assert!(!*attached, "the reactor has an executor: shut that down first");
        *attached = true;
    }

    fn detach(&mut self) {
        self.0.borrow_mut().detach();
    }

    fn register_arena(&mut self, _: u32, _: NonNull<[u8]>) {}
    fn unregister_arena(&mut self, _: u32) {}

    fn share(&mut self, memory: NonNull<[u8]>) {
        self.0.borrow_mut().shared.add(memory);
    }

    fn unshare(&mut self, memory: NonNull<[u8]>) {
        self.0.borrow_mut().shared.remove(memory);
    }

    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        self.0.borrow_mut().submit::<false>(key, op);
    }

    /// # Panics
    /// If every task waits and no event is left: in the real world the program would hang. The same after the end of
    /// the world, unless a task waits in [`Sim::until_end`]. Also if an operation was not aligned to its drive's
    /// logical blocks, or overlapped another where that is forbidden.
    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let until = until.map(Instant::as_nanos);
        let mut world = self.0.borrow_mut();
        if world.others.is_any() {
            drop(world);
            return self.park_with_others(done, until);
        }
        let world = &mut *world;
        while !world.has_come(done, until) && world.advance(until) {}
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.borrow().now)
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.borrow().drives.get(member.place()).map(|drive| drive.info)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let world = &mut *self.0.borrow_mut();
        world.close_socket(socket);
    }

    fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.0.borrow().pipes.untaken(socket)
    }

    fn cancel_all(&mut self) {
        self.0.borrow_mut().cancel_all();
    }

    /// Wakes the first executor for others of its world: no other thread can.
    fn unpark(&self) -> Unpark {
        self.0.borrow().others.unpark()
    }

    fn release_socket(&mut self, socket: SocketId) -> Option<HandedSocket> {
        Some(HandedSocket(HandedEnd::Number(socket)))
    }

    fn adopt_socket(&mut self, handed: HandedSocket) -> Option<SocketId> {
        ports::number(&handed)
    }

    fn hand_member(&self, member: MemberId) -> Option<HandedMember> {
        self.member_info(member).map(|_| HandedMember(HandedDevice::Number(member)))
    }
}
