//! Members in RAM, and null members that keep nothing: for tests, and to measure the engine itself.
//!
//! Operations on members are done as they are submitted; time is real. Sockets are pipes within the process.

mod device;
mod pipe;

use std::cell::{RefCell, RefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::bounce::SharedMemory;
use crate::op::{
    Completion, MemberId, MemberInfo, OpClass, OpError, OpKey, OpKind, OpView, PathTarget, Segment, SocketId,
};
use crate::reactor::{HandedDevice, HandedMember, Reactor, Unpark};
use crate::time::{Clock, Instant};
use device::{MISALIGNED, RamDevice};
pub(crate) use pipe::Pipes;

/// The memory reactor. A handle: cloning gives the same members, so that a test keeps one while [`crate::Io`] owns another.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<MemoryState>>);

struct MemoryState {
    clock: Clock,
    devices: Vec<RamDevice>,
    pipes: Pipes,
    done: Vec<Completion>,
    /// Some strikes are to come, a device hangs or transfers short, or others change memory.
    upset: bool,
    shared: SharedMemory,
    strikes: Vec<Strike>,
    /// Operations on members that hang.
    hung: Vec<Hung>,
    /// A caller's mistake: the next park panics with it. A panic in `submit` would leave the executor waiting for an
    /// operation that never came.
    bug: Option<String>,
    signal: Arc<Signal>,
    attached: bool,
}

/// An operation on a member that hangs.
struct Hung {
    key: OpKey,
    kind: OpKind,
    /// Valid until the completion, as [`Reactor::submit`] demands.
    segments: *const [Segment],
    len: u64,
    class: OpClass,
}

/// A fault to come.
struct Strike {
    operations: u64,
    member: MemberId,
    refuse: bool,
}

impl MemoryState {
    /// Injects the faults whose countdown is over.
    fn strike(&mut self) {
        let devices = &mut self.devices;
        self.strikes.retain_mut(|strike| {
            if strike.operations > 0 {
                strike.operations -= 1;
                return true;
            }
            let device = &mut devices[strike.member.place()];
            device.faulty = true;
            if strike.refuse {
                device.refuses_writes = true;
            } else {
                device.gone = true;
            }
            false
        });
    }

    #[inline]
    fn run(&mut self, key: OpKey, op: &OpView<'_>) {
        let at = op.kind.member().map_or(usize::MAX, MemberId::place);
        match self.devices.get_mut(at).map_or(Err(OpError::Gone), |device| device.run(op)) {
            Ok(moved) => self.done.push(Completion { key, result: Ok(moved) }),
            Err(error) => self.refuse(key, op, error),
        }
    }

    #[cold]
    fn refuse(&mut self, key: OpKey, op: &OpView<'_>, error: OpError) {
        if error == MISALIGNED {
            self.misaligned(op);
        }
        self.done.push(Completion { key, result: Err(error) });
    }

    fn misaligned(&mut self, op: &OpView<'_>) {
        let lengths: Vec<_> = op.segments.iter().map(|segment| segment.len).collect();
        let (kind, len) = (op.kind, op.len);
        self.bug =
            Some(format!("not aligned to logical blocks: {kind:?}, {len} bytes, memory of {lengths:?}"));
    }

    /// Runs an operation while something is wrong with some member.
    #[cold]
    fn run_upset(&mut self, key: OpKey, op: &OpView<'_>) {
        self.strike();
        let device = op.kind.member().and_then(|member| self.devices.get_mut(member.place()));
        match device {
            Some(device) if device.hangs && !device.gone => {
                self.hung.push(Hung {
                    key,
                    kind: op.kind,
                    segments: op.segments,
                    len: op.len,
                    class: op.class,
                });
            }
            Some(device) if device.short > 0 && op.len > u64::from(device.info.logical_block) => {
                device.short -= 1;
                let len = u64::from(device.info.logical_block);
                let first = op.segments.first().map(|first| Segment { base: first.base, len: len as usize });
                self.run_beside(key, &OpView { segments: first.as_slice(), len, ..*op });
            }
            _ => self.run_beside(key, op),
        }
    }

    /// Runs an operation whose memory others may be changing.
    fn run_beside(&mut self, key: OpKey, op: &OpView<'_>) {
        let Some(bounce) = self.shared.bounce(op.segments) else { return self.run(key, op) };
        self.run(key, &OpView { segments: bounce.segments(), ..*op });
        if let Some(Completion { result: Ok(moved), .. }) = self.done.last()
            && op.kind.fills()
        {
            bounce.store(*moved);
        }
    }

    /// Carries out the operations that a hanging member holds back.
    fn release(&mut self, member: MemberId) {
        let asked = self.hung.extract_if(.., |op| op.kind.member() == Some(member));
        for Hung { key, kind, segments, len, class } in asked.collect::<Vec<_>>() {
            // SAFETY: the operation has not completed, and the caller of `submit` keeps the array valid until then.
            let segments = unsafe { &*segments };
            self.run_beside(key, &OpView { kind, segments, len, arena: None, class });
        }
    }
}

#[derive(Default)]
struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// A reactor without members.
    pub fn new() -> Self {
        Self(Rc::new(RefCell::new(MemoryState {
            clock: Clock::start(),
            devices: Vec::new(),
            pipes: Pipes::default(),
            done: Vec::with_capacity(256),
            upset: false,
            shared: SharedMemory::default(),
            strikes: Vec::new(),
            hung: Vec::new(),
            bug: None,
            signal: Arc::default(),
            attached: false,
        })))
    }

    fn add(&self, device: RamDevice) -> MemberId {
        let devices = &mut self.0.borrow_mut().devices;
        devices.push(device);
        MemberId::device((devices.len() - 1) as u32)
    }

    /// A member of `bytes` bytes of zeroed RAM with 512-byte blocks.
    pub fn add_ram(&self, bytes: u64) -> MemberId {
        self.add(RamDevice::ram(bytes))
    }

    /// A member that takes everything and gives whatever the buffer held.
    pub fn add_null(&self, bytes: u64) -> MemberId {
        self.add(RamDevice::null(bytes))
    }

    /// Has a member count as [one in memory](crate::Io::is_in_memory), which those of this world stand for only if told: others
    /// stand for devices.
    pub fn set_in_memory(&self, member: MemberId) {
        self.0.borrow_mut().devices[member.place()].in_memory = true;
    }

    /// Sets the member's properties; the size stays.
    pub fn set_info(&self, member: MemberId, change: impl FnOnce(&mut MemberInfo)) {
        let info = &mut self.0.borrow_mut().devices[member.place()].info;
        let size = info.size;
        change(info);
        info.size = size;
    }

    /// Copies a RAM member's bytes at `offset` to `into`, beside the engine's back.
    ///
    /// # Panics
    /// If the range is not within a RAM member.
    pub fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        let state = self.0.borrow();
        let at = offset as usize;
        into.copy_from_slice(&state.devices[member.place()].bytes[at..at + into.len()]);
    }

    /// Changes a RAM member's bytes beside the engine's back: rot.
    ///
    /// # Panics
    /// If the range is not within a RAM member.
    pub fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        let mut state = self.0.borrow_mut();
        let at = offset as usize;
        state.devices[member.place()].bytes[at..at + from.len()].copy_from_slice(from);
    }

    /// A device that is healthy no more.
    fn make_faulty(&self, member: MemberId) -> RefMut<'_, RamDevice> {
        RefMut::map(self.0.borrow_mut(), |state| {
            let device = &mut state.devices[member.place()];
            device.faulty = true;
            device
        })
    }

    /// From now on every operation on the member fails with [`OpError::Gone`].
    pub fn kill(&self, member: MemberId) {
        self.make_faulty(member).gone = true;
    }

    /// The member is pulled: its size is 0, and the kernel's answers are taken for what they are then.
    pub fn pull(&self, member: MemberId) {
        let mut device = self.make_faulty(member);
        (device.gone, device.pulled) = (true, true);
    }

    /// Reads that touch `len` bytes at `offset` fail with [`OpError::Medium`] until the range has been written to.
    pub fn spoil(&self, member: MemberId, offset: u64, len: u64) {
        self.make_faulty(member).spoilt.push(offset..offset + len);
    }

    /// Reads that touch `len` bytes at `offset` fail with [`OpError::Medium`] from now on, though writes go well.
    pub fn wear_out(&self, member: MemberId, offset: u64, len: u64) {
        self.make_faulty(member).unwritable.push(offset..offset + len);
    }

    /// From now on every write to the member fails with [`OpError::Medium`]; reads go on.
    pub fn refuse_writes(&self, member: MemberId) {
        self.make_faulty(member).refuses_writes = true;
    }

    /// [`Memory::kill`] (or, with `refuse`, [`Memory::refuse_writes`]) strikes the member when `operations` more have
    /// been submitted to all members: just before the next one.
    pub fn strike_after(&self, operations: u64, member: MemberId, refuse: bool) {
        let state = &mut *self.0.borrow_mut();
        state.upset = true;
        state.strikes.push(Strike { operations, member, refuse });
    }

    /// From now on no operation on the member ends, until [`Memory::release`].
    pub fn hang(&self, member: MemberId) {
        let state = &mut *self.0.borrow_mut();
        state.upset = true;
        state.devices[member.place()].hangs = true;
    }

    /// The member hangs no more: what it was asked for meanwhile is done now.
    pub fn release(&self, member: MemberId) {
        let state = &mut *self.0.borrow_mut();
        state.devices[member.place()].hangs = false;
        state.release(member);
    }

    /// The member's next `count` transfers of more than a block move one block only.
    pub fn shorten(&self, member: MemberId, count: u64) {
        let state = &mut *self.0.borrow_mut();
        state.upset = true;
        state.devices[member.place()].short = count;
    }

    /// The member has `size` bytes from now on, as a file after `truncate`: what was beyond is gone, reads end there, and
    /// a write beyond it makes the member longer again, with a hole that reads as zeroes.
    ///
    /// # Panics
    /// If that is more than it began with.
    pub fn truncate(&self, member: MemberId, size: u64) {
        self.make_faulty(member).truncate(size);
    }

    /// Sets the answer of [`crate::Io::probe`] for the member's name.
    pub fn set_place(&self, member: MemberId, place: PathTarget) {
        self.0.borrow_mut().devices[member.place()].place = place;
    }

    /// Operations that the member has been given, reads and writes.
    pub fn op_counts(&self, member: MemberId) -> (u64, u64) {
        let state = self.0.borrow();
        let device = &state.devices[member.place()];
        (device.reads, device.writes)
    }

    /// A listening socket within the process.
    pub fn listen(&self) -> SocketId {
        self.0.borrow_mut().pipes.listen()
    }

    /// The ends of a pair of ports: what is sent to one comes to the other, message by message.
    pub fn ports(&self) -> [SocketId; 2] {
        self.0.borrow_mut().pipes.ports()
    }

    /// The client's end of a new connection to `listener`.
    pub fn connect(&self, listener: SocketId) -> SocketId {
        let state = &mut *self.0.borrow_mut();
        state.pipes.connect(listener, &mut state.done)
    }
}

