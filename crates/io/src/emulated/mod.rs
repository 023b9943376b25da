//! Members that store in a file and answer when a modelled drive would: a ring around which some members are held back.
//!
//! An operation on such a member is carried out at once, and its completion is handed over at the moment at which the model
//! ([`Emulation`]) says that it is done. Reads and writes go through the page cache, on the thread that asks: that takes the least
//! time, and nothing else can carry many operations a second on few cores. All else (flushes, discards, writes that have to be stable)
//! is the ring's, and held back likewise. Timers of the kernel come late by tens of microseconds: within `SPIN` of the next moment
//! the thread does not sleep, so that a busy emulation takes one core.
//!
//! A late answer makes its caller send the next request late, too, for which no drive is to blame. So a request sent
//! in the turn after a late answer counts as sent that much earlier, but by no more than `CREDIT`.

mod files;
mod tally;

use core::ptr::NonNull;
use std::cell::RefCell;
use std::rc::Rc;

use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, OpKind, OpView, SocketId};
use crate::reactor::{HandedMember, HandedSocket, Reactor, Unpark};
use crate::sim::{Emulation, Stations};
use crate::time::Instant;
use crate::uring::Uring;
pub use files::BufferedFile;
use tally::EmulatedTally;
pub use tally::Punctuality;

/// Nanoseconds before a due time for which the thread stays awake.
const SPIN: u64 = 150_000;
/// Most by which a request is taken to have come earlier than it did.
const CREDIT: u64 = 50_000;
/// The spread of latencies is the same in each run.
const SEED: u64 = 0x0065_6d75_6c61_7465;

/// A ring whose members may be emulated drives. A handle: cloning gives the same, so that members can be added while
/// [`crate::Io`] owns it. A ring without such members is asked as it is.
#[derive(Clone)]
pub struct Emulated {
    ring: Uring,
    state: Rc<RefCell<EmulatedState>>,
}

struct EmulatedState {
    emulation: Emulation,
    /// Indexed by the member's index.
    members: Vec<Option<EmulatedMember>>,
    /// Indexed by key: what is under way at emulated members.
    flights: Vec<Option<Flight>>,
    /// How many.
    under_way: usize,
    /// Nanoseconds by which the last answers were late: see `CREDIT`.
    late: u64,
    /// Room for what the ring and the model have done.
    completed: Vec<Completion>,
    due: Vec<(OpKey, u64)>,
}

struct EmulatedMember {
    /// Its number in the emulation.
    drive: usize,
    rotational: bool,
    file: BufferedFile,
    tally: EmulatedTally,
}

/// An operation: it is over when its file and its model both are.
struct Flight {
    member: MemberId,
    came: u64,
    result: Option<Result<u64, OpError>>,
    due: Option<u64>,
}

impl Emulated {
    /// A ring without emulated members.
    pub fn new(ring: Uring) -> Self {
        let state = EmulatedState {
            emulation: Emulation::new(SEED),
            members: Vec::new(),
            flights: Vec::new(),
            under_way: 0,
            late: 0,
            completed: Vec::new(),
            due: Vec::new(),
        };
        Self { ring, state: Rc::new(RefCell::new(state)) }
    }

    /// From now on a member of the ring, which is kept in `file`, answers when a drive with these stations would.
    ///
    /// # Panics
    /// If the ring has no such member.
    pub fn emulate(&self, member: MemberId, file: BufferedFile, stations: &Rc<Stations>) {
        let info = self.ring.member_info(member).expect("it is a member of the ring");
        let state = &mut *self.state.borrow_mut();
        let drive = state.emulation.add(stations, info.size);
        let rotational = stations.platter.is_some();
        if member.place() >= state.members.len() {
            state.members.resize_with(member.place() + 1, || None);
        }
        state.members[member.place()] =
            Some(EmulatedMember { drive, rotational, file, tally: EmulatedTally::default() });
        files::wake_in_time();
    }