// SAFETY: an operation on a member is done, and its completion noted once, within `submit`, or when it leaves the list
// of those that hang. A pipe takes the segments it keeps out of its state when it notes their operation's completion.
unsafe impl Reactor for Memory {
    fn attach(&mut self) {
        let attached = &mut self.0.borrow_mut().attached;
        assert!(!*attached, "the reactor has an executor: shut that down first");
        *attached = true;
    }

    fn detach(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.hung.clear();
        state.shared = SharedMemory::default();
        state.attached = false;
    }

    fn register_arena(&mut self, _: u32, _: NonNull<[u8]>) {}
    fn unregister_arena(&mut self, _: u32) {}

    fn share(&mut self, memory: NonNull<[u8]>) {
        let state = &mut *self.0.borrow_mut();
        state.upset = true;
        state.shared.add(memory);
    }

    fn unshare(&mut self, memory: NonNull<[u8]>) {
        self.0.borrow_mut().shared.remove(memory);
    }

    #[inline]
    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let state = &mut *self.0.borrow_mut();
        match op.kind {
            kind if kind.member().is_none() => {
                let bounce = state.shared.bounce(op.segments);
                if let Some(into) = state.pipes.submit(key, op, bounce, &mut state.done) {
                    state.pipes.pump_all(into, &mut state.done);
                }
            }
            _ if state.upset => state.run_upset(key, &op),
            _ => state.run(key, &op),
        }
    }

    /// # Panics
    /// If an operation was not aligned to its member's logical blocks: real devices refuse it.
    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let (signal, now) = {
            let state = &mut *self.0.borrow_mut();
            if let Some(bug) = state.bug.take() {
                panic!("{bug}");
            }
            if !state.done.is_empty() {
                done.append(&mut state.done);
                return;
            }
            (Arc::clone(&state.signal), state.clock.now())
        };
        if until.is_some_and(|until| until <= now) {
            return;
        }
        signal.wait(until.map(|until| until.since(now)));
    }

    fn now(&self) -> Instant {
        self.0.borrow().clock.now()
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.borrow().devices.get(member.place()).map(|device| device.info)
    }

    fn is_in_memory(&self, member: MemberId) -> bool {
        self.0.borrow().devices.get(member.place()).is_some_and(|device| device.in_memory)
    }

    /// Of null members alone: bytes in RAM are this thread's.
    fn hand_member(&self, member: MemberId) -> Option<HandedMember> {
        let state = self.0.borrow();
        let device = state.devices.get(member.place()).filter(|device| device.is_null())?;
        Some(HandedMember(HandedDevice::Null(device.info)))
    }

    fn open_port(&mut self, handed: &HandedMember) -> Option<MemberId> {
        let HandedDevice::Null(info) = handed.0 else { return None };
        let port = self.add_null(info.size);
        self.set_info(port, |own| *own = info);
        Some(port)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let state = &mut *self.0.borrow_mut();
        if let Some(peer) = state.pipes.close(socket, &mut state.done) {
            state.pipes.pump_all(peer, &mut state.done);
        }
    }

    fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.0.borrow().pipes.untaken(socket)
    }

    fn cancel_all(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.pipes.cancel_all(&mut state.done);
    }

    fn unpark(&self) -> Unpark {
        let signal = Arc::clone(&self.0.borrow().signal);
        Arc::new(move || signal.raise())
    }
}

impl Signal {
    fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait(&self, most: Option<std::time::Duration>) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if !*raised {
            raised = match most {
                Some(most) => {
                    self.changed.wait_timeout(raised, most).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(raised).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *raised = false;
    }
}