    /// How well a member has kept up since it was last asked; none of one that is not emulated.
    pub fn kept(&self, member: MemberId) -> Option<Punctuality> {
        let mut state = self.state.borrow_mut();
        let member = state.members.get_mut(member.place())?.as_mut()?;
        Some(member.tally.take())
    }
}

impl EmulatedState {
    /// Takes an operation on an emulated member: true if the ring is to carry it out.
    ///
    /// # Safety
    /// As [`Reactor::submit`].
    unsafe fn take(&mut self, ring: &Uring, member: MemberId, key: OpKey, op: OpView<'_>) -> bool {
        let Some(Some(emulated)) = self.members.get_mut(member.place()) else { return true };
        let came = ring.now().as_nanos().saturating_sub(self.late.min(CREDIT));
        self.emulation.ask(came, emulated.drive, key, op.kind, op.len);
        let result = match ring.admit(op.kind, op.len) {
            Err(error) => Some(Err(error)),
            // SAFETY: the caller's promise.
            Ok(()) => unsafe { emulated.file.carry_out(op) }.map(Ok),
        };
        let at = key.0 as usize;
        if at >= self.flights.len() {
            self.flights.resize_with(at + 1, || None);
        }
        let left = result.is_none();
        self.flights[at] = Some(Flight { member, came, result, due: None });
        self.under_way += 1;
        left
    }

    /// Collects the operations that are complete at `now`.
    fn collect(&mut self, now: u64, done: &mut Vec<Completion>) {
        for completion in core::mem::take(&mut self.completed) {
            match self.flights.get_mut(completion.key.0 as usize).and_then(Option::as_mut) {
                Some(flight) => {
                    flight.result = Some(completion.result);
                    self.finish(completion.key, now, done);
                }
                None => done.push(completion),
            }
        }
        let mut due = core::mem::take(&mut self.due);
        self.emulation.advance(now, &mut due);
        for (key, moment) in due.drain(..) {
            if let Some(flight) = &mut self.flights[key.0 as usize] {
                flight.due = Some(moment);
                self.finish(key, now, done);
            }
        }
        self.due = due;
    }

    fn finish(&mut self, key: OpKey, now: u64, done: &mut Vec<Completion>) {
        let at = key.0 as usize;
        let Some(Flight { member, came, result: Some(result), due: Some(due) }) = self.flights[at] else {
            return;
        };
        self.flights[at] = None;
        self.under_way -= 1;
        let late = now.saturating_sub(due);
        self.late = self.late.max(late);
        if let Some(Some(member)) = self.members.get_mut(member.place()) {
            member.tally.count(due.saturating_sub(came), late);
        }
        done.push(Completion { key, result });
    }
}

impl Emulated {
    /// Waits until something is over, or the moment has come.
    fn wait(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let before = done.len();
        loop {
            let state = &mut *self.state.borrow_mut();
            let now = self.ring.now().as_nanos();
            let next = [state.emulation.next(), until.map(Instant::as_nanos)].into_iter().flatten().min();
            let sleep = match next {
                _ if done.len() > before => Some(now),
                Some(next) if next.saturating_sub(now) > SPIN => Some(next - SPIN),
                Some(_) => Some(now),
                None => None,
            };
            self.ring.park(&mut state.completed, sleep.map(Instant::from_nanos));
            let woken = !state.completed.is_empty();
            let now = self.ring.now();
            state.collect(now.as_nanos(), done);
            let over = until.is_some_and(|until| now >= until);
            // An unpark ends the turn, even if nothing has completed.
            let unparked = !woken && sleep.is_none_or(|sleep| sleep > now.as_nanos());
            if done.len() > before || over || unparked {
                return;
            }
            core::hint::spin_loop();
        }
    }
}

// SAFETY: an operation is either the ring's alone, or has a flight. Of that the segments are touched by `carry_out` within `submit`,
// or by the ring, whose completion has come before the flight ends; the flight ends once, when its completion is handed over.
unsafe impl Reactor for Emulated {
    fn attach(&mut self) {
        self.ring.attach();
        let state = &mut *self.state.borrow_mut();
        state.flights.clear();
        (state.under_way, state.late) = (0, 0);
        state.emulation.forget();
    }

    fn detach(&mut self) {
        self.ring.detach();
    }

    fn register_arena(&mut self, arena: u32, memory: NonNull<[u8]>) {
        self.ring.register_arena(arena, memory);
    }

    fn unregister_arena(&mut self, arena: u32) {
        self.ring.unregister_arena(arena);
    }

    fn share(&mut self, memory: NonNull<[u8]>) {
        self.ring.share(memory);
    }

    fn unshare(&mut self, memory: NonNull<[u8]>) {
        self.ring.unshare(memory);
    }

    #[inline]
    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let state = &mut *self.state.borrow_mut();
        if !state.members.is_empty()
            && !matches!(op.kind, OpKind::Probe { .. } | OpKind::Map { .. })
            && let Some(member) = op.kind.member()
        {
            // SAFETY: the caller's promise.
            if !unsafe { state.take(&self.ring, member, key, op) } {
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.ring.submit(key, op) };
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let idle = {
            let mut state = self.state.borrow_mut();
            state.late = 0;
            state.under_way == 0
        };
        if idle {
            self.ring.park(done, until);
        } else {
            self.wait(done, until);
        }
    }

    fn now(&self) -> Instant {
        self.ring.now()
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        let info = self.ring.member_info(member)?;
        match self.state.borrow().members.get(member.place()) {
            Some(Some(emulated)) => Some(MemberInfo { rotational: emulated.rotational, ..info }),
            _ => Some(info),
        }
    }

    fn is_in_memory(&self, member: MemberId) -> bool {
        let emulated = matches!(self.state.borrow().members.get(member.place()), Some(Some(_)));
        !emulated && self.ring.is_in_memory(member)
    }

    fn close_socket(&mut self, socket: SocketId) {
        self.ring.close_socket(socket);
    }

    fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.ring.untaken(socket)
    }

    fn peer(&self, socket: SocketId) -> Option<core::net::IpAddr> {
        self.ring.peer(socket)
    }

    fn local(&self, socket: SocketId) -> Option<core::net::SocketAddr> {
        self.ring.local(socket)
    }

    fn release_socket(&mut self, socket: SocketId) -> Option<HandedSocket> {
        self.ring.release_socket(socket)
    }

    fn adopt_socket(&mut self, handed: HandedSocket) -> Option<SocketId> {
        self.ring.adopt_socket(handed)
    }

    /// Of members that are what they are alone: the model of a drive has one queue.
    fn hand_member(&self, member: MemberId) -> Option<HandedMember> {
        let is_emulated = matches!(self.state.borrow().members.get(member.place()), Some(Some(_)));
        if is_emulated { None } else { self.ring.hand_member(member) }
    }

    fn open_port(&mut self, handed: &HandedMember) -> Option<MemberId> {
        self.ring.open_port(handed)
    }

    fn close_port(&mut self, port: MemberId) {
        self.ring.close_port(port);
    }

    fn cancel_all(&mut self) {
        self.ring.cancel_all();
    }

    fn give_up(&mut self, key: OpKey) {
        // An operation that its file has carried out already is not in the ring.
        let flight = |state: &EmulatedState| {
            state.flights.get(key.0 as usize)?.as_ref().map(|flight| flight.result.is_some())
        };
        if flight(&self.state.borrow()) != Some(true) {
            self.ring.give_up(key);
        }
    }

    fn unpark(&self) -> Unpark {
        self.ring.unpark()
    }
}

impl core::fmt::Debug for Emulated {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Emulated").field("under_way", &self.state.borrow().under_way).finish_non_exhaustive()
    }
}
